//! Finds in its journal what a crashed run has left, and removes it.

use crate::event::{Event, ExternalResource, GpuId, RunId};
use crate::exec::process;
use crate::runner::EventEmitter;
use crate::runner::store::{OutputCache, PathError, StateFolder, discard, read_journal, unfinished};

/// Ends what a crashed run left running, and removes the remains of its unfinished attempts. `external_resources`: what it left beside its
/// processes.
pub(super) fn clean_up_after_crash(
    home: &StateFolder,
    external_resources: &[ExternalResource],
    id: &RunId,
    output_cache: &OutputCache,
    emit: &EventEmitter,
) {
    for thing in external_resources.iter().filter(|thing| process::remove(thing)) {
        let what = match thing {
            ExternalResource::Container { name, .. } => format!("the container {name}"),
            ExternalResource::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
            ExternalResource::GpuClocks { gpus, .. } => format!("the clock lock of GPU {}", GpuId::list(gpus)),
        };
        emit(Event::Notice { task: None, text: format!("removed {what}, which an earlier run left behind") });
    }
    for leftover in process::end_leftovers(home.state(), id) {
        let text = format!("ended {} ({}), which an earlier run left running", leftover.program(), leftover.pid);
        emit(Event::Notice { task: None, text });
    }
    match unfinished(home, output_cache) {
        Ok(folders) => folders.iter().for_each(|folder| drop(discard(folder))),
        Err(error) => {
            emit(Event::Notice { task: None, text: format!("what an earlier run left is not removed: {error}") });
        }
    }
}

/// What was there and was not removed, by a run's journal.
pub(super) fn leftover_resources(home: &StateFolder, run: &RunId) -> Result<Vec<ExternalResource>, PathError> {
    let journal = read_journal(&home.run(run).join("journal.jsonl"))?;
    let mut left = Vec::new();
    for event in journal.events {
        match event {
            Event::ExternalResourceStarted { resource, .. } => left.push(resource),
            Event::ExternalResourceRemoved { resource, .. } => left.retain(|thing| *thing != resource),
            _ => {}
        }
    }
    // A name that a user chose may belong to an unrelated container by now.
    left.retain(|thing| !matches!(thing, ExternalResource::Container { name, .. } if !name.contains(run.as_str())));
    Ok(left)
}
