//! The core on the real clock: one thread for each copy of an engine.
//!
//! The thread sleeps to the absolute end of each step, so a late wake-up makes one step's tokens late and no later
//! step. Requests enter by their time stamp, so the same stamps give the same schedule as the virtual clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{mpsc::UnboundedSender, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::answer::{RequestTimes, ServedAnswer};
use super::load::LoadedEngine;
use super::request::RequestPart;
use super::statistics::{CountedRequest, EngineCounts, Route};
use crate::core::{Core, CoreLoad, CoreRequest, CoreTokens, NeverFits};
use triton::proto::inference::{ModelInferResponse, ModelStreamInferResponse};

/// Simulated nanoseconds since the server came up.
#[derive(Clone, Copy, Debug)]
pub(super) struct SimClock {
    begun: Instant,
    /// Simulated seconds per real second.
    speed: f64,
}

impl SimClock {
    pub(super) const fn speed(self) -> f64 {
        self.speed
    }

    pub(super) fn new(speed: f64) -> Self {
        Self { begun: Instant::now(), speed }
    }

    pub(super) fn now(&self) -> u64 {
        (self.begun.elapsed().as_nanos() as f64 * self.speed) as u64
    }

    fn sleep_until(&self, simulated: u64) {
        let real = self.begun + Duration::from_nanos((simulated as f64 / self.speed) as u64);
        thread::sleep(real.saturating_duration_since(Instant::now()));
    }
}

/// Where a request's responses go.
pub(super) enum ResponseSink {
    Stream(UnboundedSender<Result<ModelStreamInferResponse, Status>>),
    Once(oneshot::Sender<Result<ModelInferResponse, EnqueueError>>),
}

/// The request can never run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Executor failed to enqueue the request: {0}")]
pub(super) struct EnqueueError(NeverFits);

/// One request on its way into the core.
pub(super) struct EngineRequest {
    /// Simulated nanoseconds.
    pub arrived: u64,
    /// The call that it came by; when that goes away, so does the request.
    pub owner: u64,
    pub part: RequestPart,
    pub reply: ResponseSink,
    /// The models that count it.
    pub route: Route,
    pub token_count: u64,
    /// Steps that made them: responses, where it streams.
    pub chunk_count: u64,
    /// When the first came, and the last ones so far.
    pub first_token: u64,
    pub previous_token: u64,
}

impl EngineRequest {
    fn counted(&self, times: RequestTimes, frontend: u64) -> CountedRequest {
        let RequestPart { isl: prompt_tokens, max_tokens, .. } = self.part;
        CountedRequest { prompt_tokens, max_tokens, previous_token: self.previous_token, times, frontend }
    }
}

enum Command {
    Submit(Box<EngineRequest>),
    Gone {
        owner: u64,
    },
    /// The client requested the end of the requests of this id.
    Stop {
        id: String,
    },
}

/// The counters that all drivers of a server share, and the faults that depend on them.
#[derive(Debug, Default)]
pub(super) struct ServerCounters {
    pub served: AtomicU64,
    pub tokens: AtomicU64,
    /// Prompt tokens of requests that were let in.
    pub input_tokens: AtomicU64,
    pub stall_after_tokens: Option<u64>,
    pub die_after_requests: Option<u64>,
    pub dead: CancellationToken,
}

/// The sender to one driver. Dropping the last one ends its thread after the step in flight.
#[derive(Clone, Debug)]
pub(super) struct Driver {
    commands: Sender<Command>,
    request_count: Arc<AtomicUsize>,
    load: Arc<Mutex<CoreLoad>>,
    counts: Option<SharedCounts>,
}

/// Where the engine is one of vLLM: what that would count.
type SharedCounts = Arc<Mutex<EngineCounts>>;

impl Driver {
    pub(super) fn start(
        name: &str,
        engine: &LoadedEngine,
        clock: SimClock,
        shared: Arc<ServerCounters>,
    ) -> std::io::Result<Self> {
        let limits = &engine.limits;
        let counts = engine.is_vllm().then(|| {
            let draft_len = limits.speculation.as_ref().map_or(0, |speculation| speculation.draft_len);
            Arc::new(Mutex::new(EngineCounts::new(draft_len, engine.max_seq_len)))
        });
        let (commands, inbox) = channel();
        let inside = Arc::new(AtomicUsize::new(0));
        let holding = Arc::new(Mutex::new(CoreLoad::default()));
        let driver = Running {
            core: Core::new(limits.clone()),
            frontend: limits.timing.frontend_ns(),
            inbox,
            clock,
            shared,
            inside: Arc::clone(&inside),
            holding: Arc::clone(&holding),
            counts: counts.clone(),
            waiting: VecDeque::new(),
            requests: BTreeMap::new(),
            next_id: 0,
            begun: None,
            last_arrival: 0,
        };
        thread::Builder::new().name(format!("sim {name}")).spawn(move || driver.run())?;
        Ok(Self { commands, request_count: inside, load: holding, counts })
    }

