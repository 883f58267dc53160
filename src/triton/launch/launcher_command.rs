//! The commands around the ranks: `mpirun`, `srun`, a container; and their environment.
//!
//! Under Slurm every rank runs the same command line, so `sh` selects from `SLURM_PROCID` what differs between ranks.
//! A `--multi-prog` file would do it too, but every node must see such a file, it cannot be pasted, and it has
//! quoting rules of its own; the script is part of the command. It uses `exec`, so that signals reach the server.

use super::argv::{RankCommand, trace_config};
use super::spec::{LaunchSpec, ServerSpec};
use super::world_size::ServerLayout;
use super::{LaunchWorld, LaunchedServer};
use crate::SpecProblem;
use base::event::GpuId;
use base::spec::{ContainerEngine, Launcher, ServerMode};
use base::units::shell_word;
use exec::container::{self, ContainerAccess, ContainerSpec, contradictions};

/// What `mpirun` and `srun` set for their ranks. A server that inherits it behaves as a rank of an unrelated world,
/// and its Python models hang when they import a library that looks at it.
const MPI: [&str; 3] = ["OMPI_*", "PMIX_*", "PMI_*"];
/// For launchers, which take their own settings (`OMPI_MCA_btl`, …) from the environment: only what makes one a rank.
const RANK: [&str; 6] = ["OMPI_COMM_*", "OMPI_MCA_ess*", "OMPI_MCA_orte*", "OMPI_UNIVERSE_SIZE", "PMIX_*", "PMI_*"];

/// A longer line of a script is broken between arguments.
const WIDEST: usize = 110;
/// What `docker stop` waits beyond Triton's own exit timeout, seconds.
const BEYOND: u32 = 5;
/// Triton's own, seconds.
const EXIT_TIMEOUT: u32 = 30;

/// Combinations of containers and launchers that do not work.
pub(super) fn check(
    spec: &LaunchSpec,
    decided: &[ServerLayout],
    problems: &mut Vec<SpecProblem>,
    notes: &mut Vec<String>,
) {
    let Some(container) = &spec.container else { return };
    let word = container.engine.as_str();
    problems.extend(contradictions(container).into_iter().map(|(what, hint)| SpecProblem::new(what, hint)));
    let srun = decided.iter().any(|one| one.launcher == Launcher::Srun);
    if srun && container.engine.is_detached() {
        problems.push(SpecProblem::new(
            format!("ranks that srun starts cannot find each other inside {word}: PMIx does not work inside it"),
            "use enroot or apptainer, or pyxis: `srun: { args: [--container-image=…] }` without `container`",
        ));
    }
    if !spec.settings.mpi.hosts.is_empty() {
        problems.push(SpecProblem::new(
            "`mpi.hosts` with a container: mpirun inside would need ssh to containers on the other hosts".to_owned(),
            "use `launcher: srun`, or `mpi.args` for an mpirun that is made for it",
        ));
    }
    if container.settings.network.as_deref().is_some_and(|network| network != "host") {
        notes.push(format!(
            "container network `{}`: no ports are published; use `container.args` (`--publish=…`)",
            container.settings.network.as_deref().unwrap_or_default()
        ));
    }
}

