//! From the pieces of one answer to its tokens: what counts, when it arrived, whether the answer is complete.

use super::answer_fields::{self, ScannedEvent};
use super::answer_ids::AnswerIds;
use super::request_template::without_key;
use crate::harness::record::FailureClass;
use crate::harness::spec::response_bounds::ResponseBounds;
use crate::harness::spec::transport::Api;
use crate::harness::tokens::{Accounting, ChunkTokens, Violation, WireEvent};
use crate::harness::transport::held_bytes::HeldBytes;
use crate::triton::{SseEvent, SseParser};

/// The limit of an answer with an error status.
const LONGEST_ERROR: usize = 8 << 10;
/// The limit of a name or id that a server sent, in an example.
const LONGEST_NAME: usize = 80;
/// The limit of an event that cannot be read, in the error.
const LONGEST_EVENT: usize = 200;
/// Bytes of an escape in JSON that a cut may leave.
const LONGEST_ESCAPE: usize = 11;
/// Bytes of an answer's id that are compared, beside its length. Servers' ids have some dozens.
const LONGEST_ID: usize = 256;
/// Bytes that a kept event takes in memory beside its own: its place in a list, and what the allocator adds.
const KEPT_EVENT: usize = 64;

pub(super) type HttpFault = (FailureClass, String);

/// The values that an answer is checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedAnswer<'a> {
    pub api: Api,
    /// The model of the request; empty where it names none.
    pub model: &'a str,
    /// The key that was sent; no text of the server shows it.
    pub key: Option<&'a str>,
    /// Tokens that were requested, for answers that carry no count.
    pub tokens: u32,
    /// Several answers to one prompt were requested.
    pub has_choices: bool,
    pub limits: ResponseBounds,
}

/// The outcome of the request.
#[derive(Debug, Default)]
pub(crate) struct HttpOutcome {
    /// Every event as it came, where answers become part of later prompts.
    pub events: Option<Vec<Vec<u8>>>,
    /// Collects token ids, where a driver needs them.
    pub ids: Option<AnswerIds>,
    pub account: Accounting,
    pub t_cancel: Option<u64>,
}

/// An `id` as far as it is kept: a server may send one as long as an event.
#[derive(Debug)]
struct AnswerId {
    start: Vec<u8>,
    length: usize,
}

impl AnswerId {
    fn of(id: &[u8]) -> Self {
        Self { start: Self::start_of(id).to_vec(), length: id.len() }
    }

    fn start_of(id: &[u8]) -> &[u8] {
        &id[..id.len().min(LONGEST_ID)]
    }

    fn is(&self, id: &[u8]) -> bool {
        self.length == id.len() && self.start == Self::start_of(id)
    }
}

/// Listens to one answer.
#[derive(Debug)]
pub(super) struct HttpResponseReader<'h> {
    expected: ExpectedAnswer<'h>,
    events: SseParser,
    /// An answer in one piece, or an error.
    body: Vec<u8>,
    status: u16,
    /// Of a redirect.
    pub location: Option<String>,
    is_events: bool,
    /// A text without anything in it, at this time: a token if another follows.
    pending_empty_at: Option<u64>,
    /// The `id` of the first event; all of an answer have the same.
    id: Option<AnswerId>,
    is_finished: bool,
    /// `[DONE]`.
    is_done: bool,
    /// What events that are kept for later take in memory, in bytes.
    kept: usize,
    held: HeldBytes,
    pub outcome: &'h mut HttpOutcome,
}

impl<'h> HttpResponseReader<'h> {
    pub fn new(expected: ExpectedAnswer<'h>, outcome: &'h mut HttpOutcome) -> Self {
        Self {
            expected,
            events: SseParser::default(),
            body: Vec::new(),
            status: 0,
            location: None,
            is_events: false,
            pending_empty_at: None,
            id: None,
            is_finished: false,
            is_done: false,
            kept: 0,
            held: HeldBytes::default(),
            outcome,
        }
    }

    pub fn head(&mut self, status: u16, is_events: bool) {
        self.status = status;
        self.is_events = is_events && status == 200;
    }

    /// The server refuses the request: what follows the head is its reason.
    pub const fn is_refusal(&self) -> bool {
        !matches!(self.status, 0 | 200)
    }

    /// Tokens so far.
    pub fn tokens(&self) -> u32 {
        self.outcome.account.tokens()
    }

    fn take(&mut self, event: WireEvent, t_read: u64) {
        self.outcome.account.take(event, t_read);
    }

