//! One request as any load tool could record it, wherever it comes from: Regatta's records or a file of another tool.

use serde::{Deserialize, Serialize};

use harness::{RequestEnd, RequestRecord};

/// Stamps are ms from any instant that all requests of a run share.
#[base::omit_empty]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestTrace {
    /// Position on the schedule, or in the file.
    pub index: u64,
    pub ok: bool,
    /// Intended arrival; tools without a schedule do not have it.
    pub sched: Option<f64>,
    pub issue: f64,
    /// End of the stream.
    pub end: f64,
    pub input: Option<u32>,
    /// Prompt tokens as the server counts them, where that is another count.
    pub input_server: Option<u32>,
    /// Output tokens as the server or the engine counts them.
    pub tokens: Option<u32>,
    /// Output tokens as a client counts them, with a tokenizer of its own over the text.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "retokenised")]
    pub retokenized: Option<u32>,
    pub chunks: TracedChunks,
    /// What went wrong.
    pub error: Option<String>,
}

/// The stored part of the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TracedChunks {
    Every(Vec<TracedChunk>),
    /// Only the first and the last chunk with tokens, and the number of chunks.
    Ends {
        first: TracedChunk,
        last: TracedChunk,
        count: u32,
    },
}

impl Default for TracedChunks {
    fn default() -> Self {
        Self::Every(Vec::new())
    }
}

/// The token count of a chunk where only the sum over all chunks is known.
pub const UNCOUNTED: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TracedChunk {
    pub at: f64,
    /// `UNCOUNTED` where it is not known.
    pub tokens: u32,
    pub kind: ChunkKind,
}

/// What a chunk carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkKind {
    /// A role and nothing else: what a chat answer opens with.
    Role,
    /// Tokens that show no text: a special token, half a character, text held back.
    Empty,
    /// Tokens with text, or tokens as ids, where text is not looked at.
    Token,
    /// Counts, after the tokens.
    Usage,
}

/// Which chunks a definition looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkFilter {
    /// With a token, even if its text is empty.
    Token,
    /// With text.
    #[default]
    Text,
    /// All chunks except usage counts.
    Any,
}

impl ChunkFilter {
    const fn sees(self, kind: ChunkKind) -> bool {
        match self {
            Self::Token => matches!(kind, ChunkKind::Empty | ChunkKind::Token),
            Self::Text => matches!(kind, ChunkKind::Token),
            Self::Any => !matches!(kind, ChunkKind::Usage),
        }
    }
}

impl RequestTrace {
    pub fn first(&self, look: ChunkFilter) -> Option<TracedChunk> {
        match &self.chunks {
            TracedChunks::Every(all) => all.iter().copied().find(|chunk| look.sees(chunk.kind)),
            TracedChunks::Ends { first, .. } => look.sees(first.kind).then_some(*first),
        }
    }

    pub fn last(&self, look: ChunkFilter) -> Option<TracedChunk> {
        match &self.chunks {
            TracedChunks::Every(all) => all.iter().copied().rfind(|chunk| look.sees(chunk.kind)),
            TracedChunks::Ends { last, .. } => look.sees(last.kind).then_some(*last),
        }
    }

    pub fn count(&self, look: ChunkFilter) -> u32 {
        match &self.chunks {
            TracedChunks::Every(all) => all.iter().filter(|chunk| look.sees(chunk.kind)).count() as u32,
            TracedChunks::Ends { count, .. } => *count,
        }
    }

    /// Each gap and the tokens of the chunk after it. `None` where the chunks in between were not kept.
    pub fn gaps(&self, look: ChunkFilter) -> Option<Vec<(f64, u32)>> {
        let every = match &self.chunks {
            TracedChunks::Every(all) => all,
            TracedChunks::Ends { count: 0 | 1, .. } => return Some(Vec::new()),
            TracedChunks::Ends { first, last, count: 2 } => return Some(vec![(last.at - first.at, last.tokens)]),
            TracedChunks::Ends { .. } => return None,
        };
        let seen: Vec<&TracedChunk> = every.iter().filter(|chunk| look.sees(chunk.kind)).collect();
        Some(seen.windows(2).map(|pair| (pair[1].at - pair[0].at, pair[1].tokens)).collect())
    }
}

