//! What the planned tasks will start and read. Pure, except that it looks at the model repositories that are there already.

use std::collections::BTreeMap;
use std::path::Path;

use super::shell;
use super::tools;
use crate::known_failures::key_variables;
use plan::manifest::model::{
    Action, Engine, EngineBackend, HostOn, Mlperf, Serve, ShellScript, SshHost, SshMachine, Weights,
};
use plan::{ActionError, Plan, PlanReference, Task};
use stages::{LaunchPreview, image_program, place_of, previews};

/// The tasks that need it.
type RequiringTasks = Vec<String>;

/// What a plan needs of the machine that runs it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Needs {
    /// Programs by name or path.
    pub programs: BTreeMap<String, RequiringTasks>,
    /// The most GPUs that one task leases.
    pub gpus: u32,
    pub gpus_by: RequiringTasks,
    /// Gigabytes of each GPU, from the manifest's system.
    pub gpu_memory: Option<(f64, String)>,
    pub containers: BTreeMap<String, ContainerNeed>,
    pub secrets: BTreeMap<String, RequiringTasks>,
    /// Inputs outside of any output: they must be there.
    pub files: BTreeMap<String, RequiringTasks>,
    /// Bytes of an engine's weights on each of its GPUs, by its task.
    pub gpu_weights: Vec<(String, u64)>,
    /// Bytes that engines will take, and how that was counted.
    pub disk: Vec<(String, u64)>,
    /// Checkpoints to fetch, by their tasks: their hub reports their size.
    pub weights: Vec<(String, Weights)>,
    /// Models that servers load by themselves.
    pub served: Vec<ModelNeed>,
    /// Servers and ranks outside of containers that share memory.
    pub shared_memory: RequiringTasks,
    /// Several GPUs outside of a container: pinned memory.
    pub pinned: RequiringTasks,
    pub slurm: RequiringTasks,
    /// Machines that servers run on, by name. Their own needs are not checked here.
    pub hosts: BTreeMap<String, (SshMachine, RequiringTasks)>,
    pub benchmarks: RequiringTasks,
}

/// What a container program is needed for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerNeed {
    /// `docker`, `podman`, `enroot`, `apptainer`.
    pub engine: String,
    pub by: RequiringTasks,
    /// Tasks in it that lease GPUs.
    pub gpus_by: RequiringTasks,
    /// Images that must be there; those that a stage makes are not among them.
    pub images: BTreeMap<String, RequiringTasks>,
}

/// A model that a server loads by itself, as its manifest has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelNeed {
    pub task: String,
    /// A folder, or a name at Hugging Face.
    pub model: String,
    /// GPUs that share its weights.
    pub gpus: u32,
    /// Its weights are made up: only its config is read.
    pub is_dummy: bool,
    /// The port of its first server, where it is given, and servers.
    pub ports: Option<(u16, u32)>,
    /// The program and the Python package behind it; none in a container.
    pub program: Option<(Vec<String>, &'static str)>,
}

/// Reads tasks, except what their servers will start.
pub fn needs_of_tasks<'a>(tasks: impl Iterator<Item = &'a Task>) -> Needs {
    let mut needs = Needs::default();
    for task in tasks.filter(|task| task.skipped.is_none()) {
        if let Some(machines) = hosts(task) {
            needs.on(task, machines);
            continue;
        }
        needs.common(task);
        if let Some(action) = task.action() {
            needs.action(task, action);
        }
    }
    needs
}

/// Reads a plan. `project` is the folder that relative paths are relative to.
pub fn needs(plan: &Plan, project: &Path) -> Result<Needs, ActionError> {
    let mut needs = needs_of_tasks(plan.tasks.iter());
    let chosen = vec![true; plan.tasks.len()];
    for preview in previews(plan, &chosen, project)? {
        let LaunchPreview::Start(launch) = preview.launch else { continue };
        let task = plan.tasks.iter().find(|task| task.id.to_string() == preview.task);
        if task.and_then(hosts).is_some() {
            continue;
        }
        for server in launch.servers {
            let argv = server.argv();
            if server.command.len() > 1 && argv.first().is_some_and(|program| program.ends_with("srun")) {
                needs.slurm.push(preview.task.clone());
            }
            // The simulator is a part of this program.
            if let Some(program) = argv.first().filter(|program| *program != "regatta") {
                needs.program(program, &preview.task);
            }
        }
    }
    Ok(needs)
}

/// The hosts that a task runs on, if it does.
fn hosts(task: &Task) -> Option<&[SshHost]> {
    match task.host.as_deref()? {
        HostOn::Ssh(hosts) => Some(hosts),
        HostOn::Slurm(_) => None,
    }
}

impl Needs {
    /// Of a task on other machines: these, and the secrets that go there.
    fn on(&mut self, task: &Task, hosts: &[SshHost]) {
        let id = task.id.to_string();
        for name in &task.secrets {
            self.secrets.entry(name.clone()).or_default().push(id.clone());
        }
        for machine in hosts.iter().map(SshHost::machine) {
            self.hosts.entry(machine.name.clone()).or_insert((machine, RequiringTasks::new())).1.push(id.clone());
        }
    }

    fn program(&mut self, program: &str, task: &str) {
        if program.contains('⟦') || program.is_empty() {
            return;
        }
        let by = self.programs.entry(program.to_owned()).or_default();
        if !by.iter().any(|known| known == task) {
            by.push(task.to_owned());
        }
    }

