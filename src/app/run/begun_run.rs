//! A run that has the project's lock and a journal: from here on everything that it does is recorded.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;
use std::{env, thread};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::before_run::unread_variables;
use crate::clean::newer_note;
use crate::console;
use crate::error::CommandError;
use crate::run::preparation::PreparedRun;
use base::event::{Event, ExternalResource, GpuId, RunId, Stop, TaskId};
use base::spec::ContainerEngine;
use exec::process::{self, WatchdogHandle};
use report::{LiveDisplay, LiveOptions, OPEN_METRICS_TYPE, RunState, open_metrics};
use runner::store::{
    Digests, Journal, OutputCache, PathError, ProgressFile, ProjectLock, StateFolder, discard, ended_well,
    fold_journal, readable_runs, unfinished, unfinished_plans,
};
use runner::{EventEmitter, TaskRole, UnchangedTasks};

/// What a run works with.
pub(super) struct BegunRun {
    pub id: RunId,
    pub lock: ProjectLock,
    pub cache: Arc<OutputCache>,
    pub digests: Arc<Digests>,
    pub stop: Stop,
    /// To the sink.
    pub emit: EventEmitter,
    pub sink: Arc<EventSink>,
    /// The lock file is as the last run wrote it.
    pub is_lock_file_as_written: bool,
}

impl BegunRun {
    /// Opens the state of the project, and ends what a run that crashed has left.
    pub fn new(
        prepared: &mut PreparedRun,
        lock: ProjectLock,
        printer: &ProgressPrinter,
        runtime: &Runtime,
    ) -> Result<Self, CommandError> {
        let home = prepared.project.home.clone();
        let (id, stop) = (lock.run.clone(), prepared.signals.stop().clone());
        // Only now: while this run waited for the lock, another one may have changed anything.
        let earlier = prepared.earlier.take();
        let is_lock_file_as_written = earlier.as_ref().is_some_and(|earlier| {
            earlier.has_same_selection && earlier.has_same_lock && earlier.conditions.is_shared_unchanged()
        });
        for plan in unfinished_plans(&home) {
            let _ = discard(&plan);
        }
        // Before this run has a journal, which would be the last one.
        // The notice about a journal that cannot be read is among what was left.
        let left = if ended_well(&home).unwrap_or(false) { None } else { Some(leftover_resources(&home)?) };
        let unchanged = UnchangedTasks::new(earlier.map(|earlier| earlier.conditions.tasks).unwrap_or_default());
        prepared.options.unchanged = Arc::new(unchanged);
        let early = prepared.early_cache.take().and_then(|reading| reading.join().ok()?.ok());
        let current = early.filter(OutputCache::is_current);
        let cache = Arc::new(current.map_or_else(|| OutputCache::open(&home), Ok)?);
        cache.begin()?;
        let digests = Arc::new(Digests::load(&home));
        let scraped = prepared.request.mode.metrics_listen.as_ref().map(|_| Arc::new(Mutex::new(RunState::new())));
        let sink = Arc::new(EventSink::new(&home, &id, &lock, printer.send.clone(), stop.clone(), scraped.clone())?);
        let emit: EventEmitter = {
            let sink = Arc::clone(&sink);
            Arc::new(move |event| sink.take(&event))
        };
        let begun = Self { id, lock, cache, digests, stop, emit, sink, is_lock_file_as_written };
        begun.announce(prepared);
        if let (Some(address), Some(state)) = (&prepared.request.mode.metrics_listen, scraped) {
            let bound = runtime.block_on(listen(address, state));
            (begun.emit)(match bound {
                Ok(bound) => Event::MetricsServed { url: format!("http://{bound}/metrics") },
                Err(error) => Event::Notice { task: None, text: format!("no metrics of this run: {address}: {error}") },
            });
        }
        if let Some(left) = left {
            clean_up_after_crash(&home, left, &begun.id, &begun.cache, &begun.emit);
        }
        process::mark_descendants(home.state(), &begun.id);
        // From here on its journals are of this machine. Without the mark the next run only removes less.
        let _ = home.mark_as_made_here();
        Ok(begun)
    }

