//! What step times rest on, and how far published results were from what they give.

use std::fmt;

use super::Precision;
use base::spec::{ModelShape, SimCalibration, SimScheduler};

/// Experts of Mixtral's layers: no published result of a model with more and smaller ones was fitted.
const MOST_FITTED_EXPERTS: u32 = 8;

/// What the step times of an engine rest on. Later ones are further from what was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepTimeBasis {
    /// Fitted to these results of this GPU.
    Fitted { source: String },
    /// Fitted to results of this GPU, which is of the same generation.
    CarriedOver { gpu: String },
    /// Fitted to the step log of this server, vLLM's, by `regatta sim calibrate`.
    StepLog { source: String },
    /// Fitted to a step log of a model of another size.
    OtherModel { source: String },
    /// The data sheet's numbers, and assumed shares of them.
    Assumed,
    /// The same, where the shares of a mixture of experts, or of 4 bits, were fitted to nothing.
    AssumedKernels,
}

impl StepTimeBasis {
    /// Of a model whose weights have this precision; `None`: one that is not known.
    pub fn new(model: &ModelShape, precision: Option<Precision>, calibration: &SimCalibration) -> Self {
        let has_fit = |total| calibration.experts.is_some() && total <= MOST_FITTED_EXPERTS;
        let lacks_experts = model.experts().is_some_and(|(total, _)| !has_fit(total));
        let lacks_fp4 = precision == Some(Precision::Fp4) && calibration.compute_fp4.is_none();
        match &calibration.carried_from {
            _ if lacks_experts || lacks_fp4 => Self::AssumedKernels,
            _ if calibration.source.is_empty() => Self::Assumed,
            None if calibration.scheduler == SimScheduler::Vllm => {
                let scaled = calibration.host.map(|host| format!(", its host's times × {host}"));
                let source = [calibration.source.as_str(), scaled.as_deref().unwrap_or_default()].concat();
                // Models of one shape may count their embeddings once or twice.
                let differs = |of_log: u64| model.parameters.abs_diff(of_log) > of_log / 10;
                let is_other = calibration.parameters.is_some_and(differs);
                if is_other { Self::OtherModel { source } } else { Self::StepLog { source } }
            }
            None => Self::Fitted { source: calibration.source.clone() },
            Some(gpu) => Self::CarriedOver { gpu: gpu.clone() },
        }
    }

    /// In one word or two.
    pub const fn name(&self) -> &'static str {
        self.class().0
    }

    /// Its name, and how far from the simulated tokens per second results were that no number here was fitted to: nine
    /// of ten published MLPerf results (`it simulator::truth`), and all loads that were measured with vLLM 0.24 (`it
    /// simulator::calibration`; both tables are on the manual's page on simulation). Where no kernel was fitted, the
    /// answer is an order of magnitude.
    const fn class(&self) -> (&'static str, f64) {
        match self {
            Self::StepLog { .. } => ("step log", 0.1),
            Self::Fitted { .. } => ("fitted", 0.15),
            Self::CarriedOver { .. } => ("carried over", 0.2),
            Self::OtherModel { .. } => ("another model's step log", 0.35),
            Self::Assumed => ("assumed", 0.35),
            Self::AssumedKernels => ("kernels assumed", 1.0),
        }
    }

    /// Between which shares of the simulated tokens per second results are.
    pub const fn band(&self) -> (f64, f64) {
        let (_, share) = self.class();
        (1.0 - share, 1.0 + share)
    }

    /// As a column has it: `fitted ±15 %`.
    pub fn with_band(&self) -> String {
        let (name, share) = self.class();
        format!("{name} ±{:.0} %", share * 100.0)
    }
}

impl fmt::Display for StepTimeBasis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fitted { source } => write!(f, "fitted to {source}"),
            Self::StepLog { source } | Self::OtherModel { source } => {
                write!(f, "fitted to the step log of {source}; another host's CPU has another TTFT (calibration.host)")
            }
            Self::CarriedOver { gpu } => write!(f, "carried over from {gpu}, a GPU of the same generation"),
            Self::Assumed => f.write_str("assumed from the data sheet, not fitted"),
            Self::AssumedKernels => f.write_str("kernels assumed: what experts or 4 bits reach was fitted to nothing"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::llama_8b;
    use super::*;

    #[test]
    fn a_part_without_a_fit_decides() {
        let fitted = SimCalibration { source: "rows".to_owned(), experts: Some(0.3), ..SimCalibration::default() };
        let carried = SimCalibration { carried_from: Some("H200".to_owned()), ..fitted.clone() };
        let dense = llama_8b();
        let mixture = ModelShape { num_experts: Some(8), experts_per_token: Some(2), ..dense.clone() };
        let bare = SimCalibration::default();
        let name = |model, precision, calibration| StepTimeBasis::new(model, Some(precision), calibration).name();
        assert_eq!(name(&dense, Precision::Fp8, &fitted), "fitted");
        assert_eq!(name(&mixture, Precision::Fp8, &carried), "carried over");
        assert_eq!(name(&dense, Precision::Fp4, &fitted), "kernels assumed");
        assert_eq!(name(&mixture, Precision::Fp8, &bare), "kernels assumed");
        assert_eq!(name(&dense, Precision::Fp8, &bare), "assumed");
        let parameters = Some(8_030_261_248);
        let logged = SimCalibration { scheduler: SimScheduler::Vllm, parameters, experts: None, ..fitted.clone() };
        let large = ModelShape { parameters: 70_553_706_496, ..dense.clone() };
        assert_eq!(name(&dense, Precision::Bf16, &logged), "step log");
        assert_eq!(name(&large, Precision::Bf16, &logged), "another model's step log");
    }

    #[test]
    fn a_band_is_of_percent() {
        assert_eq!(StepTimeBasis::Assumed.with_band(), "assumed ±35 %");
        assert_eq!(StepTimeBasis::AssumedKernels.with_band(), "kernels assumed ±100 %");
    }
}
