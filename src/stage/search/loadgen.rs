//! `bench.search` with `loadgen` — the highest `target_qps` at which LoadGen's own rules hold. Every probe is a LoadGen test
//! in `probes/<n>-<rate>`; one that was finished is not run again when the search was cut off.

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use super::phases::{Next, Tried, next};
use crate::event::{Done, Failure, FailureKind, Verdict};
use crate::harness::{Bounds, Found, RunResult, Spec};
use crate::manifest::model::{Bench, Loadgen};
use crate::mlperf::conf::conf;
use crate::mlperf::log::{DETAIL_FILE, Detail};
use crate::mlperf::{Ask, Estimate, TEST_FILE, explain};
use crate::plan::loadgen::ask;
use crate::stage::errand::Errand;
use crate::stage::loadgen::once;

/// A short test lasts a minute,
const SHORT_MS: u64 = 60_000;
/// or until so many queries were issued: with fewer LoadGen cannot be sure of a 99th percentile that one query missed.
const SHORT_QUERIES: u64 = 700;

/// `search.json`
#[derive(Serialize)]
struct Told<'a> {
    bounds: Bounds,
    probes: &'a [Probe],
    /// Queries per second.
    found: Found,
}

/// One test as it is told.
#[derive(Clone, Serialize)]
struct Probe {
    rate: f64,
    /// As long as the rules want it.
    is_whole: bool,
    met: bool,
    ttft_p99_ms: Option<f64>,
    tpot_p99_ms: Option<f64>,
    /// Why it missed.
    why: Option<String>,
    folder: PathBuf,
}

/// Searches. `program` is what LoadGen's tests run in; `None` is this one.
pub async fn perform(
    errand: &Errand,
    bench: &Bench,
    bounds: Bounds,
    spec: &Spec,
    program: Option<&Path>,
) -> Result<Done, Failure> {
    let loadgen = bench.loadgen.as_deref().ok_or_else(|| refused("there is no `loadgen`"))?;
    if let Some(wrong) = bounds.wrong() {
        return Err(refused(&format!("`bench.search`: {wrong}")));
    }
    errand.lease.notice(foretold(bench, bounds).ok_or_else(|| refused("the rules do not allow this test"))?);
    let mut probes: Vec<Probe> = Vec::new();
    let found = loop {
        let history: Vec<Tried> =
            probes.iter().map(|one| Tried { rate: one.rate, is_whole: one.is_whole, met: one.met }).collect();
        let (rate, is_whole) = match next(&bounds, &history) {
            Next::Short(rate) => (rate, false),
            Next::Whole(rate) => (rate, true),
            Next::Found(found) => break found,
            Next::NotEvenLow => {
                let why = probes.iter().rev().find_map(|one| one.why.clone()).unwrap_or_default();
                let what = format!("LoadGen's rules do not hold even at {} qps", bounds.low);
                let failure = Failure::new(FailureKind::Invalid(Verdict::InvalidLoad), what).cause(why);
                return Err(failure.hint("begin lower: `search.low`"));
            }
        };
        let kind = if is_whole { "-whole" } else { "" };
        let folder = PathBuf::from(format!("probes/{:02}-{rate}{kind}", probes.len() + 1));
        let path = errand.lease.out.join(&folder);
        let asked = if is_whole { whole(loadgen, rate) } else { short(loadgen, rate) };
        let detail = if let Some(detail) = before(&path, rate) {
            detail
        } else {
            empty(&path)?;
            let result = Box::pin(once(errand, bench, &asked, spec.clone(), program, &path)).await?;
            if result.verdict == Verdict::InvalidClient {
                return Err(client(rate, &result));
            }
            read(&path)?
        };
        probes.push(told(rate, is_whole, folder, &detail));
    };
    let told = serde_json::to_vec_pretty(&Told { bounds, probes: &probes, found }).unwrap_or_default();
    let path = errand.lease.out.join("search.json");
    fs::write(&path, told).map_err(|error| system(&path, &error))?;
    // The output of this stage is that of the whole test at the rate that was found.
    let best = probes.iter().rev().find(|one| one.is_whole && one.met && one.rate.total_cmp(&found.at_least).is_eq());
    if let Some(best) = best {
        copy(&errand.lease.out.join(&best.folder), &errand.lease.out)?;
    }
    let upper = found.below.map_or_else(|| " or more".to_owned(), |below| format!("–{below}"));
    let whole = probes.iter().filter(|one| one.is_whole).count();
    let headline = format!(
        "{}{upper} qps by LoadGen's rules ({} short tests, {whole} whole)",
        found.at_least,
        probes.len() - whole
    );
    Ok(Done { headline: Some(headline) })
}

