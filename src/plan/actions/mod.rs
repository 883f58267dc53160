//! All actions in one list. An action is its row here, a type with [`Check`] in this crate and a `Run` in `stages`.

pub(crate) mod bench;
mod bench_check;
pub(crate) mod compare;
pub(crate) mod container;
pub(crate) mod engine;
mod engine_flags;
pub(crate) mod git;
pub(crate) mod host;
pub(crate) mod image;
pub(crate) mod load;
pub(crate) mod mlperf;
mod mlperf_rules;
pub(crate) mod openai_servers;
mod protocol;
pub(crate) mod repository;
pub(crate) mod serve;
pub(crate) mod shell;
pub(crate) mod stage;
pub(crate) mod template;
pub(crate) mod trtllm_bench;
pub(crate) mod weights;

use std::fmt::Write as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::PlanReference;
use crate::manifest::Node;
use crate::manifest::model::{Host, Stage};
use base::diag::{Diagnostic, Diagnostics, did_you_mean};
use base::event::EndpointError;
use base::spec::{Scenario, TimeSpan};
use base::units::is_identifier;
use bench::USUAL_END_ID;
pub use engine_flags::across;
pub use mlperf_rules::{packages, speculative_decoding};

/// What a key is that a manifest does not have: the name that its field gives to serde, its type and value.
macro_rules! defaults {
    ($($name:ident: $type:ty = $value:expr;)+) => {
        $(fn $name() -> $type {
            $value
        })+
    };
}

defaults! {
    yes: bool = true;
    one: u32 = 1;
    trtllm_serve: String = "trtllm-serve".to_owned();
    pytorch: String = "pytorch".to_owned();
    everywhere: String = "0.0.0.0".to_owned();
    vllm_serve: Vec<String> = ["vllm", "serve"].map(str::to_owned).to_vec();
    main_branch: String = "main".to_owned();
    hf_token: String = "HF_TOKEN".to_owned();
    all_at_once: i64 = -1;
    llmapi_launcher: Vec<String> = vec!["trtllm-llmapi-launch".to_owned()];
    trtllm_bench_name: String = "trtllm-bench".to_owned();
    unity: f64 = 1.0;
    python3: String = "python3".to_owned();
    power_client: String = "power_client".to_owned();
    gxx: String = "g++".to_owned();
    by_output_tokens: Vec<String> = vec!["output_tokens".to_owned()];
    server: Scenario = Scenario::Server;
    tensorrt_llm: String = bench::Bench::USUAL_MODEL.to_owned();
    a_minute: TimeSpan = Duration::from_mins(1).into();
    ten_seconds: TimeSpan = Duration::from_secs(10).into();
    twice: u32 = 2;
    llama_vocabulary: u32 = 32_000;
    usual_end_id: i32 = USUAL_END_ID;
    two_percent: f64 = 0.02;
    mooncake_block: u32 = 512;
}

/// Calls a macro with every action: its documentation, its key in a manifest, its name, and the type of its settings.
/// The order is that of the documentation.
#[macro_export]
macro_rules! for_each_action {
    ($callback:ident) => {
        $callback! {
            /// Run a command: a text for `sh -eu -c` (with `pipefail` if the shell has it), or a list of arguments. It
            /// starts in its empty output folder, `$OUT`.
            shell: Shell($crate::actions::shell::ShellScript),
            /// Clone a repository at a revision.
            git: Git($crate::actions::git::Git),
            /// Build or fetch a container image.
            image: Image($crate::actions::image::Image),
            /// Render a folder of minijinja templates into files.
            template: Template($crate::actions::template::Template),
            /// Get a model's checkpoint, and check every file of it.
            weights: Weights($crate::actions::weights::Weights),
            /// Build a TensorRT-LLM engine, or the simulator's stand-in for one.
            engine: Engine($crate::actions::engine::Engine),
            /// Write Triton model repositories with their config.pbtxt files.
            repository: Repository($crate::actions::repository::Repository),
            /// Start servers and keep them running while any stage that references this one runs.
            serve: Serve($crate::actions::serve::Serve),
            /// Send requests, measure the answers, give a verdict.
            bench: Bench($crate::actions::bench::Bench),
            /// Run TensorRT-LLM's own benchmark, in process, without a server.
            trtllm_bench: TrtllmBench($crate::actions::trtllm_bench::TrtllmBench),
            /// A step of an MLPerf submission: LoadGen, data set, score, audit, package.
            mlperf: Mlperf($crate::actions::mlperf::Mlperf),
            /// Compare results of other stages, as ratios.
            compare: Compare($crate::actions::compare::CompareResults),
        }
    };
}

