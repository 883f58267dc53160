//! One lease being worked on: how its commands look, and how their ends become failures.
//!
//! `confine: true`: a command that sees what its stage declares, the system's folders, and nothing else.

pub mod out_of_memory;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::container::{self, ContainerRunError, TaskContainer};
use crate::remote::slurm::srun_container_argv;
use base::event::{Event, Failure, FailureKind, GpuId, MovingSource, RunId, Stop};
use base::files::{Digest, SYSTEM_FOLDERS, read_bytes, read_bytes_up_to};
use base::units::{is_identifier, plain_path};
use exec::process::{
    self, AttemptLog, Confinement, ConfinementError, ExitKind, ProcessCommand, ProcessExit, SpawnError,
};
use plan::manifest::model::{SlurmContainer, input_variable};
use runner::store::{WithPath as _, discard};
use runner::{Lease, secret_values};

/// How commands sort, print and read the time, whatever the session's language and zone are, which are not in the key.
/// `env` of a stage overrides them.
const LOCALE: [(&str, &str); 2] = [("LC_ALL", "C.UTF-8"), ("TZ", "UTC")];

/// How many of the last lines a failure shows.
const TAIL: usize = 20;

pub struct TaskContext {
    pub lease: Lease,
    env: Vec<(String, Option<OsString>)>,
    /// The part of `env` that the user needs to repeat a command.
    shown_env: Vec<(String, Option<OsString>)>,
    secrets: Vec<String>,
    /// What this attempt writes to the task's log.
    pub log: AttemptLog,
    /// `<run>.<task>.<attempt>`: a name that nothing else has.
    pub mark: String,
    /// Where its commands run, if not simply here.
    pub place: Option<TaskContainer>,
    /// Of the stage's Slurm host: its commands run in it through pyxis.
    pub slurm_container: Option<SlurmContainer>,
    /// The program of simulated servers and of LoadGen's tests; `None` is this one.
    pub other_program: Option<PathBuf>,
}

/// The variables of `LOCALE` that are not among these.
pub fn locale_beside(variables: &[(String, Option<OsString>)]) -> Vec<(String, Option<OsString>)> {
    let is_set = |name: &str| variables.iter().any(|(other, _)| other == name);
    let locale = LOCALE.map(|(name, value)| (name.to_owned(), Some(OsString::from(value))));
    locale.into_iter().filter(|(name, _)| !is_set(name)).collect()
}

impl TaskContext {
    /// # Errors
    /// A secret could not be kept out of logs.
    pub fn new(lease: Lease, home: &Path, run: &RunId) -> Result<Self, Failure> {
        let mut shown: Vec<(String, Option<OsString>)> =
            lease.assignment.env.iter().map(|(name, value)| (name.clone(), Some(value.into()))).collect();
        shown.push(("OUT".to_owned(), Some(lease.out.clone().into())));
        for (name, paths) in &lease.assignment.inputs {
            let mut joined = OsString::new();
            for (index, path) in paths.iter().enumerate() {
                if index > 0 {
                    joined.push(":");
                }
                joined.push(path);
            }
            shown.push((input_variable(name), Some(joined)));
        }
        if !lease.gpus.is_empty() {
            shown.push(("CUDA_VISIBLE_DEVICES".to_owned(), Some(GpuId::list(&lease.gpus).into())));
        }
        let mut env = locale_beside(&shown);
        env.extend_from_slice(&shown);
        let task = format!("{run}/{}/{}", lease.task.id, lease.attempt);
        env.push((process::HOME.to_owned(), Some(home.into())));
        env.push((process::RUN.to_owned(), Some(run.as_str().into())));
        env.push((process::TASK.to_owned(), Some(task.into())));
        let mark = format!("{run}.{}.{}", lease.task.id.file_name(), lease.attempt);
        let mut secrets = Vec::new();
        for name in &lease.task.secrets {
            let values = secret_values(name).map_err(|error| Failure::refused(error.to_string()))?;
            secrets.extend(values);
        }
        let log = AttemptLog::from_now(&lease.log);
        Ok(Self {
            lease,
            env,
            shown_env: shown,
            secrets,
            log,
            mark,
            place: None,
            slurm_container: None,
            other_program: None,
        })
    }

