//! A shared store in a simulated world: two machines that make, send and fetch the same outputs, one that collects
//! garbage, and a bucket with faults, under a simulated clock. A seed decides all of it, so a failure is repeated by
//! its seed. What machines keep on their own disks is real.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, fs};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, UploadPart,
};
use parking_lot::Mutex;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg as Dice;
use tokio::time::{Instant, sleep, timeout};

use super::StoreAddress;
use super::bucket::{self, Bucket, PART, RECORDS, blob};
use super::gc::{RetentionPolicy, collect_from};
use super::objects::Objects;
use super::record::{self, RecordError, SharedOutput, SignaturePolicy, VERSION};
use super::store::{Shareability, SharedStore, StoreState};
use crate::simulated_seeds::seed_count;
use crate::store::{FinishedOutput, Lookup, OutputCache, StateFolder, TaskKey, list_folder};
use crate::{OutputRequest, OutputSource as _};
use base::event::{Done, RunId, Stop, TaskId};
use base::files::{Digest, read_bytes, read_text};

mod machines;

/// What holds in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    /// A fetched output has the bytes that a machine made for its key.
    OnlyMadeBytesAreAccepted,
    /// When a record is written, its files are in the store, unless something removed them meanwhile.
    RecordsComeLast,
    /// A collection deletes no file that a record names which it could see. That of a newer Regatta may name any.
    NamedFilesStay,
    /// A record of a newer Regatta is neither replaced nor deleted, whenever it comes. A damaged one stays, too.
    NewerRecordsStay,
    /// A run ends, whatever the store does.
    EverythingEnds,
    /// Once nothing fails any more, and machines have looked for every output, each can be fetched.
    StoreHeals,
}

use Property as P;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    RequestFails,
    /// It is done, and the machine does not learn that; or it is sent a second time.
    AnswerIsLost,
    StoreIsSilent,
    AnswerIsDamaged,
    ObjectIsDamaged,
    ObjectIsLost,
    MachineDies,
    /// After a machine died, parts of what it was writing are missing.
    DiskIsTorn,
    /// The same stage makes other bytes each time.
    OutputsDiffer,
    GarbageIsCollected,
    NewerRegatta,
}

const FAULTS: [Fault; 11] = [
    Fault::RequestFails,
    Fault::AnswerIsLost,
    Fault::StoreIsSilent,
    Fault::AnswerIsDamaged,
    Fault::ObjectIsDamaged,
    Fault::ObjectIsLost,
    Fault::MachineDies,
    Fault::DiskIsTorn,
    Fault::OutputsDiffer,
    Fault::GarbageIsCollected,
    Fault::NewerRegatta,
];

const OUTPUTS: u64 = 2;
const GRACE: Duration = Duration::from_hours(1);

struct StoredObject {
    bytes: Bytes,
    at: Instant,
}

struct World {
    seed: u64,
    faults: Vec<Fault>,
    objects: Mutex<BTreeMap<Path, StoredObject>>,
    /// What was there once, and was removed or damaged by something else than a writer.
    removed: Mutex<HashSet<Path>>,
    /// When the collector last began to list all records.
    listed: Mutex<Option<Instant>>,
    /// Of each output, the marks of those who made it.
    made: Mutex<HashSet<(u64, String)>>,
    /// Records of a newer Regatta.
    newer: Mutex<HashSet<Path>>,
    violated: Mutex<Option<Property>>,
    counts: Mutex<HashMap<u64, u64>>,
    is_calm: AtomicBool,
    steps: AtomicU64,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({})", self.seed)
    }
}

impl World {
    fn new(seed: u64, faults: &[Fault]) -> Arc<Self> {
        Arc::new(Self {
            seed,
            faults: faults.to_vec(),
            objects: Mutex::default(),
            removed: Mutex::default(),
            listed: Mutex::default(),
            made: Mutex::default(),
            newer: Mutex::default(),
            violated: Mutex::default(),
            counts: Mutex::default(),
            is_calm: AtomicBool::new(false),
            steps: AtomicU64::new(0),
        })
    }

    /// The dice of an event do not depend on the order of others.
    fn dice(&self, event: impl Hash) -> Dice {
        let mut hasher = DefaultHasher::new();
        (self.seed, event).hash(&mut hasher);
        let mut counts = self.counts.lock();
        let count = counts.entry(hasher.finish()).or_default();
        *count += 1;
        count.hash(&mut hasher);
        Dice::seed_from_u64(hasher.finish())
    }

    fn strikes(&self, dice: &mut Dice, fault: Fault, percent: u32) -> bool {
        let strikes = dice.random_ratio(percent, 100);
        strikes && self.faults.contains(&fault) && !self.is_calm.load(Ordering::Relaxed)
    }

