//! The plan: every arrival, length and prompt, before anything runs. The same spec and files give the same plan, whatever
//! the number of workers, connections and servers.

mod draw;
mod file;
mod queue;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data::{
    DataKind, DataSummary, PreviousAnswers, PromptFile, PromptPart, PromptRenderer, PromptSource, PromptTokenizer,
    RandomStream,
};
use super::payload::GENERATOR;
use crate::event::{Digest, Hasher};
use crate::harness::drive::external_driver::{ExternalSample, sampled};
use crate::harness::{BenchSpec, HarnessError, Scenario};
use draw::SessionDrawer;
pub(in crate::harness) use file::write;
pub(in crate::harness) use queue::PlanQueue;

/// A frozen plan. Prompts are recipes or content of a file; `ids` and `text` write them out.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestSchedule {
    pub requests: Vec<PlannedRequest>,
    /// Covers everything that decides what is sent and when. Equal digests: equal requests at equal times.
    pub digest: Digest,
    /// What the data gave, if there were any.
    pub data: Option<DataSummary>,
    ink: Arc<PromptRenderer>,
}

/// One request to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Intended arrival, ns from the start; of a request that waits for another, ns after that has ended.
    pub at_ns: u64,
    pub due: RequestTrigger,
    /// Tokens.
    pub input_len: u32,
    /// Tokens requested.
    pub output_len: u32,
    pub session: u64,
    /// Within its session, from 0.
    pub turn: u32,
    /// None: drawn for this request alone.
    pub(in crate::harness) parts: Option<Arc<[PromptPart]>>,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTrigger {
    /// Its time.
    Schedule,
    /// When a user is idle and its think time has passed.
    User,
    /// The answer to the turn before, and a pause.
    Turn,
}

/// A plan is kept whole; a larger one is most likely a typing error.
const MOST: usize = 50_000_000;

/// Draws the plan, and reads the files that it needs. Errors name what the spec lacks, or what is wrong with a file.
pub fn plan(spec: &BenchSpec) -> Result<RequestSchedule, HarnessError> {
    spec.check()?;
    let ink = Arc::new(ink(spec)?);
    if let Some(data) = spec.content.data.as_ref().filter(|data| data.kind == DataKind::Plan) {
        return file::read(data, spec, &ink);
    }
    let mut drawer = SessionDrawer::new(spec, &ink)?;
    let mut requests = Vec::new();
    let end = End::of(spec);
    let ended = loop {
        if !end.is_timed && requests.len() as u64 >= end.least {
            break None;
        }
        let Some(session) = drawer.next()? else { break Some(drawer.end()) };
        let starts = session.first().map_or(0, |first| first.at_ns);
        if end.is_timed && requests.len() as u64 >= end.least && starts >= end.until_ns {
            break None;
        }
        requests.extend(session);
        if requests.len() > MOST {
            return Err(HarnessError::Spec(format!("the plan has more than {MOST} requests")));
        }
    };
    end.hold(ended, requests.len() as u64, spec)?;
    if requests.is_empty() {
        return Err(HarnessError::Spec("no request arrives before the duration ends".to_owned()));
    }
    let data = drawer.told();
    let mut schedule = RequestSchedule { requests, digest: Digest::of(&[]), data, ink };
    schedule.digest = schedule.digested();
    Ok(schedule)
}

/// The plan of a run with an external driver, before it begins: one request for each sample.
pub(in crate::harness) fn outside(
    spec: &BenchSpec,
    samples: &[ExternalSample],
) -> Result<RequestSchedule, HarnessError> {
    spec.check()?;
    if samples.is_empty() {
        return Err(HarnessError::Spec("there is no sample to call for".to_owned()));
    }
    let ink = Arc::new(ink(spec)?);
    Ok(RequestSchedule { requests: sampled(samples), digest: Digest::of(&[]), data: None, ink })
}

/// The plan of a run that another process carried out: empty here.
pub(in crate::harness) fn elsewhere() -> RequestSchedule {
    let ink = Arc::new(PromptRenderer { seed: 0, vocab_size: 0, end_id: 0, speech: None });
    RequestSchedule { requests: Vec::new(), digest: Digest::of(&[]), data: None, ink }
}

