//! What the queue's state means for an attempt that has not recorded its end. Decides, without side effects.

use std::time::Duration;

use tokio::time::Instant;

use super::commands::{JobState, PendingReason, QueueEntry, QueueView, SlurmJob};
use base::event::{Failure, FailureKind};
use base::spec::JobTimeLimit;

/// How long a record may need to reach us over a network filesystem, once the queue reports that a job has ended
/// normally.
const RECORD_TIMEOUT: Duration = Duration::from_mins(1);
/// The same for a job that was cut off: it has most likely left none.
const RECORD_TIMEOUT_AFTER_KILL: Duration = Duration::from_secs(5);
/// How long a job may be missing in the queue. A controller that restarts from an older state may not know it at first.
const MISSING_TIMEOUT: Duration = Duration::from_mins(2);
/// Consecutive query errors until the user gets a message.
const ERRORS_UNTIL_NOTICE: u32 = 3;

/// What to make of a look at the queue.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueObservation {
    /// The current state, for display.
    Wait(String),
    /// The same, with a message for the user, sent once.
    Notify(String),
    /// The controller does not answer, which is the same for all jobs of a run: a message for the user, and the current
    /// state.
    Silent(String),
    /// It has ended, or never will: give it up.
    Ended(Box<Failure>),
}

/// One attempt as the queue shows it.
#[derive(Debug)]
pub struct QueueInterpreter {
    /// When it was known to be submitted.
    since: Instant,
    queue_timeout: Option<Duration>,
    /// From when on it has waited for others than those of its own array.
    waits: Instant,
    /// For messages: `2h`.
    limit: Option<JobTimeLimit>,
    missing: Option<Instant>,
    /// Views in a row that did not show it.
    missing_views: u64,
    ended: Option<Instant>,
    /// When it was first seen that a job works on it.
    claimed: Option<Instant>,
    /// Views in a row that showed it waiting after that.
    back: u64,
    /// Consecutive views according to which it never starts.
    never: u64,
    last_view: u64,
    /// Whether its job was over when the run began to follow it; `None`: not known yet.
    over_before: Option<bool>,
    sent_messages: Vec<String>,
}

impl QueueInterpreter {
    pub fn new(since: Instant, queue_timeout: Option<Duration>, limit: Option<JobTimeLimit>) -> Self {
        Self {
            since,
            queue_timeout,
            waits: since,
            limit,
            missing: None,
            missing_views: 0,
            ended: None,
            claimed: None,
            back: 0,
            never: 0,
            last_view: 0,
            over_before: Some(false),
            sent_messages: Vec::new(),
        }
    }

    /// Of a job that an earlier run submitted. `is_over`: it has recorded its end already.
    pub fn of_earlier_run(self, is_over: bool) -> Self {
        Self { over_before: is_over.then_some(true), ..self }
    }

    /// What ended the job from outside came before this run, which may submit another one.
    pub fn was_over_before(&self) -> bool {
        self.over_before == Some(true)
    }

    /// `claimant` is the number of the job that works on it; `is_alive`: it sends heartbeats. `now` must not go back.
    pub fn observe(
        &mut self,
        view: &QueueView,
        of: &SlurmJob,
        claimant: Option<&str>,
        is_alive: bool,
        now: Instant,
    ) -> QueueObservation {
        if view.silent >= ERRORS_UNTIL_NOTICE {
            let text = format!(
                "Slurm's controller does not answer ({}); its jobs continue without it, and it is queried again",
                view.complaint
            );
            return QueueObservation::Silent(text);
        }
        let fresh = self.is_fresh(view);
        let entries = view.entries(of);
        if claimant.is_some() {
            self.claimed.get_or_insert(now);
        }
        let Some(job) = pick(entries, claimant) else {
            self.missing_views += u64::from(fresh);
            return self.missing(view, claimant, is_alive, now);
        };
        self.missing = None;
        self.missing_views = 0;
        self.over_before.get_or_insert(job.state.is_final());
        let number = &job.number;
        match &job.state {
            JobState::Pending if claimant.is_some() => match self.requeued(number, view, fresh) {
                Some(failure) => QueueObservation::Ended(Box::new(failure)),
                None => QueueObservation::Wait(format!("job {number} has begun")),
            },
            JobState::Pending => self.pending(job, fresh, now),
            JobState::Running | JobState::Completing => {
                QueueObservation::Wait(format!("job {number} on {}", job.nodes))
            }
            JobState::Suspended => {
                let text = format!("its job {number} is suspended on {}", job.nodes);
                self.once("suspended", text)
            }
            JobState::Other(word) => QueueObservation::Wait(format!("job {number}: {word}")),
            _ => self.ended(job, now),
        }
    }

