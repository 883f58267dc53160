//! A run that has the project's lock and a journal: from here on everything that it does is recorded.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::after_crash::{clean_up_after_crash, leftover_resources};
use super::metrics_listener;
use super::parallel_join::parallel_join;
use super::prepared_run::PreparedRun;
use super::progress_printer::ProgressPrinter;
use super::sink::EventSink;
use crate::error::CommandError;
use base::event::{Event, RunId, Stop};
use report::RunState;
use runner::store::{Digests, OutputCache, ProjectLock, discard, ended_well, unfinished_plans};
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
        let left = if ended_well(&home)? { None } else { Some(leftover_resources(&home)?) };
        let (opened, unchanged) = parallel_join(
            || OutputCache::open(&home),
            || UnchangedTasks::new(earlier.map(|earlier| earlier.conditions.tasks).unwrap_or_default()),
        );
        prepared.options.unchanged = Arc::new(unchanged);
        let cache = Arc::new(opened?);
        cache.begin()?;
        let digests = Arc::new(Digests::load(&home));
        let scraped = prepared.metrics_listen.as_ref().map(|_| Arc::new(Mutex::new(RunState::new())));
        let sink = Arc::new(EventSink::new(&home, &id, &lock, printer.send.clone(), stop.clone(), scraped.clone())?);
        let emit: EventEmitter = {
            let sink = Arc::clone(&sink);
            Arc::new(move |event| sink.take(&event))
        };
        let begun = Self { id, lock, cache, digests, stop, emit, sink, is_lock_file_as_written };
        begun.announce(prepared);
        if let (Some(address), Some(state)) = (&prepared.metrics_listen, scraped) {
            let bound = runtime.block_on(metrics_listener::listen(address, state));
            (begun.emit)(match bound {
                Ok(bound) => Event::MetricsServed { url: format!("http://{bound}/metrics") },
                Err(error) => Event::Notice { task: None, text: format!("no metrics of this run: {address}: {error}") },
            });
        }
        if let Some(left) = left {
            clean_up_after_crash(&home, left, &begun.id, &begun.cache, &begun.emit);
        }
        Ok(begun)
    }

    /// Reported before anything happens.
    fn announce(&self, prepared: &PreparedRun) {
        let (Self { id, lock, emit, .. }, PreparedRun { plan, options, .. }) = (self, prepared);
        let is_part = |part: &TaskRole| *part != TaskRole::NotNeeded;
        emit(Event::RunStarted {
            run: id.clone(),
            manifest: prepared.manifest.clone(),
            params: plan.params.clone(),
            settings: plan.settings(),
            tasks: options.roles.iter().filter(|part| is_part(part)).count(),
            jobs: options.jobs as usize,
            at: jiff::Timestamp::now().to_string(),
            pid: std::process::id(),
        });
        let chosen: Vec<bool> = options.roles.iter().map(is_part).collect();
        for text in plan.idle(&chosen) {
            emit(Event::Notice { task: None, text });
        }
        for (task, text) in &prepared.lock_report.messages {
            emit(Event::Notice { task: task.clone(), text: text.clone() });
        }
        if lock.unprotected {
            let text = "this filesystem has no locks: two runs of this project at once would not see each other";
            emit(Event::Notice { task: None, text: text.to_owned() });
        }
    }
}
