//! Decides mode, number of ranks and GPUs, and collects every problem with them.

use super::spec::{LaunchModel, LaunchSpec, ServerSpec};
use crate::SpecProblem;
use base::event::GpuId;
use base::spec::{Launcher, MOST_PARTS, ServerMode};
use base::units::counted;

/// The configuration of one server.
#[derive(Clone, Debug)]
pub(super) struct ServerLayout {
    pub mode: ServerMode,
    pub launcher: Launcher,
    /// Orchestrator: spawns its workers.
    pub spawns: bool,
    pub world_size: u32,
    pub gpus: Vec<GpuId>,
}

impl ServerLayout {
    /// One process, of which nothing more is known.
    const fn process(gpus: Vec<GpuId>) -> Self {
        Self { mode: ServerMode::Plain, launcher: Launcher::None, spawns: false, world_size: 1, gpus }
    }
}

pub(super) fn all(spec: &LaunchSpec, problems: &mut Vec<SpecProblem>, notes: &mut Vec<String>) -> Vec<ServerLayout> {
    let mut report = |message: String, hint: &str| problems.push(SpecProblem::new(message, hint));
    let servers = spec.servers.len();
    if servers == 0 {
        report("a server needs a repository".to_owned(), "");
        return Vec::new();
    }
    if servers > 1 && !spec.settings.words.is_empty() {
        report(
            format!("`words` is the command line of one server, but there are {servers} repositories"),
            "name one of their folders, or leave `words` out",
        );
    }
    let hosts = spec.settings.mpi.hosts.len().max(1) as u32;
    if hosts > 1 && servers > 1 {
        report(
            format!("{servers} servers cannot be spread over the {hosts} hosts of `mpi.hosts`"),
            "one server may span hosts; several need a stage for each host",
        );
    }
    if !spec.gpus.len().is_multiple_of(servers) {
        report(
            format!("{} GPUs cannot be shared evenly by {servers} servers", spec.gpus.len()),
            "change `gpus` of the stage or `triton_num_servers` of the repository",
        );
    }
    let share = spec.gpus.len() / servers;
    spec.servers
        .iter()
        .enumerate()
        .map(|(index, server)| {
            let gpus = spec.gpus.get(index * share..(index + 1) * share).unwrap_or_default().to_vec();
            ServerDecision { spec, server, name: format!("server {index}"), problems, notes }.decide(gpus)
        })
        .collect()
}

struct ServerDecision<'a> {
    spec: &'a LaunchSpec,
    server: &'a ServerSpec,
    name: String,
    problems: &'a mut Vec<SpecProblem>,
    notes: &'a mut Vec<String>,
}

