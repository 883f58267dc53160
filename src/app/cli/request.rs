//! What it means: a request in which every combination that can be written down makes sense.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::ValueEnum;
pub use clap_complete::Shell;

use super::bench::BenchRequest;
use super::gpu_selection::GpuSelection;
use super::history::{HistoryRequest, TagRequest};
use super::key_value_arg::KeyValueArg;
use super::lock::{LockMode, LockRequest};
use super::mlperf::MlperfRequest;
use super::store::{StoreRequest, StoreSelection};
use super::triton::TritonRequest;

/// One invocation of `regatta`.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    pub global: Global,
    pub request: CliRequest,
}

/// What every command honors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// The state folder, as given: a relative one is relative to the current folder.
    pub home: PathBuf,
    pub color: Color,
    pub loudness: OutputVerbosity,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    /// The same for the terminal library, whose `Auto` honors `NO_COLOR`, `CLICOLOR` and dumb terminals.
    pub const fn choice(self) -> anstream::ColorChoice {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OutputVerbosity {
    Quiet,
    Normal,
    /// How many `-v`.
    Verbose(u8),
}

#[derive(Clone, Debug, PartialEq)]
pub enum CliRequest {
    Run(RunRequest),
    Serve(ServeRequest),
    Bulk(BulkRequest),
    Bench(Box<BenchRequest>),
    Plan(PlanRequest),
    Doctor(DoctorRequest),
    Lock(LockRequest),
    Check(CheckRequest),
    Show(ShowRequest),
    List(ListRequest),
    Schema(SchemaRequest),
    Init(InitRequest),
    /// The program's name alone.
    Welcome,
    Status(StatusRequest),
    Runs(RunsRequest),
    History(HistoryRequest),
    Tag(TagRequest),
    Logs(LogsRequest),
    /// `true` does it, `false` prints what would be removed.
    Clean {
        yes: bool,
    },
    Gc(GcRequest),
    Store(StoreRequest),
    Simulate(SimulateRequest),
    Calibrate(CalibrateRequest),
    WhatIf(WhatIfRequest),
    Triton(TritonRequest),
    Mlperf(MlperfRequest),
    Repository(RepositoryRequest),
    Selftest(SelftestRequest),
    Report(ReportRequest),
    Compare(CompareRequest),
    Export(ExportRequest),
    Import(ImportRequest),
    Explain(ExplainRequest),
    /// A chapter by number or name; without one, the list.
    Manual {
        chapter: Option<String>,
    },
    Completions(Shell),
    /// The hidden server of a preflight; ms to the first token and from token to token, each evenly between two times.
    NullServer {
        first_ms: (f64, f64),
        gap_ms: (f64, f64),
    },
    /// The hidden watcher over one run; its folder.
    Watchdog {
        run: PathBuf,
    },
    /// The hidden work of a job on a node of a cluster; the job's folder.
    OnNode {
        folder: PathBuf,
    },
    /// The hidden guard of a run's servers on one of its hosts; whether it has its environment.
    OnHost {
        awake: bool,
    },
    /// The hidden child process of one LoadGen test; the file with its orders.
    LoadgenTest {
        orders: PathBuf,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    pub manifest: String,
    pub settings: Vec<KeyValueArg>,
    pub select: Select,
    /// `None`: as many as there are cores.
    pub jobs: Option<NonZeroUsize>,
    pub keep_going: bool,
    pub events: EventFormat,
    /// `None`: all the machine has.
    pub gpus: Option<GpuSelection>,
    pub on: RunTarget,
    pub store: StoreSelection,
    pub locking: LockMode,
    /// Environment variables that parameters see before those of this process.
    pub env: BTreeMap<String, String>,
    /// Where to write JUnit XML.
    pub junit: Option<PathBuf>,
    /// Where to answer with the run's metrics while it is under way.
    pub metrics_listen: Option<String>,
}

/// Servers to keep up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeRequest {
    /// What starts them. Which stages are needed is known with the plan.
    pub run: RunRequest,
    /// A `serve` stage or one of its tasks; `None`: the only one.
    pub stage: Option<String>,
    /// Runs while they are up; empty: they stay up until a stop request.
    pub command: Vec<OsString>,
    /// Print the endpoints as JSON.
    pub json: bool,
}

/// Where a whole run happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunTarget {
    Local,
    /// In one allocation, with these of Slurm's settings.
    Slurm(Vec<KeyValueArg>),
    /// In the current allocation: stages that request their own run in it.
    InPlace,
}

