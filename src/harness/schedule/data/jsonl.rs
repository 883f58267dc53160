//! Files of records in JSON: prompts (text, ids or messages), conversations, or only lengths; time stamps, sessions,
//! hash ids. The keys are those of [`super::record_reader`].
//!
//! A session's records are its turns, in order: a later turn waits for its time stamp and for the answer before.
//! `delay` is in ms, after the answer before or of its own turn: `data.delay`.
//!
//! Records of NVIDIA's `benchmark_core_model.py` have `input`, `instruction` and `output`. Their prompt is `input`, a
//! blank and `instruction`; the output length is 1.3 for each word of `output`. Where they have `tok_input`, as those
//! of MLPerf's converter for Llama-3.1-8B, these ids are the prompt.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::corpus::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::messages::{answered_turns, count, message_parts, messages};
use super::record_reader::{RecordRules, UnsentKeys, for_each_record};
use super::row::{Given, OwnRequest, PromptPart, PromptRecord, RandomStream, RecordFields};
use super::tokenizer::PromptTokenizer;
use crate::{DataKind, HarnessError, PromptFile};
use base::diag::ErrorText;
use base::spec::{DelayPlace, LONGEST_LENGTH};

/// `--op-tokens-per-word` of `benchmark_core_model.py`.
const TOKENS_PER_WORD: f64 = 1.3;

const EMPTY_PROMPT: &str = "the prompt is empty";

/// The records, and which were left out and why.
pub(super) fn read(
    data: &PromptFile,
    tokenizer: Option<&PromptTokenizer>,
    rules: &RecordRules,
    mut room: MemoryBudget<'_>,
) -> Result<(Vec<CorpusRecord>, Vec<String>), HarnessError> {
    let mut errors = DataErrors::new(&data.file);
    let mut unsent = UnsentKeys::new(rules);
    let mut entries: Vec<CorpusRecord> = Vec::new();
    let mut sessions: HashMap<String, usize> = HashMap::new();
    let mut unanswered = 0u64;
    let mut delay = data.delay;
    for_each_record(&data.file, |place, text| {
        if errors.has_too_many_errors() {
            return Ok(ControlFlow::Break(()));
        }
        if let RecordPlace::Entry(_) = place {
            delay = DelayPlace::AfterAnswer;
        }
        let mut row = match row(text, data.kind) {
            Ok(row) => row,
            Err(error) => {
                errors.at(place, error);
                return Ok(ControlFlow::Continue(()));
            }
        };
        let is_conversation = row.conversation.is_some();
        let session = row.session.as_ref().filter(|_| !is_conversation).map(ToString::to_string);
        let place_of_session = session.as_ref().and_then(|session| sessions.get(session).copied());
        if place_of_session.is_none() && data.first.is_some_and(|first| entries.len() as u64 == first) {
            // Later turns of a session that is taken may still come.
            return Ok(if sessions.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) });
        }
        let RecordFields { request, unsent: mut fields, faults } = row.take_fields(rules);
        for fault in faults {
            errors.at(place, fault);
        }
        if row.messages.is_some() {
            unsent.check_messages(place);
        }
        let turns = at_ns(row.timestamp.as_ref(), rules.is_trace)
            .and_then(|at_ns| Ok((at_ns, turns(row, data, tokenizer, &mut fields)?)));
        unsent.check(place, fields);
        match turns {
            Ok((_, turns)) if turns.is_empty() => unanswered += 1,
            Ok((at_ns, mut turns)) => {
                let request = (request != OwnRequest::default()).then(|| Arc::new(request));
                for turn in &mut turns {
                    turn.own.clone_from(&request);
                }
                room.take(turns.iter().map(size_in_memory).sum())?;
                if let Some(at) = place_of_session {
                    for turn in &mut turns {
                        turn.at_ns = at_ns;
                    }
                    entries[at].turns.append(&mut turns);
                } else {
                    if let Some(session) = session {
                        sessions.insert(session, entries.len());
                    }
                    entries.push(CorpusRecord { at_ns, turns, is_conversation });
                }
            }
            Err(error) => errors.at(place, error),
        }
        Ok(ControlFlow::Continue(()))
    })?;
    errors.end_after(unsent.faults())?;
    if delay == DelayPlace::AfterAnswer {
        for entry in &mut entries {
            let mut before = None;
            for turn in &mut entry.turns {
                std::mem::swap(&mut turn.pause_ns, &mut before);
            }
        }
    }
    let skipped = (unanswered > 0)
        .then(|| format!("{unanswered} conversations do not begin with a question and its answer"))
        .into_iter()
        .collect();
    Ok((entries, skipped))
}

