//! What others put into a shared store.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use regatta::event::TaskId;
use regatta::files::Digest;
use regatta::plan::{ActionKind, Plan, Task};
use regatta::runner::shared_store::{
    self, Machine, MachineGpus, RetentionPolicy, SharedStore, SignaturePolicy, StoreAddress, collect,
};
use regatta::runner::store::{EntryKind, KEY_VERSION, OutputCache, PortableItem, StateFolder, TaskKey, digest_of};
use serde_json::{Value, json};

use super::{block_on, folder};

/// Of an example key; a signature in a seed is its own.
const TRUSTED: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
/// The store has a file for each of its beginnings.
const BLOB: &[u8] = b"abcdefgh";
/// Less than most outputs have.
const KEEP: RetentionPolicy = RetentionPolicy { younger_than: None, max_bytes: Some(4), grace: Duration::ZERO };

/// An empty project, with a store beside it.
struct Project {
    root: PathBuf,
    store: PathBuf,
}

impl Project {
    fn new() -> Self {
        let root = folder().join("shared");
        let _ = fs::remove_dir_all(&root);
        let project = Self { store: root.join("store"), root };
        fs::create_dir_all(project.home().outputs()).expect("a folder");
        fs::create_dir_all(&project.store).expect("a folder");
        project
    }

    fn home(&self) -> StateFolder {
        StateFolder::new(self.root.clone(), self.root.join(".regatta"))
    }

    fn address(&self) -> StoreAddress {
        StoreAddress::parse(&self.store.display().to_string()).expect("an address")
    }

    fn put(&self, object: &str, bytes: &[u8]) {
        let path = self.store.join(object);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }

    /// What is in it, except in the output of the key.
    fn names(&self) -> BTreeSet<PathBuf> {
        let below = |folder: &Path| -> Vec<PathBuf> {
            fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect()
        };
        let home = self.home();
        let of_key = home.output(&key().digest().short());
        let is_other = |path: &PathBuf| !path.as_os_str().as_bytes().starts_with(of_key.as_os_str().as_bytes());
        let all = [below(&self.root), below(home.state()), below(&home.outputs())].concat();
        all.into_iter().filter(is_other).collect()
    }
}

fn key() -> TaskKey {
    TaskKey {
        version: KEY_VERSION,
        action: r#"{"shell":"x"}"#.to_owned(),
        env: BTreeMap::new(),
        secrets: Vec::new(),
        outputs: Vec::new(),
        facts: BTreeMap::new(),
        inputs: BTreeMap::new(),
        upstream: BTreeMap::new(),
    }
}

fn seal(json: &str) -> Vec<u8> {
    format!("{json}\n{}\n", Digest::hash(json.as_bytes())).into_bytes()
}

/// The same record with the digests that belong to it: a fuzzer cannot guess them. `None`: it is no record.
fn consistent(data: &[u8], machine: &BTreeMap<String, String>) -> Option<Vec<u8>> {
    let mut record: Value = serde_json::from_slice(data).ok()?;
    let mut items: Vec<PortableItem> = serde_json::from_value(record.get("items")?.clone()).ok()?;
    for item in &mut items {
        item.digest = match item.kind {
            EntryKind::Link => Some(Digest::hash(item.target.as_os_str().as_bytes())),
            EntryKind::File | EntryKind::Program => Some(blob(item.size as usize % (BLOB.len() + 1))),
            _ => item.digest,
        };
    }
    let of_key = [("key", json!(key().digest())), ("fields", json!(key())), ("machine", json!(machine))];
    let of_items = [("digest", json!(digest_of(&items))), ("items", json!(items))];
    for (name, value) in of_key.into_iter().chain(of_items) {
        record.as_object_mut()?.insert(name.to_owned(), value);
    }
    Some(seal(&record.to_string()))
}

/// The digest of a file in the store.
fn blob(length: usize) -> Digest {
    Digest::hash(&BLOB[..length])
}

/// The record of an output: as it is, sealed, and with digests that are right. Nothing of it may be outside of the output.
pub fn shared_outputs(data: &[u8]) {
    let task = Task::minimal(TaskId::new("t"), "t".to_owned(), ActionKind::Shell);
    let plan = Plan { tasks: vec![task.clone()], ..Plan::default() };
    let gpus = MachineGpus::Known(BTreeSet::new());
    let machine = Machine { arch: "a".to_owned(), system: "s".to_owned(), gpus };
    let facts = machine.facts_for(&task).expect("facts");
    let as_text = std::str::from_utf8(data).ok().map(seal);
    for bytes in [Some(data.to_vec()), as_text, consistent(data, &facts)].into_iter().flatten() {
        let project = Project::new();
        for length in 0..=BLOB.len() {
            let digest = blob(length).to_string();
            project.put(&format!("regatta-1/blobs/{}/{digest}", &digest[..2]), &BLOB[..length]);
        }
        block_on(async {
            let cache = OutputCache::open(&project.home()).expect("a cache");
            let policy = SignaturePolicy::default();
            let store =
                SharedStore::new(&project.address(), &plan, &machine, Arc::new(cache), Arc::new(|_| {}), policy);
            let store = store.expect("a store");
            let object = store.object(&task.id, &key().digest()).expect("it is shared");
            project.put(&object, &bytes);
            let before = project.names();
            let _ = store.presence(&task.id, &key().digest(), true).await;
            let _ = shared_store::inventory(&project.address()).await;
            let _ = store.get(&task.id, &key(), &key().digest()).await;
            assert_eq!(project.names(), before, "only the output is new");
            let _ = collect(&project.address(), KEEP, false).await;
            let _ = collect(&project.address(), KEEP, true).await;
        });
    }
}
