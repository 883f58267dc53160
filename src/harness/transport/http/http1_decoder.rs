//! HTTP/1.1 answers, byte by byte: head, then body by length, by chunks, or until the connection closes. No input, no
//! output.

use crate::spec::response_bounds::shortened;
use base::spec::UnmeasuredProtocol;
use base::units::{has_secret_parameter, without_credentials};

const MOST_HEADERS: usize = 96;
/// Other values of `content-encoding` stand beside plain bodies, too: servers write `none` there to keep proxies from
/// compressing.
const COMPRESSIONS: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];
/// Types of the frames that an HTTP/2 server begins with: SETTINGS, GOAWAY. The bytes before it are the frame's length.
const FIRST_FRAMES: [u8; 2] = [4, 7];
/// For a query before the run.
pub(super) const USUAL_HEAD: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error("the answer is not HTTP/1.1: {0}")]
    NotHttp(&'static str),
    /// The head, or the lines after a chunked body.
    #[error("the header of the answer is too long")]
    HeaderTooLong,
    #[error("{}", UnmeasuredProtocol::HTTP2)]
    Http2,
}

use DecodeError::NotHttp;

/// The fields of the response head that a measurement needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub status: u16,
    /// `content-type: text/event-stream`.
    pub is_events: bool,
    /// How the body is compressed, where it is.
    pub compression: Option<&'static str>,
    /// The connection may carry another request.
    pub keeps_alive: bool,
    /// Where a redirect leads, without credentials.
    pub location: Option<String>,
}

/// The kind of the next bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeStep<'a> {
    /// All bytes are used up.
    More,
    Head(ResponseHead),
    /// A piece of the body.
    Data(&'a [u8]),
    /// The answer is whole.
    End,
}

#[derive(Debug)]
enum State {
    Head,
    /// In the line with a chunk's size.
    Size {
        size: u64,
        digits: u32,
        is_past: bool,
    },
    Chunk(u64),
    /// After a chunk's data, until the line feed.
    ChunkEnd,
    /// After the last chunk: how long the present line is, and all lines together.
    Trailer(usize, usize),
    Length(u64),
    UntilClose,
    End,
}

/// One answer. Make a new one for the next.
#[derive(Debug)]
pub(super) struct Decoder {
    state: State,
    head: Vec<u8>,
    longest_head: usize,
}

impl Decoder {
    /// A head of more bytes is refused.
    pub const fn new(longest_head: usize) -> Self {
        Self { state: State::Head, head: Vec::new(), longest_head }
    }

    /// Nothing has come yet.
    pub fn is_untouched(&self) -> bool {
        matches!(self.state, State::Head) && self.head.is_empty()
    }

    /// Whether an answer may end here, now that the connection is closed.
    pub const fn may_end(&self) -> bool {
        matches!(self.state, State::UntilClose | State::End)
    }

