//! One `ModelStreamInfer` for all requests of a connection, as NVIDIA's harness and tritonclient have it.
//!
//! Answers find their request by its id. A message without an id belongs to the only request in flight; when several
//! are, its owner is unknown, so the stream is closed and all of them fail. The next request opens a new stream.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use bytes::Bytes;
use h2::SendStream;
use h2::client::ResponseFuture;
use http::Request;
use tokio::sync::mpsc;

use super::grpc_messages::{Frames, WireError, named};
use super::rpc::{CallError, RpcFault, RpcSender, answer_of, broken_class};
use crate::record::FailureClass;
use crate::spec::response_bounds::{ResponseBounds, shortened};
use crate::tokens::{Violation, Violations};
use base::diag::error_chain;

/// Messages that wait for the connection's flow control before senders wait too.
const QUEUE: usize = 64;
/// Answers that wait for their request before the connection's flow control holds the server back.
const WAITING: usize = 1024;

/// An open stream. Tasks of its own write and read it.
pub(crate) struct SharedStream {
    queue: mpsc::Sender<Bytes>,
    routes: Rc<RefCell<Routes>>,
}

#[derive(Default)]
struct Routes {
    waiting: HashMap<u64, mpsc::Sender<StreamReply>>,
    /// Requests that ended before their answers did: more may come for them.
    given_up: HashSet<u64>,
    /// Of all requests so far.
    highest_id: Option<u64>,
    death: Option<StreamFailure>,
}

/// One message of the server's.
pub(crate) struct StreamReply {
    pub t_read: u64,
    pub message: Bytes,
}

/// How a stream ended, for a request that had no token yet and for one that had.
#[derive(Clone)]
struct StreamFailure {
    before_first_message: RpcFault,
    after: RpcFault,
}

impl StreamFailure {
    fn of_all(fault: RpcFault) -> Self {
        Self { before_first_message: fault.clone(), after: fault }
    }

    fn of_call(error: CallError) -> Self {
        match error {
            CallError::Status(status) => Self { before_first_message: status.fault(false), after: status.fault(true) },
            CallError::Broken(error) | CallError::BrokenAnswer(error) => {
                let text = format!("the shared stream broke: {}", error_chain(&error));
                let fault = |has_begun| (broken_class(has_begun, &error), text.clone());
                Self { before_first_message: fault(false), after: fault(true) }
            }
            other => Self::of_all(other.into()),
        }
    }

    fn malformed(error: &WireError, limits: &ResponseBounds) -> Self {
        Self::of_all(error.fault(limits))
    }
}

