//! A socket that stamps the arrival of bytes, and lets waiting tasks process them before it reads on.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::harness::clock::BenchClock;

/// Stamps err in one direction only: data is never stamped earlier than the read that brought it.
/// To keep it from being stamped later, a read that filled its buffer ends the connection's turn: the tasks that wait for
/// this data are woken, and run, before the next read moves the stamp.
pub(in crate::harness) struct StampedSocket {
    socket: TcpStream,
    clock: BenchClock,
    /// ns of the last read that brought something.
    last_read: Rc<Cell<u64>>,
    /// The last read filled its buffer, and no waiting task has run since.
    is_turn_over: bool,
}

impl StampedSocket {
    pub const fn new(socket: TcpStream, clock: BenchClock, last_read: Rc<Cell<u64>>) -> Self {
        Self { socket, clock, last_read, is_turn_over: false }
    }
}

impl AsyncRead for StampedSocket {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.is_turn_over) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = into.filled().len();
        let poll = Pin::new(&mut self.socket).poll_read(context, into);
        if into.filled().len() > before {
            self.last_read.set(self.clock.now());
            // A shorter read has emptied the socket: the next one waits by itself.
            self.is_turn_over = into.remaining() == 0;
        }
        poll
    }
}

impl AsyncWrite for StampedSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_pending_reader_is_woken_before_the_next_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (ours, _) = listener.accept().await.unwrap();
        theirs.write_all(&[7; 30]).await.unwrap();
        theirs.shutdown().await.unwrap();
        let last_read = Rc::new(Cell::new(0));
        let mut socket = StampedSocket::new(ours, BenchClock::start(), Rc::clone(&last_read));
        let mut turns = Vec::new();
        let mut stamps = Vec::new();
        let mut read = 0;
        poll_fn(|context| {
            // One turn: as much as comes without a pause.
            let mut turn = 0;
            loop {
                let mut bytes = [0; 10];
                let mut into = ReadBuf::new(&mut bytes);
                match Pin::new(&mut socket).poll_read(context, &mut into) {
                    Poll::Pending => {
                        turns.push(turn);
                        return Poll::Pending;
                    }
                    Poll::Ready(outcome) => outcome.unwrap(),
                }
                if into.filled().is_empty() {
                    return Poll::Ready(());
                }
                read += into.filled().len();
                turn += 1;
                stamps.push(last_read.get());
            }
        })
        .await;
        assert_eq!(read, 30);
        assert!(turns.iter().all(|reads| *reads <= 1), "{turns:?}");
        assert!(stamps.is_sorted() && stamps.iter().all(|stamp| *stamp > 0), "{stamps:?}");
    }
}