pub(super) fn server(
    spec: &LaunchSpec,
    index: usize,
    decided: ServerLayout,
    ranked: Vec<RankCommand>,
) -> LaunchedServer {
    let server_spec = &spec.servers[index];
    let mut inside: Vec<(String, String)> = Vec::new();
    if decided.mode == ServerMode::Orchestrator {
        inside.push(("TRTLLM_ORCHESTRATOR".to_owned(), "1".to_owned()));
        inside.push(("TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES".to_owned(), u8::from(decided.spawns).to_string()));
    }
    let visible = GpuId::list(&decided.gpus);
    let (ranks, argvs): (Vec<_>, Vec<_>) = ranked.into_iter().map(|one| (one.rank, one.argv)).unzip();
    let mut outside = Vec::new();
    let mut wrapper = Vec::new();
    match &spec.container {
        None if visible.is_empty() => {}
        None => inside.push(("CUDA_VISIBLE_DEVICES".to_owned(), visible)),
        Some(container) => {
            let wrapped =
                LauncherContext { spec, container, server_spec, index, several: ranks.len() > 1, gpus: &decided.gpus };
            container::EngineCommand { argv: wrapper, env: outside } = wrapped.container_args(&inside);
        }
    }
    let shm = (ranks.get(1).or(ranks.first())).map(|rank| rank.shm_prefix.clone()).unwrap_or_default();
    let world_size = decided.world_size;
    // Processes that an orchestrator spawns are below its mpirun too.
    let spawned = if decided.spawns { server_spec.workers() as u32 } else { 0 };
    let before = [&wrapper, &spec.settings.prefix].into_iter().filter(|piece| !piece.is_empty()).cloned();
    let (command, world) = match decided.launcher {
        Launcher::None => (before.chain(argvs).collect(), LaunchWorld::Process),
        Launcher::Mpi => {
            let names: Vec<&str> = inside.iter().map(|(name, _)| name.as_str()).collect();
            let ranks = mpirun(spec, server_spec, argvs, &names);
            (before.chain(ranks).collect(), LaunchWorld::Mpi { ranks: world_size + spawned })
        }
        Launcher::Srun => (srun(spec, &wrapper, &argvs, &shm), LaunchWorld::Slurm { ranks: world_size }),
    };
    let world = match &spec.container {
        Some(container) if container.engine.is_detached() => LaunchWorld::Container {
            program: container.program().to_owned(),
            name: name_of(container, index, spec.servers.len()),
        },
        _ => world,
    };
    let detached = spec.container.as_ref().is_some_and(|container| container.engine.is_detached());
    let mut env = if spec.container.is_some() { outside } else { inside };
    env.retain(|(_, value)| !value.is_empty());
    let mut logs = Vec::new();
    if decided.launcher == Launcher::Mpi && world_size > 1 && !server_spec.rank_logs.is_empty() {
        logs.push(server_spec.rank_logs.clone());
    }
    logs.extend(spec.settings.log_file.as_ref().map(|file| file.replace("{server}", &index.to_string())));
    let unset: &[&str] = match decided.launcher {
        _ if detached => &[],
        Launcher::None => &MPI,
        Launcher::Mpi | Launcher::Srun => &RANK,
    };
    // What enroot shows of the GPUs is counted from 0 inside.
    let enroot = |container: &ContainerSpec| container.engine == ContainerEngine::Enroot;
    let recounted = spec.container.as_ref().filter(|one| enroot(one)).map(|_| "CUDA_VISIBLE_DEVICES");
    LaunchedServer {
        name: format!("server {index}"),
        mode: decided.mode,
        launcher: decided.launcher,
        parallelism: parallelism(server_spec),
        world_size,
        host: host(spec),
        ports: server_spec.ports,
        gpus: decided.gpus,
        ranks,
        command,
        env,
        unset: unset.iter().copied().chain(recounted).map(str::to_owned).collect(),
        world,
        logs,
    }
}

fn parallelism(server: &ServerSpec) -> Option<String> {
    let models: Vec<String> = server
        .models
        .iter()
        .filter_map(|model| {
            let (tp, pp) = model.parallelism?;
            let copies = if model.copies > 1 { format!("{} × ", model.copies) } else { String::new() };
            Some(format!("{}: {copies}TP{tp}·PP{pp}", model.name))
        })
        .collect();
    (!models.is_empty()).then(|| models.join(", "))
}

/// Where clients find the server: the given host, the first host it is spread to, the address it is bound to, or this
/// machine.
fn host(spec: &LaunchSpec) -> String {
    let first = spec.settings.mpi.hosts.first().map(|host| host.split(':').next().unwrap_or(host));
    let bound = spec.settings.grpc_address.as_deref().filter(|address| !matches!(*address, "0.0.0.0" | "::" | "[::]"));
    spec.settings.host.as_deref().or(first).or(bound).unwrap_or("127.0.0.1").to_owned()
}

/// `mpirun … -n 1 rank 0 : -n 1 rank 1 …`
fn mpirun(spec: &LaunchSpec, server: &ServerSpec, argvs: Vec<Vec<String>>, names: &[&str]) -> Vec<Vec<String>> {
    let mpi = &spec.settings.mpi;
    let mut head = vec![mpi.program.clone()];
    if mpi.allow_run_as_root {
        head.push("--allow-run-as-root".to_owned());
    }
    if spec.settings.oversubscribe {
        head.push("--oversubscribe".to_owned());
    }
    if !mpi.hosts.is_empty() {
        head.extend(["--host".to_owned(), mpi.hosts.join(",")]);
    }
    if argvs.len() > 1 && !server.rank_logs.is_empty() {
        head.extend(["--output-filename".to_owned(), server.rank_logs.clone()]);
    }
    head.extend(mpi.args.iter().cloned());
    let mut command = vec![head];
    let last = argvs.len().saturating_sub(1);
    for (rank, argv) in argvs.into_iter().enumerate() {
        let mut piece = vec!["-n".to_owned(), "1".to_owned()];
        if !mpi.hosts.is_empty() {
            // Each application context passes on its own variables.
            let given = names.iter().copied().chain(spec.stage_env.iter().map(String::as_str));
            piece.extend(given.flat_map(|name| ["-x".to_owned(), name.to_owned()]));
        }
        piece.extend(argv);
        if rank < last {
            piece.push(":".to_owned());
        }
        command.push(piece);
    }
    command
}