    /// A command of this task: in its output folder, with its environment, its log and its secrets.
    pub fn command(&self, argv: Vec<OsString>) -> ProcessCommand {
        // No timeout here: the runner's covers the whole task.
        let (project, out) = (&self.lease.project, &self.lease.out);
        let argv = match &self.slurm_container {
            Some(container) => srun_container_argv(container, project, out, argv, &self.names()),
            None => argv,
        };
        let command = ProcessCommand::new(argv, &self.lease.out, &self.lease.log);
        ProcessCommand { env: self.env.clone(), secrets: self.secrets.clone(), ..command }
    }

    /// Variables that the stage itself gave, and those that it must not show.
    fn names(&self) -> Vec<String> {
        let shown = self.shown_env.iter().map(|(name, _)| name.clone());
        shown.chain(self.lease.task.secrets.iter().cloned()).collect()
    }

    /// What runs simulated servers, LoadGen's tests and the server of a preflight.
    pub fn program(&self) -> Result<PathBuf, Failure> {
        self.other_program.clone().map_or_else(own_program, Ok)
    }

    /// The state folder, which holds `out/KEY-N`.
    pub fn state(&self) -> &Path {
        let out = &self.lease.out;
        out.parent().and_then(Path::parent).unwrap_or(out)
    }

    /// Reports what a command reads that its stage does not declare. The next run compares it, because the output is
    /// cached all the same.
    pub fn undeclared_source(&self, argv: &[OsString]) -> Option<Box<MovingSource>> {
        let lease = &self.lease;
        let mut read = Vec::new();
        for word in argv {
            let text = word.to_string_lossy();
            for path in undeclared(&text, &lease.out, &lease.project, self.state(), &lease.assignment.inputs) {
                let name = path.strip_prefix(&lease.project).unwrap_or(&path).display();
                lease.notice(format!("{name} is not under its `inputs:`, so a change to it would not be seen"));
                read.push(path.display().to_string());
            }
            let declared = self.names();
            let is_known = |name: &str| declared.iter().any(|other| other == name);
            let names = undeclared_variables(&text).into_iter();
            for name in names.filter(|name| !is_known(name) && std::env::var_os(name).is_some()) {
                lease.notice(format!(
                    "${name} is read from the environment, so a change to it would not be seen; a parameter with `env: \
                    {name}` is part of the key"
                ));
                read.push(format!("${name}"));
            }
        }
        // The files and the environment of another machine cannot be compared here.
        read.retain(|_| lease.assignment.host.is_none());
        let with_content = |name: String| content(&name).map(|content| (name, content));
        let undeclared: Vec<_> = read.into_iter().filter_map(with_content).collect();
        (!undeclared.is_empty()).then(|| Box::new(MovingSource { undeclared, ..MovingSource::default() }))
    }

