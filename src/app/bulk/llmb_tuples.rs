//! llmb-run's older list: a header, then tuples as Python writes them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::error::{BulkFileError, TupleLineError};
use super::llmb::{LlmbJob, named};

/// Reads `workload_size:` and lines of `(dtypes, scales, repeats[, profile])`. Lines that begin with `#` are comments.
pub fn read(text: &str) -> Result<Vec<LlmbJob>, BulkFileError> {
    let mut jobs = Vec::new();
    let mut header: Option<(&str, &str)> = None;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let at = |error| BulkFileError::Line { line: number + 1, error };
        if line.is_empty() {
            header = None;
        } else if line.starts_with('#') {
        } else if let Some(name) = line.strip_suffix(':') {
            header = Some(named(name).ok_or_else(|| at(TupleLineError::Header(name.to_owned())))?);
        } else if let Some(inner) = line.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            let (workload, size) = header.ok_or_else(|| at(TupleLineError::NoHeader))?;
            jobs.extend(tuple(inner, workload, size).map_err(at)?);
        } else {
            return Err(at(TupleLineError::Unknown));
        }
    }
    Ok(jobs)
}

fn tuple(inner: &str, workload: &str, size: &str) -> Result<Vec<LlmbJob>, TupleLineError> {
    let Some(Value::Array(parts)) = literal(&format!("[{inner}]")) else { return Err(TupleLineError::Tuple) };
    let (dtypes, scales, repeats, profile) = match parts.as_slice() {
        [dtypes, scales, repeats] => (dtypes, scales, repeats, false),
        [dtypes, scales, repeats, Value::Bool(profile)] => (dtypes, scales, repeats, *profile),
        _ => return Err(TupleLineError::Tuple),
    };
    let dtypes: Vec<&str> = match dtypes {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().map(Value::as_str).collect::<Option<_>>().ok_or(TupleLineError::Tuple)?,
        _ => return Err(TupleLineError::Tuple),
    };
    let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
    let scales: Vec<u32> = match scales {
        Value::Array(many) => many.iter().map(number).collect::<Option<_>>().ok_or(TupleLineError::Tuple)?,
        one => vec![number(one).ok_or(TupleLineError::Tuple)?],
    };
    let repeats = number(repeats).ok_or(TupleLineError::Tuple)?;
    let extras: BTreeSet<&'static str> = profile.then_some("profile").into_iter().collect();
    let jobs = dtypes.iter().flat_map(|dtype| scales.iter().map(move |scale| (*dtype, *scale)));
    let jobs = jobs.map(|(dtype, scale)| LlmbJob {
        workload: workload.to_owned(),
        size: size.to_owned(),
        dtype: dtype.to_owned(),
        scale,
        repeats,
        extras: extras.clone(),
        env: std::collections::BTreeMap::new(),
    });
    Ok(jobs.collect())
}

/// Python's lists, texts, numbers and True/False, as JSON reads them.
fn literal(text: &str) -> Option<Value> {
    let mut json = String::with_capacity(text.len());
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => {
                quote = None;
                json.push('"');
            }
            (Some(_), '"' | '\\') => return None,
            (None, '\'' | '"') => {
                quote = Some(c);
                json.push('"');
            }
            (None, '(') => json.push('['),
            (None, ')') => json.push(']'),
            (_, c) => json.push(c),
        }
    }
    let json = if quote.is_some() { return None } else { json.replace("True", "true").replace("False", "false") };
    // Python allows a comma after the last element, JSON does not.
    let mut tidy = String::with_capacity(json.len());
    for part in json.split_inclusive(']') {
        match part.strip_suffix(']') {
            Some(list) => {
                tidy.push_str(list.trim_end().trim_end_matches(','));
                tidy.push(']');
            }
            None => tidy.push_str(part),
        }
    }
    serde_json::from_str(&tidy).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tuples_are_jobs() {
        let text = "pretrain_nemotron4_340b:\n(['bf16','fp8'], [128, 256,], 2)\n# True enables profiling\n('fp8', [512], 1, True)\n\ninference_llama3.3_70b:\n(\"nvfp4\", (1,), 1)";
        let jobs = read(text).unwrap();
        let lines: Vec<String> = jobs
            .iter()
            .map(|job| {
                format!("{} {} {} x{} ×{} {:?}", job.workload, job.size, job.dtype, job.scale, job.repeats, job.extras)
            })
            .collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        pretrain_nemotron4 340b bf16 x128 ×2 {}
        pretrain_nemotron4 340b bf16 x256 ×2 {}
        pretrain_nemotron4 340b fp8 x128 ×2 {}
        pretrain_nemotron4 340b fp8 x256 ×2 {}
        pretrain_nemotron4 340b fp8 x512 ×1 {"profile"}
        inference_llama3.3 70b nvfp4 x1 ×1 {}
        "#);
    }

    #[test]
    fn errors_name_their_line() {
        assert!(read("('fp8', [1], 1)").unwrap_err().to_string().starts_with("line 1: there is no"));
        assert!(read("a_7b:\n('fp8', [1])").unwrap_err().to_string().starts_with("line 2: write ("));
        assert!(read("a_7b:\n('fp8', [1], 1) # why").unwrap_err().to_string().starts_with("line 2: this is neither"));
        assert!(read("a_7x:\n").unwrap_err().to_string().starts_with("line 1: `a_7x`"));
    }

    proptest! {
        #[test]
        fn no_text_makes_a_reader_of_lists_panic(text in "[a-z_0-9:()\\[\\]',\"True\n# ]{0,60}") {
            let _ = read(&text);
            let _ = super::super::llmb::read(&text);
            let _ = super::super::regatta_list::read(&text);
        }
    }
}
