//! Files in the formats of other tools, made from Regatta's requests with *their* definitions.
//!
//! What cannot be known from a run is left out of the files and named in [`Exported::left_out`]; nothing is invented.

use super::export_error::ExportError;
use super::{parquet, timeslices};
use crate::metrics::MeasuredRun;
use crate::results::exported::Exported;
use crate::{aiperf, benchmark_report, genai_perf, mlflow, perf_analyzer, vllm};
use harness::RequestRecord;

/// The file format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    GenAiPerf,
    AiPerf,
    Vllm,
    PerfAnalyzer,
    BenchmarkReport,
    Mlflow,
    /// Regatta's own requests as columns.
    Parquet,
    /// Regatta's own seconds as rows.
    Timeslices,
}

impl ExportFormat {
    pub const ALL: [Self; 8] = [
        Self::GenAiPerf,
        Self::AiPerf,
        Self::Vllm,
        Self::PerfAnalyzer,
        Self::BenchmarkReport,
        Self::Mlflow,
        Self::Parquet,
        Self::Timeslices,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::GenAiPerf => "genai-perf",
            Self::AiPerf => "aiperf",
            Self::Vllm => "vllm",
            Self::PerfAnalyzer => "perf-analyzer",
            Self::BenchmarkReport => "benchmark-report",
            Self::Mlflow => "mlflow",
            Self::Parquet => "parquet",
            Self::Timeslices => "timeslices",
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
    if runs > 1 && shape != ExportFormat::Mlflow {
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
        ExportFormat::BenchmarkReport => benchmark_report::export::write(measured_run, &mut out),
        ExportFormat::Mlflow => mlflow::export::write(measured_run, &mut out),
        ExportFormat::Parquet => parquet::write(measured_run, records, &mut out)?,
        ExportFormat::Timeslices => timeslices::write(measured_run, records, &mut out),
    }
    Ok(out)
}