/// `srun --mpi=pmix … sh -c 'case $SLURM_PROCID in …'`
fn srun(spec: &LaunchSpec, container: &[String], argvs: &[Vec<String>], shm: &str) -> Vec<Vec<String>> {
    let given = &spec.settings.srun;
    let mut head = vec![given.program.clone(), "--mpi=pmix".to_owned(), format!("--ntasks={}", argvs.len())];
    if let Some(nodes) = given.nodes {
        head.push(format!("--nodes={nodes}"));
    }
    if spec.settings.oversubscribe {
        head.push("--overcommit".to_owned());
    }
    // Several servers, and the benchmark, share one allocation. A rank that dies ends the others, as under mpirun.
    head.extend(["--overlap", "--kill-on-bad-exit=1", "--label"].map(str::to_owned));
    head.extend(given.args.iter().cloned());
    let line = |argv: &[String], rank: &str| {
        let mut text = "exec".to_owned();
        let mut width = rank.len() + text.len();
        for word in container.iter().chain(&spec.settings.prefix).chain(argv).map(|word| in_script(word)) {
            if width + word.len() > WIDEST {
                text.push_str(" \\\n     ");
                width = 4;
            }
            width += 1 + word.len();
            text.push(' ');
            text.push_str(&word);
        }
        text
    };
    let script = match argvs {
        [] => String::new(),
        [only] => line(only, ""),
        [leader, worker, ..] => {
            let number: u32 = shm.trim_start_matches("prefix").trim_end_matches('_').parse().unwrap_or(1);
            // Rank 1 has this prefix; every rank's number counts on from there.
            let mine = match number - 1 {
                0 => "prefix${SLURM_PROCID}_".to_owned(),
                first => format!("prefix$(({first} + SLURM_PROCID))_"),
            };
            let worker = line(worker, "*) ").replacen(
                &format!("--backend-config=python,shm-region-prefix-name={shm}"),
                &format!("--backend-config=python,shm-region-prefix-name=\"{mine}\""),
                1,
            );
            format!("case \"$SLURM_PROCID\" in\n0) {} ;;\n*) {worker} ;;\nesac", line(leader, "0) "))
        }
    };
    vec![head, vec!["sh".to_owned(), "-c".to_owned(), script]]
}

struct LauncherContext<'a> {
    spec: &'a LaunchSpec,
    container: &'a ContainerSpec,
    server_spec: &'a ServerSpec,
    index: usize,
    several: bool,
    gpus: &'a [GpuId],
}

impl LauncherContext<'_> {
    /// The engine's arguments up to the image, and its own environment.
    fn container_args(&self, inside: &[(String, String)]) -> container::EngineCommand {
        let patience = self.spec.settings.exit_timeout_secs.unwrap_or(EXIT_TIMEOUT).saturating_add(BEYOND);
        let sees = ContainerAccess {
            mounts: self.mounts(),
            set: inside.to_vec(),
            pass: self.spec.stage_env.clone(),
            gpus: self.gpus.to_vec(),
            dir: None,
            stop_after: patience,
        };
        let name = name_of(self.container, self.index, self.spec.servers.len());
        container::engine_command(&ContainerSpec { name, ..self.container.clone() }, &sees)
    }

    /// What the server reads, at its own path, and what it writes.
    fn mounts(&self) -> Vec<String> {
        let mut mounts = vec![format!("{0}:{0}:ro", self.server_spec.repository)];
        let engines = self.server_spec.models.iter().filter_map(|model| model.engine.as_ref());
        mounts.extend(engines.chain(&self.server_spec.reads).map(|path| format!("{path}:{path}:ro")));
        if self.several && self.spec.settings.launcher != Some(Launcher::Srun) && !self.server_spec.rank_logs.is_empty()
        {
            mounts.push(format!("{0}:{0}", self.server_spec.rank_logs));
        }
        let traces = self.spec.settings.trace.as_ref().map(trace_config).unwrap_or_default();
        let traces = traces.iter().filter_map(|setting| setting.strip_prefix("triton,file="));
        let files = self.spec.settings.log_file.as_deref().into_iter().chain(traces);
        let folders = files.filter_map(|file| file.rsplit_once('/'));
        mounts.extend(folders.map(|(folder, _)| format!("{folder}:{folder}")));
        mounts
    }
}

/// `-<n>` for several servers.
fn name_of(container: &ContainerSpec, index: usize, servers: usize) -> String {
    let name = container.safe_name();
    if servers == 1 { name } else { format!("{name}-{index}") }
}

/// An argument in a script that is itself in single quotes: double quotes are easier to read there where they work.
fn in_script(word: &str) -> String {
    let single = shell_word(word);
    if single.starts_with('\'') && !word.contains(['$', '`', '"', '\\']) { format!("\"{word}\"") } else { single }
}