/// A test as the rules want it.
fn whole(loadgen: &Loadgen, rate: f64) -> Loadgen {
    Loadgen { target_qps: Some(rate), ..loadgen.clone() }
}

/// A rehearsal of it: a minute, not padded to whole data sets.
fn short(loadgen: &Loadgen, rate: f64) -> Loadgen {
    let mut short = Loadgen { target_qps: Some(rate), rehearse: true, ..loadgen.clone() };
    for (key, value) in [
        ("min_duration", json!(SHORT_MS)),
        ("min_query_count", json!(SHORT_QUERIES)),
        ("sample_concatenate_permutation", json!(0)),
    ] {
        short.user_conf.insert(key.to_owned(), value);
    }
    short
}

/// What it will cost, before it costs it.
fn foretold(bench: &Bench, bounds: Bounds) -> Option<String> {
    let asked = ask(bench)?;
    let seed = asked.find().ok()?.round.loadgen.seeds.schedule;
    let seconds = |rate: f64| {
        let asked = Ask { target_qps: Some(rate), ..asked.clone() };
        Some(Estimate::of(&conf(&asked).ok()?.settings, seed).seconds)
    };
    let (slow, quick) = (seconds(bounds.low)?, seconds(bounds.high)?);
    let shortest = SHORT_MS as f64 / 1e3;
    let longest = shortest.max(SHORT_QUERIES as f64 / bounds.low);
    // The confirmation is a whole test.
    let probes = bounds.probes() - 1;
    let minutes = |seconds: f64| format!("{} min", (seconds / 60.0).ceil());
    Some(format!(
        "searching from {} to {} qps to {} %: at most {probes} short tests of {} to {}, then a whole one, of {} at {} qps and {} at {} qps; each whole one that misses costs another",
        bounds.low,
        bounds.high,
        bounds.precision * 100.0,
        minutes(shortest),
        minutes(longest),
        minutes(slow),
        bounds.low,
        minutes(quick),
        bounds.high,
    ))
}

/// A test of this rate that was finished. `test.json` is written last.
fn before(path: &Path, rate: f64) -> Option<Detail> {
    if !path.join(TEST_FILE).is_file() {
        return None;
    }
    let detail = read(path).ok()?;
    let same = detail.number("effective_target_qps").is_some_and(|asked| (asked - rate).abs() <= rate * 1e-5);
    (same && detail.result().is_some()).then_some(detail)
}

fn read(path: &Path) -> Result<Detail, Failure> {
    let path = path.join(DETAIL_FILE);
    let file = File::open(&path).map_err(|error| system(&path, &error))?;
    Detail::read(BufReader::new(file)).map_err(|error| refused(&format!("`{}` {error}", path.display())))
}

fn told(rate: f64, is_whole: bool, folder: PathBuf, detail: &Detail) -> Probe {
    let told = explain(detail);
    let met = told.result.as_deref() == Some("VALID") && told.reasons.is_empty();
    let ms = |key: &str| detail.number(key).map(|ns| ns / 1e6);
    Probe {
        rate,
        is_whole,
        met,
        ttft_p99_ms: ms("result_first_token_99.00_percentile_latency_ns"),
        tpot_p99_ms: ms("result_time_per_output_token_99.00_percentile_ns"),
        why: told.reasons.first().map(|reason| reason.what.clone()),
        folder,
    }
}

/// What an unfinished test left is no beginning of another.
fn empty(path: &Path) -> Result<(), Failure> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|error| system(path, &error))?;
    }
    fs::create_dir_all(path).map_err(|error| system(path, &error))
}

fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    let entries = fs::read_dir(from).map_err(|error| system(from, &error))?;
    for entry in entries {
        let entry = entry.map_err(|error| system(from, &error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            fs::copy(entry.path(), to.join(entry.file_name())).map_err(|error| system(&entry.path(), &error))?;
        }
    }
    Ok(())
}

/// A client that cannot keep up says nothing about the server.
fn client(rate: f64, result: &RunResult) -> Failure {
    let what = format!("at {rate} qps it is the client that is measured, not the server");
    let why = result.reasons.first().map(|reason| format!("{}: {}", reason.check, reason.text)).unwrap_or_default();
    let failure = Failure::new(FailureKind::Invalid(result.verdict), what).cause(why);
    failure.hint("give the client more cores or connections, or search below this rate")
}

fn refused(what: &str) -> Failure {
    Failure::new(FailureKind::Refused, what)
}

fn system(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(FailureKind::System, format!("`{}`: {error}", path.display()))
}
