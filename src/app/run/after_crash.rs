//! Finds in their journals what crashed runs have left, and removes it.

use crate::event::{Event, ExternalResource, GpuId, RunId, TaskId};
use crate::exec::process;
use crate::runner::EventEmitter;
use crate::runner::store::{OutputCache, PathError, StateFolder, discard, fold_journal, readable_runs, unfinished};

/// Ends what crashed runs left running, and removes the remains of their unfinished attempts. `external_resources`: what they left beside
/// their processes.
pub(super) fn clean_up_after_crash(
    home: &StateFolder,
    external_resources: Vec<(TaskId, ExternalResource)>,
    id: &RunId,
    output_cache: &OutputCache,
    emit: &EventEmitter,
) {
    for (task, resource) in external_resources.into_iter().filter(|(_, resource)| process::remove(resource)) {
        let what = match &resource {
            ExternalResource::Container { name, .. } => format!("the container {name}"),
            ExternalResource::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
            ExternalResource::GpuClocks { gpus, .. } => format!("the clock lock of GPU {}", GpuId::list(gpus)),
        };
        emit(Event::Notice { task: None, text: format!("removed {what}, which an earlier run left behind") });
        emit(Event::ExternalResourceRemoved { task, resource });
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

/// What was there and was not removed, by the journals of the runs since the last one that ended in order: a run that is killed before it
/// has cleaned up leaves that to the next one.
pub(super) fn leftover_resources(home: &StateFolder) -> Result<Vec<(TaskId, ExternalResource)>, PathError> {
    let mut crashed = Vec::new();
    for run in readable_runs(home)?.0.into_iter().rev() {
        let (mut changes, mut has_ended) = (Vec::new(), false);
        fold_journal(&home.run(&run).join("journal.jsonl"), |event| {
            has_ended = matches!(event, Event::RunFinished { .. });
            match event {
                Event::ExternalResourceStarted { task, resource } if may_remove(&resource, &run) => {
                    changes.push((task, resource, true));
                }
                Event::ExternalResourceRemoved { task, resource } => changes.push((task, resource, false)),
                _ => {}
            }
        })?;
        if has_ended {
            break;
        }
        crashed.push(changes);
    }
    let mut left = Vec::new();
    for (task, resource, is_there) in crashed.into_iter().rev().flatten() {
        left.retain(|(_, other)| *other != resource);
        if is_there {
            left.push((task, resource));
        }
    }
    Ok(left)
}

/// A name that a user chose may belong to an unrelated container by now.
fn may_remove(resource: &ExternalResource, run: &RunId) -> bool {
    !matches!(resource, ExternalResource::Container { name, .. } if !name.contains(run.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::TaskTally;
    use crate::runner::store::Journal;

    #[test]
    fn what_a_run_left_is_known_until_it_is_removed_or_a_run_ends_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let task = TaskId::new("a");
        let of_run = |name: &str, events: &[Event]| {
            let mut journal = Journal::create(&home, &RunId::new(name)).unwrap();
            for event in events {
                journal.append(event).unwrap();
            }
            leftover_resources(&home).unwrap().into_iter().map(|(_, resource)| resource).collect::<Vec<_>>()
        };
        let clocks = ExternalResource::GpuClocks { gpus: vec![GpuId::Index(0)], sudo: false };
        let container =
            |name: &str| ExternalResource::Container { program: "podman".to_owned(), name: name.to_owned() };
        let there = |resource: ExternalResource| Event::ExternalResourceStarted { task: task.clone(), resource };
        let gone = |resource: ExternalResource| Event::ExternalResourceRemoved { task: task.clone(), resource };
        let started = [there(container("1-a")), there(container("of-a-user")), there(clocks.clone())];
        assert_eq!(of_run("1", &started), [container("1-a"), clocks.clone()]);
        assert_eq!(of_run("2", &[]), [container("1-a"), clocks.clone()], "it was killed before it had cleaned up");
        assert_eq!(of_run("3", &[gone(container("1-a")), there(container("3-b"))]), [clocks, container("3-b")]);
        let finished = Event::RunFinished { tally: TaskTally::default(), exit: 0, seconds: 1.0 };
        assert_eq!(of_run("4", &[finished]), []);
        assert_eq!(of_run("5", &[there(container("5-a"))]), [container("5-a")]);
    }
}
