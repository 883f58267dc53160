//! `regatta run … --on slurm`: the whole pipeline in one allocation.
//!
//! Outside, this command submits a job that runs the same command on its first node, and follows it: its output is this
//! command's output, its exit code this command's. Inside, every stage runs where the job is, also one with `host:
//! slurm`. The same command again, after the first one was killed, continues with the existing job.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::{self, CliExit, Global, KeyValueArg};
use crate::console::{PiecePrinter, print_error};
use crate::error::CommandError;
use crate::project::{Project, options};
use crate::run::signals::{StopSignals, interrupt, print_event};
use crate::run::{RunPurpose, perform, serve_here};
use base::event::{Failure, FailureKind, Stop};
use base::files::Digest;
use base::units::{counted, unquoted};
use plan::manifest::model::{HostOn, Slurm};
use plan::manifest::{Manifest, ValueOrigin};
use plan::{Plan, Task};
use runner::TaskRole;
use runner::store::{JobFolder, StateFolder, has_no_locks};
use stages::{AllocationRun, AttemptClaim, in_allocation, time_left};

/// How often the job's output is read.
const LOOK: Duration = Duration::from_millis(300);

/// Submits the job, or finds the one that an earlier command submitted, and follows it to its end.
pub(super) fn submit_and_follow(global: &Global, request: &cli::RunRequest) -> Result<CliExit, CommandError> {
    let slurm = slurm(&request.mode.slurm)?;
    let project = Project::open_current(global)?;
    let compiler = project.compiler(&request.subject);
    // Report every error here, before anything waits in a queue.
    let plan = project.plan_with_digest(&request.subject, &request.select, &compiler, true)?.0;
    let roles = options(&plan, &request.select)?.roles;
    if request.mode.gpus.is_none()
        && let Some(text) = missing_gpus(&plan, &roles, &slurm, std::env::vars_os().map(|(name, _)| name))
    {
        print_error(&format!("! {text}\n"));
    }
    let mut words = words(std::env::args_os().skip(1), &project.home);
    words.extend(given_by_environment(&project.manifest(&request.subject)?));
    let name: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let folder_name = format!("run-{}", Digest::hash(name.join("\0").as_bytes()).short());
    let out = project.home.state().join("allocations").join(&folder_name);
    std::fs::create_dir_all(&out).with_context(|| format!("cannot create {}", out.display()))?;
    let _alone = lock(&out)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    exec::process::adopt_orphans()?;
    let signals = StopSignals::new();
    let _answered = signals.answer(interrupt, |event| print_event(&event))?;
    let home = project.home.state().to_owned();
    let resubmit = slurm.resubmit;
    let allocation = AllocationRun {
        name: folder_name,
        words: name,
        slurm,
        log: out.with_extension("log"),
        out,
        project: project.home.project().to_owned(),
        stop: signals.stop().clone(),
        emit: Arc::new(|event| print_event(&event)),
    };
    let ended = runtime.block_on(async {
        let ended = resubmitted_while_lost(&allocation, resubmit, &home).await;
        let _ = exec::process::sweep(Duration::from_secs(1)).await;
        ended
    });
    runtime.shutdown_background();
    Ok(match ended {
        Ok(_) => CliExit::Done,
        Err(Failure { kind: FailureKind::Exit(code), .. }) => CliExit::from_code(code),
        Err(failure) => {
            print_failure(&failure);
            CliExit::of(failure.kind)
        }
    })
}

/// Like a stage that lost its node or was preempted: another job goes on with what is cached.
async fn resubmitted_while_lost(
    allocation: &AllocationRun,
    resubmit: u32,
    home: &Path,
) -> Result<base::event::Done, Failure> {
    let mut attempt = earlier_attempt(home, &allocation.out).unwrap_or(0);
    loop {
        let out = attempt_folder(&allocation.out, attempt);
        let folder = JobFolder::for_output(home, &out);
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let streaming = tokio::spawn(stream(folder.output(), receiver));
        let (ended, settled) = in_allocation(AllocationRun { out, ..allocation.clone() }, home).await;
        let _ = sender.send(());
        let _ = streaming.await;
        if settled {
            let _ = folder.remove();
        }
        match ended {
            Err(failure) if is_submitted_again(&failure, settled, attempt, resubmit, &allocation.stop) => {
                print_error(&format!("! {}; it is submitted again, and continues from the cache\n", failure.what));
                attempt += 1;
            }
            ended => return ended,
        }
    }
}

fn is_submitted_again(failure: &Failure, settled: bool, attempt: u32, resubmit: u32, stop: &Stop) -> bool {
    failure.kind == FailureKind::Lost && settled && attempt < resubmit && !stop.is_requested()
}

