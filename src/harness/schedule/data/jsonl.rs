//! One JSON object a line: prompts (text or ids), or only lengths; time stamps, sessions, hash ids.
//!
//! | key | or | |
//! |---|---|---|
//! | `prompt` | `text`, `text_input` | a text, or a list of ids |
//! | `input_ids` | `prompt_token_ids`, `token_ids`, `tok_input` | ids |
//! | `input_length` | `input_tokens` | a prompt of this many tokens is drawn |
//! | `hash_ids` | | equal ids are equal blocks of tokens (Mooncake); needs `input_length` |
//! | `output_length` | `output_tokens`, `max_tokens` | |
//! | `timestamp` | | ms; a later turn of a session waits for it, and for the answer before |
//! | `session_id` | `session` | lines of one session are its turns, in order |
//! | `delay` | | ms after the answer before, or of its own turn: `data.delay` |
//!
//! Other keys are ignored.
//!
//! A file that is one JSON list is read, too: of such objects, or of those of NVIDIA's `benchmark_core_model.py`, which have `input`,
//! `instruction` and `output`. Their prompt is `input`, a blank and `instruction`; the output length is 1.3 for each word of `output`. Where
//! they have `tok_input`, as those of MLPerf's converter for Llama-3.1-8B, these ids are the prompt. So is the file of perf_analyzer's
//! `--input-data` read.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use super::corpus_record::{CorpusRecord, CorpusTurn, MemoryBudget};
use super::errors::{DataErrors, fault};
use super::perf_analyzer;
use super::prompt::{PromptPart, RandomStream};
use super::prompt_renderer::words_of;
use super::tokenizer::PromptTokenizer;
use crate::files::open_regular;
use crate::harness::{DataKind, HarnessError, PromptFile};
use crate::spec::{DelayPlace, LONGEST_LENGTH};

/// `--op-tokens-per-word` of `benchmark_core_model.py`.
const TOKENS_PER_WORD: f64 = 1.3;
/// A longer line is an error.
const LONGEST_LINE: u64 = 256 << 20;

#[derive(Deserialize)]
struct Row {
    #[serde(alias = "text", alias = "text_input")]
    prompt: Option<Given>,
    #[serde(alias = "prompt_token_ids", alias = "token_ids", alias = "tok_input")]
    input_ids: Option<Vec<i32>>,
    #[serde(alias = "input_tokens")]
    input_length: Option<u32>,
    #[serde(alias = "output_tokens", alias = "max_tokens")]
    output_length: Option<u32>,
    hash_ids: Option<Vec<u64>>,
    timestamp: Option<f64>,
    delay: Option<f64>,
    #[serde(alias = "session")]
    session_id: Option<serde_json::Value>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Text(String),
    Ids(Vec<i32>),
}

pub(super) fn read(
    data: &PromptFile,
    tokenizer: Option<&PromptTokenizer>,
    mut room: MemoryBudget<'_>,
) -> Result<Vec<CorpusRecord>, HarnessError> {
    let file = data.file.as_path();
    let (opened, _) = open_regular(file).map_err(|error| fault(file, error.to_string()))?;
    let mut reader: Box<dyn BufRead> = Box::new(BufReader::with_capacity(1 << 20, opened));
    let mut delay = data.delay;
    if let Some(list) = list_as_lines(&mut reader, data)? {
        reader = Box::new(Cursor::new(list.lines));
        delay = list.delay;
    }
    let mut errors = DataErrors::of(file);
    let mut entries: Vec<CorpusRecord> = Vec::new();
    let mut sessions: HashMap<String, usize> = HashMap::new();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let mut limited = (&mut reader).take(LONGEST_LINE);
        let length = limited.read_until(b'\n', &mut line).map_err(|error| fault(file, error.to_string()))?;
        if length == 0 || errors.has_too_many_errors() {
            break;
        }
        if length as u64 == LONGEST_LINE {
            return Err(fault(file, format!("line {number} is longer than 256 MiB; one record a line is expected")));
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let row = match row(&line, data.kind) {
            Ok(row) => row,
            Err(error) => {
                errors.at(number, error);
                continue;
            }
        };
        let session = row.session_id.as_ref().map(ToString::to_string);
        let known = session.as_ref().and_then(|session| sessions.get(session).copied());
        if known.is_none() && data.first.is_some_and(|first| entries.len() as u64 == first) {
            // Later turns of a session that is taken may still come.
            if sessions.is_empty() {
                break;
            }
            continue;
        }
        let at_ns = match row.timestamp.map(ns) {
            Some(None) => {
                errors.at(number, "`timestamp` must be ms, 0 or more");
                continue;
            }
            stamp => stamp.flatten(),
        };
        match turn(row, data, tokenizer) {
            Ok(turn) => {
                room.take(size_in_memory(&turn))?;
                if let Some(at) = known {
                    entries[at].turns.push(CorpusTurn { at_ns, ..turn });
                } else {
                    if let Some(session) = session {
                        sessions.insert(session, entries.len());
                    }
                    entries.push(CorpusRecord { at_ns, turns: vec![turn] });
                }
            }
            Err(error) => errors.at(number, error),
        }
    }
    errors.end()?;
    if delay == DelayPlace::AfterAnswer {
        for entry in &mut entries {
            let mut before = None;
            for turn in &mut entry.turns {
                std::mem::swap(&mut turn.pause_ns, &mut before);
            }
        }
    }
    Ok(entries)
}

