//! Launch plans: which processes a Triton server is, exactly, before anything starts. Pure data in, pure data out.
//!
//! [`plan`] takes the request ([`LaunchSpec`]) and returns every command, rank, port and variable ([`LaunchPlan`]), or
//! every reason why the request cannot be planned. Nothing here looks at the machine.
//!
//! # The options of `launch_triton_server.py`
//!
//! | option | key of `serve.triton` |
//! |---|---|
//! | `--world_size` | `world_size` (not needed: tp × pp of the engine) |
//! | `--tritonserver` | `program` |
//! | `--grpc_port` | `grpc_port` |
//! | `--http_port` | `http_port` |
//! | `--metrics_port` | `metrics_port` |
//! | `--force`, `-f` | `force` |
//! | `--log` | `log_verbose: 3` with `log_file` |
//! | `--log-file` | `log_file` |
//! | `--model_repo` | `repository` |
//! | `--tensorrt_llm_model_name` | `tensorrt_llm_model_name` (a list) |
//! | `--multi-model` | `mode: orchestrator` |
//! | `--disable-spawn-processes` | `spawn_processes: false` |
//! | `--multimodal_gpu0_cuda_mem_pool_bytes` | `multimodal_gpu0_cuda_mem_pool_bytes` |
//! | `--oversubscribe` | `oversubscribe` |
//! | `--no-mpi` | `launcher: none` |
//! | `--trtllm_llmapi_launch` | `trtllm_llmapi_launch` |
//! | `--exit_timeout` | `exit_timeout_secs` |
//!
//! # Where a plan differs from that script's command, and why
//!
//! - Ports are given once, and to rank 0 only. The script gives every rank the same ports, twice; a rank that dies
//!   early or loads too fast then reports "port already in use". Ranks above 0 get
//!   `--allow-http=false --allow-grpc=false --allow-metrics=false` and cannot open any.
//! - One rank needs no `mpirun`: mode plain starts the server itself (as `--no-mpi` does).
//! - The command does not end with a `:` after the last rank; Open MPI takes both.
//! - `prefix<i>_` counts over all servers of the task, not from 0 for each: Python models of two servers on one host
//!   would otherwise share their memory.
//! - Pinned and CUDA pools of 0 and no peer access, for an orchestrator that spawns: always, not only if
//!   `NVIDIA_TRITON_SERVER_VERSION` is greater than 24.06 (without that variable the script ends with a traceback); for
//!   the GPUs of the server, not for all that `nvidia-smi` lists. `options` override it.
//! - More than one rank: `mpirun --output-filename`, so that each rank has a log of its own; not for a stage with
//!   secrets, which are taken out of the server's log alone.

mod argv;
mod launcher_command;
mod spec;
mod world_size;

use indexmap::IndexSet;

use super::SpecProblem;
pub use spec::{
    LaunchError, LaunchModel, LaunchPlan, LaunchPreview, LaunchSpec, LaunchWorld, LaunchedServer, Port, Ports, Rank,
    ServePreview, ServerSpec, ports,
};
use world_size::ServerLayout;

/// Plans every server.
///
/// # Errors
/// All settings that contradict each other, the engine or the machine.
pub fn plan(spec: &LaunchSpec) -> Result<LaunchPlan, LaunchError> {
    let mut problems = Vec::new();
    let mut notes = Vec::new();
    let decided: Vec<ServerLayout> = world_size::all(spec, &mut problems, &mut notes);
    launcher_command::check(spec, &decided, &mut problems, &mut notes);
    spec::check(spec, &mut problems);
    if !problems.is_empty() {
        let unique: IndexSet<SpecProblem> = problems.into_iter().collect();
        return Err(LaunchError { problems: unique.into_iter().collect() });
    }
    let mut first = 0;
    let mut servers = Vec::new();
    for (index, decided) in decided.into_iter().enumerate() {
        let ranks = argv::ranks(spec, index, &decided, first);
        first += decided.world_size;
        servers.push(launcher_command::server(spec, index, decided, ranks));
    }
    notes.dedup();
    Ok(LaunchPlan { servers, notes })
}

#[cfg(test)]
mod tests {
    // Rules that hold for every plan, and the distance to the command that NVIDIA's script builds.

    use std::collections::BTreeSet;

    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;
    use base::event::GpuId;
    use base::spec::{ContainerEngine, Launcher, ServerMode};
    use exec::container::ContainerSpec;