/// Each attempt has a folder of its own, so that a late write of a lost job does no harm.
fn attempt_folder(out: &Path, attempt: u32) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    if attempt == 0 { out.to_owned() } else { out.with_file_name(format!("{name}-{attempt}")) }
}

/// The attempt that an earlier command submitted, and whose end no command has seen.
fn earlier_attempt(home: &Path, out: &Path) -> Option<u32> {
    let name = out.file_name()?.to_str()?;
    let jobs = std::fs::read_dir(JobFolder::for_output(home, out).path().parent()?).ok()?;
    let attempt = |item: std::fs::DirEntry| match item.file_name().to_str()?.strip_prefix(name)? {
        "" => Some(0),
        rest => rest.strip_prefix('-')?.parse().ok(),
    };
    let is_there = |attempt: &u32| !JobFolder::for_output(home, &attempt_folder(out, *attempt)).is_gone();
    jobs.flatten().filter_map(attempt).filter(is_there).min()
}

/// A message where a stage of the run needs GPUs, and no setting requests any for its allocation.
fn missing_gpus(
    plan: &Plan,
    roles: &[TaskRole],
    slurm: &Slurm,
    mut variables: impl Iterator<Item = OsString>,
) -> Option<String> {
    let is_here = |task: &Task| !matches!(task.host.as_deref(), Some(HostOn::Ssh(_)));
    let part = plan.tasks.iter().zip(roles).filter(|(task, role)| **role != TaskRole::NotNeeded && is_here(task));
    let task = part.map(|(task, _)| task).max_by_key(|task| task.gpus)?;
    let is_of_gpus = |arg: &String| ["--gp", "-G", "--gres", "--tres"].iter().any(|start| arg.starts_with(start));
    let is_requested = slurm.gpus_per_node.is_some()
        || slurm.gres.is_some()
        || slurm.exclusive
        || slurm.args.iter().any(is_of_gpus)
        || variables.any(|name| {
            let name = name.to_string_lossy();
            name.starts_with("SBATCH_GPUS") || name == "SBATCH_GRES" || name == "SBATCH_EXCLUSIVE"
        });
    (task.gpus > 0 && !is_requested).then(|| {
        format!(
            "{} needs {} unless it is cached, and the allocation requests none: `--slurm gpus_per_node={}` requests \
             them",
            task.id,
            counted(task.gpus, "GPU"),
            task.gpus.div_ceil(slurm.nodes.unwrap_or(1).max(1))
        )
    })
}

/// Only one command may follow an allocation: each of two would mistake the other's job for a duplicate of its own.
fn lock(out: &Path) -> Result<File, CommandError> {
    let file = File::create(out.with_extension("lock"))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(CommandError::hinted(
            "another `regatta` command with the same arguments follows this allocation already",
            "`regatta status --follow` shows what it does",
        )),
        Err(TryLockError::Error(error)) if !has_no_locks(&error) => Err(error.into()),
        _ => Ok(file),
    }
}

/// The run itself, on the job's first node.
pub fn run_in_allocation(folder: &JobFolder, claim: &AttemptClaim) -> Result<CliExit, CommandError> {
    std::env::set_current_dir(claim.project())?;
    let request = cli::parse(
        std::iter::once(OsString::from("regatta"))
            .chain(claim.run_args().unwrap_or_default().iter().map(OsString::from)),
    );
    warned(claim.warn_s())?;
    let ended = match request {
        Ok(cli::Invocation { global, request: cli::CliRequest::Run(request) }) => {
            let request = cli::RunRequest { in_place: true, ..request };
            perform(&global, &request, false, RunPurpose::Ordinary).map(|ran| ran.exit)
        }
        Ok(cli::Invocation { global, request: cli::CliRequest::Serve(request) }) => {
            let run = cli::RunRequest { in_place: true, ..request.run };
            serve_here(&global, &cli::ServeRequest { run, ..request })
        }
        Ok(_) | Err(_) => Err(CommandError::Usage("this is not a run".to_owned())),
    };
    let how = match &ended {
        Ok(CliExit::Done) => Ok(base::event::Done::default()),
        Ok(CliExit::Interrupted) => Err(Failure::new(FailureKind::Interrupted, "the run received a request to stop")),
        Ok(exit) => Err(Failure::new(FailureKind::Exit(i32::from(exit.code())), "the run failed")),
        Err(_) => Err(Failure::new(FailureKind::Exit(i32::from(CliExit::Failed.code())), "the run could not continue")),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(claim.end(folder, how)).map_err(anyhow::Error::from)?;
    ended
}

/// Reports that the time limit is near.
fn warned(warn_s: u64) -> Result<(), CommandError> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let near = {
        let _inside = runtime.enter();
        signal(SignalKind::user_defined2())
    };
    let mut near = near?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while near.recv().await.is_some() {
                print_error(&format!("! {} left until the job's time limit\n", time_left(warn_s)));
            }
        });
    });
    Ok(())
}

