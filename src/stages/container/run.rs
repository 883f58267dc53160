//! Runs a command in a container to its end, and leaves no container behind: it is registered before it can exist,
//! stopped by its name, and removed by its name, regardless of how the program that started it ended. The exit code
//! tells whether the command inside ended or the container's program itself failed.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use super::{ContainerCommand, STOP_AFTER, TaskContainer};
use base::event::{Event, ExternalResource, Failure, Stop, TaskId};
use exec::process::{self, ExitKind, ProcessCommand, ProcessExit, Running, SpawnError};
use runner::Lease;

/// How long a container program may take for one command beyond the wait that it was given.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(20);
/// From TERM to KILL of that program itself, once its container is gone.
const SHORT: Duration = Duration::from_secs(1);

/// Why it could not be run.
pub enum ContainerRunError {
    Spawn(SpawnError),
    Refused(Failure),
}

/// Runs it. `ProcessExit::how` is the end of the command inside, as the container program passes it on.
pub async fn run(
    lease: &Lease,
    place: &TaskContainer,
    command: &ProcessCommand,
    argv: &mut Vec<OsString>,
) -> Result<ProcessExit, ContainerRunError> {
    let ContainerCommand { command, external_resource } =
        place.wrap(lease, command, &lease.gpus, &[]).map_err(ContainerRunError::Refused)?;
    argv.clone_from(&command.argv);
    let stop = &lease.stop;
    if stop.is_requested() {
        return Ok(ProcessExit { how: ExitKind::Stopped, seconds: 0.0, leftovers: Vec::new() });
    }
    if let (true, Some(ExternalResource::Container { program, name })) = (place.is_named(), &external_resource) {
        let other_way = "leave `container.name` out";
        refuse_taken(program, name, &command, other_way).await.map_err(ContainerRunError::Refused)?;
    }
    let task = &lease.task.id;
    if let Some(resource) = external_resource.clone() {
        (lease.emit)(Event::ExternalResourceStarted { task: task.clone(), resource });
    }
    let ran = to_its_end(lease, &command, external_resource.as_ref(), stop).await;
    if let Some(resource) = external_resource {
        // What did not start left nothing.
        emit_removal(&*lease.emit, task, resource, !matches!(ran, Ok((_, false))));
    }
    ran.map(|(exit, _)| exit).map_err(ContainerRunError::Spawn)
}

/// Reports that what outlives a command is gone; or that this is not known, and then it stays registered.
pub fn emit_removal(emit: &(dyn Fn(Event) + Send + Sync), task: &TaskId, resource: ExternalResource, is_gone: bool) {
    emit(match resource {
        ExternalResource::Container { program, name } if !is_gone => {
            let text = format!(
                "`{program}` does not answer: its container {name} may still be there; the run tries to remove it \
                 again at its end"
            );
            Event::Notice { task: Some(task.clone()), text }
        }
        resource => Event::ExternalResourceRemoved { task: task.clone(), resource },
    });
}

/// The second value: whether its container is gone for certain.
async fn to_its_end(
    lease: &Lease,
    command: &ProcessCommand,
    external_resource: Option<&ExternalResource>,
    stop: &Stop,
) -> Result<(ProcessExit, bool), SpawnError> {
    let mut running = Running::start(command.clone())?;
    let pgid = running.pgid();
    (lease.emit)(Event::ProcessStarted { task: lease.task.id.clone(), pgid });
    let is_stop_requested = tokio::select! {
        biased;
        _ = running.ended() => false,
        () = stop.requested() => true,
    };
    let (exit, is_gone) = if is_stop_requested {
        if let (Some(ExternalResource::Container { program, name }), false) =
            (external_resource, stop.is_hard_requested())
        {
            let seconds = STOP_AFTER.to_string();
            let words = [program.as_str(), "stop", "-t", &seconds, name].map(str::to_owned);
            tokio::select! {
                _ = run_engine_ignoring_output(
                    command,
                    &words,
                    Duration::from_secs(STOP_AFTER.into()) + COMMAND_TIMEOUT,
                ) => {}
                () = stop.hard_requested() => {}
            }
        }
        let is_gone = remove(command, external_resource).await;
        let grace = if external_resource.is_some() { SHORT } else { command.grace };
        (ProcessExit { how: ExitKind::Stopped, ..running.stop(grace, stop).await }, is_gone)
    } else {
        let exit = running.wait().await;
        // A program that ended well has seen its container go.
        let is_gone = exit.how.is_success() || remove(command, external_resource).await;
        (exit, is_gone)
    };
    (lease.emit)(Event::ProcessEnded { task: lease.task.id.clone(), pgid });
    Ok((exit, is_gone))
}