    /// Those that chunks had. A count that the server reports is no token: its answer may have ended.
    pub fn tokens_received(&self) -> u32 {
        u32::try_from(self.outcome.account.live_tokens()).unwrap_or(u32::MAX)
    }

    /// A piece of the body that was read at `t_read`.
    pub fn data(&mut self, piece: &[u8], t_read: u64) -> Result<(), HttpFault> {
        let limits = self.expected.limits;
        if self.is_events {
            let mut events = std::mem::take(&mut self.events);
            let result = events.feed(piece, |event| self.event(event, t_read));
            let held = events.held();
            self.events = events;
            result?;
            limits.check_line(held)?;
            return self.held.set(held + self.kept_bytes(), &limits);
        }
        let is_error = self.status != 200;
        let most = if is_error { LONGEST_ERROR } else { limits.body_bytes() };
        let room = most.saturating_sub(self.body.len());
        if room < piece.len() && !is_error {
            return Err(limits.body_exceeded());
        }
        let kept = &piece[..piece.len().min(room)];
        self.held.set(self.body.len() + kept.len(), &limits)?;
        self.body.extend_from_slice(kept);
        // The rest is not awaited: it may never end.
        if is_error && self.body.len() == most { Err(self.cut_refusal()) } else { Ok(()) }
    }

    /// So many bytes came behind the whole answer.
    pub fn surplus(&mut self, bytes: usize, t_read: u64) {
        let example = format!("{bytes} bytes arrived behind the whole answer");
        self.take(WireEvent::Violation(Violation::AfterEnd, example), t_read);
    }

    /// The body is whole; its last bytes were read at `t_read`.
    pub fn end(&mut self, t_read: u64) -> Result<(), HttpFault> {
        if self.status != 200 {
            return Err(self.refusal());
        }
        if !self.is_events {
            let whole = std::mem::take(&mut self.body);
            return self.whole_answer(&whole, t_read);
        }
        let mut events = std::mem::take(&mut self.events);
        events.finish(|event| self.event(event, t_read))?;
        let has_ended = match self.expected.api {
            // The end of the stream is Triton's only mark.
            Api::Generate => {
                self.take(WireEvent::End, t_read);
                true
            }
            Api::OpenaiChat | Api::OpenaiCompletions => self.is_done || self.is_finished,
        };
        if !has_ended {
            let tokens = self.tokens();
            let why = format!("the stream ended after {tokens} tokens without a finish_reason and without [DONE]");
            return Err((FailureClass::Short, why));
        }
        if !self.outcome.account.has_ended() {
            let why = "the stream ended without [DONE]".to_owned();
            self.take(WireEvent::Violation(Violation::MissingEnd, why), t_read);
        }
        Ok(())
    }

    fn event(&mut self, event: SseEvent<'_>, t_read: u64) -> Result<(), HttpFault> {
        self.expected.limits.check_line(event.data.len())?;
        if event.data.trim_ascii() == b"[DONE]" {
            self.is_done = true;
            self.take(WireEvent::End, t_read);
            return Ok(());
        }
        self.keep_event(event.data);
        let seen = self.scan(event.data)?;
        if event.is_error && seen.error.is_none() {
            return Err((FailureClass::Server, answer_fields::decode_json_string(event.data)));
        }
        self.check_names(&seen, t_read);
        self.take_ids(event.data, &seen, t_read)?;
        self.apply_event(&seen, t_read)
    }

    fn whole_answer(&mut self, whole: &[u8], t_read: u64) -> Result<(), HttpFault> {
        self.outcome.account.note_whole();
        self.keep_event(whole);
        self.held.set(whole.len() + self.kept_bytes(), &self.expected.limits)?;
        let seen = self.scan(whole)?;
        self.check_names(&seen, t_read);
        if let Some(error) = seen.error {
            return Err((FailureClass::Server, answer_fields::decode_json_string(error)));
        }
        self.take_ids(whole, &seen, t_read)?;
        if let Some(tokens) = seen.chunks.exact {
            self.take(WireEvent::Chunk(ChunkTokens::Exact(tokens)), t_read);
        } else if seen.choices > 0 {
            // Texts carry no token count.
            self.take(WireEvent::Chunk(ChunkTokens::Requested(self.expected.tokens)), t_read);
        }
        self.totals(&seen, t_read);
        self.take(WireEvent::End, t_read);
        Ok(())
    }

