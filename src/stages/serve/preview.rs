//! Launch plans before anything is built: what a repository and an engine will be is read from the stages that make
//! them, and the command around a server in its stage's container is the one that [`super::planned_server::placed`]
//! will build, with placeholders for what is not known yet.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::argv::EngineCopies;
use super::launch::{LaunchContext, rank_logs};
use super::repository_models::{groups_of, repositories};
use super::{argv, launch, repository_models};
use crate::container::{ContainerView, WrappedEngine, place_of, wrap, wrap_in};
use crate::remote::hosts;
use crate::task_context::locale_beside;
use base::diag::error_chain;
use base::event::GpuId;
use base::spec::{Launcher, ServerMode};
use base::units::{counted, unquoted};
use exec::container::ContainerSpec;
use exec::process;
use plan::manifest::model::{
    Action, CommandServer, HostOn, Repository, Serve, SimServer, TritonServer, TrtllmServe, Vllm, input_variable,
};
use plan::{ActionError, Plan, PlanReference, Task, read_action};
use triton::launch::{
    LaunchModel, LaunchPlan, LaunchPreview, LaunchWorld, LaunchedServer, Port, Ports, Rank, ServePreview, ServerSpec,
    plan as launch_plan,
};
use triton::{EngineConfig, SpecProblem};

/// The default backend of TensorRT-LLM's model; a parameter can change it.
const BACKEND: &str = "tensorrtllm";

/// Why a launch plan cannot be made.
struct PreviewError {
    problems: Problems,
    /// They contradict each other. Otherwise a file cannot be read here, now: an earlier stage may write it, or it may
    /// be on another machine.
    is_certain: bool,
}

impl From<Problems> for PreviewError {
    fn from(problems: Problems) -> Self {
        Self { problems, is_certain: true }
    }
}

fn unreadable(problem: SpecProblem) -> PreviewError {
    PreviewError { problems: vec![problem], is_certain: false }
}

/// Every chosen `serve` task of a plan that is not skipped. Reads what exists in the project folder, and nothing else.
///
/// # Errors
/// A task's action cannot be read.
pub fn previews(plan: &Plan, chosen: &[bool], project: &Path) -> Result<Vec<ServePreview>, ActionError> {
    let serves = plan.tasks.iter().zip(chosen).filter(|(_, chosen)| **chosen);
    serves
        .filter_map(|(task, _)| Some((task, task.serve()?)))
        .map(|(task, written)| {
            let look = PreviewContext { plan, task, project };
            let repository = match written {
                Serve::Triton(server) => server.repository.clone().unwrap_or_default(),
                Serve::Simulator(server) => server.repository.clone(),
                Serve::TrtllmServe(_) | Serve::Vllm(_) | Serve::Command(_) | Serve::Attach(_) => String::new(),
            };
            // Everything else is only to be shown.
            let Action::Serve(serve) = read_action(&task.id, &look.shown(task.action_text()))? else { return Ok(None) };
            let launch = look.serve(&serve, &repository).unwrap_or_else(|PreviewError { problems, is_certain }| {
                LaunchPreview::Impossible { problems, is_certain }
            });
            let launch = on_hosts(task, launch);
            Ok(Some(ServePreview { task: task.id.to_string(), launch }))
        })
        .filter_map(Result::transpose)
        .collect()
}

/// Each of several machines starts the same.
fn on_hosts(task: &Task, mut launch: LaunchPreview) -> LaunchPreview {
    if let (LaunchPreview::Start(plan), Some(host)) = (&mut launch, task.host.as_deref()) {
        match host {
            HostOn::Ssh(machines) => {
                let hosts = match machines.len() {
                    1 => "the host".to_owned(),
                    count => format!("each of {count} hosts"),
                };
                plan.notes.push(format!("{hosts} starts this, with free ports of its own"));
                plan.notes.extend(hosts::agent_command_lines(machines));
            }
            HostOn::Slurm(slurm) if slurm.each_node => {
                let nodes =
                    slurm.nodes.map_or_else(|| "each node".to_owned(), |nodes| format!("each of the {nodes} nodes"));
                plan.notes.push(format!("{nodes} of its job starts this, with free ports of its own"));
            }
            HostOn::Slurm(_) => {}
        }
    }
    launch
}