/// Returns whether the container program answered each order.
pub async fn remove(order: &ProcessCommand, external_resource: Option<&ExternalResource>) -> bool {
    let mut has_answered = true;
    for words in external_resource.into_iter().flat_map(process::orders) {
        has_answered &= run_engine_ignoring_output(order, &words, COMMAND_TIMEOUT).await;
    }
    has_answered
}

/// Runs a container program with the surroundings of `order`. Its output is ignored: an error that there is nothing to
/// stop is usually expected. Returns whether it ended within `limit`.
pub async fn run_engine_ignoring_output(order: &ProcessCommand, words: &[String], limit: Duration) -> bool {
    matches!(tokio::time::timeout(limit, run_engine(order, words)).await, Ok(Ok(_)))
}

async fn run_engine(order: &ProcessCommand, words: &[String]) -> Result<ProcessExit, SpawnError> {
    let mut command = order.clone();
    command.argv = words.iter().map(OsString::from).collect();
    command.answer = None;
    Path::new("/dev/null").clone_into(&mut command.log);
    process::run(command, &Stop::new(), |_| {}).await
}

/// A container with a taken name would not start, and the existing one would be removed in its place. `other_way`: what
/// may be done in place of removing that one.
pub async fn refuse_taken(program: &str, name: &str, order: &ProcessCommand, other_way: &str) -> Result<(), Failure> {
    let words = [program, "container", "inspect", name].map(str::to_owned);
    match run_engine(order, &words).await {
        Ok(exit) if exit.how.is_success() => {
            let message = format!("there is already a container {name} that this run did not start");
            let failure = Failure::refused(message);
            Err(failure.hint(format!("`{program} rm -f {name}` removes it; or {other_way}")))
        }
        // If it cannot be queried, the start fails too and reports it.
        _ => Ok(()),
    }
}

/// Signals as a shell counts them.
const SIGNALLED: i32 = 128;
const LAST_SIGNAL: i32 = 31;

/// Message for the user about the end, where it is not simply the end of the command.
pub struct ExitMeaning {
    pub what: &'static str,
    pub cause: Option<String>,
    pub hint: &'static str,
}

/// docker-run(1), podman-run(1): 125 is its own failure, 126 and 127 the program inside that cannot be started.
pub fn meaning(how: ExitKind, tail: &[String]) -> Option<ExitMeaning> {
    let cause = || tail.last().cloned();
    Some(match how {
        ExitKind::Code(125) if tail.iter().any(|line| no_gpu_hook(line)) => ExitMeaning {
            what: "the container could not be given its GPUs",
            cause: Some("the container program has no hook for NVIDIA's GPUs".to_owned()),
            hint: "install nvidia-container-toolkit; then docker: `sudo nvidia-ctk runtime configure \
             --runtime=docker && sudo systemctl restart docker`; podman: `sudo nvidia-ctk cdi generate \
             --output=/etc/cdi/nvidia.yaml`",
        },
        ExitKind::Code(125 | 126) if tail.iter().any(|line| line.contains("rlimit")) => ExitMeaning {
            what: "the container could not be given its limits",
            cause: Some("this user may not raise its limits to those of `container.ulimits`".to_owned()),
            hint: "`ulimits: {}` leaves them unchanged, `ulimits: { memlock: 8388608 }` requests less; or raise the \
             limit in /etc/security/limits.conf",
        },
        ExitKind::Code(125) => ExitMeaning {
            what: "the container could not be started",
            cause: cause(),
            hint: "`regatta doctor` checks the container program; try the command above by hand",
        },
        ExitKind::Code(126) => ExitMeaning {
            what: "the program cannot be run in the container",
            cause: cause(),
            hint: "is it executable, and made for this processor?",
        },
        ExitKind::Code(127) => ExitMeaning {
            what: "the program is not in the container",
            cause: cause(),
            hint: "is it in the image? A file of your own must be declared under `inputs:` and called as `{{ \
             inputs.NAME }}`",
        },
        _ => return None,
    })
}