fn row(text: &[u8], kind: DataKind) -> Result<PromptRecord, ErrorText> {
    if kind == DataKind::InputIds && text.starts_with(b"[") {
        let ids = serde_json::from_slice(text).map_err(|error| ErrorText::new(plain(&error)))?;
        return Ok(PromptRecord { input_ids: Some(ids), ..PromptRecord::default() });
    }
    PromptRecord::read(text).map_err(|error| match std::str::from_utf8(text) {
        Ok(_) => ErrorText::new(plain(&error)),
        Err(_) => ErrorText::new("it is not UTF-8; convert it with `iconv -f LATIN1 -t UTF-8`"),
    })
}

/// Without serde's own line number, which is always 1.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let message = text.rsplit_once(" at line ").map_or(text.as_str(), |(message, _)| message);
    format!("column {}: {}", error.column(), message.replace("expected u32", "expected a whole number"))
}

fn ns(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then(|| (ms * 1e6).round() as u64)
}

/// When a record comes, ns. Where requests are not sent at time stamps, a time may be in any form.
fn at_ns(stamp: Option<&Value>, is_trace: bool) -> Result<Option<u64>, ErrorText> {
    match stamp.filter(|_| is_trace) {
        Some(stamp) => stamp
            .as_f64()
            .and_then(ns)
            .map(Some)
            .ok_or_else(|| ErrorText::new("`timestamp` must be a number of milliseconds, 0 or more")),
        None => Ok(None),
    }
}

