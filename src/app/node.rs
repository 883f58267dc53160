//! What a job does on its node: one stage, as a run would do it there.

use std::path::PathBuf;
use std::time::Duration;

use super::{Trouble, say_error};
use crate::cli::Exit;
use crate::process;
use crate::stage::{NotDone, work};
use crate::store::JobFolder;

pub(super) fn work_in(folder: PathBuf) -> Result<Exit, Trouble> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    process::adopt_orphans()?;
    let folder = JobFolder::at(folder);
    let done = runtime.block_on(async {
        let done = work(&folder).await;
        for leftover in process::sweep(Duration::from_secs(1)).await {
            say_error(&format!("ended {} ({}), which the stage had left running\n", leftover.pid, leftover.command));
        }
        done
    });
    runtime.shutdown_background();
    match done {
        Ok(()) => Ok(Exit::Done),
        // Another job does it, or nobody wants it: that is in order.
        Err(not_done @ (NotDone::Taken(_) | NotDone::NobodyWaits(_))) => {
            say_error(&format!("regatta: {not_done}\n"));
            Ok(Exit::Done)
        }
        Err(broken) => Err(anyhow::Error::from(broken).into()),
    }
}
