//! One store, for one run: what is requested, what is offered, and what happens to it when the store goes away.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::bucket::{self, BLOBS, Bucket, RECORDS, SharedStoreError, StoreAddress, blob, bytes_of};
use super::pull::{self, pull};
use super::push::{ScanPatterns, examined, place_patterns, push};
use super::record::{Machine, SignaturePolicy, name};
use crate::signing::SignatureError;
use crate::store::{FinishedOutput, OutputCache, TaskKey, TaskRecord};
use crate::{EventEmitter, OutputRequest, OutputSource, PendingFetch, usable_secret_values};
use base::event::{Event, Stop, TaskId};
use base::files::Digest;
use base::units::size;
use plan::{Lifetime, Plan, Task};

/// A folder or bucket from which machines take each other's outputs.
#[derive(Clone, Debug)]
pub struct SharedStore {
    pub(super) inner: Arc<StoreState>,
    queue: Arc<Mutex<Option<Queue>>>,
}

#[derive(Debug)]
struct Queue {
    send: mpsc::UnboundedSender<Arc<TaskRecord>>,
    worker: JoinHandle<()>,
}

/// Outputs that were made here and are not in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsentOutputs(pub u64);

impl SharedStore {
    /// Sends no request to the store yet. Must be called on a runtime: outputs are sent from there.
    pub fn new(
        address: &StoreAddress,
        plan: &Plan,
        machine: &Machine,
        output_cache: Arc<OutputCache>,
        emit: EventEmitter,
        signatures: SignaturePolicy,
    ) -> Result<Self, SharedStoreError> {
        let home = output_cache.home().clone();
        let places = place_patterns(&[home.project(), home.state()]);
        let mut tasks = HashMap::new();
        for task in plan.tasks.iter().filter(|task| why_not(plan, task).is_none()) {
            let of_key = signatures.signer().map(|key| key.lines.clone()).unwrap_or_default();
            let secrets: Vec<String> = usable_secret_values(&task.secrets).chain(of_key).collect();
            let shareability = match machine.facts_for(task) {
                Ok(machine) => {
                    Shareability::Shareable { machine, needles: Arc::new(ScanPatterns::new(&places, &secrets)) }
                }
                Err(unknown) => Shareability::Unknown(unknown.to_string()),
            };
            tasks.insert(task.id.clone(), shareability);
        }
        let bucket = Bucket::open(address)?;
        Ok(Self::start(StoreState::new(bucket, address, output_cache, emit, signatures, tasks)))
    }

    pub(super) fn start(inner: StoreState) -> Self {
        let inner = Arc::new(inner);
        let (send, receive) = mpsc::unbounded_channel();
        let worker = tokio::spawn(send_all(Arc::clone(&inner), receive));
        Self { inner, queue: Arc::new(Mutex::new(Some(Queue { send, worker }))) }
    }

    /// Waits until everything that was offered is in the store, with progress reports, or until a stop is requested.
    pub async fn finish(&self, stop: &Stop) -> UnsentOutputs {
        /// Most runs have nothing to wait for.
        const QUIET: Duration = Duration::from_secs(2);
        const NOTICE_INTERVAL: Duration = Duration::from_secs(15);
        let queue = self.queue.lock().take();
        let Some(Queue { send, mut worker }) = queue else { return UnsentOutputs(0) };
        drop(send);
        let mut pause = QUIET;
        while !stop.is_requested() {
            tokio::select! {
                _ = &mut worker => break,
                () = stop.requested() => {}
                () = tokio::time::sleep(pause) => {
                    pause = NOTICE_INTERVAL;
                    let left = self.inner.unsettled.load(Ordering::Relaxed);
                    let sent = self.inner.sent_bytes.load(Ordering::Relaxed);
                    let things = if left == 1 { "1 output is".to_owned() } else { format!("{left} outputs are") };
                    self.inner.notice(None, format!(
                        "waiting until {things} in {}; {} sent so far; Ctrl-C skips the rest",
                        self.inner.address, size(sent)
                    ));
                }
            }
        }
        worker.abort();
        UnsentOutputs(self.inner.unsettled.load(Ordering::Relaxed) + self.inner.unsent.load(Ordering::Relaxed))
    }

    /// The name for the user.
    pub fn address(&self) -> &str {
        &self.inner.address
    }
}

impl OutputSource for SharedStore {
    fn fetch(&self, wanted: OutputRequest) -> PendingFetch {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let Some(Shareability::Shareable { machine, .. }) = inner.tasks.get(&wanted.task) else { return None };
            if inner.closed.get().is_some() {
                return None;
            }
            let one_at_a_time = Arc::clone(inner.fetching.lock().entry(wanted.digest).or_default());
            let _turn = one_at_a_time.lock().await;
            let object = name(&wanted.digest, machine);
            match pull(&inner, &wanted, &object).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    inner.report_error(Some(&wanted.task), &error);
                    None
                }
            }
        })
    }

    fn push(&self, task: &TaskId, record: Arc<TaskRecord>) {
        match self.inner.tasks.get(task) {
            _ if self.inner.signatures.is_read_only() => {}
            Some(Shareability::Shareable { .. }) => {
                let queue = self.queue.lock();
                if let Some(queue) = &*queue
                    && queue.send.send(record).is_ok()
                {
                    self.inner.unsettled.fetch_add(1, Ordering::Relaxed);
                }
            }
            Some(Shareability::Unknown(why)) => {
                self.inner.notice(Some(task), format!("its output is not shared: {why}"));
            }
            None => {}
        }
    }
}

