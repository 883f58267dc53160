//! All actions in one list. An action is its row here, a type with [`Check`] in this crate and a `Run` in `stages`.

use serde::{Deserialize, Serialize};

use crate::manifest::model::{
    Bench, CompareResults, Engine, Git, Image, Mlperf, Repository, Serve, ShellScript, Stage, Template, TrtllmBench,
    Weights,
};
use crate::semantics::StageChecker;

/// Calls a macro with every action: its documentation, its key in a manifest, its name, and the type of its settings. The order is that
/// of the documentation.
#[macro_export]
macro_rules! for_each_action {
    ($callback:ident) => {
        $callback! {
            /// Run a command: a text for `sh -eu -c` (with `pipefail` where the shell has it), or a list of arguments. It runs in its (empty) output folder, `$OUT`.
            shell: Shell(ShellScript),
            /// Clone a repository at a revision.
            git: Git(Git),
            /// Build or fetch a container image.
            image: Image(Image),
            /// Render a folder of minijinja templates into files.
            template: Template(Template),
            /// Get a model's checkpoint, and check every file of it.
            weights: Weights(Weights),
            /// Build a TensorRT-LLM engine, or the simulator's stand-in for one.
            engine: Engine(Engine),
            /// Write Triton model repositories with their config.pbtxt files.
            repository: Repository(Repository),
            /// Start servers and keep them running while any stage that references this one runs.
            serve: Serve(Serve),
            /// Send requests, measure the answers, give a verdict.
            bench: Bench(Bench),
            /// Run TensorRT-LLM's own benchmark, in process, without a server.
            trtllm_bench: TrtllmBench(TrtllmBench),
            /// A step of an MLPerf submission: LoadGen, data set, score, audit, package.
            mlperf: Mlperf(Mlperf),
            /// Compare results of other stages, as ratios.
            compare: Compare(CompareResults),
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
                match key {
                    $(stringify!($key) => Some(Self::$name),)+
                    _ => None,
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