    /// The same for an attempt that recorded at `ended` that it was stopped: the queue may show its job in wait once
    /// more.
    pub fn observe_stopped(&mut self, view: &QueueView, job: &QueueEntry, ended: Instant) -> Option<Failure> {
        let fresh = self.is_fresh(view);
        self.claimed.get_or_insert(ended);
        if job.state == JobState::Pending { self.requeued(&job.number, view, fresh) } else { None }
    }

    fn is_fresh(&mut self, view: &QueueView) -> bool {
        std::mem::replace(&mut self.last_view, view.seen) != view.seen
    }

    /// The queue shows in wait a job that has worked on the attempt.
    fn requeued(&mut self, number: &str, view: &QueueView, fresh: bool) -> Option<Failure> {
        // A view from before the claim shows nothing.
        self.back += u64::from(fresh && view.at.zip(self.claimed).is_some_and(|(at, claimed)| at > claimed));
        if self.back < 2 {
            return None;
        }
        let message = format!("its job {number} was put back into the queue after it had begun");
        let cause = "an attempt is never run twice: its output may be incomplete";
        Some(Failure::new(FailureKind::Lost, message).cause(cause))
    }

    fn once(&mut self, what: &str, text: String) -> QueueObservation {
        if self.sent_messages.iter().any(|sent| sent == what) {
            return QueueObservation::Wait(text);
        }
        self.sent_messages.push(what.to_owned());
        QueueObservation::Notify(text)
    }

    fn missing(&mut self, view: &QueueView, claimant: Option<&str>, is_alive: bool, now: Instant) -> QueueObservation {
        // Seen before it was submitted: no evidence.
        if view.at.is_none_or(|at| at < self.since) {
            self.missing_views = 0;
            return QueueObservation::Wait("submitted".to_owned());
        }
        // While queries fail, an old view proves nothing either.
        let is_long = now - *self.missing.get_or_insert(now) >= MISSING_TIMEOUT;
        if !is_long || self.missing_views < 2 || view.silent > 0 {
            return QueueObservation::Wait("the queue does not show its job".to_owned());
        }
        let job = claimant.map_or_else(|| "its job".to_owned(), |number| format!("its job {number}"));
        if is_alive {
            let text = format!(
                "the queue does not show {job}, which still sends heartbeats: it is followed without the queue"
            );
            return self.once("missing", text);
        }
        lost(
            format!("{job} is no longer in the queue and left no exit record"),
            "the node failed, or the job was ended before it could write",
        )
    }

