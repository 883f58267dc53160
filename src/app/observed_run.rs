//! A run as another process sees it: what its journal holds, and whether it is still going on.

use std::io;

use base::event::RunId;
use report::RunState;
use runner::store::{PathError, ProjectLock, StateFolder, fold_run};

pub(super) struct ObservedRun {
    pub state: RunState,
    /// It has not ended, and its process exists.
    pub is_alive: bool,
}

impl ObservedRun {
    pub(super) fn read(home: &StateFolder, run: &RunId) -> Result<Self, PathError> {
        let is_held = is_held(home, run)?;
        Self::read_after(home, run, || is_held)
    }

    /// `is_held` is asked first: the journal of a run that does not hold the lock any more is complete. In the other
    /// order a run that ends in between would look like one that was killed.
    pub(super) fn read_after(
        home: &StateFolder,
        run: &RunId,
        is_held: impl FnOnce() -> bool,
    ) -> Result<Self, PathError> {
        let is_held = is_held();
        let mut state = RunState::new();
        fold_run(home, run, |event| state.fold(&event))?;
        Ok(Self { is_alive: is_held && state.finished.is_none(), state })
    }
}

/// Whether that run's process still exists.
pub(super) fn is_held(home: &StateFolder, run: &RunId) -> Result<bool, PathError> {
    Ok(holding_run(home)?.is_some_and(|holding| holding == *run))
}

/// The run that the lock names, if its process is alive. The lock alone is not enough: the watchdog of a killed run
/// holds it for a moment longer.
pub(super) fn holding_run(home: &StateFolder) -> Result<Option<RunId>, PathError> {
    let holder = match ProjectLock::holder(home) {
        // That of another user: the journals can be read all the same.
        Err(error) if error.source.kind() == io::ErrorKind::PermissionDenied => None,
        holder => holder?,
    };
    Ok(holder.filter(|held| exec::process::is_alive(held.pid.cast_signed())).map(|held| RunId::new(held.run)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::{Event, TaskTally};
    use runner::store::Journal;

    #[test]
    fn a_run_that_ends_while_it_is_looked_at_is_not_one_that_was_killed() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"));
        let run = RunId::new("r");
        let mut journal = Journal::create(&home, &run).unwrap();
        let mut end =
            || journal.append(&Event::RunFinished { tally: TaskTally::default(), exit: 0, seconds: 1.0 }).unwrap();
        let mut observed = |is_held| {
            ObservedRun::read_after(&home, &run, || {
                end();
                is_held
            })
            .unwrap()
        };
        for is_held in [true, false] {
            let ObservedRun { state, is_alive } = observed(is_held);
            assert!(state.finished.is_some() && !is_alive);
        }
    }
}
