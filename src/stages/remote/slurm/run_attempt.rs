//! The run's side of an attempt: submits its job or finds it in the queue, follows it, and concludes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::allocation::{OnNode, reachable};
use super::cancel_jobs::{Enqueued, JobExistence};
use super::commands::{
    Environment, JobsToEnd, QueueView, Submission, at_clusters, cancel, environment, folder_problem, has_many_clusters,
};
use super::job_end::{FolderLook, JobProgress, ProgressReader};
use super::job_files::{JobEnd, JobEvent, JobSpec, place, write_job_spec};
use super::node_worker::JobHeartbeat;
use super::queue_interpreter::{QueueInterpreter, QueueObservation, duplicate_jobs};
use super::submission::{SlurmContext, until_submitted};
use super::{batch_script, cancel_jobs};
use base::event::{Done, Endpoint, Event, Failure, FailureKind};
use base::spec::TimeSpan;
use exec::process::shown;
use plan::Lifetime;
use plan::manifest::model::Slurm;
use runner::store::{JobFolder, JobOwner, PathError, point, superseded};
use runner::{BatchSlot, Lease};

/// How often the run signals to a service that it is still needed.
const SERVICE_BEAT_INTERVAL: Duration = Duration::from_secs(5);

pub async fn perform(mut lease: Lease, slurm: Slurm, home: &Path, cluster: &SlurmContext) -> Result<Done, Failure> {
    let (ready, batch_slot) = (lease.ready.take(), lease.batch_slot.take());
    let folder = JobFolder::for_output(home, &lease.out);
    let owner = JobOwner { project: &lease.project, manifest: &cluster.manifest, task: &lease.task.id };
    let superseded = superseded(&folder, owner);
    let superseded = superseded.map_err(|error| Failure::system(error.to_string()))?;
    for text in cancel_jobs::end_abandoned_by(superseded, cluster).await {
        lease.notice(text);
    }
    let (result, settled) = run_attempt(&lease, slurm, None, &folder, cluster, ready, batch_slot).await;
    if settled {
        // What comes now from this attempt counts for nothing.
        let _ = folder.remove();
    }
    result
}

/// One attempt, of a task or of a whole run (`words`: its arguments). The second value: whether its end was seen.
pub async fn run_attempt(
    lease: &Lease,
    slurm: Slurm,
    words: Option<Vec<String>>,
    folder: &JobFolder,
    cluster: &SlurmContext,
    ready: Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>,
    batch_slot: Option<BatchSlot>,
) -> (Result<Done, Failure>, bool) {
    if let Some(problem) = folder_problem(folder.path()) {
        let hint = "give the project, or its state folder, another path";
        return (Err(Failure::refused(problem).hint(hint)), true);
    }
    let job_spec: Option<JobSpec> = match folder.read() {
        Ok(found) => found,
        Err(error) => return (Err(error.into()), false),
    };
    if let Some(spec) = job_spec.as_ref().filter(|spec| !spec.is_made_for(folder)) {
        return (Err(Failure::refused(cancel_jobs::foreign_job_message(folder, spec))), false);
    }
    let adopted = job_spec.is_some();
    let spec = if let Some(spec) = job_spec {
        spec
    } else {
        let place = place(&slurm, batch_slot.as_ref(), folder, cluster).await;
        match write_job_spec(lease, slurm, words, folder, place, &cluster.manifest).await {
            Ok(spec) => spec,
            Err(error) => return (Err(error.into()), false),
        }
    };
    if let Err(error) = point(&lease.log, &spec.work.log) {
        return (Err(error.into()), false);
    }
    let only = spec
        .slurm
        .export
        .as_ref()
        .map(|names| names.iter().chain(&spec.work.task.secrets).cloned().collect::<Vec<_>>());
    let env = at_clusters(environment(std::env::vars_os(), only.as_deref()), &spec.slurm.args);
    let every = spec.slurm.poll.time().max(Duration::from_secs(1));
    let view = cluster.queue.subscribe(&env, every);
    let mut attempt = JobAttempt {
        lease,
        cluster,
        folder: folder.clone(),
        spec,
        env,
        view,
        on_node: OnNode::default(),
        settled: AtomicBool::new(false),
    };
    let result = attempt.go(adopted, ready, batch_slot).await;
    let settled = attempt.settled.into_inner();
    if let (true, Some(element)) = (settled, attempt.spec.element) {
        folder.arrays().forget(&attempt.spec.name, element);
    }
    (result, settled)
}