    /// Reported before anything happens.
    fn announce(&self, prepared: &PreparedRun) {
        let (Self { id, lock, emit, .. }, PreparedRun { plan, options, .. }) = (self, prepared);
        let is_part = |part: &TaskRole| *part != TaskRole::NotNeeded;
        emit(Event::RunStarted {
            run: id.clone(),
            manifest: prepared.request.subject.manifest.clone(),
            params: plan.params.clone(),
            settings: plan.settings(),
            tasks: options.roles.iter().filter(|part| is_part(part)).count(),
            jobs: options.jobs as usize,
            at: jiff::Timestamp::now().to_string(),
            pid: std::process::id(),
        });
        let chosen: Vec<bool> = options.roles.iter().map(is_part).collect();
        for text in plan.idle(&chosen).into_iter().chain(unread_variables()) {
            emit(Event::Notice { task: None, text });
        }
        for (task, text) in &prepared.lock_report {
            emit(Event::Notice { task: task.clone(), text: text.clone() });
        }
        if let Some(text) = newer_note(&self.cache) {
            emit(Event::Notice { task: None, text });
        }
        if lock.unprotected {
            let text = "this filesystem has no locks: two simultaneous runs would not notice each other";
            emit(Event::Notice { task: None, text: text.to_owned() });
        }
    }
}

/// What crashed runs left beside their processes.
#[derive(Debug, Default)]
pub(super) struct LeftoverResources {
    resources: Vec<(TaskId, ExternalResource)>,
    /// Of a run whose journal cannot be read it is not known.
    unreadable: Vec<PathError>,
}

/// Ends what crashed runs left running, and removes the remains of their unfinished attempts. Once: what could not be
/// removed is not tried again by each run that follows.
pub(super) fn clean_up_after_crash(
    home: &StateFolder,
    left: LeftoverResources,
    id: &RunId,
    output_cache: &OutputCache,
    emit: &EventEmitter,
) {
    for error in left.unreadable {
        emit(Event::Notice { task: None, text: format!("cannot determine what an earlier run left behind: {error}") });
    }
    let is_removable = |(_, resource): &(TaskId, ExternalResource)| is_own(resource, home);
    let (removable, others): (Vec<_>, Vec<_>) = left.resources.into_iter().partition(is_removable);
    let was_there = process::remove_all(removable.iter().map(|(_, resource)| resource));
    let removed = removable.into_iter().zip(was_there.into_iter().map(Some));
    for ((task, resource), was_there) in removed.chain(others.into_iter().map(|other| (other, None))) {
        let leftover = match &resource {
            ExternalResource::Container { name, .. } => format!("the container {name}"),
            ExternalResource::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
            ExternalResource::GpuClocks { gpus, .. } => format!("the clock lock of GPU {}", GpuId::list(gpus)),
        };
        let notice = |text| emit(Event::Notice { task: None, text });
        match was_there {
            Some(true) => notice(format!("removed {leftover}, which an earlier run left behind")),
            Some(false) => {}
            None => notice(format!("{leftover} is not removed: the journal that names it may not be of this machine")),
        }
        emit(Event::ExternalResourceRemoved { task, resource });
    }
    for leftover in process::end_leftovers(home.state(), id) {
        let text = format!("ended {} ({}), which an earlier run left running", leftover.program(), leftover.pid);
        emit(Event::Notice { task: None, text });
    }
    match unfinished(output_cache) {
        Ok(folders) => folders.iter().for_each(|folder| drop(discard(folder))),
        Err(error) => {
            emit(Event::Notice { task: None, text: format!("cannot remove what an earlier run left behind: {error}") });
        }
    }
}

/// Whether a run may remove a resource that a journal names. Someone else may have written the journal, so a program it
/// names for a container is called only if it is a known one.
fn is_own(resource: &ExternalResource, home: &StateFolder) -> bool {
    let is_known = |program: &str| ContainerEngine::DETACHED.iter().any(|engine| engine.as_str() == program);
    let is_foreign = |program: &str, name: &str| !is_known(program) || name.starts_with('-');
    home.is_made_here()
        && !matches!(resource, ExternalResource::Container { program, name } if is_foreign(program, name))
}

/// What was there and was not removed, by the journals of the runs since the last one that ended in order or has
/// cleaned up, which it had when its first task started: a run that is killed before that leaves it to the next one.
pub(super) fn leftover_resources(home: &StateFolder) -> Result<LeftoverResources, PathError> {
    let (mut crashed, mut unreadable) = (Vec::new(), Vec::new());
    for run in readable_runs(home)?.0.into_iter().rev() {
        let (mut changes, mut has_ended, mut has_cleaned_up) = (Vec::new(), false, false);
        let read = fold_journal(&home.run(&run).join("journal.jsonl"), |event| {
            has_ended = matches!(event, Event::RunFinished { .. });
            has_cleaned_up |= matches!(event, Event::TaskStarted { .. });
            match event {
                Event::ExternalResourceStarted { task, resource } if may_remove(&resource, &run) => {
                    changes.push((task, resource, true));
                }
                Event::ExternalResourceRemoved { task, resource } => changes.push((task, resource, false)),
                _ => {}
            }
        });
        if let Err(error) = read {
            unreadable.push(error);
            continue;
        }
        if has_ended {
            break;
        }
        crashed.push(changes);
        if has_cleaned_up {
            break;
        }
    }
    let mut left = Vec::new();
    for (task, resource, is_there) in crashed.into_iter().rev().flatten() {
        left.retain(|(_, other)| *other != resource);
        if is_there {
            left.push((task, resource));
        }
    }
    Ok(LeftoverResources { resources: left, unreadable })
}