    /// Writes a file into the output folder, and says where.
    pub fn write(&self, name: impl AsRef<Path>, content: impl AsRef<[u8]>) -> Result<PathBuf, Failure> {
        let path = self.lease.out.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&path))
            .and_then(|()| fs::write(&path, content))
            .at("write", &path)?;
        Ok(path)
    }

    /// Like [`Self::write`], as JSON to read.
    pub fn write_json(&self, name: impl AsRef<Path>, value: &impl Serialize) -> Result<PathBuf, Failure> {
        let text = serde_json::to_string_pretty(value).at("write", name.as_ref())?;
        self.write(name, text + "\n")
    }

    /// The result of a future, unless the task is stopped before.
    pub async fn unless_stopped<T>(&self, future: impl Future<Output = T>, message: &str) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = future => Ok(done),
            () = self.lease.stop.requested() => Err(Failure::interrupted(message)),
        }
    }

    /// Fails where the task was stopped, unless the reason is a lost server, which is a part of its result.
    pub fn check_not_stopped(&self, message: &str) -> Result<(), Failure> {
        let is_stopped = self.lease.stop.is_requested() && self.lease.stop.reason().is_none();
        if is_stopped { Err(Failure::interrupted(message)) } else { Ok(()) }
    }

    /// Runs a command until it exits. Any exit code but 0 is a failure.
    pub async fn run(&self, command: ProcessCommand) -> Result<ProcessExit, Failure> {
        self.run_until(command, &self.lease.stop).await
    }

    /// Like `run`, for a command that can be stopped before its task is; `stop` follows the task's. A container heeds
    /// the task's alone.
    pub async fn run_until(&self, command: ProcessCommand, stop: &Stop) -> Result<ProcessExit, Failure> {
        let mut argv = command.argv.clone();
        let exit = match &self.place {
            Some(place) => match container::run(&self.lease, place, &command, &mut argv).await {
                Ok(exit) => exit,
                Err(ContainerRunError::Spawn(error)) => return Err(self.not_started(&argv, &error)),
                Err(ContainerRunError::Refused(failure)) => return Err(failure),
            },
            None => self.run_here(command, stop).await.map_err(|error| self.not_started(&argv, &error))?,
        };
        for leftover in &exit.leftovers {
            self.lease.notice(format!(
                "it left a background process running, which has been ended: {} ({})",
                self.redacted(&leftover.command),
                leftover.pid
            ));
        }
        if exit.how.is_success() { Ok(exit) } else { Err(self.ended_badly(&argv, exit.how)) }
    }

    async fn run_here(&self, command: ProcessCommand, stop: &Stop) -> Result<ProcessExit, SpawnError> {
        let mut group = None;
        let exit = process::run(command, stop, |pgid| {
            group = Some(pgid);
            (self.lease.emit)(Event::ProcessStarted { task: self.lease.task.id.clone(), pgid });
        })
        .await?;
        if let Some(pgid) = group {
            (self.lease.emit)(Event::ProcessEnded { task: self.lease.task.id.clone(), pgid });
        }
        Ok(exit)
    }

    /// Runs a command for what it writes to its standard output; that is not logged.
    pub async fn run_for_stdout(&self, command: ProcessCommand) -> Result<String, Failure> {
        let answer = self.lease.log.with_extension("answer");
        self.run(ProcessCommand { answer: Some(answer.clone()), ..command }).await?;
        let text = read_bytes(&answer);
        let _ = std::fs::remove_file(&answer);
        let text = text.map_err(|error| Failure::system(format!("an answer cannot be read: {error}")))?;
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// Values that no log and no message may show, beside those of the task.
    pub fn hide(&mut self, secrets: impl IntoIterator<Item = String>) {
        self.secrets.extend(secrets.into_iter().filter(|secret| !secret.is_empty()));
    }

    /// A path from the manifest: relative ones are relative to the project folder, or lead to this program's own copy.
    pub fn path(&self, written: &str) -> std::path::PathBuf {
        let shipped = self.lease.task.shipped.get(written);
        shipped.cloned().unwrap_or_else(|| self.lease.project.join(written))
    }

    /// The failure for a command that did not start.
    pub fn not_started(&self, argv: &[OsString], error: &SpawnError) -> Failure {
        let failure = self.failure(FailureKind::Spawn, error.to_string(), argv);
        match error {
            SpawnError::NotFound { program } if self.place.is_some() => container::no_program(program),
            SpawnError::NotFound { .. } => failure.hint(
                "is it installed, and is its folder in PATH? A script of yours must be declared under `inputs:` and \
                 called by `{{ inputs.NAME }}`",
            ),
            SpawnError::Confinement(ConfinementError::NoLandlock) => {
                failure.hint("run it on a machine that has it, or remove `confine: true`")
            }
            SpawnError::NotExecutable { .. } => failure.hint("`chmod +x` it, or call it through its interpreter"),
            _ => failure,
        }
    }

    /// The failure for an end other than exit code 0.
    fn ended_badly(&self, argv: &[OsString], mut how: ExitKind) -> Failure {
        let (kind, what) = match how {
            ExitKind::Code(code) => (FailureKind::Exit(code), format!("exit code {code}")),
            ExitKind::Signal(signal) => (FailureKind::Signal(signal), format!("ended by {}", signal_name(signal))),
            ExitKind::Stopped => (FailureKind::Interrupted, "stopped".to_owned()),
        };
        let mut failure = self.failure(kind, what, argv);
        if self.place.is_some() {
            if let Some(meaning) = container::meaning(how, &failure.tail) {
                failure.what = format!("{} ({})", meaning.what, failure.what);
                failure.cause = meaning.cause;
                failure.hint = Some(meaning.hint.to_owned());
                return failure;
            }
            how = container::inner_exit(how);
        }
        if let Some(diagnosis) = process::diagnose(&failure.tail, how) {
            failure = failure.cause(diagnosis.cause).hint(diagnosis.hint);
        }
        let rule = self.lease.task.retry.as_ref().and_then(|rule| rule.lower.as_ref());
        let value = rule.and_then(|rule| out_of_memory::value(argv, &rule.setting));
        failure.out_of_memory = out_of_memory::ran_out(self, how, value);
        failure
    }

    /// A failure with the command, the last lines and the log.
    pub fn failure(&self, kind: FailureKind, what: impl Into<String>, argv: &[OsString]) -> Failure {
        let tail = self.log.tail(TAIL);
        let mut failure = Failure::new(kind, what)
            .command(process::shown(argv, &self.shown_env, &self.secrets))
            .tail(tail.iter().map(|line| self.redacted(line)).collect());
        failure.log = Some(self.lease.log.clone());
        failure
    }

    /// Without secret values.
    pub fn redacted(&self, text: &str) -> String {
        process::redacted(text, &self.secrets)
    }
}

