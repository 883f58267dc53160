//! What a sequence shares with those that are made of it, and what its values must be able to do.

use std::io;
use std::sync::{Arc, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Of a sequence, that is held in memory.
const IN_MEMORY: usize = 16 << 20;

/// What one value of a sequence must be able to do: be written into a file, and read again on any core.
pub(crate) trait SpoolValue: Clone + Send + Serialize + DeserializeOwned {}
impl<T: Clone + Send + Serialize + DeserializeOwned> SpoolValue for T {}

/// What some sequences that belong together share: the first error of their files, and how much of each is in memory.
#[derive(Clone, Debug)]
pub(crate) struct SpoolContext(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    error: OnceLock<io::Error>,
    /// Bytes of a sequence.
    in_memory: usize,
}

impl Default for SpoolContext {
    fn default() -> Self {
        Self::with_memory(IN_MEMORY)
    }
}

impl SpoolContext {
    pub fn with_memory(bytes: usize) -> Self {
        Self(Arc::new(Shared { error: OnceLock::new(), in_memory: bytes }))
    }

    /// With as much memory, and no error.
    pub(super) fn another(&self) -> Self {
        Self::with_memory(self.0.in_memory)
    }

    pub(super) fn fail(&self, error: io::Error) {
        let _ = self.0.error.set(error);
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.error.get().is_some()
    }

    /// How many values of a sequence are held in memory.
    pub(super) fn room<T>(&self) -> usize {
        self.0.in_memory / size_of::<T>().max(1)
    }

    /// An error if any of the sequences is not whole.
    pub fn check(&self) -> io::Result<()> {
        self.0.error.get().map_or(Ok(()), |error| Err(io::Error::new(error.kind(), error.to_string())))
    }
}
