//! What a plan holds of MLPerf: LoadGen's tests as the rules require them, how long they take, and what is missing
//! beside them.
//!
//! A search for the highest `target_qps` by LoadGen's own rules: what its tests are, and what they cost together.
//!
//! What a planned package will lack.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::manifest::model::{self, Action, Bench, Loadgen, Mlperf, MlperfPackage, PowerMeter, RateSearch};
use crate::{Plan, Task};
use base::event::Endpoint;
use base::files::read_text;
use base::spec::Division;
use rules::conf::conf;
use rules::{
    Accelerator, EXAMPLE_SUBMITTER, Estimate, GivenDescription, MlperfScenario, Round, TestRequest, misspelt_fields,
    needs_sentences, time,
};
use triton::is_own_address;

/// A `bench` with `loadgen`, as the rules need it. None: there is no `loadgen`, or LoadGen has no such scenario.
pub fn test_request(bench: &Bench) -> Option<TestRequest<'_>> {
    let loadgen = bench.loadgen.as_deref()?;
    Some(TestRequest {
        round: &loadgen.round,
        benchmark: &loadgen.benchmark,
        scenario: MlperfScenario::from_scenario(bench.scenario)?,
        mode: loadgen.mode,
        division: loadgen.division,
        rehearsal: loadgen.rehearse,
        // A search sets its own; that of its first probe stands for them.
        target_qps: loadgen.target_qps.or(bench.search.as_ref().map(|search| search.low)),
        user_conf: &loadgen.user_conf,
        dataset_samples: None,
    })
}

/// What the user should know before a plan's LoadGen tests are run: how long each takes, which scores cannot be
/// computed, and what a package lacks, as detected below the root folder of this machine. One line each.
pub fn notes(plan: &Plan, machine: &Path) -> Vec<String> {
    let mut notes = Vec::new();
    let servers = external_servers(plan);
    let has_power = plan.tasks.iter().filter_map(Task::bench).any(|bench| power_meter(bench).is_some());
    for task in &plan.tasks {
        let texts = match task.action() {
            Some(Action::Bench(bench)) => estimate(bench).into_iter().collect(),
            Some(Action::Mlperf(Mlperf::Package(package))) => package_notes(package, machine, &servers, has_power),
            Some(Action::Mlperf(Mlperf::Score(score))) => unscored(score).into_iter().collect(),
            _ => Vec::new(),
        };
        notes.extend(texts.into_iter().map(|text| format!("{}: {text}", task.id)));
    }
    notes
}

/// The meter that measures power beside a LoadGen test.
fn power_meter(bench: &Bench) -> Option<&PowerMeter> {
    bench.loadgen.as_deref()?.power.as_ref()
}

/// The servers of a plan that none of its stages starts.
fn external_servers(plan: &Plan) -> Vec<Endpoint> {
    let mut servers: Vec<Endpoint> = Vec::new();
    for server in plan.tasks.iter().filter(|task| task.bench().is_some()).flat_map(Task::external_servers) {
        if !servers.contains(server) {
            servers.push(server.clone());
        }
    }
    servers
}

/// Scores that the round asks for and that a stage does not compute as it is.
fn unscored(score: &model::MlperfScore) -> Option<String> {
    if score.sentences.is_some() || score.official.is_some() {
        return None;
    }
    let round = Round::named(&score.round)?;
    let bounds = &round.benchmarks.get(&score.benchmark)?.accuracy;
    let names: Vec<&str> = bounds.keys().map(String::as_str).filter(|name| needs_sentences(name)).collect();
    let message = names.join(" and ");
    (!names.is_empty())
        .then(|| format!("{message} are not scored without `sentences`, the folder of NLTK's punkt_tab/english"))
}

/// What LoadGen will issue, or a search for its highest rate.
fn estimate(bench: &Bench) -> Option<String> {
    if bench.search.is_some() {
        return Cost::estimate(bench).map(|cost| cost.to_string());
    }
    let twice = power_meter(bench).map_or("", |_| ", run twice for the power meter: ranging, then testing");
    queries(bench).map(|queries| format!("{queries}{twice}"))
}

