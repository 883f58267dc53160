//! Which benchmarks and scenarios the round has, and which of them must be there together.

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::tree::{BenchmarkEntry, Submitter};
use crate::layout::scenario_titled;
use rules::{Benchmark, MlperfScenario, Round};

/// What the folder of a benchmark is to the round.
pub(super) enum BenchmarkFolder<'a> {
    /// The round's name of it, and its table.
    Known(&'a str, &'a Benchmark),
    /// A benchmark of the round that is not examined here, and why.
    LeftOut(&'a str),
    /// None of the round; a finding reports it.
    Unknown,
}

/// Names of folders that the official checker takes for a benchmark's.
const OTHER_NAMES: [(&str, &str); 6] = [
    ("ssd-resnet34", "retinanet"),
    ("mobilenet", "resnet"),
    ("resnet50", "resnet"),
    ("llama3_1-405b", "llama3.1-405b"),
    ("llama3_1-8b", "llama3.1-8b"),
    ("llama3_1-8b-edge", "llama3.1-8b-edge"),
];

/// Parts of names that make the official checker guess, for submissions to Open.
const GUESSED: [(&str, &str); 5] = [
    ("mobilenet", "resnet"),
    ("efficientnet", "resnet"),
    ("resnet50", "resnet"),
    ("bert-99", "bert-99"),
    ("llama3_1-405b", "llama3.1-405b"),
];

/// The benchmark that a folder is of; reports one that the round does not have.
pub(super) fn folder<'a>(
    to: &mut SubmissionFindings,
    submitter: &Submitter,
    round: &'a Round,
    found: &BenchmarkEntry,
) -> BenchmarkFolder<'a> {
    let is_of_round = |name: &str| round.benchmarks.contains_key(name) || round.left_out(name).is_some();
    let listed = |names: &[(&str, &str)], is_it: &dyn Fn(&str) -> bool| {
        names.iter().find(|(known, _)| is_it(known)).map(|(_, name)| (*name).to_owned())
    };
    let name = if is_of_round(&found.name) {
        found.name.clone()
    } else {
        listed(&OTHER_NAMES, &|known| known == found.name)
            .or_else(|| submitter.model_mapping.get(&found.name).cloned())
            .or_else(|| listed(&GUESSED, &|known| found.name.contains(known)))
            .unwrap_or_else(|| found.name.clone())
    };
    if let Some((name, benchmark)) = round.benchmarks.get_key_value(&name) {
        return BenchmarkFolder::Known(name, benchmark);
    }
    if let Some(why) = round.left_out(&name) {
        return BenchmarkFolder::LeftOut(why);
    }
    let others: Vec<&str> = Round::NAMES
        .into_iter()
        .filter(|name| Round::named(name).is_some_and(|other| other.benchmarks.contains_key(&found.name)))
        .collect();
    let names = round.benchmarks.keys().map(String::as_str);
    if others.is_empty() {
        let near = base::diag::did_you_mean(&found.name, names.clone());
        let fix = near.unwrap_or_else(|| format!("take one of {}", names.collect::<Vec<_>>().join(", ")));
        let what = format!("{} is no benchmark of {}", found.name, round.name);
        let why = "nothing below it is judged; in Open, model_mapping.json names the benchmark of a model";
        to.refuse(SubmissionCheck::Benchmark, &found.folder, what, why, fix);
    } else {
        let what = format!("{} has no benchmark {}; it was one in {}", round.name, found.name, others.join(", "));
        let fix = format!("take one of {}", names.collect::<Vec<_>>().join(", "));
        to.refuse(SubmissionCheck::Benchmark, &found.folder, what, "a round has its own benchmarks", fix);
    }
    BenchmarkFolder::Unknown
}

/// The scenarios of one benchmark, by their folders.
pub(super) fn check(to: &mut SubmissionFindings, submitter: &Submitter, found: &BenchmarkEntry, benchmark: &Benchmark) {
    let may: Vec<MlperfScenario> = benchmark.required.iter().chain(&benchmark.one_of).copied().collect();
    let mut there = Vec::new();
    for name in &found.scenarios {
        let at = found.folder.join(name);
        let Some(scenario) = scenario_titled(name) else {
            let why = "scenarios are Offline, Server, Interactive";
            to.refuse(SubmissionCheck::Scenario, &at, format!("{name:?} is no scenario"), why, "take it out");
            continue;
        };
        if scenario.title() != name {
            let fix = format!("call it {}", scenario.title());
            to.review(
                SubmissionCheck::Scenario,
                &at,
                format!("it is called {name:?}"),
                "other scripts distinguish upper and lower case",
                fix,
            );
        }
        there.push(scenario);
        if submitter.division != "open" && !may.contains(&scenario) {
            let what = format!("{name} is no scenario of {}", found.name);
            let why = "a closed result is in one of the benchmark's scenarios";
            to.refuse(SubmissionCheck::Scenario, &at, what, why, "take it out, or submit it to Open");
        }
    }
    if submitter.division == "open" {
        return;
    }
    for scenario in benchmark.required.iter().filter(|scenario| !there.contains(scenario)) {
        let what = format!("{} is missing", scenario.title());
        to.refuse(
            SubmissionCheck::MissingScenario,
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
            SubmissionCheck::MissingScenario,
            &found.folder,
            what,
            "a closed benchmark has one of them in addition to Offline",
            "run one of them",
        );
    }
}
