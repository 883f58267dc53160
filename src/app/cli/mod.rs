//! What was typed → what it means; and the exit codes.
//!
//! [`parse()`] reads a command line and gives an [`Invocation`] that needs no further checking, or a [`CliParseError`]
//! with what to print and the code to leave with. The module has no access to manifests, the store and runs: other
//! modules check whether a stage of that name exists. It reads no file; of the environment it reads `REGATTA_HOME`,
//! `GPU_TYPE` and, through the terminal library, `NO_COLOR`.

mod bench;
mod bench_args;
mod commands;
mod exit;
mod mlperf;
mod project;
mod results;
mod run;
mod simulation;
mod store;
mod triton;
mod values;

pub use self::mlperf::{AssembleOptions, ExaminationArgs, MlperfRequest};
pub use bench::{BenchLoad, BenchRequest, TokenLength};
pub use bench_args::{ArrivalsWord, BenchArgs, ServedWord, StreamWord};
pub use commands::{
    CliParseError, CliRequest, Global, Invocation, OutputVerbosity, color_of, command, completion_script, parse,
};
pub use exit::CliExit;
pub use project::{
    CheckFormat, CheckRequest, DoctorRequest, GcRequest, InitRequest, ListRequest, LogsRequest, ManualArgs,
    NullServerArgs, RunsRequest, SchemaRequest, SelftestRequest, ShowRequest, StatusRequest,
};
pub use results::{
    CompareRequest, ExplainRequest, ExportRequest, HistoryRequest, ImportRequest, ReportRequest, TagRequest,
};
pub use run::{BulkRequest, Force, PlanRequest, RunMode, RunRequest, Select, ServeRequest};
pub use simulation::{CalibrateRequest, SimRequest, SimulateRequest, WhatIfRequest};
pub use store::{LOCK_FILE, LockMode, LockRequest, LockStrictness, LockingArgs, StoreGc, StoreRequest, StoreSelection};
pub use triton::{Infer, RepositoryFill, RepositoryRequest, ServerArgs, TritonProtocol, TritonRequest, TritonUrl};
pub use values::{GpuSelection, KeyValueArg, Subject};
