//! Limits that all transports keep to, and one budget for what all answers in flight hold in memory: each is bounded by
//! itself, and there may be thousands.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::FailureClass;
use crate::spec::response_bounds::ResponseBounds;

pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The limit of a name or id that a server sent, in an example.
pub(crate) const LONGEST_NAME: usize = 80;

// One budget for what all answers in flight hold in memory: each is bounded by itself, and there may be thousands.

/// Bytes that are held now, by all connections of this process: benchmarks that run at once share its memory.
static ALL: AtomicU64 = AtomicU64::new(0);

/// Bytes are counted in multiples of this, so that an answer that arrives in small pieces does not cost a shared write
/// for each piece.
const STEP: u64 = 4 << 10;

/// The part of one answer, given back when it ends.
#[derive(Debug)]
pub(crate) struct HeldBytes {
    all: &'static AtomicU64,
    counted: u64,
}

impl Default for HeldBytes {
    fn default() -> Self {
        Self { all: &ALL, counted: 0 }
    }
}

impl HeldBytes {
    /// It holds this many bytes now.
    ///
    /// # Errors
    /// With them all answers together hold more than `request.response_limits.total`. The bytes are not counted.
    pub fn set(&mut self, bytes: usize, limits: &ResponseBounds) -> Result<(), (FailureClass, String)> {
        if self.fits(bytes, limits.total) { Ok(()) } else { Err(limits.total_exceeded()) }
    }

    /// Like `set`, with the limit alone.
    pub fn fits(&mut self, bytes: usize, total: u64) -> bool {
        let bytes = bytes as u64 / STEP * STEP;
        if bytes > self.counted {
            let more = bytes - self.counted;
            let before = self.all.fetch_add(more, Ordering::Relaxed);
            if before.saturating_add(more) > total {
                self.all.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else if bytes < self.counted {
            self.all.fetch_sub(self.counted - bytes, Ordering::Relaxed);
        }
        self.counted = bytes;
        true
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

// What a server says of an error, as it goes into the record of a request.

/// Characters that are kept: records are many, and a server may send as much as a message holds.
const LONGEST: usize = 400;

/// The beginning of a server's text.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_beside_the_others_is_refused_and_what_ends_makes_room() {
        static SUM: AtomicU64 = AtomicU64::new(0);
        let new = || HeldBytes { all: &SUM, counted: 0 };
        let total = 10 * STEP;
        let (mut one, mut other) = (new(), new());
        let size = |steps: u64| (steps * STEP) as usize;
        assert!(one.fits(size(6), total) && other.fits(size(4), total));
        assert!(!other.fits(size(5), total), "one more is too much");
        assert_eq!(SUM.load(Ordering::Relaxed), total, "what was refused is not counted");
        assert!(one.fits(size(1), total) && other.fits(size(9), total));
        drop(other);
        assert!(one.fits(size(10), total));
        drop(one);
        assert_eq!(SUM.load(Ordering::Relaxed), 0);
        // Small pieces are not counted.
        assert!(new().fits(STEP as usize - 1, 0));
        let (class, why) =
            new().set(size(2), &ResponseBounds { total: STEP, ..ResponseBounds::default() }).unwrap_err();
        assert_eq!(class, FailureClass::TooLarge);
        assert!(why.contains("`request.response_limits.total`"), "{why}");
    }
}

#[cfg(test)]
mod error_text_tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened(" no room \n"), "no room");
        assert_eq!(shortened(&"ü".repeat(LONGEST)), "ü".repeat(LONGEST));
        assert_eq!(shortened(&"ü".repeat(1 << 20)), "ü".repeat(LONGEST) + "…");
    }
}
