//! The schedule by itself: one case for each rule.

use super::*;
use base::event::GpuId;

fn step(needs: &[TaskIndex]) -> ScheduledTask {
    ScheduledTask {
        needs: needs.to_vec(),
        service: false,
        cpus: Some(1),
        gpus: 0,
        elsewhere: false,
        group: None,
        skipped: false,
        kept: false,
    }
}

fn service(needs: &[TaskIndex]) -> ScheduledTask {
    ScheduledTask { service: true, cpus: None, ..step(needs) }
}

#[test]
fn a_service_whose_dependents_are_cached_is_never_started() {
    let mut s = TaskSchedule::new(vec![service(&[]), step(&[0])], 2, []);
    assert_eq!(s.next_to_key(), Some(0));
    s.set_keyed(0);
    assert_eq!(s.next_to_key(), Some(1));
    s.finish_task(1, TaskEnd::Cached);
    assert_eq!(s.state(0), ScheduleState::Finished(TaskEnd::NotNeeded));
    assert!(s.is_finished());
}

#[test]
fn a_kept_service_starts_without_a_dependent_and_stops_when_it_is_released() {
    let mut s = TaskSchedule::new(vec![step(&[]), ScheduledTask { kept: true, ..service(&[0]) }], 1, []);
    s.next_to_key();
    s.finish_task(0, TaskEnd::Cached);
    assert_eq!(s.next_to_key(), Some(1));
    s.set_keyed(1);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
    assert!(!s.are_kept_services_up());
    s.up(1);
    assert!(s.are_kept_services_up() && s.take_to_stop().is_empty());
    s.release_kept_services();
    assert_eq!(s.take_to_stop(), [1]);
    s.finish_task(1, TaskEnd::Done);
    assert!(s.is_finished());
}

#[test]
fn a_kept_service_that_can_never_have_its_gpus_is_named() {
    let mut s = TaskSchedule::new(vec![ScheduledTask { kept: true, gpus: 2, ..service(&[]) }], 1, [GpuId::Index(0)]);
    s.next_to_key();
    s.set_keyed(0);
    assert_eq!((s.next_to_start(), s.deadlocked_task()), (None, Some(0)));
}

#[test]
fn a_halted_run_releases_what_it_holds() {
    let mut s = TaskSchedule::new(vec![ScheduledTask { kept: true, ..service(&[]) }], 1, []);
    s.next_to_key();
    s.set_keyed(0);
    s.next_to_start();
    s.up(0);
    s.halt();
    assert_eq!(s.take_to_stop(), [0]);
}

#[test]
fn a_task_waiting_for_an_equal_key_is_looked_up_again() {
    let mut s = TaskSchedule::new(vec![step(&[]), step(&[]), step(&[1])], 2, []);
    assert_eq!((s.next_to_key(), s.next_to_key()), (Some(0), Some(1)));
    s.set_cache_miss(0);
    s.waits_for(1, 0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(0));
    assert_eq!((s.next_to_start(), s.next_to_key()), (None, None), "there is nothing to do meanwhile");
    s.finish_task(0, TaskEnd::Done);
    assert_eq!(s.next_to_key(), Some(1));
    s.finish_task(1, TaskEnd::Cached);
    assert_eq!(s.next_to_key(), Some(2));
    s.finish_task(2, TaskEnd::Cached);
    assert!(s.is_finished());
}

#[test]
fn a_task_waiting_for_an_equal_key_fails_with_it() {
    let mut s = TaskSchedule::new(vec![step(&[]), step(&[])], 2, []);
    assert_eq!((s.next_to_key(), s.next_to_key()), (Some(0), Some(1)));
    s.set_cache_miss(0);
    s.waits_for(1, 0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(0));
    s.finish_task(0, TaskEnd::Failed);
    assert_eq!(s.take_cancelled(), [(1, 0)]);
    assert!(s.is_finished());
}

