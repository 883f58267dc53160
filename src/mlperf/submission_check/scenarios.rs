//! Which benchmarks and scenarios the round has, and which of them must be there together.

use super::finding::GateFindings;
use super::tree::{Benchmarked, Submitter};
use crate::mlperf::layout::scenario_titled;
use crate::mlperf::{Benchmark, MlperfScenario, Round};

/// The round's table of a benchmark; reports an unknown one.
pub(super) fn known<'a>(to: &mut GateFindings, round: &'a Round, found: &Benchmarked) -> Option<&'a Benchmark> {
    if let Some(benchmark) = round.benchmarks.get(&found.name) {
        return Some(benchmark);
    }
    let others: Vec<&str> = Round::NAMES
        .into_iter()
        .filter(|name| Round::named(name).is_some_and(|other| other.benchmarks.contains_key(&found.name)))
        .collect();
    let names = round.benchmarks.keys().map(String::as_str);
    if others.is_empty() {
        let near = crate::diag::did_you_mean(&found.name, names)
            .unwrap_or_else(|| "`regatta` knows the language models only".to_owned());
        let what = format!("{} is no benchmark of {} that is known here", found.name, round.name);
        to.warn("benchmark", &found.folder, what, "nothing of it was checked", near);
    } else {
        let what = format!("{} has no benchmark {}; it was one in {}", round.name, found.name, others.join(", "));
        let fix = format!("take one of {}", names.collect::<Vec<_>>().join(", "));
        to.refuse("benchmark", &found.folder, what, "a round has its own benchmarks", fix);
    }
    None
}

/// The scenarios of one benchmark, by their folders.
pub(super) fn check(to: &mut GateFindings, submitter: &Submitter, found: &Benchmarked, benchmark: &Benchmark) {
    let may: Vec<MlperfScenario> = benchmark.required.iter().chain(&benchmark.one_of).copied().collect();
    let mut there = Vec::new();
    for name in &found.scenarios {
        let at = found.folder.join(name);
        let Some(scenario) = scenario_titled(name) else {
            let title = may.iter().find(|scenario| scenario.title().eq_ignore_ascii_case(name));
            let fix =
                title.map_or_else(|| "take it out".to_owned(), |scenario| format!("call it {}", scenario.title()));
            let why = "scenarios are written Offline, Server, Interactive, letter by letter";
            to.refuse("scenario", &at, format!("{name:?} is no scenario"), why, fix);
            continue;
        };
        there.push(scenario);
        if submitter.division != "open" && !may.contains(&scenario) {
            let what = format!("{name} is no scenario of {}", found.name);
            let why = "a closed result is in one of the benchmark's scenarios";
            to.refuse("scenario", &at, what, why, "take it out, or submit it to Open");
        }
    }
    if submitter.division == "open" {
        return;
    }
    for scenario in benchmark.required.iter().filter(|scenario| !there.contains(scenario)) {
        let what = format!("{} is missing", scenario.title());
        to.refuse(
            "missing scenario",
            &found.folder,
            what,
            "a closed benchmark has all its required scenarios",
            "run it, or submit to Open",
        );
    }
    if !benchmark.one_of.is_empty() && !benchmark.one_of.iter().any(|scenario| there.contains(scenario)) {
        let names: Vec<&str> = benchmark.one_of.iter().map(|scenario| scenario.title()).collect();
        let what = format!("none of {} is there", names.join(", "));
        to.refuse(
            "missing scenario",
            &found.folder,
            what,
            "a closed benchmark has one of them in addition to Offline",
            "run one of them",
        );
    }
}