/// The end of the command inside: 137 is a KILL, which most often comes from the kernel when memory runs out.
pub fn inner_exit(how: ExitKind) -> ExitKind {
    match how {
        ExitKind::Code(code) if (SIGNALLED + 1..=SIGNALLED + LAST_SIGNAL).contains(&code) => {
            ExitKind::Signal(code - SIGNALLED)
        }
        how => how,
    }
}

fn no_gpu_hook(line: &str) -> bool {
    ["could not select device driver", "nvidia-container-cli", "unresolvable CDI devices", "nvidia.com/gpu"]
        .iter()
        .any(|sign| line.contains(sign))
}

#[cfg(test)]
mod run_tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn only_a_program_that_ends_has_answered() {
        let order = ProcessCommand::new(["true"], "/", "/dev/null");
        let run = async |words: &[&str], limit| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            run_engine_ignoring_output(&order, &words, limit).await
        };
        assert!(run(&["false"], COMMAND_TIMEOUT).await, "there was nothing to remove");
        assert!(!run(&["sleep", "1000"], Duration::from_millis(10)).await);
        assert!(!run(&["no-such-program-here"], COMMAND_TIMEOUT).await);
    }

    #[test]
    fn a_container_stays_registered_while_it_may_be_there() {
        let container = ExternalResource::Container { program: "podman".to_owned(), name: "n".to_owned() };
        let task = TaskId::new("a");
        let events = Arc::new(Mutex::new(Vec::new()));
        let emit = {
            let events = Arc::clone(&events);
            move |event| events.lock().unwrap().push(event)
        };
        emit_removal(&emit, &task, container.clone(), false);
        emit_removal(&emit, &task, container.clone(), true);
        let events = events.lock().unwrap();
        assert!(
            matches!(&events[0], Event::Notice { text, .. } if text.contains("its container n may still be there"))
        );
        assert_eq!(events[1..], [Event::ExternalResourceRemoved { task, resource: container }]);
    }
}

#[cfg(test)]
mod exit_meaning_tests {
    use super::*;

    fn what(code: i32, line: &str) -> Option<&'static str> {
        meaning(ExitKind::Code(code), &[line.to_owned()]).map(|meaning| meaning.what)
    }

    #[test]
    fn the_programs_own_codes_are_distinguished_from_those_of_the_command() {
        let docker =
            "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].";
        assert_eq!(what(125, docker), Some("the container could not be given its GPUs"));
        let podman = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0";
        assert_eq!(what(125, podman), Some("the container could not be given its GPUs"));
        assert_eq!(
            what(125, "Error: statfs /x: no such file or directory"),
            Some("the container could not be started")
        );
        let limit = "Error: runc: … error setting rlimit type 8: operation not permitted: OCI permission denied";
        assert_eq!(what(126, limit), Some("the container could not be given its limits"));
        assert_eq!(what(127, "sh: trtllm-build: not found"), Some("the program is not in the container"));
        assert_eq!(what(1, docker), None, "the command's own");
        assert_eq!(inner_exit(ExitKind::Code(137)), ExitKind::Signal(9));
        assert_eq!(inner_exit(ExitKind::Code(3)), ExitKind::Code(3));
    }
}
