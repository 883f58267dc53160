//! `regatta run`: the lock, the journal, the warden, the loop, the story, the exit code.

use std::env;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::project::{Project, gpus_here, options, repeated};
use super::{Trouble, allocation, history, locking, sharing};
use crate::cli::{self, EventsAs, Exit, Force, Global, Gpus, Locking, Loudness, On, Setting};
use crate::event::{Event, Outliving, RunId, Stop, Tally, TaskId};
use crate::plan::Plan;
use crate::process::{self, Warden};
use crate::report::{Chapter, Live, Look, Paint, Places, State, Story};
use crate::runner::{self, Emit, Options, Summary};
use crate::share::Address;
use crate::stage::{Stages, end_abandoned};
use crate::store::{
    Compiler, Digests, Home, Journal, Lock, Rest, Shelf, Stamp, Taken, abandoned, discard, ended_well, last_run,
    name_run, read_journal, unfinished, unfinished_plans,
};

/// How a run ended, and what it left.
pub(super) struct Ran {
    pub exit: Exit,
    /// The output folder of each task that has one, also of one that failed and kept what it had.
    pub outs: Vec<(TaskId, PathBuf)>,
    pub report: Option<PathBuf>,
    /// What each of its tasks had to say, in the order in which they were heard of; also of cached ones.
    pub told: Vec<Told>,
}

/// One task in the end.
pub(super) struct Told {
    pub task: TaskId,
    pub headline: Option<String>,
    pub failed: Option<String>,
    pub out: Option<PathBuf>,
    pub is_cached: bool,
}

fn told(story: &Story) -> Vec<Told> {
    let of = |(task, chapter): (&TaskId, &Chapter)| Told {
        task: task.clone(),
        headline: chapter.headline.clone(),
        failed: chapter.failure.as_ref().map(|failure| failure.what.clone()),
        out: chapter.out.clone().or_else(|| chapter.failure.as_ref()?.kept.clone()),
        is_cached: chapter.state == State::Cached,
    };
    story.tasks.iter().map(of).collect()
}

pub(super) fn run(global: &Global, request: &cli::Run) -> Result<Exit, Trouble> {
    if let On::Slurm(flags) = &request.on {
        return allocation::outside(global, request, flags);
    }
    perform(global, request, false).map(|ran| ran.exit)
}

/// `aside` tells the run on stderr.
pub(super) fn perform(global: &Global, request: &cli::Run, aside: bool) -> Result<Ran, Trouble> {
    let begun = Instant::now();
    let project = Project { env: request.env.clone(), ..Project::here(global)? };
    let compiler = project.compiler(&request.manifest, &request.settings, &request.select);
    let look = Look {
        json_lines: request.events == EventsAs::JsonLines,
        quiet: global.loudness == Loudness::Quiet,
        verbose: matches!(global.loudness, Loudness::Verbose(_)),
        color: global.color.choice(),
        aside,
    };
    if request.select.force == Force::Nothing
        && !matches!(request.locking, Locking::Hold(..))
        && compiler.is_fresh(|name| project.variable(name))
        && let Some(rest) = compiler.rest()
        && rest.holds()
    {
        let told = nothing_to_do(&rest, look, &project.home, begun);
        return Ok(Ran { exit: Exit::Done, outs: Vec::new(), report: None, told });
    }
    let plan = project.plan(&request.manifest, &request.settings, &compiler, true)?;
    let mut plan = repeated(plan, request.select.repeat);
    let jobs = request.jobs.map_or_else(|| thread::available_parallelism().map_or(1, usize::from), NonZeroUsize::get);
    let gpus = match &request.gpus {
        None => gpus_here(),
        Some(Gpus::Count(n)) => gpus_here().into_iter().chain(0..).take(*n as usize).collect(),
        Some(Gpus::These(ids)) => ids.clone(),
    };
    let mut options = options(&plan, &request.select, jobs as u32, gpus, request.keep_going)?;
    project.has_files_of(&plan, &options)?;
    let store = sharing::address(request.store.as_deref())?;
    let holding = locking::hold(&project, request, &mut plan, &mut options, Paint::chosen(look.color))?;
    let errand = Errand {
        project,
        plan,
        options,
        compiler,
        manifest: request.manifest.clone(),
        settings: request.settings.clone(),
        look,
        begun,
        in_place: request.on == On::InPlace,
        store,
        locking: request.locking.clone(),
        holding,
    };
    errand.go()
}

