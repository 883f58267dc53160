//! The conditions of the load in the result: from when latencies count, the data that were read, the most requests in
//! flight; and how the number of requests in flight changes over time.

use std::iter::Peekable;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::collector::WorkerOutput;
use crate::schedule::plan::PLAN;
use crate::spool::Spool;
use crate::{
    BenchSpec, DataSummary, LoadPattern, PromptSource, RequestRecords, RequestSchedule, SessionsSummary, Transport,
};

/// The load as it was planned and as it could be sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct LoadConditions {
    /// From when the latencies called "from schedule" count.
    pub zero_point: String,
    /// The plan, beside the result; `data: { plan: … }` sends it again.
    pub plan: String,
    pub content: PromptSource,
    pub data: Option<DataSummary>,
    /// Prompt lengths in tokens, and their source.
    pub input_lengths: String,
    /// Most requests in flight at once, from the records' stamps.
    pub in_flight_max: u64,
    /// Arrivals that waited because `max_in_flight` requests were in flight. Their latency counts the wait.
    pub held_back: u64,
    pub max_in_flight: Option<u32>,
    /// Scheduled requests whose whole prompt is that of an earlier one.
    pub prompts_repeated: u64,
    pub sessions: Option<SessionsSummary>,
}

impl LoadConditions {
    pub(crate) fn new(
        spec: &BenchSpec,
        schedule: &RequestSchedule,
        outputs: &[WorkerOutput],
        records: &RequestRecords,
        token_source: &str,
    ) -> Self {
        const PROMPTS: [&str; 4] = ["messages", "prompt", "text_input", "input_ids"];
        let has_extra = |key: &&str| matches!(&spec.protocol, Transport::Http(http) if http.extra.contains_key(*key));
        let all = schedule.requests.len().max(1) as u64;
        let later = records.borrowed().any(|record| record.turn > 0);
        let first = match &spec.scenario {
            LoadPattern::Offline | LoadPattern::Server { .. } | LoadPattern::Trace { .. } => "the intended arrival",
            LoadPattern::Concurrency { .. } => {
                "when the user became idle after its think time: a closed loop has no schedule, so waiting for a slow \
                 server shows in the rate and not in the latency"
            }
            LoadPattern::External(_) => "when the external driver called",
        };
        let more = if later { "; of later turns, the end of the turn before and the pause" } else { "" };
        Self {
            zero_point: format!("{first}{more}"),
            plan: PLAN.to_owned(),
            content: spec.content.clone(),
            data: schedule.data.clone(),
            input_lengths: if schedule.has_tokenizer() {
                "tokens of the tokenizer given, without the special ones that a server may add".to_owned()
            } else {
                "token ids as sent; of text, words".to_owned()
            },
            in_flight_max: in_flight_max(records),
            held_back: outputs.iter().map(|output| output.deferred).sum(),
            max_in_flight: spec.pace.max_in_flight,
            // A prompt in `extra` is that of every request.
            prompts_repeated: if PROMPTS.iter().any(has_extra) { all - 1 } else { schedule.repeated_prompts() },
            sessions: later.then(|| SessionsSummary::from_records(records, spec.scenario.zero_point(), token_source)),
        }
    }
}

fn in_flight_max(records: &RequestRecords) -> u64 {
    let mut now = 0i64;
    let (issues, ends) = (records.sorted_stamps(|record| record.t_issue), records.sorted_stamps(|record| record.t_end));
    let most = in_flight_changes(&issues, &ends).map(|(_, change)| {
        now += change;
        now
    });
    most.max().unwrap_or(0).max(0) as u64
}

/// Time and change, from stamps in the order of time. An end and an issue at the same instant are one after the other.
pub(crate) fn in_flight_changes(issues: &Spool<u64>, ends: &Spool<u64>) -> impl Iterator<Item = (u64, i64)> {
    let (mut issues, mut ends) = (issues.iter().peekable(), ends.iter().peekable());
    std::iter::from_fn(move || {
        let is_end = match (issues.peek(), ends.peek()) {
            (Some(issue), Some(end)) => end <= issue,
            (issue, _) => issue.is_none(),
        };
        if is_end { Some((ends.next()?, -1)) } else { Some((issues.next()?, 1)) }
    })
}

/// Counts sorted stamps before times that do not go back.
pub(crate) struct Before<'s> {
    rest: Peekable<Box<dyn Iterator<Item = u64> + 's>>,
    count: usize,
}

impl<'s> Before<'s> {
    pub fn new(sorted: &'s Spool<u64>) -> Self {
        let rest: Box<dyn Iterator<Item = u64>> = Box::new(sorted.iter());
        Self { rest: rest.peekable(), count: 0 }
    }

    pub fn count(&mut self, time: u64) -> usize {
        while self.rest.next_if(|at| *at < time).is_some() {
            self.count += 1;
        }
        self.count
    }

    /// The first one that was not counted.
    pub fn next(&mut self) -> Option<u64> {
        self.rest.peek().copied()
    }
}
