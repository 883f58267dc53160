//! `bench:` with `loadgen:` — one LoadGen test in a child process of this program.

use std::ffi::OsString;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::bench::{judged, silence};
use super::errand::Errand;
use super::mlperf::LIBRARY;
use super::search;
use crate::event::{Done, Failure, FailureKind};
use crate::harness::{self, RunResult, Slo, Spec};
use crate::loadgen::{Job, Line, Test};
use crate::manifest::model::{self, Bench, Loadgen};
use crate::mlperf::conf::conf;
use crate::mlperf::log::{DETAIL_FILE, Detail};
use crate::mlperf::{Ask, Benchmark, DatasetTold, Estimate, Scenario, Wrong, explain};
use crate::plan::loadgen::ask;

/// How often the child's lines are read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// One test, or a search for the highest rate by many.
pub async fn perform(
    errand: &Errand,
    bench: &Bench,
    loadgen: &Loadgen,
    spec: Spec,
    program: Option<&Path>,
) -> Result<Done, Failure> {
    if let Some(model::RateSearch { low, high, precision }) = bench.search {
        let bounds = harness::Bounds { low, high, precision };
        return Box::pin(search::loadgen::perform(errand, bench, bounds, &spec, program)).await;
    }
    let out = &errand.lease.out;
    let result = once(errand, bench, loadgen, spec, program, out).await?;
    judged(&result).map_err(|failure| match hint(out) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// What to do about a run that LoadGen calls INVALID.
fn hint(out: &Path) -> Option<String> {
    let file = fs::File::open(out.join(DETAIL_FILE)).ok()?;
    let told = explain(&Detail::read(std::io::BufReader::new(file)).ok()?);
    let advice = told.reasons.first().map(|reason| reason.advice.clone())?;
    Some(told.next_qps.map_or_else(|| advice.clone(), |qps| format!("{advice}: `target_qps: {qps}` is a first guess")))
}

/// One LoadGen test, its files in `out`.
pub async fn once(
    errand: &Errand,
    bench: &Bench,
    loadgen: &Loadgen,
    spec: Spec,
    program: Option<&Path>,
    out: &Path,
) -> Result<RunResult, Failure> {
    let test = test(errand, bench, loadgen, spec, out)?;
    let spec = test.spec.clone();
    let begun = Instant::now();
    let job = Job::Test(Box::new(test));
    let mut far = None;
    let ending = async {
        // A server of ours that is lost stops this task by itself; of others we see it here.
        let limit = errand.lease.task.timeout.unwrap_or(Duration::MAX);
        tokio::select! {
            silent = silence(&spec) => Failure::new(FailureKind::Service, silent.to_string()),
            () = tokio::time::sleep(limit) => {
                Failure::new(FailureKind::Timeout, format!("still measuring after its timeout of {limit:?}"))
            }
        }
    };
    let ran = {
        let running = run(errand, program, &job, |line| match line {
            Line::Phase(phase) => errand.lease.say(phase, 0, None),
            Line::Progress { issued, ended, failed } => {
                far = Some((ended, issued));
                let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
                let minutes = begun.elapsed().as_secs_f64() / 60.0;
                errand.lease.say(format!("answered, {minutes:.1} min{failed}"), ended, Some(issued));
            }
            Line::Probed(_) | Line::Done | Line::Failed { .. } => {}
        });
        tokio::select! {
            ran = running => ran,
            failure = ending => Err(failure),
        }
    };
    let when = far.map_or_else(String::new, |(ended, issued)| format!("; {ended} of {issued} had ended"));
    if let Some(why) = errand.lease.stop.why() {
        return Err(Failure::new(FailureKind::Service, format!("{why}{when}")));
    }
    ran?;
    harness::read_result(&out.join("result.json")).map_err(|error| Failure::new(FailureKind::System, error.to_string()))
}

/// What the child is to do. Writes user.conf, and audit.config for an audit test.
fn test(errand: &Errand, bench: &Bench, loadgen: &Loadgen, mut spec: Spec, out: &Path) -> Result<Test, Failure> {
    let folder = errand.path(&loadgen.dataset);
    let dataset = dataset(&folder, &loadgen.benchmark)?;
    let bench = Bench { loadgen: Some(Box::new(loadgen.clone())), search: None, ..bench.clone() };
    let asked = ask(&bench).ok_or_else(|| Failure::new(FailureKind::Refused, "LoadGen has no such scenario"))?;
    let asked = Ask { dataset_samples: Some(dataset.samples), ..asked };
    let conf = conf(&asked).map_err(|wrong| forbidden(&wrong))?;
    let found = asked.find().map_err(|wrong| forbidden(&wrong))?;
    if asked.rehearsal {
        let (ms, samples) = (conf.settings.min_duration_ms, conf.settings.performance_samples);
        errand.lease.notice(format!("a rehearsal, which cannot be submitted: min_duration = {ms}, {samples} samples"));
    }
    errand.lease.notice(Estimate::of(&conf.settings, found.round.loadgen.seeds.schedule).to_string());
    settle(&mut spec, &bench, &found.benchmark, asked.scenario);
    let write = |name: &str, text: &str| {
        let path = out.join(name);
        let told = |error| Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
        fs::write(&path, text).map_err(told).map(|()| path.clone())
    };
    let user_conf = write("user.conf", &conf.text)?;
    let audit = conf.audit.as_deref().map(|text| write("audit.config", text)).transpose()?;
    Ok(Test {
        library: errand.path(&loadgen.library).join(LIBRARY),
        samples: folder.join("dataset.jsonl"),
        dataset,
        out: out.to_owned(),
        sut_name: format!("Triton {} ({} endpoints)", spec.model, spec.endpoints.len()),
        spec,
        round: found.round.name,
        benchmark: loadgen.benchmark.clone(),
        scenario: asked.scenario,
        mode: asked.mode,
        division: asked.division,
        rehearsal: asked.rehearsal.then_some(conf.settings.performance_samples),
        target_qps: asked.target_qps,
        user_keys: conf.keys,
        user_conf,
        audit,
    })
}

/// What the rules forbid, all of it.
fn forbidden(wrong: &[Wrong]) -> Failure {
    let told: Vec<String> =
        wrong.iter().map(|one| format!("`{}` {}: {}", one.at.join("."), one.what, one.rule)).collect();
    let failure = Failure::new(FailureKind::Refused, told.join("; "));
    match wrong.iter().find_map(|one| one.hint.clone()) {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// What the rules say of requests.
fn settle(spec: &mut Spec, bench: &Bench, benchmark: &Benchmark, scenario: Scenario) {
    if let Some(min) = benchmark.min_output_tokens.filter(|_| spec.request.min_length.is_none()) {
        spec.request.min_length = Some(min as i32);
    }
    if let Some(latency) = benchmark.latency.get(&scenario).filter(|_| bench.slo.is_none()) {
        spec.slo = Slo { ttft_ms: Some(latency.ttft_ms), tpot_ms: Some(latency.tpot_ms), e2e_ms: None };
    }
}

fn dataset(folder: &Path, benchmark: &str) -> Result<DatasetTold, Failure> {
    let path = folder.join("dataset.json");
    let refuse = |what: String| {
        let failure = Failure::new(FailureKind::Refused, format!("{}: {what}", path.display()));
        failure.hint("`bench.loadgen.dataset` is the output of an `mlperf: { dataset: … }` stage")
    };
    let text = fs::read(&path).map_err(|error| refuse(error.to_string()))?;
    let told: DatasetTold = serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    if told.benchmark != benchmark {
        return Err(refuse(format!("it is the data set of {}, and the benchmark is {benchmark}", told.benchmark)));
    }
    Ok(told)
}

/// Runs the child to its end and hands on what it says. Dropping this ends the child at once.
pub async fn run(
    errand: &Errand,
    program: Option<&Path>,
    job: &Job,
    mut heard: impl FnMut(Line),
) -> Result<(), Failure> {
    let system =
        |path: &Path, error: &std::io::Error| Failure::new(FailureKind::System, format!("{}: {error}", path.display()));
    let job_file = errand.lease.log.with_extension("job.json");
    let text = serde_json::to_vec(job).map_err(|error| Failure::new(FailureKind::System, error.to_string()))?;
    fs::write(&job_file, text).map_err(|error| system(&job_file, &error))?;
    let program = match program {
        Some(program) => program.to_owned(),
        None => std::env::current_exe().map_err(|error| system(Path::new("this program"), &error))?,
    };
    let argv: Vec<OsString> = vec![program.into(), "__loadgen-test".into(), job_file.clone().into()];
    let answer = errand.lease.log.with_extension("lines");
    let mut lines = Lines { path: answer.clone(), read: 0, rest: Vec::new() };
    let mut failed = None;
    let mut hand_on = |lines: &mut Lines| {
        for line in lines.come() {
            if let Line::Failed { why, is_refused } = &line {
                failed = Some((why.clone(), *is_refused));
            }
            heard(line);
        }
    };
    let ended = {
        let mut running = std::pin::pin!(errand.run(errand.command(argv).answer(&answer)));
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
    for file in [&job_file, &answer] {
        let _ = fs::remove_file(file);
    }
    match (ended, failed) {
        (Ok(_), _) => Ok(()),
        // What it said of itself says more than how it ended.
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
    fn come(&mut self) -> Vec<Line> {
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
