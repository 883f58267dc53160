//! The files of a run, and the schema of its result.

use std::fs::File;
use std::io;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;

use crate::schedule::plan;
use crate::schedule::plan::PLAN;
use crate::{HarnessError, Measured, RequestRecord, ResultFormatError, RunResult};
use base::files::{RecordLines, open_regular, read_document};
use base::spec::schema_id;

/// The result of a run.
pub const RESULT: &str = "result.json";
/// Its request records, one a line.
pub const REQUESTS: &str = "requests.jsonl";
const SERVER_METRICS: &str = "server-metrics.jsonl";
/// What its GPUs did, one reading a line.
pub const GPU_READINGS: &str = "gpu.jsonl";
/// What a run leaves beside its result; the last two only where they were read.
pub const RUN_FILES: [&str; 4] = [REQUESTS, PLAN, SERVER_METRICS, GPU_READINGS];

/// Writes them into `dir`, which exists: the servers' metrics and their GPUs' where there are any, the result last.
/// Requests are one JSON object a line, by index, stamps in ns from the start.
pub fn write(dir: &Path, measured: &Measured) -> Result<(), HarnessError> {
    put(&dir.join(REQUESTS), |out| {
        for record in measured.requests.borrowed() {
            serde_json::to_writer(&mut *out, &record)?;
            out.write_all(b"\n")?;
        }
        measured.requests.check()
    })?;
    put(&dir.join(PLAN), |out| plan::write(out, &measured.schedule))?;
    amend(dir, measured)
}

/// Writes the side data of a measurement that another process wrote, and its result again.
pub fn amend(dir: &Path, measured: &Measured) -> Result<(), HarnessError> {
    if let Some(scrape) = &measured.scrape {
        put(&dir.join(SERVER_METRICS), |out| scrape.lines(measured.zero).try_for_each(|line| writeln!(out, "{line}")))?;
    }
    if let Some(gpu) = &measured.gpu {
        put(&dir.join(GPU_READINGS), |out| gpu.lines().try_for_each(|line| writeln!(out, "{line}")))?;
    }
    write_result(dir, &measured.result)
}

/// Writes a result alone.
pub fn write_result(dir: &Path, result: &RunResult) -> Result<(), HarnessError> {
    put(&dir.join(RESULT), |out| {
        serde_json::to_writer_pretty(&mut *out, result)?;
        out.write_all(b"\n")
    })
}

fn put(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), HarnessError> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.flush()
    };
    write().map_err(HarnessError::system(format!("cannot write {}", path.display())))
}

// Only here: another crate that read or wrote a result would compile the code of all its parts once more.
impl RunResult {
    /// # Errors
    /// The text lacks what makes it a `result.json`, or a value has another type.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }

    pub fn json(&self) -> serde_json::Result<serde_json::Value> {
        serde_json::to_value(self)
    }
}

/// Reads a `result.json`.
pub fn read_result(path: &Path) -> Result<RunResult, HarnessError> {
    let text = read_document(path).map_err(HarnessError::system(format!("cannot read {}", path.display())))?;
    let wrong = |source: ResultFormatError| HarnessError::Format { path: path.to_owned(), source };
    let result = RunResult::from_json(&text).map_err(|error| wrong(error.into()))?;
    if result.schema != super::result::SCHEMA {
        return Err(wrong(ResultFormatError::Schema { found: result.schema, known: super::result::SCHEMA }));
    }
    Ok(result)
}

/// Reads the records of a file that has one a line, with no more than one of them in memory.
pub fn read_records<T: DeserializeOwned>(path: &Path, mut take: impl FnMut(T)) -> Result<(), HarnessError> {
    let unreadable =
        |place: &str, source| HarnessError::system(format!("cannot read {}{place}", path.display()))(source);
    let (file, _) = open_regular(path).map_err(|source| unreadable("", source))?;
    let mut lines = RecordLines::new(BufReader::with_capacity(1 << 20, file));
    while let Some((number, line)) = lines.next_line().map_err(|source| unreadable("", source))? {
        let record = serde_json::from_slice(line).map_err(io::Error::from);
        take(record.map_err(|source| unreadable(&format!(", line {number}"), source))?);
    }
    Ok(())
}

