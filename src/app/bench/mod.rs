//! `regatta bench`: one line becomes a manifest, the manifest runs like any other, and a summary shows its result.

pub(super) mod manifest;
pub(super) mod options;
mod summary;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::manifest::STAGE;
use super::project::{Project, current_folder, given_state_folder};
use super::run::{self, RunEnd, RunPurpose, StopSignals};
use crate::cli::{
    self, BenchLoad, BenchRequest, CliExit, Force, Global, LockingArgs, OutputVerbosity, RunMode, Select, Subject,
};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::out_folder::{FILES, NewResult, OutFolder};
use base::event::TaskId;
use base::files::read_text;
use harness::{REQUESTS, RESULT, SWEEP, SweepReport, read_result, repeat_folders};
use interop::MeasuredResult;
use runner::store::{PathError, ProjectLock, StateFolder, copy_named, is_there};

pub(super) fn bench(global: &Global, request: &BenchRequest) -> Result<CliExit, CommandError> {
    for notice in &request.notices {
        print_error(&format!("note: {notice}\n"));
    }
    if request.args.profile_export_file.is_some()
        && (request.args.repeat > 1 || matches!(request.load, BenchLoad::Sweep(_)))
    {
        return Err(CommandError::hinted(
            "`--profile-export-file` has the requests of one run, and this measures several",
            "`--out DIR` has those of each, in its folders `points` and `repeats`",
        ));
    }
    options::check_addresses(request)?;
    options::check_files(request)?;
    if let Some(file) = options::unused_time_stamps(request) {
        print_error(&format!(
            "note: the time stamps in {} are not used, because the load is set otherwise; `--trace` sends \
             each record at its own\n",
            file.display()
        ));
    }
    if let Some(name) = request.args.tokenizer.as_deref().filter(|name| options::tokenizer(name).is_none()) {
        print_error(&format!(
            "note: --tokenizer {name} is not a file on this machine and has no effect (nothing is downloaded): the \
             server counts the answers, and prompts consist of words that are one token each in English vocabularies\n"
        ));
    }
    let text = manifest::text(request)?;
    if request.args.dry_run {
        for (variable, _) in &request.keys {
            print_error(&format!(
                "note: a key of --header is not written down: the manifest reads it from the environment variable \
                 {variable}\n"
            ));
        }
        check_manifest(global, request, &text)?;
        print(&text);
        return Ok(CliExit::Done);
    }
    options::check_key(request)?;
    current_folder()?;
    given_state_folder(global)?;
    if let Some(simulated) = manifest::simulated(&request.target) {
        print_error(&format!("note: simulated server ({simulated}): its times are computed, not measured on a GPU\n"));
    }
    // Before anything is measured.
    let earlier = request.args.out.as_deref().map(OutFolder::of).transpose()?;
    if let (Some(folder), Some(earlier)) = (&request.args.out, &earlier) {
        earlier.refuse_another_benchmark(folder, &text)?;
        // Whether it can be made.
        drop(NewResult::begin(folder)?);
    }
    if global.loudness == OutputVerbosity::Normal {
        check_manifest(global, request, &text)?;
        let header = summary::header(request);
        if request.args.json { print_error(&header) } else { print(&header) }
    }
    let mut is_replaced = false;
    let exit = measure(global, request, &text).and_then(|(ran, manifest)| {
        let is_quiet = global.loudness == OutputVerbosity::Quiet;
        // A script that reads the result wants it, whatever else is printed.
        let out = ran.out(STAGE).filter(|_| request.args.json || !is_quiet);
        let has_result = out.map_or(Ok(false), |out| print_result(request, out, global))?;
        if global.loudness == OutputVerbosity::Normal {
            let failures = report::failures_text(&ran.state, has_result.then_some(STAGE), global.styler());
            let failures = options::in_options(&failures);
            if request.args.json { print_error(&failures) } else { print(&failures) }
        }
        let Some(out) = ran.out(STAGE) else { return Ok(ran.exit) };
        if has_result && !request.args.json {
            print(&summary::files(ran.report.as_deref(), out, &manifest));
        }
        if let Some(folder) = &request.args.out {
            is_replaced = copy_result(folder, &ran, out, &text)?;
            if is_replaced && !is_quiet {
                print_error(&format!("copied to {}\n", folder.display()));
            }
        }
        let requests = out.join(REQUESTS);
        if let Some(file) = &request.args.profile_export_file
            && is_there(&requests)?
        {
            copy_named(&requests, file)?;
        }
        Ok(ran.exit)
    });
    if let Some(folder) = request.args.out.as_deref().filter(|_| earlier.is_some_and(|earlier| earlier.has_result))
        && !is_replaced
    {
        print_error(&format!("note: {} still has the result of an earlier run\n", folder.display()));
    }
    exit
}

