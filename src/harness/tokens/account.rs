//! The account of one request: takes the events of its answer, and returns the totals at the end.

use std::sync::Arc;

use super::live_counts::LiveCounts;
use super::spans::{UsageMark, assumed, resolve};
use super::{ChunkTokens, FinishReason, TokenChunk, TokenSource, Usage, Violation, Violations, WireEvent};

/// The account of one request, while its answer arrives.
#[derive(Clone, Debug, Default)]
pub(in crate::harness) struct Accounting {
    /// Time of the socket read, and the chunk's own token count.
    chunks: Vec<(u64, ChunkTokens)>,
    marks: Vec<UsageMark>,
    usage: Option<Usage>,
    finish: Option<FinishReason>,
    has_ended: bool,
    is_whole: bool,
    violations: Violations,
    /// Tokens so far, as far as that is known while the answer comes.
    so_far: u64,
    /// The part of it that chunks had, which observers were given.
    counted_live: u64,
    last_token: Option<u64>,
    /// Counts for observers, and when the request was due on their clock.
    live: Option<(Arc<LiveCounts>, u64)>,
}

/// The totals of the answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::harness) struct CountedTokens {
    /// Those with at least one token.
    pub chunks: Vec<TokenChunk>,
    pub tokens: u32,
    pub source: TokenSource,
    /// The tokens of each chunk are known; else each counts as one.
    pub is_per_chunk: bool,
    /// As the server reported it, where it can be used.
    pub usage: Option<Usage>,
    pub finish: Option<FinishReason>,
    /// The answer came in one piece, and not as a stream.
    pub is_whole: bool,
    pub violations: Violations,
}

impl Accounting {
    /// With capacity for this many chunks.
    pub fn with_capacity(chunks: usize) -> Self {
        Self { chunks: Vec::with_capacity(chunks), ..Self::default() }
    }

    /// Tokens are counted there as they arrive. `due`: where the time to the first one starts, ns.
    pub fn with_live_counts(self, counts: Arc<LiveCounts>, due: u64) -> Self {
        Self { live: Some((counts, due)), ..self }
    }

    /// Takes the next event, from a message that was read at `t_read` (ns).
    pub fn take(&mut self, event: WireEvent, t_read: u64) {
        if self.has_ended {
            match event {
                WireEvent::Violation(class, example) => self.violations.add(class, || example),
                WireEvent::End => self.violations.add(Violation::SecondEnd, || "the end arrived twice".to_owned()),
                WireEvent::Role | WireEvent::Chunk(_) | WireEvent::Usage(_) | WireEvent::Finish(_) => {
                    self.violations
                        .add(Violation::AfterEnd, || "output arrived after the end of the answer".to_owned());
                }
            }
            return;
        }
        match event {
            WireEvent::Role => {}
            WireEvent::Chunk(tokens) => {
                let assumed = u64::from(assumed(tokens));
                self.so_far = self.so_far.saturating_add(assumed);
                if assumed > 0 {
                    if let Some((live, due)) = &self.live {
                        let is_first = self.last_token.is_none();
                        live.chunk(assumed, is_first.then(|| t_read.saturating_sub(*due)));
                    }
                    self.counted_live += assumed;
                    self.last_token = Some(t_read);
                }
                self.chunks.push((t_read, tokens));
            }
            WireEvent::Usage(usage) => {
                self.usage = Some(usage);
                if let Some(tokens) = usage.completion {
                    if self.marks.last().is_some_and(|last| last.tokens > tokens) {
                        let before = self.marks.last().map_or(0, |last| last.tokens);
                        let example = || format!("usage.completion_tokens went from {before} to {tokens}");
                        self.violations.add(Violation::UsageMismatch, example);
                    }
                    self.marks.push(UsageMark { chunks: self.chunks.len(), tokens });
                    self.so_far = self.so_far.max(tokens);
                }
            }
            WireEvent::Finish(reason) => self.finish = Some(reason),
            WireEvent::End => self.has_ended = true,
            WireEvent::Violation(class, example) => self.violations.add(class, || example),
        }
    }

    /// The answer comes in one piece, and not as a stream.
    pub const fn note_whole(&mut self) {
        self.is_whole = true;
    }

    /// A chunk that may have a token has come.
    pub fn has_begun(&self) -> bool {
        self.chunks.iter().any(|(_, chunk)| assumed(*chunk) > 0)
    }

    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Time of the last chunk with a token.
    pub const fn last_token(&self) -> Option<u64> {
        self.last_token
    }

