//! Draws one session after the other: when it starts, and what each of its turns carries.

use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Distribution, Zipf};

use super::planned_requests::{PlannedRequest, RequestTrigger};
use crate::schedule::arrivals::{self, ArrivalTimes, generator};
use crate::schedule::data::{
    Corpus, CorpusOrder, CorpusRecord, CorpusTurn, DataSummary, PromptPart, PromptRenderer, RandomStream, RecordRules,
    fault,
};
use crate::{BenchSpec, HarnessError, LoadPattern, PromptFile};
use base::spec::{History, Prefixes, RecordOrder};

/// Why no more requests could be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrawEnd {
    DataUsedUp,
    RateReachedZero,
}

/// Draws sessions in their order, without end unless the data or the spec ends them. A copy draws the same from there
/// on, and costs little: the data are shared.
#[derive(Clone)]
pub(super) struct SessionDrawer {
    spec: Arc<BenchSpec>,
    starts: SessionStarts,
    records: Option<Arc<(Corpus, CorpusOrder)>>,
    /// The number of the next session.
    session: u64,
    index: u64,
    /// Start of the one before.
    last_ns: u64,
}

#[derive(Clone)]
enum SessionStarts {
    AtOnce,
    Drawn(ArrivalTimes),
    /// Time stamps, sped up by this factor.
    Stamped {
        first_ns: u64,
        speed: f64,
    },
    /// When a user is free.
    Free,
}

impl SessionStarts {
    /// A time span of the data.
    fn sped_up(&self, ns: u64) -> u64 {
        match self {
            Self::Stamped { speed, .. } => (ns as f64 / *speed).round() as u64,
            Self::AtOnce | Self::Drawn(_) | Self::Free => ns,
        }
    }

    /// Of a time stamp, ns from the start; 0 where time stamps do not count.
    fn time_of(&self, stamp: Option<u64>) -> u64 {
        match self {
            Self::Stamped { first_ns, .. } => self.sped_up(stamp.unwrap_or(0).saturating_sub(*first_ns)),
            Self::AtOnce | Self::Drawn(_) | Self::Free => 0,
        }
    }
}

impl SessionDrawer {
    pub fn new(spec: &BenchSpec, prompt_renderer: &PromptRenderer) -> Result<Self, HarnessError> {
        let records = match &spec.content.data {
            Some(data) => {
                let rules = RecordRules::new(spec);
                let mut corpus = Corpus::load(data, prompt_renderer.tokenizer.as_deref(), &rules)?;
                if let LoadPattern::Trace { .. } = spec.scenario {
                    in_time(&mut corpus, data)?;
                }
                let order = CorpusOrder::new(corpus.entries.len(), data, spec.seed);
                Some(Arc::new((corpus, order)))
            }
            None => None,
        };
        let starts = match &spec.scenario {
            LoadPattern::Offline | LoadPattern::External(_) => SessionStarts::AtOnce,
            LoadPattern::Concurrency { .. } => SessionStarts::Free,
            LoadPattern::Server { rate } => {
                // The rate is that of requests: messages of several arrive this much more rarely.
                let batch = spec.request.batch() as u64;
                let messages = spec.stop.requests.map(|requests| requests.div_ceil(batch));
                let times = ArrivalTimes::new(rate.scaled(1.0 / batch as f64), spec.arrivals, spec.seed, messages);
                let impossible = || HarnessError::spec("the distribution of arrivals has impossible parameters");
                SessionStarts::Drawn(times.ok_or_else(impossible)?)
            }
            LoadPattern::Trace { speed } => {
                let first = records.as_deref().and_then(|(corpus, _)| corpus.entries.first()?.at_ns);
                SessionStarts::Stamped { first_ns: first.unwrap_or(0), speed: *speed }
            }
        };
        Ok(Self { spec: Arc::new(spec.clone()), starts, records, session: 0, index: 0, last_ns: 0 })
    }

    /// The requests of the next session. None: the data, or the rate, have ended.
    pub fn next(&mut self) -> Result<Option<Vec<PlannedRequest>>, HarnessError> {
        let number = self.session;
        let records = self.records.clone();
        let record = match records.as_deref() {
            Some((_, order)) => {
                let record = order.nth(number).filter(|_| !self.is_all_taken());
                let Some(record) = record else { return Ok(None) };
                Some(record)
            }
            None => None,
        };
        let entry = record.and_then(|record| records.as_deref()?.0.entries.get(record));
        let think = self.spec.pace.think;
        let batch = self.spec.request.batch() as u64;
        let (due, at_ns) = match &mut self.starts {
            SessionStarts::AtOnce => (RequestTrigger::Schedule, 0),
            // Requests of one message arrive together.
            SessionStarts::Drawn(_) if !number.is_multiple_of(batch) => (RequestTrigger::Schedule, self.last_ns),
            SessionStarts::Drawn(times) => match times.next() {
                Some(at_ns) => (RequestTrigger::Schedule, at_ns),
                None => return Ok(None),
            },
            stamped @ SessionStarts::Stamped { .. } => {
                (RequestTrigger::Schedule, stamped.time_of(entry.and_then(|entry| entry.at_ns)))
            }
            SessionStarts::Free => (RequestTrigger::User, arrivals::think_time(think, self.spec.seed, self.index)),
        };
        let mut session = self.turns(entry, number)?;
        if let Some(first) = session.first_mut() {
            (first.due, first.at_ns) = (due, at_ns);
        }
        self.session += 1;
        self.last_ns = at_ns;
        self.index += session.len() as u64;
        Ok(Some(session))
    }