/// A list of runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BulkRequest {
    pub file: PathBuf,
    /// For all of them.
    pub settings: Vec<KeyValueArg>,
    pub dry_run: bool,
    /// What a scale is a number of, in files of llmb-run.
    pub gpu_type: Option<String>,
    pub jobs: Option<NonZeroUsize>,
    pub gpus: Option<GpuSelection>,
    /// As of a [`RunRequest`].
    pub store: StoreSelection,
    /// Of each of them; a run has a part of its own in the file.
    pub locking: LockMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventFormat {
    /// For a person.
    Terminal,
    /// One JSON object per line on stdout.
    JsonLines,
}

/// Which stages; names are not checked here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    pub until: Vec<String>,
    pub only: Vec<String>,
    pub force: Force,
    /// How often each benchmark is measured, in place of its `bench.repeat`.
    pub repeat: Option<u32>,
    /// The number that its benchmarks are measured under; 0 is the first, too.
    pub repeat_number: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Force {
    #[default]
    Nothing,
    Stages(Vec<String>),
    /// These are not taken from the cache; a measurement that was interrupted goes on.
    Uncached(Vec<String>),
    All,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    pub manifest: String,
    pub settings: Vec<KeyValueArg>,
    pub select: Select,
    pub show: PlanFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanFormat {
    Text,
    Json,
    Dot,
    Mermaid,
    /// What `serve` stages will start.
    Launch {
        json: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest {
    /// At least one.
    pub manifests: Vec<String>,
    /// For each of them.
    pub settings: Vec<KeyValueArg>,
    pub format: CheckFormat,
}

/// How the errors of manifests are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// For people, with the lines of the file.
    #[default]
    Text,
    /// Every manifest and every problem with its place.
    Json,
    /// Annotations of a workflow on GitHub.
    Github,
    /// SARIF 2.1.0, for editors and code scanning.
    Sarif,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShowRequest {
    pub manifest: String,
    pub settings: Vec<KeyValueArg>,
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListRequest {
    pub json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaRequest {
    Manifest,
    Result,
    Sweep,
    Requests,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitRequest {
    pub folder: PathBuf,
    /// A manifest by its name; `None`: everything that is shipped.
    pub example: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRequest {
    /// Until the run ends.
    pub follow: bool,
    pub json: bool,
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunsRequest {
    /// In the name of the manifest.
    pub manifest: Option<String>,
    /// Only those that failed or were interrupted.
    pub failed: bool,
    pub most: usize,
    pub json: bool,
    /// The measurements of all machines in this shared store.
    pub store: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogsRequest {
    /// `None`: list the logs.
    pub stage: Option<String>,
    pub follow: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcRequest {
    pub keep: usize,
    pub yes: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepositoryRequest {
    Check { folder: PathBuf, engine: Option<PathBuf>, gpus: Option<u32>, json: bool },
    Fill(RepositoryFill),
    Parameters { json: bool },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFill {
    pub templates: PathBuf,
    pub out: PathBuf,
    /// For every model.
    pub settings: Vec<KeyValueArg>,
    /// A YAML file of more.
    pub values: Option<PathBuf>,
    /// Of one model each.
    pub of_models: Vec<(String, KeyValueArg)>,
    /// `key:value,key:value`.
    pub substitutions: Option<String>,
    pub allow_unfilled: bool,
}

/// The load generator against known servers.
#[derive(Clone, Debug, PartialEq)]
pub struct SelftestRequest {
    /// Requests per second.
    pub rates: Vec<f64>,
    /// Of arrivals at each.
    pub seconds: u64,
    pub json: bool,
}

impl Default for SelftestRequest {
    fn default() -> Self {
        Self { rates: vec![10.0, 100.0, 1000.0], seconds: 5, json: false }
    }
}

/// `regatta what-if`.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfRequest {
    pub manifest: String,
    /// Values may have several, with commas.
    pub settings: Vec<KeyValueArg>,
    /// As typed.
    pub goal: Option<String>,
    pub requests: u32,
    /// As typed: `MEAN` or `MEAN,STDDEV`.
    pub input_tokens: Option<String>,
    pub output_tokens: Option<String>,
    /// Rates to simulate instead of the highest one within limits. Empty: none.
    pub rates: Vec<f64>,
    /// LoRA adapters that requests name in turn.
    pub adapters: Option<u32>,
    /// `CONTEXT:GENERATION`, each is tried.
    pub disaggregated: Vec<String>,
    /// GB/s of each GPU. `None`: 50.
    pub kv_link: Option<f64>,
    /// `None`: the fewest requests.
    pub router: Option<BalancerPolicy>,
    /// A day of a fleet instead of one system.
    pub fleet: Option<FleetRequest>,
    /// Where to write a page.
    pub html: Option<PathBuf>,
    pub json: bool,
}

/// The fleet of `regatta what-if --day`. Texts are as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetRequest {
    /// `LOW..HIGH` or a file.
    pub day: String,
    /// Behind each balancer. `None`: as many as the system has.
    pub replicas: Option<u32>,
    pub balancers: u32,
    /// How many of them are simulated; `None`: all.
    pub sample: Option<u32>,
    /// Each is tried.
    pub policies: Vec<BalancerPolicy>,
    /// `MEAN_TIME_BETWEEN,REPAIR`
    pub failures: Option<String>,
    /// `COUNT,TOKENS[,ZIPF]`
    pub prefixes: Option<String>,
}

/// To which replica a balancer gives a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalancerPolicy {
    RoundRobin,
    LeastLoad,
    PrefixAware,
}

/// `regatta sim calibrate`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrateRequest {
    pub logs: Vec<PathBuf>,
    /// A shipped name or a file.
    pub model: String,
    pub system: String,
    pub precision: String,
    pub kv_cache_dtype: Option<String>,
    pub tensor_parallelism: u32,
    pub scheduler: CalibratedScheduler,
    /// Of vLLM, tokens.
    pub max_cudagraph_capture_size: u32,
    pub source: Option<String>,
    pub output: Option<PathBuf>,
    pub json: bool,
}

/// Whose scheduler a simulated engine with a calibration follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibratedScheduler {
    Vllm,
    TensorrtLlm,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SimulateRequest {
    pub repository: PathBuf,
    /// 0: any free one.
    pub grpc_port: u16,
    /// `None`: no such port.
    pub http_port: Option<u16>,
    pub metrics_port: Option<u16>,
    pub grpc_address: std::net::IpAddr,
    /// Above 0; 1 is real time.
    pub speed: f64,
    pub load_seconds: f64,
    /// Name and value (empty where none was given) of each fault; `sim` knows the names.
    pub faults: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRequest {
    /// `None`: the last run.
    pub run: Option<String>,
    /// Names of tools; empty: the page's path.
    pub compat: Vec<String>,
    pub json: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CompareRequest {
    /// At least two.
    pub results: Vec<String>,
    pub as_tool: Option<String>,
    pub force: bool,
    /// As typed.
    pub fail_if: Vec<String>,
    /// Percent.
    pub smallest_effect: Option<f64>,
    /// Where to write a page.
    pub html: Option<PathBuf>,
    pub json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportRequest {
    pub result: String,
    /// At least one.
    pub formats: Vec<String>,
    pub out: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportRequest {
    /// At least one, or a line.
    pub paths: Vec<PathBuf>,
    /// A command line of another tool.
    pub line: Vec<String>,
    pub out: PathBuf,
    /// Of a config: these settings; empty: all.
    pub pick: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorRequest {
    /// `None`: facts only.
    pub manifest: Option<String>,
    pub settings: Vec<KeyValueArg>,
    pub json: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    /// A metric or a key of a manifest. `None`: a line on each metric.
    pub topic: Option<String>,
    pub json: bool,
}