/// What LoadGen will issue in one test. None where that depends on a data set that is made up and may be smaller.
pub fn queries(bench: &Bench) -> Option<Estimate> {
    let request = test_request(bench)?;
    if request.rehearsal {
        return None;
    }
    let seed = request.find().ok()?.round.loadgen.seeds.schedule;
    Some(Estimate::new(&conf(&request).ok()?.settings, seed))
}

/// A short test lasts a minute, of a rehearsal a quarter of its whole one,
const SHORT_MS: u64 = 60_000;
/// or until this many queries were issued: with fewer LoadGen cannot be sure of a 99th percentile that one query
/// missed.
const ENOUGH: u64 = 700;
/// By how much a rehearsal's whole test is longer than its short one.
const REHEARSED: u64 = 4;

/// A test as the rules require it.
pub fn full_test(loadgen: &Loadgen, rate: f64) -> Loadgen {
    let mut whole = Loadgen { target_qps: Some(rate), ..loadgen.clone() };
    if whole.rehearse {
        // By the rules there are always enough.
        whole.user_conf.entry("min_query_count".to_owned()).or_insert(json!(ENOUGH));
    }
    whole
}

/// A rehearsal of it, not padded to whole data sets.
pub fn short(loadgen: &Loadgen, rate: f64) -> Loadgen {
    let mut short = Loadgen { target_qps: Some(rate), rehearse: true, ..loadgen.clone() };
    let set = |key: &str| loadgen.user_conf.get(key).and_then(Value::as_u64);
    let lasts = if loadgen.rehearse {
        set("min_duration").unwrap_or(rules::conf::REHEARSAL_DURATION_MS).div_ceil(REHEARSED)
    } else {
        SHORT_MS
    };
    for (key, value) in [
        ("min_duration", lasts.clamp(1, SHORT_MS)),
        ("min_query_count", set("min_query_count").unwrap_or(ENOUGH).min(ENOUGH)),
        ("sample_concatenate_permutation", 0),
    ] {
        short.user_conf.insert(key.to_owned(), json!(value));
    }
    let round = Round::named(&loadgen.round).filter(|_| !loadgen.rehearse);
    if let Some(benchmark) = round.as_ref().and_then(|round| round.benchmarks.get(&loadgen.benchmark)) {
        // The few samples of a rehearsal are not as long, on average, as all of them.
        let drawn = "performance_sample_count_override".to_owned();
        short.user_conf.entry(drawn).or_insert(json!(benchmark.performance_samples));
    }
    short
}

/// What a search takes, in seconds until the last query of a test arrives: servers need longer to start, and to answer
/// it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub bounds: RateSearch,
    /// Short tests, at most, if none contradicts another.
    pub short_tests: u32,
    /// One of them, the shortest and the longest.
    pub short_s: (f64, f64),
    /// The whole one, likewise.
    pub whole_s: (f64, f64),
    /// All short ones and one whole one, at most.
    pub most_s: f64,
}