impl SharedStream {
    /// Opens it; its headers come with the first answer. `last_read` and `strays`, the violations of messages that
    /// belong to no request in flight, are the connection's.
    pub fn open(
        mut sender: RpcSender,
        head: Request<()>,
        last_read: Rc<Cell<u64>>,
        strays: Rc<RefCell<Violations>>,
        limits: ResponseBounds,
    ) -> Result<Self, CallError> {
        let (queue, messages) = mpsc::channel(QUEUE);
        let (response, body) = sender.send_request(head, false).map_err(CallError::Broken)?;
        let routes = Rc::<RefCell<Routes>>::default();
        let read = Rc::clone(&routes);
        // Both end with the stream; the worker's end takes them along.
        tokio::task::spawn_local(write_messages(body, messages));
        tokio::task::spawn_local(async move {
            let death = match read_responses(response, &last_read, &read, &strays, &limits).await {
                Ok(()) => {
                    StreamFailure::of_all((FailureClass::Stream, "the server ended the shared stream".to_owned()))
                }
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

    /// Sends a message; its answers arrive in the returned slot.
    pub async fn send_request(self: &Rc<Self>, id: u64, frame: Bytes) -> Result<StreamSlot, RpcFault> {
        let (give, answers) = mpsc::channel(WAITING);
        {
            let mut routes = self.routes.borrow_mut();
            if let Some(death) = &routes.death {
                return Err(death.before_first_message.clone());
            }
            if routes.waiting.contains_key(&id) {
                return Err((FailureClass::Stream, format!("id {id} is already in flight on this stream")));
            }
            routes.waiting.insert(id, give);
            routes.highest_id = routes.highest_id.max(Some(id));
        }
        let stream_slot = StreamSlot { stream: Rc::clone(self), id, answers, is_over: false };
        match self.queue.send(frame).await {
            Ok(()) => Ok(stream_slot),
            Err(_) => Err(stream_slot.failure(false)),
        }
    }
}

/// A request's place at a shared stream.
pub(crate) struct StreamSlot {
    stream: Rc<SharedStream>,
    id: u64,
    answers: mpsc::Receiver<StreamReply>,
    is_over: bool,
}

impl StreamSlot {
    pub async fn next(&mut self, has_begun: bool) -> Result<StreamReply, RpcFault> {
        match self.answers.recv().await {
            Some(reply) => Ok(reply),
            None => Err(self.failure(has_begun)),
        }
    }

    /// The server is done with the request.
    pub const fn mark_finished(&mut self) {
        self.is_over = true;
    }

    /// Messages that came for the request after the one that ended it.
    pub fn rest(&mut self) -> usize {
        std::iter::from_fn(|| self.answers.try_recv().ok()).count()
    }

    fn failure(&self, has_begun: bool) -> RpcFault {
        match &self.stream.routes.borrow().death {
            Some(StreamFailure { after, .. }) if has_begun => after.clone(),
            Some(StreamFailure { before_first_message: before, .. }) => before.clone(),
            None => (FailureClass::Stream, "the shared stream accepts no more requests".to_owned()),
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut routes = self.stream.routes.borrow_mut();
        routes.waiting.remove(&self.id);
        if !self.is_over {
            routes.given_up.insert(self.id);
        }
    }
}

/// Writes messages as the server's window allows. Closes our half when no sender is left.
async fn write_messages(mut body: SendStream<Bytes>, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        // h2 would take any number of them; to wait until it may send some of this one keeps the queue's bound.
        body.reserve_capacity(1);
        while body.capacity() == 0 {
            // The reading side gets the reason.
            let Some(Ok(_)) = std::future::poll_fn(|context| body.poll_capacity(context)).await else { return };
        }
        if body.send_data(message, false).is_err() {
            return;
        }
    }
    let _ = body.send_data(Bytes::new(), true);
}

async fn read_responses(
    response: ResponseFuture,
    last_read: &Cell<u64>,
    routes: &RefCell<Routes>,
    strays: &RefCell<Violations>,
    limits: &ResponseBounds,
) -> Result<(), StreamFailure> {
    let response = response.await.map_err(CallError::Broken);
    let mut answer = response.and_then(answer_of).map_err(StreamFailure::of_call)?;
    let mut frames = Frames::of_answer(limits);
    while let Some(part) = answer.part().await {
        let t_read = last_read.get();
        frames.push(part.map_err(StreamFailure::of_call)?);
        while let Some(message) = frames.next().map_err(|e| StreamFailure::malformed(&e, limits))? {
            let sender = route_for(&message, &routes.borrow(), &mut strays.borrow_mut(), limits)?;
            if let Some(sender) = sender {
                // A request that has finished does not wait.
                let _ = sender.send(StreamReply { t_read, message }).await;
            }
        }
    }
    Ok(())
}

/// The owner of a message. None: a request that was abandoned, or that has ended.
fn route_for(
    message: &[u8],
    routes: &Routes,
    strays: &mut Violations,
    limits: &ResponseBounds,
) -> Result<Option<mpsc::Sender<StreamReply>>, StreamFailure> {
    let (id, error) = named(message).map_err(|e| StreamFailure::malformed(&e, limits))?;
    if let Ok(id) = id.parse::<u64>() {
        let sender = routes.waiting.get(&id).cloned();
        if sender.is_none() && !routes.given_up.contains(&id) {
            let is_known = routes.highest_id.is_some_and(|highest| id <= highest);
            let (class, what) =
                if is_known { (Violation::AfterEnd, "has ended") } else { (Violation::WrongId, "was never sent") };
            strays.add(class, || format!("a response names the request {id}, which {what}"));
        }
        return Ok(sender);
    }
    let count = routes.waiting.len();
    if count <= 1 && routes.given_up.is_empty() {
        return Ok(routes.waiting.values().next().cloned());
    }
    let under_way = format!("names none of the {count} requests on this shared stream, so all were given up");
    Err(StreamFailure::of_all(match error {
        Some(error) => (FailureClass::Server, format!("an error {under_way}: {}", shortened(error))),
        None => (FailureClass::Stream, format!("a response {under_way}")),
    }))
}
