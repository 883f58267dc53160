//! Runs a job on its node: one stage, or a whole run.

use std::path::PathBuf;

use super::expression_guard::watch_templates;
use crate::cli::CliExit;
use crate::console::print_error;
use crate::error::CommandError;
use exec::process;
use runner::store::JobFolder;
use stages::{AttemptClaim, NodeWorkerError, work};

pub(super) fn run(folder: PathBuf) -> Result<CliExit, CommandError> {
    let folder = JobFolder::at(folder);
    let claim = match AttemptClaim::take(&folder) {
        Ok(claim) => claim,
        // Another job does it, or no run waits for it: that is not an error.
        Err(not_done @ (NodeWorkerError::AlreadyClaimed(_) | NodeWorkerError::NoRunWaiting(_))) => {
            print_error(&format!("regatta: {not_done}\n"));
            return Ok(CliExit::Done);
        }
        Err(broken) => return Err(anyhow::Error::from(broken).into()),
    };
    claim.keep_alive(&folder);
    if claim.run_args().is_some() {
        return super::run::run_in_allocation(&folder, &claim);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    process::adopt_orphans()?;
    watch_templates();
    let done = runtime.block_on(work(&folder, &claim));
    runtime.shutdown_background();
    done.map_err(anyhow::Error::from)?;
    Ok(CliExit::Done)
}