/// `with exit code 3`
pub fn ended(how: ExitKind) -> String {
    match how {
        ExitKind::Code(code) => format!("with exit code {code}"),
        ExitKind::Signal(signal) => format!("by {}", signal_name(signal)),
        ExitKind::Stopped => "stopped".to_owned(),
    }
}

/// Names of signal(7).
pub fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    format!("{name} ({signal})")
}

// Files of the project that a command names and its stage does not declare.
//
// A change to such a file would not be seen, and the stage would wrongly count as done. Relative names do not reach
// the project, because a stage runs in its own empty folder; this looks for the other way, paths written out. It reads
// the command's text, so what a script opens by itself stays unseen.

/// Names of the variables that a text reads and does not set, without those that every session or job has.
fn undeclared_variables(text: &str) -> BTreeSet<&str> {
    const USUAL: &str =
        " CUDA_VISIBLE_DEVICES HOME HOSTNAME LANG LC_ALL LOGNAME PATH PWD SHELL TERM TMPDIR TZ UID USER ";
    let end = |rest: &str| rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let names = text.split('$').skip(1).map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    let is_set = |name: &str| {
        let settings = [format!("{name}="), format!("for {name} "), format!("read {name}")];
        let is_of_job = ["SLURM_", "OMPI_", "PMI", "REGATTA_"].iter().any(|start| name.starts_with(start));
        is_of_job || settings.iter().any(|setting| text.contains(setting)) || USUAL.contains(&format!(" {name} "))
    };
    names.map(|rest| &rest[..end(rest)]).filter(|name| is_identifier(name) && !is_set(name)).collect()
}