impl Cost {
    /// `None`: the bench does not search, or the rules do not allow its tests.
    pub fn estimate(bench: &Bench) -> Option<Self> {
        let (bounds, loadgen) = (bench.search.clone()?, bench.loadgen.as_deref()?);
        let seconds = |test: &Loadgen| {
            let bench = Bench { search: None, loadgen: Some(Box::new(test.clone())), ..bench.clone() };
            let request: TestRequest<'_> = test_request(&bench)?;
            let seed = request.find().ok()?.round.loadgen.seeds.schedule;
            Some(Estimate::new(&conf(&request).ok()?.settings, seed).seconds)
        };
        let doublings = (bounds.high / bounds.low).log2().ceil() as u32 + 1;
        let halvings = (1.0 / bounds.precision).log2().ceil() as u32;
        let doubled = (0..doublings).map(|step| (bounds.low * 2f64.powi(step as i32)).min(bounds.high));
        let short: Vec<f64> = doubled.clone().map(|rate| seconds(&short(loadgen, rate))).collect::<Option<_>>()?;
        let whole: Vec<f64> = doubled.map(|rate| seconds(&full_test(loadgen, rate))).collect::<Option<_>>()?;
        let range =
            |all: &[f64]| (all.iter().copied().fold(f64::INFINITY, f64::min), all.iter().copied().fold(0.0, f64::max));
        let (short_s, whole_s) = (range(&short), range(&whole));
        // The gap may be halved near the lowest rate, where tests last longest.
        let most_s = short.iter().sum::<f64>() + f64::from(halvings) * short_s.1 + whole_s.1;
        Some(Self { bounds, short_tests: doublings + halvings, short_s, whole_s, most_s })
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RateSearch { low, high, precision, .. } = self.bounds;
        let between = |(least, most): (f64, f64)| match (time(least), time(most)) {
            (least, most) if least == most => least,
            (least, most) => format!("{least} to {most}"),
        };
        write!(
            f,
            "searching from {low} to {high} qps to {} %: at most {} short tests of {}, then a full one of {}: {} of \
             arrivals at most if they agree; each whole one that misses costs another",
            precision * 100.0,
            self.short_tests,
            between(self.short_s),
            between(self.whole_s),
            time(self.most_s),
        )
    }
}

/// One line each. What is known of the machine is read below a root folder. `servers` are those that the plan's LoadGen
/// tests measure and that no stage of it starts.
pub(super) fn package_notes(
    package: &MlperfPackage,
    machine: &Path,
    servers: &[Endpoint],
    has_power: bool,
) -> Vec<String> {
    let mut notes = missing_scenarios(package);
    if package.submitter == EXAMPLE_SUBMITTER && !package.rehearse {
        notes.push(format!(
            "the submitter is `{EXAMPLE_SUBMITTER}`, a stand-in: `submitter` is your organization, as registered for \
             the round"
        ));
    }
    if package.documentation.is_none() && package.division == Division::Closed && !package.rehearse {
        let text = "its documentation/calibration.md will be a template of the settings of quantization, with lines to \
                    fill in: `documentation` names the folder with yours";
        notes.push(text.to_owned());
    }
    if has_power && matches!(&*package.round, "v4.1" | "v5.0" | "v5.1") {
        let text = "with power it must have analyzer_table.* and power_settings.*, which describe the meter: they are \
                    taken from the folder `documentation`";
        notes.push(text.to_owned());
    }
    for (name, near) in misspelt_fields(&package.system_json) {
        notes.push(format!("`system_json.{name}` is packed as it is: did you mean `{near}`?"));
    }
    let is_elsewhere = !servers.is_empty() && !servers.iter().any(|server| is_known_here(&server.host, machine));
    if is_elsewhere {
        let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        notes.push(format!(
            "{servers}: these servers run on another machine, so facts about their host cannot be detected; the \
             Closed division requires LoadGen on the same host, and packages for the Network division are not supported"
        ));
    }
    notes.extend(missing_values(package, Some(machine).filter(|_| !is_elsewhere)));
    notes
}

/// Whether the host is the machine below a root folder, as far as its name or address shows: no other machine is
/// queried in a plan.
fn is_known_here(host: &str, machine: &Path) -> bool {
    let name = read_text(machine.join("proc/sys/kernel/hostname")).unwrap_or_default();
    host == "localhost" || host == name.trim() || host.parse::<IpAddr>().is_ok_and(is_own_address)
}