/// The first `count` request records beside a result; none where they cannot be read.
pub fn first_requests(folder: &Path, count: usize) -> Vec<RequestRecord> {
    let Ok((file, _)) = open_regular(&folder.join(REQUESTS)) else { return Vec::new() };
    let mut lines = RecordLines::new(BufReader::new(file));
    std::iter::from_fn(|| serde_json::from_slice(lines.next_line().ok()??.1).ok()).take(count).collect()
}

/// The JSON Schema of `result.json` as this version writes it; it reads less, for results of other versions.
pub fn result_schema() -> serde_json::Value {
    schema_of::<RunResult>("result")
}

/// The JSON Schema of `NAME.json` as this version writes it.
pub(crate) fn schema_of<T: JsonSchema>(name: &str) -> serde_json::Value {
    // A default is what a reader takes where nothing is written.
    let without_defaults = RecursiveTransform(|schema: &mut Schema| {
        schema.remove("default");
    });
    let settings = SchemaSettings::default().for_serialize().with_transform(without_defaults);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    schema["$id"] = schema_id(name).into();
    schema
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{RequestEnd, RunResult, VerdictCheck};
    use base::event::Verdict;

    /// The golden result has the keys of the first version.
    #[test]
    fn keys_and_names_of_an_earlier_version_are_read_and_unknown_ones_are_kept() {
        let text = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut file: serde_json::Value = serde_json::from_str(text).unwrap();
        file["counts"]["lost"] = json!(7);
        file["counts"]["withdrawn"] = json!(8);
        file["latency"]["ttft"]["zero_point"] = json!("user_free");
        file["reasons"][0]["check"] = json!("moon");
        file["of_another_version"] = json!({ "a": 1 });
        let result: RunResult = serde_json::from_str(&file.to_string()).unwrap();
        assert_eq!((result.requested.model.as_str(), result.tokens.output_requested), ("tensorrt_llm", 74));
        assert_eq!((result.counts.not_sent, result.counts.cancelled_early), (7, 8));
        assert_eq!(result.latency.ttft.zero_point, "user_idle");
        assert_eq!(result.verdict(), Verdict::ValidWithWarnings);
        assert_eq!(result.reasons()[0].check, VerdictCheck::Other("moon".to_owned()));
        let written = serde_json::to_value(&result).unwrap();
        assert_eq!(written["of_another_version"], json!({ "a": 1 }));
        assert!(written["requested"].is_object() && written.get("asked").is_none());
        assert_eq!(serde_json::from_str::<RequestEnd>("\"withdrawn\"").unwrap(), RequestEnd::CancelledEarly);
    }

    #[test]
    fn records_are_read_line_by_line_and_only_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.jsonl");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut numbers: Vec<u8> = Vec::new();
            super::read_records(&path, |number| numbers.push(number)).map(|()| numbers).map_err(|e| e.to_string())
        };
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!((read("1\n2\n"), read("1\n2")), (Ok(vec![1, 2]), Ok(vec![1, 2])));
        let error = read("1\n{").unwrap_err();
        assert!(error.starts_with(&format!("cannot read {}, line 2: ", path.display())), "{error}");
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(super::read_records(&path, |_: u8| {}).unwrap_err().to_string().contains("it is a pipe"));
    }

    /// `UPDATE=1 cargo test` writes it anew.
    #[test]
    fn the_schema_in_the_repository_is_that_of_the_types() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas/result.json");
        let now = format!("{:#}\n", super::result_schema());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        // Not assert_eq!: it would print both texts whole.
        assert!(std::fs::read_to_string(&path).unwrap() == now, "regenerate with UPDATE=1");
    }
}