fn ink(spec: &BenchSpec) -> Result<PromptRenderer, HarnessError> {
    let speech = match &spec.content {
        PromptSource { tokenizer: Some(file), data, prefixes, sessions, .. } => {
            let speech = PromptTokenizer::load(file)?;
            // Counting the words of given texts needs no drawn words.
            if data.is_none() || prefixes.is_some() || sessions.is_some() {
                speech.check(file)?;
            }
            Some(Arc::new(speech))
        }
        _ => None,
    };
    Ok(PromptRenderer { seed: spec.seed, vocab_size: spec.vocab_size, end_id: spec.end_id, speech })
}

/// Why no more requests could be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Data,
    Rate,
}

/// When a plan is long enough.
struct End {
    least: u64,
    until_ns: u64,
    /// Arrivals have times, so that a duration can end them. A closed loop's are known when it runs.
    is_timed: bool,
    /// All data, once.
    is_all_data: bool,
}

impl End {
    fn of(spec: &BenchSpec) -> Self {
        let is_all_data = spec.stop.requests.is_none() && spec.stop.duration.is_none();
        let least = match (spec.stop.requests, &spec.scenario) {
            _ if is_all_data => u64::MAX,
            (requests, Scenario::Concurrency { .. }) if spec.stop.duration.is_some() => {
                requests.unwrap_or(0).max(queue::AHEAD)
            }
            (requests, _) => requests.unwrap_or(0),
        };
        Self {
            least,
            until_ns: spec.stop.duration.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
            is_timed: spec.scenario.is_open_loop(),
            is_all_data,
        }
    }

    /// Data that end too early are an error, not a shorter benchmark. A trace ends where it ends.
    fn hold(&self, ended: Option<Ended>, drawn: u64, spec: &BenchSpec) -> Result<(), HarnessError> {
        let Some(ended) = ended else { return Ok(()) };
        let asked = spec.stop.requests.unwrap_or(0);
        let is_short = drawn < asked || (self.is_timed && spec.stop.duration.is_some());
        match ended {
            _ if self.is_all_data || matches!(spec.scenario, Scenario::Trace { .. }) => Ok(()),
            Ended::Data if is_short => Err(HarnessError::Spec(format!(
                "the data end after {drawn} requests, before `stop` is reached: repeat them with `repeat: true`, or request less"
            ))),
            Ended::Rate if drawn < asked => Err(HarnessError::Spec(format!(
                "the rate falls to 0 after {drawn} requests, and `stop` requires {asked}"
            ))),
            Ended::Data | Ended::Rate => Ok(()),
        }
    }
}

impl RequestSchedule {
    /// The prompt of request `index` for a target that takes token ids.
    pub fn ids(&self, index: u64, planned: &PlannedRequest, heard: &PreviousAnswers) -> Result<Vec<i32>, HarnessError> {
        self.ink.ids(&planned.recipe(index), heard)
    }

    /// The same prompt for a target that takes text.
    pub fn text(&self, index: u64, planned: &PlannedRequest, heard: &PreviousAnswers) -> Result<String, HarnessError> {
        self.ink.text(&planned.recipe(index), heard)
    }

    /// A request of the same lengths with a prompt that is in no plan, so that warming up fills no cache with what is measured.
    pub fn warmup(&self, number: u64) -> PlannedRequest {
        let like = &self.requests[number as usize % self.requests.len()];
        let drawn = PromptPart::Drawn { stream: RandomStream::Warmup, number, tokens: like.input_len.max(1) };
        PlannedRequest { turn: 0, parts: Some(Arc::from([drawn])), ..like.clone() }
    }

    /// Tokens of a text, where a tokenizer was given.
    pub fn count(&self, text: &str) -> Option<u32> {
        self.ink.speech.as_ref().and_then(|speech| speech.count(text).ok())
    }

