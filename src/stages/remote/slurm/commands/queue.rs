//! The queue as it was last seen: one query for all jobs of a run, repeated while there are subscribers.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::job::{PREFIX, SlurmJob, elements};
use super::sbatch::{clusters_of, query_environment};
use exec::process::{self, ProbeOutput, ProbeResult};

/// Longer than `squeue`'s own time-outs against a controller that does not answer.
const QUERY_TIMEOUT: Duration = Duration::from_mins(1);
/// Lower bound of the query interval, also for [`JobQueue::poll_soon`].
const SPACING: Duration = Duration::from_secs(1);

/// A job in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueEntry {
    /// `123`; `123_7` is element 7 of an array, also while it waits.
    pub number: String,
    pub state: JobState,
    /// Why it waits, as Slurm reports it.
    pub reason: String,
    /// Its nodes, as Slurm writes lists: `n[1-2]`. Empty while it waits.
    pub nodes: String,
}

/// What the queue looked like.
#[derive(Clone, Debug, Default)]
pub struct QueueView {
    /// How many times it was seen. 0: not yet.
    pub seen: u64,
    /// When it was last queried successfully; the query started no earlier than this.
    pub at: Option<Instant>,
    /// Ours; several under one name when a submission was repeated.
    pub jobs: Arc<BTreeMap<SlurmJob, Vec<QueueEntry>>>,
    /// Consecutive queries without an answer, and the last error.
    pub silent: u32,
    pub complaint: String,
}

impl QueueView {
    /// What it shows of a job.
    pub fn entries(&self, job: &SlurmJob) -> &[QueueEntry] {
        self.jobs.get(job).map_or(&[], Vec::as_slice)
    }
}

/// Queries the queue for all subscribers. Clones share one.
#[derive(Clone, Debug, Default)]
pub struct JobQueue {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    sender: watch::Sender<QueueView>,
    hurry: Notify,
    queries: Mutex<QueueQueries>,
}

#[derive(Debug, Default)]
struct QueueQueries {
    is_on: bool,
    /// The shortest interval that any subscriber requested.
    every: Option<Duration>,
    /// One for each set of clusters. The rest of it is what a job gets, and decides nothing here.
    environments: BTreeMap<Option<OsString>, Environment>,
}

impl JobQueue {
    /// Subscribes; the first subscriber starts the queries. They run at least every `every`, and stop when no
    /// subscriber is left.
    pub fn subscribe(&self, env: &Environment, every: Duration) -> watch::Receiver<QueueView> {
        let receiver = self.shared.sender.subscribe();
        let mut queries = self.shared.queries.lock();
        queries.every = Some(queries.every.map_or(every, |now| now.min(every)));
        queries.environments.entry(clusters_of(env).map(OsString::from)).or_insert_with(|| env.clone());
        if !std::mem::replace(&mut queries.is_on, true) {
            tokio::spawn(Arc::clone(&self.shared).poll_queue());
        }
        receiver
    }

    /// How many listen.
    pub fn subscribers(&self) -> usize {
        self.shared.sender.receiver_count()
    }

    /// A subscriber waits for the next answer: query as soon as possible.
    pub fn poll_soon(&self) {
        self.shared.hurry.notify_one();
    }
}

impl Shared {
    async fn poll_queue(self: Arc<Self>) {
        loop {
            let at = Instant::now();
            let environments: Vec<Environment> = self.queries().environments.values().cloned().collect();
            let seen = see(environments).await;
            self.sender.send_modify(|view| match seen {
                Ok(jobs) => {
                    *view =
                        QueueView { seen: view.seen + 1, at: Some(at), jobs: Arc::new(jobs), ..QueueView::default() };
                }
                Err(failed) => {
                    view.silent += 1;
                    view.complaint = error_text("squeue", &failed);
                }
            });
            let every = self.queries().every.unwrap_or(QUERY_TIMEOUT);
            tokio::time::sleep(SPACING.min(every)).await;
            tokio::select! {
                () = tokio::time::sleep(every.saturating_sub(SPACING)) => {}
                () = self.hurry.notified() => {}
            }
            // No subscriber is left: stop querying. Under the lock, so that a new subscriber starts it again.
            let mut queries = self.queries();
            if self.sender.receiver_count() == 0 {
                *queries = QueueQueries::default();
                return;
            }
        }
    }

    fn queries(&self) -> parking_lot::MutexGuard<'_, QueueQueries> {
        self.queries.lock()
    }
}

/// The jobs of all these clusters; or why one did not answer: a part of the jobs would be no view of the queue.
async fn see(environments: Vec<Environment>) -> Result<BTreeMap<SlurmJob, Vec<QueueEntry>>, ProbeResult> {
    // Numbers of users are understood like names, and need no look-up.
    let user = rustix::process::getuid().as_raw().to_string();
    let mut jobs: BTreeMap<SlurmJob, Vec<QueueEntry>> = BTreeMap::new();
    for mut env in environments {
        // Without it, Slurm truncates the list of an array's elements after 64 characters.
        env.insert("SLURM_BITSTR_LEN".into(), "0".into());
        let words = ["-h", "-u", &user, "-t", "all", "-o", "%i|%T|%r|%N|%j"].map(OsString::from).to_vec();
        match run_query("squeue", words, env, QUERY_TIMEOUT).await {
            ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => {
                for (job, entries) in read(&out) {
                    jobs.entry(job).or_default().extend(entries);
                }
            }
            failed => return Err(failed),
        }
    }
    Ok(jobs)
}