/// Everything was looked at, and nothing has changed since the last run.
fn nothing_to_do(rest: &Rest, look: Look, home: &Home, begun: Instant) -> Vec<Told> {
    let mut live = Live::new(look);
    for event in rest.told.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let event = match event {
            Event::RunFinished { tally, exit, .. } => {
                Event::RunFinished { tally, exit, seconds: begun.elapsed().as_secs_f64() }
            }
            event => event,
        };
        live.event(&event);
    }
    let told = told(live.story());
    live.finish(&places(home));
    told
}

struct Errand {
    project: Project,
    plan: Plan,
    options: Options,
    compiler: Compiler,
    manifest: String,
    settings: Vec<Setting>,
    look: Look,
    begun: Instant,
    /// On the nodes of an allocation already.
    in_place: bool,
    /// What machines share.
    store: Option<Address>,
    locking: Locking,
    holding: locking::Holding,
}

impl Errand {
    fn go(self) -> Result<Ran, Trouble> {
        let home = self.project.home.clone();
        let stop = Stop::new();
        // Starting a process holds a thread until the new program is loaded, so one thread could not keep the cores busy.
        let threads = thread::available_parallelism().map_or(1, usize::from).clamp(1, 8);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
        let teller = Teller::start(self.look);
        let send = teller.send.clone();
        heed(stop.clone(), move |event| drop(send.send(Some(event))))?;
        process::adopt_orphans()?;
        let Some(lock) = take_lock(&home, &stop, &teller)? else {
            teller.close();
            return Ok(Ran { exit: Exit::Interrupted, outs: Vec::new(), report: None, told: Vec::new() });
        };
        let id = lock.run.clone();
        for plan in unfinished_plans(&home) {
            let _ = discard(&plan);
        }
        let crashed = !ended_well(&home);
        let before = last_run(&home);
        let shelf = Arc::new(Shelf::open(&home)?);
        shelf.begin()?;
        let digests = Arc::new(Digests::load(&home));
        let sink = Arc::new(Sink::new(&home, &id, &lock, teller.send.clone(), stop.clone())?);
        let emit: Emit = {
            let sink = Arc::clone(&sink);
            Arc::new(move |event| sink.take(&event))
        };
        emit(Event::RunStarted {
            run: id.clone(),
            manifest: self.manifest.clone(),
            params: self.plan.params.clone(),
            tasks: self.options.parts.iter().filter(|part| **part != runner::Part::Out).count(),
            jobs: self.options.jobs as usize,
            at: jiff::Timestamp::now().to_string(),
            pid: std::process::id(),
        });
        let chosen: Vec<bool> = self.options.parts.iter().map(|part| *part != runner::Part::Out).collect();
        for text in self.plan.idle(&chosen) {
            emit(Event::Notice { task: None, text });
        }
        for (task, text) in self.holding.told {
            emit(Event::Notice { task, text });
        }
        if lock.unprotected {
            let text = "this filesystem has no locks: two runs of this project at once would not see each other";
            emit(Event::Notice { task: None, text: text.to_owned() });
        }
        if crashed {
            clear_up_after_crash(&home, before.as_ref(), &id, &shelf, &emit);
        }
        let parts = self.options.parts.clone();
        let plan = Arc::new(self.plan);
        let stages = Arc::new(Stages::new(home.state(), id.clone()).in_place(self.in_place));
        let abandoned = abandoned(&home);
        let mut options = self.options;
        let summary = runtime.block_on(async {
            let share = self.store.and_then(|store| sharing::open(&store, &plan, &shelf, &emit));
            options.shared = share.clone().map(|share| Arc::new(share) as _);
            if !abandoned.is_empty() {
                let emit = Arc::clone(&emit);
                // A controller that does not answer must not hold the run up.
                tokio::spawn(async move {
                    for text in end_abandoned(abandoned).await {
                        emit(Event::Notice { task: None, text });
                    }
                });
            }
            let running = runner::run(
                Arc::clone(&plan),
                stages,
                Arc::clone(&shelf),
                Arc::clone(&digests),
                options,
                id.clone(),
                stop.clone(),
                Arc::clone(&emit),
            );
            let summary = tokio::spawn(running).await;
            for leftover in process::sweep(Duration::from_secs(1)).await {
                let text = format!("ended {} ({}), which a stage had left running", leftover.pid, leftover.command);
                emit(Event::Notice { task: None, text });
            }
            if let Some(share) = share {
                sharing::finish(&share, &stop, &self.manifest, &emit).await;
            }
            summary
        })?;
        // An input that is still being read, after somebody asked to stop, must not be waited for.
        runtime.shutdown_background();
        shelf.sync()?;
        let _ = digests.save(&home);
        let exit = exit_of(&summary);
        if exit == Exit::Done
            && let Some(text) =
                locking::write(&self.project, &self.locking, &self.settings, &plan, &parts, &summary.settled)
        {
            emit(Event::Notice { task: None, text });
        }
        emit(Event::RunFinished {
            tally: summary.tally,
            exit: exit.code(),
            seconds: self.begun.elapsed().as_secs_f64(),
        });
        let broken = sink.finish();
        let live = teller.close();
        let report = history::write_report(&home, &id, live.story(), &plan, &summary.done);
        let outs = history::outputs(live.story(), &summary.done);
        let report = report.ok();
        let told = told(live.story());
        let places = Places { logs: Some(home.run(&id)), report: report.clone(), ..places(&home) };
        live.finish(&places);
        if let Some(error) = broken {
            return Err(anyhow::Error::from(error)
                .context("the run was stopped, because its journal could not be written")
                .into());
        }
        if let Locking::Write(file) = &self.locking {
            let file = self.project.home.project().join(file);
            keep_rest(&self.compiler, &id, &plan, summary, &self.manifest, &file);
        }
        drop(lock);
        Ok(Ran { exit, outs, report, told })
    }
}