    /// Requests that it has and that have not ended.
    pub(super) fn load(&self) -> usize {
        self.request_count.load(Ordering::Relaxed)
    }

    /// The core's contents, as of the step in flight.
    pub(super) fn holding(&self) -> CoreLoad {
        *self.load.lock()
    }

    /// What vLLM would count of the steps that ended. `None` if the engine is not vLLM's.
    pub(super) fn counts(&self) -> Option<EngineCounts> {
        self.counts.as_ref().map(|counts| counts.lock().clone())
    }

    pub(super) fn submit(&self, request: EngineRequest) {
        self.request_count.fetch_add(1, Ordering::Relaxed);
        // A driver only ends when no sender is left.
        let _ = self.commands.send(Command::Submit(Box::new(request)));
    }

    pub(super) fn owner_disconnected(&self, owner: u64) {
        let _ = self.commands.send(Command::Gone { owner });
    }

    pub(super) fn stop(&self, id: &str) {
        let _ = self.commands.send(Command::Stop { id: id.to_owned() });
    }
}

struct Running {
    core: Core,
    /// From a request's arrival to the scheduler, simulated nanoseconds.
    frontend: u64,
    inbox: Receiver<Command>,
    clock: SimClock,
    shared: Arc<ServerCounters>,
    inside: Arc<AtomicUsize>,
    holding: Arc<Mutex<CoreLoad>>,
    counts: Option<SharedCounts>,
    /// Not yet in the core: their time has not come.
    waiting: VecDeque<Box<EngineRequest>>,
    requests: BTreeMap<u64, Box<EngineRequest>>,
    next_id: u64,
    /// When the last step began.
    begun: Option<u64>,
    last_arrival: u64,
}

impl Running {
    fn run(mut self) {
        let mut now = 0;
        loop {
            if self.core.is_idle() && self.waiting.is_empty() {
                let Ok(command) = self.inbox.recv() else { return };
                self.take(command);
            }
            loop {
                match self.inbox.try_recv() {
                    Ok(command) => self.take(command),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => return,
                }
            }
            if self.core.is_idle() {
                now = self.waiting.front().map_or(now, |request| (request.arrived + self.frontend).max(now));
            }
            while self.waiting.front().is_some_and(|request| request.arrived + self.frontend <= now) {
                self.enter();
            }
            let Some(step) = self.core.begin(now) else { continue };
            self.begun = Some(now);
            self.show();
            self.clock.sleep_until(step.end);
            now = step.end;
            self.deliver(now);
            self.show();
            if self.shared.stall_after_tokens.is_some_and(|limit| self.shared.tokens.load(Ordering::Relaxed) >= limit) {
                // Discard every command from now on, as a hung backend does; ends with the server.
                while self.inbox.recv().is_ok() {}
                return;
            }
        }
    }

