//! The requests of a plan, in order. A plan of many requests is not kept: its requests are drawn again, from the same
//! seed and data, each time they are read.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::session_drawer::SessionDrawer;
use crate::HarnessError;
use crate::schedule::data::{OwnRequest, PromptPart, RandomStream};

/// A plan of no more than this many requests is kept: 4 MB.
const KEPT: usize = 1 << 16;

/// The requests of a plan.
#[derive(Clone)]
pub struct PlannedRequests {
    source: Source,
    count: usize,
}

#[derive(Clone)]
enum Source {
    Kept(Arc<[PlannedRequest]>),
    /// As it is before the first request.
    Drawn(Arc<SessionDrawer>),
}

impl PlannedRequests {
    pub(crate) fn kept(requests: Vec<PlannedRequest>) -> Self {
        Self { count: requests.len(), source: Source::Kept(requests.into()) }
    }

    /// The first `count` requests that a drawer draws; there are as many.
    pub(super) fn drawn(drawer: SessionDrawer, count: usize) -> Self {
        Self::with_room(KEPT, drawer, count)
    }

    fn with_room(kept: usize, drawer: SessionDrawer, count: usize) -> Self {
        let drawn = Self { source: Source::Drawn(Arc::new(drawer)), count };
        if count <= kept { Self::kept(drawn.to_vec()) } else { drawn }
    }

    pub const fn len(&self) -> usize {
        self.count
    }

    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The same prompt of two requests is then the same allocation.
    pub(super) const fn are_kept(&self) -> bool {
        matches!(self.source, Source::Kept(_))
    }

    pub fn iter(&self) -> PlannedReader {
        match &self.source {
            Source::Kept(requests) => PlannedReader(Reader::Kept { requests: Arc::clone(requests), next: 0 }),
            Source::Drawn(drawer) => {
                let drawn = Box::new(DrawnRequests::new(SessionDrawer::clone(drawer)));
                PlannedReader(Reader::Drawn { drawn, left: self.count })
            }
        }
    }

    /// The request with an index; of a plan that is not kept, all before it are drawn, too.
    pub fn get(&self, index: usize) -> Option<PlannedRequest> {
        match &self.source {
            Source::Kept(requests) => requests.get(index).cloned(),
            Source::Drawn(_) => self.iter().nth(index),
        }
    }

    /// All in memory: for few requests.
    pub fn to_vec(&self) -> Vec<PlannedRequest> {
        self.iter().collect()
    }
}

impl PartialEq for PlannedRequests {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for PlannedRequests {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Kept(requests) => requests.fmt(out),
            Source::Drawn(_) => write!(out, "{} drawn requests", self.count),
        }
    }
}

impl IntoIterator for &PlannedRequests {
    type Item = PlannedRequest;
    type IntoIter = PlannedReader;

    fn into_iter(self) -> PlannedReader {
        self.iter()
    }
}

/// Reads planned requests from the first one on.
pub struct PlannedReader(Reader);

enum Reader {
    Kept { requests: Arc<[PlannedRequest]>, next: usize },
    Drawn { drawn: Box<DrawnRequests>, left: usize },
}

impl PlannedReader {
    /// An error can only be that of a drawer that goes beyond the plan's requests.
    pub(super) fn next_request(&mut self) -> Result<Option<PlannedRequest>, HarnessError> {
        match &mut self.0 {
            Reader::Kept { requests, next } => {
                *next += 1;
                Ok(requests.get(*next - 1).cloned())
            }
            Reader::Drawn { left: 0, .. } => Ok(None),
            Reader::Drawn { drawn, left } => {
                *left -= 1;
                drawn.next_request()
            }
        }
    }

    /// As many as the drawer draws.
    pub(super) fn endless(drawer: SessionDrawer) -> Self {
        Self(Reader::Drawn { drawn: Box::new(DrawnRequests::new(drawer)), left: usize::MAX })
    }
}

impl Iterator for PlannedReader {
    type Item = PlannedRequest;

    fn next(&mut self) -> Option<PlannedRequest> {
        // These requests were drawn before, without an error.
        self.next_request().ok().flatten()
    }
}

/// One request after the other of the sessions that are drawn.
struct DrawnRequests {
    drawer: SessionDrawer,
    session: std::vec::IntoIter<PlannedRequest>,
}

impl DrawnRequests {
    fn new(drawer: SessionDrawer) -> Self {
        Self { drawer, session: Vec::new().into_iter() }
    }

    fn next_request(&mut self) -> Result<Option<PlannedRequest>, HarnessError> {
        loop {
            if let Some(request) = self.session.next() {
                return Ok(Some(request));
            }
            match self.drawer.next()? {
                Some(session) => self.session = session.into_iter(),
                None => return Ok(None),
            }
        }
    }
}

// One request of a plan.

/// One request to come, as a line of `plan.jsonl` has it.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRequest {
    /// Intended arrival in ns: from the start, or from the end of the request that this one waits for.
    pub at_ns: u64,
    /// Of a later turn of a trace: it does not come before, ns from the start.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub earliest_ns: u64,
    pub due: RequestTrigger,
    /// Tokens.
    #[serde(rename = "in")]
    pub input_len: u32,
    /// Tokens requested.
    #[serde(rename = "out")]
    pub output_len: u32,
    pub session: u64,
    /// Within its session, from 0.
    pub turn: u32,
    /// None: drawn for this request alone.
    pub(crate) parts: Option<Arc<[PromptPart]>>,
    /// What its record sets of it, in place of the benchmark.
    pub(crate) own: Option<Arc<OwnRequest>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands on a reference")]
const fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTrigger {
    /// Its time.
    #[default]
    Schedule,
    /// When a user is idle and its think time has passed.
    User,
    /// The answer to the turn before, and a pause.
    Turn,
}

impl PlannedRequest {
    /// A request of its own.
    #[cfg(test)]
    pub(crate) fn at(at_ns: u64, input_len: u32, output_len: u32) -> Self {
        Self { at_ns, input_len, output_len, ..Self::default() }
    }

    /// Whether the answers of the turns before are part of its prompt.
    pub fn needs_answers(&self) -> bool {
        self.parts.iter().flat_map(|parts| parts.iter()).any(|part| matches!(part, PromptPart::PreviousAnswer { .. }))
    }

    pub(super) fn recipe(&self, index: u64) -> Arc<[PromptPart]> {
        self.parts.clone().unwrap_or_else(|| {
            Arc::from([PromptPart::Drawn { stream: RandomStream::Prompt, number: index, tokens: self.input_len }])
        })
    }
}