/// The turn of a record, or those of its conversation: none of one without an answered question. Fields of messages
/// that are not sent are added to `unsent`.
fn turns(
    row: PromptRecord,
    data: &PromptFile,
    tokenizer: Option<&PromptTokenizer>,
    unsent: &mut Vec<(String, Value)>,
) -> Result<Vec<CorpusTurn>, ErrorText> {
    let PromptRecord {
        prompt,
        input_ids,
        messages: given,
        conversation,
        input_length,
        hash_ids,
        timestamp,
        delay,
        session,
        ..
    } = row;
    let words = words_of_task(row.input, row.instruction, input_ids.is_some())?;
    let is_answered = input_ids.is_some() || words.is_some();
    let answer = row.output.as_ref().and_then(Value::as_str).filter(|_| is_answered);
    let answer_tokens = answer.map(|answer| (answer.split(' ').count() as f64 * TOKENS_PER_WORD) as u32);
    let output_length = row.output_length.or(answer_tokens);
    if output_length == Some(0) {
        return Err(ErrorText::new("the output length must be at least 1"));
    }
    // Each token takes memory as soon as it is drawn.
    if let Some(tokens) = input_length.max(output_length).filter(|tokens| *tokens > LONGEST_LENGTH) {
        return Err(ErrorText::new(format_args!("{tokens} tokens: the maximum is {LONGEST_LENGTH}")));
    }
    let pause_ns = match delay.map(ns) {
        Some(None) => return Err(ErrorText::new("`delay` must be a number of milliseconds, 0 or more")),
        pause => pause.flatten(),
    };
    if pause_ns.is_some_and(|pause| pause > 0) && session.is_none() {
        let message = "`delay` is a pause between the turns of a session: it needs a `session_id`";
        return Err(ErrorText::new(message));
    }
    let is_whole = hash_ids.is_some() || given.is_some();
    let given_prompts =
        [prompt.is_some(), words.is_some(), input_ids.is_some(), given.is_some(), conversation.is_some()];
    if given_prompts.into_iter().filter(|is_given| *is_given).count() + usize::from(hash_ids.is_some()) > 1 {
        let names = "`prompt`, `input`, `messages`, `conversations`, `input_ids`, `hash_ids`";
        return Err(ErrorText::new(format_args!("it has more than one of {names}")));
    }
    if let Some(conversation) = conversation {
        let conversation = messages(conversation, false, unsent)?;
        return answered_turns(conversation, output_length, tokenizer).map_err(ErrorText::new);
    }
    let prompt = prompt.or(words.map(Given::Text)).or(input_ids.map(Given::Ids));
    let (parts, tokens): (Vec<PromptPart>, Option<u32>) = match (prompt, given, input_length, hash_ids) {
        (Some(Given::Text(text)), ..) => {
            if text.trim().is_empty() {
                return Err(ErrorText::new(EMPTY_PROMPT));
            }
            let tokens = count(&text, tokenizer).map_err(ErrorText::new)?;
            (vec![PromptPart::Text(text.into())], Some(tokens))
        }
        (Some(Given::Ids(ids)), ..) => (vec![ids_part(&ids)?], Some(ids.len() as u32)),
        (None, Some(given), ..) => {
            let given = messages(given, true, unsent)?;
            let (parts, tokens) = message_parts(given, tokenizer).map_err(ErrorText::new)?;
            let is_text = |part: &PromptPart| matches!(part, PromptPart::Message { whole: None, .. });
            if tokens == 0 && unsent.is_empty() && parts.iter().all(is_text) {
                return Err(ErrorText::new(EMPTY_PROMPT));
            }
            (parts, Some(tokens))
        }
        (None, None, Some(0), _) => return Err(ErrorText::new("the input length must be at least 1")),
        (None, None, Some(length), None) => (Vec::new(), Some(length)),
        (None, None, Some(length), Some(blocks)) => (blocks_of(&blocks, length, data.block_tokens)?, Some(length)),
        (None, None, None, Some(_)) => return Err(ErrorText::new("`hash_ids` needs an `input_length`")),
        (None, None, None, None)
            if data.kind == DataKind::Jsonl && (output_length.is_some() || timestamp.is_some()) =>
        {
            (Vec::new(), None)
        }
        (None, None, None, None) => {
            let names = "`prompt`, `text`, `messages`, `conversations`, `input_ids`, `input_length`";
            return Err(ErrorText::new(format_args!("it has none of {names}")));
        }
    };
    Ok(vec![CorpusTurn {
        parts: parts.into(),
        tokens,
        output_tokens: output_length,
        pause_ns,
        is_whole,
        ..CorpusTurn::default()
    }])
}

/// The prompt of a record of `benchmark_core_model.py`. Beside token ids its texts are those that the ids were made
/// from.
fn words_of_task(input: Option<Value>, instruction: Option<Value>, has_ids: bool) -> Result<Option<String>, ErrorText> {
    match (input, instruction) {
        _ if has_ids => Ok(None),
        (None, None) => Ok(None),
        (Some(Value::String(input)), None) => Ok(Some(input)),
        (Some(Value::String(input)), Some(Value::String(instruction))) => {
            Ok(Some(format!("{input} {instruction}").trim_end().to_owned()))
        }
        _ => Err(ErrorText::new("`input` must be a text, and so must `instruction`, which needs an `input`")),
    }
}

