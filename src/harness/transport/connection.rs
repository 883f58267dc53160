//! A worker's way to one server: an HTTP/2 connection, which tracks the server's stream limit and reconnects, or a
//! pool of HTTP/1.1 connections; and why a server does not take part in a run: the errors of the queries before it.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use h2::client::Builder;
use http::Request;
use rustix::io::Errno;
use tokio::net::TcpStream;
use tokio::sync::{Mutex, MutexGuard, Notify};

use super::http::ConnectionPool;
use super::kserve::rpc::{self, CallError, RpcSender, StampedSocket};
use super::kserve::shared_stream::SharedStream;
use super::sent_headers::SentHeaders;
use crate::record::BenchClock;
use crate::spec::response_bounds::{CONNECT_TIMEOUT, ResponseBounds};
use crate::tokens::Violations;
use crate::{FailureClass, HarnessError, Transport};
use base::diag::{error_chain, nearest};
use base::event::{Endpoint, host_port};
use base::spec::StreamMode;

/// Windows are large, so that the client does not throttle the server it measures and rarely sends window updates.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;
/// h2 treats many small DATA frames as an attack and ends the connection ("too_many_data_frames"). Streamed tokens are
/// small DATA frames, and a flood of them is expected; the windows bound their memory.
const SMALL_FRAMES: usize = usize::MAX;
/// Streams before the server's own limit is known, as gRPC's libraries have it. Requests do not go before that.
const STREAMS_AT_FIRST: usize = 100;

/// Belongs to one worker.
pub(crate) struct Connection {
    /// Position in `BenchSpec::endpoints`.
    pub endpoint: u32,
    host: String,
    port: u16,
    clock: BenchClock,
    pub in_flight: Cell<usize>,
    /// Notified when there may be room for a request that waits: one has ended, or the server's limit has changed.
    pub freed: Rc<Notify>,
    /// When any stream of this server last had a token, as seen by this worker.
    pub last_token: Rc<Cell<u64>>,
    live: RefCell<Option<RpcSender>>,
    /// One attempt at a time; the rest wait for it.
    connecting: tokio::sync::Mutex<()>,
    attempts: ConnectAttempts,
    last_read: Rc<Cell<u64>>,
    max_streams: Rc<Cell<usize>>,
    pub connects: Cell<u32>,
    /// Requests go over one stream.
    pub is_shared: bool,
    stream: RefCell<Option<Rc<SharedStream>>>,
    /// Shared streams so far.
    pub streams: Cell<u32>,
    /// Messages on shared streams, and bytes on HTTP connections, that belong to no request in flight.
    pub unmatched_messages: Rc<RefCell<Violations>>,
    limits: ResponseBounds,
    /// Set when the server is reached over HTTP/1.1.
    pub pool: Option<ConnectionPool>,
    /// Heads of calls, by method: the same for every request.
    heads: RefCell<Vec<(&'static str, Request<()>)>>,
    /// Those of every request.
    pub headers: SentHeaders,
}

impl Connection {
    pub fn new(
        position: u32,
        endpoint: &Endpoint,
        protocol: &Transport,
        mode: StreamMode,
        limits: ResponseBounds,
        clock: BenchClock,
        last_token: Rc<Cell<u64>>,
    ) -> Self {
        let (port, pool) = match protocol {
            Transport::Kserve => (endpoint.grpc, None),
            Transport::Http(_) => {
                let port = endpoint.http_port();
                (port, Some(ConnectionPool::new(&endpoint.host, port)))
            }
        };
        let unmatched_messages = pool.as_ref().map_or_else(Rc::default, |pool| Rc::clone(&pool.surplus));
        Self {
            endpoint: position,
            host: endpoint.host.clone(),
            port,
            pool,
            clock,
            in_flight: Cell::new(0),
            freed: Rc::default(),
            last_token,
            live: RefCell::new(None),
            connecting: tokio::sync::Mutex::new(()),
            attempts: ConnectAttempts::default(),
            last_read: Rc::default(),
            max_streams: Rc::new(Cell::new(usize::MAX)),
            connects: Cell::new(0),
            is_shared: mode == StreamMode::Shared,
            stream: RefCell::new(None),
            streams: Cell::new(0),
            unmatched_messages,
            limits,
            heads: RefCell::default(),
            headers: SentHeaders::default(),
        }
    }

