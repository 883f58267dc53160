//! `regatta init`: one manifest to begin with, or everything that is shipped. What is there already is left alone.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::console::print;
use super::error::CommandError;
use crate::cli::{CliExit, InitRequest};
use base::units::counted;
use plan::manifest::shipped;
use runner::store::{is_there, write_named};

/// What a run leaves in a project.
const IGNORED: &[u8] = b".regatta\nlatest\n";

pub(super) fn init(request: &InitRequest) -> Result<CliExit, CommandError> {
    if request.all { everything(&request.folder) } else { example(&request.folder, &request.example) }
}

fn example(folder: &Path, name: &str) -> Result<CliExit, CommandError> {
    let places = [format!("manifests/{name}.yaml"), format!("manifests/{name}/pipeline.yaml")];
    let Some((path, bytes)) = shipped().find(|(path, _)| places.contains(path)) else {
        return Err(CommandError::Usage(format!(
            "there is no shipped manifest `{name}`; `regatta list` has their names"
        )));
    };
    let text = String::from_utf8_lossy(bytes);
    // The schema is not written, so an editor would not find it.
    let text: String = text.split_inclusive('\n').filter(|line| !line.starts_with("# yaml-language-server:")).collect();
    for (path, bytes) in [(path.as_str(), text.as_bytes()), (".gitignore", IGNORED)] {
        let target = folder.join(path);
        let what = if write_new(&target, bytes)? { "written" } else { "there already, left alone" };
        print(&format!("{}: {what}\n", target.display()));
    }
    let enter = if folder == Path::new(".") { String::new() } else { format!("cd {} && ", folder.display()) };
    print(&format!("next: {enter}regatta run {name}\n"));
    print("      `regatta explain stages.bench` explains keys; `regatta schema > manifest.json` is for an editor\n");
    Ok(CliExit::Done)
}

fn everything(folder: &Path) -> Result<CliExit, CommandError> {
    let (mut written, mut kept) = (0, 0);
    for (path, bytes) in shipped() {
        *(if write_new(&folder.join(path), bytes)? { &mut written } else { &mut kept }) += 1;
    }
    let kept = if kept > 0 { format!(", {kept} there already and left alone") } else { String::new() };
    print(&format!("{} written to {}{kept}\n", counted(written, "file"), folder.display()));
    Ok(CliExit::Done)
}

/// Whether it was written: a file that is there stays as it is.
fn write_new(target: &Path, bytes: &[u8]) -> Result<bool, CommandError> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    }
    // Also a link that leads nowhere is there.
    if target.is_symlink() || is_there(target)? {
        return Ok(false);
    }
    write_named(target, bytes)?;
    Ok(true)
}