/// Waits for another run of this project, saying so once. `None` if somebody asked to stop meanwhile.
fn take_lock(home: &Home, stop: &Stop, teller: &Teller) -> Result<Option<Lock>, Trouble> {
    let mut said = false;
    loop {
        match Lock::try_take(home, || name_run(home))? {
            Taken::Yes(lock) => return Ok(Some(lock)),
            Taken::No(held) => {
                if !said {
                    said = true;
                    let (run, pid) = held.map_or(("?".to_owned(), 0), |held| (held.run, held.pid));
                    let _ = teller.send.send(Some(Event::Waiting { run, pid }));
                }
                if stop.is_asked() {
                    return Ok(None);
                }
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Ends what a dead run left running, and removes what its unfinished tries left. `before` is that run.
fn clear_up_after_crash(home: &Home, before: Option<&RunId>, id: &RunId, shelf: &Shelf, emit: &Emit) {
    let outliving = before.map(|run| outliving(home, run)).unwrap_or_default();
    for thing in outliving.iter().filter(|thing| process::remove(thing)) {
        let what = match thing {
            Outliving::Container { name, .. } => format!("the container {name}"),
            Outliving::SharedMemory { mark } => format!("shared memory (*{mark}*)"),
        };
        emit(Event::Notice { task: None, text: format!("removed {what}, which an earlier run left behind") });
    }
    for leftover in process::reap(home.state(), id) {
        let text = format!("ended {} ({}), which an earlier run left running", leftover.pid, leftover.command);
        emit(Event::Notice { task: None, text });
    }
    for folder in unfinished(home, shelf) {
        let _ = discard(&folder);
    }
}

/// What a run's journal says was there and was not removed.
fn outliving(home: &Home, run: &RunId) -> Vec<Outliving> {
    let Ok(journal) = read_journal(&home.run(run).join("journal.jsonl")) else { return Vec::new() };
    let mut left = Vec::new();
    for event in journal.events {
        match event {
            Event::OutlivingStarted { outliving, .. } => left.push(outliving),
            Event::OutlivingRemoved { outliving, .. } => left.retain(|thing| *thing != outliving),
            _ => {}
        }
    }
    // A name that a person chose may be somebody else's container by now.
    left.retain(|thing| !matches!(thing, Outliving::Container { name, .. } if !name.contains(run.as_str())));
    left
}

fn exit_of(summary: &Summary) -> Exit {
    if summary.interrupted {
        return Exit::Interrupted;
    }
    Exit::of_all(summary.failures.iter().map(|(_, failure)| failure.kind))
}

fn places(home: &Home) -> Places {
    let report = home.latest().join("report.html");
    Places { report: report.exists().then_some(report), latest: Some(home.latest()), logs: None }
}

/// Writes down what makes the next run a no-op, if this one left everything done, and the lock file as it would be left again.
fn keep_rest(compiler: &Compiler, id: &RunId, plan: &Plan, summary: Summary, manifest: &str, lock: &Path) {
    /// With more tasks than this the next run says how many there are, not each.
    const EACH: usize = 200;
    let (Some(mut look_at), Ok(stamp)) = (summary.rest, Stamp::of(lock)) else { return compiler.drop_rest() };
    look_at.push((lock.to_owned(), stamp));
    let cached = summary.tally.ran + summary.tally.cached;
    let started = Event::RunStarted {
        run: id.clone(),
        manifest: manifest.to_owned(),
        params: plan.params.clone(),
        tasks: cached + summary.tally.skipped,
        jobs: 0,
        at: String::new(),
        pid: 0,
    };
    let mut told = vec![started];
    if cached <= EACH {
        told.extend(
            summary.skipped.iter().map(|(task, why)| Event::TaskSkipped { task: task.clone(), why: why.clone() }),
        );
        told.extend(summary.done.iter().map(|(task, done, out)| Event::TaskCached {
            task: task.clone(),
            done: done.clone(),
            out: Some(out.clone()),
            from: None,
        }));
    } else {
        told.push(Event::AllCached { tasks: cached });
    }
    let tally = Tally { cached, skipped: summary.tally.skipped, ..Tally::default() };
    told.push(Event::RunFinished { tally, exit: 0, seconds: 0.0 });
    let told = told.iter().filter_map(|event| serde_json::to_string(event).ok()).collect::<Vec<_>>().join("\n");
    let _ = compiler.keep_rest(&Rest { told, look_at });
}

/// Where every event goes: the journal first, then the warden, then the teller.
struct Sink {
    inner: Mutex<Inner>,
    teller: Sender<Option<Event>>,
    stop: Stop,
    exe: PathBuf,
    id: RunId,
}

struct Inner {
    journal: Journal,
    warden: Option<Warden>,
    hold: Option<std::fs::File>,
    broken: Option<crate::store::PathError>,
}

impl Sink {
    fn new(home: &Home, id: &RunId, lock: &Lock, teller: Sender<Option<Event>>, stop: Stop) -> Result<Self, Trouble> {
        let inner =
            Inner { journal: Journal::create(home, id)?, warden: None, hold: Some(lock.share()?), broken: None };
        Ok(Self { inner: Mutex::new(inner), teller, stop, exe: env::current_exe()?, id: id.clone() })
    }

    fn take(&self, event: &Event) {
        {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = inner.journal.append(event) {
                // What is not journaled must not go on happening.
                inner.broken.get_or_insert(error);
                self.stop.gently();
            }
            match event {
                Event::TaskStarted { .. } => {
                    if let Some(hold) = inner.hold.take() {
                        inner.warden = Warden::start(&self.exe, &self.id, hold).ok();
                    }
                }
                Event::ProcessStarted { pgid, .. } => {
                    if let Some(warden) = &inner.warden {
                        warden.add(*pgid);
                    }
                }
                Event::ProcessEnded { pgid, .. } => {
                    if let Some(warden) = &inner.warden {
                        warden.remove(*pgid);
                    }
                }
                Event::OutlivingStarted { outliving, .. } => {
                    if let Some(warden) = &inner.warden {
                        warden.hold(outliving);
                    }
                }
                Event::OutlivingRemoved { outliving, .. } => {
                    if let Some(warden) = &inner.warden {
                        warden.let_go(outliving);
                    }
                }
                _ => {}
            }
        }
        let _ = self.teller.send(Some(event.clone()));
    }

    /// The run has ended in order. What the journal could not take, if anything.
    fn finish(&self) -> Option<crate::store::PathError> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.hold = None;
        if let Some(warden) = inner.warden.take() {
            warden.finish();
        }
        inner.broken.take()
    }
}

/// A thread that tells the story, so that a slow terminal holds nothing up.
struct Teller {
    /// `None` is the end: signals may come for as long as the process lives.
    send: Sender<Option<Event>>,
    thread: thread::JoinHandle<Live>,
}

impl Teller {
    fn start(look: Look) -> Self {
        let (send, receive) = channel();
        Self { send, thread: thread::spawn(move || tell(Live::new(look), &receive)) }
    }

    fn close(self) -> Live {
        let _ = self.send.send(None);
        self.thread.join().unwrap_or_else(|_| Live::new(Look::default()))
    }
}

fn tell(mut live: Live, receive: &Receiver<Option<Event>>) -> Live {
    /// How often clocks move while nothing happens.
    const TICK: Duration = Duration::from_millis(100);
    /// Events come in crowds: waking up for each of them would cost more than telling it.
    const PAUSE: Duration = Duration::from_millis(2);
    loop {
        match receive.recv_timeout(TICK) {
            Ok(Some(event)) => live.event(&event),
            Err(RecvTimeoutError::Timeout) => live.tick(),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return live,
        }
        loop {
            match receive.try_recv() {
                Ok(Some(event)) => live.event(&event),
                Err(TryRecvError::Empty) => break,
                Ok(None) | Err(TryRecvError::Disconnected) => return live,
            }
        }
        thread::sleep(PAUSE);
    }
}

/// Once: stop starting and end what runs. Twice: kill it. A third time: leave; the warden ends the rest. On a thread of its own,
/// so that it is heard while the loop reads something large or waits for the lock.
pub(super) fn heed(stop: Stop, tell: impl Fn(Event) + Send + 'static) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let [int, term, hup] = {
        let _inside = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let streams = [int?, term?, hup?];
    thread::spawn(move || runtime.block_on(heed_signals(streams, stop, tell)));
    Ok(())
}

async fn heed_signals(streams: [tokio::signal::unix::Signal; 3], stop: Stop, tell: impl Fn(Event)) {
    let [mut int, mut term, mut hup] = streams;
    for asked in 1.. {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
        let why = match asked {
            1 => {
                stop.gently();
                "interrupted; once more kills what runs"
            }
            2 => {
                stop.now();
                "killing what runs"
            }
            _ => leave(),
        };
        tell(Event::Stopping { why: why.to_owned() });
    }
}

#[expect(clippy::exit, reason = "the third request to stop: somebody wants us gone, and the warden ends the rest")]
fn leave() -> ! {
    std::process::exit(i32::from(Exit::Interrupted.code()))
}