    /// Token ids, where they are needed. Err: there is output without them.
    fn take_ids(&mut self, event: &[u8], seen: &ScannedEvent<'_>, t_read: u64) -> Result<(), HttpFault> {
        let Some(ids) = self.outcome.ids.as_mut().filter(|_| seen.error.is_none()) else { return Ok(()) };
        let has_output = seen.chunks.texts > 0 || seen.chunks.exact.is_some_and(|tokens| tokens > 0);
        if ids.take(event, t_read) || !has_output {
            return Ok(());
        }
        let why = "the answer has no token ids, and LoadGen is given them: `extra: { detokenize: false }` requests them of trtllm-serve, \
                   `extra: { return_token_ids: true }` of vLLM";
        Err((FailureClass::Server, why.to_owned()))
    }

    /// What is kept of the answer until its end.
    fn kept_bytes(&self) -> usize {
        self.kept + self.outcome.ids.as_ref().map_or(0, |answer| size_of_val(answer.ids.as_slice()))
    }

    fn keep_event(&mut self, event: &[u8]) {
        if let Some(kept) = self.outcome.events.as_mut().filter(|_| !self.outcome.account.has_ended()) {
            kept.push(event.to_vec());
            self.kept += event.len() + KEPT_EVENT;
        }
    }

    fn scan<'t>(&self, text: &'t [u8]) -> Result<ScannedEvent<'t>, HttpFault> {
        let seen = match self.expected.api {
            Api::Generate => answer_fields::generate(text),
            Api::OpenaiChat | Api::OpenaiCompletions => answer_fields::openai(text),
        };
        seen.map_err(|error| (FailureClass::Stream, format!("{error}: {}", beginning(text, text.len(), LONGEST_EVENT))))
    }

    /// Every event of an answer has the same id, and names the model of the request, or a version of it.
    fn check_names(&mut self, seen: &ScannedEvent<'_>, t_read: u64) {
        // The key is taken out of each piece, and not of the whole text: the end of a piece may have a part of it.
        let ExpectedAnswer { model, key, .. } = self.expected;
        let shown = |raw: &[u8], length: usize| without_key(beginning(raw, length, LONGEST_NAME), key);
        if let Some(raw) = seen.model.filter(|raw| !raw.is_empty() && !model.is_empty() && !raw.starts_with(model.as_bytes())) {
            // A name may have been escaped.
            let found = beginning(raw, raw.len(), LONGEST_NAME);
            if !found.starts_with(model) && model.len() <= LONGEST_NAME {
                let found = shown(raw, raw.len());
                let example = format!("the answer names the model {found}, and {model} was requested");
                self.take(WireEvent::Violation(Violation::WrongModel, example), t_read);
            }
        }
        // An event that is about the request, and not of the answer, may have an empty one.
        match (seen.id.filter(|id| !id.is_empty()), &self.id) {
            (Some(id), Some(first)) if !first.is(id) => {
                let (id, first) = (shown(id, id.len()), shown(&first.start, first.length));
                let example = format!("an event has the id {id}, and the first one {first}");
                self.take(WireEvent::Violation(Violation::WrongId, example), t_read);
            }
            (Some(id), None) => self.id = Some(AnswerId::of(id)),
            _ => {}
        }
    }

    fn apply_event(&mut self, seen: &ScannedEvent<'_>, t_read: u64) -> Result<(), HttpFault> {
        if let Some(error) = seen.error {
            return Err((FailureClass::Server, answer_fields::decode_json_string(error)));
        }
        self.is_finished |= seen.finish.is_some();
        if seen.has_role {
            self.take(WireEvent::Role, t_read);
        }
        for tokens in seen.chunks.each() {
            if let Some(t_held) = self.pending_empty_at.take() {
                self.take(WireEvent::Chunk(ChunkTokens::Empty), t_held);
            }
            if tokens == ChunkTokens::Empty && self.expected.api == Api::Generate {
                self.pending_empty_at = Some(t_read);
            } else {
                self.take(WireEvent::Chunk(tokens), t_read);
            }
        }
        self.totals(seen, t_read);
        Ok(())
    }

    /// The server's count, and why the answer ended.
    fn totals(&mut self, seen: &ScannedEvent<'_>, t_read: u64) {
        // Beside one of several choices a running count is that choice's own.
        if let Some(usage) = seen.usage.filter(|_| seen.choices == 0 || !self.expected.has_choices || !self.is_events) {
            self.take(WireEvent::Usage(usage), t_read);
        }
        if let Some(reason) = seen.finish {
            self.take(WireEvent::Finish(reason), t_read);
        }
    }

    /// The failure of a request that the server refuses, with what has come of its reason, which has more.
    pub fn cut_refusal(&self) -> HttpFault {
        let (class, why) = self.refusal();
        let is_marked = why.ends_with('…') || self.body.is_empty();
        (class, if is_marked { why } else { format!("{why}…") })
    }

    /// The same where all of it has come.
    fn refusal(&self) -> HttpFault {
        let class = if matches!(self.status, 429 | 503) { FailureClass::Refused } else { FailureClass::Server };
        if let Some(location) = &self.location {
            return (class, format!("HTTP status {}, a redirect to {location}, which is not followed", self.status));
        }
        let text = match answer_fields::openai(&self.body) {
            Ok(ScannedEvent { error: Some(error), .. }) => answer_fields::decode_json_string(error),
            // vLLM's older shape, FastAPI's, or no JSON at all.
            _ => answer_fields::decode_json_string(&self.body),
        };
        let colon = if text.is_empty() { "" } else { ": " };
        (class, format!("HTTP status {}{colon}{text}", self.status))
    }
}