#[test]
fn a_server_stays_up_until_its_last_dependent_ends() {
    let mut s = TaskSchedule::new(vec![service(&[]), step(&[0]), step(&[0])], 2, []);
    s.next_to_key();
    s.set_keyed(0);
    while let Some(ix) = s.next_to_key() {
        s.set_cache_miss(ix);
    }
    assert_eq!(s.next_to_start().map(|x| x.task), Some(0));
    assert_eq!(s.next_to_start(), None, "no task starts before the server is up");
    s.up(0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
    assert_eq!(s.next_to_start().map(|x| x.task), Some(2));
    s.finish_task(1, TaskEnd::Done);
    assert!(s.take_to_stop().is_empty());
    s.finish_task(2, TaskEnd::Failed);
    assert_eq!(s.take_to_stop(), [0]);
    s.finish_task(0, TaskEnd::Done);
    assert!(s.is_finished());
}

#[test]
fn a_server_gets_its_next_dependent_behind_any_number_of_steps_that_wait_for_its_gpus() {
    let mut items = vec![ScheduledTask { gpus: 1, ..service(&[]) }, step(&[0])];
    items.resize(302, ScheduledTask { gpus: 1, ..step(&[]) });
    items.push(step(&[0]));
    let mut s = TaskSchedule::new(items, 4, [GpuId::Index(0)]);
    while let Some(ix) = s.next_to_key() {
        if ix == 0 { s.set_keyed(ix) } else { s.set_cache_miss(ix) }
    }
    assert_eq!(s.next_to_start().map(|x| x.task), Some(0));
    s.up(0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
    assert_eq!(s.next_to_start(), None);
    s.finish_task(1, TaskEnd::Done);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(302));
    assert_eq!(s.deadlocked_task(), None);
}

#[test]
fn two_servers_that_need_all_gpus_take_turns() {
    let gpu = |i: ScheduledTask| ScheduledTask { gpus: 8, ..i };
    let items = vec![gpu(service(&[])), gpu(service(&[])), step(&[0]), step(&[1])];
    let mut s = TaskSchedule::new(items, 4, (0..8).map(GpuId::Index));
    while let Some(ix) = s.next_to_key() {
        if ix < 2 { s.set_keyed(ix) } else { s.set_cache_miss(ix) }
    }
    assert_eq!(s.next_to_start().map(|x| x.gpus.len()), Some(8));
    s.up(0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(2));
    assert_eq!(s.next_to_start(), None);
    s.finish_task(2, TaskEnd::Done);
    assert_eq!(s.take_to_stop(), [0]);
    assert_eq!(s.next_to_start(), None, "its GPUs are free only when it has ended");
    s.finish_task(0, TaskEnd::Done);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
}

/// The runs of two variants, each on a server of its own with one GPU, planned in turn: the order in which they are
/// made.
fn turns(gpus: u32) -> Vec<TaskIndex> {
    let server = || ScheduledTask { gpus: 1, ..service(&[]) };
    let run = |server| ScheduledTask { cpus: None, ..step(&[server]) };
    let mut s =
        TaskSchedule::new(vec![server(), server(), run(0), run(1), run(0), run(1)], 2, (0..gpus).map(GpuId::Index));
    let mut made = Vec::new();
    for _ in 0..100 {
        while let Some(ix) = s.next_to_key() {
            if ix < 2 { s.set_keyed(ix) } else { s.set_cache_miss(ix) }
        }
        for ix in s.take_to_stop() {
            s.finish_task(ix, TaskEnd::Done);
        }
        let started: Vec<TaskIndex> = std::iter::from_fn(|| s.next_to_start()).map(|start| start.task).collect();
        for ix in started {
            if ix < 2 {
                s.up(ix);
            } else {
                made.push(ix);
                s.finish_task(ix, TaskEnd::Done);
            }
        }
    }
    assert!(s.is_finished());
    made
}

#[test]
fn variants_take_turns_where_both_servers_can_be_up() {
    assert_eq!(turns(2), [2, 3, 4, 5]);
    assert_eq!(turns(1), [2, 4, 3, 5], "with one GPU all runs of one server come first");
}

#[test]
fn what_runs_elsewhere_waits_for_no_slot_and_takes_none() {
    let elsewhere = |i: ScheduledTask| ScheduledTask { elsewhere: true, ..i };
    let alone = ScheduledTask { cpus: None, ..step(&[]) };
    let mut s = TaskSchedule::new(vec![alone, step(&[]), elsewhere(step(&[])), elsewhere(step(&[]))], 1, []);
    while let Some(ix) = s.next_to_key() {
        s.set_cache_miss(ix);
    }
    let mut started = Vec::new();
    while let Some(start) = s.next_to_start() {
        started.push(start.task);
    }
    assert_eq!(started, [0, 2, 3], "all but the one that needs the slot");
    s.finish_task(2, TaskEnd::Done);
    assert_eq!(s.next_to_start(), None, "its end gives no slot back that it never had");
    s.finish_task(0, TaskEnd::Done);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
}

#[test]
fn a_group_is_started_in_one_moment() {
    let many = ScheduledTask { elsewhere: true, group: Some(7), ..step(&[]) };
    let mut s = TaskSchedule::new(vec![many.clone(), many.clone(), many], 1, []);
    assert_eq!((s.next_to_key(), s.next_to_key(), s.next_to_key()), (Some(0), Some(1), Some(2)));
    s.set_cache_miss(1);
    s.finish_task(0, TaskEnd::Cached);
    assert_eq!(s.next_to_start(), None, "the last one is still looked up");
    s.set_cache_miss(2);
    let started: Vec<TaskIndex> = std::iter::from_fn(|| s.next_to_start()).map(|start| start.task).collect();
    assert_eq!(started, [1, 2]);
}

#[test]
fn a_server_that_is_started_again_has_its_dependents_looked_up_again() {
    let mut s = TaskSchedule::new(
        vec![ScheduledTask { gpus: 1, ..service(&[]) }, step(&[0]), step(&[0])],
        1,
        [GpuId::Index(0)],
    );
    while let Some(ix) = s.next_to_key() {
        if ix == 0 { s.set_keyed(ix) } else { s.set_cache_miss(ix) }
    }
    assert_eq!(s.next_to_start(), Some(StartItem { task: 0, gpus: vec![GpuId::Index(0)] }));
    s.up(0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
    s.relaunch(0);
    assert_eq!(
        (s.state(0), s.state(1), s.state(2)),
        (ScheduleState::Keyed, ScheduleState::Running, ScheduleState::ComputingKey)
    );
    // One that ran is looked up again by the loop, when its attempt has ended.
    s.rekey(1);
    assert_eq!(s.next_to_key(), Some(1));
    s.set_cache_miss(1);
    assert_eq!(s.next_to_key(), Some(2));
    s.finish_task(2, TaskEnd::Cached);
    assert_eq!(s.next_to_start(), Some(StartItem { task: 0, gpus: vec![GpuId::Index(0)] }), "its GPU was given back");
    s.up(0);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(1));
    s.finish_task(1, TaskEnd::Done);
    assert_eq!(s.take_to_stop(), [0]);
}

#[test]
fn a_server_whose_dependents_turn_out_to_be_cached_is_not_started_again() {
    let mut s = TaskSchedule::new(vec![service(&[]), step(&[0])], 1, []);
    while let Some(ix) = s.next_to_key() {
        if ix == 0 { s.set_keyed(ix) } else { s.set_cache_miss(ix) }
    }
    s.next_to_start();
    s.relaunch(0);
    assert_eq!(s.next_to_key(), Some(1));
    s.finish_task(1, TaskEnd::Cached);
    assert_eq!((s.state(0), s.is_finished()), (ScheduleState::Finished(TaskEnd::NotNeeded), true));
}

#[test]
fn what_can_never_have_its_gpus_is_found() {
    let mut s = TaskSchedule::new(vec![ScheduledTask { gpus: 2, ..step(&[]) }], 1, [GpuId::Index(0)]);
    let ix = s.next_to_key().unwrap();
    s.set_cache_miss(ix);
    assert_eq!(s.next_to_start(), None);
    assert_eq!(s.deadlocked_task(), Some(0));
}

#[test]
fn a_failure_cancels_all_that_stand_on_it_and_nothing_else() {
    let mut s = TaskSchedule::new(vec![step(&[]), step(&[]), step(&[0]), step(&[2]), step(&[1])], 1, []);
    s.next_to_key();
    s.finish_task(0, TaskEnd::Failed);
    assert_eq!(s.take_cancelled(), [(2, 0), (3, 2)]);
    assert_eq!(s.next_to_key(), Some(1));
    s.finish_task(1, TaskEnd::Cached);
    assert_eq!(s.next_to_key(), Some(4));
}

#[test]
fn another_step_has_the_slots_of_one_that_is_being_hashed_but_nothing_that_runs_alone() {
    let alone = ScheduledTask { cpus: None, ..step(&[]) };
    let on_gpu = ScheduledTask { gpus: 1, ..step(&[]) };
    let mut s = TaskSchedule::new(vec![step(&[]), on_gpu, step(&[]), step(&[]), alone], 2, [GpuId::Index(0)]);
    while let Some(ix) = s.next_to_key() {
        s.set_cache_miss(ix);
    }
    assert_eq!([s.next_to_start(), s.next_to_start()].map(|start| start.map(|x| x.task)), [Some(0), Some(1)]);
    s.release_slots(1);
    assert_eq!((s.is_hashing(1), s.next_to_start()), (false, None), "one with GPUs keeps all it has");
    s.release_slots(0);
    assert_eq!((s.is_hashing(0), s.next_to_start().map(|x| x.task)), (true, Some(2)));
    s.release_slots(2);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(3));
    s.release_slots(3);
    assert!(!s.is_hashing(3), "as many as there are slots are being hashed");
    for ix in [1, 2, 3] {
        s.finish_task(ix, TaskEnd::Done);
    }
    assert_eq!(s.next_to_start(), None, "hashing would disturb it");
    s.rekey(0);
    assert!(!s.is_hashing(0));
    s.finish_task(0, TaskEnd::Done);
    assert_eq!(s.next_to_start().map(|x| x.task), Some(4));
    let mut s = TaskSchedule::new(vec![step(&[]), step(&[])], 1, []);
    while let Some(ix) = s.next_to_key() {
        s.set_cache_miss(ix);
    }
    s.next_to_start();
    s.release_slots(0);
    assert_eq!((s.is_hashing(0), s.next_to_start()), (false, None), "with one slot, steps follow each other");
}

#[test]
fn ten_thousand_deep_fails_without_deep_recursion() {
    let items = (0..10_000u32).map(|i| step(&i.checked_sub(1).map_or(vec![], |n| vec![n]))).collect();
    let mut s = TaskSchedule::new(items, 1, []);
    s.next_to_key();
    s.finish_task(0, TaskEnd::Failed);
    assert!(s.is_finished());
}