/// A name that a user chose may belong to an unrelated container by now.
fn may_remove(resource: &ExternalResource, run: &RunId) -> bool {
    !matches!(resource, ExternalResource::Container { name, .. } if !name.contains(run.as_str()))
}

/// The journal first, then the watchdog, then the display.
pub(super) struct EventSink {
    inner: Mutex<Inner>,
    printer: Sender<Option<Event>>,
    stop: Stop,
    exe: PathBuf,
    id: RunId,
}

struct Inner {
    journal: Journal,
    progress: ProgressFile,
    watchdog: Option<WatchdogHandle>,
    hold: Option<File>,
    broken: Option<PathError>,
    /// The notices of each task: what stays as it is is said once, not at each point of a sweep.
    notices: HashSet<(Option<TaskId>, String)>,
    /// Folded for `--metrics-listen`.
    scraped: Option<Arc<Mutex<RunState>>>,
}

impl EventSink {
    pub fn new(
        home: &StateFolder,
        id: &RunId,
        lock: &ProjectLock,
        printer: Sender<Option<Event>>,
        stop: Stop,
        scraped: Option<Arc<Mutex<RunState>>>,
    ) -> Result<Self, CommandError> {
        let inner = Inner {
            journal: Journal::create(home, id)?,
            progress: ProgressFile::new(home, id),
            watchdog: None,
            hold: Some(lock.share()?),
            broken: None,
            notices: HashSet::new(),
            scraped,
        };
        Ok(Self { inner: Mutex::new(inner), printer, stop, exe: env::current_exe()?, id: id.clone() })
    }

    pub fn take(&self, event: &Event) {
        {
            let mut inner = self.inner.lock();
            if let Event::Notice { task, text } = event
                && !inner.notices.insert((task.clone(), text.clone()))
            {
                return;
            }
            if let Err(error) = inner.journal.append(event) {
                // What is not journaled must not continue to happen.
                inner.broken.get_or_insert(error);
                self.stop.request();
            }
            inner.progress.take(event);
            if let Some(state) = &inner.scraped {
                state.lock().fold(event);
            }
            if matches!(event, Event::TaskStarted { .. })
                && let Some(hold) = inner.hold.take()
            {
                let printer = self.printer.clone();
                let on_loss = move |text| drop(printer.send(Some(Event::Notice { task: None, text })));
                match WatchdogHandle::start(&self.exe, &self.id, hold, on_loss.clone()) {
                    Ok(watchdog) => inner.watchdog = Some(watchdog),
                    Err(error) => on_loss(error.to_string()),
                }
            }
            if let Some(watchdog) = &inner.watchdog {
                watchdog.follow(event);
            }
        }
        let _ = self.printer.send(Some(event.clone()));
    }

    /// Whether the journal could not be written.
    pub fn is_broken(&self) -> bool {
        self.inner.lock().broken.is_some()
    }

    /// The run has ended normally. Returns the error of the journal, if any.
    pub fn finish(&self) -> Option<PathError> {
        let (watchdog, broken) = {
            let mut inner = self.inner.lock();
            inner.hold = None;
            inner.progress.remove();
            (inner.watchdog.take(), inner.broken.take())
        };
        // It may wait for a container program: events go on meanwhile.
        if let Some(watchdog) = watchdog {
            watchdog.finish();
        }
        broken
    }
}

/// A thread that prints the events, so that a slow terminal delays nothing.
pub(super) struct ProgressPrinter {
    /// `None` is the end: signals may come for as long as the process lives.
    pub send: Sender<Option<Event>>,
    thread: thread::JoinHandle<LiveDisplay>,
}

impl ProgressPrinter {
    pub fn start(look: LiveOptions) -> Self {
        let (send, receive) = channel();
        Self {
            send,
            thread: thread::spawn(move || print_events(LiveDisplay::new(look, console::writer(look)), &receive)),
        }
    }