/// Scenarios that a closed submission of a benchmark must hold and this package does not.
fn missing_scenarios(package: &MlperfPackage) -> Vec<String> {
    let Some(round) = Round::named(&package.round).filter(|_| package.division == Division::Closed) else {
        return Vec::new();
    };
    let mut packed: BTreeMap<&str, Vec<MlperfScenario>> = BTreeMap::new();
    let entries = package.entries();
    for entry in &entries {
        packed.entry(&entry.benchmark).or_default().extend(MlperfScenario::from_scenario(entry.scenario));
    }
    let mut notes = Vec::new();
    for (name, there) in packed {
        let Some(benchmark) = round.benchmarks.get(name) else { continue };
        let mut lacks: Vec<String> = benchmark
            .required
            .iter()
            .filter(|scenario| !there.contains(scenario))
            .map(|scenario| scenario.title().to_owned())
            .collect();
        if !benchmark.one_of.is_empty() && !benchmark.one_of.iter().any(|scenario| there.contains(scenario)) {
            let titles: Vec<&str> = benchmark.one_of.iter().map(|scenario| scenario.title()).collect();
            lacks.push(titles.join(" or "));
        }
        if !lacks.is_empty() {
            let (round, lacks) = (&round.name, lacks.join(", and "));
            notes.push(format!("a closed submission of {name} in {round} must also contain {lacks}"));
        }
    }
    notes
}

/// Values that stop the packing, after all runs.
fn missing_values(package: &MlperfPackage, machine: Option<&Path>) -> Option<String> {
    let given = GivenDescription {
        division: package.division,
        submitter: &package.submitter,
        system: &package.system,
        system_json: &package.system_json,
        measurements: &package.measurements,
    };
    // The file may not be there yet: a stand-in GPU keeps the fields that it will fill from being listed as missing.
    let gpus: Vec<Accelerator> = package
        .nvidia_smi
        .iter()
        .map(|path| Accelerator { name: path.clone(), memory_mib: 1, driver: String::new() })
        .collect();
    let missing = given.completed(machine, &gpus).missing();
    let names = missing.join(", ");
    (!missing.is_empty())
        .then(|| format!("{} required values of the package are neither given nor detected: {names}", missing.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(loadgen: &str) -> Bench {
        let text = format!(
            "{{ target: 'localhost:1', scenario: server, search: {{ low: 10, high: 80, precision: 0.05 }}, \
             loadgen: {{ library: l, dataset: d, round: v5.1, benchmark: llama2-70b-99.9, {loadgen} }} }}"
        );
        serde_yaml::from_str(&text).unwrap()
    }

    #[test]
    fn the_cost_is_shown_in_tests_and_time() {
        let cost = Cost::estimate(&bench("")).unwrap();
        let text = cost.to_string();
        assert!(text.starts_with("searching from 10 to 80 qps to 5 %: at most 9 short tests of 1 min"), "{text}");
        assert!(
            text.contains(", then a full one of ") && text.contains(" of arrivals at most if they agree"),
            "{text}"
        );
        // At 10 qps a whole data set takes 41 minutes, at 80 it is gone through twice in ten.
        assert!(cost.whole_s.0 >= 600.0 && (2_300.0..2_600.0).contains(&cost.whole_s.1), "{cost:?}");
        assert!(cost.most_s > cost.whole_s.1 + cost.short_s.0 * f64::from(cost.short_tests));
        assert_eq!(Cost::estimate(&Bench { search: None, ..bench("") }), None);
    }

    #[test]
    fn rehearsed_tests_are_short_and_have_enough_queries() {
        let bench = bench("rehearse: true, user_conf: { min_duration: 8000 }");
        let loadgen = bench.loadgen.as_deref().unwrap();
        let (short, whole) = (short(loadgen, 20.0), full_test(loadgen, 20.0));
        assert_eq!((short.target_qps, &short.user_conf["min_duration"]), (Some(20.0), &json!(2000)));
        assert_eq!(
            (&short.user_conf["min_query_count"], &whole.user_conf["min_query_count"]),
            (&json!(700), &json!(700))
        );
        assert_eq!(whole.user_conf["min_duration"], json!(8000));
        assert_eq!(whole.user_conf.get("sample_concatenate_permutation"), None);
    }
}