    fn violates(&self, property: Property) {
        self.violated.lock().get_or_insert(property);
    }

    fn expect(&self, property: Property, is_so: bool) {
        if !is_so {
            self.violates(property);
        }
    }

    /// A record is about to be written.
    fn check_record(&self, objects: &BTreeMap<Path, StoredObject>, bytes: &Bytes) {
        let Ok(record) = SharedOutput::open(bytes, None) else { return };
        let removed = self.removed.lock();
        for item in record.items.iter().filter(|item| item.is_file()) {
            let name = path(&blob(&item.digest.unwrap()));
            let is_there = objects.get(&name).is_some_and(|object| object.bytes.len() as u64 == item.size);
            self.expect(P::RecordsComeLast, is_there || removed.contains(&name));
        }
    }

    /// The collector is about to delete this object.
    fn check_deletion(&self, objects: &BTreeMap<Path, StoredObject>, name: &Path) {
        let listed = *self.listed.lock();
        let was_there = |object: &StoredObject| listed.is_some_and(|listed| object.at < listed);
        let newer = self.newer.lock();
        self.expect(P::NewerRecordsStay, !newer.contains(name));
        let is_file = name.as_ref().contains("/blobs/");
        let names_any = newer.iter().filter_map(|record| objects.get(record)).any(was_there);
        self.expect(P::NamedFilesStay, !(is_file && names_any));
        for (_, record) in objects.iter().filter(|(record, _)| record.as_ref().contains("/records/")) {
            let is_seen = listed.is_some_and(|listed| record.at < listed);
            let Ok(shared) = SharedOutput::open(&record.bytes, None) else { continue };
            let names = shared.items.iter().any(|item| item.is_file() && path(&blob(&item.digest.unwrap())) == *name);
            self.expect(P::NamedFilesStay, !(is_seen && names));
        }
    }
}

fn path(name: &str) -> Path {
    Path::from(format!("x/{name}"))
}

/// The bucket as one process sees it.
#[derive(Clone, Debug)]
struct Connection {
    world: Arc<World>,
    /// Machine and run.
    process: (u64, u64),
    is_dead: Arc<AtomicBool>,
}

const COLLECTOR: u64 = 9;

impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.process)
    }
}

impl Connection {
    fn new(world: &Arc<World>, machine: u64, run: u64) -> Self {
        Self { world: Arc::clone(world), process: (machine, run), is_dead: Arc::default() }
    }

    fn bucket(&self) -> Bucket {
        Bucket::Objects(Arc::new(Objects { store: Arc::new(self.clone()), prefix: "x".to_owned() }))
    }

    async fn request<T>(
        &self,
        kind: &str,
        location: &Path,
        mut act: impl FnMut(&mut BTreeMap<Path, StoredObject>, &mut Dice) -> Result<T> + Send,
    ) -> Result<T> {
        let world = &self.world;
        let mut dice = world.dice((self.process, kind, location));
        world.steps.fetch_add(1, Ordering::Relaxed);
        sleep(Duration::from_millis(dice.random_range(1..40))).await;
        if self.is_dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        if world.strikes(&mut dice, Fault::StoreIsSilent, 1) {
            std::future::pending::<()>().await;
        }
        if world.strikes(&mut dice, Fault::RequestFails, 2) {
            return Err(no_answer());
        }
        let mut done = act(&mut world.objects.lock(), &mut dice);
        if world.strikes(&mut dice, Fault::AnswerIsLost, 2) {
            if dice.random_ratio(50, 100) {
                return Err(no_answer());
            }
            done = act(&mut world.objects.lock(), &mut dice);
        }
        sleep(Duration::from_millis(dice.random_range(1..40))).await;
        done
    }

    fn write(&self, objects: &mut BTreeMap<Path, StoredObject>, location: &Path, bytes: Bytes) -> PutResult {
        if location.as_ref().contains("/records/") {
            self.world.expect(P::NewerRecordsStay, !self.world.newer.lock().contains(location));
            self.world.check_record(objects, &bytes);
        }
        objects.insert(location.clone(), StoredObject { bytes, at: Instant::now() });
        PutResult { e_tag: None, version: None, extensions: object_store::Extensions::default() }
    }
}

fn no_answer() -> Error {
    Error::Generic { store: "simulated", source: "no answer".into() }
}

fn absent(location: &Path) -> Error {
    Error::NotFound { path: location.to_string(), source: "absent".into() }
}