/// The beginning of a text that is written as in JSON and has `length` bytes, of which `raw` are at hand. With `…` where it was cut.
fn beginning(raw: &[u8], length: usize, most: usize) -> String {
    let piece = &raw[..raw.len().min(most)];
    if piece.len() == length {
        return answer_fields::decode_json_string(piece);
    }
    // The cut may be in the middle of a character, or of an escape: two of six bytes are one character.
    let whole =
        (0..=LONGEST_ESCAPE).find_map(|rest| answer_fields::unescaped(piece.get(..piece.len().checked_sub(rest)?)?));
    whole.unwrap_or_else(|| String::from_utf8_lossy(piece).into_owned()) + "…"
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::harness::tokens::{CountedTokens, TokenSource, Violations};

    fn expected(api: Api) -> ExpectedAnswer<'static> {
        ExpectedAnswer { api, model: "", key: None, tokens: 10, has_choices: false, limits: ResponseBounds::default() }
    }

    fn counted(http_outcome: HttpOutcome) -> CountedTokens {
        http_outcome.account.settle(TokenSource::Usage, None)
    }

    fn listen(api: Api, body: &[&str]) -> (HttpOutcome, Result<(), HttpFault>) {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(api), &mut http_outcome);
        response_reader.head(200, true);
        let mut outcome = Ok(());
        for (at, piece) in body.iter().enumerate() {
            outcome = outcome.and_then(|()| response_reader.data(piece.as_bytes(), at as u64));
        }
        let outcome = outcome.and_then(|()| response_reader.end(body.len() as u64));
        (http_outcome, outcome)
    }

    fn content(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
    }

    const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn several_events_in_one_read_share_its_time() {
        let two = [content("a"), content("b")].concat();
        let (response, outcome) = listen(Api::OpenaiChat, &[ROLE, &two, &content("c"), DONE]);
        assert_eq!(outcome, Ok(()));
        let times: Vec<u64> = counted(response).chunks.iter().map(|chunk| chunk.t_read).collect();
        assert_eq!(times, [1, 1, 2]);
    }

    proptest! {
        #[test]
        fn however_the_body_is_cut_the_tokens_are_the_same(words in prop::collection::vec("[a-z]{0,5}", 1..9), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)) {
            let usage = format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{}}}}}\n\n", words.len());
            let body = [ROLE.to_owned(), words.iter().map(|word| content(word)).collect(), usage, DONE.to_owned()].concat();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            at.extend([0, body.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
            let (response, outcome) = listen(Api::OpenaiChat, &pieces);
            prop_assert_eq!(outcome, Ok(()));
            prop_assert!(response.account.has_ended());
            let counted = counted(response);
            prop_assert!(counted.is_per_chunk);
            prop_assert_eq!(counted.chunks.len(), words.len());
            prop_assert_eq!(counted.usage.unwrap().completion, Some(words.len() as u64));
        }
    }

    #[test]
    fn usage_in_every_event_says_how_many_tokens_it_brought() {
        let event =
            |n: u32| format!("data: {{\"choices\":[{{\"text\":\"x\"}}],\"usage\":{{\"completion_tokens\":{n}}}}}\n\n");
        let (response, outcome) = listen(Api::OpenaiCompletions, &[&event(3), &event(4), &event(4), DONE]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(counted(response).chunks.iter().map(|chunk| chunk.tokens).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn token_ids_are_collected_where_a_driver_needs_them_and_an_answer_without_them_fails() {
        let first = Rc::new(Cell::new(None));
        let listen = |body: &[&str]| {
            let seen = Rc::clone(&first);
            let ids = AnswerIds::new(move |token, at| seen.set(Some((token, at))));
            let mut http_outcome = HttpOutcome { ids: Some(ids), ..HttpOutcome::default() };
            let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiCompletions), &mut http_outcome);
            response_reader.head(200, true);
            let mut pieces = (1_u64..).zip(body);
            let outcome = pieces.try_for_each(|(at, piece)| response_reader.data(piece.as_bytes(), at));
            (http_outcome.ids.unwrap().ids, outcome)
        };
        let event = |ids: &str| {
            format!("data: {{\"choices\":[{{\"text\":\"\",\"token_ids\":{ids},\"finish_reason\":null}}]}}\n\n")
        };
        // trtllm-serve's last event has no tokens, but the reason.
        let last = "data: {\"choices\":[{\"text\":\"\",\"token_ids\":[],\"finish_reason\":\"stop\"}]}\n\n";
        let whole = event("[7,8]") + &event("[9]");
        let (one, rest) = whole.split_at(40);
        assert_eq!(listen(&[one, rest, last, DONE]), (vec![7, 8, 9], Ok(())));
        assert_eq!(first.get(), Some((7, 2)));
        let (_, refused) = listen(&["data: {\"choices\":[{\"text\":\"a\",\"token_ids\":null}]}\n\n"]);
        let (class, why) = refused.unwrap_err();
        assert_eq!(class, FailureClass::Server);
        assert!(why.contains("`extra: { detokenize: false }` requests them of trtllm-serve"), "{why}");
    }

    #[test]
    fn an_early_end_an_error_and_wrong_json_each_have_their_class() {
        let class = |body: &[&str]| listen(Api::OpenaiChat, body).1.unwrap_err().0;
        assert_eq!(class(&[&content("a")]), FailureClass::Short);
        assert_eq!(class(&[&content("a"), "data: {\"error\":{\"message\":\"no\"}}\n\n"]), FailureClass::Server);
        assert_eq!(class(&["event: error\ndata: {\"detail\":1}\n\n"]), FailureClass::Server);
        assert_eq!(class(&[&content("a"), "data: {\"choices\":\n\n"]), FailureClass::Stream);
    }

    #[test]
    fn an_empty_text_at_the_end_of_a_triton_stream_is_no_token() {
        let event = |text: &str| format!("data: {{\"text_output\":\"{text}\"}}\n\n");
        let (response, outcome) = listen(Api::Generate, &[&event("a"), &event(""), &event("b"), &event("")]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(counted(response).chunks.iter().map(|chunk| chunk.t_read).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_refusal_includes_the_server_message() {
        let refuse = |status, body: &str| {
            let mut http_outcome = HttpOutcome::default();
            let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
            response_reader.head(status, false);
            response_reader.data(body.as_bytes(), 0).unwrap();
            response_reader.end(0).unwrap_err()
        };
        let (class, why) = refuse(429, "{\"error\":{\"message\":\"slow down\"}}");
        assert_eq!((class, why.as_str()), (FailureClass::Refused, "HTTP status 429: slow down"));
        assert_eq!(refuse(500, "").0, FailureClass::Server);
        assert!(refuse(500, &"x".repeat(LONGEST_ERROR - 1)).1.starts_with("HTTP status 500: xxx"));
        assert_eq!(refuse(500, "oh").1, "HTTP status 500: oh");
    }

    #[test]
    fn a_key_in_an_id_or_a_name_that_is_cut_is_not_shown_in_part() {
        const KEY: &str = "sk-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM";
        let long = format!("{}{KEY}", "x".repeat(50));
        // The same, with escapes, of which the cut leaves a part.
        let escaped = format!("{}\\u0073\\u006b{}", "x".repeat(50), &KEY[2..]);
        let half = format!("{}{}\\u0036", "x".repeat(67), &KEY[..9]);
        for id in [&long, &escaped, &half] {
            let event = |id: &str, model: &str| {
                format!(
                    "data: {{\"id\":\"{id}\",\"model\":\"{model}\",\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n"
                )
            };
            for events in [
                [event("1", "m"), event(id, "m")],
                [event(id, "m"), event("1", "m")],
                [event("1", "m"), event("1", id)],
            ] {
                let mut http_outcome = HttpOutcome::default();
                let expected = ExpectedAnswer { model: "m", key: Some(KEY), ..expected(Api::OpenaiChat) };
                let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
                response_reader.head(200, true);
                response_reader.data(events.concat().as_bytes(), 1).unwrap();
                let counted = counted(http_outcome);
                let examples = format!("{:?}", counted.violations);
                assert!(examples.contains("x***…") && !examples.contains("sk-0"), "{examples}");
            }
        }
    }

    #[test]
    fn of_a_key_only_what_a_cut_may_have_left_is_taken_for_a_part() {
        let key = Some("token-abc123");
        for (from, to) in [
            ("Invalid token", "Invalid token"),
            ("Invalid token-abc123", "Invalid ***"),
            ("Invalid token-ab…", "Invalid ***…"),
            ("Invalid tok…", "Invalid tok…"),
        ] {
            assert_eq!(without_key(from.to_owned(), key), to);
        }
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(401, false);
        response_reader.data(b"Invalid token", 0).unwrap();
        assert_eq!(response_reader.refusal().1, "HTTP status 401: Invalid token");
        assert_eq!(response_reader.cut_refusal().1, "HTTP status 401: Invalid token…");
    }

    #[test]
    fn of_a_refusal_without_end_no_more_is_read_than_is_kept() {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(503, false);
        let piece = [b'x'; 1 << 10];
        let pieces = (0..100).take_while(|at| response_reader.data(&piece, *at).is_ok()).count();
        assert_eq!(pieces, LONGEST_ERROR / piece.len() - 1, "the one that fills it ends the request");
        let (class, why) = response_reader.data(&piece, 100).unwrap_err();
        assert_eq!(class, FailureClass::Refused);
        assert!(why.starts_with("HTTP status 503: xxx") && why.len() < 500, "{why}");
    }

    #[test]
    fn blanks_around_the_end_a_byte_order_mark_and_empty_names_are_understood() {
        let event = |name: &str| {
            format!("data: {{\"id\":\"{name}\",\"model\":\"{name}\",\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":null}}]}}\n\n")
        };
        let about = "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[]}\n\n";
        let body = format!("\u{feff}{}{about}{}data: [DONE] \n\n", event("m"), event("m"));
        // The mark may be cut.
        for cut in 0..4 {
            let mut http_outcome = HttpOutcome::default();
            let expected = ExpectedAnswer { model: "m", ..expected(Api::OpenaiChat) };
            let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
            response_reader.head(200, true);
            let (one, two) = body.as_bytes().split_at(cut);
            response_reader.data(one, 1).unwrap();
            response_reader.data(two, 2).unwrap();
            response_reader.end(3).unwrap();
            let counted = counted(http_outcome);
            assert_eq!((counted.chunks.len(), counted.violations), (2, Violations::default()), "cut at {cut}");
        }
    }

    #[test]
    fn of_an_id_of_any_length_only_the_beginning_is_kept() {
        let event =
            |id: &str| format!("data: {{\"id\":\"{id}\",\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n");
        let long = "i".repeat(1 << 20);
        let wrong = |second: &str| {
            let mut http_outcome = HttpOutcome::default();
            let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
            response_reader.head(200, true);
            for id in [long.as_str(), second] {
                response_reader.data(event(id).as_bytes(), 1).unwrap();
            }
            assert_eq!(response_reader.id.as_ref().map(|id| id.start.len()), Some(LONGEST_ID));
            counted(http_outcome).violations.each().count() > 0
        };
        assert!(!wrong(&long));
        assert!(wrong(&long[1..]) && wrong("other"));
    }

    #[test]
    fn what_many_small_kept_events_take_is_part_of_the_budget() {
        let mut http_outcome = HttpOutcome { events: Some(Vec::new()), ..HttpOutcome::default() };
        let limits = ResponseBounds { total: 64 << 10, ..ResponseBounds::default() };
        let expected = ExpectedAnswer { limits, ..expected(Api::OpenaiChat) };
        let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
        response_reader.head(200, true);
        let outcome = (0..2_000).try_for_each(|at| response_reader.data(b"data: {}\n\n", at));
        assert_eq!(outcome.unwrap_err().0, FailureClass::TooLarge);
    }
}