/// Shows a service's job that it is needed, whatever else its run waits for.
async fn keep_needed(folder: JobFolder) {
    let mut beat = tokio::time::interval(SERVICE_BEAT_INTERVAL);
    for beats in 1.. {
        beat.tick().await;
        let folder = folder.clone();
        // A shared filesystem may be slow.
        let _ = spawn_blocking(move || folder.beat(beats)).await;
    }
}

impl JobAttempt<'_> {
    pub(super) async fn go(
        &mut self,
        adopted: bool,
        ready: Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>,
        batch_slot: Option<BatchSlot>,
    ) -> Result<Done, Failure> {
        // The log of a stage that has not begun can be read, too.
        let existence = if adopted { JobExistence::Unknown } else { JobExistence::Absent };
        let begun = adopted && (self.folder.is_claimed() || self.folder.number().is_some());
        if begun {
            drop(batch_slot);
            let number = self.folder.claimant().ok().flatten().or_else(|| self.folder.number());
            let job = number.map_or_else(|| "a job".to_owned(), |number| format!("job {number}"));
            self.lease.notice(if self.has_recorded_end() {
                format!("{job}, which an earlier run submitted, has ended meanwhile")
            } else {
                format!("continues {job} that an earlier run submitted")
            });
        } else {
            let submitted = until_submitted(self, batch_slot, existence).await?;
            if submitted != Enqueued::InQueue {
                return Err(self.cancel_and_wait(submitted).await);
            }
        }
        let mut reader = ProgressReader::new(self.folder.clone());
        let mut queue = self.interpreter();
        if begun {
            queue = queue.of_earlier_run(self.has_recorded_end());
        }
        let result = self.follow(&mut reader, queue, ready).await;
        // What a job that drained, or was cancelled, wrote since the last look: that its container is gone, for
        // example.
        if let Ok(FolderLook::Progress(progress)) = reader.look().await {
            self.take_events(&progress.lines, &mut None).await;
        }
        for text in self.on_node.leftover_notices() {
            self.lease.notice(text);
        }
        result
    }

    fn interpreter(&self) -> QueueInterpreter {
        let wait = self.spec.slurm.queue_timeout.as_ref().map(TimeSpan::time);
        // From now on, when it is submitted: the tries before that were no time in the queue.
        QueueInterpreter::new(Instant::now(), wait, self.spec.slurm.time.clone())
    }

    /// A damaged record is one, too: what follows reports it.
    fn has_recorded_end(&self) -> bool {
        !matches!(self.folder.ended::<JobEnd>(), Ok(None))
    }

    async fn follow(
        &mut self,
        reader: &mut ProgressReader,
        mut queue: QueueInterpreter,
        mut ready: Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>,
    ) -> Result<Done, Failure> {
        let service = self.spec.work.task.lifetime == Lifetime::Service;
        let job = self.spec.job();
        let mut pulse = JobHeartbeat::new(&self.spec.slurm);
        let _beats = service.then(|| AbortOnDropHandle::new(tokio::spawn(keep_needed(self.folder.clone()))));
        loop {
            match reader.look().await {
                Ok(FolderLook::Progress(progress)) => {
                    let JobProgress { ended, lines, claimant, heartbeat } = *progress;
                    self.take_events(&lines, &mut ready).await;
                    if let Some(ended) = ended {
                        let result = self.conclude(ended, &mut queue).await;
                        self.mark_ended();
                        return result;
                    }
                    let view = self.view.borrow_and_update().clone();
                    self.end_surplus(&view, claimant.as_deref()).await;
                    let now = Instant::now();
                    if view.silent == 0 {
                        self.cluster.is_silence_reported.store(false, Ordering::Relaxed);
                    }
                    if let Some(text) = pulse.update(heartbeat, now) {
                        self.lease.notice(text);
                    }
                    match queue.observe(&view, &job, claimant.as_deref(), pulse.is_alive(now), now) {
                        QueueObservation::Wait(text) => self.lease.report_progress(text, 0, None),
                        QueueObservation::Notify(text) => self.lease.notice(text),
                        QueueObservation::Silent(text) => {
                            if self.cluster.is_silence_reported.swap(true, Ordering::Relaxed) {
                                self.lease.report_progress(text, 0, None);
                            } else {
                                (self.lease.emit)(Event::Notice { task: None, text });
                            }
                        }
                        QueueObservation::Ended(failure) => {
                            let failure = self.give_up(*failure).await;
                            self.mark_ended();
                            return Err(failure);
                        }
                    }
                }
                // The queue decides nothing meanwhile: the job may have recorded its end.
                Ok(FolderLook::Unreadable(notice)) => notice.into_iter().for_each(|text| self.lease.notice(text)),
                Err(error) => return Err(self.cannot_follow(&error).await),
            }
            tokio::select! {
                biased;
                () = self.lease.stop.requested() => return self.stop(service, &mut queue).await,
                () = sleep(folder_poll_interval(self.cluster.queue.subscribers())) => {}
            }
        }
    }

    async fn take_events(&mut self, lines: &[String], ready: &mut Option<tokio::sync::oneshot::Sender<Vec<Endpoint>>>) {
        for line in lines.iter().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                JobEvent::Began { number, node, .. } => {
                    self.on_node.at(&node);
                    self.lease.report_progress(format!("job {number} on {node}"), 0, None);
                }
                JobEvent::ExternalResource { thing, there } => self.on_node.update(thing, there),
                JobEvent::Event(event) => (self.lease.emit)(event),
                JobEvent::Ready(endpoints) => {
                    if let Some(ready) = ready.take() {
                        let _ = ready.send(reachable(endpoints, &self.env).await);
                    }
                }
            }
        }
    }

    /// Without its folder the job's end would not be seen.
    async fn cannot_follow(&mut self, error: &PathError) -> Failure {
        let end = if self.cancel_for_certain(Enqueued::InQueue).await { "was cancelled" } else { "may still be there" };
        let failure = Failure::system(format!("{error}; its job {end}"));
        Failure { log: Some(self.lease.log.clone()), ..failure }
    }

    /// A submission that was repeated although the first one had arrived.
    async fn end_surplus(&self, view: &QueueView, claimant: Option<&str>) {
        let numbers: Vec<String> =
            duplicate_jobs(view.entries(&self.spec.job()), claimant).map(|job| job.number.clone()).collect();
        if !numbers.is_empty() && !has_many_clusters(&self.env) {
            // They would end by themselves, having found the claim; in the queue they are only in the way.
            let _ = cancel(JobsToEnd::Numbers(&numbers), false, &self.env).await;
        }
    }

    /// On a stop request: a service is shut down gracefully, anything else is cancelled.
    async fn stop(&mut self, service: bool, queue: &mut QueueInterpreter) -> Result<Done, Failure> {
        let _ = self.folder.cancel();
        if service && let Some(ended) = cancel_jobs::wait_for_drain(self).await {
            self.mark_ended();
            return match self.conclude(ended, queue).await {
                Err(failure) if failure.kind == FailureKind::Signal(15) => Ok(Done::default()),
                result => result,
            };
        }
        Err(self.cancel_and_wait(Enqueued::InQueue).await)
    }

    /// After a stop request.
    async fn cancel_and_wait(&mut self, enqueued: Enqueued) -> Failure {
        let is_gone = self.cancel_for_certain(enqueued).await;
        let message = if is_gone { "stopped, and its job cancelled" } else { "stopped; its job may still be there" };
        Failure::interrupted(message)
    }

    /// Cancels whatever there may be of it, and waits until it is gone. Returns whether that could be confirmed.
    async fn cancel_for_certain(&mut self, enqueued: Enqueued) -> bool {
        let _ = self.folder.cancel();
        match cancel_jobs::for_certain(self, enqueued).await {
            Ok(()) => {
                self.mark_ended();
                true
            }
            Err(why) => {
                self.lease.notice(format!(
                    "the cancellation of its job could not be confirmed ({why}); the job exits once it reads the stop \
                        request, and the next run checks it (its name: {})",
                    self.spec.job()
                ));
                false
            }
        }
    }
}