/// Lines of `number|state|reason|nodes|name`, of our jobs. Any other line is the output of some plug-in.
fn read(text: &str) -> BTreeMap<SlurmJob, Vec<QueueEntry>> {
    let mut jobs: BTreeMap<SlurmJob, Vec<QueueEntry>> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.splitn(5, '|');
        let mut next = || fields.next().map(str::trim);
        let (Some(number), Some(state), Some(reason), Some(nodes), Some(name)) =
            (next(), next(), next(), next(), next())
        else {
            continue;
        };
        if !name.starts_with(PREFIX) {
            continue;
        }
        let mut add = |number: String, element: Option<u32>| {
            jobs.entry(SlurmJob { name: name.to_owned(), element }).or_default().push(QueueEntry {
                number,
                state: JobState::read(state),
                reason: reason.to_owned(),
                nodes: nodes.to_owned(),
            });
        };
        match elements(number) {
            (number, of) if of.is_empty() => add(number.to_owned(), None),
            (parent, of) => of.into_iter().for_each(|element| add(format!("{parent}_{element}"), Some(element))),
        }
    }
    jobs
}

// One query to one of Slurm's programs, with a limit: a controller that hangs must not hang us.

pub type Environment = BTreeMap<OsString, OsString>;

/// Why this cannot be used as the answer of a program, in one line.
pub fn error_text(program: &str, result: &ProbeResult) -> String {
    match result {
        ProbeResult::Answered(ProbeOutput { code, out, err }) => {
            let text = if err.trim().is_empty() { out } else { err };
            let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            let message = lines.join("; ").replace(&format!("{program}: error: "), "");
            if message.is_empty() { format!("{program} ended with exit code {code}") } else { message }
        }
        ProbeResult::TimedOut => format!("{program} did not answer"),
        ProbeResult::Missing => format!("`{program}` was not found in PATH"),
        ProbeResult::Failed(why) => format!("`{program}`: {why}"),
    }
}

/// Runs the query, in the clusters that `env` names, and without the user's own defaults for it. The program gets a
/// process group of its own, so that Ctrl-C on a terminal does not cut a submission off half way.
pub async fn run_query(program: &'static str, words: Vec<OsString>, env: Environment, limit: Duration) -> ProbeResult {
    let (clusters, env) = query_environment(program, env);
    let words: Vec<OsString> = clusters.into_iter().chain(words).collect();
    let expression = duct::cmd(program, words)
        .full_env(env)
        .stdin_null()
        .stdout_capture()
        .stderr_capture()
        .unchecked()
        .before_spawn(|child| {
            child.process_group(0);
            Ok(())
        });
    let answer = tokio::task::spawn_blocking(move || process::query(&expression, limit));
    answer.await.unwrap_or_else(|panic| ProbeResult::Failed(panic.to_string()))
}

// A job's state in the queue, and what it means.

/// A job's state, as far as we must distinguish states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not started.
    Pending,
    /// It runs, or is about to.
    Running,
    /// Its processes, or its epilog, are about to have ended. How it ended is shown only after that.
    Completing,
    /// Held in the middle: it may go on.
    Suspended,
    /// Its script ended with 0.
    Completed,
    /// Its script ended with something else.
    Failed,
    TimeLimit,
    OutOfMemory,
    Cancelled,
    Preempted,
    NodeFailed,
    /// It did not start before its deadline.
    Deadline,
    /// An unknown state.
    Other(String),
}

impl JobState {
    /// From the long form; whatever follows the state (`CANCELLED by 0`) is left out.
    pub fn read(text: &str) -> Self {
        let word = text.split([' ', '+']).next().unwrap_or_default();
        match word {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => Self::Pending,
            "RUNNING" | "SIGNALING" | "RESIZING" => Self::Running,
            "COMPLETING" | "STAGE_OUT" => Self::Completing,
            "SUSPENDED" | "STOPPED" => Self::Suspended,
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "TIMEOUT" => Self::TimeLimit,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "CANCELLED" | "REVOKED" => Self::Cancelled,
            "PREEMPTED" => Self::Preempted,
            "NODE_FAIL" | "BOOT_FAIL" => Self::NodeFailed,
            "DEADLINE" => Self::Deadline,
            other => Self::Other(other.to_owned()),
        }
    }

    /// It will not change any more.
    pub const fn is_final(&self) -> bool {
        !matches!(self, Self::Pending | Self::Running | Self::Completing | Self::Suspended | Self::Other(_))
    }
}

