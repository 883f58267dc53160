//! Connections to one server: kept open, the last one used first, more when all are busy.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use tokio::io::{AsyncRead as _, AsyncWriteExt as _, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::client::TlsStream;
use tokio_util::either::Either;

use super::tls::{self, Connector, TlsRefusal};
use crate::spec::response_bounds::CONNECT_TIMEOUT;
use crate::tokens::{Violation, Violations};
use crate::transport::connection::{ConnectAttempts, ConnectError};
use base::event::host_port;

/// At the end of a run a server has as long for what it still sends as for its slowest answer, and this much more; in
/// all no longer than the second time.
const LAST_BYTES_SLACK: Duration = Duration::from_millis(100);
const LAST_BYTES_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct ConnectionPool {
    host: String,
    port: u16,
    /// Resolved once, so that no request waits for a name.
    address: Cell<Option<SocketAddr>>,
    /// Each with whether it has carried a request.
    idle: RefCell<Vec<(HttpSocket, bool)>>,
    pub tls: Option<Connector>,
    attempts: ConnectAttempts,
    /// Connections opened.
    pub opened: Cell<u32>,
    /// Kept connections that the server closed while they were idle, as every server may.
    pub idle_closed: Cell<u32>,
    /// Requests sent again over a new connection, because the server closed a kept one at that moment.
    pub resent: Cell<u32>,
    /// What came on connections without a request in flight.
    pub surplus: Rc<RefCell<Violations>>,
    /// The longest time from a request to the first byte of its answer.
    slowest: Cell<Duration>,
    /// The shortest time in which a connection was opened.
    round_trip: Cell<Option<Duration>>,
    /// The read buffer that all connections of a worker share, one at a time.
    pub buffer: RefCell<Vec<u8>>,
}

const READ_AT_ONCE: usize = 64 << 10;

