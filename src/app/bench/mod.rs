//! `regatta bench`: one line becomes a manifest, the manifest runs like any other, and a table shows its result.

mod intervals_table;
pub(super) mod manifest;
mod manifest_file;
mod option_checks;
mod option_errors;
mod repeats_table;
mod table;

use std::fs;
use std::path::{Path, PathBuf};

use self::manifest::STAGE;
use super::project::Project;
use super::run::{self, RunEnd, StopSignals};
use crate::app::error::CommandError;
use crate::app::output::{print, print_error};
use crate::cli::{self, BenchCommand, CliExit, Force, Global, OutputVerbosity, Select};
use crate::harness::{REPEATS, SWEEP, SWEEP_POINTS, SweepReport, read_result, repeat_folders};
use crate::report::{Styler, sweep_table};
use crate::runner::store::{PathError, ProjectLock, StateFolder, is_there};

/// The parts of a run that are copied.
const FILES: [&str; 3] = ["result.json", "requests.jsonl", "gpu.jsonl"];

pub(super) fn bench(global: &Global, request: &BenchCommand) -> Result<CliExit, CommandError> {
    for notice in &request.notices {
        print_error(&format!("note: {notice}\n"));
    }
    option_checks::check_files(request)?;
    if let Some(file) = option_checks::unused_time_stamps(request) {
        print_error(&format!(
            "note: the time stamps in {} are not used: the load is given, or the usual one; `--trace` sends each record at its own\n",
            file.display()
        ));
    }
    if let Some(name) = request.tokenizer.as_deref().filter(|name| manifest::tokenizer(name).is_none()) {
        print_error(&format!(
            "note: --tokenizer {name} is no file here and nothing is downloaded, so it is not used: answers are counted by the \
             server, and prompts are of words that are one token each in English vocabularies\n"
        ));
    }
    let text = manifest::text(request)?;
    if request.dry_run {
        print(&text);
        return Ok(CliExit::Done);
    }
    option_checks::check_key(request)?;
    if let Some(simulated) = manifest::simulated(&request.target) {
        print_error(&format!("note: simulated server ({simulated}): its times are computed, not measured on a GPU\n"));
    }
    let signals = StopSignals::new();
    let ran = loop {
        let home = free_state_folder(&std::env::current_dir()?, &global.home)?;
        let global = &Global { home: home.state().to_owned(), ..global.clone() };
        let path = manifest_file::write(&home, &text)?;
        let project = Project::open_current(global)?;
        manifest_file::remove_old(&home, |old| {
            project.compiler_of_run(&old.to_string_lossy(), &[], &Select::default(), None).drop_all();
        });
        let ran = run::perform_beside_servers(global, &run_request(request, &path), request.json, &signals)
            .map_err(|error| option_errors::name_options(error, request, &text))?;
        if !ran.gave_way {
            break ran;
        }
    };
    if let Some((_, out)) = ran.outs.iter().find(|(task, _)| task.as_str() == STAGE) {
        let is_quiet = global.loudness == OutputVerbosity::Quiet;
        // A script that reads the result wants it, whatever else is printed.
        if request.json || !is_quiet {
            print_result(request, out, Styler::chosen(global.color.choice()))?;
        }
        export(request, &ran, out, &text, is_quiet)?;
    }
    Ok(ran.exit)
}

fn run_request(request: &BenchCommand, manifest: &Path) -> cli::RunRequest {
    cli::RunRequest {
        manifest: manifest.to_string_lossy().into_owned(),
        settings: Vec::new(),
        // Parts of a simulator may be cached; a measurement never is.
        select: Select { force: Force::Stages(vec![STAGE.to_owned()]), ..Select::default() },
        jobs: None,
        keep_going: false,
        events: cli::EventFormat::Terminal,
        gpus: request.serve.as_ref().and_then(|served| served.gpus.clone()),
        on: cli::RunTarget::Local,
        store: cli::StoreSelection::default(),
        // A one-line benchmark does not touch the lock file.
        locking: cli::LockMode::Ignore,
        env: std::collections::BTreeMap::new(),
        junit: request.junit.clone(),
        metrics_listen: request.metrics_listen.clone(),
        otlp: request.otlp.clone(),
    }
}