/// What is true of every task with an action, whatever its settings are.
#[derive(Clone, Copy, Debug)]
pub struct ActionFacts {
    /// It starts servers, which run while a dependent runs.
    pub is_service: bool,
    /// It measures, and has the machine to itself unless the manifest sets `cpus`.
    pub measures: bool,
    /// Its key determines its output, so that of two tasks with equal keys one is enough.
    pub is_determined_by_key: bool,
    /// It may be repeated on purpose: a measurement or a command.
    pub is_repeatable: bool,
    /// Its output is files only, so that looking at them shows whether it still holds.
    pub is_files: bool,
    /// It starts servers or makes what servers load.
    pub is_of_server: bool,
    /// Its settings are checked against those of other stages.
    pub is_checked_across_stages: bool,
    /// It is one command, which can run as a step of a Slurm job.
    pub is_command: bool,
    /// Programs of this machine make its output.
    pub runs_programs: bool,
    /// It may run out of memory.
    pub needs_memory: bool,
    /// It writes the provenance of its upstream into its output.
    pub writes_provenance: bool,
    /// Its output may contain paths of the project.
    pub names_project: bool,
    /// Why it cannot run in a container.
    pub container_obstacle: Option<&'static str>,
    /// Why its output stays on the machine that made it.
    pub sharing_obstacle: Option<&'static str>,
}

impl ActionFacts {
    /// What is true of most actions.
    pub(crate) const STEP: Self = Self {
        is_service: false,
        measures: false,
        is_determined_by_key: false,
        is_repeatable: false,
        is_files: true,
        is_of_server: false,
        is_checked_across_stages: false,
        is_command: false,
        runs_programs: false,
        needs_memory: true,
        writes_provenance: false,
        names_project: false,
        container_obstacle: None,
        sharing_obstacle: None,
    };

    /// A measurement, or something made of measurements.
    pub(crate) const MEASUREMENT: Self = Self {
        is_repeatable: true,
        sharing_obstacle: Some("measurements, and what is made of them, are about the machine that made them"),
        ..Self::STEP
    };
}

/// Why an action that this program performs itself cannot run in a container.
pub(crate) const BY_THIS_PROGRAM: Option<&str> = Some("this program does it itself");

/// The settings of an action.
pub(crate) trait Check {
    /// What is true of all its tasks.
    const FACTS: ActionFacts;

    /// Files and folders that it reads, by the key that names them: inputs, declared or not.
    fn reads(&self) -> Vec<(&'static str, &str)> {
        Vec::new()
    }