    /// The head of a call of Triton's inference service.
    pub fn head(&self, method: &'static str) -> Result<Request<()>, CallError> {
        if let Some((_, head)) = self.heads.borrow().iter().find(|(name, _)| *name == method) {
            return Ok(head.clone());
        }
        let head = rpc::head(&self.authority(), method, &self.headers)?;
        self.heads.borrow_mut().push((method, head.clone()));
        Ok(head)
    }

    /// The stream that carries all requests of this connection; opened when none is open.
    pub async fn shared(&self) -> Result<Rc<SharedStream>, CallError> {
        if let Some(stream) = self.open_stream() {
            return Ok(stream);
        }
        let sender = self.sender().await?;
        // Another request may have opened one meanwhile.
        if let Some(stream) = self.open_stream() {
            return Ok(stream);
        }
        let head = self.head("ModelStreamInfer")?;
        let stream = Rc::new(SharedStream::open(
            sender,
            head,
            Rc::clone(&self.last_read),
            Rc::clone(&self.unmatched_messages),
            self.limits,
        )?);
        *self.stream.borrow_mut() = Some(Rc::clone(&stream));
        self.streams.set(self.streams.get() + 1);
        Ok(stream)
    }

    fn open_stream(&self) -> Option<Rc<SharedStream>> {
        self.stream.borrow().as_ref().filter(|stream| stream.is_living()).cloned()
    }

    /// The most requests in flight at once on this connection.
    pub fn max_in_flight(&self) -> usize {
        if self.is_shared { usize::MAX } else { self.max_streams() }
    }

    pub fn authority(&self) -> String {
        host_port(&self.host, self.port)
    }

    /// ns of the last socket read that brought something. Chunks handed out now were complete by then.
    pub fn last_read(&self) -> u64 {
        self.last_read.get()
    }

    /// The server's limit on concurrent streams, as last announced.
    pub fn max_streams(&self) -> usize {
        self.max_streams.get()
    }

    /// Connections that were lost and opened again.
    pub fn reconnects(&self) -> u32 {
        self.pool.as_ref().map_or(self.connects.get(), |_| 0)
    }

    /// Returns the sender for requests; connects when none is open.
    pub async fn sender(&self) -> Result<RpcSender, ConnectError> {
        if let Some(sender) = self.live_sender() {
            return Ok(sender);
        }
        let asked = Instant::now();
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(sender) = self.live_sender() {
            return Ok(sender);
        }
        let _turn = self.attempts.turn(asked).await?;
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await;
        let connected = connected.unwrap_or_else(|_| Err(ConnectError::late()));
        self.attempts.note(&connected);
        if let Ok(sender) = &connected {
            self.connects.set(self.connects.get() + 1);
            *self.live.borrow_mut() = Some(sender.clone());
        }
        connected
    }

    fn live_sender(&self) -> Option<RpcSender> {
        let mut sender = self.live.borrow().clone()?;
        // An error is that of the connection, which takes no more requests.
        let has_ended = matches!(sender.poll_ready(&mut Context::from_waker(Waker::noop())), Poll::Ready(Err(_)));
        (!has_ended).then_some(sender)
    }