    fn model(tp: u32, pp: u32, copies: u32) -> LaunchModel {
        let ranks = tp * pp;
        LaunchModel {
            name: "tensorrt_llm".to_owned(),
            engine: Some("/engine".to_owned()),
            parallelism: Some((tp, pp)),
            copies,
            gpu_device_ids: (0..copies).map(|copy| (copy * ranks..(copy + 1) * ranks).collect()).collect(),
            participant_ids: (0..copies).map(|copy| (1 + copy * ranks..=(copy + 1) * ranks).collect()).collect(),
        }
    }

    /// `servers` servers, each with `copies` copies of a model.
    fn spec(servers: u32, tp: u32, pp: u32, copies: u32) -> LaunchSpec {
        let settings = r#"{"grpc_port": 10000, "http_port": 20000, "metrics_port": 30000}"#;
        let ports = ports(&serde_json::from_str(settings).unwrap(), servers as usize).unwrap();
        let server = |(index, ports): (usize, Ports)| ServerSpec {
            repository: format!("/r/triton_model_repo_{index}"),
            models: vec![model(tp, pp, copies)],
            ports,
            rank_logs: format!("/logs/{index}.ranks"),
            ..ServerSpec::default()
        };
        LaunchSpec {
            settings: serde_json::from_str("{}").unwrap(),
            servers: ports.into_iter().enumerate().map(server).collect(),
            gpus: (0..servers * tp * pp * copies).map(GpuId::Index).collect(),
            container: None,
            stage_env: Vec::new(),
        }
    }

    fn messages(spec: &LaunchSpec) -> Vec<String> {
        plan(spec).unwrap_err().problems.into_iter().map(|problem| problem.message).collect()
    }

    /// What `launch_triton_server.py` starts, as its reference describes it: the arguments of each rank.
    fn script(spec: &LaunchSpec, world_size: u32, multi_model: bool) -> Vec<Vec<String>> {
        let server = &spec.servers[0];
        let ports: Vec<String> =
            server.ports.all().iter().map(|(name, port)| format!("--{name}-port={port}")).collect();
        (0..world_size)
            .map(|rank| {
                let mut words = vec!["-n".to_owned(), "1".to_owned(), spec.settings.program.clone()];
                words.push(format!("--model-repository={}", server.repository));
                words.extend(ports.clone());
                if rank > 0 {
                    words.push("--model-control-mode=explicit".to_owned());
                    words.push("--load-model=tensorrt_llm".to_owned());
                }
                if multi_model {
                    words.push("--pinned-memory-pool-byte-size=0".to_owned());
                    words.push("--enable-peer-access=false".to_owned());
                    words.extend(spec.gpus.iter().map(|gpu| format!("--cuda-memory-pool-byte-size={gpu}:0")));
                }
                words.extend(ports.clone());
                words.push("--disable-auto-complete-config".to_owned());
                words.push(format!("--backend-config=python,shm-region-prefix-name=prefix{rank}_"));
                words.push(":".to_owned());
                words
            })
            .collect()
    }

    #[test]
    fn a_leader_differs_from_the_script_only_where_the_page_says() {
        let spec = spec(1, 4, 2, 1);
        let server = plan(&spec).unwrap().servers.remove(0);
        assert_eq!(server.command[0], ["mpirun", "--allow-run-as-root", "--output-filename", "/logs/0.ranks"]);
        // Of a stage with secrets the ranks' output goes through the log alone.
        let mut secretive = spec.clone();
        secretive.servers[0].rank_logs.clear();
        let server = &plan(&secretive).unwrap().servers[0];
        assert_eq!(server.command[0], ["mpirun", "--allow-run-as-root"]);
        assert!(server.logs.is_empty() && server.ranks.iter().all(|rank| rank.log.is_none()));
        let theirs = script(&spec, 8, false);
        assert_eq!(server.command.len() - 1, theirs.len());
        let ports = |words: &[String]| words.iter().filter(|word| word.contains("-port=")).cloned().collect::<Vec<_>>();
        for (rank, (ours, theirs)) in server.command[1..].iter().zip(&theirs).enumerate() {
            let without = |words: &[String]| -> Vec<String> {
                let kept = words
                    .iter()
                    .filter(|word| !word.contains("-port=") && *word != ":" && !word.starts_with("--allow-"));
                kept.cloned().collect()
            };
            assert_eq!(without(ours), without(theirs), "rank {rank}");
            let (ours, theirs) = (ports(ours), ports(theirs));
            // We print each once, for rank 0; the script prints each twice, for every rank.
            assert_eq!(ours, if rank == 0 { theirs[..3].to_vec() } else { Vec::new() });
        }
        let colons = server.command[1..].iter().filter(|piece| piece.last().is_some_and(|word| word == ":")).count();
        assert_eq!(colons, 7);
    }