/// Sends what comes, some at once, until no sender is left.
async fn send_all(inner: Arc<StoreState>, mut receive: mpsc::UnboundedReceiver<Arc<TaskRecord>>) {
    let senders = Arc::new(Semaphore::new(SENDERS));
    let mut sending = tokio::task::JoinSet::new();
    while let Some(record) = receive.recv().await {
        let Ok(turn) = Arc::clone(&senders).acquire_owned().await else { return };
        let inner = Arc::clone(&inner);
        sending.spawn(async move {
            send_one(&inner, &record).await;
            inner.unsettled.fetch_sub(1, Ordering::Relaxed);
            drop(turn);
        });
    }
    while sending.join_next().await.is_some() {}
}

async fn send_one(inner: &Arc<StoreState>, record: &Arc<TaskRecord>) {
    if inner.is_closed() {
        inner.unsent.fetch_add(1, Ordering::Relaxed);
        return;
    }
    match push(inner, record, false).await {
        Ok(UploadOutcome::NotShareable(why)) => {
            inner.notice(Some(&record.task), format!("its output is not shared: {why}"));
        }
        Ok(UploadOutcome::New(_) | UploadOutcome::AlreadyPresent) => {}
        Err(error) => {
            inner.unsent.fetch_add(1, Ordering::Relaxed);
            inner.report_error(Some(&record.task), &error);
        }
    }
}

// What one run knows of a store: its tasks, damaged objects, and whether the store can still be used.

/// Transfers that are under way at once; each holds one part of a file in memory.
pub(super) const LANES: usize = 8;

/// Outputs that are sent at once.
pub(super) const SENDERS: usize = 2;

pub(super) struct StoreState {
    pub bucket: Bucket,
    pub cache: Arc<OutputCache>,
    /// The name for the user.
    pub address: String,
    pub transfer_permits: Arc<Semaphore>,
    /// Large files that are sent at once: each has several parts in memory.
    pub large: Arc<Semaphore>,
    pub emit: EventEmitter,
    pub signatures: SignaturePolicy,
    pub(super) tasks: HashMap<TaskId, Shareability>,
    /// Why no more requests are sent.
    pub(super) closed: OnceLock<SharedStoreError>,
    /// Damaged objects: the next task that has the right bytes puts them there.
    pub damaged: Mutex<HashSet<String>>,
    /// Keys that are being fetched: two tasks with one key must not fill one folder.
    pub(super) fetching: Mutex<HashMap<Digest, Arc<tokio::sync::Mutex<()>>>>,
    /// Offered and not settled: outputs, and what they hold.
    pub(super) unsettled: AtomicU64,
    pub(super) unsent: AtomicU64,
    pub sent_bytes: AtomicU64,
}

impl std::fmt::Debug for StoreState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedStore").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What is known of a task beforehand.
#[derive(Debug)]
pub(super) enum Shareability {
    /// What kind of machine its output is good for; what must not be in it.
    Shareable { machine: BTreeMap<String, String>, needles: Arc<ScanPatterns> },
    /// Why not, where the user would expect it to be.
    Unknown(String),
}

