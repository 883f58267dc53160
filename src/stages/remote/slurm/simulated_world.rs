//! A simulated cluster against the interpreter of the queue: a job, a controller that falls silent or restarts from an
//! older state, a network filesystem that shows files late, a second run that takes the job over. A seed decides all of
//! it, so a failure is repeated by its seed.
//!
//! `REGATTA_SEEDS=N` tries N seeds in place of [`USUAL_SEEDS`]; [`KEPT_SEEDS`] are always tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg as Dice;
use tokio::time::Instant;

use super::commands::{JobState, QueueEntry, QueueView, SlurmJob};
use super::queue_interpreter::{QueueInterpreter, QueueObservation};
use crate::simulated_seeds::seed_count;
use base::event::FailureKind;

const USUAL_SEEDS: u64 = 2000;
/// Seeds that have found something, which are tried first: they fail where a line of the interpreter is undone. With
/// each is what that line is for.
const KEPT_SEEDS: [(u64, &str); 8] = [
    (58_673, "an old view without the job is no evidence while queries fail: found here first"),
    (10_041, "a reason that is shown once does not refuse a job"),
    (12_569, "heartbeats keep a job that the queue does not show"),
    (14_560, "a message is sent once"),
    (17_080, "a job that is put back after it has begun is lost"),
    (19_868, "a record may need a minute to arrive"),
    (10_600, "a job that was cancelled before the run began is lost"),
    (15_947, "a job may be missing for two minutes"),
];

/// What holds in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Property {
    /// A record that reaches the run within 45 s of its job's end decides, whatever the queue shows or does not show.
    RecordDecides,
    /// A job that waits or works is not given up: neither while the controller is silent or restarts, nor because
    /// views lack it.
    WorkIsKept,
    /// A job that the queue shows in wait for two minutes after it has begun is lost: an attempt is not run twice.
    RequeuedIsLost,
    /// A job that was cancelled before this run followed it is lost, so that it is submitted again.
    EndBeforeTheRunIsLost,
    /// A job that was cancelled while this run followed it, and a controller answered, ends as by that signal.
    CancelledIsMeant,
    /// Ten minutes after the job is over and the controller answers, the attempt is decided.
    IsDecided,
    /// No message is sent twice.
    MessagesAreSentOnce,
}

/// A fix of the past, undone at the interface of the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reverted {
    Nothing,
    /// Each look at the folder counted as a view of the queue.
    LooksAreNoViews,
    /// Jobs that ended before the run began were not distinguished.
    EndsBeforeTheRun,
    /// A query without an answer showed an empty queue.
    SilenceIsNoView,
    /// Until a silence was reported, the view before it counted.
    OldViewsAreNoEvidence,
    /// Heartbeats did not count.
    HeartbeatsCount,
}

/// How the job ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Recorded,
    Killed,
    TimeLimit,
    NodeFailed,
    Cancelled,
    FailsAtStart,
    Requeued,
    NeverStarts,
}

const FATES: [Fate; 8] = [
    Fate::Recorded,
    Fate::Killed,
    Fate::TimeLimit,
    Fate::NodeFailed,
    Fate::Cancelled,
    Fate::FailsAtStart,
    Fate::Requeued,
    Fate::NeverStarts,
];

/// Some spans of time in the first hour and a half, each shorter than `longest`.
fn spans(dice: &mut Dice, most: u64, longest: u64) -> Vec<(u64, u64)> {
    let count = dice.random_range(0..=most);
    let span = |_| {
        let begin = dice.random_range(0..5000);
        (begin, begin + dice.random_range(0..longest))
    };
    (0..count).map(span).collect()
}

