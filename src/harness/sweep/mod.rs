//! One benchmark at several levels: which level is measured next, and what all points show together. Pure.
//!
//! ```text
//!  SweepPlan ─next(points so far)→ SweepStep ─measured elsewhere→ SweepPoint ─…→ SweepReport: order, knee, front
//! ```

mod front;
mod gather;
mod knee;
mod level;
mod plan;
mod point;
mod report;

pub use gather::{GatheredResult, gather as gather_sweeps};
pub use knee::{Knee, KneeState};
pub use level::{PointRole, SweepLevel};
pub use plan::{SweepPlan, SweepStep};
pub use point::{LatencySummary, MeasuredNumber, SweepPoint};
pub use report::{GpuCount, SWEEP, SWEEP_POINTS, SweepError, SweepOrigin, SweepReport, sweep_schema};
