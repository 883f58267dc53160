//! A Triton with a TensorRT-LLM engine that needs no GPU: the same files, the same protocol, simulated time.
//!
//! One discrete-event core, two clocks: virtual ([`simulate`]) and real ([`serve()`]). Step times come from data sheets
//! and from coefficients that [`calibrate()`] fits to the step logs of real servers; a result of either is a model,
//! never a measurement. Never prints, never starts a process.
//!
//! ```text
//!  data sheets, step logs ─→ step times ─→ core: batches of SimulatedRequest ─→ VirtualRun, in virtual time
//!                                                  └ serve: the protocols of real servers, in real time
//! ```

mod calibrate;
mod core;
mod engine;
mod ground_truth;
mod random;
mod serve;
mod timing;
mod virtual_load;

pub use self::core::{
    Chunking, EngineLimits, NeverFits, SchedulerPolicy, Served, SimulatedRequest, VirtualRun, simulate,
};
pub use calibrate::{CalibrationTarget, FittedStep, LoggedStep, RegionError, StepTimeFit, calibrate, read_step_log};
pub use engine::{
    EngineServing, EngineSpec, RankFile, load as load_engine, served_limits, simulated, write as write_engine,
};
pub use ground_truth::{GroundTruth, GroundTruthServer, ResponsePattern, ResponseScript};
pub use serve::{Addresses, Faults, LoadFailure, ServeError, SimOptions, serve, token};
pub use timing::{
    Coefficients, GpuMemory, GpuTiming, LoraCost, ModelOnGpus, Parallelism, Precision, Speculation, StepTimeBasis,
    derive,
};
pub use virtual_load::{
    Capacity, CapacityError, UnknownMetric, VirtualBenchmark, VirtualResult, VirtualWorkload, is_in_virtual_time,
    with_users,
};