    fn show(&self) {
        *self.holding.lock() = self.core.holding();
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Submit(mut request) => {
                // Its stamp may be older than a step that it was too late for, or than that of a request that came
                // before it. The time that counts is the one at which it came, so that the same stamps in virtual time
                // give the same steps.
                let late = self.begun.map_or(0, |begun| (begun + 1).saturating_sub(self.frontend));
                request.arrived = request.arrived.max(late).max(self.last_arrival + 1);
                self.last_arrival = request.arrived;
                self.waiting.push_back(request);
            }
            Command::Stop { id } => self.stop(&id),
            Command::Gone { owner } => {
                let before = self.waiting.len() + self.requests.len();
                self.waiting.retain(|request| request.owner != owner);
                let core = &mut self.core;
                self.requests.retain(|id, request| {
                    let stays = request.owner != owner;
                    if !stays {
                        core.cancel(*id);
                    }
                    stays
                });
                self.inside.fetch_sub(before - self.waiting.len() - self.requests.len(), Ordering::Relaxed);
            }
        }
    }

    /// Ends the requests of this id with what they have; their blocks are free at the next step.
    fn stop(&mut self, id: &str) {
        let mut stopped: Vec<Box<EngineRequest>> = Vec::new();
        let (ended, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|request| request.part.answer.id == id);
        self.waiting = waiting;
        stopped.extend::<VecDeque<_>>(ended);
        let inside: Vec<u64> =
            self.requests.iter().filter(|(_, request)| request.part.answer.id == id).map(|(id, _)| *id).collect();
        for id in inside {
            self.core.cancel(id);
            stopped.extend(self.requests.remove(&id));
        }
        self.inside.fetch_sub(stopped.len(), Ordering::Relaxed);
        for request in stopped {
            cut_short(*request);
        }
    }

    /// The first waiting request enters the core, or is refused because it can never run.
    fn enter(&mut self) {
        let Some(request) = self.waiting.pop_front() else { return };
        let id = self.next_id;
        self.next_id += 1;
        let RequestPart { isl, osl, adapter, .. } = request.part;
        match self.core.arrive(CoreRequest { id, isl, osl, adapter }) {
            Ok(()) => {
                self.shared.input_tokens.fetch_add(isl, Ordering::Relaxed);
                self.requests.insert(id, request);
            }
            Err(unfit) => {
                let error = EnqueueError(unfit);
                request.route.failed(0);
                self.inside.fetch_sub(1, Ordering::Relaxed);
                match request.reply {
                    ResponseSink::Stream(sender) => {
                        let _ = sender.send(Ok(request.part.answer.failed(error.to_string())));
                    }
                    ResponseSink::Once(sender) => {
                        let _ = sender.send(Err(error));
                    }
                }
            }
        }
    }

    fn deliver(&mut self, now: u64) {
        let Self { core, requests, shared, inside, frontend, counts, .. } = self;
        let mut counts = counts.as_ref().map(|counts| counts.lock());
        let mut gone = Vec::new();
        core.finish(true, |token| {
            shared.tokens.fetch_add(token.count, Ordering::Relaxed);
            let served = if token.is_last { shared.served.fetch_add(1, Ordering::Relaxed) + 1 } else { 0 };
            let Some(request) = requests.get_mut(&token.id) else { return };
            request.token_count = token.index + token.count;
            request.chunk_count += 1;
            if token.index == 0 {
                request.first_token = now;
            }
            let times = RequestTimes {
                arrival: request.arrived,
                scheduled: token.scheduled,
                first_token: request.first_token,
                last_token: now,
            };
            if let Some(counts) = &mut counts {
                counts.tokens(&token, &request.counted(times, *frontend));
            }
            request.previous_token = now;
            let times = token.is_last.then_some(times);
            let is_message_done = token.is_last && request.part.answer.ends();
            // Counted before it is sent: a client that has the last token finds it in the statistics.
            if let Some(times) = &times {
                let responses = if request.part.answer.is_streaming { request.chunk_count } else { 1 };
                request.route.answered(times, responses, is_message_done);
            }
            let is_heard = send_token(request, token, is_message_done, times);
            if token.is_last {
                if let Some(request) = requests.remove(&token.id) {
                    inside.fetch_sub(1, Ordering::Relaxed);
                    close(*request, is_message_done, times);
                    if shared.die_after_requests.is_some_and(|limit| served >= limit) {
                        shared.dead.cancel();
                    }
                }
            } else if !is_heard {
                gone.push(token.id);
            }
        });
        if let Some(counts) = &mut counts {
            counts.step_ended();
        }
        drop(counts);
        for id in gone {
            self.core.cancel(id);
            if self.requests.remove(&id).is_some() {
                self.inside.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

/// Sends the output that the tokens of a step make visible. False when the receiver is gone.
fn send_token(request: &EngineRequest, token: CoreTokens, is_message_done: bool, times: Option<RequestTimes>) -> bool {
    match &request.reply {
        ResponseSink::Once(sender) => !sender.is_closed(),
        ResponseSink::Stream(sender) if request.part.answer.is_streaming => {
            let response = request.part.answer.response(token.index, token.index + token.count, false, times);
            let is_final = is_message_done && !request.part.answer.is_final_apart;
            sender.send(Ok(ServedAnswer::streamed(response, is_final))).is_ok()
        }
        ResponseSink::Stream(sender) => !sender.is_closed(),
    }
}

/// Sends the rest when the last token was generated.
fn close(request: EngineRequest, is_message_done: bool, times: Option<RequestTimes>) {
    let EngineRequest { part: RequestPart { answer, osl, .. }, reply, .. } = request;
    match reply {
        ResponseSink::Once(sender) => {
            let _ = sender.send(Ok(answer.response(0, osl, true, times)));
        }
        ResponseSink::Stream(sender) => {
            if !answer.is_streaming {
                let response = answer.response(0, osl, true, times);
                let _ = sender.send(Ok(ServedAnswer::streamed(response, is_message_done && !answer.is_final_apart)));
            }
            if is_message_done && answer.is_final_apart && answer.wants_empty_final {
                let _ = sender.send(Ok(answer.empty_final()));
            }
        }
    }
}

/// Ends a request that was stopped: one that streams sends no more, the others send their tokens so far.
fn cut_short(request: EngineRequest) {
    let EngineRequest { part: RequestPart { answer, .. }, token_count: made, reply, .. } = request;
    let is_message_done = answer.ends();
    match reply {
        ResponseSink::Once(sender) => {
            let _ = sender.send(Ok(answer.response(0, made, true, None)));
        }
        ResponseSink::Stream(sender) if answer.is_streaming => {
            if is_message_done && answer.wants_empty_final {
                let _ = sender.send(Ok(answer.empty_final()));
            }
        }
        ResponseSink::Stream(sender) => {
            let _ = sender.send(Ok(ServedAnswer::streamed(answer.response(0, made, true, None), is_message_done)));
        }
    }
}
