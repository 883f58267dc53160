//! From the pieces of one answer to its tokens: what counts, when it came, whether the answer is whole.

use super::scan::{self, Seen};
use super::sse::{Event, Events};
use super::talk::Heard;
use super::target::Api;
use crate::harness::record::{Chunk, Class};

/// Beyond this an answer that does not stream is no answer to us.
const LONGEST_WHOLE: usize = 256 << 20;
/// Of an answer with an error status.
const LONGEST_ERROR: usize = 8 << 10;

pub(super) type Fault = (Class, String);

/// Listens to one answer.
#[derive(Debug)]
pub(super) struct Listener<'h> {
    api: Api,
    /// Tokens that were asked for, for answers that do not say how many they have.
    asked: u32,
    events: Events,
    /// An answer in one piece, or an error.
    whole: Vec<u8>,
    status: u16,
    is_events: bool,
    /// Tokens by the server's running count.
    counted: u64,
    /// A text without anything in it, at this time: a token if another follows.
    held: Option<u64>,
    is_finished: bool,
    /// `[DONE]`.
    is_done: bool,
    pub heard: &'h mut Heard,
}

impl<'h> Listener<'h> {
    pub fn new(api: Api, asked: u32, heard: &'h mut Heard) -> Self {
        Self {
            api,
            asked,
            events: Events::default(),
            whole: Vec::new(),
            status: 0,
            is_events: false,
            counted: 0,
            held: None,
            is_finished: false,
            is_done: false,
            heard,
        }
    }

    pub fn head(&mut self, status: u16, is_events: bool) {
        self.status = status;
        self.is_events = is_events && status == 200;
    }

    /// Tokens so far.
    pub fn tokens(&self) -> u32 {
        self.heard.chunks.iter().map(|chunk| chunk.tokens).sum()
    }

    /// The server said that there is no more.
    fn finish(&mut self) {
        self.is_finished = true;
        self.heard.final_marker = true;
    }

    /// A piece of the body that was read at `t_read`.
    pub fn data(&mut self, piece: &[u8], t_read: u64) -> Result<(), Fault> {
        if self.is_events {
            let mut events = std::mem::take(&mut self.events);
            let result = events.feed(piece, |event| self.event(event, t_read));
            self.events = events;
            return result;
        }
        let (most, is_error) = if self.status == 200 { (LONGEST_WHOLE, false) } else { (LONGEST_ERROR, true) };
        let room = most.saturating_sub(self.whole.len());
        if room < piece.len() && !is_error {
            return Err((Class::Stream, format!("the answer is longer than {} MiB", LONGEST_WHOLE >> 20)));
        }
        self.whole.extend_from_slice(&piece[..piece.len().min(room)]);
        Ok(())
    }

