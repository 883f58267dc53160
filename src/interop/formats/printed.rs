//! Texts that tools print, as the objects that they save: the tables of vLLM and SGLang, trtllm-bench's overviews,
//! LoadGen's logs.

use serde_json::{Map, Value, json};

use super::file_format::{FileFormat, ImportedNumbers, text_at};

/// The title of the tables that `vllm bench serve` and SGLang's `bench_serving` print.
pub(super) const TABLE: &str = " Serving Benchmark Result ";
/// Where trtllm-bench's result begins in what it prints.
pub(super) const OVERVIEW: &str = "= PERFORMANCE OVERVIEW";
/// The logs of LoadGen that are read, in the order in which they count. Both have the same numbers.
pub const LOADGEN_LOG_FILES: [&str; 2] = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];

/// A value that is printed next to a label of the format's table: its place, and the value where it is of the label's
/// kind.
fn labeled(rows: &[Vec<String>], label: &str, text: &str) -> Option<(String, Value)> {
    let percentile = |row: &str| ["50", "90", "95", "99"].into_iter().find(|p| row.replace('#', p) == label);
    let (row, percentile) = rows.iter().find_map(|row| Some((row, percentile(&row[0])?)))?;
    let text = text.trim();
    let value = match text.split_whitespace().next()?.parse::<f64>() {
        _ if row.len() > 2 => json!(text),
        Ok(number) if number.is_finite() => json!(number),
        Ok(_) if text == "inf" => json!(text),
        _ => return None,
    };
    Some((row[1].replace('#', percentile), value)).filter(|(_, value)| value != "None")
}

/// Sets the value at a place that is not set.
fn set(object: &mut Value, place: &str, value: Value) {
    let target = place.split('/').skip(1).fold(object, |object, step| &mut object[step]);
    if target.is_null() {
        *target = value;
    }
}

/// Each table of a text that vLLM or SGLang printed.
pub(super) fn serving_tables(text: &str) -> Vec<ImportedNumbers> {
    let numbers = |table: &Value| {
        let is_sglang = table.get("mean_e2e_latency_ms").is_some();
        let name = if is_sglang { "SGLang bench_serving, printed" } else { "vLLM bench serve, printed" };
        FileFormat::named(name).numbers(table, table)
    };
    tables(text).iter().map(numbers).collect()
}

/// The tables as the object that these tools save, with the settings that are printed above each.
fn tables(text: &str) -> Vec<Value> {
    let rows = &FileFormat::named("vLLM bench serve, printed").labels;
    let mut list = Vec::new();
    let (mut table, mut is_table) = (Map::new(), false);
    for line in text.lines() {
        // In a comment or a quotation, and after a bar of progress.
        let line = line.rsplit('\r').next().unwrap_or(line).trim_matches([' ', '\t', '#', '>']);
        if line.contains(TABLE) || is_table && line.len() > 20 && line.bytes().all(|byte| byte == b'=') {
            if is_table {
                list.push(Value::Object(std::mem::take(&mut table)));
            }
            is_table = line.contains(TABLE);
        } else if line.contains("Namespace(") {
            for (name, key) in [("model", "model_id"), ("backend", "backend"), ("dataset_name", "dataset_name")] {
                let value = [' ', '('].iter().find_map(|before| line.split_once(&format!("{before}{name}='")));
                if let Some((value, _)) = value.and_then(|(_, rest)| rest.split_once('\'')) {
                    table.insert(key.to_owned(), json!(value));
                }
            }
        } else if let Some((label, text)) = line.split_once(':')
            && let Some((place, value)) = labeled(rows, label, text)
        {
            table.insert(place.trim_start_matches('/').to_owned(), value);
        }
    }
    if is_table {
        list.push(Value::Object(table));
    }
    list
}

/// Each overview in what trtllm-bench printed, with anything before and after it. Lines may begin with the logger's
/// prefix.
pub(super) fn overviews(text: &str) -> Vec<ImportedNumbers> {
    let format = FileFormat::named("trtllm-bench PERFORMANCE OVERVIEW");
    let overview = |above: &str, below: &str| {
        let mut object = json!({});
        let mut read = |rows: &[Vec<String>], lines: &[&str]| {
            for row in rows {
                for percentile in if row[0].contains('#') { &["50", "90", "95", "99"][..] } else { &[""] } {
                    let label = row[0].replace('#', percentile);
                    let text = lines.iter().find_map(|line| Some(line.split_once(&label)?.1));
                    let value = text.and_then(|text| labeled(rows, &label, text.trim_start_matches([' ', ':'])));
                    if let Some((place, value)) = value {
                        set(&mut object, &place, value);
                    }
                }
            }
        };
        read(&format.settings, &above.lines().rev().collect::<Vec<_>>());
        read(&format.labels, &below.lines().collect::<Vec<_>>());
        format.numbers(&object, &object)
    };
    // The settings of an overview are above it, after the numbers of the previous one.
    let parts: Vec<&str> = text.split(OVERVIEW).collect();
    parts.windows(2).map(|parts| overview(parts[0], parts[1])).collect()
}

/// A log of LoadGen's run.
pub(super) enum LoadGenLog {
    Performance(Box<ImportedNumbers>),
    /// LoadGen measures nothing in it.
    Accuracy,
}

/// Reads a log of LoadGen; `None` if the text is not one.
pub(super) fn loadgen_log(text: &str) -> Option<LoadGenLog> {
    const MARK: &str = ":::MLLOG ";
    const TITLE: &str = "MLPerf Results Summary";
    /// The endings of the lines that a summary of an accuracy run consists of, with a count or `No` before them.
    const ACCURACY_ONLY: [&str; 2] = ["encountered during test.", "encountered. See detailed log."];
    let format = FileFormat::named("LoadGen log");
    let mut values = json!({});
    if text.starts_with(MARK) {
        // The first value of a key counts, as it does for the submission checker.
        let entries = text.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix(MARK)?).ok());
        for mut entry in entries {
            let Some(value) = entry.get_mut("value").map(Value::take) else { continue };
            let Some(key) = entry["key"].as_str().filter(|key| !key.contains('/')) else { continue };
            let place = labeled(&format.labels, key, "0").map_or_else(|| format!("/{key}"), |(place, _)| place);
            set(&mut values, &place, value);
        }
        if text_at(&values, "/effective_test_mode").as_deref() == Some("AccuracyOnly") {
            return Some(LoadGenLog::Accuracy);
        }
    } else if text.contains(TITLE) {
        for (label, text) in text.lines().filter_map(|line| line.split_once(':')) {
            if let Some((place, value)) = labeled(&format.labels, label.trim(), text) {
                set(&mut values, &place, value);
            }
        }
    } else {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
        let is_accuracy =
            lines.peek().is_some() && lines.all(|line| ACCURACY_ONLY.iter().any(|ending| line.ends_with(ending)));
        return is_accuracy.then_some(LoadGenLog::Accuracy);
    }
    Some(LoadGenLog::Performance(Box::new(format.numbers(&values, &values))))
}

#[cfg(test)]
mod tests;
