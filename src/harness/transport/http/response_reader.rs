//! From the pieces of one answer to its tokens: what counts, when it arrived, whether the answer is complete.

use super::answer_fields::{self, ScannedEvent};
use super::answer_text::AnswerIds;
use super::http1_decoder::{DecodeStep, Decoder};
use crate::record::FailureClass;
use crate::spec::response_bounds::{HeldBytes, LONGEST_NAME, ResponseBounds};
use crate::spec::transport::Api;
use crate::tokens::{Accounting, ChunkTokens, Violation, WireEvent};
use crate::transport::connection::A_PAGE;
use crate::transport::sent_headers::without_secrets;
use base::units::counted;
use triton::{SseEvent, SseParser};

/// The limit of an answer with an error status.
const LONGEST_ERROR: usize = 8 << 10;
/// The limit of an event that cannot be read, in the error.
const LONGEST_EVENT: usize = 200;
/// Bytes of an escape in JSON that a cut may leave.
const LONGEST_ESCAPE: usize = 11;
/// Bytes of an answer's id that are compared, beside its length. Servers' ids have some dozens.
const LONGEST_ID: usize = 256;
/// Blanks and a byte order mark may stand before a field of the first event, within so many bytes.
const LONGEST_BEGINNING: usize = 16;
/// Bytes that a kept event takes in memory beside its own: its place in a list, and what the allocator adds.
const KEPT_EVENT: usize = 64;

pub(super) type HttpFault = (FailureClass, String);