    /// Takes bytes from the front of `input`.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<DecodeStep<'a>, DecodeError> {
        loop {
            if let State::End = self.state {
                return Ok(DecodeStep::End);
            }
            if input.is_empty() {
                return Ok(DecodeStep::More);
            }
            match &mut self.state {
                State::Head => {
                    if let Some(head) = self.step_head(input)? {
                        return Ok(DecodeStep::Head(head));
                    }
                }
                State::Size { size, digits, is_past } => {
                    let byte = first(input);
                    match byte {
                        b'\n' if *digits == 0 => return Err(NotHttp("a chunk has no size")),
                        b'\n' if *size == 0 => self.state = State::Trailer(0, 0),
                        b'\n' => self.state = State::Chunk(*size),
                        _ if *is_past => {}
                        b';' | b'\r' | b' ' => *is_past = true,
                        _ => {
                            let digit = (byte as char).to_digit(16).ok_or(NotHttp("a chunk's size is not a number"))?;
                            *digits += 1;
                            if *digits > 15 {
                                return Err(NotHttp("a chunk's size is beyond all bounds"));
                            }
                            *size = *size << 4 | u64::from(digit);
                        }
                    }
                }
                State::Chunk(left) => {
                    let data = split(input, left);
                    if *left == 0 {
                        self.state = State::ChunkEnd;
                    }
                    return Ok(DecodeStep::Data(data));
                }
                State::ChunkEnd => match first(input) {
                    b'\n' => self.state = State::Size { size: 0, digits: 0, is_past: false },
                    b'\r' => {}
                    _ => return Err(NotHttp("a chunk is longer than its size")),
                },
                State::Trailer(line, all) => {
                    *all += 1;
                    if *all > self.longest_head {
                        return Err(DecodeError::HeaderTooLong);
                    }
                    match first(input) {
                        b'\n' if *line == 0 => self.state = State::End,
                        b'\n' => *line = 0,
                        b'\r' => {}
                        _ => *line += 1,
                    }
                }
                State::Length(left) => {
                    let data = split(input, left);
                    if *left == 0 {
                        self.state = State::End;
                    }
                    return Ok(DecodeStep::Data(data));
                }
                State::UntilClose => return Ok(DecodeStep::Data(std::mem::take(input))),
                State::End => {}
            }
        }
    }

    /// `None` before the end of the head, and after an interim one.
    fn step_head(&mut self, input: &mut &[u8]) -> Result<Option<ResponseHead>, DecodeError> {
        let before = self.head.len();
        let room = self.longest_head.saturating_add(1) - before;
        self.head.extend_from_slice(&input[..input.len().min(room)]);
        // A head that comes byte by byte is not parsed for each of them; its beginning is, because a server may speak
        // something else.
        let is_worth_parsing = before == 0 || has_end(&self.head[before.saturating_sub(3)..]);
        if !is_worth_parsing && self.head.len() <= self.longest_head {
            *input = &[];
            return Ok(None);
        }
        let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response.parse(&self.head).map_err(|_| {
            let is_http2 = matches!(*self.head, [0, 0, _, kind, ..] if FIRST_FRAMES.contains(&kind));
            if is_http2 { DecodeError::Http2 } else { NotHttp("its head is not understood") }
        })?;
        let httparse::Status::Complete(length) = parsed else {
            if self.head.len() > self.longest_head {
                return Err(DecodeError::HeaderTooLong);
            }
            *input = &[];
            return Ok(None);
        };
        let (head, body) = read_head(&response)?;
        *input = &input[length - before..];
        self.head.clear();
        // 100 Continue and other interim responses precede the answer.
        if (100..200).contains(&head.status) {
            return Ok(None);
        }
        self.state = body;
        Ok(Some(head))
    }
}

/// Whether an empty line ends here.
fn has_end(head: &[u8]) -> bool {
    [&b"\n\r\n"[..], b"\n\n"].iter().any(|end| memchr::memmem::find(head, end).is_some())
}

fn first(input: &mut &[u8]) -> u8 {
    let byte = input[0];
    *input = &input[1..];
    byte
}

fn split<'a>(input: &mut &'a [u8], left: &mut u64) -> &'a [u8] {
    let take = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
    let (data, rest) = input.split_at(take);
    *input = rest;
    *left -= take as u64;
    data
}

fn read_head(response: &httparse::Response<'_, '_>) -> Result<(ResponseHead, State), DecodeError> {
    let status = response.code.unwrap_or(0);
    let mut head = ResponseHead { status, keeps_alive: response.version == Some(1), ..ResponseHead::default() };
    let mut is_chunked = false;
    let mut length = None;
    for header in response.headers.iter() {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = || String::from_utf8_lossy(header.value).trim().to_ascii_lowercase();
        let compression =
            || COMPRESSIONS.into_iter().find(|name| value().split([',', ' ']).any(|coding| coding == *name));
        if is("transfer-encoding") {
            is_chunked = value().ends_with("chunked");
            head.compression = compression().or(head.compression);
        } else if is("content-length") {
            let value = value();
            // `parse` takes a sign.
            let given = value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()));
            let given = given.ok_or(NotHttp("its length is not a number"))?;
            // RFC 9112, section 6.3: the next answer of this connection could begin at either.
            if length.replace(given).is_some_and(|before| before != given) {
                return Err(NotHttp("it has two lengths"));
            }
        } else if is("connection") {
            let value = value();
            if value.contains("close") {
                head.keeps_alive = false;
            } else if value.contains("keep-alive") {
                head.keeps_alive = true;
            }
        } else if is("content-type") {
            head.is_events = value().starts_with("text/event-stream");
        } else if is("content-encoding") {
            head.compression = compression().or(head.compression);
        } else if is("location") && (300..400).contains(&status) {
            head.location = Some(location(header.value));
        }
    }
    let state = match (status, is_chunked, length) {
        (204 | 304, ..) | (_, false, Some(0)) => State::End,
        (_, true, _) => State::Size { size: 0, digits: 0, is_past: false },
        (_, false, Some(length)) => State::Length(length),
        (_, false, None) => {
            head.keeps_alive = false;
            State::UntilClose
        }
    };
    Ok((head, state))
}

