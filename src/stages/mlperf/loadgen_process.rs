//! The process that runs LoadGen: started with its orders, read line by line, ended with its task.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::task_context::TaskContext;
use base::event::{Failure, FailureKind, Stop};
use mlperf::loadgen::{ChildMessage, ChildOrders};
use runner::store::WithPath as _;

/// How often its lines are read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// On a stop request, it sums up and writes what it has seen, which may be hundreds of thousands of requests.
const TO_WRITE: Duration = Duration::from_mins(1);

/// Runs the child to its end and forwards its events. On a stop request, the child writes its results so far. Dropping this
/// future kills the child immediately.
pub async fn run(
    context: &TaskContext,
    program: Option<&Path>,
    orders: &ChildOrders,
    stop: &Stop,
    mut on_message: impl FnMut(ChildMessage),
) -> Result<(), Failure> {
    let system =
        |path: &Path, error: &std::io::Error| Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
    let orders_file = context.lease.log.with_extension("orders.json");
    let text = serde_json::to_vec(orders).map_err(|error| Failure::new(FailureKind::System, error.to_string()))?;
    fs::write(&orders_file, text).at("write", &orders_file)?;
    let program = match program {
        Some(program) => program.to_owned(),
        None => std::env::current_exe().map_err(|error| system(Path::new("this program"), &error))?,
    };
    let argv: Vec<OsString> = vec![program.into(), "__loadgen-test".into(), orders_file.clone().into()];
    let answer = context.lease.log.with_extension("lines");
    let mut lines = Lines { path: answer.clone(), read: 0, rest: Vec::new() };
    let mut failed = None;
    let mut hand_on = |lines: &mut Lines| {
        for line in lines.come() {
            if let ChildMessage::Failed { why, is_refused } = &line {
                failed = Some((why.clone(), *is_refused));
            }
            on_message(line);
        }
    };
    let ended = {
        let mut running =
            std::pin::pin!(context.run_until(context.command(argv).answer(&answer).grace(TO_WRITE), stop));
        let mut tick = tokio::time::interval(LOOK_EVERY);
        loop {
            tokio::select! {
                biased;
                ended = &mut running => break ended,
                _ = tick.tick() => hand_on(&mut lines),
            }
        }
    };
    hand_on(&mut lines);
    for file in [&orders_file, &answer] {
        let _ = fs::remove_file(file);
    }
    match (ended, failed) {
        (Ok(_), _) => Ok(()),
        // The failure that the child reports is more precise than its exit status.
        (Err(failure), Some((why, is_refused))) => {
            let kind = if is_refused { FailureKind::Refused } else { failure.kind };
            Err(Failure { kind, what: why, ..failure })
        }
        (Err(failure), None) => Err(failure),
    }
}

/// Lines of a file that grows.
struct Lines {
    path: PathBuf,
    read: u64,
    rest: Vec<u8>,
}

impl Lines {
    fn come(&mut self) -> Vec<ChildMessage> {
        let mut more = Vec::new();
        let read = fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.read))?;
            file.read_to_end(&mut more)
        });
        // Not there yet is nothing new.
        self.read += read.unwrap_or(0) as u64;
        self.rest.extend(more);
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }
}
