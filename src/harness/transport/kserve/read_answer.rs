//! The messages of a stream whose bytes are at hand, read as in a measurement, without a connection.

use bytes::Bytes;

use super::grpc_messages::{Frames, ScanRequest, named, scan_stream};
use crate::record::FailureClass;
use crate::spec::response_bounds::ResponseBounds;

/// Reads the DATA frames of one `ModelStreamInfer` in these pieces; gives the tokens in the tensor `answer`, whose elements are
/// 32-bit ids or, with `is_text`, texts.
///
/// # Errors
/// Why the request would have failed.
pub fn read_grpc_answer<'a>(
    answer: &str,
    is_text: bool,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<u64, (FailureClass, String)> {
    let limits = ResponseBounds::default();
    let mut frames = Frames::of_answer(&limits);
    let mut tokens = 0;
    for piece in pieces {
        frames.push(Bytes::copy_from_slice(piece));
        while let Some(message) = frames.next().map_err(|error| error.fault(&limits))? {
            let (_, error) = named(&message).map_err(|error| error.fault(&limits))?;
            if let Some(error) = error {
                return Err((FailureClass::Server, error.to_owned()));
            }
            let look = ScanRequest { answer, is_text, is_batched: true, has_beams: true };
            tokens += u64::from(scan_stream(&message, &look).map_err(|error| error.fault(&limits))?.tokens);
        }
    }
    Ok(tokens)
}