/// Reports what a run of the manifest would report, and writes nothing in the project.
fn check_manifest(global: &Global, request: &BenchRequest, text: &str) -> Result<(), CommandError> {
    let mut file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    file.write_all(text.as_bytes())?;
    let plan =
        Project::open_current(global)?.expanded(&Subject::new(&file.path().to_string_lossy(), &[]), &Select::default());
    plan.map(drop).map_err(|error| options::name_options(error, request, text))
}

/// How the run ended, and its manifest.
fn measure(global: &Global, request: &BenchRequest, text: &str) -> Result<(RunEnd, PathBuf), CommandError> {
    let signals = StopSignals::new();
    loop {
        let home = free_state_folder(&current_folder()?, given_state_folder(global)?)?;
        let global = &Global { home: home.state().to_owned(), ..global.clone() };
        let path = manifest::write_file(&home, text)?;
        let project = Project::open_current(global)?;
        manifest::remove_old(&home, |old| {
            project.compiler_of_run(&Subject::new(&old.to_string_lossy(), &[]), &Select::default(), None).drop_all();
        });
        let ran =
            run::perform(global, &run_request(request, &path), request.args.json, RunPurpose::BesideServers(&signals))
                .map_err(|error| options::name_options(error, request, text))?;
        if !ran.gave_way {
            return Ok((ran, path));
        }
    }
}

fn run_request(request: &BenchRequest, manifest: &Path) -> cli::RunRequest {
    cli::RunRequest {
        subject: Subject::new(&manifest.to_string_lossy(), &[]),
        // Parts of a simulator may be cached; a measurement never is.
        select: Select { force: Force::Uncached(vec![STAGE.to_owned()]), ..Select::default() },
        mode: RunMode {
            gpus: request.args.gpus.clone(),
            locking: LockingArgs::NONE,
            junit: request.args.junit.clone(),
            metrics_listen: request.args.metrics_listen.clone(),
            ..RunMode::default()
        },
        ..cli::RunRequest::default()
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

/// Returns whether there is a result.
fn print_result(request: &BenchRequest, out: &Path, global: &Global) -> Result<bool, CommandError> {
    let styler = global.styler();
    let sweep = out.join(SWEEP);
    if is_there(&sweep)? {
        print(&if request.args.json {
            read_text(&sweep)?
        } else {
            let report = SweepReport::read(&sweep).map_err(anyhow::Error::from)?;
            format!("\n{}", options::in_options(&report::sweep("bench", &report).terminal(styler)))
        });
        return Ok(true);
    }
    let path = out.join(RESULT);
    // A benchmark that could not begin has none; the run has reported why.
    if !is_there(&path)? {
        return Ok(false);
    }
    if request.args.json {
        print(&read_text(&path)?);
    } else {
        let result = Box::new(read_result(&path)?);
        print(&summary::text(&result, styler));
        print(&report::repeats(&result).terminal(styler));
        if matches!(global.loudness, OutputVerbosity::Verbose(_)) {
            let result = MeasuredResult::Regatta(result);
            print(&format!("\n{}", report::result(&TaskId::new(STAGE), &result).terminal(styler)));
        }
    }
    Ok(true)
}

/// Copies what the run left into a folder, if there is a result. Whether there is one.
fn copy_result(folder: &Path, ran: &RunEnd, out: &Path, manifest: &str) -> Result<bool, CommandError> {
    let (sweep, has_sweep) = (out.join(SWEEP), is_there(&out.join(SWEEP))?);
    if !has_sweep && !is_there(&out.join(RESULT))? {
        return Ok(false);
    }
    let new = NewResult::begin(folder)?;
    let copy = |from: &Path, name: &Path| if is_there(from)? { new.copy(from, name) } else { Ok(()) };
    let mut runs = vec![out.to_owned()];
    runs.extend(repeat_folders(out)?);
    let points = if has_sweep { SweepReport::read(&sweep).map_err(anyhow::Error::from)?.points } else { Vec::new() };
    for folder in points.iter().map(|point| out.join(&point.folder)) {
        runs.extend(repeat_folders(&folder)?.into_iter().chain([folder]));
    }
    for run in runs {
        let to = run.strip_prefix(out).unwrap_or(&run);
        for name in FILES {
            copy(&run.join(name), &to.join(name))?;
        }
    }
    copy(&sweep, Path::new(SWEEP))?;
    if let Some(report) = &ran.report {
        copy(report, Path::new("report.html"))?;
    }
    new.write(Path::new("manifest.yaml"), manifest)?;
    new.publish()?;
    Ok(true)
}