// One attempt at a stage as a job: what belongs to it, and how it is submitted.

/// How often the folder is looked at, where few jobs are followed.
pub const FOLDER_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// So many jobs are few. With more of them each is looked at less often, so that a shared filesystem has the same load.
const FEW: usize = 16;
const LONGEST_POLL_INTERVAL: Duration = Duration::from_secs(10);

/// How often each folder is looked at, of so many jobs.
pub fn folder_poll_interval(jobs: usize) -> Duration {
    let times = u32::try_from(jobs.div_ceil(FEW).max(1)).unwrap_or(u32::MAX);
    FOLDER_POLL_INTERVAL.saturating_mul(times).min(LONGEST_POLL_INTERVAL)
}

/// One attempt at a stage.
pub struct JobAttempt<'a> {
    pub lease: &'a Lease,
    pub cluster: &'a SlurmContext,
    pub folder: JobFolder,
    pub spec: JobSpec,
    pub env: Environment,
    pub view: watch::Receiver<QueueView>,
    pub on_node: OnNode,
    /// Its end has been seen, whatever it was: the folder has no use any more.
    pub settled: AtomicBool,
}

impl JobAttempt<'_> {
    /// Its end was seen, or it never began: no later run looks for it.
    pub fn mark_ended(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    pub fn submission(&self) -> Submission {
        Submission {
            name: self.spec.name.clone(),
            folder: self.folder.path().to_owned(),
            script: self.folder.script(),
            output: self.output(),
            array: self.spec.element.map(|element| (element.to_string(), None)),
            warn_s: self.spec.slurm.warn.time().as_secs().clamp(1, 65_535),
            flags: batch_script::flags(&self.spec.slurm, self.spec.work.task.gpus),
            env: self.env.clone(),
        }
    }

    /// Where the output of the batch system and of the script is kept.
    pub fn output(&self) -> PathBuf {
        match self.spec.element {
            Some(element) => self.folder.arrays().output(&self.spec.name, element),
            None => self.folder.output(),
        }
    }
}