    fn common(&mut self, task: &Task) {
        let id = task.id.to_string();
        for name in &task.secrets {
            self.secrets.entry(name.clone()).or_default().push(id.clone());
        }
        for path in task.inputs.values().flatten() {
            let is_pattern = path.contains(['*', '?', '[', '{']);
            if PlanReference::all_in(path).is_empty() && !is_pattern {
                self.files.entry(path.clone()).or_default().push(id.clone());
            }
        }
        if task.gpus > 0 {
            self.gpus = self.gpus.max(task.gpus);
            self.gpus_by.push(id.clone());
        }
        if task.gpu_clocks.is_some() {
            self.program("nvidia-smi", &id);
        }
        match place_of(task) {
            Some(container) => {
                let program = container.program().to_owned();
                let contained = self.containers.entry(program).or_default();
                container.engine.program_name().clone_into(&mut contained.engine);
                contained.by.push(id.clone());
                if container.engine.is_detached() && !container.image.contains('⟦') {
                    contained.images.entry(container.image).or_default().push(id.clone());
                }
                if task.gpus > 0 {
                    contained.gpus_by.push(id);
                }
            }
            None if task.gpus > 1 => {
                self.pinned.push(id.clone());
                self.shared_memory.push(id);
            }
            None => {}
        }
    }

    fn action(&mut self, task: &Task, action: &Action) {
        let id = task.id.to_string();
        let is_contained = task.container.is_some();
        match action {
            Action::Git(git) => {
                self.program("git", &id);
                if git.lfs == Some(true) {
                    self.program("git-lfs", &id);
                }
            }
            Action::Image(image) => {
                let (engine, program) = image_program(image);
                let contained = self.containers.entry(program).or_default();
                contained.engine = engine;
                contained.by.push(id);
            }
            Action::Engine(engine) if engine.backend == EngineBackend::TensorrtLlm => {
                if !is_contained {
                    self.program("python3", &id);
                    self.program("trtllm-build", &id);
                }
                self.engine(task, engine);
            }
            Action::TrtllmBench(bench) if !is_contained => {
                if let Some(launcher) = bench.launcher.first() {
                    self.program(launcher, &id);
                }
                self.program("trtllm-bench", &id);
            }
            // Programs in an image are not checked here.
            Action::Shell(_) if is_contained => {}
            Action::Shell(ShellScript::Words(words)) => {
                if let Some(program) = words.first() {
                    self.program(program, &id);
                }
            }
            Action::Shell(ShellScript::Text(text)) => {
                for program in shell::programs(text).iter().filter(|program| tools::is_known(program)) {
                    self.program(program, &id);
                }
            }
            Action::Mlperf(Mlperf::Loadgen(library)) => {
                self.program(&library.cxx, &id);
                if library.sdist.is_none() {
                    self.program(&library.python, &id);
                }
            }
            Action::Mlperf(Mlperf::Package(package)) if package.checker.is_some() && !is_contained => {
                self.program(&package.python, &id);
            }
            Action::Serve(Serve::Triton(server)) if !is_contained && !server.triton_skip_server_spawn => {
                self.shared_memory.push(id.clone());
                // Under `srun` it must be on the nodes, not here.
                if server.launcher != Some(base::spec::Launcher::Srun) {
                    self.program(&server.program, &id);
                }
            }
            Action::Serve(Serve::Vllm(server)) => self.served.push(ModelNeed {
                task: id,
                model: server.model.clone(),
                gpus: server.tensor_parallel_size * server.pipeline_parallel_size,
                is_dummy: server.load_format.as_deref() == Some("dummy"),
                ports: server.port.map(|port| (port, server.servers.unwrap_or(1))),
                program: (!is_contained).then(|| (server.program.clone(), "vllm")),
            }),
            Action::Bench(bench) => {
                for (_, name) in key_variables(bench) {
                    self.secrets.entry(name.to_owned()).or_default().push(id.clone());
                }
                self.benchmarks.push(id);
            }
            Action::Weights(weights) if weights.hf.is_some() => self.weights.push((id, weights.clone())),
            _ => {}
        }
    }

    /// The engine, and its converted checkpoint, which is as large and is deleted when the engine exists.
    fn engine(&mut self, task: &Task, engine: &Engine) {
        // NVFP4 has a scale of one byte for every sixteen weights.
        let width = match engine.precision.as_str() {
            "fp4" | "nvfp4" => 0.5 + 1.0 / 16.0,
            "int4_awq" | "w4a8_awq" | "int4_wo" => 0.5,
            "fp8" | "int8_sq" | "int8_wo" => 1.0,
            _ => 2.0,
        };
        let size = (engine.model.parameters as f64 * width) as u64;
        let how = format!("{}: 2 × {:.1} G weights × {width} B", task.id, engine.model.parameters as f64 / 1e9);
        self.disk.push((how, 2 * size));
        if engine.only.is_none() {
            let gpus = u64::from((engine.tensor_parallelism * engine.pipeline_parallelism).max(1));
            self.gpu_weights.push((task.id.to_string(), size / gpus));
        }
        let memory = engine.system.memory_gb;
        if self.gpu_memory.as_ref().is_none_or(|(known, _)| memory > *known) {
            self.gpu_memory = Some((memory, engine.system.name.clone()));
        }
    }
}
