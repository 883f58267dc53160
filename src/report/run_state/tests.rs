//! Whatever events come in whatever order, the run state keeps its invariants.

use proptest::prelude::*;

use super::*;
use base::event::{Done, FailureKind};

fn a_task() -> impl Strategy<Value = TaskId> {
    (0..4u8).prop_map(|n| TaskId::new(format!("task/{n}")))
}

fn an_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (a_task(), any::<bool>()).prop_map(|(task, service)| Event::TaskStarted {
            task,
            attempt: 1,
            service,
            reasons: vec!["input `a` changed".to_owned()],
            log: None,
        }),
        (a_task(), "[a-z]{0,4}", any::<u16>()).prop_map(|(task, text, done)| Event::Progress {
            task,
            text,
            done: done.into(),
            total: None,
            live: None,
        }),
        a_task().prop_map(|task| Event::TaskCached { task, done: Done::default(), out: None, from: None }),
        a_task().prop_map(|task| Event::TaskSkipped { task, why: "`when` is false".to_owned() }),
        a_task().prop_map(|task| Event::TaskCancelled { task, why: "`a` failed".to_owned() }),
        (a_task(), 1..99i32).prop_map(|(task, pgid)| Event::ProcessStarted { task, pgid }),
        (a_task(), 1..99i32).prop_map(|(task, pgid)| Event::ProcessEnded { task, pgid }),
        (a_task(), 0..9u8).prop_map(|(task, s)| Event::ServiceStopped { task, seconds: s.into() }),
        (a_task(), 0..9u8).prop_map(|(task, s)| Event::ServiceReady { task, endpoints: vec![], seconds: s.into() }),
        (a_task(), any::<bool>(), 0..9u8).prop_map(|(task, unchanged, s)| Event::TaskFinished {
            task,
            done: Done { headline: Some("VALID  9 tok/s".to_owned()), ..Done::default() },
            out: None,
            digest: None,
            unchanged,
            seconds: s.into(),
        }),
        (a_task(), any::<bool>()).prop_map(|(task, will_retry)| Event::TaskFailed {
            task,
            attempt: 1,
            failure: Box::new(Failure::new(FailureKind::Exit(1), "exit code 1")),
            will_retry,
            seconds: 1.0,
        }),
        (0..3usize).prop_map(|tasks| Event::AllCached { tasks }),
        Just(Event::Notice { task: None, text: "something".to_owned() }),
        Just(Event::Stopping { why: "interrupted".to_owned() }),
    ]
}

fn folded_state(events: &[Event]) -> RunState {
    let mut run_state = RunState::new();
    for event in events {
        run_state.fold(event);
    }
    run_state
}

proptest! {
    /// A state can be saved at any point and completed by a reader that has the rest from a file of JSON lines.
    #[test]
    fn a_prefix_and_then_the_rest_are_all(events in prop::collection::vec(an_event(), 0..60), cut in 0..60usize) {
        let (head, rest) = events.split_at(cut.min(events.len()));
        let mut run_state = folded_state(head).clone();
        for event in rest {
            let line = serde_json::to_string(event).expect("JSON");
            run_state.fold(&serde_json::from_str(&line).expect("an event"));
        }
        prop_assert_eq!(run_state, folded_state(&events));
    }

    /// The journal has no progress events; a state folded from it differs in nothing that lasts.
    #[test]
    fn chatter_leaves_no_trace(events in prop::collection::vec(an_event(), 0..60)) {
        let facts: Vec<Event> = events.iter().filter(|event| event.is_fact()).cloned().collect();
        let mut live = folded_state(&events);
        live.tasks.values_mut().for_each(|entry| entry.progress = None);
        prop_assert_eq!(live, folded_state(&facts));
    }

    /// A finished task is counted once, and in the column it is shown in.
    #[test]
    fn the_tally_is_the_count_of_the_chapters(events in prop::collection::vec(an_event(), 0..60)) {
        let run_state = folded_state(&events);
        let count = |state| run_state.in_phase(state).count();
        let expected = TaskTally {
            ran: count(TaskPhase::Ran),
            cached: count(TaskPhase::Cached) + run_state.cached_at_once,
            skipped: count(TaskPhase::Skipped),
            failed: count(TaskPhase::Failed),
            cancelled: count(TaskPhase::Cancelled),
        };
        prop_assert_eq!(run_state.tally, expected);
    }
}

#[test]
fn a_retry_that_succeeds_is_no_failure_but_is_remembered() {
    let task = TaskId::new("fetch");
    let started =
        |attempt| Event::TaskStarted { task: task.clone(), attempt, service: false, reasons: vec![], log: None };
    let run_state = folded_state(&[
        started(1),
        Event::TaskFailed {
            task: task.clone(),
            attempt: 1,
            failure: Box::new(Failure::new(FailureKind::Timeout, "ran past 10s")),
            will_retry: true,
            seconds: 10.0,
        },
        started(2),
        Event::TaskFinished {
            task: task.clone(),
            done: Done::default(),
            out: None,
            digest: None,
            unchanged: false,
            seconds: 2.0,
        },
    ]);
    let entry = &run_state.tasks[&task];
    assert_eq!((entry.state, entry.attempts), (TaskPhase::Ran, 2));
    assert_eq!(entry.retried, ["ran past 10s"]);
    assert!(entry.failure.is_none());
    assert_eq!(run_state.tally, TaskTally { ran: 1, ..TaskTally::default() });
}