    pub fn close(self) -> LiveDisplay {
        let _ = self.send.send(None);
        self.thread.thread().unpark();
        self.thread
            .join()
            .unwrap_or_else(|_| LiveDisplay::new(LiveOptions::default(), console::writer(LiveOptions::default())))
    }
}

fn print_events(mut live: LiveDisplay, receive: &Receiver<Option<Event>>) -> LiveDisplay {
    /// How often clocks move while nothing happens.
    const TICK: Duration = Duration::from_millis(100);
    /// Events arrive in bursts: waking up for each of them would cost more than printing it. The longer a burst lasts,
    /// the longer the pause, up to what the eye perceives as immediate.
    const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(30)];
    /// This many events in a pause are worth a longer one.
    const BURST: usize = 4;
    let mut pause = PAUSES[0];
    loop {
        match receive.recv_timeout(TICK) {
            Ok(Some(event)) => live.event(&event),
            Err(RecvTimeoutError::Timeout) => live.tick(),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return live,
        }
        let mut more = 0;
        loop {
            match receive.try_recv() {
                Ok(Some(event)) => live.event(&event),
                Err(TryRecvError::Empty) => break,
                Ok(None) | Err(TryRecvError::Disconnected) => return live,
            }
            more += 1;
        }
        pause = if more < BURST { PAUSES[0] } else { (pause * 2).min(PAUSES[1]) };
        // `close` cuts it short.
        thread::park_timeout(pause);
    }
}

/// A client that has not sent its request by then is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted: what the system lacks may be there again.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds the `HOST:PORT`, and answers for as long as the runtime lives. Returns the address with its port.
pub(super) async fn listen(address: &str, state: Arc<Mutex<RunState>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let state = Arc::clone(&state);
            let service = service_fn(move |request| {
                let answer = answer(&request, &state);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            let connection = server.serve_connection(TokioIo::new(socket), service);
            // A client that breaks off harms only itself.
            tokio::spawn(async move { drop(connection.await) });
        }
    });
    Ok(bound)
}