fn described(location: &Path, object: &StoredObject) -> ObjectMeta {
    let seconds = object.at.elapsed().as_secs() as i64;
    let last_modified = (jiff::Timestamp::now().as_second() - seconds) as u64;
    ObjectMeta {
        location: location.clone(),
        last_modified: (std::time::UNIX_EPOCH + Duration::from_secs(last_modified)).into(),
        size: object.bytes.len() as u64,
        e_tag: None,
        version: None,
    }
}

/// Another byte at some place, or no end.
fn damaged(bytes: &Bytes, dice: &mut Dice) -> Bytes {
    let mut bytes = bytes.to_vec();
    if !bytes.is_empty() {
        let at = dice.random_range(0..bytes.len());
        if dice.random_ratio(50, 100) {
            bytes[at] ^= 1;
        } else {
            bytes.truncate(at);
        }
    }
    bytes.into()
}

#[async_trait]
impl ObjectStore for Connection {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let bytes: Bytes = payload.into();
        let is_new = matches!(options.mode, PutMode::Create);
        self.request("put", location, |objects, _| {
            if is_new && objects.contains_key(location) {
                return Err(Error::AlreadyExists { path: location.to_string(), source: "there".into() });
            }
            Ok(self.write(objects, location, bytes.clone()))
        })
        .await
    }

    async fn put_multipart_opts(&self, location: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        // At once: the thread that reads ahead for it would stop the clock.
        Ok(Box::new(Upload { connection: self.clone(), location: location.clone(), parts: Arc::default(), next: 0 }))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (meta, range, bytes) = self
            .request("get", location, |objects, dice| {
                let object = objects.get(location).ok_or_else(|| absent(location))?;
                let length = object.bytes.len() as u64;
                let range: Range<u64> = match &options.range {
                    Some(range) => range.as_range(length).map_err(|_| no_answer())?,
                    None => 0..length,
                };
                let mut bytes = object.bytes.slice(range.start as usize..range.end as usize);
                if self.world.strikes(dice, Fault::AnswerIsDamaged, 2) {
                    bytes = damaged(&bytes, dice);
                }
                Ok((described(location, object), range, bytes))
            })
            .await?;
        let payload = GetResultPayload::Stream(stream::iter([Ok(bytes)]).boxed());
        let (attributes, extensions) = (object_store::Attributes::default(), object_store::Extensions::default());
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let connection = self.clone();
        let delete = move |location: Result<Path>| {
            let connection = connection.clone();
            async move {
                let (location, world) = (location?, &connection.world);
                let request = connection.request("delete", &location, |objects, _| {
                    world.check_deletion(objects, &location);
                    world.removed.lock().insert(location.clone());
                    objects.remove(&location).map(drop).ok_or_else(|| absent(&location))
                });
                request.await.map(|()| location.clone())
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, below: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let (connection, below) = (self.clone(), below.unwrap().clone());
        let list = async move {
            let listing = connection.request("list", &below, |objects, _| {
                if connection.process.0 == COLLECTOR && below == path(RECORDS) {
                    *connection.world.listed.lock() = Some(Instant::now());
                }
                let listed = objects.iter().filter(|(name, _)| name.prefix_matches(&below));
                Ok(listed.map(|(name, object)| described(name, object)).collect::<Vec<_>>())
            });
            match listing.await {
                Ok(listed) => stream::iter(listed.into_iter().map(Ok).collect::<Vec<_>>()),
                Err(error) => stream::iter(vec![Err(error)]),
            }
        };
        stream::once(list).flatten().boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unreachable!("no part of the program lists a single level")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!("no part of the program copies inside a store")
    }
}

#[derive(Debug)]
struct Upload {
    connection: Connection,
    location: Path,
    parts: Arc<Mutex<BTreeMap<usize, Bytes>>>,
    next: usize,
}

#[async_trait]
impl MultipartUpload for Upload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let (connection, location, parts) = (self.connection.clone(), self.location.clone(), Arc::clone(&self.parts));
        let (at, bytes) = (self.next, Bytes::from(data));
        self.next += 1;
        Box::pin(async move {
            let part = |_: &mut BTreeMap<Path, StoredObject>, _: &mut Dice| {
                parts.lock().insert(at, bytes.clone());
                Ok(())
            };
            connection.request("part", &location, part).await
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let whole: Bytes = self.parts.lock().values().flat_map(|part| part.to_vec()).collect();
        let (connection, location) = (&self.connection, &self.location);
        connection
            .request("complete", location, |objects, _| Ok(connection.write(objects, location, whole.clone())))
            .await
    }

    async fn abort(&mut self) -> Result<()> {
        self.connection.request("abort", &self.location, |_, _| Ok(())).await
    }
}