    /// Tokens so far: those of chunks, or the server's running count if that is more.
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.so_far).unwrap_or(u32::MAX)
    }

    /// The tokens that observers were given.
    pub const fn live_tokens(&self) -> u64 {
        self.counted_live
    }

    /// The totals of the answer. `by`: what the interface counts tokens by where there is no usage. `limit`: the most tokens
    /// that the request allows, where that was sent.
    pub fn settle(mut self, by: TokenSource, limit: Option<u32>) -> CountedTokens {
        let total = self.usable_total(limit);
        let is_monotonic = self.marks.is_sorted_by_key(|mark| mark.tokens);
        let marks: &[UsageMark] = match total {
            Some(_) if is_monotonic => &self.marks,
            Some(_) => self.marks.last().map_or(&[], std::slice::from_ref),
            None => &[],
        };
        let kinds: Vec<ChunkTokens> = self.chunks.iter().map(|(_, kind)| *kind).collect();
        let resolved = resolve(&kinds, marks);
        if resolved.is_below_chunks {
            let (total, chunks) = (total.unwrap_or(0), kinds.len());
            let example = || format!("usage.completion_tokens is {total}, and {chunks} chunks arrived");
            self.violations.add(Violation::UsageMismatch, example);
        }
        let with_tokens = self.chunks.iter().zip(&resolved.tokens).filter(|(_, tokens)| **tokens > 0);
        let chunks: Vec<TokenChunk> =
            with_tokens.map(|((t_read, _), tokens)| TokenChunk { t_read: *t_read, tokens: *tokens }).collect();
        let sum = chunks.iter().fold(0u32, |sum, chunk| sum.saturating_add(chunk.tokens));
        let has = |wanted: fn(&ChunkTokens) -> bool| kinds.iter().any(wanted);
        let source = match total {
            Some(1..) => TokenSource::Usage,
            _ if has(|kind| matches!(kind, ChunkTokens::Requested(_))) => TokenSource::Requested,
            _ if by == TokenSource::Usage && resolved.is_known && !kinds.is_empty() => TokenSource::ChunkIds,
            _ if by == TokenSource::Usage => TokenSource::Chunks,
            _ => by,
        };
        let tokens = match total {
            Some(total @ 1..) => u32::try_from(total).unwrap_or(u32::MAX),
            _ => sum,
        };
        let is_exact = by == TokenSource::OutputIds || source == TokenSource::ChunkIds;
        if let Some(limit) = limit.filter(|limit| is_exact && tokens > *limit) {
            let example = || format!("{tokens} tokens arrived, and at most {limit} were requested");
            self.violations.add(Violation::AboveRequested, example);
        }
        CountedTokens {
            // A total with tokens that are in no chunk leaves open which chunk they belong to.
            is_per_chunk: resolved.is_known && tokens == sum,
            chunks,
            tokens,
            source,
            usage: self.usage.map(|usage| Usage { completion: total, ..usage }),
            finish: self.finish,
            is_whole: self.is_whole,
            violations: self.violations,
        }
    }

    /// The server's total, unless it is more than the request allows.
    fn usable_total(&mut self, limit: Option<u32>) -> Option<u64> {
        let total = self.usage.and_then(|usage| usage.completion)?;
        let most = limit.map_or(u64::from(u32::MAX), u64::from);
        if total > most {
            let example = || format!("usage.completion_tokens is {total}, and at most {most} were requested");
            self.violations.add(Violation::AboveRequested, example);
            return None;
        }
        Some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(account: &mut Accounting, times: &[u64]) {
        for at in times {
            account.take(WireEvent::Chunk(ChunkTokens::Text), *at);
        }
    }

    fn total(tokens: u64) -> WireEvent {
        WireEvent::Usage(Usage { prompt: Some(8), completion: Some(tokens), cached: None })
    }

    #[test]
    fn a_total_beside_a_chunk_counts_no_token_twice() {
        let mut account = Accounting::default();
        text(&mut account, &[10, 20, 30]);
        account.take(total(3), 30);
        account.take(WireEvent::Finish(FinishReason::Length), 30);
        let counted = account.settle(TokenSource::Usage, Some(3));
        assert_eq!((counted.tokens, counted.chunks.len(), counted.is_per_chunk), (3, 3, true));
        assert_eq!(counted.violations, Violations::default());
    }

    #[test]
    fn nothing_counts_after_the_end() {
        let mut account = Accounting::default();
        text(&mut account, &[10, 20]);
        account.take(WireEvent::End, 20);
        text(&mut account, &[30; 50]);
        account.take(WireEvent::End, 40);
        let counted = account.settle(TokenSource::OutputIds, None);
        assert_eq!(counted.chunks.len(), 2);
        let violations: Vec<_> = counted.violations.each().map(|(class, count, _)| (class, count)).collect();
        assert_eq!(violations, [(Violation::AfterEnd, 50), (Violation::SecondEnd, 1)]);
    }

    #[test]
    fn a_total_above_what_was_requested_is_not_counted() {
        let mut account = Accounting::default();
        text(&mut account, &[10, 20]);
        account.take(total(10_000_000_000_000_000_000), 30);
        assert_eq!(account.tokens(), u32::MAX);
        let counted = account.settle(TokenSource::Usage, Some(16));
        assert_eq!((counted.tokens, counted.source, counted.is_per_chunk), (2, TokenSource::Chunks, false));
        assert_eq!(counted.usage.unwrap().completion, None);
        assert_eq!(counted.violations.each().next().unwrap().0, Violation::AboveRequested);
    }

    #[test]
    fn a_count_that_falls_is_a_violation_and_its_last_value_stands() {
        let mut account = Accounting::default();
        text(&mut account, &[10]);
        account.take(total(5), 10);
        text(&mut account, &[20]);
        account.take(total(2), 20);
        let counted = account.settle(TokenSource::Usage, Some(16));
        assert_eq!((counted.tokens, counted.source), (2, TokenSource::Usage));
        assert_eq!(counted.violations.each().next().unwrap().0, Violation::UsageMismatch);
    }
}
