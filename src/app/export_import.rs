//! `export` and `import`: results to and from the files of other tools; their lines and configs go to `translate`.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use super::found_result::SEEN;
use super::result_name::find;
use super::translate;
use crate::cli::{CliExit, ExportRequest, Global, ImportRequest};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::out_folder::NewResult;
use base::files::{metadata_if_there, read_text_up_to};
use base::units::size;
use harness::{RESULT, SWEEP};
use interop::{
    ExportFormat, ImportError, Imported, ImportedSweep, LocatedRun, LocatedRuns, OtherFile, TranslationKind,
};

use runner::store::write_named;

/// Bytes of standard input: command lines and scripts.
const MOST_INPUT: u64 = 64 << 20;

/// Bytes of a YAML file that may be a compose file, and of its `.env`.
const MOST_SETTINGS: u64 = 1 << 20;

pub(super) fn export(global: &Global, request: &ExportRequest) -> Result<CliExit, CommandError> {
    let result = find(global, &request.result)?;
    if result.run.result.own().is_none() || result.run.request_traces.is_empty() {
        let name = &request.result;
        return Err(CommandError::hinted(
            format!("{name} has no records of single requests, from which another tool's files could be made"),
            "requests.jsonl is next to a result.json of Regatta's; an imported result is not exported again",
        ));
    }
    create_folder(&request.out)?;
    for &shape in ExportFormat::ALL.iter().filter(|shape| request.formats.iter().any(|name| name == shape.as_str())) {
        let exported = interop::export(&result.run, shape);
        for file in &exported.files {
            let path = request.out.join(&file.name);
            write_named(&path, &file.bytes)?;
            print(&format!("{}\n", path.display()));
        }
        for part in &exported.left_out {
            print_error(&format!("{}: left out: {part}\n", shape.as_str()));
        }
    }
    Ok(CliExit::Done)
}

pub(super) fn import(global: &Global, request: &ImportRequest) -> Result<CliExit, CommandError> {
    if !request.line.is_empty() {
        return translate::line(global, &request.line);
    }
    if let [only] = request.paths.as_slice() {
        if only == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().lock().take(MOST_INPUT + 1).read_to_string(&mut text)?;
            if text.len() as u64 > MOST_INPUT {
                return Err(CommandError::Usage(format!("standard input has more than {}", size(MOST_INPUT))));
            }
            return translate::scripts(global, &[("standard input".to_owned(), text)]);
        }
        // A line in quotes, as it was copied.
        if let Some(text) = only.to_str().filter(|text| text.trim().contains(char::is_whitespace) && is_absent(only)) {
            return translate::line(global, &[text.to_owned()]);
        }
    }
    let missing: Vec<String> =
        request.paths.iter().filter(|path| is_absent(path)).map(|path| path.display().to_string()).collect();
    if !missing.is_empty() {
        return Err(CommandError::Usage(format!("not there: {}", missing.join(", "))));
    }
    if request.paths.iter().all(|path| path.extension().is_some_and(|suffix| suffix == "py")) {
        return translate::configs(&request.paths, &request.pick);
    }
    if request.paths.iter().all(|path| is_script(path)) {
        return translate::scripts(global, &translate::texts(&request.paths)?);
    }
    if let [file] = request.paths.as_slice()
        && let Some(text) = short_yaml(file)
    {
        let env = read_text_up_to(file.with_file_name(".env"), MOST_SETTINGS).unwrap_or_default();
        let folder = std::path::absolute(file.parent().unwrap_or(file)).unwrap_or_default();
        if let Some(script) = interop::compose_script(&text, &env, &folder) {
            return translate::scripts(global, &[(file.display().to_string(), script)]);
        }
        if let Some(OtherFile { line, .. }) = OtherFile::detect(&text).filter(|file| !file.line.is_empty()) {
            return translate::line(global, &[line.as_slice(), &[file.display().to_string()]].concat());
        }
    }
    if !request.pick.is_empty() {
        return Err(CommandError::Usage("--pick is for configs of NVIDIA's MLPerf code, which end in .py".to_owned()));
    }
    let located = interop::locate_runs(&request.paths);
    // A script may have any name.
    if let Err(ImportError::Unknown { .. }) = &located
        && let Ok(files) = translate::texts(&request.paths)
        && interop::read_scripts(&files).is_ok_and(|it| !matches!(it.kind, TranslationKind::Nothing(_)))
    {
        return translate::scripts(global, &files);
    }
    let mut runs = located_runs(located)?;
    if runs.len() > 1 {
        return sweep(global, request, runs);
    }
    let Some(only) = runs.pop() else { return Ok(CliExit::Done) };
    let new = NewResult::begin(&request.out)?;
    put_result(&new, Path::new(""), &only.run)?;
    new.publish()?;
    let names = [Some(RESULT), (!only.run.seen.is_empty()).then_some(SEEN)];
    for name in names.into_iter().flatten() {
        print(&format!("{}\n", request.out.join(name).display()));
    }
    for line in only.run.result.objections() {
        print_error(&format!("note: {line}\n"));
    }
    Ok(CliExit::Done)
}