    #[test]
    fn an_orchestrator_differs_from_the_script_only_in_its_ports() {
        let spec = spec(1, 2, 1, 2);
        let server = plan(&spec).unwrap().servers.remove(0);
        assert_eq!(server.command[0], ["mpirun", "--allow-run-as-root"]);
        let mut theirs = script(&spec, 1, true).remove(0);
        theirs.pop();
        // The second time.
        let second = theirs.iter().rposition(|word| word.starts_with("--metrics-port")).unwrap();
        theirs.drain(second - 2..=second);
        assert_eq!(server.command[1], theirs);
        let env = |name: &str| server.env.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        assert_eq!(env("TRTLLM_ORCHESTRATOR"), Some("1"));
        assert_eq!(env("TRTLLM_ORCHESTRATOR_SPAWN_PROCESSES"), Some("1"));
        assert_eq!(server.world, LaunchWorld::Mpi { ranks: 5 });
    }

    #[test]
    fn all_impossible_settings_are_reported_at_once() {
        let mut launch_spec = spec(1, 2, 1, 2);
        launch_spec.settings.mode = Some(ServerMode::Leader);
        launch_spec.settings.world_size = Some(3);
        launch_spec.settings.launcher = Some(Launcher::None);
        launch_spec.settings.spawn_processes = Some(false);
        launch_spec.servers[0].models[0].gpu_device_ids = vec![vec![0, 9], vec![2, 3]];
        launch_spec.servers[0].ports.http = launch_spec.servers[0].ports.grpc;
        launch_spec.container = Some(ContainerSpec {
            settings: serde_json::from_str(r#"{"image": "", "shm_size": "1g"}"#).unwrap(),
            engine: ContainerEngine::Enroot,
            name: "x".to_owned(),
        });
        assert_eq!(
            messages(&launch_spec),
            [
                "mode leader serves one copy of one model, and server 0 has 2",
                "world_size is 3, and the engine needs 2 (tp × pp): server 0",
                "`spawn_processes` requires mode orchestrator; the mode is leader",
                "launcher none starts one process, but the world size is 3",
                "server 0: `gpu_device_ids` of tensorrt_llm names device 9, but the server has 4",
                "a container needs an `image`",
                "`container.shm_size`: enroot uses the host's /dev/shm",
                "port 10000 would be grpc of server 0 and http of server 0",
            ]
        );
    }

    #[test]
    fn what_contradicts_the_engine_or_the_machine_is_refused() {
        let with = |change: &dyn Fn(&mut LaunchSpec)| {
            let mut launch_spec = spec(2, 2, 1, 1);
            change(&mut launch_spec);
            messages(&launch_spec).join("; ")
        };
        assert_eq!(
            with(&|launch_spec| launch_spec.gpus.truncate(3)),
            "3 GPUs cannot be shared evenly by 2 servers; server 0 has 1 GPU, but its models need 2; \
             server 1 has 1 GPU, but its models need 2"
        );
        assert_eq!(
            with(&|launch_spec| launch_spec.settings.mode = Some(ServerMode::Plain)),
            "mode plain starts one rank, but the engine of server 0 needs 2 (tp × pp); mode plain starts one rank, \
             but the engine of server 1 needs 2 (tp × pp)"
        );
        assert_eq!(with(&|launch_spec| launch_spec.servers.clear()), "a server needs a repository");
        assert_eq!(
            with(&|launch_spec| launch_spec.settings.mpi.hosts = vec!["a:1".to_owned(), "b:1".to_owned()]),
            "2 servers cannot be spread over the 2 hosts of `mpi.hosts`"
        );
    }

    #[test]
    fn an_orchestrator_without_spawn_must_know_its_participants() {
        let launch_spec = |ids: Vec<Vec<u32>>| {
            let mut launch_spec = spec(1, 2, 1, 2);
            launch_spec.settings.spawn_processes = Some(false);
            launch_spec.servers[0].models[0].participant_ids = ids;
            launch_spec
        };
        assert_eq!(plan(&launch_spec(vec![vec![1, 2], vec![3, 4]])).unwrap().servers[0].world_size, 5);
        assert!(messages(&launch_spec(Vec::new()))[0].contains("has no `participant_ids`"));
        assert_eq!(
            messages(&launch_spec(vec![vec![0, 1], vec![1, 9]])),
            [
                "server 0: `participant_ids` of tensorrt_llm names rank 0: rank 0 is the orchestrator",
                "server 0: `participant_ids` of tensorrt_llm names rank 1: it is another copy's already",
                "server 0: `participant_ids` of tensorrt_llm names rank 9: no such rank",
            ]
        );
        let mut slurm = spec(1, 2, 1, 2);
        slurm.settings.launcher = Some(Launcher::Srun);
        assert_eq!(messages(&slurm), ["Slurm does not spawn MPI processes for an orchestrator"]);
    }

    #[test]
    fn over_hosts_every_rank_is_given_its_variables() {
        let mut launch_spec = spec(1, 8, 2, 1);
        launch_spec.gpus.truncate(8);
        launch_spec.servers[0].models[0].gpu_device_ids.clear();
        launch_spec.settings.mpi.hosts = vec!["node1:8".to_owned(), "node2:8".to_owned()];
        launch_spec.stage_env = vec!["NCCL_DEBUG".to_owned()];
        let server = plan(&launch_spec).unwrap().servers.remove(0);
        assert_eq!(server.host, "node1");
        assert_eq!(server.command[0][2..4], ["--host", "node1:8,node2:8"]);
        for piece in &server.command[1..] {
            assert_eq!(piece[2..6], ["-x", "CUDA_VISIBLE_DEVICES", "-x", "NCCL_DEBUG"]);
        }
        assert_eq!(
            server.ranks.iter().map(|rank| rank.gpu.unwrap()).collect::<Vec<_>>()[7..9],
            [7, 0].map(GpuId::Index)
        );
    }

    proptest! {
        #[test]
        fn nothing_is_given_to_two(
            servers in 1_u32..9,
            tp in 1_u32..9,
            pp in 1_u32..5,
            copies in 1_u32..4,
            spawn in any::<bool>(),
            srun in any::<bool>(),
        ) {
            let mut launch_spec = spec(servers, tp, pp, copies);
            if copies > 1 {
                launch_spec.settings.spawn_processes = Some(spawn);
            }
            if srun && (copies == 1 || !spawn) && tp * pp * copies > 1 {
                launch_spec.settings.launcher = Some(Launcher::Srun);
            }
            let plan = plan(&launch_spec).unwrap();
            prop_assert_eq!(plan.servers.len() as u32, servers);
            let (mut gpus, mut seen) = (BTreeSet::new(), BTreeSet::new());
            let (mut ports, mut prefixes) = (BTreeSet::new(), BTreeSet::new());
            for server in &plan.servers {
                let ranks = match server.mode {
                    ServerMode::Plain | ServerMode::Leader => tp * pp,
                    ServerMode::Orchestrator if spawn => 1,
                    ServerMode::Orchestrator => 1 + tp * pp * copies,
                };
                prop_assert_eq!(server.ranks.len() as u32, ranks);
                prop_assert_eq!(server.ranks.iter().filter(|rank| rank.opens_ports).count(), 1);
                for gpu in &server.gpus {
                    prop_assert!(gpus.insert(*gpu), "GPU {} twice", gpu);
                }
                for rank in &server.ranks {
                    prop_assert!(prefixes.insert(rank.shm_prefix.clone()), "{} twice", rank.shm_prefix);
                    if let Some(gpu) = rank.gpu {
                        prop_assert!(server.gpus.contains(&gpu) && seen.insert(gpu), "GPU {} twice", gpu);
                    }
                }
                for (_, port) in server.ports.all() {
                    prop_assert!(ports.insert(port.to_string()), "port {} twice", port);
                }
                // The reported ports are those of the command.
                let line = server.argv().join(" ");
                prop_assert_eq!(line.matches("--grpc-port=").count(), 1);
                // `srun` starts all ranks but the first by one command.
                let is_by_srun = launch_spec.settings.launcher.is_some();
                let closed = if is_by_srun { usize::from(ranks > 1) } else { ranks as usize - 1 };
                prop_assert_eq!(line.matches("--allow-grpc=false").count(), closed);
            }
            prop_assert_eq!(gpus.len() as u32, servers * tp * pp * copies);
        }
    }
}