/// Times in seconds since the submission.
#[derive(Debug)]
struct World {
    fate: Fate,
    starts: u64,
    claims: u64,
    ends: u64,
    /// For how long a job that was put back waits.
    held: u64,
    claim_lag: u64,
    record_lag: u64,
    /// When the run begins to follow it; 0: it has submitted it.
    follows: u64,
    silent: Vec<(u64, u64)>,
    /// Periods in which the controller, restarted from an older state, answers without the job.
    restarts: Vec<(u64, u64)>,
    /// Until the scheduler has looked twice, it shows a reason why the job never starts.
    is_doubtful_at_first: bool,
    first_query: u64,
}

/// How long the queue shows a job that has ended: `MinJobAge`.
const SHOWN_AFTER_END: u64 = 300;
const QUERY_EVERY: u64 = 15;
const LOOK_EVERY: u64 = 2;

fn is_in(spans: &[(u64, u64)], at: u64) -> bool {
    spans.iter().any(|(begin, end)| (*begin..*end).contains(&at))
}

/// Whether any of them has a second of this time.
fn overlap(spans: &[(u64, u64)], from: u64, to: u64) -> bool {
    spans.iter().any(|(begin, end)| *begin < to && from < *end)
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::seed_from_u64(seed);
        let starts = dice.random_range(0..600);
        let claims = starts + 1 + dice.random_range(0..20);
        let ends = claims + 1 + dice.random_range(0..3000);
        let is_taken_over = dice.random_range(0..3) == 0;
        let mut restarts = spans(&mut dice, 2, 400);
        // Without heartbeats the run waits for two minutes.
        let is_early = |begin: u64| begin < claims + 10;
        for (begin, end) in restarts.iter_mut().filter(|(begin, _)| is_early(*begin)) {
            *end = *begin + (*end - *begin) % 100;
        }
        restarts.dedup_by_key(|(begin, _)| if is_early(*begin) { 0 } else { *begin + 1 });
        Self {
            fate: FATES[dice.random_range(0..FATES.len())],
            starts,
            claims,
            ends,
            held: dice.random_range(0..400),
            claim_lag: dice.random_range(0..4),
            record_lag: dice.random_range(0..45),
            follows: if is_taken_over { dice.random_range(0..ends + 400) } else { 0 },
            silent: spans(&mut dice, 3, 1500),
            restarts,
            is_doubtful_at_first: dice.random_range(0..2) == 0,
            first_query: dice.random_range(0..QUERY_EVERY),
        }
    }

    /// When its process is gone for good.
    fn is_over_at(&self) -> u64 {
        match self.fate {
            Fate::FailsAtStart => self.starts + 1,
            Fate::Requeued => self.ends + self.held + 2,
            Fate::NeverStarts => 0,
            _ => self.ends,
        }
    }

    /// The job's entry in the queue: its state, and why it waits.
    fn state(&self, at: u64) -> Option<(&'static str, &'static str)> {
        let has_ended = at >= self.is_over_at();
        let final_state = match self.fate {
            Fate::NeverStarts => return Some(("PENDING", "PartitionTimeLimit")),
            Fate::Recorded | Fate::Requeued => "COMPLETED",
            Fate::Killed | Fate::FailsAtStart => "FAILED",
            Fate::TimeLimit => "TIMEOUT",
            Fate::NodeFailed => "NODE_FAIL",
            Fate::Cancelled => "CANCELLED",
        };
        if at < self.starts {
            let is_doubtful = self.is_doubtful_at_first && at < QUERY_EVERY;
            return Some(("PENDING", if is_doubtful { "PartitionTimeLimit" } else { "Priority" }));
        }
        if has_ended {
            return (at < self.is_over_at() + SHOWN_AFTER_END).then_some((final_state, "None"));
        }
        let is_back = self.fate == Fate::Requeued && (self.ends..self.ends + self.held).contains(&at);
        Some(if is_back { ("PENDING", "BeginTime") } else { ("RUNNING", "None") })
    }

    fn query(&self, view: &mut QueueView, begin: Instant, at: u64, reverted: Reverted) {
        let is_silent = is_in(&self.silent, at);
        if is_silent && reverted != Reverted::SilenceIsNoView {
            view.silent += 1;
            "no answer".clone_into(&mut view.complaint);
            return;
        }
        let shown = self.state(at).filter(|_| !is_silent && !is_in(&self.restarts, at));
        let entry = shown.map(|(state, reason)| QueueEntry {
            number: "7".to_owned(),
            state: JobState::read(state),
            reason: reason.to_owned(),
            nodes: "n1".to_owned(),
        });
        let jobs = entry.map(|entry| (job(), vec![entry])).into_iter().collect::<BTreeMap<_, _>>();
        let at = Some(begin + Duration::from_secs(at));
        *view = QueueView { seen: view.seen + 1, at, jobs: Arc::new(jobs), ..QueueView::default() };
    }

    /// Whether the job has begun its work, as the run's machine sees it.
    fn shows_claim(&self, at: u64) -> bool {
        !matches!(self.fate, Fate::FailsAtStart | Fate::NeverStarts) && at >= self.claims + self.claim_lag
    }

    fn shows_record(&self, at: u64) -> bool {
        self.fate == Fate::Recorded && at >= self.ends + self.record_lag
    }

    /// From then on nothing changes any more.
    fn settles(&self) -> u64 {
        let last = |spans: &[(u64, u64)]| spans.iter().map(|(_, end)| *end).max().unwrap_or_default();
        last(&self.silent).max(last(&self.restarts)).max(self.is_over_at()).max(self.follows)
    }
}

