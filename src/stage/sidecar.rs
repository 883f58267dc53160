//! A process that runs beside a stage's work and ends with it: dropping it ends it, whatever the reason.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::task_context::TaskContext;
use crate::event::Event;
use crate::process::{How, Running};

/// Those who clean up after a killed run are told when it begins and when it is gone.
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
    /// Starts a command in the task's own environment and these variables. `name` tells its file from those of others.
    pub fn start(errand: &TaskContext, argv: Vec<String>, env: &[(&str, &str)], name: &str) -> Result<Self, String> {
        let file = errand.lease.log.with_extension(name);
        let _ = std::fs::remove_file(&file);
        // Straight into the file: it knows no secret, and nobody would move its output on.
        let mut command = errand.command(argv.into_iter().map(Into::into).collect()).secrets(Vec::new());
        for (name, value) in env {
            command = command.set(*name, *value);
        }
        command.log.clone_from(&file);
        let running = Running::start(command).map_err(|error| error.to_string())?;
        let (task, emit, pgid) = (errand.lease.task.id.clone(), errand.lease.emit.clone(), running.pgid());
        emit(Event::ProcessStarted { task: task.clone(), pgid });
        let ended = Box::new(move || emit(Event::ProcessEnded { task: task.clone(), pgid }));
        Ok(Self { running: Some(running), file, ended })
    }

    pub fn file(&self) -> &Path {
        &self.file
    }

    /// What it has written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.file).unwrap_or_default()).into_owned()
    }

    pub fn seconds(&self) -> f64 {
        self.running.as_ref().map_or(0.0, Running::seconds)
    }

    /// Resolves when it ends by itself. May be dropped and asked again.
    pub async fn ended(&mut self) -> How {
        match &mut self.running {
            Some(running) => running.ended().await,
            None => How::Stopped,
        }
    }

    /// Ends it; what it wrote can still be read. Its own end, if it came first.
    pub async fn stop(&mut self, errand: &TaskContext, grace: Duration) -> How {
        match self.running.take() {
            Some(running) => running.stop(grace, &errand.lease.stop).await.how,
            None => How::Stopped,
        }
    }
}