    /// Whether the lengths of texts are those of a tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        self.ink.speech.is_some()
    }

    /// Requests with a time in the plan: not later turns, and none of a closed loop.
    pub(in crate::harness) fn scheduled(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter(|request| request.due == RequestTrigger::Schedule).map(|request| request.at_ns)
    }

    /// Requests with the whole prompt of an earlier one. Later turns of sessions, which continue their history, and prompts
    /// that were drawn for one request alone do not count.
    pub(in crate::harness) fn repeated_prompts(&self) -> u64 {
        let mut seen = std::collections::BTreeSet::new();
        let parts =
            self.requests.iter().filter(|request| request.turn == 0).filter_map(|request| request.parts.as_ref());
        parts
            .filter(|parts| {
                let mut hasher = Hasher::new();
                for part in parts.iter() {
                    digest_part(part, &mut hasher);
                }
                !seen.insert(hasher.finish())
            })
            .count() as u64
    }

    /// What belongs together, with the index of its first request: the turns of a session, or the requests of one message.
    pub(in crate::harness) fn sessions(&self, batch: usize) -> impl Iterator<Item = (u64, &[PlannedRequest])> {
        let mut rest = &self.requests[..];
        let mut first = 0;
        std::iter::from_fn(move || {
            let (session, later) =
                rest.split_at_checked(length(rest, batch)).filter(|(session, _)| !session.is_empty())?;
            let index = first;
            first += session.len() as u64;
            rest = later;
            Some((index, session))
        })
    }

    /// The plan of the same samples with the requests that were issued.
    pub(in crate::harness) fn carried_out(&self, requests: Vec<PlannedRequest>) -> Self {
        let mut schedule = Self { requests, ..self.clone() };
        schedule.digest = schedule.digested();
        schedule
    }

    fn digested(&self) -> Digest {
        let mut hasher = Hasher::new();
        let PromptRenderer { seed, vocab_size, end_id, speech } = &*self.ink;
        hasher.field(GENERATOR.as_bytes()).field(&seed.to_le_bytes());
        hasher.field(&vocab_size.to_le_bytes()).field(&end_id.to_le_bytes());
        hasher.field(speech.as_ref().map_or(&[][..], |speech| speech.digest.bytes()));
        for request in &self.requests {
            hasher.field(&request.at_ns.to_le_bytes()).field(&[request.due as u8]);
            hasher.field(&request.session.to_le_bytes()).field(&request.turn.to_le_bytes());
            hasher.field(&request.input_len.to_le_bytes()).field(&request.output_len.to_le_bytes());
            for part in request.parts.iter().flat_map(|parts| parts.iter()) {
                digest_part(part, &mut hasher);
            }
        }
        hasher.finish()
    }
}

/// How many requests at the beginning belong together.
fn length(requests: &[PlannedRequest], batch: usize) -> usize {
    if batch > 1 {
        return batch.min(requests.len());
    }
    requests.len().min(1) + requests.iter().skip(1).take_while(|request| request.turn > 0).count()
}

fn digest_part(part: &PromptPart, hasher: &mut Hasher) {
    match part {
        PromptPart::Drawn { stream, number, tokens } => {
            hasher.field(stream.purpose().as_bytes()).field(&number.to_le_bytes()).field(&tokens.to_le_bytes());
        }
        PromptPart::Ids(ids) => {
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            hasher.field(b"ids").field(&bytes);
        }
        PromptPart::Text(text) => {
            hasher.field(b"text").field(text.as_bytes());
        }
        PromptPart::Heard { turn } => {
            hasher.field(b"heard").field(&turn.to_le_bytes());
        }
    }
}

impl PlannedRequest {
    /// A request of its own.
    #[cfg(test)]
    pub(in crate::harness) const fn at(at_ns: u64, input_len: u32, output_len: u32) -> Self {
        Self { at_ns, due: RequestTrigger::Schedule, input_len, output_len, session: 0, turn: 0, parts: None }
    }

    /// Whether the answers of the turns before are part of its prompt.
    pub fn needs_answers(&self) -> bool {
        self.parts.iter().flat_map(|parts| parts.iter()).any(|part| matches!(part, PromptPart::Heard { .. }))
    }

    fn recipe(&self, index: u64) -> Arc<[PromptPart]> {
        self.parts.clone().unwrap_or_else(|| {
            Arc::from([PromptPart::Drawn { stream: RandomStream::Prompt, number: index, tokens: self.input_len }])
        })
    }
}
