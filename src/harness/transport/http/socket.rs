//! One connection to a server: plain, or within TLS.

use std::io::{self, Read as _};
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) enum HttpSocket {
    Plain(TcpStream),
    Secure(Box<TlsStream<TcpStream>>),
}

/// What has come on a connection without a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleState {
    Quiet,
    Closed,
    /// Bytes that belong to no request.
    Surplus,
}

/// Some servers send this status before they close an idle connection (RFC 9110, 15.5.9).
const REQUEST_TIMEOUT: [&[u8]; 2] = [b"HTTP/1.1 408", b"HTTP/1.0 408"];
const LONGEST_START: usize = 12;

impl IdleState {
    /// Of a read with this result.
    fn of_read(start: &[u8]) -> Self {
        match start {
            [] => Self::Closed,
            start if REQUEST_TIMEOUT.contains(&start) => Self::Closed,
            _ => Self::Surplus,
        }
    }
}

/// Reads what the kernel has, also where tokio does not know yet that it has something.
struct Received<'s>(&'s TcpStream);

impl io::Read for Received<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(recv(self.0, into, RecvFlags::DONTWAIT)?.1)
    }
}

impl HttpSocket {
    /// A system call, since tokio learns of new bytes only when its reactor runs: an answer that came since would pass for the next one's.
    pub fn idle_state(&mut self) -> IdleState {
        let mut start = [0; LONGEST_START];
        match self {
            Self::Plain(socket) => match recv(&*socket, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok((_, length)) => IdleState::of_read(&start[..length]),
                Err(Errno::AGAIN) => IdleState::Quiet,
                Err(_) => IdleState::Closed,
            },
            Self::Secure(stream) => {
                let (socket, session) = stream.get_mut();
                loop {
                    match session.reader().read(&mut start) {
                        Ok(length) => return IdleState::of_read(&start[..length]),
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(_) => return IdleState::Closed,
                    }
                    // TLS messages of its own, tickets for example, are read and carry no data.
                    match session.read_tls(&mut Received(socket)) {
                        Ok(1..) if session.process_new_packets().is_ok() => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return IdleState::Quiet,
                        Ok(_) | Err(_) => return IdleState::Closed,
                    }
                }
            }
        }
    }

    /// Closes our half and waits for what the server still sends: nothing but its own close, once it has answered every request.
    pub async fn last_state(&mut self) -> IdleState {
        match self.idle_state() {
            IdleState::Quiet => {}
            state => return state,
        }
        let mut start = [0; LONGEST_START];
        if self.shutdown().await.is_err() {
            return IdleState::Closed;
        }
        self.read(&mut start).await.map_or(IdleState::Closed, |length| IdleState::of_read(&start[..length]))
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