    async fn connect(&self) -> Result<RpcSender, ConnectError> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await?;
        socket.set_nodelay(true)?;
        let socket = StampedSocket::new(socket, self.clock, Rc::clone(&self.last_read));
        let (sender, mut connection) = Builder::new()
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(SMALL_FRAMES)
            .initial_max_send_streams(STREAMS_AT_FIRST)
            .enable_push(false)
            .handshake(socket)
            .await?;
        let (max_streams, freed) = (Rc::clone(&self.max_streams), Rc::clone(&self.freed));
        // Ends when the server closes; the worker's end takes it along.
        tokio::task::spawn_local(std::future::poll_fn(move |context| {
            let poll = Pin::new(&mut connection).poll(context);
            let limit = match max_streams.get() {
                _ if poll.is_pending() => connection.max_concurrent_send_streams(),
                // The next request connects again, and that connection has a limit of its own.
                0 => STREAMS_AT_FIRST,
                last => last,
            };
            if max_streams.replace(limit) != limit {
                freed.notify_waiters();
            }
            // Requests in flight receive the error on their own streams.
            poll.map(drop)
        }));
        Ok(sender)
    }
}

// When a server may be tried again that could not be reached, and which requests learn of it.

/// Time between two attempts to connect. It bounds how long a request waits for its own attempt, and limits a worker to
/// a few attempts a second against a dead server.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Attempts to connect to one server. While the last one failed there is one at a time, and a request that waits for it
/// shares its error: none fails by an attempt that was made before it needed a connection.
#[derive(Default)]
pub(crate) struct ConnectAttempts {
    /// The last one, if it failed: when that was known.
    failed: RefCell<Option<(Instant, ConnectError)>>,
    turn: Mutex<()>,
}

/// Held by the one request that may connect now.
pub(crate) struct ConnectTurn<'a> {
    _alone: Option<MutexGuard<'a, ()>>,
}

impl ConnectAttempts {
    /// Waits until a request may connect that has needed a connection since `asked`. An error is that of another
    /// request's attempt, which has failed meanwhile.
    pub async fn turn(&self, asked: Instant) -> Result<ConnectTurn<'_>, ConnectError> {
        if self.failed.borrow().is_none() {
            return Ok(ConnectTurn { _alone: None });
        }
        let alone = self.turn.lock().await;
        let next = match &*self.failed.borrow() {
            // The server is back: all who waited connect at once.
            None => return Ok(ConnectTurn { _alone: None }),
            Some((at, error)) if *at >= asked => return Err(error.clone()),
            Some((at, _)) => *at + RETRY_AFTER,
        };
        tokio::time::sleep_until(next.into()).await;
        Ok(ConnectTurn { _alone: Some(alone) })
    }

    /// To be called with the outcome of every attempt, before its turn ends.
    pub fn note<T>(&self, outcome: &Result<T, ConnectError>) {
        *self.failed.borrow_mut() = outcome.as_ref().err().map(|error| (Instant::now(), error.clone()));
    }
}

// Why connecting to a server failed.

/// Why a connection failed; a request without a connection fails with it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct ConnectError {
    pub class: FailureClass,
    pub why: String,
}

impl ConnectError {
    pub fn new(why: impl Into<String>) -> Self {
        Self { class: FailureClass::Connect, why: why.into() }
    }

    pub fn late() -> Self {
        Self::new(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        match client_cure(&error) {
            Some(cure) => Self { class: FailureClass::Client, why: format!("{error}: {cure}") },
            None => Self::new(error.to_string()),
        }
    }
}

impl From<h2::Error> for ConnectError {
    fn from(error: h2::Error) -> Self {
        Self::new(error_chain(&error))
    }
}

/// What helps where this machine has no more ports or descriptors.
fn client_cure(error: &io::Error) -> Option<&'static str> {
    match Errno::from_raw_os_error(error.raw_os_error()?) {
        Errno::ADDRNOTAVAIL => Some("all local ports to this server are taken (net.ipv4.ip_local_port_range)"),
        Errno::MFILE => Some("raise `ulimit -n`"),
        _ => None,
    }
}

/// What to set for a server that refuses access.
pub(crate) const NAME_THE_KEY: &str = "name the variable with `api_key_env`, for another header with `request.headers`";
pub(super) const A_PAGE: &str = "is a web page, not JSON: another server answered, or a proxy that requires a login";

/// Why a server, or its model, cannot be used. Reads after the endpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("{method}: {error}")]
    Call { method: &'static str, error: CallError },
    /// Of the server, not of the model alone.
    #[error("{0}")]
    NotReady(String),
    /// The server refuses every request, whatever the model is.
    #[error("{0}")]
    Access(String),
    #[error("{0}")]
    Refused(String),
}