/// The command for the node: without the options for where to run, and with the state folder that is meant here. What
/// follows `--` belongs to another program.
fn words(typed: impl Iterator<Item = OsString>, home: &StateFolder) -> Vec<OsString> {
    let (mut words, mut command) = (Vec::new(), Vec::new());
    let mut typed = typed;
    while let Some(word) = typed.next() {
        let text = word.to_string_lossy().into_owned();
        if text == "--" {
            command.push(word);
            command.extend(typed.by_ref());
        } else if ["--on", "--slurm", "--home"].contains(&text.as_str()) {
            typed.next();
        } else if !["--on=", "--slurm=", "--home="].iter().any(|flag| text.starts_with(flag)) {
            words.push(word);
        }
    }
    words.extend(["--home".into(), home.state().as_os_str().to_owned()]);
    words.extend(command);
    words
}

/// Parameters that are read from variables, as arguments: a job does not get all variables, `SBATCH_*` among others.
fn given_by_environment(manifest: &Manifest) -> impl Iterator<Item = OsString> {
    manifest.params.iter().filter(|(_, param)| matches!(param.origin, ValueOrigin::Environment(_))).map(
        |(name, param)| {
            let value = match &param.value {
                Value::Array(items) => items.iter().map(unquoted).collect::<Vec<_>>().join(","),
                value => unquoted(value),
            };
            format!("{name}={value}").into()
        },
    )
}

/// `partition=gpu nodes=2` in the form of the manifest's `host.slurm`.
fn slurm(flags: &[KeyValueArg]) -> Result<Slurm, CommandError> {
    let wrong = |problem: String| {
        CommandError::hinted(format!("--slurm: {problem}"), "the keys are those of `host.slurm` in a manifest")
    };
    let mut keys = serde_json::Map::new();
    for KeyValueArg { key, value } in flags {
        if key == "args" {
            let list = keys.entry("args").or_insert_with(|| serde_json::json!([]));
            if let Some(list) = list.as_array_mut() {
                list.push(serde_json::json!(value));
            }
            continue;
        }
        let typed = match key.as_str() {
            "nodes" | "tasks_per_node" | "cpus_per_task" | "gpus_per_node" | "resubmit" => {
                let number: u32 = value.parse().map_err(|_| wrong(format!("`{key}={value}`: not a number")))?;
                serde_json::json!(number)
            }
            "export" => serde_json::json!(value.split(',').collect::<Vec<_>>()),
            "at_once" | "each_node" | "container" => {
                return Err(wrong(format!("`{key}` applies to a stage in a manifest, not to a whole allocation")));
            }
            "exclusive" => {
                let is_exclusive: bool =
                    value.parse().map_err(|_| wrong(format!("`{key}={value}`: it is `true` or `false`")))?;
                serde_json::json!(is_exclusive)
            }
            _ => serde_json::json!(value),
        };
        // Each by itself first: an error of the whole would not name the key.
        let alone = serde_json::json!({ key.as_str(): &typed });
        serde_json::from_value::<Slurm>(alone).map_err(|error| wrong(format!("`{key}`: {error}")))?;
        keys.insert(key.clone(), typed);
    }
    serde_json::from_value(keys.into()).map_err(|error| wrong(error.to_string()))
}

