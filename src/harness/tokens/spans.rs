//! From the server's running counts to the tokens of single chunks. Pure.
//!
//! A mark gives the number of tokens in the chunks up to it. Continuous usage marks every chunk; a total, wherever it
//! stands, marks only the last. Between two marks the tokens of each chunk follow only if there is one chunk, or one
//! token for each.

use crate::tokens::ChunkTokens;

/// The server's count of tokens after this many chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UsageMark {
    pub chunks: usize,
    pub tokens: u64,
}

/// Tokens of each chunk, and whether all of them are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResolvedChunks {
    pub tokens: Vec<u32>,
    pub is_known: bool,
    /// A total was less than the number of chunks with text.
    pub is_below_chunks: bool,
    /// Several tokens were counted for an end without text, and none before it.
    pub has_only_end: bool,
}

/// `marks` are in order and do not decrease; where one does not grow over a text, that text is of the step before.
/// Without a mark at the end, chunks after the last one use their own counts.
pub(super) fn resolve(chunks: &[ChunkTokens], marks: &[UsageMark]) -> ResolvedChunks {
    let mut resolved =
        ResolvedChunks { tokens: Vec::with_capacity(chunks.len()), is_known: true, ..ResolvedChunks::default() };
    let (mut from, mut counted) = (0, 0);
    for (position, mark) in marks.iter().enumerate() {
        let is_last = position + 1 == marks.len();
        let span = &chunks[from..mark.chunks.clamp(from, chunks.len())];
        let tokens = mark.tokens.saturating_sub(counted);
        // A chunk that shares its step with the one before (reasoning and text of one token) adds nothing to a running
        // count.
        let shares_step = tokens == 0 && position > 0 && span.len() == 1;
        match span_tokens(span, tokens) {
            Some(each) => resolved.tokens.extend(each),
            None if shares_step => resolved.tokens.push(0),
            // Text that was held back or could not be parsed. If every chunk has a count, the tokens belong to the end
            // chunk: a step of several tokens whose text is an incomplete character.
            None if span == [ChunkTokens::Closing] => {
                resolved.is_known &= is_each_marked(chunks, marks);
                resolved.has_only_end = resolved.tokens.iter().all(|tokens| *tokens == 0);
                resolved.tokens.push(u32::try_from(tokens).unwrap_or(u32::MAX));
            }
            None => {
                resolved.is_known = false;
                resolved.is_below_chunks |= is_last && tokens < certain(span);
                resolved.tokens.extend(assumed_each(span));
            }
        }
        (from, counted) = (from + span.len(), mark.tokens);
    }
    let rest = &chunks[from..];
    resolved.is_known &= !rest.iter().any(|chunk| matches!(chunk, ChunkTokens::Text | ChunkTokens::Empty));
    resolved.tokens.extend(assumed_each(rest));
    resolved
}

/// How many chunks there are up to the last one with text; all where none has any.
fn until_last_text(span: &[ChunkTokens]) -> usize {
    let is_textless = |chunk: &ChunkTokens| matches!(chunk, ChunkTokens::Empty | ChunkTokens::Closing);
    span.iter().rposition(|chunk| !is_textless(chunk)).map_or(span.len(), |last| last + 1)
}

/// Without a count: one token for each chunk up to the last text. What comes after it may be late, and nothing says
/// that it is a token.
fn assumed_each(span: &[ChunkTokens]) -> impl Iterator<Item = u32> {
    let texts = until_last_text(span);
    span.iter().enumerate().map(move |(at, chunk)| if at < texts { assumed(*chunk) } else { 0 })
}

/// Whether each chunk has a count of its own. Two counts may be of the begin and of the end alone.
fn is_each_marked(chunks: &[ChunkTokens], marks: &[UsageMark]) -> bool {
    let has_mark = |count: usize| marks.binary_search_by_key(&count, |mark| mark.chunks).is_ok();
    chunks.len() > 2 && (1..=chunks.len()).all(has_mark)
}

