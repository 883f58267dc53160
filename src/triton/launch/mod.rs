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
#[cfg(test)]
mod tests;
mod world_size;

use super::SpecProblem;
pub use spec::{
    BasePorts, LaunchError, LaunchModel, LaunchPlan, LaunchSpec, LaunchTuning, LaunchWorld, LaunchedServer, Port,
    Ports, Rank, ServerSpec, place,
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
    let unique = |list: Vec<SpecProblem>| {
        list.into_iter().fold(Vec::new(), |mut kept: Vec<SpecProblem>, one| {
            if !kept.contains(&one) {
                kept.push(one);
            }
            kept
        })
    };
    let problems = unique(problems);
    if !problems.is_empty() {
        return Err(LaunchError { problems });
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