/// The values that an answer is checked against.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExpectedAnswer<'a> {
    pub api: Api,
    /// Of the request, as it is shown where no such path is known.
    pub path: &'a str,
    /// The model of the request; empty where it names none.
    pub model: &'a str,
    /// The keys that were sent; no text of the server shows them.
    pub secrets: &'a [String],
    /// Tokens that were requested, for answers that carry no count.
    pub tokens: u32,
    /// Token ids of an answer are those of so many beams, each as long as the longest.
    pub beams: u32,
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
    /// The `id` of the first event, as far as it is kept, and its length: a server may send one as long as an event.
    id: Option<(Vec<u8>, usize)>,
    /// The role has come.
    has_role: bool,
    is_finished: bool,
    /// The last message without output: the reason, if the answer ends without one of its own.
    notice: Option<String>,
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
            has_role: false,
            is_finished: false,
            notice: None,
            is_done: false,
            kept: 0,
            held: HeldBytes::default(),
            outcome,
        }
    }

    pub fn head(&mut self, status: u16, is_events: bool) {
        self.status = status;
        self.is_events = is_events && !self.is_refusal();
    }

    /// The server refuses the request: what follows the head is its reason.
    pub const fn is_refusal(&self) -> bool {
        !matches!(self.status, 0 | 200..=299)
    }

    /// Tokens so far.
    pub fn tokens(&self) -> u32 {
        self.outcome.account.tokens()
    }

    fn take(&mut self, event: WireEvent, t_read: u64) {
        self.outcome.account.take(event, t_read);
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
        let is_error = self.is_refusal();
        let most = if is_error { LONGEST_ERROR } else { limits.body_bytes() };
        let room = most.saturating_sub(self.body.len());
        if room < piece.len() && !is_error {
            return Err(limits.body_exceeded());
        }
        let begun = self.body.len();
        let kept = &piece[..piece.len().min(room)];
        self.held.set(self.body.len() + kept.len(), &limits)?;
        self.body.extend_from_slice(kept);
        if !is_error && begun < LONGEST_BEGINNING && begins_event(&self.body) {
            let example = "the answer is a stream of events, and its content-type is not text/event-stream".to_owned();
            self.take(WireEvent::Violation(Violation::ContentType, example), t_read);
            self.is_events = true;
            let begin = std::mem::take(&mut self.body);
            return self.data(&begin, t_read);
        }
        // The rest is not awaited: it may never end.
        if is_error && self.body.len() == most { Err(self.cut_refusal()) } else { Ok(()) }
    }

    /// This many bytes followed the complete answer.
    pub fn surplus(&mut self, bytes: usize, t_read: u64) {
        let example = format!("{bytes} bytes arrived after the whole answer");
        self.take(WireEvent::Violation(Violation::AfterEnd, example), t_read);
    }

    /// The body is whole; its last bytes were read at `t_read`.
    pub fn end(&mut self, t_read: u64) -> Result<(), HttpFault> {
        if self.is_refusal() {
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
            self.unless_refused()?;
            let ended = format!("the stream ended after {}", counted(self.tokens(), "token"));
            if !events.stray().is_empty() {
                return Err((FailureClass::Server, format!("{ended}: {}", error_text(events.stray()))));
            }
            return Err((FailureClass::Short, format!("{ended} without a finish_reason and without [DONE]")));
        }
        if !self.outcome.account.has_ended() {
            let message = "the stream ended without [DONE]".to_owned();
            self.take(WireEvent::Violation(Violation::MissingEnd, message), t_read);
        }
        Ok(())
    }

    /// The answer has ended, and its body has not: the server closed the connection, or sends no more. Nothing is
    /// missing of the answer.
    pub fn end_within_body(&mut self, t_read: u64) {
        let reason = "the HTTP body did not end after [DONE]".to_owned();
        self.take(WireEvent::Violation(Violation::MissingEnd, reason), t_read);
    }

    fn event(&mut self, event: SseEvent<'_>, t_read: u64) -> Result<(), HttpFault> {
        self.expected.limits.check_line(event.data.len())?;
        // Proxies keep connections alive with events that have nothing in them.
        if event.data.trim_ascii().is_empty() && !event.is_error {
            return Ok(());
        }
        if event.data.trim_ascii() == b"[DONE]" {
            self.unless_refused()?;
            self.is_done = true;
            self.take(WireEvent::End, t_read);
            return Ok(());
        }
        self.keep_event(event.data);
        if event.is_error {
            return Err((FailureClass::Server, error_text(event.data)));
        }
        let seen = self.scan(event.data)?;
        if let Some(notice) = seen.notice {
            self.notice = Some(answer_fields::decode_json_string(notice));
        }
        self.check(&seen, t_read);
        self.take_ids(event.data, &seen, t_read)?;
        self.apply_event(&seen, t_read)
    }

    /// Err: the stream ends without a finish reason after a message other than output, which says why.
    fn unless_refused(&mut self) -> Result<(), HttpFault> {
        let reason = self.notice.take().filter(|_| !self.is_finished);
        reason.map_or(Ok(()), |reason| Err((FailureClass::Server, reason)))
    }

    fn whole_answer(&mut self, whole: &[u8], t_read: u64) -> Result<(), HttpFault> {
        self.outcome.account.is_whole = true;
        if whole.trim_ascii().is_empty() {
            return Err((FailureClass::Short, format!("the answer is empty (HTTP status {})", self.status)));
        }
        self.keep_event(whole);
        self.held.set(whole.len() + self.kept_bytes(), &self.expected.limits)?;
        let seen = self.scan(whole)?;
        self.check(&seen, t_read);
        if let Some(error) = seen.error {
            return Err((FailureClass::Server, answer_fields::decode_json_string(error)));
        }
        if let Some(why) = seen.notice {
            return Err((FailureClass::Server, answer_fields::decode_json_string(why)));
        }
        if seen.choices == 0 {
            let reason = format!("the answer has no token: {}", beginning(whole, whole.len(), LONGEST_EVENT));
            return Err((FailureClass::Short, reason));
        }
        self.take_ids(whole, &seen, t_read)?;
        if let Some(tokens) = seen.chunks.exact {
            self.take(WireEvent::Chunk(ChunkTokens::Exact(tokens)), t_read);
        } else if seen.chunks.texts > 0 || seen.has_other {
            // Texts carry no token count.
            let tokens = self.expected.tokens.saturating_mul(seen.chunks.texts.max(1));
            self.take(WireEvent::Chunk(ChunkTokens::Requested(tokens)), t_read);
        } else {
            // Its tokens are those that `usage` claims.
            self.take(WireEvent::Chunk(ChunkTokens::Closing), t_read);
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
        let reason = "the answer has no token ids, which LoadGen needs: `extra: { detokenize: false }` requests \
                   them of trtllm-serve, \
                   `extra: { return_token_ids: true }` of vLLM";
        Err((FailureClass::Server, reason.to_owned()))
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
        let scanned = match self.expected.api {
            Api::Generate => answer_fields::generate(text).map(|mut seen| {
                seen.chunks.exact = seen.chunks.exact.map(|ids| ids / self.expected.beams.max(1));
                seen
            }),
            Api::OpenaiChat | Api::OpenaiCompletions => answer_fields::openai(text),
        };
        // Of a body of lines, as Ollama sends it, only the first line is JSON by itself.
        let first_line = || answer_fields::openai(text.split(|byte| *byte == b'\n').next().unwrap_or_default());
        match scanned.or_else(|error| first_line().ok().filter(|line| line.unmeasured.is_some()).ok_or(error)) {
            Ok(ScannedEvent { unmeasured: Some(protocol), .. }) => Err((FailureClass::Stream, protocol.to_string())),
            Ok(seen) => Ok(seen),
            Err(error) => {
                if let Some(page) = html_page(text) {
                    return Err((FailureClass::Stream, format!("the answer {A_PAGE} ({page})")));
                }
                let is_lines = text.contains(&b'\n') && first_line().is_ok();
                let lines = if is_lines { "; JSON lines without empty lines between them are not events" } else { "" };
                let begin = beginning(text, text.len(), LONGEST_EVENT);
                Err((FailureClass::Stream, format!("{error}{lines}: {begin}")))
            }
        }
    }

    /// Every event of an answer has the same id, and names the model of the request, or a version of it; its counts are
    /// counts.
    fn check(&mut self, seen: &ScannedEvent<'_>, t_read: u64) {
        // The key is taken out of each piece, and not of the whole text: the end of a piece may have a part of it.
        let ExpectedAnswer { model, secrets, .. } = self.expected;
        let shown = |raw: &[u8], length: usize| without_secrets(beginning(raw, length, LONGEST_NAME), secrets);
        if let Some(raw) =
            seen.model.filter(|raw| !raw.is_empty() && !model.is_empty() && !raw.starts_with(model.as_bytes()))
        {
            // A name may have been escaped.
            let actual = beginning(raw, raw.len(), LONGEST_NAME);
            if !actual.starts_with(model) && model.len() <= LONGEST_NAME {
                let actual = shown(raw, raw.len());
                let example = format!("the answer names the model {actual}, and {model} was requested");
                self.take(WireEvent::Violation(Violation::WrongModel, example), t_read);
            }
        }
        if let Some((name, value)) = seen.malformed_usage {
            let example = format!("{name} is {}", shown(value, value.len()));
            self.take(WireEvent::Violation(Violation::MalformedUsage, example), t_read);
        }
        if let Some(length) = seen.not_a_length {
            let ids = counted(seen.chunks.exact.unwrap_or(0), "element");
            let example = format!("`sequence_length` is {length}, and `output_ids` has {ids}");
            self.take(WireEvent::Violation(Violation::WrongContent, example), t_read);
        }
        // An event that is about the request, and not of the answer, may have an empty one.
        match (seen.id.filter(|id| !id.is_empty()), &self.id) {
            (Some(id), Some((first, length))) if *length != id.len() || !id.starts_with(first) => {
                let (id, first) = (shown(id, id.len()), shown(first, *length));
                let example = format!("an event has the id {id}, and the first one {first}");
                self.take(WireEvent::Violation(Violation::WrongId, example), t_read);
            }
            (Some(id), None) => self.id = Some((id[..id.len().min(LONGEST_ID)].to_vec(), id.len())),
            _ => {}
        }
    }

    fn apply_event(&mut self, seen: &ScannedEvent<'_>, t_read: u64) -> Result<(), HttpFault> {
        if let Some(error) = seen.error {
            return Err((FailureClass::Server, answer_fields::decode_json_string(error)));
        }
        self.is_finished |= seen.finish.is_some();
        let mut chunks = seen.chunks;
        if seen.has_role {
            self.take(WireEvent::Role, t_read);
            // A server that repeats the role sends output with it in a field that Regatta does not know.
            if std::mem::replace(&mut self.has_role, true) && seen.has_other && seen.finish.is_none() {
                chunks.texts = chunks.texts.max(u32::from(chunks.exact.is_none()));
            }
        }
        if seen.has_reasoning {
            self.take(WireEvent::Reasoning, t_read);
        }
        for tokens in chunks.each() {
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
        if let Some(reason) = seen.other_finish {
            let example = format!("the answer ended with \"{}\"", answer_fields::decode_json_string(reason));
            self.take(WireEvent::Violation(Violation::FinishReason, example), t_read);
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

    /// Like `cut_refusal`, where all of it has come.
    fn refusal(&self) -> HttpFault {
        let class = if matches!(self.status, 429 | 503) { FailureClass::Refused } else { FailureClass::Server };
        if let Some(location) = &self.location {
            return (class, format!("HTTP status {}, a redirect to {location}, which is not followed", self.status));
        }
        let text = error_text(&self.body);
        let colon = if text.is_empty() { "" } else { ": " };
        let path =
            if matches!(self.status, 404 | 405) { format!(" of POST {}", self.expected.path) } else { String::new() };
        (class, format!("HTTP status {}{path}{colon}{text}", self.status))
    }
}

/// A page of a proxy in place of an answer, by its title.
fn html_page(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let lower = text.to_ascii_lowercase();
    let is_html = ["<!doctype html", "<html"].iter().any(|begin| lower.trim_start().starts_with(begin));
    let title = || Some(text[lower.find("<title>")? + 7..lower.find("</title>")?].trim());
    is_html.then(|| title().map_or_else(|| "an HTML page".to_owned(), |title| format!("the HTML page \"{title}\"")))
}

/// The server's message. vLLM's older shape, FastAPI's and what is not JSON are shown as they came, pages by their
/// title.
fn error_text(body: &[u8]) -> String {
    if let Some(page) = html_page(body) {
        return page;
    }
    let scanned = answer_fields::openai(body).ok();
    answer_fields::decode_json_string(scanned.and_then(|seen| seen.error).unwrap_or(body))
}

/// Whether a body is a stream of events, by its first bytes: JSON does not begin like that.
fn begins_event(body: &[u8]) -> bool {
    let begin = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii_start();
    [&b"data:"[..], b"event:", b"id:", b"retry:", b":"].iter().any(|field| begin.starts_with(field))
}

/// The beginning of a text that is written as in JSON and has `length` bytes, of which `raw` are at hand. With `…`
/// where it was cut.
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
mod tests;

// An answer whose bytes are at hand, read as in a measurement, without a connection.

/// Parses one HTTP/1.1 answer that arrives in these pieces, followed by the end of the connection; returns its tokens.
///
/// # Errors
/// Why the request would have failed.
pub fn read_http_answer<'a>(api: Api, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<u32, HttpFault> {
    let limits = ResponseBounds::default();
    let mut outcome = HttpOutcome::default();
    let (path, model, secrets) = ("", "", &[][..]);
    let expected = ExpectedAnswer { api, path, model, secrets, tokens: 1, beams: 1, has_choices: false, limits };
    let mut reader = HttpResponseReader::new(expected, &mut outcome);
    let mut decoder = Decoder::new(limits.header_bytes());
    for (time, mut input) in (0..).zip(pieces) {
        loop {
            match decoder.step(&mut input).map_err(|error| (FailureClass::Stream, error.to_string()))? {
                DecodeStep::More => break,
                DecodeStep::Head(head) => reader.head(head.status, head.is_events),
                DecodeStep::Data(piece) => reader.data(piece, time)?,
                DecodeStep::End => {
                    reader.end(time)?;
                    return Ok(reader.tokens());
                }
            }
        }
    }
    match (decoder.may_end(), reader.outcome.account.has_ended()) {
        (true, _) => reader.end(0)?,
        (false, true) => reader.end_within_body(0),
        (false, false) => {
            return Err((FailureClass::Stream, "the server closed the connection in the middle of an answer".into()));
        }
    }
    Ok(reader.tokens())
}
