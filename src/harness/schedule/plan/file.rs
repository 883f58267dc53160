//! `plan.jsonl`: a plan that can be replayed exactly.
//!
//! The first line defines how to read the others; each of them is one request, in order. `parts` holds the content of a
//! prompt from a file, and otherwise recipes, which the generator of the first line turns into the same tokens. A
//! repeated prompt is referenced by `as`, the index of the request that had it first. Without either the prompt is
//! `{"drawn": {"stream": "prompt", "number": <line from 0>, "tokens": <in>}}`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::planned_requests::{PlannedRequest, PlannedRequests, RequestTrigger};
use super::schedule::RequestSchedule;
use crate::schedule::arrivals::GENERATOR;
use crate::schedule::data::{
    DataErrors, DataSummary, PromptPart, PromptRenderer, RecordRules, fault, file_digest, for_each_record,
};
use crate::{BenchSpec, HarnessError, LoadPattern, PromptFile};
use base::diag::ErrorText;
use base::files::Digest;
use base::spec::LONGEST_LENGTH;

/// The plan's file beside a result.
pub(crate) const PLAN: &str = "plan.jsonl";

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFileHeader {
    /// The version of this format.
    regatta_plan: u32,
    /// How drawn parts are drawn.
    generator: String,
    seed: u64,
    vocab_size: u32,
    end_id: i32,
    /// BLAKE3 of the `tokenizer.json` that the words are drawn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokenizer: Option<Digest>,
    requests: u64,
    /// The digest of the plan: the result's `schedule_digest`.
    digest: Digest,
}

/// The digest of the plan covers its keys; an unknown one changes nothing.
#[base::omit_empty]
#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    request: PlannedRequest,
    r#as: Option<usize>,
}

impl RequestSchedule {
    fn head(&self) -> PlanFileHeader {
        let PromptRenderer { seed, vocab_size, end_id, tokenizer } = &*self.renderer;
        PlanFileHeader {
            regatta_plan: VERSION,
            generator: GENERATOR.to_owned(),
            seed: *seed,
            vocab_size: *vocab_size,
            end_id: *end_id,
            tokenizer: tokenizer.as_ref().map(|tokenizer| tokenizer.digest),
            requests: self.requests.len() as u64,
            digest: self.digest,
        }
    }
}