fn job() -> SlurmJob {
    SlurmJob { name: "regatta-it-1".to_owned(), element: None }
}

/// How the run decides about its attempt, and when.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Record,
    GivenUp(FailureKind, String),
    None,
}

struct Outcome {
    decision: Decision,
    at: u64,
    steps: u64,
    messages: Vec<String>,
}

/// The run: as `JobAttempt::follow` looks at the folder and the queue.
fn follow(world: &World, reverted: Reverted) -> Outcome {
    let begin = Instant::now();
    let instant = |at: u64| begin + Duration::from_secs(at);
    let mut queue = QueueInterpreter::new(instant(world.follows), None, None);
    if world.follows > 0 && world.shows_claim(world.follows) && reverted != Reverted::EndsBeforeTheRun {
        queue = queue.of_earlier_run(world.shows_record(world.follows));
    }
    let mut view = QueueView::default();
    let (mut steps, mut messages) = (0, Vec::new());
    let mut looked = 0;
    for at in world.follows..world.settles() + 610 {
        if at % QUERY_EVERY == world.first_query {
            world.query(&mut view, begin, at, reverted);
        }
        if at % LOOK_EVERY != 0 {
            continue;
        }
        steps += 1;
        if world.shows_record(at) {
            return Outcome { decision: Decision::Record, at, steps, messages };
        }
        let claimant = world.shows_claim(at).then_some("7");
        // `silence` is a minute, and the last beat came up to 10 s before the end.
        let is_beating = claimant.is_some() && at < world.ends + 50 && reverted != Reverted::HeartbeatsCount;
        let mut seen = view.clone();
        if reverted == Reverted::OldViewsAreNoEvidence && seen.silent < 3 {
            seen.silent = 0;
        }
        if reverted == Reverted::LooksAreNoViews {
            looked += 1;
            seen.seen = looked;
        }
        match queue.observe(&seen, &job(), claimant, is_beating, instant(at)) {
            QueueObservation::Wait(_) | QueueObservation::Silent(_) => {}
            QueueObservation::Notify(text) => messages.push(text),
            QueueObservation::Ended(failure) => {
                let decision = Decision::GivenUp(failure.kind, failure.what);
                return Outcome { decision, at, steps, messages };
            }
        }
    }
    Outcome { decision: Decision::None, at: world.settles() + 610, steps, messages }
}