/// Every run that was found. At least one.
pub(super) fn located_runs(located: Result<LocatedRuns, ImportError>) -> Result<Vec<LocatedRun>, CommandError> {
    let LocatedRuns { runs, unread } = located.map_err(import_error)?;
    if !unread.is_empty() {
        print_error(&format!("note: left out, because they are not results of runs: {}\n", unread.join(", ")));
    }
    Ok(runs)
}

/// A file that is not there or cannot be read is an error of the machine, any other of the request.
pub(super) fn import_error(error: ImportError) -> CommandError {
    match (&error, error.hint()) {
        (ImportError::File { .. }, _) => CommandError::Other(error.into()),
        (_, Some(hint)) => CommandError::hinted(&error, hint),
        (_, None) => CommandError::usage(error),
    }
}

/// Several runs of a tool: `sweep.json`, a page, and the result of each point.
fn sweep(global: &Global, request: &ImportRequest, runs: Vec<LocatedRun>) -> Result<CliExit, CommandError> {
    let name = request.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" + ");
    let ImportedSweep { report, results } = interop::import_sweep(&name, runs).map_err(import_error)?;
    let new = NewResult::begin(&request.out)?;
    for (folder, run) in &results {
        put_result(&new, Path::new(folder), run)?;
    }
    new.write(Path::new(SWEEP), report.text())?;
    let document = report::sweep(&name, &report);
    new.write(Path::new("sweep.html"), document.html().map_err(anyhow::Error::from)?)?;
    new.publish()?;
    for name in [SWEEP, "sweep.html"] {
        print(&format!("{}\n", request.out.join(name).display()));
    }
    print(&format!("\n{}", document.terminal(global.styler())));
    Ok(CliExit::Done)
}

/// A result with its requests, in a folder of the new one.
fn put_result(new: &NewResult, folder: &Path, imported: &Imported) -> Result<(), CommandError> {
    let result = serde_json::to_string_pretty(&imported.result).map_err(anyhow::Error::from)?;
    new.write(&folder.join(RESULT), format!("{result}\n"))?;
    if !imported.seen.is_empty() {
        let mut text = String::new();
        for trace in &imported.seen {
            text.push_str(&serde_json::to_string(trace).map_err(anyhow::Error::from)?);
            text.push('\n');
        }
        new.write(&folder.join(SEEN), text)?;
    }
    Ok(())
}

/// Whether a file is a shell or job script, by its name or its first line.
fn is_script(path: &Path) -> bool {
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let mut first = [0; 2];
    let mut begins = || fs::File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok();
    ["sh", "bash", "sub", "sbatch", "slurm", "md"].contains(&suffix) || path.is_file() && begins() && first == *b"#!"
}

/// The text of a YAML file that is small enough to be a config.
fn short_yaml(path: &Path) -> Option<String> {
    let is_yaml = path.extension().is_some_and(|suffix| suffix == "yaml" || suffix == "yml");
    is_yaml.then(|| read_text_up_to(path, MOST_SETTINGS).ok()).flatten()
}

fn create_folder(path: &Path) -> Result<(), CommandError> {
    fs::create_dir_all(path)
        .map_err(|error| anyhow::Error::from(error).context(format!("cannot create {}", path.display())).into())
}

fn is_absent(path: &Path) -> bool {
    matches!(metadata_if_there(path), Ok(None))
}
