//! `confine: true`: a command that sees what its stage declares, the system's folders, and nothing else.

use std::fs;
use std::path::PathBuf;

use super::TaskContext;
use base::event::{Failure, FailureKind};
use base::files::SYSTEM_FOLDERS;
use exec::process::{Confinement, ProcessCommand};
use runner::store::discard;

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
mod tests {
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