/// Without a count: one token for a text.
pub(super) const fn assumed(chunk: ChunkTokens) -> u32 {
    match chunk {
        ChunkTokens::Exact(tokens) | ChunkTokens::Requested(tokens) => tokens,
        ChunkTokens::Text | ChunkTokens::Empty => 1,
        ChunkTokens::Closing => 0,
    }
}

/// The fewest tokens that the span can have.
pub(super) fn certain(span: &[ChunkTokens]) -> u64 {
    let least = |chunk: &ChunkTokens| match chunk {
        ChunkTokens::Exact(tokens) => u64::from(*tokens),
        ChunkTokens::Text | ChunkTokens::Requested(_) => 1,
        ChunkTokens::Empty | ChunkTokens::Closing => 0,
    };
    span.iter().map(least).sum()
}

/// The tokens of each chunk of a span with this total; `None` if several distributions are possible. Events without
/// text after the last text carry no tokens, however late they arrive: an end token in the total is attributed to the
/// last text.
fn span_tokens(span: &[ChunkTokens], tokens: u64) -> Option<Vec<u32>> {
    if let [ChunkTokens::Exact(_)] = span {
        let ChunkTokens::Exact(own) = span[0] else { return None };
        return (u64::from(own) == tokens).then(|| vec![own]);
    }
    if let [only] = span {
        let is_possible = match only {
            ChunkTokens::Text => tokens > 0,
            ChunkTokens::Closing => tokens <= 1,
            _ => true,
        };
        return is_possible.then(|| u32::try_from(tokens).ok()).flatten().map(|tokens| vec![tokens]);
    }
    let texts = until_last_text(span);
    // One token for each text; then also for each chunk without text.
    let steps: [fn(ChunkTokens) -> u32; 3] = [
        |chunk| if chunk == ChunkTokens::Empty { 0 } else { assumed(chunk) },
        assumed,
        |chunk| if chunk == ChunkTokens::Closing { 1 } else { assumed(chunk) },
    ];
    for most in [0, (span.len() - texts) as u64] {
        for step in steps {
            let mut each: Vec<u32> = span[..texts].iter().copied().map(step).collect();
            let sum: u64 = each.iter().copied().map(u64::from).sum();
            let more = tokens.checked_sub(sum).filter(|more| *more <= most);
            if let Some(more) = more {
                if let Some(last) = each.last_mut() {
                    *last += more as u32;
                }
                each.resize(span.len(), 0);
                return Some(each);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ChunkTokens::{Closing, Empty, Exact, Text};
    use super::*;

    fn resolved(chunks: &[ChunkTokens], marks: &[(usize, u64)]) -> (Vec<u32>, bool) {
        let marks: Vec<UsageMark> =
            marks.iter().map(|(chunks, tokens)| UsageMark { chunks: *chunks, tokens: *tokens }).collect();
        let resolved = resolve(chunks, &marks);
        (resolved.tokens, resolved.is_known)
    }

    #[test]
    fn a_total_is_one_token_a_chunk_or_nothing_is_known_of_single_chunks() {
        assert_eq!(resolved(&[Text, Text, Text], &[(3, 3)]), (vec![1, 1, 1], true));
        assert_eq!(resolved(&[Text, Text, Text], &[(3, 9)]), (vec![1, 1, 1], false));
        assert_eq!(resolved(&[Text], &[(1, 16)]), (vec![16], true));
        assert_eq!(resolved(&[Text, Text], &[]), (vec![1, 1], false));
        assert_eq!(resolved(&[Exact(3), Exact(2)], &[]), (vec![3, 2], true));
    }

    #[test]
    fn a_token_without_text_that_a_total_counts_at_the_end_is_one_of_the_last_text() {
        assert_eq!(resolved(&[Text, Text, Closing], &[(3, 2)]), (vec![1, 1, 0], true));
        assert_eq!(resolved(&[Text, Text, Closing], &[(3, 3)]), (vec![1, 2, 0], true));
        assert_eq!(resolved(&[Text, Text, Empty], &[(3, 3)]), (vec![1, 2, 0], true));
        assert_eq!(resolved(&[Text, Text, Empty, Closing], &[(4, 4)]), (vec![1, 3, 0, 0], true));
        assert_eq!(resolved(&[Text, Text, Empty, Closing], &[(4, 5)]), (vec![1, 1, 0, 0], false));
        assert_eq!(resolved(&[Text, Text, Empty, Closing], &[]), (vec![1, 1, 0, 0], false));
        assert_eq!(resolved(&[Text, Empty, Text, Closing], &[(4, 3)]), (vec![1, 1, 1, 0], true));
        assert_eq!(resolved(&[Text, Empty, Text, Closing], &[(4, 2)]), (vec![1, 0, 1, 0], true));
        assert_eq!(resolved(&[Text, Empty, Text, Closing], &[(4, 4)]), (vec![1, 1, 2, 0], true));
        // A count beside it says that it is one.
        assert_eq!(resolved(&[Text, Closing], &[(1, 1), (2, 2)]), (vec![1, 1], true));
        // Nothing but tokens without text.
        assert_eq!(resolved(&[Empty, Closing], &[(2, 1)]), (vec![1, 0], true));
        assert_eq!(resolved(&[Empty, Closing], &[(2, 2)]), (vec![1, 1], true));
    }

    #[test]
    fn an_end_without_text_is_one_token_at_most() {
        assert_eq!(resolved(&[Text, Closing], &[(1, 1), (2, 4)]), (vec![1, 3], false));
        assert_eq!(resolved(&[Closing], &[(1, 8)]), (vec![8], false));
        assert_eq!(resolved(&[Text, Text, Closing], &[(1, 1), (3, 4)]), (vec![1, 1, 0], false));
        let has_only_end = |chunks: &[ChunkTokens], tokens| {
            resolve(chunks, &[UsageMark { chunks: chunks.len(), tokens }]).has_only_end
        };
        assert!(has_only_end(&[Closing], 8) && !has_only_end(&[Closing], 1) && !has_only_end(&[Text, Closing], 8));
    }

    #[test]
    fn running_counts_say_what_each_chunk_has() {
        // The total is repeated at the end. The end of an answer of vLLM under load: three tokens in one message, and
        // no text.
        assert_eq!(resolved(&[Text, Text, Closing], &[(1, 1), (2, 3), (3, 6), (3, 6)]), (vec![1, 2, 3], true));
        assert_eq!(resolved(&[Text, Text, Text], &[(0, 0), (1, 3), (2, 6), (3, 8), (3, 8)]), (vec![3, 3, 2], true));
        // Reasoning and text of one step come as two chunks with one count.
        assert_eq!(resolved(&[Text, Text, Text], &[(1, 1), (2, 1), (3, 2)]), (vec![1, 0, 1], true));
        // The total comes with the last of them only.
        assert_eq!(resolved(&[Text, Text], &[(1, 1), (2, 2)]), (vec![1, 1], true));
    }

    #[test]
    fn a_total_below_the_chunks_is_reported() {
        let resolved = resolve(&[Text, Text, Text], &[UsageMark { chunks: 3, tokens: 2 }]);
        assert!(resolved.is_below_chunks && !resolved.is_known);
    }

    proptest! {
        #[test]
        fn what_is_known_adds_up_to_the_last_mark(sizes in prop::collection::vec(1u32..5, 1..20), every in 1usize..5) {
            let mut marks = Vec::new();
            let mut sum = 0;
            for (position, size) in sizes.iter().enumerate() {
                sum += u64::from(*size);
                if position % every == 0 || position + 1 == sizes.len() {
                    marks.push(UsageMark { chunks: position + 1, tokens: sum });
                }
            }
            let resolved = resolve(&vec![Text; sizes.len()], &marks);
            prop_assert!(!resolved.is_below_chunks);
            if resolved.is_known {
                prop_assert_eq!(&resolved.tokens, &sizes);
            } else {
                prop_assert!(sizes.iter().any(|size| *size > 1));
            }
        }
    }
}