/// Why a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// For its turn.
    Queued,
    /// A reason that may go away, and that the user should know of.
    NeedsUser(&'static str),
    /// For ever: why, and what to do.
    Never(&'static str, &'static str),
}

impl PendingReason {
    /// Slurm's short names (`job_reason_str`).
    pub fn read(reason: &str) -> Self {
        let word = reason.split([',', ' ']).next().unwrap_or_default();
        match word {
            "PartitionTimeLimit" => Self::Never(
                "it requests more time than its partition allows",
                "a smaller `time`, or another `partition`",
            ),
            "PartitionNodeLimit" => {
                Self::Never("it requests more nodes than its partition allows", "fewer `nodes`, or another `partition`")
            }
            "DependencyNeverSatisfied" => Self::Never(
                "a job that it depends on did not end as it must",
                "check `args`: they have a `--dependency`",
            ),
            "BadConstraints" => Self::Never("no node is like this", "check `constraint`, `gres` and `gpus_per_node`"),
            "InvalidAccount" | "AccountNotAllowed" => {
                Self::Never("its account may not be used there", "check `account` and `partition`")
            }
            "InvalidQOS" | "QOSNotAllowed" => {
                Self::Never("its quality of service may not be used there", "check `qos` and `partition`")
            }
            "AssocMaxWallDurationPerJobLimit" | "QOSMaxWallDurationPerJobLimit" => {
                Self::Never("it requests more time than its account or quality of service allows", "a smaller `time`")
            }
            "AssocGrpGRES"
            | "QOSMaxGRESPerJob"
            | "QOSMaxNodePerJobLimit"
            | "AssocMaxNodePerJobLimit"
            | "QOSMaxCpuPerJobLimit"
            | "AssocMaxCpuPerJobLimit" => Self::Never(
                "it requests more than its account or quality of service allows for one job",
                "request less, or another `account` or `qos`",
            ),
            "PartitionDown" | "PartitionInactive" => Self::NeedsUser("its partition accepts no jobs at the moment"),
            "ReqNodeNotAvail" => Self::NeedsUser("a node that it needs is down, drained or reserved"),
            "Nodes" => Self::NeedsUser("nodes that it needs are down, drained or reserved for others"),
            "JobHeldAdmin" => Self::NeedsUser("an administrator holds it"),
            "JobHeldUser" => Self::NeedsUser("it is held; `scontrol release` releases it"),
            "launch" => Self::NeedsUser("it could not be started on its node and was put back on hold"),
            "Reservation" => Self::NeedsUser("it waits for its reservation to begin"),
            "Licenses" => Self::NeedsUser("it waits for licenses"),
            _ => Self::Queued,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_read_by_name_and_element() {
        let text = "12|PENDING|Resources||regatta-a-1
13|RUNNING|None|n[1-2]|regatta-b-2
nonsense
14|CANCELLED by 0|None|n1|regatta-a-1
15_[4-5,7%3]|PENDING|JobArrayTaskLimit||regatta-c|d
15_3|RUNNING|None|n1|regatta-c|d
16_[0-1000000]|PENDING|Priority||somebody-elses
";
        let view = QueueView { jobs: Arc::new(read(text)), ..QueueView::default() };
        let numbers = |name: &str, element: Option<u32>| {
            let job = SlurmJob { name: name.to_owned(), element };
            view.entries(&job).iter().map(|job| job.number.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(numbers("regatta-a-1", None), ["12", "14"]);
        assert_eq!(numbers("regatta-b-2", None), ["13"]);
        assert_eq!(numbers("regatta-c|d", Some(7)), ["15_7"]);
        assert_eq!(numbers("regatta-c|d", Some(3)), ["15_3"]);
        assert_eq!(numbers("regatta-c|d", None), [""; 0]);
        assert_eq!(view.jobs.len(), 6);
    }

    #[test]
    fn states_are_read_with_what_follows_them() {
        assert_eq!(JobState::read("CANCELLED by 0"), JobState::Cancelled);
        assert_eq!(JobState::read("PENDING"), JobState::Pending);
        assert_eq!(JobState::read("NODE_FAIL"), JobState::NodeFailed);
        assert!(JobState::read("TIMEOUT").is_final());
        assert!(!JobState::read("COMPLETING").is_final(), "its processes may still write");
        assert!(!JobState::read("NEW_WORD").is_final(), "what we do not know decides nothing");
    }

    #[test]
    fn jobs_that_can_never_start_are_distinguished_from_pending() {
        assert_eq!(PendingReason::read("Priority"), PendingReason::Queued);
        assert_eq!(PendingReason::read("Resources"), PendingReason::Queued);
        assert!(matches!(PendingReason::read("PartitionTimeLimit"), PendingReason::Never(..)));
        assert!(matches!(PendingReason::read("ReqNodeNotAvail, UnavailableNodes:n[1-2]"), PendingReason::NeedsUser(_)));
        assert!(matches!(
            PendingReason::read(
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
            ),
            PendingReason::NeedsUser(_)
        ));
    }
}
