//! Manifests compiled to plans, and what to look at to know that nothing has to run.
//!
//! Parsing the YAML of 10,000 stages takes longer than all the rest of a run in which nothing has changed. So a plan is kept
//! beside the state, with what it was made from; it is only a cache, and anything odd about it means "make it again".

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::durable::{PathError, create_folder, replace_cache};
use super::{FileStamp, StateFolder};
use crate::event::{Digest, Hasher};

/// Names one way to compile: the binary, the manifest's name as typed, the parameters and the selection as typed.
#[derive(Clone, Debug)]
pub struct CompilerId {
    id: Digest,
    folder: PathBuf,
}

/// What a plan was made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanSources {
    /// Files that were read: absolute path, and the digest of the text.
    pub sources: Vec<(PathBuf, Digest)>,
    /// Files that would have been read first, had they been there.
    pub absent: Vec<PathBuf>,
    /// Environment variables that the plan reads.
    pub env: Vec<(String, Option<String>)>,
}

/// All that has to be unchanged for a whole run to be a no-op.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoOpConditions {
    /// The events that report it, one JSON object a line: those that a run that looks at every task would emit.
    #[serde(alias = "told")]
    pub events: String,
    pub look_at: Vec<(PathBuf, FileStamp)>,
}

impl CompilerId {
    /// `words`: all relevant arguments of the command line.
    pub fn new(home: &StateFolder, words: &[&str]) -> Self {
        let mut h = Hasher::new();
        h.field(env!("CARGO_PKG_VERSION").as_bytes());
        // A new build of this program may read a manifest differently.
        if let Some(stamp) = std::env::current_exe().ok().and_then(|exe| FileStamp::through_links(&exe).ok()) {
            h.field(&stamp.mtime.to_le_bytes()).field(&stamp.size.to_le_bytes());
        }
        for word in words {
            h.field(word.as_bytes());
        }
        Self { id: h.finish(), folder: home.plans() }
    }

    fn path(&self, suffix: &str) -> PathBuf {
        self.folder.join(format!("{}.{suffix}", self.id.short()))
    }

    /// Whether everything the plan was made from is still the same. `env` answers for environment variables.
    pub fn is_fresh(&self, env: impl Fn(&str) -> Option<String>) -> bool {
        let Some(origins) = read::<PlanSources>(&self.path("from")) else { return false };
        origins.env.iter().all(|(name, value)| env(name) == *value)
            && origins.absent.iter().all(|path| !path.exists())
            && origins
                .sources
                .iter()
                .all(|(path, digest)| fs::read(path).is_ok_and(|bytes| Digest::of(&bytes) == *digest))
    }

    /// The plan as it was kept. Check [`Self::is_fresh`] first.
    pub fn plan<P: DeserializeOwned>(&self) -> Option<P> {
        read(&self.path("plan"))
    }

    /// The origins are written last: a plan without them is not used.
    pub fn keep_plan<P: Serialize>(&self, origins: &PlanSources, plan: &P) -> Result<(), PathError> {
        let _ = fs::remove_file(self.path("from"));
        self.drop_rest();
        self.write("plan", plan)?;
        self.write("from", origins)
    }

    /// What the last wholly successful run left to look at.
    pub fn no_op_conditions(&self) -> Option<NoOpConditions> {
        read(&self.path("rest"))
    }

    pub fn write_no_op_conditions(&self, rest: &NoOpConditions) -> Result<(), PathError> {
        self.write("rest", rest)
    }

    pub fn drop_rest(&self) {
        let _ = fs::remove_file(self.path("rest"));
    }

    fn write(&self, suffix: &str, value: &impl Serialize) -> Result<(), PathError> {
        create_folder(&self.folder)?;
        let body = postcard::to_stdvec(value).unwrap_or_default();
        let mut bytes = blake3::hash(&body).as_bytes().to_vec();
        bytes.extend(body);
        replace_cache(&self.path(suffix), &bytes)
    }
}

impl NoOpConditions {
    /// Whether everything is as it was. Looks on all cores: 20,000 `stat` calls are most of a no-op.
    pub fn is_unchanged(&self) -> bool {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        let size = self.look_at.len().div_ceil(threads).max(1);
        let same = |part: &[(PathBuf, FileStamp)]| {
            part.iter().all(|(path, stamp)| {
                let now = if stamp.is_link() { FileStamp::of(path) } else { FileStamp::through_links(path) };
                now.is_ok_and(|now| now == *stamp)
            })
        };
        std::thread::scope(|scope| {
            let mut parts = self.look_at.chunks(size);
            let mine = parts.next();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || same(part))).collect();
            let first = mine.is_none_or(same);
            others.into_iter().all(|t| t.join().unwrap_or(false)) && first
        })
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let bytes = fs::read(path).ok()?;
    let (seal, body) = bytes.split_at_checked(32)?;
    if blake3::hash(body).as_bytes() != seal {
        return None;
    }
    postcard::from_bytes(body).ok()
}
