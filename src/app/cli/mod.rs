//! What was typed → what it means; and the exit codes.
//!
//! [`parse()`] reads a command line and gives an [`Invocation`] that needs no further checking, or a [`CliParseError`] with what
//! to print and the code to leave with. The module has no access to manifests, the store and runs: other modules check whether
//! a stage of that name exists. It reads no file; of the environment it reads `REGATTA_HOME`, `GPU_TYPE`, `REGATTA_COMPLETE` and,
//! through the terminal library, `NO_COLOR`.

mod args;
mod argument_error;
mod bench;
mod bench_args;
mod bench_notices;
mod bench_target;
mod bulk;
mod common_args;
mod completion;
mod exit;
mod force;
mod gpu_selection;
mod help;
mod history;
mod key_value_arg;
mod lock;
mod mlperf;
mod on_args;
mod parse;
mod quantity_arg;
mod request;
mod request_options;
mod result_args;
mod run_mode;
mod serve;
mod simulation;
mod store;
mod triton;
mod value_error;

pub use bench::{BenchLoad, BenchRequest, BenchServer, TokenLength};
pub use completion::{Offer, Offers, complete, completion_script};
pub use exit::CliExit;
pub use gpu_selection::GpuSelection;
pub use history::{HistoryRequest, TagRequest};
pub use key_value_arg::KeyValueArg;
pub use lock::{LOCK_FILE, LockMode, LockRequest, LockStrictness};
pub use mlperf::{AssembleOptions, ForeignLogs, ForeignLogsError, MlperfRequest, PasswordSource, PasswordSourceError};
pub use parse::{CliParseError, command, parse};
pub use request::{
    BalancerPolicy, BulkRequest, CalibrateRequest, CalibratedScheduler, CheckFormat, CheckRequest, CliRequest, Color,
    CompareRequest, DoctorRequest, EventFormat, ExplainRequest, ExportRequest, FleetRequest, Force, GcRequest, Global,
    ImportRequest, InitRequest, Invocation, ListRequest, LogsRequest, OutputVerbosity, PlanFormat, PlanRequest,
    ProvenanceRequest, ReportRequest, RepositoryFill, RepositoryRequest, RunRequest, RunTarget, RunsRequest,
    SchemaRequest, Select, SelftestRequest, ServeRequest, Shell, ShowRequest, SimulateRequest, StatusRequest,
    WhatIfRequest,
};
pub use store::{StoreAction, StoreGc, StoreRequest, StoreSelection};
pub use triton::{Infer, TritonAction, TritonProtocol, TritonRequest, TritonUrl};