/// Paths below `project` (but not below `state`) that the text names, that exist, and that no input covers; sorted.
fn undeclared(
    text: &str,
    out: &Path,
    project: &Path,
    state: &Path,
    inputs: &BTreeMap<String, Vec<PathBuf>>,
) -> Vec<PathBuf> {
    let Some(root) = project.to_str() else { return Vec::new() };
    if !text.contains("../") && !text.contains(root) {
        return Vec::new();
    }
    let ends = |c: char| c.is_whitespace() || "'\"`;|&<>()=,{}".contains(c);
    let mut paths: Vec<PathBuf> = text
        .split(ends)
        .filter(|word| word.starts_with(root) || word.contains("../"))
        .map(|word| plain_path(&out.join(word)))
        .filter(|path| path.starts_with(project) && path != project && !path.starts_with(state))
        .filter(|path| !inputs.values().flatten().any(|input| path.starts_with(input)))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

/// What stands for the content of a file or, as `$NAME`, of a variable; of a file too large to read, its size. `None`:
/// the file is absent.
fn content(name: &str) -> Option<String> {
    let digest = |bytes: &[u8]| Digest::hash(bytes).short();
    if let Some(variable) = name.strip_prefix('$') {
        return Some(std::env::var_os(variable).map_or_else(String::new, |value| digest(value.as_encoded_bytes())));
    }
    let size = || Some(format!("{} bytes", Path::new(name).metadata().ok()?.len()));
    read_bytes_up_to(name, 64 << 20).map_or_else(|_| size(), |bytes| Some(digest(&bytes)))
}

/// Of a cached output: which of the files and variables that its command read have other contents now.
pub fn undeclared_notice(read: &[(String, String)], stage: &str) -> Option<String> {
    let is_changed = |(name, before): &&(String, String)| content(name).is_some_and(|now| now != *before);
    let changed: Vec<&str> = read.iter().filter(is_changed).map(|(name, _)| &**name).collect();
    let name = changed.join(", ");
    (!name.is_empty()).then(|| {
        format!(
            "it is taken from the cache, although {name} changed, which it does not declare; `--force {stage}` runs it"
        )
    })
}

/// This program, to start it once more.
pub fn own_program() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::system(format!("the regatta program cannot be found: {error}")))
}

/// What programs print with the path of a file that was refused: EACCES of the C library, of Rust, Go and Python.
const REFUSALS: [&str; 2] = ["permission denied", "operation not permitted"];

/// Runs a command that may read the task's inputs and the outputs that it uses, and may write in its output folder.
/// `HOME` and
/// `TMPDIR` are a folder of its own, which is removed afterwards.
pub async fn run_confined(context: &TaskContext, mut command: ProcessCommand) -> Result<(), Failure> {
    let lease = &context.lease;
    refuse_open_folders(context)?;
    let scratch = lease.log.with_extension("scratch");
    fs::create_dir_all(&scratch).map_err(|error| {
        let message = format!("the folder for its temporary files, {}, cannot be made: {error}", scratch.display());
        Failure::system(message)
    })?;
    let read = lease.assignment.inputs.values().flatten().chain(&lease.assignment.outputs).cloned().collect();
    let confinement = Confinement { read, write: vec![lease.out.clone(), scratch.clone()] };
    command.confinement = Some(confinement.clone());
    let command = command.set("HOME", &scratch).set("TMPDIR", &scratch);
    let ended = context.run(command).await;
    // How the command ended counts.
    if let Err(error) = discard(&scratch) {
        lease.notice(format!("its temporary files could not be removed: {error}"));
    }
    ended.map(drop).map_err(|failure| explained(failure, &confinement))
}

/// In a folder of the system, which is open to every confined command, neither the project's files nor other stages'
/// outputs are closed.
fn refuse_open_folders(context: &TaskContext) -> Result<(), Failure> {
    let folders = [("project", context.lease.project.as_path()), ("state folder", context.state())];
    for (what, folder) in folders {
        if let Some(system) = Confinement::system_folder_of(folder) {
            let problem = format!(
                "it cannot be confined: the {what}, {}, is below {system}, which is open to every confined command",
                folder.display()
            );
            let option = if what == "project" { "" } else { " (`--home`)" };
            return Err(Failure::new(FailureKind::Spawn, problem).hint(format!(
                "move the {what}{option} to a folder that is not below {} or /dev, or remove `confine: true`",
                SYSTEM_FOLDERS.join(", ")
            )));
        }
    }
    Ok(())
}