impl ConnectionPool {
    pub fn new(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, buffer: RefCell::new(vec![0; READ_AT_ONCE]), ..Self::default() }
    }

    pub fn authority(&self) -> String {
        host_port(&self.host, self.port)
    }

    /// A connection for one request, and whether it was used before.
    pub async fn take(&self) -> Result<(HttpSocket, bool), ConnectError> {
        let asked = Instant::now();
        if let Some(kept) = self.take_idle() {
            return Ok(kept);
        }
        let turn = self.attempts.turn(asked).await;
        // Another request may have ended meanwhile.
        if let Some(kept) = self.take_idle() {
            return Ok(kept);
        }
        let _turn = turn?;
        self.attempt().await.map(|socket| (socket, false))
    }

    fn take_idle(&self) -> Option<(HttpSocket, bool)> {
        while let Some((mut socket, is_used)) = self.idle.borrow_mut().pop() {
            match idle_state(&mut socket) {
                IdleState::Quiet => return Some((socket, is_used)),
                IdleState::Closed => self.idle_closed.set(self.idle_closed.get() + 1),
                IdleState::Surplus => self.note_surplus(),
            }
        }
        None
    }

    pub fn put(&self, socket: HttpSocket) {
        self.idle.borrow_mut().push((socket, true));
    }

    fn note_surplus(&self) {
        let example = || "the server sent bytes on a connection without a request in flight".to_owned();
        self.surplus.borrow_mut().add(Violation::AfterEnd, example);
    }

    /// An answer began this long after its request.
    pub fn note_first_byte(&self, after: Duration) {
        self.slowest.set(self.slowest.get().max(after));
    }

    /// To the server and back, as far as that is known.
    pub fn round_trip(&self) -> Duration {
        self.round_trip.get().unwrap_or_default()
    }

    /// At the end of a run: a surplus answer that a request took for its own, because it came after the request was
    /// sent, leaves that request's own answer to come.
    pub async fn end(&self) {
        let patience = (self.slowest.get() + LAST_BYTES_SLACK).min(LAST_BYTES_PATIENCE);
        let used = self.idle.take().into_iter().filter(|(_, is_used)| *is_used);
        let states = used.map(|(mut socket, _)| async move {
            tokio::time::timeout(patience, last_state(&mut socket)).await.is_ok_and(|state| state == IdleState::Surplus)
        });
        join_all(states).await.into_iter().filter(|is_surplus| *is_surplus).for_each(|_| self.note_surplus());
    }

    /// Opens `count` connections in advance.
    pub async fn warm(&self, count: usize) -> Result<(), ConnectError> {
        while self.idle.borrow().len() < count {
            let socket = self.open().await?;
            self.idle.borrow_mut().push((socket, false));
        }
        Ok(())
    }

    /// A new connection.
    pub async fn open(&self) -> Result<HttpSocket, ConnectError> {
        let _turn = self.attempts.turn(Instant::now()).await?;
        self.attempt().await
    }

    async fn attempt(&self) -> Result<HttpSocket, ConnectError> {
        let opened = self.connect().await;
        self.attempts.note(&opened);
        if opened.is_ok() {
            self.opened.set(self.opened.get() + 1);
        }
        opened
    }

    /// The error text for a broken connection.
    pub fn connection_error_text(&self, error: &std::io::Error) -> String {
        match (tls::alert(error), &self.tls) {
            (Some(alert), Some(tls)) => TlsRefusal { alert, has_certificate: tls.has_certificate }.to_string(),
            _ => format!("the connection broke: {error}"),
        }
    }

    async fn connect(&self) -> Result<HttpSocket, ConnectError> {
        let socket = tokio::time::timeout(CONNECT_TIMEOUT, self.connect_socket()).await;
        let socket = socket.map_err(|_| ConnectError::late())??;
        socket.set_nodelay(true)?;
        let Some(tls) = &self.tls else { return Ok(Either::Left(socket)) };
        let secured = tokio::time::timeout(CONNECT_TIMEOUT, tls.handshake(socket, &self.host)).await;
        let late = |_| {
            let late = format!("no TLS handshake within {} s", CONNECT_TIMEOUT.as_secs());
            ConnectError::new(format!("it took the connection, and {late}: does it speak TLS at this port?"))
        };
        Ok(Either::Right(Box::new(secured.map_err(late)??)))
    }

    async fn connect_socket(&self) -> Result<TcpStream, ConnectError> {
        match self.address.get() {
            Some(address) => Ok(self.connect_to(address).await?),
            None => self.first().await,
        }
    }

    async fn connect_to(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let begin = Instant::now();
        let socket = TcpStream::connect(address).await?;
        let took = begin.elapsed();
        self.round_trip.set(Some(self.round_trip.get().map_or(took, |least| least.min(took))));
        Ok(socket)
    }

    /// Tries the host's addresses in order and keeps the first that accepts.
    async fn first(&self) -> Result<TcpStream, ConnectError> {
        let actual = lookup_host((self.host.as_str(), self.port)).await;
        let unknown = |error: io::Error| ConnectError::new(format!("cannot resolve {}: {error}", self.host));
        let mut last = ConnectError::new("the name has no address");
        for address in actual.map_err(unknown)? {
            match self.connect_to(address).await {
                Ok(socket) => {
                    self.address.set(Some(address));
                    return Ok(socket);
                }
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }
}

// One connection to a server: plain, or within TLS.

pub(crate) type HttpSocket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

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

/// A system call, since tokio learns of new bytes only when its reactor runs: an answer that came since would pass for
/// the next one's.
fn idle_state(socket: &mut HttpSocket) -> IdleState {
    let mut start = [0; LONGEST_START];
    match socket {
        Either::Left(socket) => match recv(&*socket, &mut start, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, length)) => IdleState::of_read(&start[..length]),
            Err(Errno::AGAIN) => IdleState::Quiet,
            Err(_) => IdleState::Closed,
        },
        Either::Right(stream) => {
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

/// Closes our half and waits for what the server still sends: nothing but its own close, once it has answered every
/// request.
async fn last_state(socket: &mut HttpSocket) -> IdleState {
    match idle_state(socket) {
        IdleState::Quiet => {}
        state => return state,
    }
    let mut start = [0; LONGEST_START];
    if socket.shutdown().await.is_err() {
        return IdleState::Closed;
    }
    read(socket, &mut start).await.map_or(IdleState::Closed, |length| IdleState::of_read(&start[..length]))
}

/// How many bytes came; none at the end.
pub(super) fn poll_read(socket: &mut HttpSocket, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
    let mut into = ReadBuf::new(buffer);
    Poll::Ready(match ready!(Pin::new(socket).poll_read(cx, &mut into)) {
        // Many servers close without a TLS close_notify; the answer's own length shows what that means.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read.map(|()| into.filled().len()),
    })
}

pub(super) async fn read(socket: &mut HttpSocket, buffer: &mut [u8]) -> io::Result<usize> {
    poll_fn(|cx| poll_read(socket, cx, buffer)).await
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn connections_that_were_opened_ahead_are_taken_first_and_are_not_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pool = ConnectionPool::new("127.0.0.1", listener.local_addr().unwrap().port());
        pool.warm(3).await.unwrap();
        let mut taken = Vec::new();
        for _ in 0..3 {
            let (socket, is_used) = pool.take().await.unwrap();
            assert!(!is_used);
            taken.push(socket);
        }
        assert_eq!(pool.opened.get(), 3);
        pool.put(taken.remove(0));
        assert!(pool.take().await.unwrap().1);
        assert!(!pool.take().await.unwrap().1);
        assert_eq!(pool.opened.get(), 4);
    }
    /// A pool with one connection that has carried a request, and the server's side of it.
    async fn kept() -> (ConnectionPool, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = ConnectionPool::new("127.0.0.1", listener.local_addr().unwrap().port());
        let (socket, _) = pool.take().await.unwrap();
        let (server, _) = listener.accept().unwrap();
        pool.put(socket);
        // The reactor knows that there is nothing to read.
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (socket, is_used) = pool.take().await.unwrap();
        assert!(is_used);
        pool.put(socket);
        drop(std::thread::spawn(move || listener.accept()));
        (pool, server)
    }

    fn surplus(pool: &ConnectionPool) -> Vec<(Violation, u64)> {
        pool.surplus.borrow().each().map(|(class, count, _)| (class, count)).collect()
    }

    #[tokio::test]
    async fn bytes_on_an_idle_connection_are_no_next_answer_and_no_close() {
        let (pool, mut server) = kept().await;
        server.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
        assert!(!pool.take().await.unwrap().1);
        assert_eq!((surplus(&pool), pool.idle_closed.get()), (vec![(Violation::AfterEnd, 1)], 0));
    }

    #[tokio::test]
    async fn a_close_with_or_without_status_408_is_no_surplus() {
        for bytes in ["", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"] {
            let (pool, mut server) = kept().await;
            server.write_all(bytes.as_bytes()).unwrap();
            drop(server);
            assert!(!pool.take().await.unwrap().1);
            assert_eq!((surplus(&pool), pool.idle_closed.get()), (vec![], 1));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_still_to_come_at_the_end_is_surplus() {
        for sends in [true, false] {
            let (pool, mut server) = kept().await;
            pool.note_first_byte(Duration::from_secs(3));
            let server = std::thread::spawn(move || {
                let end = std::io::Read::read(&mut server, &mut [0; 1]).unwrap();
                std::thread::sleep(Duration::from_millis(20));
                if sends {
                    server.write_all(b"HTTP/1.1 200 OK\r\n").unwrap();
                }
                end
            });
            pool.end().await;
            assert_eq!(server.join().unwrap(), 0);
            assert_eq!(surplus(&pool).len(), usize::from(sends));
        }
    }
}