/// What a text of an action will be.
enum ResolvedPath<'a> {
    /// Made by this task; the rest of the path.
    TaskOutput(&'a Task, String),
    /// It is there, or not.
    Existing(PathBuf),
}

struct PreviewContext<'a> {
    plan: &'a Plan,
    task: &'a Task,
    project: &'a Path,
}

type Problems = Vec<SpecProblem>;

impl PreviewContext<'_> {
    /// `repository` is as it was written, with its references.
    fn serve(&self, serve: &Serve, repository: &str) -> Result<LaunchPreview, PreviewError> {
        if let Some(attach) = serve.attached() {
            let endpoints = attach
                .endpoints
                .read()
                .map_err(|(_, why)| vec![SpecProblem::new(format!("`endpoints`: {why}"), "")])?;
            return Ok(LaunchPreview::Attach { endpoints, models: attach.models });
        }
        Ok(match serve {
            Serve::Triton(server) => LaunchPreview::Start(self.triton(server, repository)?),
            Serve::Simulator(server) => LaunchPreview::Start(self.simulators(server, repository)),
            Serve::TrtllmServe(server) => LaunchPreview::Start(self.trtllm(server)?),
            Serve::Vllm(server) => LaunchPreview::Start(self.vllm(server)?),
            Serve::Command(server) => LaunchPreview::Start(self.command(server)?),
            Serve::Attach(_) => LaunchPreview::Attach { endpoints: Vec::new(), models: Vec::new() },
        })
    }

    fn triton(&self, server: &TritonServer, repository: &str) -> Result<LaunchPlan, PreviewError> {
        let mut notes = Vec::new();
        let mut servers = self.servers(repository, &mut notes)?;
        let ports = triton::launch::ports(server, servers.len()).map_err(|problem| vec![problem])?;
        let count = servers.len();
        for (index, (one, ports)) in servers.iter_mut().zip(ports).enumerate() {
            one.ports = ports;
            let number = if count == 1 { String::new() } else { format!(".{index}") };
            one.rank_logs = rank_logs(self.task, || format!("<logs>/{}{number}.ranks", self.task.id));
        }
        let place = LaunchContext {
            gpus: self.gpus(),
            container_name: container_name(self.task),
            stage_env: self.task.env.keys().cloned().collect(),
            path: &str::to_owned,
        };
        let spec = launch::spec(server, servers, place);
        let mut plan = launch_plan(&spec).map_err(|error| error.problems)?;
        notes.append(&mut plan.notes);
        plan.notes = notes;
        Ok(plan)
    }

    /// One server for each repository, without ports.
    fn servers(&self, repository: &str, notes: &mut Vec<String>) -> Result<Vec<ServerSpec>, PreviewError> {
        let bare = |repository: String, models: Vec<LaunchModel>, reads: Vec<String>| ServerSpec {
            repository,
            models,
            reads,
            ..ServerSpec::default()
        };
        match self.resolve_path(repository) {
            ResolvedPath::TaskOutput(task, rest) if rest.is_empty() => {
                let from = self.writer(task);
                let Some((from, Action::Repository(repository))) = from.and_then(|from| Some((from, from.action()?)))
                else {
                    notes.push(format!(
                        "`{}` makes the repository, and what is in it shows only then: one server with one rank is \
                         assumed",
                        task.id
                    ));
                    return Ok(vec![bare(format!("<{}>", task.id), Vec::new(), Vec::new())]);
                };
                if from.id != task.id {
                    notes.push(format!("assuming that `{}` leaves the repositories of `{}` alone", task.id, from.id));
                }
                let writer = PreviewContext { task: from, ..*self };
                let (models, reads) = (writer.models(repository, notes)?, writer.reads(repository));
                let path = |index: u32| format!("<{}>/triton_model_repo_{index}", task.id);
                Ok((0..repository.triton_num_servers)
                    .map(|index| bare(path(index), models.clone(), reads.clone()))
                    .collect())
            }
            // One repository of several.
            ResolvedPath::TaskOutput(task, rest) => {
                let (mut models, mut reads) = (Vec::new(), Vec::new());
                if let Some(from) = self.writer(task)
                    && let Some(Action::Repository(repository)) = from.action()
                {
                    let writer = PreviewContext { task: from, ..*self };
                    (models, reads) = (writer.models(repository, notes)?, writer.reads(repository));
                }
                Ok(vec![bare(format!("<{}>{rest}", task.id), models, reads)])
            }
            ResolvedPath::Existing(folder) => {
                let repositories = repositories(&folder).map_err(|failure| unreadable(failure.into()))?;
                let server = |path: &PathBuf| {
                    bare(
                        path.display().to_string(),
                        repository_models::models(path),
                        repository_models::paths_named_in(path),
                    )
                };
                Ok(repositories.iter().map(server).collect())
            }
        }
    }

    /// The `repository:` task behind a folder: that task itself, or the only one that another kind of task reads.
    fn writer<'b>(&'b self, task: &'b Task) -> Option<&'b Task> {
        if matches!(task.action(), Some(Action::Repository(_))) {
            return Some(task);
        }
        let needs =
            task.needs.iter().filter(|need| need.data).filter_map(|need| self.plan.tasks.get(need.task as usize));
        let mut writers = needs.filter(|one| matches!(one.action(), Some(Action::Repository(_))));
        writers.next().filter(|_| writers.next().is_none())
    }

    /// The models that a `repository:` stage will write and that run an engine.
    fn models(&self, repository: &Repository, notes: &mut Vec<String>) -> Result<Vec<LaunchModel>, PreviewError> {
        let parameter = |name: &str| repository.parameters.get(name).map(unquoted);
        if parameter("triton_backend").is_some_and(|backend| backend != BACKEND) {
            return Ok(Vec::new());
        }
        let (engine, parallelism) = match self.resolve_path(&repository.engine) {
            ResolvedPath::TaskOutput(task, rest) => {
                let parallelism = match task.action() {
                    Some(Action::Engine(engine)) if rest.is_empty() => {
                        Some((engine.tensor_parallelism, engine.pipeline_parallelism))
                    }
                    _ => {
                        notes.push(format!("`{}` builds the engine; its tp and pp are known only then", task.id));
                        None
                    }
                };
                (format!("<{}>{rest}", task.id), parallelism)
            }
            ResolvedPath::Existing(folder) => {
                let config = EngineConfig::load(&folder).map_err(|error| {
                    unreadable(SpecProblem::new(
                        format!("the engine cannot be read: {}", error_chain(&error)),
                        "is that the folder of an engine that was built?",
                    ))
                })?;
                let mapping = &config.pretrained_config.mapping;
                (folder.display().to_string(), Some((mapping.tp_size, mapping.pp_size)))
            }
        };
        let (groups, copies) = self.groups(repository, parallelism)?;
        let model = |name: &String| LaunchModel {
            name: name.clone(),
            engine: Some(engine.clone()),
            parallelism,
            copies: parameter("instance_count").and_then(|count| count.parse().ok()).unwrap_or(copies),
            gpu_device_ids: parameter("gpu_device_ids").map_or_else(|| groups.clone(), |text| groups_of(&text)),
            participant_ids: parameter("participant_ids").map(|text| groups_of(&text)).unwrap_or_default(),
        };
        // The others are Python models.
        Ok(repository.models.iter().filter(|name| name.as_str() == "tensorrt_llm").map(model).collect())
    }

    /// What the repository that a `repository:` stage will write names beyond its engine.
    fn reads(&self, repository: &Repository) -> Vec<String> {
        let named = repository.parameters.values().chain(repository.runtime_flags.values()).flat_map(wrap::in_json);
        let mut reads: Vec<String> = named.map(|path| path.display().to_string()).collect();
        reads.extend(repository.tokenizer.as_deref().map(|text| match self.resolve_path(text) {
            ResolvedPath::TaskOutput(task, rest) => format!("<{}>{rest}", task.id),
            ResolvedPath::Existing(path) => path.display().to_string(),
        }));
        reads.sort();
        reads
    }

    /// Devices of each copy and how many copies: those that the repository stage will write.
    fn groups(
        &self,
        repository: &Repository,
        parallelism: Option<(u32, u32)>,
    ) -> Result<(Vec<Vec<u32>>, u32), Problems> {
        let Some(ranks) = parallelism.map(|(tp, pp)| tp * pp) else { return Ok((Vec::new(), 1)) };
        let (gpus, servers) = (repository.gpus.unwrap_or(self.task.gpus), repository.triton_num_servers.max(1));
        let here = if gpus == 0 { ranks } else { gpus / servers };
        if (gpus > 0 && !gpus.is_multiple_of(servers)) || here == 0 || !here.is_multiple_of(ranks) {
            return Err(vec![SpecProblem::new(
                format!(
                    "`{}` has {} for {}, but each copy of the engine needs {ranks} (tp × pp)",
                    self.task.id,
                    counted(gpus, "GPU"),
                    counted(servers, "server")
                ),
                "change its `gpus` or `triton_num_servers`, or build the engine for other sizes",
            )]);
        }
        let copies = here / ranks;
        Ok(((0..copies).map(|copy| (copy * ranks..(copy + 1) * ranks).collect()).collect(), copies))
    }

    fn simulators(&self, server: &SimServer, repository: &str) -> LaunchPlan {
        let mut notes = Vec::new();
        let servers = self.servers(repository, &mut notes).unwrap_or_default();
        let servers = servers.into_iter().enumerate().map(|(index, one)| {
            let program = ["regatta", "sim", "serve", "--repository", &one.repository].map(str::to_owned);
            let argv = [program.to_vec(), argv::simulator_options(server)].concat();
            single(format!("server {index}"), argv, Ports::default())
        });
        LaunchPlan { servers: servers.collect(), notes }
    }

    fn trtllm(&self, server: &TrtllmServe) -> Result<LaunchPlan, PreviewError> {
        let options = (!server.options.is_empty()).then_some("<options>");
        let server = &TrtllmServe {
            model: self.existing(&server.model),
            tokenizer: server.tokenizer.as_deref().map(|path| self.existing(path)),
            ..server.clone()
        };
        self.copies(argv::trtllm_copies(server), |port| argv::trtllm_argv(server, &server.model, port, options))
    }

    fn vllm(&self, server: &Vllm) -> Result<LaunchPlan, PreviewError> {
        let server = &argv::with_paths(server, |path| self.existing(path));
        self.copies(argv::vllm_copies(server), |port| argv::vllm_argv(server, port))
    }

    /// Each with its GPUs and its port; `argv` is the command line of one on a port.
    fn copies(&self, copies: EngineCopies, argv: impl Fn(&str) -> Vec<String>) -> Result<LaunchPlan, PreviewError> {
        let shares = copies.shares(&self.gpus()).map_err(|problem| vec![problem])?;
        let around = self.container(copies.named);
        let servers = shares.into_iter().enumerate().map(|(index, gpus)| {
            let index16 = u16::try_from(index).unwrap_or(u16::MAX);
            let port = copies.port.map_or(Port::Free, |first| Port::Known(first.saturating_add(index16)));
            let ports = Ports { http: port, grpc: Port::Absent, metrics: Port::Absent };
            let env = visible(&gpus);
            let bare = single(format!("server {index}"), argv(&port.to_string()), ports);
            around.around(LaunchedServer { gpus, env, ..bare }, index)
        });
        Ok(LaunchPlan { servers: servers.collect::<Result<_, Problems>>()?, notes: Vec::new() })
    }

    fn command(&self, server: &CommandServer) -> Result<LaunchPlan, PreviewError> {
        let port = server.port.map_or(Port::Free, Port::Known);
        let (port_text, name) = (port.to_string(), container_name(self.task));
        let fill = |word: &String| word.replace("{port}", &port_text).replace("{name}", &name);
        let ports = Ports { grpc: port, http: Port::Absent, metrics: Port::Absent };
        let words = server.words.iter().map(fill).collect();
        let gpus = self.gpus();
        let env = visible(&gpus);
        let bare = LaunchedServer { gpus, env, ..single("the server".to_owned(), words, ports) };
        let server = self.container(Vec::new()).around(bare, 0)?;
        Ok(LaunchPlan { servers: vec![server], notes: Vec::new() })
    }

    /// The first ones stand for those that the run leases.
    fn gpus(&self) -> Vec<GpuId> {
        (0..self.task.gpus).map(GpuId::Index).collect()
    }

    /// A path of the manifest as a run passes it to a server: absolute if the file exists.
    fn existing(&self, text: &str) -> String {
        let path = self.project.join(text);
        if path.exists() { path.display().to_string() } else { text.to_owned() }
    }

    /// The container of the stage, with further files for its server.
    fn container(&self, named: Vec<PathBuf>) -> ContainerPreview<'_> {
        let there = |pattern: &String| match self.resolve_path(pattern) {
            ResolvedPath::Existing(path) => path.exists().then_some(path),
            ResolvedPath::TaskOutput(..) => None,
        };
        let inputs = self.task.inputs.iter();
        let inputs = inputs.map(|(name, all)| (name.clone(), all.iter().filter_map(there).collect()));
        let mut spec = place_of(self.task);
        if let Some(spec) = &mut spec {
            spec.settings.image = self.shown(&spec.settings.image);
        }
        ContainerPreview { task: self.task, project: self.project, spec, inputs: inputs.collect(), named }
    }

    fn resolve_path(&self, text: &str) -> ResolvedPath<'_> {
        let references = PlanReference::all_in(text);
        if let [reference] = references.as_slice()
            && let Some(rest) = text.strip_prefix(&reference.token())
        {
            match reference {
                PlanReference::OutputFolder(id) => {
                    if let Some(task) = self.plan.tasks.iter().find(|task| task.id == *id) {
                        return ResolvedPath::TaskOutput(task, rest.to_owned());
                    }
                }
                PlanReference::Input(name) => {
                    if let Some([path]) = self.task.inputs.get(name).map(Vec::as_slice)
                        && path != text
                    {
                        return self.resolve_path(&format!("{path}{rest}"));
                    }
                }
                PlanReference::Service(_) | PlanReference::Image(_) => {}
            }
        }
        ResolvedPath::Existing(self.project.join(self.shown(text)))
    }

    /// Text for display, or JSON: what is not there yet is `<task>`.
    fn shown(&self, text: &str) -> String {
        let shown = PlanReference::replace_in(text, |reference| {
            Some(match reference {
                PlanReference::OutputFolder(id) => format!("<{id}>"),
                PlanReference::Service(id) => format!("<servers of {id}>"),
                PlanReference::Image(id) => format!("<image of {id}>"),
                PlanReference::Input(name) => match self.task.inputs.get(name).map(Vec::as_slice) {
                    Some([path]) if !path.contains(['⟦', '"', '\\']) => path.clone(),
                    _ => format!("<inputs.{name}>"),
                },
            })
        });
        shown.unwrap_or_else(|_| text.to_owned())
    }
}

