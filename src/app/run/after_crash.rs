//! Finds in their journals what crashed runs have left, and removes it.

use base::event::{Event, ExternalResource, GpuId, RunId, TaskId};
use exec::process;
use runner::EventEmitter;
use runner::store::{OutputCache, PathError, StateFolder, discard, fold_journal, readable_runs, unfinished};

/// What crashed runs left beside their processes.
#[derive(Debug, Default)]
pub(super) struct LeftoverResources {
    resources: Vec<(TaskId, ExternalResource)>,
    /// Of a run whose journal cannot be read it is not known.
    unreadable: Vec<PathError>,
}

/// Ends what crashed runs left running, and removes the remains of their unfinished attempts. Once: what could not be removed is not tried
/// again by each run that follows.
pub(super) fn clean_up_after_crash(
    home: &StateFolder,
    left: LeftoverResources,
    id: &RunId,
    output_cache: &OutputCache,
    emit: &EventEmitter,
) {
    for error in left.unreadable {
        emit(Event::Notice { task: None, text: format!("what an earlier run left is not known: {error}") });
    }
    let was_there = process::remove_all(left.resources.iter().map(|(_, resource)| resource));
    for ((task, resource), was_there) in left.resources.into_iter().zip(was_there) {
        let what = match &resource {
            ExternalResource::Container { name, .. } => format!("the container {name}"),
            ExternalResource::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
            ExternalResource::GpuClocks { gpus, .. } => format!("the clock lock of GPU {}", GpuId::list(gpus)),
        };
        if was_there {
            emit(Event::Notice { task: None, text: format!("removed {what}, which an earlier run left behind") });
        }
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

/// What was there and was not removed, by the journals of the runs since the last one that ended in order or has cleaned up, which it had
/// when its first task started: a run that is killed before that leaves it to the next one.
pub(super) fn leftover_resources(home: &StateFolder) -> Result<LeftoverResources, PathError> {
    let (mut crashed, mut unreadable) = (Vec::new(), Vec::new());
    for run in readable_runs(home)?.0.into_iter().rev() {
        let (mut changes, mut has_ended, mut has_cleaned_up) = (Vec::new(), false, false);
        let read = fold_journal(&home.run(&run).join("journal.jsonl"), |event| {
            has_ended = matches!(event, Event::RunFinished { .. });
            has_cleaned_up |= matches!(event, Event::TaskStarted { .. });
            match event {
                Event::ExternalResourceStarted { task, resource } if may_remove(&resource, &run) => {
                    changes.push((task, resource, true));
                }
                Event::ExternalResourceRemoved { task, resource } => changes.push((task, resource, false)),
                _ => {}
            }
        });
        if let Err(error) = read {
            unreadable.push(error);
            continue;
        }
        if has_ended {
            break;
        }
        crashed.push(changes);
        if has_cleaned_up {
            break;
        }
    }
    let mut left = Vec::new();
    for (task, resource, is_there) in crashed.into_iter().rev().flatten() {
        left.retain(|(_, other)| *other != resource);
        if is_there {
            left.push((task, resource));
        }
    }
    Ok(LeftoverResources { resources: left, unreadable })
}

/// A name that a user chose may belong to an unrelated container by now.
fn may_remove(resource: &ExternalResource, run: &RunId) -> bool {
    !matches!(resource, ExternalResource::Container { name, .. } if !name.contains(run.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::TaskTally;
    use runner::store::Journal;

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
            leftover_resources(&home).unwrap().resources.into_iter().map(|(_, resource)| resource).collect::<Vec<_>>()
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
        let begun = Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons: vec![], log: None };
        let cleaned_up = of_run("6", &[begun, there(container("6-a"))]);
        assert_eq!(cleaned_up, [container("6-a")], "what was there before has been tried");
        assert_eq!(of_run("7", &[]), [container("6-a")]);
    }

    #[test]
    fn a_journal_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let resource = ExternalResource::GpuClocks { gpus: vec![GpuId::Index(0)], sudo: false };
        let mut journal = Journal::create(&home, &RunId::new("1")).unwrap();
        journal.append(&Event::ExternalResourceStarted { task: TaskId::new("a"), resource: resource.clone() }).unwrap();
        // A folder is no journal.
        std::fs::create_dir_all(home.run(&RunId::new("2")).join("journal.jsonl")).unwrap();
        let left = leftover_resources(&home).unwrap();
        assert_eq!(left.resources, [(TaskId::new("a"), resource)]);
        assert_eq!(left.unreadable.len(), 1);
    }
}