fn location(value: &[u8]) -> String {
    let url = without_credentials(String::from_utf8_lossy(value).trim());
    let end = if has_secret_parameter(&url) { url.find(['?', '#']) } else { None };
    shortened(&url[..end.unwrap_or(url.len())])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Head, body, whether the end was seen, and what was left over.
    fn read(pieces: &[&[u8]]) -> Result<(Option<ResponseHead>, Vec<u8>, bool), DecodeError> {
        let mut decoder = Decoder::new(USUAL_HEAD);
        let (mut head, mut body, mut ended) = (None, Vec::new(), false);
        for piece in pieces {
            let mut input = *piece;
            loop {
                match decoder.step(&mut input)? {
                    DecodeStep::More => break,
                    DecodeStep::Head(found) => head = Some(found),
                    DecodeStep::Data(data) => body.extend_from_slice(data),
                    DecodeStep::End => {
                        ended = true;
                        break;
                    }
                }
            }
        }
        ended |= decoder.may_end();
        Ok((head, body, ended))
    }

    const CHUNKED: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n\
        5\r\nhello\r\n1;x=y\r\n,\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\n";

    #[test]
    fn a_chunked_answer_is_cut_at_every_byte_and_stays_the_same() {
        let events = ResponseHead { status: 200, is_events: true, keeps_alive: true, ..ResponseHead::default() };
        let whole = (Some(events), b"hello, world".to_vec(), true);
        assert_eq!(read(&[CHUNKED]).unwrap(), whole);
        for cut in 0..=CHUNKED.len() {
            let (one, two) = CHUNKED.split_at(cut);
            assert_eq!(read(&[one, two]).unwrap(), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = CHUNKED.chunks(1).collect();
        assert_eq!(read(&bytes).unwrap(), whole);
    }

    #[test]
    fn compressions_are_known_by_their_names() {
        let compression = |encoding: &str| {
            let text = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: 0\r\n\r\n");
            read(&[text.as_bytes()]).unwrap().0.unwrap().compression
        };
        assert_eq!((compression("GZIP"), compression("none"), compression("identity")), (Some("gzip"), None, None));
        let text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(read(&[text]).unwrap().0.unwrap().compression, Some("gzip"));
    }

    #[test]
    fn a_cut_answer_has_no_end() {
        for cut in 0..CHUNKED.len() - 1 {
            assert!(!read(&[&CHUNKED[..cut]]).unwrap().2, "cut at {cut}");
        }
    }

    #[test]
    fn lengths_and_closes_are_understood() {
        let by_length = read(&[
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy",
        ]);
        let head = ResponseHead { status: 503, ..ResponseHead::default() };
        assert_eq!(by_length.unwrap(), (Some(head), b"busy".to_vec(), true));
        let until_close = read(&[b"HTTP/1.1 200 OK\r\n\r\nall", b" of it"]).unwrap();
        assert_eq!((until_close.0.unwrap().keeps_alive, until_close.1), (false, b"all of it".to_vec()));
        assert_eq!(read(&[b"SSH-2.0-OpenSSH\r\n"]), Err(NotHttp("its head is not understood")));
        assert!(read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok"]).is_ok());
        assert!(read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok"]).is_err());
        assert!(read(&[b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok"]).is_err());
        assert!(read(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]).is_err());
    }

    #[test]
    fn a_server_of_http2_only_is_named_by_its_first_frame() {
        let settings = [0, 0, 18, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        let goaway = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(read(&[&settings]), Err(DecodeError::Http2));
        assert_eq!(read(&[&goaway]), Err(DecodeError::Http2));
        let text = DecodeError::Http2.to_string();
        assert!(
            text.starts_with("HTTP/2 without HTTP/1.1 is not measured: put a proxy that speaks HTTP/1.1"),
            "{text}"
        );
        // A frame of another type is no beginning, and neither is a record of TLS.
        assert_eq!(read(&[&[0, 0, 8, 1, 0]]), Err(NotHttp("its head is not understood")));
        assert_eq!(read(&[&[21, 3, 3, 0, 2, 2, 40]]), Err(NotHttp("its head is not understood")));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_http1_decoder_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), chunked: bool) {
            let head: &[u8] = if chunked { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: \
                                             chunked\r\n\r\n" } else { b"HTTP/1.1 " };
            let _ = read(&[head, &bytes]);
        }
    }
}
