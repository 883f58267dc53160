//! `result.json`, `requests.jsonl`, `server-metrics.jsonl` and `gpu.jsonl`, and the schema of the first.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;

use crate::harness::schedule::plan::{self, PLAN};
use crate::harness::{HarnessError, Measured, RunResult};

const RESULT: &str = "result.json";
const REQUESTS: &str = "requests.jsonl";
const SERVER_METRICS: &str = "server-metrics.jsonl";
const GPU: &str = "gpu.jsonl";

/// Writes them into `dir`, which exists: the servers' metrics and their GPUs' where there are any, the result last. Requests are one JSON
/// object a line, by index, stamps in ns from the start.
pub fn write(dir: &Path, measured: &Measured) -> Result<(), HarnessError> {
    put(&dir.join(REQUESTS), |out| {
        for record in &measured.requests {
            serde_json::to_writer(&mut *out, record)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })?;
    plan::write(&dir.join(PLAN), &measured.schedule)?;
    amend(dir, measured)
}

/// Writes the side data of a measurement that another process wrote, and its result again.
pub fn amend(dir: &Path, measured: &Measured) -> Result<(), HarnessError> {
    if let Some(scrape) = &measured.scrape {
        put(&dir.join(SERVER_METRICS), |out| scrape.lines(measured.zero).try_for_each(|line| writeln!(out, "{line}")))?;
    }
    if let Some(gpu) = &measured.gpu {
        put(&dir.join(GPU), |out| gpu.lines().try_for_each(|line| writeln!(out, "{line}")))?;
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

fn put(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) -> Result<(), HarnessError> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        fill(&mut out)?;
        out.flush()
    };
    write().map_err(|source| HarnessError::System { what: format!("cannot write {}", path.display()), source })
}

/// Reads a `result.json`.
pub fn read_result(path: &Path) -> Result<RunResult, HarnessError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| HarnessError::System { what: format!("cannot read {}", path.display()), source })?;
    let wrong = |why: String| HarnessError::Format { path: path.display().to_string(), why };
    let result: RunResult = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    if result.schema != super::result::SCHEMA {
        return Err(wrong(format!("schema is {}, known is {}", result.schema, super::result::SCHEMA)));
    }
    Ok(result)
}

/// The JSON Schema of `result.json` as this version writes it; it reads less, for results of other versions.
pub fn result_schema() -> serde_json::Value {
    // A default is what a reader takes where nothing is written.
    let without_defaults = RecursiveTransform(|schema: &mut Schema| {
        schema.remove("default");
    });
    let settings = SchemaSettings::default().for_serialize().with_transform(without_defaults);
    settings.into_generator().into_root_schema_for::<RunResult>().to_value()
}

#[cfg(test)]
mod tests {
    /// `UPDATE=1 cargo test` writes it anew.
    #[test]
    fn the_schema_in_the_repository_is_that_of_the_types() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas/result.json");
        let now = format!("{:#}\n", super::result_schema());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &now).unwrap();
        }
        // Not assert_eq!: it would print both texts whole.
        assert!(std::fs::read_to_string(&path).unwrap() == now, "regenerate with UPDATE=1");
    }
}
