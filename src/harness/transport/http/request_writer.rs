//! A request on its way to the server, which may answer before it has read all of it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::buf::Chain;
use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

use super::socket::HttpSocket;

/// What of a request is still to be written.
pub(super) struct RequestWriter {
    left: Chain<Bytes, Bytes>,
    /// How the writing ended.
    written: Option<io::Result<()>>,
}

impl RequestWriter {
    pub fn new(head: Bytes, body: Bytes) -> Self {
        Self { left: head.chain(body), written: None }
    }

    /// All of it was written.
    pub const fn is_whole(&self) -> bool {
        matches!(self.written, Some(Ok(())))
    }

    /// Why it could not be written.
    pub const fn error(&self) -> Option<&io::Error> {
        match &self.written {
            Some(Err(error)) => Some(error),
            _ => None,
        }
    }

    /// Writes what the connection takes now. True once, when there is no more to write.
    pub fn advance(&mut self, socket: &mut HttpSocket, context: &mut Context<'_>) -> bool {
        if self.written.is_some() {
            return false;
        }
        if let Poll::Ready(written) = self.poll_write(socket, context) {
            self.written = Some(written);
        }
        self.written.is_some()
    }

    fn poll_write(&mut self, socket: &mut HttpSocket, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.left.has_remaining() {
            let mut pieces = [IoSlice::new(&[]); 2];
            let count = self.left.chunks_vectored(&mut pieces);
            let length = ready!(Pin::new(&mut *socket).poll_write_vectored(context, &pieces[..count]))?;
            if length == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left.advance(length);
        }
        Pin::new(socket).poll_flush(context)
    }
}