fn answer<B>(request: &hyper::Request<B>, state: &Mutex<RunState>) -> Response<Full<Bytes>> {
    let (status, content_type, body) = if request.method() == Method::GET && request.uri().path() == "/metrics" {
        (StatusCode::OK, OPEN_METRICS_TYPE, Full::from(open_metrics(&state.lock())))
    } else {
        (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", Full::from("GET /metrics\n"))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    use base::event::{TaskId, TaskTally};
    use runner::store::{Journal, LockAttempt};

    #[test]
    fn what_a_run_left_is_known_until_it_is_removed_or_a_run_ends_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let task = TaskId::new("a");
        let of_run = |name: &str, events: &[Event]| {
            let mut journal = Journal::create(&home, &RunId::new(name)).unwrap();
            for event in events {
                journal.append(event).unwrap();
            }
            leftover_resources(&home).unwrap().resources.into_iter().map(|(_, resource)| resource).collect::<Vec<_>>()
        };
        let clocks = ExternalResource::GpuClocks { gpus: vec![GpuId::Index(0)], sudo: false };
        let container =
            |name: &str| ExternalResource::Container { program: "podman".to_owned(), name: name.to_owned() };
        let there = |resource: ExternalResource| Event::ExternalResourceStarted { task: task.clone(), resource };
        let gone = |resource: ExternalResource| Event::ExternalResourceRemoved { task: task.clone(), resource };
        let started = [there(container("1-a")), there(container("of-a-user")), there(clocks.clone())];
        assert_eq!(of_run("1", &started), [container("1-a"), clocks.clone()]);
        assert_eq!(of_run("2", &[]), [container("1-a"), clocks.clone()], "it was killed before it had cleaned up");
        assert_eq!(of_run("3", &[gone(container("1-a")), there(container("3-b"))]), [clocks, container("3-b")]);
        let finished = Event::RunFinished { tally: TaskTally::default(), exit: 0, seconds: 1.0 };
        assert_eq!(of_run("4", &[finished]), []);
        assert_eq!(of_run("5", &[there(container("5-a"))]), [container("5-a")]);
        let begun = Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons: vec![], log: None };
        let cleaned_up = of_run("6", &[begun, there(container("6-a"))]);
        assert_eq!(cleaned_up, [container("6-a")], "what was there before has been tried");
        assert_eq!(of_run("7", &[]), [container("6-a")]);
    }

    #[test]
    fn a_journal_that_cannot_be_read_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let resource = ExternalResource::GpuClocks { gpus: vec![GpuId::Index(0)], sudo: false };
        let mut journal = Journal::create(&home, &RunId::new("1")).unwrap();
        journal.append(&Event::ExternalResourceStarted { task: TaskId::new("a"), resource: resource.clone() }).unwrap();
        // A folder is not a journal.
        std::fs::create_dir_all(home.run(&RunId::new("2")).join("journal.jsonl")).unwrap();
        let left = leftover_resources(&home).unwrap();
        assert_eq!(left.resources, [(TaskId::new("a"), resource)]);
        assert_eq!(left.unreadable.len(), 1);
    }

    #[test]
    fn a_planted_journal_makes_no_run_start_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let proof = folder.path().join("proof");
        let planted = folder.path().join("podman");
        std::fs::write(&planted, format!("#!/bin/sh\n: > {}\n", proof.display())).unwrap();
        std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let container = |program: &str, name: &str| ExternalResource::Container {
            program: program.to_owned(),
            name: name.to_owned(),
        };
        let planted = container(planted.to_str().unwrap(), "run-1-a");
        let [option, usual] = ["--run-1", "run-1-b"].map(|name| container("podman", name));
        let mut journal = Journal::create(&home, &RunId::new("1")).unwrap();
        for resource in [&planted, &option, &usual] {
            let resource = resource.clone();
            journal.append(&Event::ExternalResourceStarted { task: TaskId::new("a"), resource }).unwrap();
        }
        let is_own = |resource: &ExternalResource| super::is_own(resource, &home);
        assert_eq!([&planted, &option, &usual].map(is_own), [false; 3], "not made here");
        home.mark_as_made_here().unwrap();
        assert_eq!([&planted, &option, &usual].map(is_own), [false, false, true]);
        let cache = OutputCache::open(&home).unwrap();
        let mut left = leftover_resources(&home).unwrap();
        left.resources.retain(|(_, resource)| *resource != usual);
        assert_eq!(left.resources.len(), 2);
        let events = Arc::new(Mutex::new(Vec::new()));
        let emit: EventEmitter = {
            let events = Arc::clone(&events);
            Arc::new(move |event| events.lock().push(event))
        };
        clean_up_after_crash(&home, left, &RunId::new("2"), &cache, &emit);
        assert!(!proof.exists());
        let is_notice = |event: &&Event| matches!(event, Event::Notice { text, .. } if text.contains("is not removed"));
        assert_eq!(events.lock().iter().filter(is_notice).count(), 2);
    }

    #[test]
    fn a_run_without_a_watchdog_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let id = RunId::new("r");
        let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || Ok(id.clone())).unwrap() else { panic!() };
        let (send, receive) = mpsc::channel();
        let Ok(mut sink) = EventSink::new(&home, &id, &lock, send, Stop::new(), None) else { panic!() };
        sink.exe = folder.path().join("absent");
        let task = TaskId::new("a");
        sink.take(&Event::TaskStarted { task, attempt: 1, service: false, reasons: Vec::new(), log: None });
        let Ok(Some(Event::Notice { text, .. })) = receive.recv() else { panic!("no notice") };
        assert!(text.contains("cannot be started"), "{text}");
    }

    #[test]
    fn a_notice_is_said_once_of_each_task() {
        let folder = tempfile::tempdir().unwrap();
        let home = StateFolder::new(folder.path().into(), folder.path().join(".regatta"));
        let id = RunId::new("r");
        let LockAttempt::Acquired(lock) = ProjectLock::try_take(&home, || Ok(id.clone())).unwrap() else { panic!() };
        let (send, receive) = mpsc::channel();
        let Ok(sink) = EventSink::new(&home, &id, &lock, send, Stop::new(), None) else { panic!() };
        for task in ["a", "a", "b", "a"] {
            sink.take(&Event::Notice { task: Some(TaskId::new(task)), text: "no metrics".to_owned() });
        }
        assert_eq!(receive.try_iter().count(), 2);
    }

    #[test]
    fn only_metrics_have_the_type_of_metrics() {
        let state = Mutex::new(RunState::new());
        let status_and_type = |path: &str| {
            let response = answer(&hyper::Request::get(path).body(()).unwrap(), &state);
            (response.status().as_u16(), response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned())
        };
        assert_eq!(status_and_type("/metrics"), (200, OPEN_METRICS_TYPE.to_owned()));
        assert_eq!(status_and_type("/"), (404, "text/plain; charset=utf-8".to_owned()));
    }
}