/// The GPUs that a server sees, as a variable.
fn visible(gpus: &[GpuId]) -> Vec<(String, String)> {
    if gpus.is_empty() { Vec::new() } else { vec![("CUDA_VISIBLE_DEVICES".to_owned(), GpuId::list(gpus))] }
}

/// A server that is one process.
fn single(name: String, command: Vec<String>, ports: Ports) -> LaunchedServer {
    let rank = Rank { role: "the only process".to_owned(), opens_ports: true, ..Rank::default() };
    LaunchedServer {
        name,
        mode: ServerMode::Plain,
        launcher: Launcher::None,
        parallelism: None,
        world_size: 1,
        host: "127.0.0.1".to_owned(),
        ports,
        gpus: Vec::new(),
        ranks: vec![rank],
        command: vec![command],
        env: Vec::new(),
        unset: Vec::new(),
        world: LaunchWorld::Process,
        logs: Vec::new(),
    }
}

/// The output folder of a task that has not run.
const OUT: &str = "<out>";

/// What the container of a task adds to a server.
pub(super) struct ContainerPreview<'a> {
    pub task: &'a Task,
    pub project: &'a Path,
    /// Its container, if it has one; the image as it is to be shown.
    pub spec: Option<ContainerSpec>,
    /// Inputs that are there already.
    pub inputs: BTreeMap<String, Vec<PathBuf>>,
    /// Further files that the server must have.
    pub named: Vec<PathBuf>,
}