/// The submission as it could be typed.
pub fn submission_command(submission: &Submission) -> String {
    let mut argv = vec![std::ffi::OsString::from("sbatch")];
    argv.extend(submission.sbatch_argv());
    shown(&argv, &[], &[])
}

#[cfg(test)]
mod tests {
    use super::super::job_files::FolderSize;
    use super::super::stand_in::StandIn;
    use super::*;
    use base::event::ExternalResource;

    #[tokio::test(start_paused = true)]
    async fn what_a_server_writes_while_it_drains_is_read() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Service);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        let thing = ExternalResource::Container { program: "podman".to_owned(), name: "regatta-a".to_owned() };
        let write = |there: bool| {
            let mut line = serde_json::to_vec(&JobEvent::ExternalResource { thing: thing.clone(), there }).unwrap();
            line.push(b'\n');
            folder.open_events_file().unwrap().append(&line).unwrap();
        };
        folder.claim("7").unwrap();
        write(true);
        let job = async {
            sleep(Duration::from_secs(5)).await;
            slurm.stop.request();
            while !folder.is_cancelled() {
                sleep(FOLDER_POLL_INTERVAL).await;
            }
            write(false);
            let (number, node) = ("7".to_owned(), "n1".to_owned());
            folder.end(&JobEnd { number, node, how: Ok(Done::default()), extent: FolderSize::default() }).unwrap();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, None, None), job);
        ended.unwrap();
        assert_eq!(slurm.notices(), [""; 0], "its container is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_hears_from_its_run_while_its_address_is_looked_up() {
        // The look-up takes as long as the run has been heard for.
        let scontrol = r#"until [ "0$(cat "$W/state/jobs/0123-0/beat")" -ge 4 ]; do sleep 0.01; done"#;
        let slurm = StandIn::new(&[("scontrol", scontrol)]);
        let lease = slurm.lease(Lifetime::Service);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let folder = attempt.folder.clone();
        folder.claim("7").unwrap();
        let endpoint = Endpoint { host: "127.0.0.1".to_owned(), grpc: 1, http: None, metrics: None, name: None };
        let mut line = serde_json::to_vec(&JobEvent::Ready(vec![endpoint])).unwrap();
        line.push(b'\n');
        folder.open_events_file().unwrap().append(&line).unwrap();
        let (ready, receiver) = tokio::sync::oneshot::channel();
        // The program holds the runtime's clock: the beats go on by hand.
        let clock = async {
            while slurm.calls("scontrol").is_empty() {
                tokio::task::yield_now().await;
            }
            while folder.beats().and_then(|beats| beats.parse().ok()).unwrap_or(0) < 4 {
                tokio::time::advance(Duration::from_secs(1)).await;
            }
            receiver.await.unwrap();
            slurm.stop.now();
        };
        let (ended, ()) = tokio::join!(attempt.go(false, Some(ready), None), clock);
        assert_eq!(ended.unwrap_err().kind, FailureKind::Interrupted);
    }

    /// Two jobs of one run while the controller does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_silent_controller_is_reported_once_for_all_jobs() {
        let slurm = StandIn::new(&[("squeue", "echo 'no answer' >&2; exit 1")]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        let other_lease = Lease { out: slurm.path("state/out/4567-0"), ..slurm.lease(Lifetime::Step) };
        let mut other = slurm.attempt(&other_lease, Slurm::default()).await;
        let stop = async {
            sleep(Duration::from_mins(2)).await;
            slurm.stop.now();
        };
        let _ = tokio::join!(attempt.go(false, None, None), other.go(false, None, None), stop);
        let silent = slurm.notices().into_iter().filter(|text| text.starts_with("Slurm's controller does not answer"));
        assert_eq!(silent.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_that_was_stopped_before_the_run_began_is_lost() {
        let slurm = StandIn::new(&[]);
        let lease = slurm.lease(Lifetime::Step);
        let mut attempt = slurm.attempt(&lease, Slurm::default()).await;
        attempt.folder.claim("7").unwrap();
        let how = Err(Failure::interrupted("stopped"));
        let (number, node) = ("7".to_owned(), "n1".to_owned());
        attempt.folder.end(&JobEnd { number, node, how, extent: FolderSize::default() }).unwrap();
        let failure = attempt.go(true, None, None).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Lost, "it is submitted again");
        assert_eq!(failure.what, "its job was stopped before this run began");
        assert_eq!(slurm.notices(), ["job 7, which an earlier run submitted, has ended meanwhile"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_the_queue_begins_when_the_job_is_submitted() {
        let sbatch = r#"[ $(grep -c sbatch "$W/calls") -gt 2 ] ||
{ echo "Unable to contact slurm controller" >&2; exit 1; }
echo PENDING > "$W/job"; echo 7"#;
        let slurm = StandIn::new(&[("sbatch", sbatch)]);
        let lease = slurm.lease(Lifetime::Step);
        let settings = Slurm { queue_timeout: Some(Duration::from_secs(5).into()), ..Slurm::default() };
        let mut attempt = slurm.attempt(&lease, settings).await;
        let begun = Instant::now();
        let failure = attempt.go(false, None, None).await.unwrap_err();
        assert_eq!(failure.what, "its job 7 did not start within 5 s in the queue (None)");
        // Two pauses between the tries, and then the time in the queue.
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_secs(2 + 4 + 5), "{waited:?}");
    }

    #[test]
    fn many_jobs_are_looked_at_less_often() {
        let interval = |jobs: usize| folder_poll_interval(jobs).as_millis();
        assert_eq!([interval(0), interval(16), interval(40), interval(100_000)], [500, 500, 1500, 10_000]);
    }
}