/// A file that is one JSON list.
struct RecordList {
    /// Its elements, a line each.
    lines: Vec<u8>,
    delay: DelayPlace,
}

/// `None`: it is no JSON list, and nothing of it was taken.
fn list_as_lines(reader: &mut Box<dyn BufRead>, data: &PromptFile) -> Result<Option<RecordList>, HarnessError> {
    let file = data.file.as_path();
    let unreadable = |error: &dyn std::fmt::Display| fault(file, error.to_string());
    let begin = reader.fill_buf().map_err(|error| unreadable(&error))?.trim_ascii_start();
    // A line of ids begins with a bracket, too; a list of records has an object behind it.
    if data.kind == DataKind::Jsonl && perf_analyzer::is_begun(begin) {
        let whole = serde_json::from_reader(reader).map_err(|error| unreadable(&error))?;
        let records = perf_analyzer::records(whole).map_err(|error| unreadable(&error))?;
        let lines = as_lines(records.into_iter().map(Value::Object)).map_err(|error| unreadable(&error))?;
        return Ok(Some(RecordList { lines, delay: DelayPlace::AfterAnswer }));
    }
    let is_list = begin.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().first() == Some(&b'{'));
    if data.kind != DataKind::Jsonl || !is_list {
        return Ok(None);
    }
    let items: Vec<serde_json::Map<String, Value>> =
        serde_json::from_reader(reader).map_err(|error| unreadable(&error))?;
    let records = items.into_iter().map(|item| {
        let text = |key: &str| item.get(key).and_then(Value::as_str);
        let tokens_of = |output: &str| (output.split(' ').count() as f64 * TOKENS_PER_WORD) as u64;
        match (text("input"), text("instruction"), text("output")) {
            (_, _, Some(output)) if item.get("tok_input").is_some_and(Value::is_array) => {
                json!({ "input_ids": item["tok_input"], "output_length": tokens_of(output) })
            }
            (Some(input), instruction, Some(output)) => {
                let tokens = tokens_of(output);
                json!({ "prompt": format!("{input} {}", instruction.unwrap_or_default()).trim_end(), "output_length": tokens })
            }
            _ => Value::Object(item),
        }
    });
    let lines = as_lines(records).map_err(|error| unreadable(&error))?;
    Ok(Some(RecordList { lines, delay: data.delay }))
}

fn as_lines(records: impl Iterator<Item = Value>) -> Result<Vec<u8>, serde_json::Error> {
    let mut lines = Vec::new();
    for record in records {
        serde_json::to_writer(&mut lines, &record)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

/// Why a line is no prompt.
#[derive(Debug, thiserror::Error)]
enum RowError {
    #[error("{}", plain(.0))]
    Json(#[source] serde_json::Error),
    #[error("the output length must be at least 1")]
    OutputLength,
    #[error("the input length must be at least 1")]
    InputLength,
    #[error("{0} tokens are more than any model takes: at most {LONGEST_LENGTH}")]
    TooLong(u32),
    #[error("`delay` must be ms, 0 or more")]
    Delay,
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("{0}")]
    Tokenizer(#[source] HarnessError),
    #[error("{0} is no token id")]
    NotToken(i32),
    #[error("`hash_ids` needs an `input_length`")]
    HashesWithoutLength,
    #[error("it has none of `prompt`, `text`, `input_ids`, `input_length`")]
    NoPrompt,
    #[error("it has more than one of `prompt`, `input_ids`, `hash_ids`")]
    SeveralPrompts,
    #[error(
        "{hashes} hash ids of {block} tokens do not make an input of {length}: {} would (is `block_tokens` right?)",
        length.div_ceil(*block)
    )]
    Blocks { hashes: usize, block: u32, length: u32 },
}

fn row(line: &[u8], kind: DataKind) -> Result<Row, RowError> {
    if kind == DataKind::InputIds && line.trim_ascii_start().first() == Some(&b'[') {
        let ids: Vec<i32> = serde_json::from_slice(line).map_err(RowError::Json)?;
        return Ok(Row {
            prompt: None,
            input_ids: Some(ids),
            input_length: None,
            output_length: None,
            hash_ids: None,
            timestamp: None,
            delay: None,
            session_id: None,
        });
    }
    serde_json::from_slice(line).map_err(RowError::Json)
}

/// Without serde's own line number, which is always 1.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what);
    format!("column {}: {what}", error.column())
}