    fn pending(&mut self, job: &QueueEntry, fresh: bool, now: Instant) -> QueueObservation {
        let QueueEntry { number, reason, .. } = job;
        if reason == "JobArrayTaskLimit" {
            // `at_once` of the same manifest holds it, and no cluster.
            self.waits = now;
        }
        if let Some(limit) = self.queue_timeout
            && now.saturating_duration_since(self.waits) > limit
        {
            let message =
                format!("its job {number} did not start within {} s in the queue ({reason})", limit.as_secs());
            let failure = Failure::new(FailureKind::Timeout, message);
            return QueueObservation::Ended(Box::new(failure.hint("use a longer `queue_timeout`, or a smaller job")));
        }
        match PendingReason::read(reason) {
            PendingReason::Queued => {
                self.never = 0;
                QueueObservation::Wait(format!("job {number} waits: {reason}"))
            }
            PendingReason::NeedsUser(why) => {
                self.never = 0;
                self.once(reason, format!("its job {number} waits: {why} ({reason})"))
            }
            PendingReason::Never(why, what_to_do) => {
                self.never += u64::from(fresh);
                // Some reasons are shown for a moment only, until the scheduler has looked twice.
                if self.never < 2 {
                    return QueueObservation::Wait(format!("job {number} waits: {reason}"));
                }
                let message = format!("its job {number} will never start: {why} ({reason})");
                QueueObservation::Ended(Box::new(Failure::refused(message).hint(what_to_do)))
            }
        }
    }

    fn ended(&mut self, job: &QueueEntry, now: Instant) -> QueueObservation {
        let patience = match job.state {
            JobState::Completed | JobState::Failed if self.claimed.is_some() => RECORD_TIMEOUT,
            _ => RECORD_TIMEOUT_AFTER_KILL,
        };
        if now - *self.ended.get_or_insert(now) < patience {
            return QueueObservation::Wait(format!("job {} has ended; waiting for its exit record", job.number));
        }
        QueueObservation::Ended(Box::new(self.failure(job)))
    }

    /// What the queue reports more precisely than the job.
    pub fn failure(&self, job: &QueueEntry) -> Failure {
        let QueueEntry { number, nodes, state, .. } = job;
        let on = if nodes.is_empty() { String::new() } else { format!(" on {nodes}") };
        let fail = Failure::new;
        match state {
            JobState::TimeLimit => {
                let limit = self.limit.as_ref().map(|limit| format!(" of {limit}")).unwrap_or_default();
                fail(FailureKind::Timeout, format!("its job {number}{on} ran into its time limit{limit}"))
                    .hint("a longer `host.slurm.time`, if the partition allows it")
            }
            JobState::OutOfMemory => {
                fail(FailureKind::Signal(9), format!("its job {number}{on} used more memory than it was given"))
                    .hint("a larger `host.slurm.mem`")
            }
            JobState::NodeFailed => fail(FailureKind::Lost, format!("its job {number} lost its node{on}")),
            JobState::Preempted => fail(FailureKind::Lost, format!("its job {number}{on} was preempted")),
            JobState::Cancelled if self.was_over_before() => {
                fail(FailureKind::Lost, format!("its job {number}{on} was cancelled before this run began"))
            }
            JobState::Cancelled => {
                fail(FailureKind::Signal(15), format!("its job {number}{on} was cancelled, but not by this run"))
            }
            JobState::Deadline => {
                fail(FailureKind::Timeout, format!("its job {number} could not start before its deadline"))
            }
            JobState::Failed | JobState::Completed if self.claimed.is_some() => {
                let message = format!("its job {number}{on} ended, and could not record how");
                fail(FailureKind::Signal(9), message).hint(
                    "it may have been killed, for example by the kernel's out-of-memory killer (`dmesg` on the \
                        node), or the project's filesystem did not store its record",
                )
            }
            state => fail(
                FailureKind::Spawn,
                format!("its job {number}{on} ended ({state:?}) before it could begin its work"),
            )
            .hint("the project folder and this program must be at the same place on the nodes"),
        }
    }
}

fn lost(what: String, cause: &str) -> QueueObservation {
    QueueObservation::Ended(Box::new(Failure::new(FailureKind::Lost, what).cause(cause)))
}

/// Of several jobs of one name the one that works on it, else one that has not ended.
pub fn pick<'a>(entries: &'a [QueueEntry], claimant: Option<&str>) -> Option<&'a QueueEntry> {
    let claims = entries.iter().find(|job| Some(job.number.as_str()) == claimant);
    claims.or_else(|| entries.iter().find(|job| !job.state.is_final())).or_else(|| entries.last())
}