impl ContainerPreview<'_> {
    /// The server inside, as number `index` of its task. A task without a container leaves it as it is.
    pub fn around(&self, server: LaunchedServer, index: usize) -> Result<LaunchedServer, Vec<SpecProblem>> {
        let Some(mut spec) = self.spec.clone() else { return Ok(server) };
        if spec.name.is_empty() {
            spec.name = container_name(self.task);
        }
        if index > 0 {
            spec.name = format!("{}-{index}", spec.name);
        }
        let command: Vec<String> = server.command.concat();
        let mut named = wrap::in_arguments(command.iter().skip(1).map(String::as_str));
        named.extend(self.named.iter().cloned());
        let env = self.variables();
        let view = ContainerView {
            project: self.project,
            // The usual one is in the project.
            state: self.project,
            out: Path::new(OUT),
            inputs: &self.inputs,
            env: &env,
            secrets: &self.task.secrets,
            dir: Path::new(OUT),
            gpus: &server.gpus,
            named: &named,
        };
        let WrappedEngine { argv, env } = wrap_in(&spec, &view).map_err(|failure| vec![failure.into()])?;
        let assigned = |(name, value): (String, Option<OsString>)| Some((name, value?.to_string_lossy().into_owned()));
        let task_variables: Vec<String> = self.variables().into_iter().map(|(name, _)| name).collect();
        let world = if spec.engine.is_detached() {
            LaunchWorld::Container { program: spec.program().to_owned(), name: spec.safe_name() }
        } else {
            LaunchWorld::Process
        };
        Ok(LaunchedServer {
            command: std::iter::once(argv).chain(server.command).collect(),
            // Those of the task are passed by their names.
            env: env.into_iter().filter_map(assigned).filter(|(name, _)| !task_variables.contains(name)).collect(),
            world,
            ..server
        })
    }

    /// The variables of its commands.
    fn variables(&self) -> Vec<(String, Option<OsString>)> {
        let placeholder = |name: &str| (name.to_owned(), Some(OsString::from(format!("<{name}>"))));
        let task_env = self.task.env.iter().map(|(name, value)| (name.clone(), Some(OsString::from(value))));
        let task_env: Vec<_> = task_env.collect();
        let locale = locale_beside(&task_env);
        locale
            .into_iter()
            .chain(task_env)
            .chain([("OUT".to_owned(), Some(OUT.into()))])
            .chain(self.task.inputs.keys().map(|name| placeholder(&input_variable(name))))
            .chain([process::HOME, process::RUN, process::TASK].map(placeholder))
            .collect()
    }
}

/// The name of a container that a task will start; the run's name is not known yet.
pub(super) fn container_name(task: &Task) -> String {
    format!("regatta-PID-{}", task.id)
}