/// The server is not there, or not ready.
pub(super) fn absent(endpoint: &str, error: impl Display) -> HarnessError {
    HarnessError::Connect { endpoint: endpoint.to_owned(), why: error.to_string() }
}

/// Of a single one it is known what to set. A gateway may have hundreds.
pub(super) fn other_models(names: &[&str], requested: &str) -> String {
    const MOST: usize = 20;
    let alike =
        nearest(requested, names.iter().copied()).map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
    match names {
        _ if names.len() > MOST => {
            format!("it has {} and {} more{alike}", names[..MOST].join(", "), names.len() - MOST)
        }
        [only] => format!("it has {only}; set `model: {only}`"),
        _ if requested.is_empty() => format!("it has several models, {}: set `model`", names.join(", ")),
        _ => format!("it has {}", names.join(", ")),
    }
}

impl HandshakeError {
    /// `what`, a path or a method, was not answered in time.
    pub fn late(what: &str, patience: Duration) -> Self {
        Self::Refused(format!("{what} was not answered within {:.1} s", patience.as_secs_f64()))
    }

    /// Of a server that is there.
    pub fn refused(self, endpoint: &str, model: &str) -> HarnessError {
        let (endpoint, why) = (endpoint.to_owned(), self.to_string());
        match self {
            Self::NotReady(_) => HarnessError::Connect { endpoint, why },
            Self::Access(_) => HarnessError::Access { endpoint, why },
            _ => HarnessError::Model { endpoint, model: model.to_owned(), why },
        }
    }

    /// Whether the server has no such method: then the question stays open.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Call { error, .. } if error.is_unimplemented())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_ports_is_at_fault_itself() {
        for (errno, class) in [
            (Errno::ADDRNOTAVAIL, FailureClass::Client),
            (Errno::MFILE, FailureClass::Client),
            (Errno::CONNREFUSED, FailureClass::Connect),
        ] {
            let error = ConnectError::from(io::Error::from_raw_os_error(errno.raw_os_error()));
            assert_eq!(error.class, class, "{error}");
        }
    }

    #[tokio::test]
    async fn a_failed_attempt_is_that_of_all_who_waited_for_it_and_of_nobody_later() {
        let attempts = ConnectAttempts::default();
        let begin = Instant::now();
        let first = attempts.turn(begin).await.unwrap();
        attempts.note(&Err::<(), _>(ConnectError::late()));
        drop(first);
        assert!(attempts.turn(begin).await.is_err());

        let asked = Instant::now();
        let turn = attempts.turn(asked).await.unwrap();
        assert!(asked.elapsed() >= RETRY_AFTER / 2);
        let waiting = attempts.turn(asked);
        let fail = async {
            tokio::task::yield_now().await;
            attempts.note(&Err::<(), _>(ConnectError::late()));
            drop(turn);
        };
        assert!(tokio::join!(waiting, fail).0.is_err());

        let turn = attempts.turn(Instant::now()).await.unwrap();
        let waiting = async { tokio::join!(attempts.turn(Instant::now()), attempts.turn(Instant::now())) };
        let succeed = async {
            tokio::task::yield_now().await;
            attempts.note(&Ok(()));
            drop(turn);
        };
        let ((one, two), ()) = tokio::join!(waiting, succeed);
        assert!(one.is_ok() && two.is_ok());
    }
}

#[cfg(test)]
mod handshake_error_tests {
    use super::*;

    #[test]
    fn of_many_models_some_are_listed_and_the_nearest_is_named() {
        let names: Vec<String> = (0..217).map(|number| format!("model-{number:03}")).collect();
        let text = other_models(&names.iter().map(String::as_str).collect::<Vec<_>>(), "model-20O");
        assert!(text.starts_with("it has model-000, model-001, "), "{text}");
        assert!(text.ends_with(", model-019 and 197 more; did you mean `model-200`?"), "{text}");
    }
}