/// With the path that the command was refused, if its last lines or its own name tell.
fn explained(failure: Failure, confinement: &Confinement) -> Failure {
    let lines = failure.tail.iter().map(String::as_str).chain([failure.what.as_str()]);
    let refused = lines.filter(|line| {
        let line = line.to_lowercase();
        REFUSALS.iter().any(|refusal| line.contains(refusal)) || line.contains("is not executable")
    });
    let Some(path) = refused.flat_map(paths).find(|path| path.exists() && !confinement.allows_reading(path)) else {
        return failure;
    };
    if path.starts_with("/dev") {
        let message = format!("it is confined, and {} is not one of the devices that are open to it", path.display());
        return failure
            .cause(message)
            .hint("`regatta manual security` has the list; remove `confine: true` if the stage needs it");
    }
    failure.cause(format!("it is confined, and {} is not declared", path.display())).hint(format!(
        "declare it under `inputs:`, or refer to the stage that makes it; besides these, a stage with `confine: \
         true` may read {}",
        SYSTEM_FOLDERS.join(", ")
    ))
}

/// The absolute paths in a line.
fn paths(line: &str) -> impl Iterator<Item = PathBuf> {
    let ends = |c: char| c.is_whitespace() || "'\"`‘’;|<>()=,{}".contains(c);
    line.split(ends)
        .map(|word| word.trim_end_matches([':', '.']))
        .filter(|word| word.starts_with('/'))
        .map(PathBuf::from)
}

#[cfg(test)]
mod undeclared_files_tests {
    use super::*;

    #[test]
    fn variables_that_a_text_reads_and_does_not_set_are_named() {
        let names = |text: &str| undeclared_variables(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(names("A=1; echo $A ${MODEL:-x} \"$TP\" $TP $1 $$ $(date) $HOME"), "MODEL TP");
        assert_eq!(names("srun echo $SLURM_PROCID $RANK"), "RANK");
        assert_eq!(names("for F in a b; do read LINE; echo $F $LINE; done"), "");
        assert_eq!(names("no variables at all"), "");
    }

    #[test]
    fn only_what_exists_in_the_project_and_is_no_input_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path();
        let state = project.join(".regatta");
        let out = state.join("out/x-0");
        std::fs::create_dir_all(&out).unwrap();
        for name in ["a.txt", "b.txt"] {
            std::fs::write(project.join(name), "x").unwrap();
        }
        let inputs = BTreeMap::from([("b".to_owned(), vec![project.join("b.txt")])]);
        let here = project.display();
        let text = format!("cat '{here}/a.txt' {here}/b.txt {here}/gone.txt <../../../a.txt >{}/own", out.display());
        assert_eq!(undeclared(&text, &out, project, &state, &inputs), [project.join("a.txt")]);
        assert!(undeclared("cat a.txt ../x", &out, project, &state, &inputs).is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_its_name() {
        assert_eq!(signal_name(9), "SIGKILL (9)");
    }
}

#[cfg(test)]
mod confinement_tests {
    use super::*;

    #[test]
    fn the_refused_path_is_found_in_what_programs_print() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "x").unwrap();
        let shown = path.display();
        for line in [
            format!("cat: {shown}: Permission denied"),
            format!("sh: 1: cannot open {shown}: Permission denied"),
            format!("PermissionError: [Errno 13] Permission denied: '{shown}'"),
            format!("`{shown}` is not executable"),
        ] {
            let failure = Failure::new(FailureKind::Exit(1), "exit code 1").tail(vec![line.clone()]);
            let explained = explained(failure, &Confinement::default());
            assert_eq!(explained.cause.unwrap(), format!("it is confined, and {shown} is not declared"), "{line}");
        }
        let failure =
            Failure::new(FailureKind::Exit(1), "exit code 1").tail(vec!["cat: /dev: Permission denied".to_owned()]);
        let explained = super::explained(failure, &Confinement::default());
        assert_eq!(explained.cause.unwrap(), "it is confined, and /dev is not one of the devices that are open to it");
        let allowed = Confinement { read: vec![folder.path().to_owned()], write: Vec::new() };
        let failure =
            Failure::new(FailureKind::Exit(1), "exit code 1").tail(vec![format!("cat: {shown}: Permission denied")]);
        assert_eq!(super::explained(failure, &allowed).cause, None);
    }
}
