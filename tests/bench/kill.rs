//! Kill -9 of the runner at random instants, each followed by a rerun, and everything that must hold then.
//!
//! `cargo bench --bench kill -- --manifest fifty|quickstart --kills 200 --seed 1 --parallel 4 [requests=8 …]`
//!
//! The instants are drawn over the length of a whole run, measured first with as many at once as later, or over the first
//! `--over` seconds, where the short stages are; every fourth time the rerun is killed as well. Exits with 1 if anything did not hold.

#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a program for people, which starts ours")]

#[allow(dead_code, reason = "the tests use the rest")]
#[path = "../it/world.rs"]
mod world;

#[path = "../it/campaign.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod campaign;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use campaign::{Outcome, fifty, instants, kill_and_rerun, quickstart};

struct KillOptions {
    manifest: String,
    kills: usize,
    seed: u64,
    parallel: usize,
    over: Option<f64>,
    settings: Vec<String>,
}

fn parse_options() -> KillOptions {
    let mut options = KillOptions {
        manifest: "fifty".to_owned(),
        kills: 200,
        seed: 1,
        parallel: 2,
        over: None,
        settings: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap_or_else(|| panic!("{word} needs a value"));
        match word.as_str() {
            "--manifest" => options.manifest = value(),
            "--kills" => options.kills = value().parse().expect("a number"),
            "--seed" => options.seed = value().parse().expect("a number"),
            "--parallel" => options.parallel = value().parse().expect("a number"),
            "--over" => options.over = Some(value().parse().expect("a number")),
            // From cargo.
            "--bench" => {}
            setting if setting.contains('=') && !setting.starts_with('-') => options.settings.push(word),
            other => panic!("{other} is unknown"),
        }
    }
    options
}

fn main() -> ExitCode {
    let options = parse_options();
    let subject = match options.manifest.as_str() {
        "fifty" => fifty(),
        "quickstart" => quickstart(&options.settings),
        other => panic!("there is no subject {other}"),
    };
    let begun = Instant::now();
    let at_once = on_threads(options.parallel, options.parallel, |_| subject.undisturbed());
    let seconds = at_once.iter().map(|run| run.seconds).fold(0.0, f64::max);
    let undisturbed = &at_once[0];
    let over = options.over.unwrap_or(seconds);
    println!(
        "{}{}: an undisturbed run takes {seconds:.2} s; {} kills over {over:.2} s, seed {}, {} at once",
        options.manifest,
        options.settings.iter().flat_map(|setting| [" ", setting.as_str()]).collect::<String>(),
        options.kills,
        options.seed,
        options.parallel
    );
    let plan = instants(options.seed, over, options.kills);
    let done = AtomicUsize::new(0);
    let outcomes = on_threads(options.parallel, options.kills, |nth| {
        let outcome = kill_and_rerun(&subject, undisturbed, &plan[nth]);
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        for violation in &outcome.violations {
            println!("kill {nth} at {:?} s, {}: {violation}", plan[nth], outcome.phase);
        }
        if done.is_multiple_of(20) {
            println!("{done} of {}, {:.0} s", options.kills, begun.elapsed().as_secs_f64());
        }
        outcome
    });
    let violations = table(&outcomes, &plan);
    println!("wall time {:.0} s", begun.elapsed().as_secs_f64());
    if violations == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Does `n` things, so many at once; the results in order.
fn on_threads<T: Send>(at_once: usize, n: usize, thing: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= n {
                        return;
                    }
                    let result = thing(nth);
                    results.lock().expect("results").insert(nth, result);
                }
            });
        }
    });
    results.into_inner().expect("results").into_values().collect()
}

fn table(outcomes: &[Outcome], plan: &[Vec<f64>]) -> usize {
    #[derive(Default)]
    struct Row {
        kills: usize,
        good: usize,
        kept: usize,
        rerun: f64,
        invalid: usize,
        violations: usize,
    }
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    for outcome in outcomes {
        // Fifty stages need no fifty rows.
        let phase = match outcome.phase.strip_prefix("during s").and_then(|number| number.parse::<u32>().ok()) {
            Some(stage) => format!("in layer {}", stage / 10),
            None => outcome.phase.clone(),
        };
        for row in [phase, "~ all".to_owned()] {
            let row = rows.entry(row).or_default();
            row.kills += 1;
            row.good += usize::from(outcome.violations.is_empty());
            row.kept += outcome.kept;
            row.rerun += outcome.rerun;
            row.invalid += outcome.invalid;
            row.violations += outcome.violations.len();
        }
    }
    println!(
        "{:<32} {:>6} {:>10} {:>11} {:>13} {:>12} {:>11}",
        "killed", "kills", "reruns ok", "tasks kept", "mean rerun s", "remeasured", "violations"
    );
    for (phase, row) in &rows {
        println!(
            "{:<32} {:>6} {:>10} {:>11.1} {:>13.2} {:>12} {:>11}",
            phase.trim_start_matches("~ "),
            row.kills,
            row.good,
            row.kept as f64 / row.kills as f64,
            row.rerun / row.kills as f64,
            row.invalid,
            row.violations
        );
    }
    println!("the rerun was killed too: {}", plan.iter().filter(|at| at.len() > 1).count());
    rows.get("~ all").map_or(0, |row| row.violations)
}
