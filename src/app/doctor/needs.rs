//! What the planned tasks will start and read, secrets and keys that they need, and the hosts and models of servers.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::before_run::key_variables;
use crate::doctor::machine::package_version;
use crate::doctor::programs;
use crate::store::{SIGN_KEY, TRUSTED_KEYS, sign_key_of};
use base::diag::ErrorText;
use plan::manifest::model::{
    Action, Engine, EngineBackend, HostOn, Mlperf, Serve, ShellScript, SshHost, SshMachine, Weights,
};
use plan::{ActionError, Plan, PlanReference, Task};
use report::{DoctorFinding, FindingLevel};
use runner::{PublicKey, TrustedKeys};
use stages::{image_program, place_of, previews, query_host};
use triton::SpecProblem;
use triton::launch::LaunchPreview;

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
        let id = self.secrets_of(task);
        for machine in hosts.iter().map(SshHost::machine) {
            self.hosts.entry(machine.name.clone()).or_insert((machine, RequiringTasks::new())).1.push(id.clone());
        }
    }

    /// Notes its secrets, and returns its name.
    fn secrets_of(&mut self, task: &Task) -> String {
        let id = task.id.to_string();
        for name in &task.secrets {
            self.secrets.entry(name.clone()).or_default().push(id.clone());
        }
        id
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
        let id = self.secrets_of(task);
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
                container.engine.as_str().clone_into(&mut contained.engine);
                contained.by.push(id.clone());
                if container.engine.is_detached() && !container.settings.image.contains('⟦') {
                    contained.images.entry(container.settings.image).or_default().push(id.clone());
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
                for program in programs::programs(text).iter().filter(|program| programs::is_known(program)) {
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

/// A line on each host. Blocks until the last one has answered or has timed out.
pub fn host_findings(needs: &Needs, project: &Path) -> Vec<DoctorFinding> {
    std::thread::scope(|scope| {
        let queries: Vec<_> = needs
            .hosts
            .iter()
            .map(|(name, (machine, by))| (name, by, scope.spawn(move || query_host(machine, project))))
            .collect();
        let finding_of = |(name, by, handle): (&String, &Vec<String>, std::thread::ScopedJoinHandle<'_, _>)| {
            let answer = handle.join().unwrap_or_else(|_| Err(SpecProblem::new("it could not be queried", "")));
            let works = answer.is_ok();
            let (found, fix) = match answer {
                Ok(found) => (found, None),
                Err(SpecProblem { message, hint }) => (message, hint),
            };
            let finding = DoctorFinding::fact(format!("host {name}"), found).needed(
                "to start servers",
                by,
                FindingLevel::of(works),
            );
            finding.fix(fix.unwrap_or_default())
        };
        queries.into_iter().map(finding_of).collect()
    })
}

const TOKEN: &str = "HF_TOKEN";
/// Below the home folder, where `hf auth login` leaves it.
const TOKEN_FILE: &str = ".cache/huggingface/token";

/// Lines on every secret that is needed, and on the token for Hugging Face in any case.
pub fn secret_findings(needs: &Needs) -> Vec<DoctorFinding> {
    let mut findings: Vec<DoctorFinding> = needs
        .secrets
        .iter()
        .map(|(name, by)| {
            let is_set = is_set(name);
            let state = if is_set { "set" } else { "not set" };
            let fix = if name == TOKEN && has_file() {
                format!("export {TOKEN}=\"$(cat ~/{TOKEN_FILE})\"")
            } else {
                format!("export {name}=…")
            };
            DoctorFinding::fact(name, state).needed("in the environment", by, FindingLevel::of(is_set)).fix(fix)
        })
        .collect();
    if !needs.secrets.contains_key(TOKEN) {
        let state = match (is_set(TOKEN), has_file()) {
            (true, _) => "set".to_owned(),
            (false, true) => format!("not set; ~/{TOKEN_FILE} has one"),
            (false, false) => "not set".to_owned(),
        };
        findings.push(DoctorFinding::fact(TOKEN, state));
    }
    findings
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn has_file() -> bool {
    env::var_os("HOME").is_some_and(|home| Path::new(&home).join(TOKEN_FILE).is_file())
}

pub fn sign_key() -> Option<DoctorFinding> {
    let value = env::var(SIGN_KEY).ok()?;
    let key = match sign_key_of(&value) {
        Ok(key) => key.public.short_id(),
        Err(error) => return Some(unusable(SIGN_KEY, error)),
    };
    // The variable may hold a text instead of a path; that does not name a file.
    let mode = fs::metadata(Path::new(&value)).map_or(0, |file| file.permissions().mode());
    let for_others = mode & 0o077;
    if for_others == 0 {
        return Some(DoctorFinding::fact(SIGN_KEY, format!("signs as {key}")));
    }
    let signer = format!("signs as {key}; other users can read its file (mode {:o})", mode & 0o777);
    let needed = Some("for its owner alone".to_owned());
    let finding = DoctorFinding { level: FindingLevel::Doubtful, needed, ..DoctorFinding::fact(SIGN_KEY, signer) };
    Some(finding.fix(format!("chmod 600 {value}")))
}

pub fn trusted_keys() -> Option<DoctorFinding> {
    let path = env::var(TRUSTED_KEYS).ok()?;
    Some(match TrustedKeys::read(Path::new(&path)) {
        Ok(trusted) => {
            let ids: Vec<String> = trusted.keys().iter().map(PublicKey::short_id).collect();
            DoctorFinding::fact(TRUSTED_KEYS, format!("outputs signed by {} are taken", ids.join(", ")))
        }
        Err(error) => unusable(TRUSTED_KEYS, error),
    })
}

fn unusable(name: &str, error: ErrorText) -> DoctorFinding {
    let finding = DoctorFinding::fact(name, error.message).needed("an Ed25519 key", &[], FindingLevel::Missing);
    finding.fix(error.hints.join("; "))
}

/// Lines on each model, and their weights among those that a GPU must hold.
pub fn model_findings(needs: &mut Needs, project: &Path) -> Vec<DoctorFinding> {
    let mut findings = Vec::new();
    for served in needs.served.clone() {
        let by = [served.task.clone()];
        let folder = folder(&served.model, project);
        if let Some(bytes) = folder.as_deref().map(weights).filter(|bytes| *bytes > 0 && !served.is_dummy) {
            needs.gpu_weights.push((served.task.clone(), bytes / u64::from(served.gpus.max(1))));
        }
        findings.push(model(&served, folder.as_deref()));
        if let Some((program, package)) = &served.program {
            let version = package_version(program, package, project);
            let level = if version.is_some() { FindingLevel::Good } else { FindingLevel::Doubtful };
            let version = version.unwrap_or_else(|| "version not known".to_owned());
            let fix = format!("pip install {package}, into the Python that `{}` runs", program.join(" "));
            findings.push(DoctorFinding::fact(*package, version).needed("the server", &by, level).fix(fix));
        }
        if let Some((first, servers)) = served.ports {
            let taken = (0..servers).filter_map(|index| first.checked_add(u16::try_from(index).ok()?));
            let taken = taken.filter(|port| std::net::TcpListener::bind(("0.0.0.0", *port)).is_err());
            findings.extend(taken.map(|port| {
                DoctorFinding::fact(format!("port {port}"), "taken")
                    .needed("free", &by, FindingLevel::Missing)
                    .fix("`ss -ltnp` names the program; end it, or leave `port` out to get a free one")
            }));
        }
    }
    findings
}

fn model(served: &ModelNeed, folder: Option<&Path>) -> DoctorFinding {
    let by = [served.task.clone()];
    let needed = if served.is_dummy { "its config.json" } else { "config.json and weights" };
    let finding = |text: String, level| DoctorFinding::fact(served.model.clone(), text).needed(needed, &by, level);
    match folder {
        Some(folder) if !folder.join("config.json").is_file() => {
            finding(format!("no config.json in {}", folder.display()), FindingLevel::Missing)
                .fix("name a folder in Hugging Face's layout")
        }
        Some(folder) if weights(folder) == 0 && !served.is_dummy => {
            finding(format!("no weights in {}", folder.display()), FindingLevel::Missing)
                .fix("fetch them, or `load_format: dummy` makes random ones")
        }
        Some(folder) => finding(format!("in {}", folder.display()), FindingLevel::Good),
        None if is_path(&served.model) => {
            finding("not there".to_owned(), FindingLevel::Missing).fix("name the right folder, or fetch it first")
        }
        None => finding("not in the cache: the server fetches it".to_owned(), FindingLevel::Doubtful)
            .fix(format!("hf download {}, if there is no network when it starts", served.model)),
    }
}

fn is_path(model: &str) -> bool {
    model.starts_with(['/', '.'])
}

/// Its folder here: as it is named, or in the cache of Hugging Face.
fn folder(model: &str, project: &Path) -> Option<PathBuf> {
    let named = project.join(model);
    if named.is_dir() {
        return Some(named);
    }
    if is_path(model) {
        return None;
    }
    let variable = |name: &str| env::var_os(name).map(PathBuf::from);
    let home = || Some(variable("HOME")?.join(".cache/huggingface"));
    let hub = variable("HF_HUB_CACHE").or_else(|| Some(variable("HF_HOME").or_else(home)?.join("hub")))?;
    let snapshots = hub.join(format!("models--{}", model.replace('/', "--"))).join("snapshots");
    let mut folders: Vec<PathBuf> = fs::read_dir(snapshots).ok()?.flatten().map(|entry| entry.path()).collect();
    folders.sort();
    folders.pop()
}

/// Bytes of the weights in a folder.
fn weights(folder: &Path) -> u64 {
    let size = |suffix: &str| {
        let files = fs::read_dir(folder).into_iter().flatten().flatten();
        let files = files.filter(|entry| entry.file_name().to_string_lossy().ends_with(suffix));
        // In the cache they are links.
        files.filter_map(|entry| fs::metadata(entry.path()).ok()).map(|file| file.len()).sum::<u64>()
    };
    match size(".safetensors") {
        0 => size(".bin"),
        bytes => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(model: &str) -> ModelNeed {
        ModelNeed {
            task: "server".to_owned(),
            model: model.to_owned(),
            gpus: 2,
            is_dummy: false,
            ports: None,
            program: None,
        }
    }

    fn found(served: ModelNeed, project: &Path) -> (FindingLevel, String, Vec<(String, u64)>) {
        let mut needs = Needs { served: vec![served], ..Needs::default() };
        let findings = model_findings(&mut needs, project);
        (findings[0].level, findings[0].found.clone(), needs.gpu_weights)
    }

    #[test]
    fn a_folder_has_a_config_and_weights_that_its_gpus_share() {
        let project = tempfile::tempdir().unwrap();
        let folder = project.path().join("llama");
        assert_eq!(found(served("./llama"), project.path()).0, FindingLevel::Missing);
        fs::create_dir(&folder).unwrap();
        assert!(found(served("llama"), project.path()).1.starts_with("no config.json in "));
        fs::write(folder.join("config.json"), "{}").unwrap();
        assert!(found(served("llama"), project.path()).1.starts_with("no weights in "));
        let dummy = ModelNeed { is_dummy: true, ..served("llama") };
        assert_eq!(found(dummy, project.path()).0, FindingLevel::Good);
        fs::write(folder.join("model-1.safetensors"), [0; 100]).unwrap();
        let (level, _, weights) = found(served("llama"), project.path());
        assert_eq!((level, weights), (FindingLevel::Good, vec![("server".to_owned(), 50)]));
        assert_eq!(found(served("no-such-org/llama"), project.path()).0, FindingLevel::Doubtful);
    }
}