/// The state folder; below it another one while `regatta serve` keeps servers up and holds the lock of the first.
fn free_state_folder(project: &Path, given: &Path) -> Result<StateFolder, PathError> {
    let mut home = StateFolder::new(project.to_owned(), project.join(given));
    while let Some(holder) = ProjectLock::holder(&home)?.filter(|holder| holder.serving) {
        let clients = home.clients();
        print_error(&format!(
            "note: `regatta serve` (process {}) uses {}; this benchmark is kept in {}\n",
            holder.pid,
            home.state().strip_prefix(project).unwrap_or(home.state()).display(),
            clients.display()
        ));
        home = StateFolder::new(project.to_owned(), clients);
    }
    Ok(home)
}

fn print_result(request: &BenchCommand, out: &Path, styler: Styler) -> Result<(), CommandError> {
    let sweep = out.join(SWEEP);
    if is_there(&sweep)? {
        print(&if request.json {
            fs::read_to_string(&sweep)?
        } else {
            sweep_table(&SweepReport::read(&sweep).map_err(anyhow::Error::from)?, styler)
        });
        return Ok(());
    }
    let path = out.join("result.json");
    // A benchmark that could not begin has none; the run has reported why.
    if !is_there(&path)? {
        return Ok(());
    }
    if request.json {
        print(&fs::read_to_string(&path)?);
    } else {
        let result = read_result(&path)?;
        print(&table::text(&result, styler));
        if let Some(repeats) = &result.repeats {
            print(&styler.fit(repeats_table::text(repeats)));
        }
    }
    Ok(())
}

/// Folders of a sweep's points, in their order.
fn point_folders(out: &Path) -> Result<Vec<PathBuf>, CommandError> {
    let path = out.join(SWEEP);
    if !is_there(&path)? {
        return Ok(Vec::new());
    }
    let report = SweepReport::read(&path).map_err(anyhow::Error::from)?;
    Ok(report.points.iter().map(|point| out.join(&point.folder)).collect())
}

/// Copies of what the run left, to the requested paths.
fn export(
    request: &BenchCommand,
    ran: &RunEnd,
    out: &Path,
    manifest: &str,
    is_quiet: bool,
) -> Result<(), CommandError> {
    let copy = |from: &Path, to: &Path| -> Result<(), CommandError> {
        if is_there(from)? {
            fs::copy(from, to)
                .map_err(|error| anyhow::anyhow!("cannot copy {} to {}: {error}", from.display(), to.display()))?;
        }
        Ok(())
    };
    if let Some(folder) = &request.out {
        fs::create_dir_all(folder).map_err(|error| anyhow::anyhow!("cannot make {}: {error}", folder.display()))?;
        for name in FILES {
            copy(&out.join(name), &folder.join(name))?;
        }
        // Parts of an earlier measurement would be taken for those of this one.
        let (earlier, curve) = ([REPEATS, SWEEP_POINTS].map(|name| folder.join(name)), folder.join(SWEEP));
        for earlier in earlier.iter().filter(|earlier| earlier.is_dir()) {
            fs::remove_dir_all(earlier)
                .map_err(|error| anyhow::anyhow!("cannot remove {}: {error}", earlier.display()))?;
        }
        if curve.exists() {
            fs::remove_file(&curve)?;
        }
        copy(&out.join(SWEEP), &curve)?;
        let mut runs = repeat_folders(out)?;
        for point in point_folders(out)? {
            let repeats = repeat_folders(&point)?;
            runs.push(point);
            runs.extend(repeats);
        }
        for run in runs {
            let to = folder.join(run.strip_prefix(out).unwrap_or(&run));
            fs::create_dir_all(&to).map_err(|error| anyhow::anyhow!("cannot make {}: {error}", to.display()))?;
            for name in FILES {
                copy(&run.join(name), &to.join(name))?;
            }
        }
        if let Some(report) = &ran.report {
            copy(report, &folder.join("report.html"))?;
        }
        fs::write(folder.join("manifest.yaml"), manifest)?;
        if !is_quiet {
            print_error(&format!("copied to {}\n", folder.display()));
        }
    }
    if let Some(file) = &request.profile_export_file {
        copy(&out.join("requests.jsonl"), file)?;
    }
    Ok(())
}