/// Jobs of this name that do not work on it and are not over.
pub fn duplicate_jobs<'a>(
    entries: &'a [QueueEntry],
    claimant: Option<&'a str>,
) -> impl Iterator<Item = &'a QueueEntry> {
    entries.iter().filter(move |job| claimant.is_some_and(|number| number != job.number) && !job.state.is_final())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    fn it() -> SlurmJob {
        SlurmJob { name: "regatta-it-1".to_owned(), element: None }
    }

    struct Queue {
        begun: Instant,
        seen: u64,
        is_alive: bool,
        queue: QueueInterpreter,
    }

    impl Queue {
        fn new(queue_timeout: Option<u64>) -> Self {
            let begun = Instant::now();
            let queue =
                QueueInterpreter::new(begun, queue_timeout.map(Duration::from_secs), Some("2h".parse().unwrap()));
            Self { begun, seen: 0, is_alive: false, queue }
        }

        /// `after` seconds the queue shows these lines: number, state, reason, nodes.
        fn shows(&mut self, after: u64, jobs: &[(&str, &str, &str, &str)], claimant: Option<&str>) -> QueueObservation {
            self.seen += 1;
            let entry = |&(number, state, reason, nodes): &(&str, &str, &str, &str)| QueueEntry {
                number: number.to_owned(),
                state: JobState::read(state),
                reason: reason.to_owned(),
                nodes: nodes.to_owned(),
            };
            let now = self.begun + Duration::from_secs(after);
            let jobs = if jobs.is_empty() {
                BTreeMap::new()
            } else {
                BTreeMap::from([(it(), jobs.iter().map(entry).collect())])
            };
            let view = QueueView { seen: self.seen, at: Some(now), jobs: Arc::new(jobs), ..QueueView::default() };
            self.queue.observe(&view, &it(), claimant, self.is_alive, now)
        }
    }

    fn over(look: QueueObservation) -> (FailureKind, String) {
        match look {
            QueueObservation::Ended(failure) => (failure.kind, failure.what),
            other => panic!("not over: {other:?}"),
        }
    }

    #[test]
    fn a_lost_node_is_not_the_stages_fault() {
        let mut queue = Queue::new(None);
        assert!(matches!(queue.shows(1, &[("7", "RUNNING", "None", "n1")], Some("7")), QueueObservation::Wait(_)));
        let gone = [("7", "NODE_FAIL", "None", "n1")];
        assert!(matches!(queue.shows(9, &gone, Some("7")), QueueObservation::Wait(_)), "its record may be on its way");
        let (kind, what) = over(queue.shows(20, &gone, Some("7")));
        assert_eq!((kind, what.as_str()), (FailureKind::Lost, "its job 7 lost its node on n1"));
    }

    #[test]
    fn a_job_that_was_cancelled_before_the_run_began_is_lost() {
        let gone = [("7", "CANCELLED", "None", "")];
        let cancelled = |mut queue: Queue, before: &[(&str, &str, &str, &str)]| {
            queue.shows(1, before, None);
            queue.shows(2, &gone, None);
            over(queue.shows(20, &gone, None)).0
        };
        let adopted = |is_over| {
            let queue = Queue::new(None);
            Queue { queue: queue.queue.of_earlier_run(is_over), ..queue }
        };
        let runs = [("7", "RUNNING", "None", "n1")];
        assert_eq!(cancelled(adopted(false), &gone), FailureKind::Lost, "it is submitted again");
        assert_eq!(cancelled(adopted(true), &runs), FailureKind::Lost, "it had recorded its end");
        assert_eq!(cancelled(adopted(false), &runs), FailureKind::Signal(15), "that was meant");
        assert_eq!(cancelled(Queue::new(None), &gone), FailureKind::Signal(15));
    }

    #[test]
    fn a_time_limit_is_named_with_its_length() {
        let mut queue = Queue::new(None);
        let late = [("7", "TIMEOUT", "TimeLimit", "n1")];
        queue.shows(1, &late, Some("7"));
        let (kind, what) = over(queue.shows(10, &late, Some("7")));
        assert_eq!((kind, what.as_str()), (FailureKind::Timeout, "its job 7 on n1 ran into its time limit of 2h"));
    }

    #[test]
    fn a_job_that_was_killed_is_distinguished_from_one_that_never_began() {
        let failed = [("7", "FAILED", "NonZeroExitCode", "n1")];
        let mut queue = Queue::new(None);
        queue.shows(1, &failed, None);
        let (kind, what) = over(queue.shows(10, &failed, None));
        assert_eq!(
            (kind, what.as_str()),
            (FailureKind::Spawn, "its job 7 on n1 ended (Failed) before it could begin its work")
        );
        let mut queue = Queue::new(None);
        queue.shows(1, &failed, Some("7"));
        assert!(
            matches!(queue.shows(50, &failed, Some("7")), QueueObservation::Wait(_)),
            "its record may be on its way"
        );
        assert_eq!(over(queue.shows(70, &failed, Some("7"))).0, FailureKind::Signal(9));
    }

    #[test]
    fn a_claim_that_was_seen_once_keeps_its_patience() {
        let mut queue = Queue::new(None);
        queue.shows(1, &[("7", "RUNNING", "None", "n1")], Some("7"));
        let done = [("7", "COMPLETED", "None", "n1")];
        assert!(matches!(queue.shows(10, &done, None), QueueObservation::Wait(_)));
        assert!(matches!(queue.shows(60, &done, None), QueueObservation::Wait(_)), "its record may be on its way");
        assert_eq!(over(queue.shows(71, &done, None)).0, FailureKind::Signal(9));
    }

    #[test]
    fn a_job_that_never_starts_is_given_up_when_the_queue_has_said_so_twice() {
        let mut queue = Queue::new(None);
        let never = [("7", "PENDING", "PartitionTimeLimit", "")];
        assert!(matches!(queue.shows(1, &never, None), QueueObservation::Wait(_)));
        let (kind, what) = over(queue.shows(2, &never, None));
        assert_eq!(kind, FailureKind::Refused);
        assert_eq!(
            what,
            "its job 7 will never start: it requests more time than its partition allows (PartitionTimeLimit)"
        );
    }

    #[test]
    fn an_endless_wait_is_reported_once_and_can_be_limited() {
        let mut queue = Queue::new(Some(100));
        let down = [("7", "PENDING", "ReqNodeNotAvail, UnavailableNodes:n1", "")];
        assert!(matches!(queue.shows(1, &down, None), QueueObservation::Notify(_)));
        assert!(matches!(queue.shows(2, &down, None), QueueObservation::Wait(_)));
        assert_eq!(over(queue.shows(101, &down, None)).0, FailureKind::Timeout);
    }

    #[test]
    fn the_time_in_the_queue_does_not_count_while_its_own_array_holds_it() {
        let mut queue = Queue::new(Some(100));
        let held = [("7_3", "PENDING", "JobArrayTaskLimit", "")];
        assert!(matches!(queue.shows(500, &held, None), QueueObservation::Wait(_)));
        let waits = [("7_3", "PENDING", "Priority", "")];
        assert!(matches!(queue.shows(590, &waits, None), QueueObservation::Wait(_)));
        assert_eq!(over(queue.shows(601, &waits, None)).0, FailureKind::Timeout);
    }

    #[test]
    fn missing_is_neither_success_nor_failure_for_two_minutes() {
        let mut queue = Queue::new(None);
        assert!(matches!(queue.shows(1, &[], Some("7")), QueueObservation::Wait(_)));
        assert!(matches!(queue.shows(100, &[], Some("7")), QueueObservation::Wait(_)));
        assert!(
            matches!(queue.shows(101, &[("7", "RUNNING", "None", "n1")], Some("7")), QueueObservation::Wait(_)),
            "it is back"
        );
        assert!(matches!(queue.shows(102, &[], Some("7")), QueueObservation::Wait(_)));
        assert_eq!(over(queue.shows(223, &[], Some("7"))).0, FailureKind::Lost);
    }

    #[test]
    fn a_job_that_sends_heartbeats_is_not_lost_where_the_queue_does_not_show_it() {
        let mut queue = Queue::new(None);
        queue.is_alive = true;
        assert!(matches!(queue.shows(1, &[], Some("7")), QueueObservation::Wait(_)));
        assert!(matches!(queue.shows(121, &[], Some("7")), QueueObservation::Notify(_)));
        assert!(matches!(queue.shows(1000, &[], Some("7")), QueueObservation::Wait(_)), "once");
        queue.is_alive = false;
        assert_eq!(over(queue.shows(1001, &[], Some("7"))).0, FailureKind::Lost);
    }

    #[test]
    fn one_view_is_no_proof_that_a_job_is_missing() {
        let mut queue = Queue::new(None);
        queue.shows(1, &[], Some("7"));
        let view =
            QueueView { seen: queue.seen, at: Some(queue.begun + Duration::from_secs(1)), ..QueueView::default() };
        let later = queue.begun + Duration::from_mins(5);
        assert!(matches!(queue.queue.observe(&view, &it(), Some("7"), false, later), QueueObservation::Wait(_)));
        assert_eq!(over(queue.shows(301, &[], Some("7"))).0, FailureKind::Lost);
    }

    #[test]
    fn a_requeued_job_is_not_run_twice() {
        let mut queue = Queue::new(None);
        let back = [("7", "PENDING", "BeginTime", "")];
        assert!(
            matches!(queue.shows(1, &back, Some("7")), QueueObservation::Wait(_)),
            "the queue may not have seen its start yet"
        );
        assert!(matches!(queue.shows(2, &back, Some("7")), QueueObservation::Wait(_)));
        let (kind, what) = over(queue.shows(3, &back, Some("7")));
        assert_eq!(kind, FailureKind::Lost);
        assert_eq!(what, "its job 7 was put back into the queue after it had begun");
    }

    #[test]
    fn a_controller_that_is_silent_decides_nothing() {
        let mut queue = Queue::new(Some(1));
        let silent = QueueView { silent: 3, complaint: "no answer".to_owned(), ..QueueView::default() };
        let later = queue.begun + Duration::from_secs(10_000);
        assert!(matches!(queue.queue.observe(&silent, &it(), None, false, later), QueueObservation::Silent(_)));
    }

    #[test]
    fn of_two_jobs_the_one_that_claimed_it_counts_and_the_other_is_surplus() {
        let mut queue = Queue::new(None);
        let two = [("7", "COMPLETED", "None", "n1"), ("8", "RUNNING", "None", "n2")];
        assert_eq!(queue.shows(1, &two, Some("8")), QueueObservation::Wait("job 8 on n2".to_owned()));
        let entries = |jobs: &[(&str, &str)]| -> Vec<QueueEntry> {
            let entry = |&(number, state): &(&str, &str)| QueueEntry {
                number: number.to_owned(),
                state: JobState::read(state),
                reason: String::new(),
                nodes: String::new(),
            };
            jobs.iter().map(entry).collect()
        };
        let both = entries(&[("7", "PENDING"), ("8", "RUNNING")]);
        assert_eq!(duplicate_jobs(&both, Some("8")).map(|job| job.number.as_str()).collect::<Vec<_>>(), ["7"]);
        assert_eq!(duplicate_jobs(&both, None).count(), 0, "which one it will be is not known yet");
    }
}