    /// The body is whole; its last bytes were read at `t_read`.
    pub fn end(&mut self, t_read: u64) -> Result<(), Fault> {
        if self.status != 200 {
            return Err(self.refusal());
        }
        if !self.is_events {
            let whole = std::mem::take(&mut self.whole);
            return self.whole_answer(&whole, t_read);
        }
        let mut events = std::mem::take(&mut self.events);
        events.finish(|event| self.event(event, t_read))?;
        let has_ended = match self.api {
            // The end of the stream is Triton's only mark.
            Api::Generate => {
                self.finish();
                true
            }
            Api::OpenaiChat | Api::OpenaiCompletions => self.is_done || self.is_finished,
        };
        if !has_ended {
            let tokens = self.tokens();
            let why = format!("the stream ended after {tokens} tokens without a finish_reason and without [DONE]");
            return Err((Class::Short, why));
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, t_read: u64) -> Result<(), Fault> {
        if event.data == b"[DONE]" {
            self.is_done = true;
            self.heard.final_marker = true;
            return Ok(());
        }
        self.keep(event.data);
        let seen = self.scan(event.data)?;
        if event.is_error && seen.error.is_none() {
            return Err((Class::Server, scan::plain(event.data)));
        }
        self.note(&seen, t_read, false)
    }

    fn whole_answer(&mut self, whole: &[u8], t_read: u64) -> Result<(), Fault> {
        self.keep(whole);
        let seen = self.scan(whole)?;
        self.note(&seen, t_read, true)?;
        self.finish();
        Ok(())
    }

    fn keep(&mut self, event: &[u8]) {
        if let Some(kept) = &mut self.heard.kept {
            kept.push(event.to_vec());
        }
    }

    fn scan<'t>(&self, text: &'t [u8]) -> Result<Seen<'t>, Fault> {
        let seen = match self.api {
            Api::Generate => scan::generate(text),
            Api::OpenaiChat | Api::OpenaiCompletions => scan::openai(text),
        };
        seen.map_err(|error| (Class::Stream, format!("{error}: {}", scan::plain(&text[..text.len().min(200)]))))
    }

    fn note(&mut self, seen: &Seen<'_>, t_read: u64, is_whole: bool) -> Result<(), Fault> {
        if let Some(error) = seen.error {
            return Err((Class::Server, scan::plain(error)));
        }
        self.is_finished |= seen.is_finished;
        let running = seen.usage.and_then(|usage| usage.completion);
        if seen.usage.is_some() {
            self.heard.usage = seen.usage;
        }
        if is_whole && seen.has_choices {
            // Texts do not say how many tokens they are.
            let known = if seen.are_ids { Some(u64::from(seen.tokens)) } else { running };
            let tokens = known.map_or(self.asked, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
            if tokens > 0 {
                self.heard.chunks.push(Chunk { t_read, tokens });
            }
            return Ok(());
        }
        let is_counting = seen.has_choices && running.is_some();
        let tokens = match running {
            // Usage in every event says how many tokens each one brought.
            Some(running) if is_counting => {
                let more = running.saturating_sub(self.counted);
                self.counted = running.max(self.counted);
                u32::try_from(more).unwrap_or(u32::MAX)
            }
            _ => seen.tokens,
        };
        if tokens == 0 {
            return Ok(());
        }
        if let Some(t_held) = self.held.take() {
            self.heard.chunks.push(Chunk { t_read: t_held, tokens: 1 });
        }
        if seen.has_empty && self.api == Api::Generate {
            self.held = Some(t_read);
        } else {
            self.heard.chunks.push(Chunk { t_read, tokens });
        }
        Ok(())
    }

    fn refusal(&self) -> Fault {
        let class = if matches!(self.status, 429 | 503) { Class::Refused } else { Class::Server };
        let said = match scan::openai(&self.whole) {
            Ok(Seen { error: Some(error), .. }) => scan::plain(error),
            // vLLM's older shape, FastAPI's, or no JSON at all.
            _ => scan::plain(&self.whole),
        };
        let colon = if said.is_empty() { "" } else { ": " };
        (class, format!("HTTP status {}{colon}{said}", self.status))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn listen(api: Api, body: &[&str]) -> (Heard, Result<(), Fault>) {
        let mut heard = Heard::default();
        let mut listener = Listener::new(api, 10, &mut heard);
        listener.head(200, true);
        let mut outcome = Ok(());
        for (at, piece) in body.iter().enumerate() {
            outcome = outcome.and_then(|()| listener.data(piece.as_bytes(), at as u64));
        }
        let outcome = outcome.and_then(|()| listener.end(body.len() as u64));
        (heard, outcome)
    }

    fn content(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
    }

    const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    const DONE: &str = "data: [DONE]\n\n";

    #[test]
    fn several_events_in_one_read_share_its_time() {
        let two = [content("a"), content("b")].concat();
        let (heard, outcome) = listen(Api::OpenaiChat, &[ROLE, &two, &content("c"), DONE]);
        assert_eq!(outcome, Ok(()));
        let times: Vec<u64> = heard.chunks.iter().map(|chunk| chunk.t_read).collect();
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
            let (heard, outcome) = listen(Api::OpenaiChat, &pieces);
            prop_assert_eq!(outcome, Ok(()));
            prop_assert_eq!(heard.chunks.len(), words.len());
            prop_assert_eq!(heard.usage.unwrap().completion, Some(words.len() as u64));
            prop_assert!(heard.final_marker);
        }
    }

    #[test]
    fn usage_in_every_event_says_how_many_tokens_it_brought() {
        let event =
            |n: u32| format!("data: {{\"choices\":[{{\"text\":\"x\"}}],\"usage\":{{\"completion_tokens\":{n}}}}}\n\n");
        let (heard, outcome) = listen(Api::OpenaiCompletions, &[&event(3), &event(4), &event(4), DONE]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(heard.chunks.iter().map(|chunk| chunk.tokens).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn an_early_end_an_error_and_wrong_json_each_have_their_class() {
        let class = |body: &[&str]| listen(Api::OpenaiChat, body).1.unwrap_err().0;
        assert_eq!(class(&[&content("a")]), Class::Short);
        assert_eq!(class(&[&content("a"), "data: {\"error\":{\"message\":\"no\"}}\n\n"]), Class::Server);
        assert_eq!(class(&["event: error\ndata: {\"detail\":1}\n\n"]), Class::Server);
        assert_eq!(class(&[&content("a"), "data: {\"choices\":\n\n"]), Class::Stream);
    }

    #[test]
    fn an_empty_text_at_the_end_of_a_triton_stream_is_no_token() {
        let event = |text: &str| format!("data: {{\"text_output\":\"{text}\"}}\n\n");
        let (heard, outcome) = listen(Api::Generate, &[&event("a"), &event(""), &event("b"), &event("")]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(heard.chunks.iter().map(|chunk| chunk.t_read).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_refusal_says_what_the_server_said() {
        let refuse = |status, body: &str| {
            let mut heard = Heard::default();
            let mut listener = Listener::new(Api::OpenaiChat, 1, &mut heard);
            listener.head(status, false);
            listener.data(body.as_bytes(), 0).unwrap();
            listener.end(0).unwrap_err()
        };
        let (class, why) = refuse(429, "{\"error\":{\"message\":\"slow down\"}}");
        assert_eq!((class, why.as_str()), (Class::Refused, "HTTP status 429: slow down"));
        assert_eq!(refuse(500, "").0, Class::Server);
        assert_eq!(refuse(500, "oh").1, "HTTP status 500: oh");
    }
}
