//! An answer whose bytes are at hand, read as in a measurement, without a connection.

use super::http1_decoder::{DecodeStep, Decoder};
use super::response_reader::{ExpectedAnswer, HttpFault, HttpOutcome, HttpResponseReader};
use crate::record::FailureClass;
use crate::spec::response_bounds::ResponseBounds;
use crate::spec::transport::Api;

/// Reads one HTTP/1.1 answer that comes in these pieces and then ends with its connection; gives its tokens.
///
/// # Errors
/// Why the request would have failed.
pub fn read_http_answer<'a>(api: Api, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<u32, HttpFault> {
    let limits = ResponseBounds::default();
    let mut outcome = HttpOutcome::default();
    let expected = ExpectedAnswer { api, model: "", secrets: &[], tokens: 1, beams: 1, has_choices: false, limits };
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
    if !decoder.may_end() && reader.outcome.account.has_ended() {
        reader.end_within_body(0);
        return Ok(reader.tokens());
    }
    if !decoder.may_end() {
        return Err((FailureClass::Stream, "the server closed the connection in the middle of an answer".to_owned()));
    }
    reader.end(0)?;
    Ok(reader.tokens())
}
