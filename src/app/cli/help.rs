//! What `--help` shows below the options: examples, which are text files, and what the exit codes mean.

macro_rules! examples {
    ($command:literal) => {
        concat!("Examples:\n", include_str!(concat!("help/", $command, ".txt")))
    };
}

macro_rules! with_run_codes {
    ($text:expr) => {
        with_run_codes!($text, "", "")
    };
    ($text:expr, $seven:literal, $last:literal $(,)?) => {
        concat!(
            $text,
            "\n",
            "Exit codes:\n",
            "  0    success\n",
            "  1    a stage failed\n",
            "  2    the manifest or the command line is wrong; nothing was started\n",
            "  3    a benchmark is INVALID(client): the client was the bottleneck\n",
            "  4    a benchmark is OVERLOADED: the server did not keep up; or LIMIT MISSED: a limit was exceeded\n",
            "  5    a benchmark is INVALID(server): requests failed, or answers were inconsistent\n",
            "  6    with --locked: something differs from the lock file\n",
            $seven,
            "  70   a fault in Regatta itself\n",
            "  130  interrupted\n",
            $last,
        )
    };
}

macro_rules! with_codes {
    ($command:literal) => {
        with_codes!(
            $command,
            "  0    success\n",
            "  1    the command failed\n",
            "  2    the manifest or the command line is wrong\n"
        )
    };
    ($command:literal, $($code:literal),+ $(,)?) => {
        concat!(
            examples!($command),
            "\n",
            "Exit codes:\n",
            $($code),+,
            "  70   a fault in Regatta itself\n",
            "  130  interrupted\n",
            "  141  the reader of the output closed it (`| head`)\n",
        )
    };
}

pub(super) const TOP: &str = with_run_codes!(
    examples!("top"),
    "  7    `compare --fail-if`: its condition is true, or a result is not VALID\n",
    "  141  the reader of the output closed it (`| head`)\n",
);

pub(super) const RUN: &str = with_run_codes!(examples!("run"));

pub(super) const SERVE: &str = with_run_codes!(examples!("serve"));

pub(super) const BULK: &str = with_run_codes!(examples!("bulk"));

pub(super) const PLAN: &str = with_codes!("plan");

pub(super) const BENCH_FIRST: &str =
    concat!(examples!("bench_first"), "\nAll options, in groups: regatta bench --help\n");

pub(super) const BENCH: &str = with_run_codes!(examples!("bench"));

pub(super) const LOCK: &str = with_codes!("lock");

pub(super) const LOCK_DIFF: &str = with_codes!(
    "lock_diff",
    "  0    they are the same\n",
    "  1    they differ, or the command failed\n",
    "  2    the manifest or the command line is wrong\n",
);

pub(super) const DOCTOR: &str = with_codes!(
    "doctor",
    "  0    nothing is missing\n",
    "  1    something is missing\n",
    "  2    the manifest or the command line is wrong\n",
);

pub(super) const CHECK: &str = with_codes!("check");

pub(super) const SHOW: &str = with_codes!("show");

pub(super) const LIST: &str = with_codes!("list");

pub(super) const SCHEMA: &str = with_codes!("schema");

pub(super) const INIT: &str = with_codes!("init");

pub(super) const STATUS: &str = concat!(
    examples!("status"),
    "\n",
    "Exit codes: that of the run, and\n",
    "  0    it succeeded, or is still running\n",
    "  2    the command line is wrong, or nothing has run here yet\n",
    "  130  it was interrupted, or its process was killed\n",
);

pub(super) const RUNS: &str = with_codes!("runs");

pub(super) const HISTORY: &str = with_codes!("history");

pub(super) const TAG: &str = with_codes!("tag");

pub(super) const LOGS: &str = with_codes!("logs");

pub(super) const CLEAN: &str = with_codes!("clean");

pub(super) const GC: &str = with_codes!("gc");

pub(super) const STORE: &str = with_codes!(
    "store",
    "  0    success\n",
    "  1    the store cannot be used, or something in it is damaged\n",
    "  2    the manifest or the command line is wrong\n",
);

pub(super) const WHAT_IF: &str = with_codes!("what_if");

pub(super) const CALIBRATE: &str = with_codes!("calibrate");

pub(super) const SIM: &str = with_codes!("sim");

pub(super) const REPOSITORY: &str = with_codes!("repository");

pub(super) const TRITON: &str = with_codes!("triton");

pub(super) const TRITON_STATUS: &str = with_codes!("triton_status");

pub(super) const MLPERF: &str = with_codes!("mlperf");

pub(super) const MLPERF_ASSEMBLE: &str = with_codes!("mlperf_assemble");

pub(super) const SELFTEST: &str = with_codes!(
    "selftest",
    "  0    measured\n",
    "  1    the command failed\n",
    "  2    the command line is wrong\n",
    "  3    INVALID(client): this machine was too slow or too busy for the load; the reasons are printed\n",
);

pub(super) const REPORT: &str = with_codes!("report");

pub(super) const COMPARE: &str = with_codes!(
    "compare",
    "  0    compared\n",
    "  1    the command failed\n",
    "  2    the results are not comparable, or the command line is wrong\n",
    "  7    with --fail-if: its condition is true, or a result is not VALID\n",
);

pub(super) const EXPORT: &str = with_codes!("export");

pub(super) const IMPORT: &str = with_codes!("import");

pub(super) const EXPLAIN: &str = with_codes!("explain");

pub(super) const MANUAL: &str = with_codes!("manual");

pub(super) const COMPLETIONS: &str = with_codes!("completions");