impl ServerDecision<'_> {
    fn push_problem(&mut self, message: String, hint: &str) {
        self.problems.push(SpecProblem::new(message, hint));
    }

    fn decide(mut self, gpus: Vec<GpuId>) -> ServerLayout {
        let spec = self.spec;
        if !spec.settings.words.is_empty() {
            // What its processes are is up to the command line.
            return ServerLayout::process(gpus);
        }
        let workers = self.server.workers();
        let count = workers.max(spec.settings.world_size.unwrap_or(0).into());
        if count > MOST_PARTS.into() {
            self.push_problem(
                format!("{} would have {count} ranks; the maximum is {MOST_PARTS}", self.name),
                "lower the copies in its config.pbtxt, or `world_size`",
            );
            return ServerLayout::process(gpus);
        }
        let copies: u32 = self.server.models.iter().map(|model| model.copies.max(1)).sum();
        // Not every engine can be read from here; an unknown number of ranks counts as one.
        let of_one = self.server.models.iter().filter_map(LaunchModel::ranks).max().unwrap_or(1);
        let model_ranks = workers as u32;
        let unknown = self.server.models.iter().filter(|model| model.ranks().is_none());
        let unknown: Vec<&str> = unknown.map(|model| model.name.as_str()).collect();
        let mode = spec.settings.mode.unwrap_or(
            match (copies, of_one.max(if unknown.is_empty() { 1 } else { spec.settings.world_size.unwrap_or(1) })) {
                (2.., _) => ServerMode::Orchestrator,
                (_, 2..) => ServerMode::Leader,
                _ if self.server.models.is_empty() && spec.settings.world_size.is_some_and(|world| world > 1) => {
                    ServerMode::Leader
                }
                _ => ServerMode::Plain,
            },
        );
        let spawns = mode == ServerMode::Orchestrator && spec.settings.spawn_processes.unwrap_or(true);
        let needed = match mode {
            ServerMode::Plain => 1,
            ServerMode::Leader if self.server.models.is_empty() || !unknown.is_empty() => {
                spec.settings.world_size.unwrap_or(of_one)
            }
            ServerMode::Leader => of_one,
            ServerMode::Orchestrator if spawns => 1,
            ServerMode::Orchestrator if !unknown.is_empty() => spec.settings.world_size.unwrap_or(1 + model_ranks),
            ServerMode::Orchestrator => 1 + model_ranks,
        };
        let world_size = spec.settings.world_size.unwrap_or(needed);
        self.mode(mode, copies, of_one);
        self.world(mode, spawns, world_size, needed);
        if mode == ServerMode::Orchestrator && !spawns {
            self.participants(world_size);
        }
        if spec.settings.spawn_processes.is_some() && mode != ServerMode::Orchestrator {
            self.push_problem(
                format!("`spawn_processes` requires mode orchestrator; the mode is {}", mode.as_str()),
                "remove it, or set `mode: orchestrator`",
            );
        }
        let launcher = self.launcher(mode, spawns, world_size);
        let workers =
            if mode == ServerMode::Plain || mode == ServerMode::Leader { of_one.max(needed) } else { model_ranks };
        self.gpus(&gpus, workers, !unknown.is_empty());
        if !unknown.is_empty() && spec.settings.world_size.is_none() {
            let names = unknown.join(", ");
            self.notes.push(format!("cannot read the engine of {names}: assuming one rank; `world_size` overrides it"));
        }
        ServerLayout { mode, launcher, spawns, world_size, gpus }
    }

    fn mode(&mut self, mode: ServerMode, copies: u32, of_one: u32) {
        let name = self.name.clone();
        match mode {
            ServerMode::Plain if of_one > 1 => self.push_problem(
                format!("mode plain starts one rank, but the engine of {name} needs {of_one} (tp × pp)"),
                "leave `mode` out to get leader",
            ),
            ServerMode::Leader if copies > 1 => self.push_problem(
                format!("mode leader serves one copy of one model, and {name} has {copies}"),
                "leave `mode` out to get orchestrator, or use more servers (`triton_num_servers`)",
            ),
            ServerMode::Plain if copies > 1 => self.notes.push(format!(
                "{name} has {copies} models in one rank without an orchestrator: they share one process"
            )),
            _ => {}
        }
    }

    fn world(&mut self, mode: ServerMode, spawns: bool, world_size: u32, needed: u32) {
        if world_size == needed {
            return;
        }
        let because = match mode {
            ServerMode::Plain => "mode plain is one rank".to_owned(),
            ServerMode::Leader => format!("the engine needs {needed} (tp × pp)"),
            ServerMode::Orchestrator if spawns => "an orchestrator that spawns its workers is one rank".to_owned(),
            ServerMode::Orchestrator => format!("the orchestrator and all ranks of its models are {needed}"),
        };
        let name = self.name.clone();
        self.push_problem(
            format!("world_size is {world_size}, and {because}: {name}"),
            "remove `world_size`: it is computed",
        );
    }

    fn launcher(&mut self, mode: ServerMode, spawns: bool, world_size: u32) -> Launcher {
        let default = if mode == ServerMode::Plain { Launcher::None } else { Launcher::Mpi };
        let launcher = self.spec.settings.launcher.unwrap_or(default);
        match launcher {
            Launcher::None if world_size > 1 => self.push_problem(
                format!("launcher none starts one process, but the world size is {world_size}"),
                "use `launcher: mpi` or `launcher: srun`",
            ),
            Launcher::None if spawns => self.notes.push(
                "launcher none: the orchestrator spawns its workers as an MPI program that no mpirun has started"
                    .to_owned(),
            ),
            Launcher::Srun if spawns => self.push_problem(
                "Slurm does not spawn MPI processes for an orchestrator".to_owned(),
                "`spawn_processes: false`, with `participant_ids` in the model's parameters",
            ),
            _ => {}
        }
        if !self.spec.settings.mpi.hosts.is_empty() && launcher != Launcher::Mpi {
            self.push_problem(
                "`mpi.hosts` is for the launcher mpi".to_owned(),
                "`srun.nodes` sets the number of nodes of a server",
            );
        }
        launcher
    }

    /// Without spawning, the repository must define which rank belongs to which model.
    fn participants(&mut self, world_size: u32) {
        let (name, models) = (self.name.clone(), &self.server.models);
        let mut seen: Vec<u32> = Vec::new();
        for model in models {
            if model.participant_ids.is_empty() {
                self.push_problem(
                    format!(
                        "{name}: the model {} has no `participant_ids`, and nothing spawns its workers",
                        model.name
                    ),
                    "ranks from 1, for example `participant_ids: \"1,2\"` under `parameters` of the repository; or \
                    set `spawn_processes: true`",
                );
                continue;
            }
            if let Some(ranks) = model.ranks()
                && let Some(wrong) = model.participant_ids.iter().find(|ids| ids.len() as u32 != ranks)
            {
                let (model, count) = (&model.name, wrong.len());
                self.push_problem(
                    format!("{name}: `participant_ids` of {model} names {count} ranks, but its engine needs {ranks}"),
                    "",
                );
            }
            for id in model.participant_ids.iter().flatten() {
                let reason = match *id {
                    0 => "rank 0 is the orchestrator",
                    id if id >= world_size => "no such rank",
                    id if seen.contains(&id) => "it is another copy's already",
                    _ => "",
                };
                if !reason.is_empty() {
                    self.push_problem(
                        format!("{name}: `participant_ids` of {} names rank {id}: {reason}", model.name),
                        "",
                    );
                }
                seen.push(*id);
            }
        }
    }

    fn gpus(&mut self, gpus: &[GpuId], workers: u32, unknown: bool) {
        let (name, here) = (self.name.clone(), gpus.len() as u32);
        if here == 0 {
            return;
        }
        let hosts =
            self.spec.settings.mpi.hosts.len().max(self.spec.settings.srun.nodes.unwrap_or(1) as usize).max(1) as u32;
        let there = here * hosts;
        if !self.server.models.is_empty() && !unknown {
            if there < workers {
                self.push_problem(
                    format!("{name} has {}, but its models need {workers}", counted(there, "GPU")),
                    "change `gpus` of the stage or `triton_num_servers` of the repository",
                );
                // Then no division of devices can be right.
                return;
            } else if there > workers {
                self.notes.push(format!("{name} has {there} GPUs and uses {workers}: {} stay idle", there - workers));
            }
        }
        let models = &self.server.models;
        for model in models {
            let mut taken: Vec<u32> = Vec::new();
            for id in model.gpu_device_ids.iter().flatten() {
                if *id >= here {
                    self.push_problem(
                        format!(
                            "{name}: `gpu_device_ids` of {} names device {id}, but the server has {here}",
                            model.name
                        ),
                        "devices are counted from 0 inside what the server sees",
                    );
                } else if taken.contains(id) {
                    self.push_problem(
                        format!("{name}: `gpu_device_ids` of {} names device {id} for two copies", model.name),
                        "",
                    );
                }
                taken.push(*id);
            }
            if let Some(ranks) = model.ranks() {
                for ids in model.gpu_device_ids.iter().filter(|ids| ids.len() as u32 != ranks.min(here)) {
                    let (model, count) = (&model.name, ids.len());
                    self.push_problem(
                        format!(
                            "{name}: `gpu_device_ids` of {model} gives a copy {count} devices, but its engine needs \
                             {ranks}"
                        ),
                        "",
                    );
                }
            }
        }
    }
}
