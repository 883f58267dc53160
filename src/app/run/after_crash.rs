//! Finds in its journal what a crashed run has left, and removes it.

use crate::event::{Event, ExternalResource, RunId};
use crate::exec::process;
use crate::runner::EventEmitter;
use crate::runner::store::{OutputCache, StateFolder, discard, read_journal, unfinished};

/// Ends what a crashed run left running, and removes the remains of its unfinished attempts. `before` is that run.
pub(super) fn clean_up_after_crash(
    home: &StateFolder,
    before: Option<&RunId>,
    id: &RunId,
    output_cache: &OutputCache,
    emit: &EventEmitter,
) {
    let outliving = before.map(|run| leftover_resources(home, run)).unwrap_or_default();
    for thing in outliving.iter().filter(|thing| process::remove(thing)) {
        let what = match thing {
            ExternalResource::Container { name, .. } => format!("the container {name}"),
            ExternalResource::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
            ExternalResource::GpuClocks { gpus, .. } => {
                format!("the clock lock of GPU {}", gpus.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
            }
        };
        emit(Event::Notice { task: None, text: format!("removed {what}, which an earlier run left behind") });
    }
    for leftover in process::end_leftovers(home.state(), id) {
        let text = format!("ended {} ({}), which an earlier run left running", leftover.program(), leftover.pid);
        emit(Event::Notice { task: None, text });
    }
    for folder in unfinished(home, output_cache) {
        let _ = discard(&folder);
    }
}

/// What was there and was not removed, by a run's journal.
fn leftover_resources(home: &StateFolder, run: &RunId) -> Vec<ExternalResource> {
    let Ok(journal) = read_journal(&home.run(run).join("journal.jsonl")) else { return Vec::new() };
    let mut left = Vec::new();
    for event in journal.events {
        match event {
            Event::OutlivingStarted { outliving, .. } => left.push(outliving),
            Event::OutlivingRemoved { outliving, .. } => left.retain(|thing| *thing != outliving),
            _ => {}
        }
    }
    // A name that a user chose may belong to an unrelated container by now.
    left.retain(|thing| !matches!(thing, ExternalResource::Container { name, .. } if !name.contains(run.as_str())));
    left
}