/// Forwards what the job prints until `enough`, and then the rest.
async fn stream(output: PathBuf, mut enough: tokio::sync::oneshot::Receiver<()>) {
    let mut at = 0;
    loop {
        forward_output(&output, &mut at);
        tokio::select! {
            _ = &mut enough => return forward_output(&output, &mut at),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

fn forward_output(output: &Path, at: &mut u64) {
    let Ok(mut file) = File::open(output) else { return };
    let end = file.metadata().map_or(*at, |file| file.len());
    if file.seek(SeekFrom::Start(*at)).is_err() {
        return;
    }
    // A job may write gigabytes between two looks.
    let (mut printer, mut piece) = (PiecePrinter::new(), vec![0; 1 << 16]);
    while *at < end
        && let Ok(read @ 1..) = file.read(&mut piece)
    {
        printer.print(&piece[..read]);
        *at += read as u64;
    }
}

fn print_failure(failure: &Failure) {
    let mut text = format!("error: the run in its allocation failed: {}\n", failure.what);
    for line in &failure.tail {
        let _ = writeln!(text, "  | {line}");
    }
    for (what, line) in [("cause", &failure.cause), ("hint", &failure.hint)] {
        if let Some(line) = line {
            let _ = writeln!(text, "  {what}: {line}");
        }
    }
    print_error(&text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::ActionKind;

    #[test]
    fn exclusive_is_true_or_false() {
        let exclusive = |value: &str| slurm(&[KeyValueArg { key: "exclusive".to_owned(), value: value.to_owned() }]);
        assert_eq!(exclusive("true").ok().map(|slurm| slurm.exclusive), Some(true));
        assert_eq!(exclusive("false").ok().map(|slurm| slurm.exclusive), Some(false));
        for other in ["True", "yes", "1", ""] {
            let Err(CommandError::Usage(text)) = exclusive(other) else { panic!("{other}") };
            assert!(text.starts_with(&format!("--slurm: `exclusive={other}`: it is `true` or `false`\n")), "{text}");
        }
    }

    fn arg(key: &str, value: &str) -> KeyValueArg {
        KeyValueArg { key: key.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn keys_of_a_stage_are_none_of_an_allocation() {
        for key in ["at_once", "each_node", "container"] {
            let Err(CommandError::Usage(text)) = slurm(&[arg(key, "2")]) else { panic!("{key}") };
            assert!(text.contains("applies to a stage in a manifest, not to a whole allocation"), "{text}");
        }
        let exported = slurm(&[arg("export", "HF_HOME,HF_TOKEN")]).ok().and_then(|slurm| slurm.export);
        assert_eq!(exported.unwrap(), ["HF_HOME", "HF_TOKEN"]);
    }

    #[test]
    fn a_lost_allocation_is_submitted_again_in_a_folder_of_its_own() {
        let (lost, stop) = (Failure::new(FailureKind::Lost, "its job 7 was preempted"), Stop::new());
        assert!(is_submitted_again(&lost, true, 0, 2, &stop) && is_submitted_again(&lost, true, 1, 2, &stop));
        assert!(!is_submitted_again(&lost, true, 2, 2, &stop), "`resubmit` is used up");
        assert!(!is_submitted_again(&lost, false, 0, 2, &stop), "its job may still be there");
        let failed = Failure::new(FailureKind::Exit(1), "the run failed");
        assert!(!is_submitted_again(&failed, true, 0, 2, &stop));
        stop.request();
        assert!(!is_submitted_again(&lost, true, 0, 2, &stop));
        let folder = |attempt| attempt_folder(Path::new("/state/allocations/run-1"), attempt);
        assert_eq!([folder(0), folder(1)].map(|path| path.file_name().unwrap().to_owned()), ["run-1", "run-1-1"]);
        let home = tempfile::tempdir().unwrap();
        let out = home.path().join("allocations/run-1");
        assert_eq!(earlier_attempt(home.path(), &out), None);
        for (name, attempt) in [("run-12", None), ("run-1-2", Some(2)), ("run-1", Some(0))] {
            JobFolder::for_output(home.path(), Path::new(name)).write(&"job", None).unwrap();
            assert_eq!(earlier_attempt(home.path(), &out), attempt);
        }
    }

    #[test]
    fn gpus_that_the_allocation_lacks_are_named_before_it_is_submitted() {
        let task =
            |gpus| Task { gpus, ..Task::minimal(base::event::TaskId::new("g"), "g".to_owned(), ActionKind::Shell) };
        let plan = |gpus| Plan { tasks: vec![task(gpus)], ..Plan::default() };
        let missing = |gpus, flags: &[KeyValueArg], variable: Option<&str>| {
            missing_gpus(
                &plan(gpus),
                &[TaskRole::Run],
                &slurm(flags).ok().unwrap(),
                variable.map(OsString::from).into_iter(),
            )
        };
        let text = "g needs 2 GPUs unless it is cached, and the allocation requests none: `--slurm gpus_per_node=2` \
            requests them";
        assert_eq!(missing(2, &[], None).as_deref(), Some(text));
        assert_eq!(missing(0, &[], None), None);
        assert_eq!(missing(2, &[arg("nodes", "0")], None).as_deref(), Some(text), "sbatch refuses it");
        for flag in [arg("gpus_per_node", "2"), arg("gres", "gpu:2"), arg("exclusive", "true"), arg("args", "--gpus=2")]
        {
            assert_eq!(missing(2, &[flag], None), None);
        }
        assert_eq!(missing(2, &[], Some("SBATCH_GPUS")), None);
    }

    #[test]
    fn one_command_follows_an_allocation() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("run-1");
        let Ok(first) = lock(&out) else { panic!("it is free") };
        assert!(matches!(lock(&out), Err(CommandError::Usage(_))));
        assert!(lock(&folder.path().join("run-2")).is_ok());
        drop(first);
        assert!(lock(&out).is_ok());
    }
}