    /// Reports everything wrong with its settings that the types cannot express.
    fn check(&self, stage: &Stage, checker: &mut StageChecker<'_>);
}

macro_rules! define_actions {
    ($($(#[doc = $about:literal])* $key:ident: $name:ident($settings:ty),)+) => {
        /// One task's action. Its canonical JSON is part of the task's key.
        #[derive(Clone, Debug, Deserialize, Serialize)]
        #[serde(rename_all = "snake_case")]
        #[allow(clippy::large_enum_variant, reason = "a task holds it on the heap")]
        pub enum Action {
            $($(#[doc = $about])* $name($settings),)+
        }

        /// Which action a task has.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ActionKind {
            $($(#[doc = $about])* $name,)+
        }

        impl Action {
            /// The manifest's keys for actions, in the order the documentation lists them.
            pub const KEYS: [&'static str; [$(stringify!($key)),+].len()] = [$(stringify!($key)),+];

            /// Which action it is.
            pub const fn kind(&self) -> ActionKind {
                match self {
                    $(Self::$name(_) => ActionKind::$name,)+
                }
            }

            /// Files and folders that it reads, by the key that names them: inputs, declared or not.
            pub fn input_paths(&self) -> Vec<(&'static str, &str)> {
                match self {
                    $(Self::$name(settings) => settings.reads(),)+
                }
            }
        }

        impl ActionKind {
            /// The action with this key in a manifest.
            pub(crate) fn with_key(key: &str) -> Option<Self> {
                [$(Self::$name),+].into_iter().find(|kind| kind.as_str() == key)
            }

            /// Its key in a manifest.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($key),)+
                }
            }

            /// What is true of all its tasks.
            pub const fn facts(self) -> &'static ActionFacts {
                match self {
                    $(Self::$name => &<$settings as Check>::FACTS,)+
                }
            }
        }

        impl Stage {
            /// Which action it has.
            pub(crate) const fn action_kind(&self) -> Option<ActionKind> {
                $(if self.$key.is_some() {
                    return Some(ActionKind::$name);
                })+
                None
            }

            /// Its action, which is taken out of it.
            pub(crate) fn take_action(&mut self) -> Option<Action> {
                $(if let Some(settings) = self.$key.take() {
                    return Some(Action::$name(*settings));
                })+
                None
            }

            /// Reports what is wrong with the settings of its action.
            pub(crate) fn check_action(&self, checker: &mut StageChecker<'_>) {
                $(if let Some(settings) = &self.$key {
                    settings.check(self, checker);
                })+
            }
        }
    };
}
for_each_action!(define_actions);

/// Reports everything wrong with one stage, at its places. `written`: the stage before its texts were rendered.
pub fn check(stage: &Stage, node: &Node, written: &Node, name: &str, found: &mut Diagnostics) {
    let mut checker = StageChecker { node, written, name, found };
    checker.common(stage);
    checker.containers(stage);
    if let Some(host) = stage.host.as_deref().and_then(Host::remote) {
        checker.check_remote_stage(stage, &host);
    }
    stage.check_action(&mut checker);
}

/// An error at a key of a stage, to which a hint can be added.
struct StageFault<'a>(&'a mut Diagnostic);

impl StageFault<'_> {
    fn hint(self, hint: impl Into<String>) {
        self.0.hints.push(hint.into());
    }

    fn maybe_hint(self, hint: Option<String>) {
        self.0.hints.extend(hint);
    }
}

/// Rules as a table: the key, when its rule is broken, what is wrong there, why, and what to do about it.
macro_rules! faults {
    ($checker:expr; $($key:expr, $is_broken:expr, $problem:expr, $reason:expr $(, $hint:expr)?;)*) => {
        $(if $is_broken {
            $checker.fault(&$key, $problem, $reason)$(.hint($hint))?;
        })*
    };
}
use faults;

/// Reports what is wrong with one stage.
pub struct StageChecker<'a> {
    node: &'a Node,
    written: &'a Node,
    name: &'a str,
    found: &'a mut Diagnostics,
}

impl<'a> StageChecker<'a> {
    /// For checks against other stages, after all are rendered.
    const fn new(node: &'a Node, name: &'a str, found: &'a mut Diagnostics) -> Self {
        Self { node, written: node, name, found }
    }
}

impl StageChecker<'_> {
    /// An error at the value of a key of the stage.
    fn fault(&mut self, path: &[&str], what: &str, label: &str) -> StageFault<'_> {
        let message = format!("{} {what}", self.key_name(path));
        StageFault(self.found.push_mut(Diagnostic::error(message).at(self.node.place(path), label)))
    }

    /// An error at the key itself.
    fn key_fault(&mut self, path: &[&str], what: &str, label: &str) -> StageFault<'_> {
        let message = format!("{} {what}", self.key_name(path));
        StageFault(self.found.push_mut(Diagnostic::error(message).at(self.node.key_place(path), label)))
    }

    /// A time that must not be 0.
    fn time_fault(&mut self, path: &[&str], time: Option<Duration>, label: &str) {
        if time.is_some_and(|time| time.is_zero()) {
            self.fault(path, "must be above 0", label);
        }
    }

    /// A number that must be above 0, and finite.
    fn number_fault(&mut self, path: &[&str], number: Option<f64>, label: &str) {
        if number.is_some_and(|number| !(number > 0.0 && number.is_finite())) {
            self.fault(path, "must be above 0", label);
        }
    }

    /// A key that would change nothing.
    fn idle(&mut self, path: &[&str], why: &str, hint: &str) {
        self.fault(path, "has no effect", why).hint(hint);
    }

    /// Without the line of the manifest, which has the secret in it.
    fn push_credentials_error(&mut self, path: &[&str]) {
        let message = format!("{}: {}", self.key_name(path), EndpointError::Credentials);
        self.found.push(Diagnostic::error(message));
    }

    /// The stage's key as messages name it.
    fn key_name(&self, path: &[&str]) -> String {
        let mut message = format!("`stages.{}", self.name);
        for step in path {
            let index = step.bytes().all(|byte| byte.is_ascii_digit());
            let _ = if index { write!(message, "[{step}]") } else { write!(message, ".{step}") };
        }
        message.push('`');
        message
    }

    fn variable(&mut self, path: &[&str], name: &str) {
        if !is_identifier(name) {
            let message = format!("`{name}` cannot be the name of an environment variable");
            let place = if let ["env", _] = path { self.node.key_place(path) } else { self.node.place(path) };
            self.found
                .push(Diagnostic::error(message).at(place, "letters, digits and `_`, not beginning with a digit"));
        }
    }

    fn word(&mut self, path: &[&str], word: &str, known: &[&str]) {
        if !known.contains(&word) {
            let hint = did_you_mean(word, known.iter().copied());
            self.fault(path, &format!("cannot be `{word}`"), "not known").maybe_hint(hint);
        }
    }
}
