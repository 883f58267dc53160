//! Files in the formats of other tools, made from Regatta's requests with *their* definitions.
//!
//! What cannot be known from a run is left out of the files and named in [`Exported::left_out`]; nothing is invented.

use super::export_error::ExportError;
use super::parquet;
use crate::metrics::MeasuredRun;
use crate::results::exported::Exported;
use crate::{aiperf, genai_perf, perf_analyzer, vllm};
use harness::RequestRecord;

/// The file format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    GenAiPerf,
    AiPerf,
    Vllm,
    PerfAnalyzer,
    /// Regatta's own requests as columns.
    Parquet,
}

impl ExportFormat {
    pub const ALL: [Self; 5] = [Self::GenAiPerf, Self::AiPerf, Self::Vllm, Self::PerfAnalyzer, Self::Parquet];

    pub const fn name(self) -> &'static str {
        match self {
            Self::GenAiPerf => "genai-perf",
            Self::AiPerf => "aiperf",
            Self::Vllm => "vllm",
            Self::PerfAnalyzer => "perf-analyzer",
            Self::Parquet => "parquet",
        }
    }
}

/// `records` are the source of `run`.
pub fn export(
    measured_run: &MeasuredRun,
    records: &[RequestRecord],
    shape: ExportFormat,
) -> Result<Exported, ExportError> {
    let mut out = Exported::default();
    let runs = measured_run.result.runs();
    if runs > 1 {
        out.without(format!("runs 2 to {runs} of {runs}: requests and numbers are those of run 1"));
    }
    match shape {
        ExportFormat::GenAiPerf => {
            genai_perf::export::write(measured_run, &mut out);
            perf_analyzer::export::write(measured_run, &mut out);
        }
        ExportFormat::AiPerf => aiperf::export::write(measured_run, &mut out),
        ExportFormat::Vllm => vllm::export::write(measured_run, &mut out),
        ExportFormat::PerfAnalyzer => perf_analyzer::export::write(measured_run, &mut out),
        ExportFormat::Parquet => parquet::write(measured_run, records, &mut out)?,
    }
    Ok(out)
}
