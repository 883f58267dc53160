//! One benchmark at several levels: which level is measured next, and what all points show together. Pure.
//!
//! ```text
//!  SweepPlan ─next(points so far)→ SweepStep ─measured elsewhere→ SweepPoint ─…→ SweepReport: order, knee, front
//! ```

mod gather;
mod plan;
mod point;
mod report;

pub use gather::{GatheredResult, gather as gather_sweeps};
pub use plan::{PointRole, SweepLevel, SweepPlan, SweepStep};
pub use point::{LatencySummary, MeasuredNumber, SweepPoint};
pub use report::{
    GpuCount, KNEE_DEFINITION, Knee, KneeState, SWEEP, SWEEP_POINTS, SweepOrigin, SweepReport, sweep_schema,
};