    /// Why `next` returned None.
    pub const fn end(&self) -> DrawEnd {
        if self.records.is_some() { DrawEnd::DataUsedUp } else { DrawEnd::RateReachedZero }
    }

    pub fn data_summary(&self) -> Option<DataSummary> {
        let (corpus, _) = self.records.as_deref()?;
        Some(DataSummary {
            taken: self.session,
            repeated: self.session > corpus.summary.records,
            ..corpus.summary.clone()
        })
    }

    /// Without an end of its own a benchmark takes all records once, repeated or not.
    fn is_all_taken(&self) -> bool {
        let has_no_end = self.spec.stop.requests.is_none() && self.spec.stop.duration.is_none();
        has_no_end && self.records.as_deref().is_some_and(|(corpus, _)| self.session >= corpus.entries.len() as u64)
    }

    fn turns(&self, entry: Option<&CorpusRecord>, number: u64) -> Result<Vec<PlannedRequest>, HarnessError> {
        let BenchSpec { seed, content, pace, .. } = &*self.spec;
        let sessions = content.sessions.as_ref();
        let turns = sessions.and_then(|sessions| arrivals::length(&sessions.turns, "turns", *seed, number));
        let count = match entry {
            // A conversation is a question and its answer, unless sessions are requested.
            Some(entry) if entry.is_conversation && sessions.is_none() => 1,
            Some(entry) => turns.map_or(entry.turns.len(), |turns| entry.turns.len().min(turns as usize)),
            None => turns.unwrap_or(1) as usize,
        };
        let mut history = SessionHistory::begin(content.prefixes.as_ref(), *seed, number);
        let mode = sessions.map_or(History::None, |sessions| sessions.history);
        let pause = content.turn_delay().unwrap_or(pace.think);
        let end = self.spec.stop.time().map(|end| u64::try_from(end.as_nanos()).unwrap_or(u64::MAX));
        let least = self.spec.stop.requests.unwrap_or(0);
        let mut planned = Vec::with_capacity(count);
        for turn in 0..count {
            let index = self.index + turn as u64;
            let given = entry.and_then(|entry| entry.turns.get(turn));
            let earliest_ns = self.starts.time_of(given.and_then(|given| given.at_ns));
            // A turn whose time stamp lies after the end is not sent.
            if turn > 0 && end.is_some_and(|end| earliest_ns >= end) && index >= least {
                break;
            }
            let prompt = self.own(given, index)?;
            let output_len = self.output(given, index)?;
            let is_whole = given.is_some_and(|given| given.is_whole);
            let (parts, input_len) = history.with(&prompt, is_whole);
            let is_plain = match parts[..] {
                [PromptPart::Drawn { stream: RandomStream::Prompt, number, .. }] => number == index,
                _ => false,
            };
            planned.push(PlannedRequest {
                at_ns: given
                    .and_then(|given| Some(self.starts.sped_up(given.pause_ns?)))
                    .unwrap_or_else(|| arrivals::think_time(pause, *seed, index)),
                earliest_ns,
                due: RequestTrigger::Turn,
                input_len,
                output_len,
                session: number,
                turn: turn as u32,
                parts: (!is_plain).then(|| parts.into()),
                own: given.and_then(|given| given.own.clone()),
            });
            history.append_turn(mode, prompt, given, index, output_len, turn as u32);
        }
        Ok(planned)
    }

    /// The parts of a turn's own prompt, and its tokens.
    fn own(&self, given: Option<&CorpusTurn>, index: u64) -> Result<(Vec<PromptPart>, u32), HarnessError> {
        let BenchSpec { seed, content, input_len, .. } = &*self.spec;
        if let Some(CorpusTurn { parts, tokens: Some(tokens), .. }) = given
            && !parts.is_empty()
        {
            return Ok((parts.to_vec(), *tokens));
        }
        let number = match content.distinct {
            Some(distinct) => generator("distinct", *seed, index).random_range(0..distinct),
            None => index,
        };
        let tokens =
            given.and_then(|given| given.tokens).or_else(|| arrivals::length(input_len, "input", *seed, number));
        let tokens = tokens.ok_or_else(|| self.data_error("an input length", "input_tokens"))?;
        Ok((vec![PromptPart::Drawn { stream: RandomStream::Prompt, number, tokens }], tokens))
    }

