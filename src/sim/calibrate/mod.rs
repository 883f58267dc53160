//! Fits the coefficients of the step time to the step log of a real server.
//!
//! Door: [`read_step_log`], [`calibrate`]. The fit is a non-negative least squares of relative errors over a handful of
//! coefficients ([`base::spec::SimCalibration`]); it has no factor for a row. Half of the log's loads are held out to see what the fit is
//! worth on loads that it has not seen.

mod fit;
mod least_squares;
mod observations;
mod step_log;

pub use fit::{CalibrationError, CalibrationTarget, FittedStep, RegionError, StepTimeFit, calibrate};
pub use step_log::{LoggedStep, StepLogError, read_step_log};