/// What does not hold in this world.
fn violated(world: &World, outcome: &Outcome) -> Vec<Property> {
    let Outcome { decision, at, messages, .. } = outcome;
    let is_lost = matches!(decision, Decision::GivenUp(FailureKind::Lost, _));
    let (given_up, over) = (matches!(decision, Decision::GivenUp(..)), world.is_over_at());
    let is_disturbed = |from, to| overlap(&world.silent, from, to) || overlap(&world.restarts, from, to);
    let works = !matches!(world.fate, Fate::NeverStarts | Fate::Requeued) && *at < over;
    let is_back_for_long = world.fate == Fate::Requeued && world.held >= 120 && world.follows < world.claims;
    let is_cancelled = world.fate == Fate::Cancelled;
    let (before, after) = (world.ends <= world.follows, world.ends > world.follows + 2 * QUERY_EVERY);
    let by_signal = matches!(decision, Decision::GivenUp(FailureKind::Signal(15), _));
    [
        (Property::RecordDecides, world.fate == Fate::Recorded && *decision != Decision::Record),
        (Property::WorkIsKept, given_up && works),
        (Property::RequeuedIsLost, is_back_for_long && !is_disturbed(world.ends, world.ends + world.held) && !is_lost),
        // It began before: only then does the run take it over.
        (Property::EndBeforeTheRunIsLost, is_cancelled && before && world.shows_claim(world.follows) && !is_lost),
        (
            Property::CancelledIsMeant,
            is_cancelled && after && !is_disturbed(world.follows, over + SHOWN_AFTER_END) && !by_signal,
        ),
        (Property::IsDecided, *decision == Decision::None),
        (Property::MessagesAreSentOnce, messages.iter().collect::<BTreeSet<_>>().len() != messages.len()),
    ]
    .into_iter()
    .filter_map(|(property, is_violated)| is_violated.then_some(property))
    .collect()
}

fn seeds() -> Vec<u64> {
    KEPT_SEEDS.iter().map(|(seed, _)| *seed).chain(1000..1000 + seed_count(USUAL_SEEDS)).collect()
}

#[test]
fn what_the_queue_shows_leads_to_the_right_end_in_every_world() {
    let (mut failed, mut steps) = (Vec::new(), 0);
    let mut fates = BTreeMap::new();
    for seed in seeds() {
        let world = World::new(seed);
        let outcome = follow(&world, Reverted::Nothing);
        steps += outcome.steps;
        *fates.entry(format!("{:?}", world.fate)).or_insert(0_u64) += 1;
        let properties = violated(&world, &outcome);
        if !properties.is_empty() {
            let Outcome { at, decision, .. } = outcome;
            failed.push((at, format!("seed {seed}: {properties:?} after {at} s: {decision:?}\n{world:?}")));
        }
    }
    // The shortest first.
    failed.sort();
    let texts: Vec<&str> = failed.iter().take(5).map(|(_, text)| text.as_str()).collect();
    assert!(failed.is_empty(), "{} of {} worlds:\n{}", failed.len(), seeds().len(), texts.join("\n"));
    assert!(steps > 1_000_000 && fates.len() == FATES.len(), "{steps} steps of {fates:?}");
}

#[test]
fn each_fix_of_the_past_is_found_by_seeds_where_it_is_undone() {
    for (reverted, property) in [
        (Reverted::LooksAreNoViews, Property::WorkIsKept),
        (Reverted::EndsBeforeTheRun, Property::EndBeforeTheRunIsLost),
        (Reverted::SilenceIsNoView, Property::WorkIsKept),
        (Reverted::OldViewsAreNoEvidence, Property::WorkIsKept),
        (Reverted::HeartbeatsCount, Property::WorkIsKept),
    ] {
        let finds = |seed: &u64| {
            let world = World::new(*seed);
            violated(&world, &follow(&world, reverted)).contains(&property)
        };
        let seeds_that_find: Vec<u64> = seeds().into_iter().filter(finds).take(3).collect();
        assert!(!seeds_that_find.is_empty(), "no seed finds {property:?} with {reverted:?} undone");
    }
}
