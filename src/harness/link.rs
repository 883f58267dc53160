//! One HTTP/2 connection to one server: stamps every socket read, knows the server's stream limit, reconnects.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::clock::Clock;
use super::http::Pool;
use super::record::Class;
use super::rpc::{self, Fault};
use super::shared::{Outgoing, Shared};
use super::{Protocol, StreamMode};
use crate::event::Endpoint;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A dead server is not asked again within this time: its requests fail at once.
const RETRY_AFTER: Duration = Duration::from_millis(500);
const STREAM_WINDOW: u32 = 2 << 20;
/// h2 ends a connection ("too_many_data_frames") when small DATA frames pile up beyond a budget that grows with this
/// window, and streamed tokens are small frames: the window is wide for the budget's sake.
const CONNECTION_WINDOW: u32 = 1 << 30;

pub(super) type Sender = SendRequest<Outgoing>;

/// A place for one HTTP/2 connection, or for as many HTTP/1.1 connections as are needed. Belongs to one worker.
pub(super) struct Link {
    /// Position in `Spec::endpoints`.
    pub endpoint: u32,
    host: String,
    port: u16,
    clock: Clock,
    pub in_flight: Cell<usize>,
    /// When any stream of this server, as this worker sees it, last had a token.
    pub last_token: Rc<Cell<u64>>,
    live: RefCell<Option<Sender>>,
    /// One attempt at a time; the rest wait for it.
    connecting: tokio::sync::Mutex<()>,
    failed: RefCell<Option<(Instant, String)>>,
    last_read: Arc<AtomicU64>,
    max_streams: Arc<AtomicUsize>,
    pub connects: Cell<u32>,
    /// Requests go over one stream.
    pub is_shared: bool,
    stream: RefCell<Option<Arc<Shared>>>,
    /// Shared streams so far.
    pub streams: Cell<u32>,
    /// Of a server that is asked over HTTP/1.1.
    pub pool: Option<Pool>,
}

impl Link {
    pub fn new(
        position: u32,
        endpoint: &Endpoint,
        protocol: &Protocol,
        mode: StreamMode,
        clock: Clock,
        last_token: Rc<Cell<u64>>,
    ) -> Self {
        let (port, pool) = match protocol {
            Protocol::Kserve => (endpoint.grpc, None),
            Protocol::Http(_) => {
                let port = endpoint.http.unwrap_or(endpoint.grpc);
                (port, Some(Pool::new(&endpoint.host, port)))
            }
        };
        Self {
            endpoint: position,
            host: endpoint.host.clone(),
            port,
            pool,
            clock,
            in_flight: Cell::new(0),
            last_token,
            live: RefCell::new(None),
            connecting: tokio::sync::Mutex::new(()),
            failed: RefCell::new(None),
            last_read: Arc::new(AtomicU64::new(0)),
            max_streams: Arc::new(AtomicUsize::new(usize::MAX)),
            connects: Cell::new(0),
            is_shared: mode == StreamMode::Shared,
            stream: RefCell::new(None),
            streams: Cell::new(0),
        }
    }

    /// The stream that all requests of this connection go over; opened when none is alive.
    pub async fn shared(&self) -> Result<Arc<Shared>, Fault> {
        if let Some(stream) = self.living_stream() {
            return Ok(stream);
        }
        let sender = self.sender().await.map_err(|why| (Class::Connect, why))?;
        // Another request may have opened one meanwhile.
        if let Some(stream) = self.living_stream() {
            return Ok(stream);
        }
        let head = rpc::head(&self.authority(), "ModelStreamInfer");
        let stream = Arc::new(Shared::open(sender, head, Arc::clone(&self.last_read))?);
        *self.stream.borrow_mut() = Some(Arc::clone(&stream));
        self.streams.set(self.streams.get() + 1);
        Ok(stream)
    }

    fn living_stream(&self) -> Option<Arc<Shared>> {
        self.stream.borrow().as_ref().filter(|stream| stream.is_living()).cloned()
    }

    /// Requests that may be in flight at once, as far as the connection goes.
    pub fn room(&self) -> usize {
        if self.is_shared { usize::MAX } else { self.max_streams() }
    }

    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// ns of the last socket read that brought something. Chunks handed out now were complete by then.
    pub fn last_read(&self) -> u64 {
        self.last_read.load(Ordering::Relaxed)
    }

    /// The server's limit on concurrent streams, as last told.
    pub fn max_streams(&self) -> usize {
        self.max_streams.load(Ordering::Relaxed)
    }

    /// Connections that were lost and made again.
    pub fn reconnects(&self) -> u32 {
        self.pool.as_ref().map_or(self.connects.get(), |pool| pool.lost.get())
    }

    /// What requests go through; connects when there is no living connection.
    pub async fn sender(&self) -> Result<Sender, String> {
        if let Some(sender) = self.living() {
            return Ok(sender);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(sender) = self.living() {
            return Ok(sender);
        }
        if let Some((at, why)) = &*self.failed.borrow()
            && at.elapsed() < RETRY_AFTER
        {
            return Err(why.clone());
        }
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(sender)) => {
                self.connects.set(self.connects.get() + 1);
                *self.failed.borrow_mut() = None;
                *self.live.borrow_mut() = Some(sender.clone());
                Ok(sender)
            }
            Ok(Err(why)) => Err(self.note_failure(why)),
            Err(_) => Err(self.note_failure(format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()))),
        }
    }

    fn living(&self) -> Option<Sender> {
        self.live.borrow().as_ref().filter(|sender| !sender.is_closed()).cloned()
    }

    fn note_failure(&self, why: String) -> String {
        *self.failed.borrow_mut() = Some((Instant::now(), why.clone()));
        why
    }

    async fn connect(&self) -> Result<Sender, String> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await.map_err(|e| e.to_string())?;
        socket.set_nodelay(true).map_err(|e| e.to_string())?;
        let io = Stamped { socket, last_read: Arc::clone(&self.last_read), clock: self.clock };
        let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|e| e.to_string())?;
        let max_streams = Arc::clone(&self.max_streams);
        // Ends by itself once every sender is gone or the server closed; the runtime's end takes it along.
        tokio::spawn(std::future::poll_fn(move |context| {
            let poll = Pin::new(&mut connection).poll(context);
            if poll.is_pending() {
                max_streams.store(connection.current_max_send_streams(), Ordering::Relaxed);
            }
            poll
        }));
        Ok(sender)
    }
}

/// A socket that notes when bytes came.
struct Stamped {
    socket: TcpStream,
    last_read: Arc<AtomicU64>,
    clock: Clock,
}

impl AsyncRead for Stamped {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let poll = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.last_read.store(self.clock.now(), Ordering::Relaxed);
        }
        poll
    }
}

impl AsyncWrite for Stamped {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
