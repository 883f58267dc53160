//! The account of one request: takes the events of its answer, and returns the totals at the end.

use std::sync::Arc;

use crate::tokens::spans::{ResolvedChunks, UsageMark, assumed, certain, resolve};
use crate::tokens::{ChunkTokens, LiveCounts, TokenChunk, Violations, WireEvent};
use crate::{FinishReason, TokenSource, Usage, Violation};
use base::spec::UnmeasuredProtocol;

/// A server may write the reasoning and the text of one token as two chunks, which can arrive in two reads. A chunk
/// that arrives later than this after the previous one (ns) belongs to a new step.
const SAME_STEP: u64 = 1_000_000;

/// The account of one request, while its answer arrives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounting {
    /// Time of the socket read, and the chunk's own token count.
    chunks: Vec<(u64, ChunkTokens)>,
    marks: Vec<UsageMark>,
    usage: Option<Usage>,
    /// Messages whose output was reasoning.
    reasoning: u64,
    finish: Option<FinishReason>,
    has_ended: bool,
    /// The answer arrives whole, not as a stream.
    pub is_whole: bool,
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
pub(crate) struct CountedTokens {
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
        // Some gateways send `usage` after `[DONE]`.
        if self.has_ended && !matches!(event, WireEvent::Usage(_)) {
            match event {
                WireEvent::Violation(class, example) => self.violations.add(class, || example),
                WireEvent::End => self.violations.add(Violation::SecondEnd, || "the end arrived twice".to_owned()),
                _ => {
                    let example = || "output arrived after the end of the answer".to_owned();
                    self.violations.add(Violation::AfterEnd, example);
                }
            }
            return;
        }
        match event {
            WireEvent::Role => {}
            WireEvent::Reasoning => self.reasoning += 1,
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

    /// The totals of the answer. `by`: how the interface counts tokens when the answer has no `usage`. `limit`: the
    /// token limit that was sent, if any.
    pub fn settle(mut self, by: TokenSource, limit: Option<u32>) -> CountedTokens {
        let mut total = self.usable_total(limit);
        let stood_at = total.and_then(|_| self.stood_at());
        let is_running = stood_at.is_none() && self.marks.is_sorted_by_key(|mark| mark.tokens);
        let marks: &[UsageMark] = match total {
            Some(1..) if is_running => self.running_marks(),
            Some(_) => self.marks.last().map_or(&[], std::slice::from_ref),
            None => &[],
        };
        let kinds: Vec<ChunkTokens> = self.chunks.iter().map(|(_, kind)| *kind).collect();
        let mut resolved = resolve(&kinds, marks);
        if let Some(tokens) = stood_at {
            let example = || format!("usage.completion_tokens stayed at {tokens} while more text arrived");
            self.violations.add(Violation::UsageMismatch, example);
            // A count of single chunks, and not of the answer.
            total = total.filter(|_| !resolved.is_below_chunks);
        } else if let Some(reported) =
            total.filter(|total| resolved.is_below_chunks || is_far_below(*total, &resolved, &kinds))
        {
            let uncounted = if self.usage.is_some_and(|usage| usage.reasoning > Some(0)) { 0 } else { self.reasoning };
            // Fewer than the visible chunks, it is wrong for another reason.
            let leaves_out = uncounted > 0 && reported.saturating_add(uncounted + 1) >= certain(&kinds);
            self.violations.add(Violation::UsageMismatch, || {
                let text = format!("usage.completion_tokens is {reported}, and {} chunks arrived", kinds.len());
                let reasoning = format!(", {uncounted} of them with reasoning: {}", UnmeasuredProtocol::VISIBLE_USAGE);
                text + if leaves_out { &reasoning } else { "" }
            });
            // A server may cut its text into more pieces than there are tokens: then chunks are no better count. So
            // only a total that cannot be one gives way, and all answers of such a server are counted alike.
            let is_possible = limit.is_none_or(|limit| certain(&kinds) <= u64::from(limit));
            let is_of_beginning = || self.marks.last().is_some_and(|mark| certain(&kinds[..mark.chunks]) == 0);
            let is_no_total = reported <= 1 || leaves_out || is_of_beginning();
            if is_possible && is_no_total && is_far_below(reported, &resolved, &kinds) {
                total = None;
                resolved = resolve(&kinds, &[]);
            }
        }
        if resolved.has_only_end {
            let total = total.unwrap_or(0);
            let example = || {
                format!(
                    "usage.completion_tokens is {total}, and only the end of the answer arrived, without text: it \
                     stands for the first token"
                )
            };
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
            let example = || format!("{tokens} tokens arrived, but at most {limit} were requested");
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

    /// Without zeros at the beginning, and without a count beside the role: a server that knows only the total may send
    /// zeros beside every chunk, and one that sends the role with the first token may count that.
    fn running_marks(&self) -> &[UsageMark] {
        let begin = self.marks.iter().position(|mark| mark.tokens > 0 && mark.chunks > 0);
        &self.marks[begin.unwrap_or(self.marks.len())..]
    }

    /// The count that did not grow when text of another step arrived. Such a count does not run.
    fn stood_at(&self) -> Option<u64> {
        let (mut from, mut counted, mut last_step) = (0, 0, 0);
        for mark in self.running_marks() {
            let span = &self.chunks[from..mark.chunks];
            let is_new_step = |(t_read, kind): &(u64, ChunkTokens)| {
                certain(std::slice::from_ref(kind)) > 0 && t_read.saturating_sub(last_step) > SAME_STEP
            };
            if mark.tokens == counted && span.iter().any(is_new_step) {
                return Some(counted);
            }
            if mark.tokens != counted {
                last_step = span.last().map_or(last_step, |(t_read, _)| *t_read);
            }
            (from, counted) = (mark.chunks, mark.tokens);
        }
        None
    }

    /// The server's total, unless it is more than the request allows.
    fn usable_total(&mut self, limit: Option<u32>) -> Option<u64> {
        let total = self.usage.and_then(|usage| usage.completion)?;
        let most = limit.map_or(u64::from(u32::MAX), u64::from);
        // Some servers limit the answer after its reasoning, and count both.
        let reasoning = self.usage.and_then(|usage| usage.reasoning).unwrap_or(0);
        if total.saturating_sub(reasoning) > most || total > u64::from(u32::MAX) {
            let example = || format!("usage.completion_tokens is {total}, but at most {most} were requested");
            self.violations.add(Violation::AboveRequested, example);
            return None;
        }
        Some(total)
    }
}

/// Whether the text that arrived has more tokens than this total. One more may be reasoning and text of one token, in
/// two chunks.
fn is_far_below(total: u64, resolved: &ResolvedChunks, kinds: &[ChunkTokens]) -> bool {
    let with_text = kinds.iter().zip(&resolved.tokens).filter(|(kind, _)| **kind != ChunkTokens::Empty);
    let arrived: u64 = with_text.map(|(_, tokens)| u64::from(*tokens)).sum();
    !resolved.is_known && total.saturating_add(1) < arrived
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
        WireEvent::Usage(Usage { prompt: Some(8), completion: Some(tokens), ..Usage::default() })
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
    fn a_total_after_the_end_counts() {
        let mut account = Accounting::default();
        text(&mut account, &[10, 20]);
        account.take(WireEvent::End, 20);
        account.take(total(2), 30);
        let counted = account.settle(TokenSource::Usage, Some(2));
        assert_eq!(
            (counted.tokens, counted.source, counted.violations),
            (2, TokenSource::Usage, Violations::default())
        );
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
    fn a_total_without_the_reasoning_that_arrived_is_named_and_gives_way() {
        let example = |reported: u64, reasoning: Option<u64>| {
            let mut account = Accounting::default();
            for at in 1..=12 {
                account.take(WireEvent::Reasoning, 10 * at);
                text(&mut account, &[10 * at]);
            }
            text(&mut account, &[130, 140, 150, 160, 170]);
            account.take(WireEvent::Usage(Usage { completion: Some(reported), reasoning, ..Usage::default() }), 180);
            let counted = account.settle(TokenSource::Usage, None);
            let example = counted.violations.each().map(|(_, _, example)| example.to_owned()).collect::<String>();
            (example, counted.tokens)
        };
        let named = "usage.completion_tokens is 5, and 17 chunks arrived, 12 of them with reasoning: `usage` that \
                     leaves reasoning tokens out is not measured: name a `tokenizer`";
        for reasoning in [None, Some(0)] {
            let (example, tokens) = example(5, reasoning);
            assert!(example.starts_with(named) && tokens == 17, "{tokens}: {example}");
        }
        // Fewer than the visible chunks, or with a count of reasoning, it is wrong for another reason.
        assert_eq!(example(2, None), ("usage.completion_tokens is 2, and 17 chunks arrived".to_owned(), 2));
        assert_eq!(example(5, Some(3)), ("usage.completion_tokens is 5, and 17 chunks arrived".to_owned(), 5));
        assert_eq!(example(17, None), (String::new(), 17));
    }

    #[test]
    fn reasoning_is_no_part_of_what_was_requested() {
        let counted = |reasoning: Option<u64>| {
            let mut account = Accounting::default();
            text(&mut account, &[10, 20, 30, 40]);
            account.take(WireEvent::Usage(Usage { completion: Some(28), reasoning, ..Usage::default() }), 50);
            let counted = account.settle(TokenSource::Usage, Some(8));
            (counted.tokens, counted.source, counted.violations == Violations::default())
        };
        assert_eq!(counted(Some(20)), (28, TokenSource::Usage, true));
        assert_eq!(counted(Some(19)), (4, TokenSource::Chunks, false));
        assert_eq!(counted(None), (4, TokenSource::Chunks, false));
    }

    #[test]
    fn a_total_that_can_be_none_gives_way_to_chunks_and_any_other_stays() {
        let counted = |role: Option<u64>, at_the_end: Option<u64>, limit: u32| {
            let mut account = Accounting::default();
            account.take(WireEvent::Role, 0);
            if let Some(tokens) = role {
                account.take(total(tokens), 0);
            }
            text(&mut account, &[10, 20, 30, 40, 50, 60, 70, 80]);
            if let Some(tokens) = at_the_end {
                account.take(total(tokens), 90);
            }
            let counted = account.settle(TokenSource::Usage, Some(limit));
            let violations: Vec<Violation> = counted.violations.each().map(|(class, ..)| class).collect();
            (counted.tokens, counted.source, violations)
        };
        let by_chunks = (8, TokenSource::Chunks, vec![Violation::UsageMismatch]);
        assert_eq!(counted(None, Some(1), 8), by_chunks);
        // A gateway that passes on only the count of the beginning.
        assert_eq!(counted(Some(1), None, 8), by_chunks);
        assert_eq!(counted(Some(3), None, 8), by_chunks);
        // One more is reasoning and text of one token.
        assert_eq!(counted(None, Some(7), 8), (7, TokenSource::Usage, vec![Violation::UsageMismatch]));
        // Pieces of text that are smaller than a token, in an answer as long as allowed, and in one that ended early.
        let by_usage = (3, TokenSource::Usage, vec![Violation::UsageMismatch]);
        assert_eq!((counted(None, Some(3), 3), counted(None, Some(3), 40)), (by_usage.clone(), by_usage));
    }

    const MS: u64 = 1_000_000;

    /// The account of chunks with text that come 50 ms apart, each with the server's count beside it, before an end
    /// with another one.
    fn counted_beside(each: impl Fn(u64) -> u64, at_the_end: Option<u64>) -> CountedTokens {
        let mut account = Accounting::default();
        account.take(WireEvent::Role, 0);
        account.take(total(each(0)), 0);
        for position in 1..=20 {
            text(&mut account, &[position * 50 * MS]);
            account.take(total(each(position)), position * 50 * MS);
        }
        account.take(WireEvent::Chunk(ChunkTokens::Closing), 1_000 * MS);
        if let Some(tokens) = at_the_end {
            account.take(total(tokens), 1_000 * MS);
        }
        account.settle(TokenSource::Usage, Some(20))
    }

    /// Chunks, and the time from the first to the last.
    fn spread(counted: &CountedTokens) -> (usize, u64) {
        let times = |chunk: Option<&TokenChunk>| chunk.unwrap().t_read;
        (counted.chunks.len(), times(counted.chunks.last()) - times(counted.chunks.first()))
    }

    #[test]
    fn a_count_of_zero_beside_every_chunk_takes_none_of_them_away() {
        let counted = counted_beside(|_| 0, Some(20));
        assert_eq!(spread(&counted), (20, 950 * MS));
        assert_eq!((counted.tokens, counted.source, counted.is_per_chunk), (20, TokenSource::Usage, true));
        assert_eq!(counted.violations, Violations::default());
        // Without a total, chunks are counted.
        let counted = counted_beside(|_| 0, None);
        assert_eq!(spread(&counted), (20, 950 * MS));
        assert_eq!((counted.tokens, counted.source, counted.is_per_chunk), (20, TokenSource::Chunks, false));
        assert_eq!(counted.violations.each().next().unwrap().0, Violation::UsageMismatch);
    }

    #[test]
    fn a_count_that_stands_still_is_a_violation_and_takes_no_chunk_away() {
        let counted = counted_beside(|position| position.min(1), None);
        assert_eq!(spread(&counted), (20, 950 * MS));
        assert_eq!((counted.tokens, counted.source, counted.is_per_chunk), (20, TokenSource::Chunks, false));
        let violation = counted.violations.each().next().unwrap();
        assert_eq!((violation.0, violation.1), (Violation::UsageMismatch, 1));
        assert!(violation.2.contains("stayed at 1 while more text arrived"), "{}", violation.2);
        // A total after it is one.
        let counted = counted_beside(|position| position.min(1), Some(20));
        assert_eq!(spread(&counted), (20, 950 * MS));
        assert_eq!((counted.tokens, counted.source, counted.is_per_chunk), (20, TokenSource::Usage, true));
        assert_eq!(counted.violations.each().count(), 1);
    }

    #[test]
    fn a_role_with_the_count_of_the_first_token_takes_it_not_away() {
        let mut account = Accounting::default();
        account.take(WireEvent::Role, 10 * MS);
        account.take(total(1), 10 * MS);
        for (at, tokens) in [(15 * MS, 1), (20 * MS, 2)] {
            text(&mut account, &[at]);
            account.take(total(tokens), at);
        }
        let counted = account.settle(TokenSource::Usage, Some(3));
        assert_eq!((spread(&counted), counted.tokens, counted.is_per_chunk), ((2, 5 * MS), 2, true));
        assert_eq!(counted.violations, Violations::default());
    }

    #[test]
    fn chunks_of_one_step_share_a_count_also_where_they_come_in_two_reads() {
        let mut account = Accounting::default();
        for (at, tokens) in [(10 * MS, 1), (20 * MS, 2), (20 * MS + SAME_STEP, 2), (30 * MS, 3)] {
            text(&mut account, &[at]);
            account.take(total(tokens), at);
        }
        let counted = account.settle(TokenSource::Usage, Some(3));
        assert_eq!((spread(&counted), counted.is_per_chunk), ((3, 20 * MS), true));
        assert_eq!(counted.violations, Violations::default());
    }

    #[test]
    fn a_total_of_an_answer_without_text_is_a_violation_and_its_chunk_is_not_known() {
        let mut account = Accounting::default();
        account.take(WireEvent::Role, 0);
        account.take(WireEvent::Chunk(ChunkTokens::Closing), 500 * MS);
        account.take(total(8), 500 * MS);
        let counted = account.settle(TokenSource::Usage, Some(8));
        assert_eq!((counted.tokens, counted.chunks.len(), counted.is_per_chunk), (8, 1, false));
        assert_eq!(counted.violations.each().next().unwrap().0, Violation::UsageMismatch);
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
