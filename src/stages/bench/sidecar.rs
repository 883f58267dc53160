//! A process that runs beside a stage's work and ends with it: dropping it ends it, whatever the reason.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::event::Event;
use crate::exec::process::{ExitKind, Running, SpawnError};
use crate::files::read_bytes;
use crate::stages::task_context::TaskContext;

/// A process beside a task. Its start and end are reported to whatever cleans up after a killed run.
pub struct Sidecar {
    running: Option<Running>,
    /// All that it writes; gone with it.
    file: PathBuf,
    ended: Box<dyn Fn() + Send + Sync>,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = std::fs::remove_file(&self.file);
        (self.ended)();
    }
}

impl Sidecar {
    /// Starts a command in the task's environment plus these variables. `name` distinguishes its log file from those of others.
    pub fn start(
        context: &TaskContext,
        argv: Vec<String>,
        env: &[(&str, &str)],
        name: &str,
    ) -> Result<Self, SpawnError> {
        let file = context.lease.log.with_extension(name);
        let _ = std::fs::remove_file(&file);
        // Written directly to the file: the command has no secrets, and nothing would forward its output.
        let mut command = context.command(argv.into_iter().map(Into::into).collect()).secrets(Vec::new());
        for (name, value) in env {
            command = command.set(*name, *value);
        }
        command.log.clone_from(&file);
        let running = Running::start(command)?;
        let (task, emit, pgid) = (context.lease.task.id.clone(), context.lease.emit.clone(), running.pgid());
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let ended = Box::new(move || emit(Event::ProcessEnded { task: task.clone(), pgid }));
        Ok(Self { running: Some(running), file, ended })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it has written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&read_bytes(&self.file).unwrap_or_default()).into_owned()
    }

    pub fn seconds(&self) -> f64 {
        self.running.as_ref().map_or(0.0, Running::seconds)
    }

    /// Resolves when the process ends by itself. Can be dropped and awaited again.
    pub async fn ended(&mut self) -> ExitKind {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => ExitKind::Stopped,
        }
    }

    /// Ends it; what it wrote can still be read. Its own end, if it came first.
    pub async fn stop(&mut self, context: &TaskContext, grace: Duration) -> ExitKind {
        match self.running.take() {
            Some(running) => running.stop(grace, &context.lease.stop).await.how,
            None => ExitKind::Stopped,
        }
    }
}