/// Writes a plan.
pub(crate) fn write(out: &mut impl Write, schedule: &RequestSchedule) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &schedule.head())?;
    out.write_all(b"\n")?;
    let mut before = HashMap::new();
    for (index, mut request) in schedule.requests.iter().enumerate() {
        // The same prompt is the same allocation: a data set that is gone through again and again is written once.
        let kept = request.parts.as_ref().filter(|_| schedule.requests.are_kept());
        let place = kept.map(|parts| Arc::as_ptr(parts).cast::<PromptPart>());
        let first = place.map(|place| *before.entry(place).or_insert(index)).filter(|first| *first < index);
        request.parts.take_if(|_| first.is_some());
        serde_json::to_writer(&mut *out, &Line { request, r#as: first })?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The prompt that a line defines; or why it defines none.
fn prompt(line: &Line, before: &[PlannedRequest]) -> Result<Option<Arc<[PromptPart]>>, ErrorText> {
    let drawn = line.request.parts.iter().flat_map(|parts| parts.iter()).map(|part| match part {
        PromptPart::Drawn { tokens, .. } => u64::from(*tokens),
        PromptPart::Ids(_)
        | PromptPart::Text(_)
        | PromptPart::Message { .. }
        | PromptPart::RecordedAnswer(_)
        | PromptPart::PreviousAnswer { .. } => 0,
    });
    // Each token takes memory as soon as it is drawn.
    let counts = [drawn.sum::<u64>(), line.request.input_len.into(), line.request.output_len.into()];
    if let Some(tokens) = counts.into_iter().find(|tokens| *tokens > u64::from(LONGEST_LENGTH)) {
        return Err(ErrorText::new(format_args!("{tokens} tokens: the maximum is {LONGEST_LENGTH}")));
    }
    match (line.r#as, &line.request.parts) {
        (None, parts) => Ok(parts.clone()),
        (Some(_), Some(_)) => Err(ErrorText::new("it has `parts` and `as`")),
        (Some(first), None) => {
            let parts = before.get(first).and_then(|planned| planned.parts.clone());
            let absent = || format!("`as` names request {first}, which has no `parts` before it");
            parts.map(Some).ok_or_else(|| ErrorText::new(absent()))
        }
    }
}

fn read_head(file: &Path, text: &[u8]) -> Result<PlanFileHeader, HarnessError> {
    let head: PlanFileHeader = serde_json::from_slice(text)
        .map_err(|error| fault(file, format!("it does not begin with the head of a plan.jsonl: {error}")))?;
    if head.regatta_plan != VERSION || head.generator != GENERATOR {
        let reason = format!(
            "it has version {} and generator {}; this Regatta reads version {VERSION} and generator {GENERATOR}",
            head.regatta_plan, head.generator
        );
        return Err(fault(file, reason));
    }
    Ok(head)
}

/// Reads a plan to send it again. Everything that would make it another plan is refused.
pub(super) fn read(
    data: &PromptFile,
    spec: &BenchSpec,
    prompt_renderer: &PromptRenderer,
) -> Result<RequestSchedule, HarnessError> {
    let file = data.file.as_path();
    let mut head = None;
    let mut errors = DataErrors::new(file);
    let mut requests: Vec<PlannedRequest> = Vec::new();
    for_each_record(file, |place, text| {
        if head.is_none() {
            head = Some(read_head(file, text)?);
            return Ok(ControlFlow::Continue(()));
        }
        match serde_json::from_slice::<Line>(text) {
            Ok(line) => match prompt(&line, &requests) {
                Ok(parts) => requests.push(PlannedRequest { parts, ..line.request }),
                Err(why) => errors.at(place, why),
            },
            Err(error) => errors.at(place, error),
        }
        Ok(if errors.has_too_many_errors() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let head = head.ok_or_else(|| fault(file, "it is empty"))?;
    errors.end()?;
    let tokenizer = prompt_renderer.tokenizer.as_ref().map(|tokenizer| tokenizer.digest);
    if head.tokenizer.is_some() && tokenizer != head.tokenizer {
        return Err(fault(file, "its prompts are drawn with a tokenizer, and `tokenizer` must name the same one"));
    }
    let renderer = Arc::new(PromptRenderer {
        seed: head.seed,
        vocab_size: head.vocab_size,
        end_id: head.end_id,
        tokenizer: prompt_renderer.tokenizer.clone(),
    });
    let has_messages = |request: &PlannedRequest| {
        request.parts.iter().flat_map(|parts| parts.iter()).any(|part| matches!(part, PromptPart::Message { .. }))
    };
    let rules = RecordRules::new(spec);
    if let Some(why) = rules.messages_fault()
        && requests.iter().any(has_messages)
    {
        return Err(fault(file, why));
    }
    if !rules.sends_fields && requests.iter().any(|request| request.own.is_some()) {
        return Err(fault(file, "its requests have fields of their own, which only OpenAI's interfaces are sent"));
    }
    let is_closed = matches!(spec.scenario, LoadPattern::Concurrency { .. });
    if requests.iter().any(|request| request.turn == 0 && (request.due == RequestTrigger::User) != is_closed) {
        let was = if is_closed { "times and no users" } else { "users and no times" };
        return Err(fault(file, format!("it was drawn for another scenario: its requests have {was}")));
    }
    let data_summary = DataSummary {
        file: file.display().to_string(),
        digest: file_digest(file)?,
        records: requests.len() as u64,
        taken: requests.len() as u64,
        ..DataSummary::default()
    };
    let requests = PlannedRequests::kept(requests);
    let mut schedule = RequestSchedule { requests, digest: head.digest, data: Some(data_summary), renderer };
    schedule.digest = schedule.digested();
    if schedule.digest != head.digest || schedule.requests.len() as u64 != head.requests {
        let reason = format!(
            "it was changed: line 1 records {} requests with digest {}, and there are {} with {}",
            head.requests,
            head.digest.short(),
            schedule.requests.len(),
            schedule.digest.short()
        );
        return Err(fault(file, reason));
    }
    Ok(schedule)
}