fn ids_part(ids: &[i32]) -> Result<PromptPart, ErrorText> {
    match ids.iter().find(|id| **id < 0) {
        _ if ids.is_empty() => Err(ErrorText::new(EMPTY_PROMPT)),
        Some(id) => Err(ErrorText::new(format_args!("{id} is not a valid token id"))),
        None => Ok(PromptPart::Ids(Arc::from(ids))),
    }
}

/// A block each, the last one as long as is left.
fn blocks_of(blocks: &[u64], length: u32, block: u32) -> Result<Vec<PromptPart>, ErrorText> {
    if blocks.len() as u64 != u64::from(length.div_ceil(block)) {
        return Err(ErrorText::new(format_args!(
            "{} hash ids of {block} tokens do not make an input of {length}: {} would (is `block_tokens` right?)",
            blocks.len(),
            length.div_ceil(block)
        )));
    }
    let mut left = length;
    let parts = blocks.iter().map(|hash| {
        let tokens = left.min(block);
        left -= tokens;
        PromptPart::Drawn { stream: RandomStream::Block, number: *hash, tokens }
    });
    Ok(parts.collect())
}

/// About as many bytes as it occupies.
fn size_in_memory(turn: &CorpusTurn) -> usize {
    let parts = turn.parts.iter().map(|part| match part {
        PromptPart::Ids(ids) => ids.len() * 4,
        PromptPart::Message { text, whole: Some(whole), .. } => text.len() + json!(**whole).to_string().len(),
        PromptPart::Text(text) | PromptPart::RecordedAnswer(text) | PromptPart::Message { text, .. } => text.len(),
        PromptPart::Drawn { .. } | PromptPart::PreviousAnswer { .. } => 0,
    });
    let answer = turn.answer.as_ref().map_or(0, |answer| answer.len());
    let request = turn.own.as_ref().map_or(0, |request| json!(**request).to_string().len());
    size_of::<CorpusTurn>() + turn.parts.len() * size_of::<PromptPart>() + parts.sum::<usize>() + answer + request
}

// All errors of a file at once, each with its line.

/// Where a record is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// From 1.
    Line(usize),
    /// An element of a list, from 1.
    Element(usize),
    /// Of the file of perf_analyzer's `--input-data`, from 1.
    Entry(usize),
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Element(number) => write!(f, "record {number}"),
            Self::Entry(number) => write!(f, "entry {number}"),
        }
    }
}

/// How many errors are shown; the rest is counted.
const SHOWN: usize = 20;

/// The errors of a file so far.
pub(crate) struct DataErrors<'a> {
    file: &'a Path,
    found: Vec<String>,
    unlisted: usize,
}

impl<'a> DataErrors<'a> {
    pub const fn new(file: &'a Path) -> Self {
        Self { file, found: Vec::new(), unlisted: 0 }
    }

    pub fn at(&mut self, place: RecordPlace, what: impl fmt::Display) {
        self.push_error(format!("{place}: {what}"));
    }

    pub fn push_error(&mut self, what: String) {
        if self.found.len() < SHOWN {
            self.found.push(what);
        } else {
            self.unlisted += 1;
        }
    }

    /// After a thousand errors the file is of another kind, and reading on is useless.
    pub const fn has_too_many_errors(&self) -> bool {
        self.unlisted > 1_000
    }

    pub fn end(self) -> Result<(), HarnessError> {
        self.end_after(Vec::new())
    }

    /// With these in front, which are few.
    pub fn end_after(mut self, mut faults: Vec<String>) -> Result<(), HarnessError> {
        faults.append(&mut self.found);
        if faults.is_empty() {
            return Ok(());
        }
        if self.unlisted > 0 {
            faults.push(format!("… and {} more", self.unlisted));
        }
        Err(HarnessError::Data { file: self.file.to_owned(), faults })
    }
}

/// One error that makes the whole file unusable.
pub(crate) fn fault(file: &Path, why: impl Into<String>) -> HarnessError {
    HarnessError::Data { file: file.to_owned(), faults: vec![why.into()] }
}
