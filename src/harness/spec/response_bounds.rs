//! How large an answer may be. Servers are not trusted: memory stays bounded whatever one sends.
//!
//! All transports keep to the same limits. Each answer is bounded by itself; because thousands may be in flight, what
//! all of them hold in memory together has a budget, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::FailureClass;
use base::spec::ResponseSizeLimits;

/// In bytes: what the request's limits come to. An answer beyond one of them fails, with the class `too_large`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseBounds {
    /// All of one answer: over HTTP after its header; over gRPC all of its messages together, where `frame` is not
    /// larger.
    pub body: u64,
    /// Over HTTP: the status line and all headers.
    pub header: u64,
    /// One server-sent event.
    pub line: u64,
    /// One gRPC message.
    pub frame: u64,
    /// What all answers in flight hold in memory together.
    pub total: u64,
    /// What the longest time of an answer is counted from.
    pub time_out: Duration,
}

impl Default for ResponseBounds {
    fn default() -> Self {
        Self {
            body: 64 << 20,
            header: 64 << 10,
            line: 16 << 20,
            frame: 256 << 20,
            total: 1 << 30,
            time_out: SHORTEST_TIME_OUT,
        }
    }
}

type Fault = (FailureClass, String);

/// What the longest answer is counted from, where `stall_timeout` is shorter.
pub(super) const SHORTEST_TIME_OUT: Duration = Duration::from_mins(1);

impl ResponseBounds {
    /// With the usual ones for what is left out. Without any, a message with logits may be as long as gRPC allows.
    pub(crate) fn from_limits(given: Option<ResponseSizeLimits>, has_logits: bool) -> Self {
        let ResponseSizeLimits { body, header, line, frame, total } = given.unwrap_or_default();
        let usual = Self::default();
        let bounds = Self {
            body: body.unwrap_or(usual.body),
            header: header.unwrap_or(usual.header),
            line: line.unwrap_or(usual.line),
            frame: frame.unwrap_or(usual.frame),
            total: total.unwrap_or(usual.total),
            time_out: usual.time_out,
        };
        let bounds = if has_logits && bounds == usual { Self { frame: Self::LONGEST_FRAME, ..bounds } } else { bounds };
        match total {
            Some(_) => bounds,
            // One answer may always be as long as its own limit.
            None => Self { total: bounds.total.max(bounds.body).max(bounds.frame), ..bounds },
        }
    }

    /// gRPC's own limit. A longer message means that the parser lost its place in the stream.
    pub const LONGEST_FRAME: u64 = i32::MAX as u64;

    pub(crate) fn body_bytes(&self) -> usize {
        usize::try_from(self.body).unwrap_or(usize::MAX)
    }

    /// Of all messages of one answer over gRPC, of which `bytes` have come. One message alone may have as much as
    /// `frame`.
    pub(crate) fn check_messages(&self, bytes: u64) -> Result<(), Fault> {
        let limit = self.body.max(self.frame);
        let key = if self.frame > self.body { "frame" } else { "body" };
        if bytes <= limit { Ok(()) } else { Err(exceeded("the answer, all messages together,", limit, key)) }
    }

    /// Of an answer that has `tokens` so far. A server that does not heed the requested length, and does not stop,
    /// would otherwise occupy a request for as long as its bytes last: hours.
    pub(crate) fn check_tokens(tokens: u32, requested: u32) -> Result<(), Fault> {
        if tokens <= requested.saturating_mul(4).saturating_add(4096) {
            return Ok(());
        }
        Err((
            FailureClass::TooLarge,
            format!("the answer has not ended after {tokens} tokens, and {requested} were requested"),
        ))
    }