impl From<&RequestRecord> for RequestTrace {
    fn from(record: &RequestRecord) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        // Of a text that was tokenized again only the first chunk is counted.
        let counted = |position: usize, tokens| {
            let is_known = !record.chunk_tokens_unknown || record.retokenized && position == 0;
            if is_known { tokens } else { UNCOUNTED }
        };
        let chunk = |at, tokens| TracedChunk { at, tokens, kind: ChunkKind::Token };
        let chunks = if record.timeline.is_empty() {
            match (record.t_first, record.t_last) {
                (Some(first), Some(last)) => TracedChunks::Ends {
                    first: chunk(ms(first), counted(0, record.first_tokens)),
                    last: chunk(
                        ms(last),
                        counted(
                            1,
                            if record.chunks == 2 { record.tokens.saturating_sub(record.first_tokens) } else { 1 },
                        ),
                    ),
                    count: record.chunks,
                },
                _ => TracedChunks::Every(Vec::new()),
            }
        } else {
            let each = record.timeline.iter().enumerate();
            TracedChunks::Every(
                each.map(|(position, (at, tokens))| chunk(ms(*at), counted(position, *tokens))).collect(),
            )
        };
        Self {
            index: record.index,
            ok: record.ended == RequestEnd::Ok,
            sched: Some(ms(record.t_sched)),
            issue: ms(record.t_issue),
            end: ms(record.t_end),
            input: Some(record.input_tokens),
            input_server: record
                .usage
                .as_ref()
                .and_then(|usage| usage.prompt)
                .and_then(|tokens| u32::try_from(tokens).ok()),
            tokens: (!record.retokenized).then_some(record.tokens),
            retokenized: record.retokenized.then_some(record.tokens),
            chunks,
            error: match &record.ended {
                RequestEnd::Failed { class, why } => Some(format!("{}: {why}", class.as_str())),
                RequestEnd::Ok => None,
                _ => Some("ended by the client".to_owned()),
            },
        }
    }
}

/// Five hand-made requests on which every tool's definition has a known number.
///
/// A chat answer with a role chunk, a chunk of three tokens and a usage chunk; one that the client held back for 500
/// ms; a one-token answer; one with an empty text in its first token; an error.
pub fn vector() -> Vec<RequestTrace> {
    use ChunkKind::{Empty, Role, Token, Usage};
    let held: Vec<(f64, u32, ChunkKind)> = (0..11).map(|i| (710.0 + 20.0 * f64::from(i), 1, Token)).collect();
    let role = [(100.0, 0, Role), (200.0, 1, Token), (220.0, 1, Token), (240.0, 3, Token), (300.0, 1, Token)];
    let role: Vec<_> = role.into_iter().chain([(305.0, 0, Usage)]).collect();
    let empty = [(190.0, 1, Empty), (220.0, 1, Token), (250.0, 1, Token), (280.0, 1, Token), (310.0, 1, Token)];
    vec![
        seen(0, (0.0, 2.0, 306.0), 6, 6, &role),
        seen(1, (10.0, 510.0, 912.0), 11, 11, &held),
        seen(2, (20.0, 21.0, 223.0), 1, 1, &[(221.0, 1, Token)]),
        seen(3, (30.0, 31.0, 311.0), 5, 4, &empty),
        RequestTrace {
            ok: false,
            error: Some("an error after 20 ms".to_owned()),
            ..seen(4, (40.0, 41.0, 61.0), 0, 0, &[])
        },
    ]
}

fn seen(
    index: u64,
    (sched, issue, end): (f64, f64, f64),
    tokens: u32,
    retokenized: u32,
    chunks: &[(f64, u32, ChunkKind)],
) -> RequestTrace {
    RequestTrace {
        index,
        ok: true,
        sched: Some(sched),
        issue,
        end,
        input: None,
        input_server: None,
        tokens: Some(tokens),
        retokenized: Some(retokenized),
        chunks: TracedChunks::Every(
            chunks.iter().map(|&(at, tokens, kind)| TracedChunk { at, tokens, kind }).collect(),
        ),
        error: None,
    }
}
