//! `regatta run` and `regatta serve`: on this machine ([`perform`]), or as a job of Slurm that runs the same command (`allocation`).

mod after_crash;
mod allocation;
mod begun_run;
mod ci_files;
mod endpoint_rows;
mod execute;
mod finish;
mod kept_servers;
mod leasable_gpus;
mod lock_wait;
mod metrics_listener;
mod no_op_run;
mod parallel_join;
mod preparation;
mod prepared_run;
mod progress_printer;
mod run_end;
mod signals;
mod sink;
mod thread_limit;
mod unplanned_jobs;

pub(super) use allocation::run_in_allocation;
pub(super) use execute::{perform, perform_beside_servers, perform_of_list};
pub(super) use run_end::RunEnd;
pub(super) use signals::StopSignals;

use crate::cli::{self, CliExit, Global, RunTarget};
use crate::error::CommandError;

pub(super) fn run(global: &Global, request: &cli::RunRequest) -> Result<CliExit, CommandError> {
    if let RunTarget::Slurm(flags) = &request.on {
        return allocation::submit_and_follow(global, request, flags);
    }
    perform(global, request, false).map(RunEnd::exit_of_process)
}

/// `regatta serve`: a run that keeps servers up.
pub(super) fn serve(global: &Global, request: &cli::ServeRequest) -> Result<CliExit, CommandError> {
    if let RunTarget::Slurm(flags) = &request.run.on {
        return allocation::submit_and_follow(global, &request.run, flags);
    }
    execute::serve(global, request)
}