    /// Of an answer whose first token came this long ago. A server that sends a token just before each stall time-out
    /// would otherwise occupy a request for days.
    pub(crate) fn check_duration(&self, since_first: Duration, requested: u32) -> Result<(), Fault> {
        // Ten time-outs and a sixth of one for each token: far above real answers, and servers for which the time-out
        // was raised have more.
        let time_out = self.time_out;
        let longest = time_out.saturating_mul(10).saturating_add((time_out / 6).saturating_mul(requested));
        if since_first <= longest {
            return Ok(());
        }
        Err((
            FailureClass::Deadline,
            format!(
                "the answer has not ended {:.0} s after its first token, and {requested} tokens were requested: the \
                 limit is {:.0} s, ten times {time_out:?} (`stall_timeout`, and at least a minute) and a sixth of it \
                 for each token",
                since_first.as_secs_f64(),
                longest.as_secs_f64()
            ),
        ))
    }

    pub(crate) fn header_bytes(&self) -> usize {
        usize::try_from(self.header).unwrap_or(usize::MAX)
    }

    pub(crate) fn check_line(&self, bytes: usize) -> Result<(), Fault> {
        if bytes as u64 <= self.line {
            return Ok(());
        }
        Err(exceeded("one event of the answer", self.line, "line"))
    }

    pub(crate) fn body_exceeded(&self) -> Fault {
        exceeded("the answer", self.body, "body")
    }

    pub(crate) fn header_exceeded(&self) -> Fault {
        exceeded("the header of the answer", self.header, "header")
    }

    pub(crate) fn total_exceeded(&self) -> Fault {
        (
            FailureClass::TooLarge,
            format!(
                "all answers in flight together hold more than {} bytes, the limit `request.response_limits.total`",
                self.total
            ),
        )
    }

    pub(crate) fn frame_exceeded(&self) -> Fault {
        exceeded("a message of the answer", self.frame, "frame")
    }
}

fn exceeded(what: &str, limit: u64, key: &str) -> Fault {
    (FailureClass::TooLarge, format!("{what} is longer than {limit} bytes, the limit `request.response_limits.{key}`"))
}

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
    fn an_answer_may_be_longer_than_requested_and_not_endless() {
        assert_eq!(ResponseBounds::check_tokens(150, 100), Ok(()));
        assert_eq!(ResponseBounds::check_tokens(u32::MAX, u32::MAX), Ok(()));
        let (class, text) = ResponseBounds::check_tokens(5_000, 100).unwrap_err();
        assert_eq!(class, FailureClass::TooLarge);
        assert_eq!(text, "the answer has not ended after 5000 tokens, and 100 were requested");
    }

    #[test]
    fn an_answer_may_be_slow_and_not_endless() {
        let seconds = Duration::from_secs;
        let bounds = |time_out| ResponseBounds { time_out, ..ResponseBounds::default() };
        let check = |since, time_out| bounds(seconds(time_out)).check_duration(seconds(since), 100);
        assert_eq!(check(1_600, 60), Ok(()));
        let (class, text) = check(1_601, 60).unwrap_err();
        assert_eq!(class, FailureClass::Deadline);
        assert!(
            text.starts_with("the answer has not ended 1601 s after its first token, and 100 tokens were"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "the limit is 1600 s, ten times 60s (`stall_timeout`, and at least a minute) and a sixth of it for \
                 each token"
            ),
            "{text}"
        );
        assert_eq!(check(16_000, 600), Ok(()));
        assert_eq!(bounds(Duration::MAX).check_duration(Duration::MAX, u32::MAX), Ok(()));
    }

    #[test]
    fn all_messages_of_an_answer_together_are_bounded() {
        let limits = ResponseBounds { body: 10, frame: 5, ..ResponseBounds::default() };
        assert_eq!(limits.check_messages(10), Ok(()));
        let (class, text) = limits.check_messages(11).unwrap_err();
        assert_eq!(class, FailureClass::TooLarge);
        assert!(text.contains("`request.response_limits.body`"), "{text}");
        // One message alone may have as much as its own limit.
        assert_eq!(ResponseBounds { body: 10, frame: 50, ..limits }.check_messages(50), Ok(()));
    }
}

#[cfg(test)]
mod limits_tests {
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