impl StoreState {
    pub(super) fn new(
        bucket: Bucket,
        address: &StoreAddress,
        cache: Arc<OutputCache>,
        emit: EventEmitter,
        signatures: SignaturePolicy,
        tasks: HashMap<TaskId, Shareability>,
    ) -> Self {
        Self {
            bucket,
            cache,
            address: address.to_string(),
            transfer_permits: Arc::new(Semaphore::new(LANES)),
            large: Arc::new(Semaphore::new(SENDERS)),
            emit,
            signatures,
            tasks,
            closed: OnceLock::new(),
            damaged: Mutex::default(),
            fetching: Mutex::default(),
            unsettled: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn notice(&self, task: Option<&TaskId>, text: String) {
        (self.emit)(Event::Notice { task: task.cloned(), text });
    }

    /// Once for what is wrong with the store, each time for what is wrong with one output.
    pub(super) fn report_error(&self, task: Option<&TaskId>, error: &SharedStoreError) {
        if !error.is_of_the_store() {
            return self.notice(task, with_hint(&error.to_string(), error));
        }
        if self.closed.set(error.clone()).is_ok() {
            let message =
                format!("the shared store {} cannot be used; the run continues without it: {error}", self.address);
            self.notice(None, with_hint(&message, error));
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    pub(super) fn is_damaged(&self, object: &str) -> bool {
        self.damaged.lock().contains(object)
    }

    pub(super) fn note_damage(&self, error: &SharedStoreError) {
        match error {
            SharedStoreError::Damaged { object, .. } => drop(self.damaged.lock().insert(object.clone())),
            // Replaced only by one that is signed.
            SharedStoreError::Untrusted { object, .. } if self.signatures.signer().is_some() => {
                self.damaged.lock().insert(object.clone());
            }
            _ => {}
        }
    }
}

pub(super) fn with_hint(what: &str, error: &SharedStoreError) -> String {
    match error.hint() {
        "" => what.to_owned(),
        hint => format!("{what}; {hint}"),
    }
}

// Which outputs another machine may use: those that would be the same there.

/// Why a task's output stays on the machine that made it; `None`: it may be shared.
pub fn why_not(plan: &Plan, task: &Task) -> Option<&'static str> {
    if let Some(obstacle) = task.kind.facts().sharing_obstacle.filter(|_| task.lifetime == Lifetime::Service) {
        return Some(obstacle);
    }
    if !task.cache {
        return Some("cache is false");
    }
    if !task.share {
        return Some("share is false");
    }
    if let Some(obstacle) = task.kind.facts().sharing_obstacle.filter(|_| !task.is_loadgen_library()) {
        return Some(obstacle);
    }
    if task.host.is_some() {
        return Some("it is made on another machine, about which too little is known");
    }
    let asks_a_server = task.needs.iter().any(|need| plan.tasks[need.task as usize].lifetime == Lifetime::Service);
    asks_a_server.then_some("it talks to a server of this run, so it may be a measurement")
}

// What is in a store, of all projects and of one plan.

/// All of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Outputs, of all projects.
    pub records: u64,
    /// Files of different content.
    pub blobs: u64,
    pub bytes: u64,
}

/// One task's output, in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Present {
        /// Of the output.
        digest: Digest,
        bytes: u64,
    },
    Missing,
    /// It is not shared, and why, where the user would expect it to be.
    NotShared(Option<String>),
    /// Its record is not signed as it must be, and why.
    Untrusted(SignatureError),
    /// A newer Regatta wrote its record.
    Newer,
    /// These objects are not what they must be.
    Damaged(Vec<String>),
}

/// What putting an output there came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UploadOutcome {
    /// Bytes that were sent.
    New(u64),
    AlreadyPresent,
    NotShareable(String),
}

/// Reads a store. Nothing is written.
///
/// # Errors
/// The store cannot be used.
pub async fn inventory(address: &StoreAddress) -> Result<Inventory, SharedStoreError> {
    let bucket = Bucket::open(address)?;
    let (records, blobs) = (bucket.list(RECORDS).await?, bucket.list(BLOBS).await?);
    Ok(Inventory { records: records.len() as u64, blobs: blobs.len() as u64, bytes: bytes_of(&blobs) })
}

impl SharedStore {
    /// Whether a key's output is there; `examine`: reads every file of it.
    pub async fn presence(&self, task: &TaskId, key: &Digest, examine: bool) -> Result<Presence, SharedStoreError> {
        let inner = &self.inner;
        let machine = match inner.tasks.get(task) {
            None => return Ok(Presence::NotShared(None)),
            Some(Shareability::Unknown(why)) => return Ok(Presence::NotShared(Some(why.clone()))),
            Some(Shareability::Shareable { machine, .. }) => machine,
        };
        let shared = match pull::read(inner, &name(key, machine)).await {
            Ok(None) => return Ok(Presence::Missing),
            Ok(Some(shared)) => shared,
            Err(SharedStoreError::Damaged { object, .. }) => return Ok(Presence::Damaged(vec![object])),
            Err(SharedStoreError::Newer { .. }) => return Ok(Presence::Newer),
            Err(SharedStoreError::Untrusted { why, .. }) => return Ok(Presence::Untrusted(why)),
            Err(error) => return Err(error),
        };
        let mut damaged = BTreeSet::new();
        for item in shared.items.iter().filter(|item| item.is_file()) {
            let Some(digest) = item.digest else { continue };
            let object = blob(&digest);
            let whole = inner.bucket.size(&object).await? == Some(item.size)
                && (!examine || examined(inner, &object, digest, item.size).await?);
            if !whole {
                inner.damaged.lock().insert(object.clone());
                damaged.insert(object);
            }
        }
        if damaged.is_empty() {
            return Ok(Presence::Present { digest: shared.digest, bytes: shared.bytes() });
        }
        Ok(Presence::Damaged(damaged.into_iter().collect()))
    }

    /// Puts an output there now. `again`: where it is already, every file of it is examined, and mended.
    pub async fn put(&self, record: &Arc<TaskRecord>, again: bool) -> Result<UploadOutcome, SharedStoreError> {
        push(&self.inner, record, again).await
    }

    /// Brings an output here, not yet accepted. Problems have been reported.
    pub async fn get(&self, task: &TaskId, key: &TaskKey, digest: &Digest) -> Option<FinishedOutput> {
        self.fetch(OutputRequest { task: task.clone(), key: key.clone(), digest: *digest }).await
    }

    /// The object of a key's record, for inspection by the user.
    pub fn object(&self, task: &TaskId, key: &Digest) -> Option<String> {
        match self.inner.tasks.get(task)? {
            Shareability::Shareable { machine, .. } => Some(bucket::record(&name(key, machine))),
            Shareability::Unknown(_) => None,
        }
    }
}
