//! A socket that stamps the arrival of bytes, lets waiting tasks process them before it reads on, and writes in one go what is
//! to be sent at one time.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::clock::BenchClock;

/// Stamps err in one direction only: data is never stamped earlier than the read that brought it.
/// To keep it from being stamped later, a read that filled its buffer ends the connection's turn: the tasks that wait for
/// this data are woken, and run, before the next read moves the stamp.
pub(crate) struct StampedSocket {
    socket: TcpStream,
    clock: BenchClock,
    /// ns of the last read that brought something.
    last_read: Rc<Cell<u64>>,
    /// The last read filled its buffer, and no waiting task has run since.
    is_turn_over: bool,
    /// Written, and not yet handed to the kernel: until the next flush, which ends a turn of the connection.
    unsent: BytesMut,
}

/// More than that is not copied together.
const MOST_UNSENT: usize = 64 << 10;

impl StampedSocket {
    pub fn new(socket: TcpStream, clock: BenchClock, last_read: Rc<Cell<u64>>) -> Self {
        Self { socket, clock, last_read, is_turn_over: false, unsent: BytesMut::new() }
    }

    fn poll_send_unsent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unsent.is_empty() {
            match ready!(Pin::new(&mut self.socket).poll_write(context, &self.unsent))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                sent => self.unsent.advance(sent),
            }
        }
        Poll::Ready(Ok(()))
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

/// It is not vectored: then h2 copies small messages together in place of writing each by itself, and a write costs more than
/// all else of a small request.
impl AsyncWrite for StampedSocket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.unsent.len() + bytes.len() <= MOST_UNSENT {
            self.unsent.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        loop {
            let Self { socket, unsent, .. } = &mut *self;
            let parts = [io::IoSlice::new(unsent), io::IoSlice::new(bytes)];
            let sent = ready!(Pin::new(socket).poll_write_vectored(context, &parts))?;
            let of_unsent = sent.min(unsent.len());
            unsent.advance(of_unsent);
            if sent == 0 || sent > of_unsent {
                return Poll::Ready(Ok(sent - of_unsent));
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_unsent(context))?;
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send_unsent(context))?;
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

    #[tokio::test]
    async fn small_writes_leave_together_with_the_flush_and_all_bytes_in_their_order() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut theirs, _) = listener.accept().await.unwrap();
        let mut socket = StampedSocket::new(ours, BenchClock::start(), Rc::default());
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| at as u8).collect();
        let (small, rest) = sent.split_at(300);
        for piece in small.chunks(100) {
            socket.write_all(piece).await.unwrap();
        }
        assert_eq!(socket.unsent.len(), 300);
        let mut bytes = vec![0; 1_000];
        assert_eq!(theirs.try_read(&mut bytes).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        socket.flush().await.unwrap();
        assert_eq!(theirs.read(&mut bytes).await.unwrap(), 300);
        assert_eq!(bytes[..300], *small);
        // More than is copied together, and more than the kernel takes at once.
        let write = async {
            for piece in rest.chunks(1_000_000) {
                socket.write_all(piece).await.unwrap();
                socket.write_all(b"-").await.unwrap();
            }
            socket.shutdown().await.unwrap();
        };
        let mut came = Vec::new();
        let ((), length) = tokio::join!(write, theirs.read_to_end(&mut came));
        assert_eq!(length.unwrap(), rest.len() + 3);
        let wanted: Vec<u8> = rest.chunks(1_000_000).flat_map(|piece| piece.iter().copied().chain(*b"-")).collect();
        assert!(came == wanted);
    }
}
