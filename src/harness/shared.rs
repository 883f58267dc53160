//! One `ModelStreamInfer` for all requests of a connection, as NVIDIA's harness and tritonclient have it.
//!
//! Answers find their request by its id. What names no request belongs to the only one under way; when several are, it
//! could be anybody's, so the stream is given up and all of them fail. The next request opens a new stream.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};

use tokio::sync::mpsc;

use super::link::Sender;
use super::record::Class;
use super::rpc::{Fault, broken_class, check_status, spell};
use super::wire::{Frames, Malformed, named};

/// Messages that wait for the connection's flow control before senders wait too.
const QUEUE: usize = 64;
/// Answers that wait for their request before the connection's flow control holds the server back.
const WAITING: usize = 1024;

/// A request's body: one message, or those that come.
pub(super) enum Outgoing {
    Whole(Full<Bytes>),
    Flow(mpsc::Receiver<Bytes>),
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context),
            Self::Flow(messages) => {
                messages.poll_recv(context).map(|message| message.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Flow(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Flow(_) => SizeHint::default(),
        }
    }
}

/// An open stream. It is read by a task of its own.
pub(super) struct Shared {
    queue: mpsc::Sender<Bytes>,
    routes: Arc<Mutex<Routes>>,
}

#[derive(Default)]
struct Routes {
    waiting: HashMap<u64, mpsc::Sender<Reply>>,
    /// Answers may still come for requests that nobody waits for.
    has_given_up: bool,
    death: Option<Death>,
}

/// One message of the server's.
pub(super) struct Reply {
    pub t_read: u64,
    pub message: Bytes,
}

/// How a stream ended, for a request that had no token yet and for one that had.
#[derive(Clone)]
struct Death {
    before: Fault,
    after: Fault,
}

impl Death {
    fn of_all(fault: Fault) -> Self {
        Self { before: fault.clone(), after: fault }
    }

    fn broken(error: &hyper::Error) -> Self {
        let fault = |has_begun| (broken_class(has_begun, error), format!("the shared stream broke: {}", spell(error)));
        Self { before: fault(false), after: fault(true) }
    }

    fn malformed(error: &Malformed) -> Self {
        Self::of_all((Class::Stream, error.to_string()))
    }

    fn check(headers: Option<&HeaderMap>) -> Result<(), Self> {
        match (check_status(headers, false), check_status(headers, true)) {
            (Err(before), Err(after)) => Err(Self { before, after }),
            _ => Ok(()),
        }
    }
}

fn lock(routes: &Mutex<Routes>) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Opens it; its headers come with the first answer. `last_read` is the connection's.
    pub fn open(mut sender: Sender, head: http::request::Builder, last_read: Arc<AtomicU64>) -> Result<Self, Fault> {
        let (queue, messages) = mpsc::channel(QUEUE);
        let request: Request<Outgoing> =
            head.body(Outgoing::Flow(messages)).map_err(|e| (Class::Connect, e.to_string()))?;
        let routes = Arc::<Mutex<Routes>>::default();
        let read = Arc::clone(&routes);
        // Ends with the stream; the runtime's end takes it along.
        tokio::spawn(async move {
            let call = sender.send_request(request);
            let death = match listen(call, &last_read, &read).await {
                Ok(()) => Death::of_all((Class::Stream, "the server ended the shared stream".to_owned())),
                Err(death) => death,
            };
            let mut routes = lock(&read);
            routes.death = Some(death);
            routes.waiting.clear();
        });
        Ok(Self { queue, routes })
    }

    pub fn is_living(&self) -> bool {
        lock(&self.routes).death.is_none()
    }

    /// Sends a message; its answers come to the seat.
    pub async fn ask(self: &Arc<Self>, id: u64, frame: Bytes) -> Result<Seat, Fault> {
        let (give, answers) = mpsc::channel(WAITING);
        {
            let mut routes = lock(&self.routes);
            if let Some(death) = &routes.death {
                return Err(death.before.clone());
            }
            if routes.waiting.contains_key(&id) {
                return Err((Class::Stream, format!("id {id} is under way on this stream already")));
            }
            routes.waiting.insert(id, give);
        }
        let seat = Seat { stream: Arc::clone(self), id, answers, is_over: false };
        match self.queue.send(frame).await {
            Ok(()) => Ok(seat),
            Err(_) => Err(seat.why(false)),
        }
    }
}

/// A request's place at a shared stream.
pub(super) struct Seat {
    stream: Arc<Shared>,
    id: u64,
    answers: mpsc::Receiver<Reply>,
    is_over: bool,
}

impl Seat {
    pub async fn next(&mut self, has_begun: bool) -> Result<Reply, Fault> {
        match self.answers.recv().await {
            Some(reply) => Ok(reply),
            None => Err(self.why(has_begun)),
        }
    }

    /// The server is done with the request.
    pub const fn over(&mut self) {
        self.is_over = true;
    }

    fn why(&self, has_begun: bool) -> Fault {
        match &lock(&self.stream.routes).death {
            Some(Death { after, .. }) if has_begun => after.clone(),
            Some(Death { before, .. }) => before.clone(),
            None => (Class::Stream, "the shared stream takes no more requests".to_owned()),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut routes = lock(&self.stream.routes);
        routes.waiting.remove(&self.id);
        routes.has_given_up |= !self.is_over;
    }
}

async fn listen(
    call: impl Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>>,
    last_read: &AtomicU64,
    routes: &Mutex<Routes>,
) -> Result<(), Death> {
    let response = call.await.map_err(|e| Death::broken(&e))?;
    if !response.status().is_success() {
        return Err(Death::of_all((Class::Server, format!("HTTP status {}", response.status()))));
    }
    Death::check(Some(response.headers()))?;
    let mut body = response.into_body();
    let mut frames = Frames::default();
    while let Some(part) = body.frame().await {
        let part = part.map_err(|e| Death::broken(&e))?;
        let t_read = last_read.load(Ordering::Relaxed);
        match part.into_data() {
            Ok(data) => frames.push(data),
            Err(part) => Death::check(part.trailers_ref())?,
        }
        while let Some(message) = frames.next().map_err(|e| Death::malformed(&e))? {
            let seat = seat_of(&message, &mut lock(routes))?;
            if let Some(seat) = seat {
                // One whose request is over does not wait.
                let _ = seat.send(Reply { t_read, message }).await;
            }
        }
    }
    Ok(())
}

/// Whose a message is. None: of a request that was given up.
fn seat_of(message: &[u8], routes: &mut Routes) -> Result<Option<mpsc::Sender<Reply>>, Death> {
    let (id, error) = named(message).map_err(|e| Death::malformed(&e))?;
    if let Ok(id) = id.parse::<u64>() {
        return Ok(routes.waiting.get(&id).cloned());
    }
    let count = routes.waiting.len();
    if count <= 1 && !routes.has_given_up {
        return Ok(routes.waiting.values().next().cloned());
    }
    let under_way = format!("names none of the {count} requests on this shared stream, so all were given up");
    Err(Death::of_all(match error {
        Some(error) => (Class::Server, format!("an error {under_way}: {error}")),
        None => (Class::Stream, format!("a response {under_way}")),
    }))
}
