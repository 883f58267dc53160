//! Server-sent events, for the client of `generate_stream` and for the load harness: cuts a body into events, wherever
//! its pieces were cut. Whole events are slices of what was read.

use memchr::{memchr, memchr2};

/// The limit of the text that is kept of lines that are no fields.
const LONGEST_STRAY: usize = 2 << 10;
/// A body may begin with it; the first line is what follows.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event: its `data`, and whether its `event` field is `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    pub data: &'a [u8],
    pub is_error: bool,
}

#[derive(Debug, Default)]
pub struct SseParser {
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Data lines of an incomplete event.
    data: Vec<u8>,
    has_data: bool,
    is_error: bool,
    stray: Vec<u8>,
    /// The first line has come.
    has_begun: bool,
    /// The last byte was `\r`: a `\n` that follows belongs to it.
    after_cr: bool,
}

impl SseParser {
    /// Takes the next piece of the body and passes on the events that end in it.
    pub fn feed<E>(&mut self, mut piece: &[u8], mut emit: impl FnMut(SseEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut whole: Option<&[u8]> = None;
        loop {
            if let Some((first, rest)) = piece.split_first()
                && std::mem::take(&mut self.after_cr)
                && *first == b'\n'
            {
                piece = rest;
            }
            let Some(end) = memchr2(b'\n', b'\r', piece) else { break };
            self.after_cr = piece[end] == b'\r';
            let line = &piece[..end];
            piece = &piece[end + 1..];
            if !self.line.is_empty() {
                let mut joined = std::mem::take(&mut self.line);
                joined.extend_from_slice(line);
                if let Some(data) = self.field(&joined) {
                    self.keep(data);
                }
                joined.clear();
                self.line = joined;
            } else if line.is_empty() {
                self.end_event(whole.take(), &mut emit)?;
            } else if let Some(data) = self.field(line) {
                // The usual event has one line of data, and that is not copied.
                if self.has_data || whole.is_some() {
                    if let Some(first) = whole.take() {
                        self.keep(first);
                    }
                    self.keep(data);
                } else {
                    whole = Some(data);
                }
            }
        }
        if let Some(data) = whole {
            self.keep(data);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    /// Bytes that wait for the rest of their event.
    pub fn held(&self) -> usize {
        self.line.len() + self.data.len()
    }

    /// Lines that are neither fields nor comments: some servers write an error in the middle of a stream like this.
    pub fn stray(&self) -> &[u8] {
        self.stray.trim_ascii()
    }

    /// The body has ended: an event without the empty line after it counts too.
    pub fn finish<E>(&mut self, mut emit: impl FnMut(SseEvent<'_>) -> Result<(), E>) -> Result<(), E> {
        self.feed(b"\n\n", &mut emit)
    }

    fn end_event<E>(
        &mut self,
        whole: Option<&[u8]>,
        emit: &mut impl FnMut(SseEvent<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let is_error = std::mem::take(&mut self.is_error);
        let result = match whole {
            Some(data) => emit(SseEvent { data, is_error }),
            None if self.has_data => emit(SseEvent { data: &self.data, is_error }),
            None => Ok(()),
        };
        self.data.clear();
        self.has_data = false;
        result
    }

    fn keep(&mut self, data: &[u8]) {
        if self.has_data {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(data);
        self.has_data = true;
    }

    /// The value of a `data` line, or of the `error` line that llama.cpp writes in its place. Comments and other fields
    /// have none.
    fn field<'l>(&mut self, line: &'l [u8]) -> Option<&'l [u8]> {
        let value = |text: &'l [u8]| text.strip_prefix(b" ").unwrap_or(text);
        let is_later = std::mem::replace(&mut self.has_begun, true);
        let line = if is_later { line } else { line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line) };
        let (name, text) = line.split_at(memchr(b':', line).unwrap_or(line.len()));
        match (name, text.strip_prefix(b":").map(value)) {
            (b"data", Some(text)) => return Some(text),
            (b"event", Some(text)) => self.is_error = text == b"error",
            (b"error", Some(text)) => {
                self.is_error = true;
                return Some(text);
            }
            (b"" | b"id" | b"retry" | b"data" | b"event", _) => {}
            _ if self.stray.len() + line.len() > LONGEST_STRAY => {}
            _ => self.stray.extend(line.iter().chain(b"\n")),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]]) -> Vec<(String, bool)> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        let mut emit = |event: SseEvent<'_>| {
            events.push((String::from_utf8_lossy(event.data).into_owned(), event.is_error));
            Ok::<_, Infallible>(())
        };
        for piece in pieces {
            parser.feed(piece, &mut emit).unwrap();
        }
        parser.finish(&mut emit).unwrap();
        events
    }

    #[test]
    fn events_are_cut_at_every_byte_and_stay_the_same() {
        for end in ["\n", "\r\n", "\r"] {
            let lines = [
                "data: {\"a\": 1}",
                "",
                ": a comment",
                "",
                "event: error",
                "data:{\"b\"}",
                "",
                "data: x",
                "data: y",
                "",
                "data: [DONE]",
                "",
                "",
            ];
            let text = lines.join(end);
            let whole = read(&[text.as_bytes()]);
            let event = |text: &str, is_error| (text.to_owned(), is_error);
            assert_eq!(
                whole,
                [event("{\"a\": 1}", false), event("{\"b\"}", true), event("x\ny", false), event("[DONE]", false)]
            );
            for cut in 0..=text.len() {
                let (one, two) = text.as_bytes().split_at(cut);
                assert_eq!(read(&[one, two]), whole, "cut at {cut}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_events(
            texts in prop::collection::vec("[a-z {}\"é]{0,12}", 0..8),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let body = texts.iter().flat_map(|text| ["data: ", text.as_str(), "\n\n"]).collect::<String>();
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            at.extend([0, body.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|pair| &body.as_bytes()[pair[0]..pair[1]]).collect();
            let event_texts: Vec<String> = read(&pieces).into_iter().map(|(text, _)| text).collect();
            prop_assert_eq!(event_texts, texts);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_sse_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            read(&[&bytes]);
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_the_first_event_and_is_text_later() {
        let body = "\u{feff}data: a\n\n\u{feff}data: b\n\ndata: c\n\n".as_bytes();
        let events = [("a".to_owned(), false), ("c".to_owned(), false)];
        assert_eq!(read(&[body]), events);
        for cut in 0..5 {
            let (one, two) = body.split_at(cut);
            assert_eq!(read(&[one, two]), events, "cut at {cut}");
        }
    }

    #[test]
    fn a_line_of_the_field_error_is_an_error() {
        assert_eq!(
            read(&[b"error: {\"code\":500}\n\ndata: x\n\n"]),
            [("{\"code\":500}".to_owned(), true), ("x".to_owned(), false)]
        );
    }

    #[test]
    fn text_that_is_no_field_is_kept_apart() {
        let mut parser = SseParser::default();
        let mut emit = |_: SseEvent<'_>| Ok::<_, Infallible>(());
        parser
            .feed(b"data: x\n\n: a comment\nid: 1\nretry: 5\nevent: e\ndata\n{\n  \"error\": 1\n}", &mut emit)
            .unwrap();
        parser.finish(&mut emit).unwrap();
        assert_eq!(parser.stray(), b"{\n  \"error\": 1\n}");
    }

    #[test]
    fn an_event_without_its_empty_line_counts_at_the_end() {
        assert_eq!(read(&[b"data: [DONE]"]), [("[DONE]".to_owned(), false)]);
    }
}
