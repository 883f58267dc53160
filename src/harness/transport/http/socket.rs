//! One connection to a server: plain, or within TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) enum HttpSocket {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

impl HttpSocket {
    /// Nothing may come on an idle connection: its end would, or what belongs to no request.
    pub fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(socket) => {
                socket.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
            }
            // TLS messages of its own, tickets for example, are read and carry no data.
            Self::Secure(stream) => {
                let mut byte = [0];
                let mut into = ReadBuf::new(&mut byte);
                Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut into).is_pending()
            }
        }
    }
}

impl AsyncRead for HttpSocket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Self::Secure(stream) => match Pin::new(stream).poll_read(cx, buf) {
                // Many servers close without a TLS close_notify; the answer's own length shows what that means.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => read,
            },
        }
    }
}

impl AsyncWrite for HttpSocket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
