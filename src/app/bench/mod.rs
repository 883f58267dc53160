//! `regatta bench`: one line becomes a manifest, the manifest runs like any other, and a summary shows its result.
//!
//! What `regatta bench` prints: the target and its load, the numbers that a reader looks for, the verdict and its cure,
//! and where to look next; of several runs their means. The names are those of the page and of `regatta compare`, and
//! the page has every number with its definition.

pub(super) mod manifest;
pub(super) mod options;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use self::manifest::STAGE;
use super::project::{Project, current_folder, given_state_folder};
use super::run::{self, RunEnd, RunPurpose, StopSignals};
use crate::cli::{self, BenchLoad, BenchRequest, CliExit, Force, Global, OutputVerbosity, Select, TokenLength};
use crate::console::{print, print_error};
use crate::error::CommandError;
use crate::out_folder::{FILES, NewResult, OutFolder};
use base::event::TaskId;
use base::files::read_text;
use base::spec::{BenchSweep, SweepLevels};
use base::units::{counted, grouped};
use harness::{
    Metric, REQUESTS, RESULT, ReasonSeverity, RunResult, SWEEP, SweepReport, WHOLE_ANSWERS, read_result,
    repeat_folders, zero_point_text,
};
use interop::MeasuredResult;
use report::{Styler, TextRole};
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
            "note: the time stamps in {} are not used: the load is given, or the usual one; `--trace` sends each \
             record at its own\n",
            file.display()
        ));
    }
    if let Some(name) = request.args.tokenizer.as_deref().filter(|name| options::tokenizer(name).is_none()) {
        print_error(&format!(
            "note: --tokenizer {name} is not a file here and nothing is downloaded, so it is not used: answers are \
             counted by the \
             server, and prompts are of words that are one token each in English vocabularies\n"
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
        let header = header(request);
        if request.args.json { print_error(&header) } else { print(&header) }
    }
    let mut is_replaced = false;
    let exit = measure(global, request, &text).and_then(|(ran, manifest)| {
        let task = ran.outs.iter().find(|(task, _)| task.as_str() == STAGE);
        let Some((_, out)) = task else { return Ok(ran.exit) };
        let is_quiet = global.loudness == OutputVerbosity::Quiet;
        // A script that reads the result wants it, whatever else is printed.
        if request.args.json || !is_quiet {
            let has_result = print_result(request, out, global)?;
            if has_result && !request.args.json {
                print(&files(ran.report.as_deref(), out, &manifest));
            }
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
    let plan = Project::open_current(global)?.expanded(&file.path().to_string_lossy(), &[], &Select::default());
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
            project.compiler_of_run(&old.to_string_lossy(), &[], &Select::default(), None).drop_all();
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
        manifest: manifest.to_string_lossy().into_owned(),
        // Parts of a simulator may be cached; a measurement never is.
        select: Select { force: Force::Uncached(vec![STAGE.to_owned()]), ..Select::default() },
        gpus: request.args.gpus.clone(),
        // A one-line benchmark does not touch the lock file.
        locking: cli::LockMode::Ignore,
        junit: request.args.junit.clone(),
        metrics_listen: request.args.metrics_listen.clone(),
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
            format!("\n{}", report::sweep("bench", &report).terminal(styler))
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
        print(&text(&result, styler));
        print(&report::repeats(&result).terminal(styler));
        if matches!(global.loudness, OutputVerbosity::Verbose(_)) {
            let result = MeasuredResult::Regatta(result);
            print(&format!("\n{}", report::result(&TaskId::new(STAGE), &result).terminal(styler)));
        }
    }
    Ok(true)
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

/// Copies what the run left into a folder, if there is a result. Whether there is one.
fn copy_result(folder: &Path, ran: &RunEnd, out: &Path, manifest: &str) -> Result<bool, CommandError> {
    if !is_there(&out.join(RESULT))? && !is_there(&out.join(SWEEP))? {
        return Ok(false);
    }
    let new = NewResult::begin(folder)?;
    let copy = |from: &Path, name: &Path| if is_there(from)? { new.copy(from, name) } else { Ok(()) };
    let mut runs = vec![out.to_owned()];
    runs.extend(repeat_folders(out)?);
    for point in point_folders(out)? {
        let repeats = repeat_folders(&point)?;
        runs.push(point);
        runs.extend(repeats);
    }
    for run in runs {
        let to = run.strip_prefix(out).unwrap_or(&run);
        for name in FILES {
            copy(&run.join(name), &to.join(name))?;
        }
    }
    copy(&out.join(SWEEP), Path::new(SWEEP))?;
    if let Some(report) = &ran.report {
        copy(report, Path::new("report.html"))?;
    }
    new.write(Path::new("manifest.yaml"), manifest)?;
    new.publish()?;
    Ok(true)
}

/// Reasons below a verdict; the page has all.
const SHOWN_REASONS: usize = 5;

/// The line above the progress: `http://h:1 · concurrency 2 · 20 requests · 550 → 128 tokens`.
pub fn header(request: &BenchRequest) -> String {
    let mut parts = vec![request.target.clone(), load(&request.load)];
    parts.extend(request.requests.as_ref().map(|requests| format!("{requests} requests")));
    parts.extend(request.duration.clone());
    parts.extend(request.data.as_ref().map(|(_, file)| file.display().to_string()));
    let mean = |length: &Option<TokenLength>| length.as_ref().map(|length| length.mean.to_string());
    parts.extend(match (mean(&request.input), mean(&request.output)) {
        (Some(input), Some(output)) => Some(format!("{input} → {output} tokens")),
        (_, output) => output.map(|output| format!("{output} output tokens")),
    });
    parts.join(" · ") + "\n"
}

fn load(load: &BenchLoad) -> String {
    let levels = |levels: &SweepLevels| match levels {
        SweepLevels::List(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        SweepLevels::Range(range) => range.to_string(),
    };
    match load {
        BenchLoad::Concurrency(users) => format!("concurrency {users}"),
        BenchLoad::Rate(rate) => format!("{rate} req/s"),
        BenchLoad::Offline => "all at once".to_owned(),
        BenchLoad::Trace(speed) => format!("trace at speed {speed}"),
        BenchLoad::Sweep(BenchSweep::Concurrency(users)) => format!("sweep: concurrency {}", levels(users)),
        BenchLoad::Sweep(BenchSweep::Rate(rates)) => format!("sweep: {} req/s", levels(rates)),
        BenchLoad::Sweep(_) => "sweep".to_owned(),
    }
}

/// The numbers and the verdict of one run.
pub fn text(result: &RunResult, styler: Styler) -> String {
    let latency = &result.latency;
    let rows: [(&str, &Metric); 4] = [
        ("TTFT (ms)", &latency.ttft),
        ("TPOT (ms)", &latency.tpot),
        ("ITL (ms)", &latency.itl_token),
        ("E2E (ms)", &latency.e2e),
    ];
    let mut text = format!("\n{:<11}", "");
    let columns = ["mean", "p50", "p90", "p99", "max"];
    for column in columns {
        let _ = write!(text, " {column:>10}");
    }
    text.push('\n');
    for (name, metric) in rows {
        let _ = write!(text, "{name:<11}");
        for value in [metric.mean, metric.p50, metric.p90, metric.p99, metric.max] {
            let _ = write!(text, " {:>10}", number(value));
        }
        text.push('\n');
    }
    text.push_str(&totals(result));
    text.push('\n');
    text.push_str(&options::in_options(&verdict(result, styler)));
    styler.fit(text)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "n/a".to_owned(),
        Some(value) if value.abs() >= 1e6 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// Counts and rates, and below them from when latency counts and who counted the tokens.
fn totals(result: &RunResult) -> String {
    let (counts, rates) = (&result.counts, &result.rates);
    let mut parts = vec![
        format!("{} of {} ok", counts.ok, counted(counts.scheduled as usize, "request")),
        format!("{} req/s", number(rates.requests_full)),
        format!("{} tok/s", rates.output_tokens.map_or_else(|| "n/a".to_owned(), |rate| grouped(rate, 0))),
        format!("in {:.2} s", rates.window_s),
    ];
    if let Some(goodput) = &result.goodput {
        let share = goodput.attainment.filter(|_| !goodput.is_unknown());
        let share = share.map_or_else(
            || "n/a: no answer has a time per token".to_owned(),
            |share| format!("{:.2} %", share * 100.0),
        );
        parts.insert(3, format!("SLO met by {share}"));
    }
    let mut text = parts.join(" · ") + "\n";
    let zero_point = &result.latency.ttft.zero_point;
    let _ = writeln!(text, "TTFT and E2E from {}; tokens: {}", zero_point_text(zero_point), result.tokens.source);
    text.extend(gpus(result));
    if result.has_silently_whole_answers() {
        let _ = writeln!(text, "{WHOLE_ANSWERS}");
    }
    text
}

/// Power and energy, where the servers' GPUs are known.
fn gpus(result: &RunResult) -> Option<String> {
    let gpu = result.gpu.as_ref()?;
    let numbers = [
        gpu.mean_power_w.map(|power| format!("mean power {power:.2} W")),
        gpu.energy_j.map(|energy| format!("energy {energy:.2} J")),
        Some(gpu.tokens_per_joule.map_or_else(
            || format!("tokens per joule n/a: {}", gpu.tokens_per_joule_is),
            |tokens| format!("{tokens:.2} tokens per joule"),
        )),
    ];
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(format!("{} ({}): {numbers}\n", counted(gpu.devices.len(), "GPU"), gpu.population))
}

/// The verdict, what was measured, and each reason with its cure.
fn verdict(result: &RunResult, styler: Styler) -> String {
    let verdict = styler.tone(TextRole::from(result.verdict()), result.verdict_text());
    // The verdict has that word.
    let measured = result.identity.as_ref().map(|identity| identity.short_line().replacen("SIMULATED, ", "", 1));
    let mut text = format!("{}\n", [Some(verdict), measured].into_iter().flatten().collect::<Vec<_>>().join("  "));
    for reason in result.reasons().iter().take(SHOWN_REASONS) {
        let (role, mark) = match reason.severity {
            ReasonSeverity::Warning => (TextRole::Warning, "!"),
            _ => (TextRole::Bad, "✗"),
        };
        let _ = writeln!(text, "  {} {}", styler.tone(role, mark), reason.line());
        // Some texts have a cure for their case.
        if !reason.check.cure().is_empty() && !reason.text.contains("; ") {
            let _ = writeln!(text, "    → {}", reason.check.cure());
        }
    }
    if let Some(more @ 1..) = result.reasons().len().checked_sub(SHOWN_REASONS) {
        let _ = writeln!(text, "  … and {more} more, in the report");
    }
    text
}

/// Where the result is, and how to have it again.
pub fn files(report: Option<&Path>, out: &Path, manifest: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    let rows = [
        ("report", report.map(shown)),
        ("files", Some(shown(out))),
        ("again", Some(format!("regatta run {}", shown(manifest)))),
    ];
    let rows = rows.into_iter().filter_map(|(name, text)| Some(format!("{name:<7} {}\n", text?)));
    std::iter::once("\n".to_owned()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::{Goodput, LoadPattern, Slo};

    fn golden() -> RunResult {
        serde_json::from_str(include_str!("../../../tests/golden/results/benchmark/result.json")).unwrap()
    }

    #[test]
    fn one_benchmark_is_read_at_a_glance() {
        let result = golden();
        let shown = text(&result, Styler::OFF) + &files(Some(Path::new("r.html")), Path::new("o"), Path::new("m.yaml"));
        assert!(shown.lines().count() <= 24, "with the header at most 25 lines: {shown}");
        let numbers: Vec<&str> = shown.lines().take_while(|line| !line.contains(" · ")).collect();
        assert!(numbers.len() == 6 && numbers.iter().all(|line| line.chars().count() <= 80), "{shown}");
        assert!(shown.contains(&result.verdict_text()) && shown.contains("again   regatta run m.yaml"), "{shown}");
    }

    /// One name is one number with each load: none of them counts from the send.
    #[test]
    fn offline_has_the_rows_of_the_other_loads() {
        let mut result = golden();
        result.requested.scenario = LoadPattern::Offline;
        result.latency.ttft.mean = Some(692.45);
        result.latency.ttft_sent.mean = Some(691.13);
        let shown = text(&result, Styler::OFF);
        let row = shown.lines().find(|line| line.starts_with("TTFT (ms)")).unwrap();
        assert_eq!(row.split_whitespace().nth(2), Some("692.45"));
        assert!(!shown.contains(WHOLE_ANSWERS), "{shown}");
        result.client.call = "unary".to_owned();
        assert!(text(&result, Styler::OFF).contains(WHOLE_ANSWERS));
    }

    #[test]
    fn an_slo_on_a_time_that_no_answer_has_is_met_by_no_number() {
        let mut result = golden();
        let slo = Slo { tpot_ms: Some(25.0), ..Slo::default() };
        result.goodput = Some(Goodput { slo, of: 9, ..Goodput::default() });
        let shown = text(&result, Styler::OFF);
        assert!(shown.contains("SLO met by n/a: no answer has a time per token"), "{shown}");
    }
}
