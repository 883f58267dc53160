//! `gpu_clocks:` — the clocks of a task's GPUs are locked before its first process starts, and unlocked at its end,
//! whatever that end is: here, by the watchdog if the run is killed, and by the next run if both are.

use std::ffi::OsString;
use std::sync::Arc;

use base::event::{Event, ExternalResource, Failure, FailureKind, GpuId, Stop, TaskId};
use base::spec::GpuClocks;
use exec::process::{self, AttemptLog, ProcessCommand};
use runner::{EventEmitter, Lease};

/// Clocks that are locked. Dropping it unlocks them.
pub struct LockedClocks {
    task: TaskId,
    emit: EventEmitter,
    lock: ExternalResource,
}

impl LockedClocks {
    /// Locks the clocks of the lease's GPUs.
    ///
    /// # Errors
    /// `nvidia-smi` is not there, or refuses.
    pub async fn lock(lease: &Lease, clocks: &GpuClocks) -> Result<Self, Failure> {
        if lease.gpus.iter().any(|gpu| matches!(gpu, GpuId::Mig(_))) {
            let message = "`gpu_clocks`: the clocks of a MIG instance are those of its whole GPU, and cannot be \
             locked for it alone";
            return Err(Failure::refused(message));
        }
        let listed = GpuId::list(&lease.gpus);
        let argv = lock_command(clocks, &listed);
        let lock = ExternalResource::GpuClocks { gpus: lease.gpus.clone(), sudo: clocks.sudo };
        // Registered first: a run that is killed in between unlocks what was never locked, which changes nothing.
        (lease.emit)(Event::ExternalResourceStarted { task: lease.task.id.clone(), resource: lock.clone() });
        let locked = Self { task: lease.task.id.clone(), emit: Arc::clone(&lease.emit), lock };
        run(lease, &argv).await?;
        let [least, greatest] = clocks.graphics;
        let clock = if least == greatest { format!("{least} MHz") } else { format!("{least} to {greatest} MHz") };
        lease.notice(format!("clocks of GPU {listed} are locked to {clock}"));
        Ok(locked)
    }
}

impl Drop for LockedClocks {
    fn drop(&mut self) {
        let Self { task, emit, lock } = self;
        if process::remove_all([&*lock]) == [true] {
            emit(Event::ExternalResourceRemoved { task: task.clone(), resource: lock.clone() });
            return;
        }
        let command = process::orders(lock).concat().join(" ");
        let text = format!("its GPUs' clocks are still locked: `{command}` failed; the run tries it again at its end");
        emit(Event::Notice { task: Some(task.clone()), text });
    }
}

/// `nvidia-smi -lgc 1410,1410 -i 0,1`
fn lock_command(clocks: &GpuClocks, gpus: &str) -> Vec<String> {
    let mut argv = if clocks.sudo { vec!["sudo".to_owned(), "-n".to_owned()] } else { Vec::new() };
    argv.extend(["nvidia-smi", "-lgc"].map(str::to_owned));
    argv.extend([clocks.to_string(), "-i".to_owned(), gpus.to_owned()]);
    argv
}

async fn run(lease: &Lease, argv: &[String]) -> Result<(), Failure> {
    let words: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let log = AttemptLog::from_now(&lease.log);
    let command = ProcessCommand::new(words, &lease.out, &lease.log);
    let shown = argv.join(" ");
    let exit = process::run(command, &Stop::new(), |_| {}).await.map_err(|error| {
        Failure::new(FailureKind::Spawn, format!("cannot lock the GPUs' clocks: {error}")).command(shown.clone())
    })?;
    if exit.how.is_success() {
        return Ok(());
    }
    let failure = Failure::system("cannot lock the GPUs' clocks").command(shown);
    let failure = failure.tail(log.tail(5));
    let hint = "only root may lock clocks: `gpu_clocks.sudo: true` calls `sudo -n nvidia-smi`; or remove `gpu_clocks`";
    Err(Failure { log: Some(lease.log.clone()), ..failure.hint(hint) })
}
