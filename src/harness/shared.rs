//! One `ModelStreamInfer` for all requests of a connection, as NVIDIA's harness and tritonclient have it.
//!
//! Answers find their request by its id. What names no request belongs to the only one under way; when several are, it
//! could be anybody's, so the stream is given up and all of them fail. The next request opens a new stream.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use http::{HeaderMap, Request};
use tokio::sync::mpsc;

use super::link::Sender;
use super::record::Class;
use super::rpc::{Fault, Part, answer_of, broken_class, check_status, spell};
use super::wire::{Frames, Malformed, named};

/// Messages that wait for the connection's flow control before senders wait too.
const QUEUE: usize = 64;
/// Answers that wait for their request before the connection's flow control holds the server back.
const WAITING: usize = 1024;

/// An open stream. Tasks of its own write and read it.
pub(super) struct Shared {
    queue: mpsc::Sender<Bytes>,
    routes: Rc<RefCell<Routes>>,
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

    fn broken(error: &h2::Error) -> Self {
        let fault = |has_begun| (broken_class(has_begun, error), format!("the shared stream broke: {}", spell(error)));
        Self { before: fault(false), after: fault(true) }
    }

    fn malformed(error: &Malformed) -> Self {
        Self::of_all((Class::Stream, error.to_string()))
    }

    fn check(headers: &HeaderMap) -> Result<(), Self> {
        match (check_status(Some(headers), false), check_status(Some(headers), true)) {
            (Err(before), Err(after)) => Err(Self { before, after }),
            _ => Ok(()),
        }
    }
}

impl Shared {
    /// Opens it; its headers come with the first answer. `last_read` is the connection's.
    pub fn open(mut sender: Sender, head: Request<()>, last_read: Rc<Cell<u64>>) -> Result<Self, Fault> {
        let (queue, messages) = mpsc::channel(QUEUE);
        let (response, body) = sender.send_request(head, false).map_err(|e| (broken_class(false, &e), spell(&e)))?;
        let routes = Rc::<RefCell<Routes>>::default();
        let read = Rc::clone(&routes);
        // Both end with the stream; the worker's end takes them along.
        tokio::task::spawn_local(speak(body, messages));
        tokio::task::spawn_local(async move {
            let death = match listen(response, &last_read, &read).await {
                Ok(()) => Death::of_all((Class::Stream, "the server ended the shared stream".to_owned())),
                Err(death) => death,
            };
            let mut routes = read.borrow_mut();
            routes.death = Some(death);
            routes.waiting.clear();
        });
        Ok(Self { queue, routes })
    }

    pub fn is_living(&self) -> bool {
        self.routes.borrow().death.is_none()
    }

    /// Sends a message; its answers come to the seat.
    pub async fn ask(self: &Rc<Self>, id: u64, frame: Bytes) -> Result<Seat, Fault> {
        let (give, answers) = mpsc::channel(WAITING);
        {
            let mut routes = self.routes.borrow_mut();
            if let Some(death) = &routes.death {
                return Err(death.before.clone());
            }
            if routes.waiting.contains_key(&id) {
                return Err((Class::Stream, format!("id {id} is under way on this stream already")));
            }
            routes.waiting.insert(id, give);
        }
        let seat = Seat { stream: Rc::clone(self), id, answers, is_over: false };
        match self.queue.send(frame).await {
            Ok(()) => Ok(seat),
            Err(_) => Err(seat.why(false)),
        }
    }
}

/// A request's place at a shared stream.
pub(super) struct Seat {
    stream: Rc<Shared>,
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
        match &self.stream.routes.borrow().death {
            Some(Death { after, .. }) if has_begun => after.clone(),
            Some(Death { before, .. }) => before.clone(),
            None => (Class::Stream, "the shared stream takes no more requests".to_owned()),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut routes = self.stream.routes.borrow_mut();
        routes.waiting.remove(&self.id);
        routes.has_given_up |= !self.is_over;
    }
}

/// Writes messages as the server's window lets them go. Closes our half when nobody can ask any more.
async fn speak(mut body: SendStream<Bytes>, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        // h2 would take any number of them; to wait until it may send some of this one keeps the queue's bound.
        body.reserve_capacity(1);
        while body.capacity() == 0 {
            // Who reads hears why.
            let Some(Ok(_)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else { return };
        }
        if body.send_data(message, false).is_err() {
            return;
        }
    }
    let _ = body.send_data(Bytes::new(), true);
}

async fn listen(response: ResponseFuture, last_read: &Cell<u64>, routes: &RefCell<Routes>) -> Result<(), Death> {
    let response = response.await.map_err(|e| Death::broken(&e))?;
    Death::check(response.headers())?;
    let mut answer = answer_of(response).map_err(Death::of_all)?;
    let mut frames = Frames::default();
    while let Some(part) = answer.part().await {
        let t_read = last_read.get();
        match part.map_err(|e| Death::broken(&e))? {
            Part::Data(data) => frames.push(data),
            Part::Trailers(trailers) => Death::check(&trailers)?,
        }
        while let Some(message) = frames.next().map_err(|e| Death::malformed(&e))? {
            let seat = seat_of(&message, &mut routes.borrow_mut())?;
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