    fn output(&self, given: Option<&CorpusTurn>, index: u64) -> Result<u32, HarnessError> {
        let drawn = arrivals::length(&self.spec.output_len, "output", self.spec.seed, index);
        let tokens = drawn.or_else(|| given.and_then(|given| given.output_tokens));
        tokens.ok_or_else(|| self.data_error("an output length", "output_tokens"))
    }

    fn data_error(&self, what: &'static str, key: &'static str) -> HarnessError {
        let number = self.session + 1;
        match &self.spec.content.data {
            Some(data) => {
                let absent = what.trim_start_matches("an ");
                let cure = format!("set one for all: `{key}: {{ fixed: 128 }}`");
                fault(&data.file, format!("the record taken as number {number} has no {absent}; {cure}"))
            }
            None => HarnessError::spec(format_args!("{what} is needed: `{key}`")),
        }
    }
}

/// The content before the next turn.
struct SessionHistory {
    parts: Vec<PromptPart>,
    tokens: u32,
}

impl SessionHistory {
    /// The session's prefix, if there are prefixes.
    fn begin(prefixes: Option<&Prefixes>, seed: u64, session: u64) -> Self {
        let Some(Prefixes { count, tokens, zipf }) = prefixes else { return Self { parts: Vec::new(), tokens: 0 } };
        let mut rng = generator("which prefix", seed, session);
        let number = match zipf.map(|exponent| Zipf::new(f64::from(*count), exponent)) {
            Some(Ok(law)) => law.sample(&mut rng) as u64 - 1,
            _ => rng.random_range(0..u64::from(*count)),
        };
        Self {
            parts: vec![PromptPart::Drawn { stream: RandomStream::Prefix, number, tokens: *tokens }],
            tokens: *tokens,
        }
    }

    /// The whole prompt.
    fn with(&self, own: &(Vec<PromptPart>, u32), is_whole: bool) -> (Vec<PromptPart>, u32) {
        let (parts, tokens) = own;
        // Data that hold their own history keep only the prefix in front.
        let before = if is_whole {
            self.parts.iter().take_while(|part| is_prefix(part)).cloned().collect()
        } else {
            self.parts.clone()
        };
        let in_front = if is_whole { before.iter().map(tokens_of).sum() } else { self.tokens };
        ([before, parts.clone()].concat(), in_front.saturating_add(*tokens))
    }

    fn append_turn(
        &mut self,
        mode: History,
        own: (Vec<PromptPart>, u32),
        given: Option<&CorpusTurn>,
        index: u64,
        output_len: u32,
        turn: u32,
    ) {
        let (parts, tokens) = own;
        let (answer, answer_tokens) = match (mode, given.and_then(|given| given.answer.clone())) {
            (History::None, _) => return,
            (History::Answers, _) => (PromptPart::PreviousAnswer { turn }, output_len),
            (History::Planned, Some(text)) => {
                let tokens = given.and_then(|given| given.output_tokens).unwrap_or(output_len);
                (PromptPart::RecordedAnswer(text), tokens)
            }
            (History::Planned, None) => {
                (PromptPart::Drawn { stream: RandomStream::Answer, number: index, tokens: output_len }, output_len)
            }
        };
        self.parts.extend(parts);
        self.parts.push(answer);
        self.tokens = self.tokens.saturating_add(tokens).saturating_add(answer_tokens);
    }
}

const fn is_prefix(part: &PromptPart) -> bool {
    matches!(part, PromptPart::Drawn { stream: RandomStream::Prefix, .. })
}

fn tokens_of(part: &PromptPart) -> u32 {
    match part {
        PromptPart::Drawn { tokens, .. } => *tokens,
        PromptPart::Ids(ids) => ids.len() as u32,
        PromptPart::Text(_)
        | PromptPart::Message { .. }
        | PromptPart::RecordedAnswer(_)
        | PromptPart::PreviousAnswer { .. } => 0,
    }
}

/// Brings a trace into the order of its time stamps. Every record needs one.
fn in_time(corpus: &mut Corpus, data: &PromptFile) -> Result<(), HarnessError> {
    if data.order != RecordOrder::Given || data.repeat {
        return Err(HarnessError::spec("a trace is replayed once, in the order of its time stamps"));
    }
    if let Some(record) = corpus.entries.iter().position(|entry| entry.at_ns.is_none()) {
        let reason = format!("record {} has no `timestamp`, and a trace needs one for each", record + 1);
        return Err(fault(&data.file, reason));
    }
    corpus.entries.sort_by_key(|entry| entry.at_ns);
    Ok(())
}
