//! A long run told into a real file: whole lines, each event once, and the same state from the file as from life.

use std::collections::BTreeMap;

use regatta::event::{Done, Event, RunId, TaskId, TaskTally};
use regatta::report::{LiveDisplay, LiveOptions, RunPaths, RunState, TaskPhase};

/// Ten thousand tasks, each third one cached.
fn events() -> Vec<Event> {
    let tasks = 10_000;
    let mut events = vec![Event::RunStarted {
        run: RunId::new("20261120-224301-4711"),
        manifest: "wide".to_owned(),
        params: BTreeMap::new(),
        settings: Vec::new(),
        tasks,
        jobs: 8,
        at: "2026-11-20T22:43:01Z".to_owned(),
        pid: 4711,
    }];
    let mut tally = TaskTally::default();
    for n in 0..tasks {
        let task = TaskId::new(format!("t/{n}"));
        if n % 3 == 0 {
            tally.cached += 1;
            events.push(Event::TaskCached { task, done: Done::default(), out: None, from: None });
            continue;
        }
        tally.ran += 1;
        let reasons = vec!["never ran".to_owned()];
        events.push(Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons, log: None });
        events.push(Event::Progress {
            task: task.clone(),
            text: "half".to_owned(),
            done: 1,
            total: Some(2),
            live: None,
        });
        let (done, seconds) = (Done::default(), 0.25);
        events.push(Event::TaskFinished { task, done, out: None, digest: None, unchanged: false, seconds });
    }
    events.push(Event::RunFinished { tally, exit: 0, seconds: 9.5 });
    events
}

fn render(look: LiveOptions, events: &[Event]) -> (RunState, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut live = LiveDisplay::to(look, Box::new(file.reopen().expect("the same file")));
    for event in events {
        live.event(event);
    }
    let run_state = live.finish(&RunPaths::default());
    (run_state, std::fs::read_to_string(file.path()).expect("text"))
}

#[test]
fn a_story_told_as_json_lines_is_told_again_from_them() {
    let events = events();
    let (live, text) = render(LiveOptions { json_lines: true, ..LiveOptions::default() }, &events);
    assert_eq!(text.lines().count(), events.len());
    let mut replayed = RunState::new();
    for line in text.lines() {
        replayed.fold(&serde_json::from_str(line).expect("an event"));
    }
    // A reader of the file does not know when things happened; all else is the same.
    let mut live = live;
    for chapter in live.tasks.values_mut() {
        (chapter.started, chapter.ended) = (None, None);
    }
    assert!(live == replayed);
    assert_eq!(replayed.finished.map(|end| end.tally), Some(replayed.tally));
}

#[test]
fn plain_lines_name_what_ran_and_count_what_was_cached() {
    let (run_state, text) = render(LiveOptions::default(), &events());
    let ran = run_state.in_phase(TaskPhase::Ran).count();
    assert_eq!(text.lines().filter(|line| line.starts_with("✓ ")).count(), ran);
    assert!(!text.contains("✓ t/0 ") && text.contains("✓ t/1 "));
    assert!(text.contains("3334 tasks as before"), "cached tasks are a number");
    assert!(text.contains(&format!("… and {} more", ran - 40)), "the ending stays short");
    assert!(text.ends_with("done: 6666 ran, 3334 cached in 9.5 s\n"));
}