fn ns(ms: f64) -> Option<u64> {
    (ms.is_finite() && ms >= 0.0).then(|| (ms * 1e6).round() as u64)
}

fn turn(row: Row, data: &PromptFile, prompt_tokenizer: Option<&PromptTokenizer>) -> Result<CorpusTurn, RowError> {
    let Row { prompt, input_ids, input_length, output_length, hash_ids, timestamp, delay, .. } = row;
    if output_length == Some(0) {
        return Err(RowError::OutputLength);
    }
    // Each token takes memory as soon as it is drawn.
    if let Some(tokens) = input_length.max(output_length).filter(|tokens| *tokens > LONGEST_LENGTH) {
        return Err(RowError::TooLong(tokens));
    }
    let pause_ns = match delay.map(ns) {
        Some(None) => return Err(RowError::Delay),
        pause => pause.flatten(),
    };
    let is_whole = hash_ids.is_some();
    let (parts, tokens): (Vec<PromptPart>, Option<u32>) = match (prompt, input_ids, input_length, hash_ids) {
        (Some(Given::Text(text)), None, _, None) => {
            if text.trim().is_empty() {
                return Err(RowError::EmptyPrompt);
            }
            let tokens = match prompt_tokenizer {
                Some(tokenizer) => tokenizer.count(&text).map_err(RowError::Tokenizer)?,
                None => words_of(&text),
            };
            (vec![PromptPart::Text(text.into())], Some(tokens))
        }
        (Some(Given::Ids(ids)), None, _, None) | (None, Some(ids), _, None) => {
            (vec![ids_part(&ids)?], Some(ids.len() as u32))
        }
        (None, None, Some(0), _) => return Err(RowError::InputLength),
        (None, None, Some(length), None) => (Vec::new(), Some(length)),
        (None, None, Some(length), Some(blocks)) => (blocks_of(&blocks, length, data.block_tokens)?, Some(length)),
        (None, None, None, Some(_)) => return Err(RowError::HashesWithoutLength),
        (None, None, None, None)
            if data.kind == DataKind::Jsonl && (output_length.is_some() || timestamp.is_some()) =>
        {
            (Vec::new(), None)
        }
        (None, None, None, None) => return Err(RowError::NoPrompt),
        _ => return Err(RowError::SeveralPrompts),
    };
    Ok(CorpusTurn {
        parts: parts.into(),
        tokens,
        output_tokens: output_length,
        answer: None,
        pause_ns,
        at_ns: None,
        is_whole,
    })
}

fn ids_part(ids: &[i32]) -> Result<PromptPart, RowError> {
    match ids.iter().find(|id| **id < 0) {
        _ if ids.is_empty() => Err(RowError::EmptyPrompt),
        Some(id) => Err(RowError::NotToken(*id)),
        None => Ok(PromptPart::Ids(Arc::from(ids))),
    }
}

/// A block each, the last one as long as is left.
fn blocks_of(blocks: &[u64], length: u32, block: u32) -> Result<Vec<PromptPart>, RowError> {
    if blocks.len() as u64 != u64::from(length.div_ceil(block)) {
        return Err(RowError::Blocks { hashes: blocks.len(), block, length });
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
        PromptPart::Text(text) | PromptPart::RecordedAnswer(text) => text.len(),
        PromptPart::Drawn { .. } | PromptPart::PreviousAnswer { .. } => 0,
    });
    size_of::<CorpusTurn>() + turn.parts.len() * size_of::<PromptPart>() + parts.sum::<usize>()
}
