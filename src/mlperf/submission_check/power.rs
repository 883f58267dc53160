//! A measurement of power beside a performance run: its files, and samples while the run lasted. What the Power WG's own
//! checker computes from the logs of the power meter is not repeated here.

use std::path::Path;

use super::finding::GateFindings;
use super::gate_check::GateCheck;
use super::tree::{ResultEntry, files};
use crate::mlperf::log::{DETAIL_FILE, Detail, SUMMARY_FILE};

const POWER_FILES: [&str; 5] = ["client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"];
const RUN_FILES: [&str; 3] = [SUMMARY_FILE, DETAIL_FILE, SAMPLES];
const RUN_EXTRA: [&str; 1] = ["mlperf_log_accuracy.json"];
/// Files that no check minds.
const IGNORED: [&str; 3] = ["mlperf_log_trace.json", "results.json", ".gitkeep"];
/// What the power meter measured.
const SAMPLES: &str = "spl.txt";

pub(super) fn check(to: &mut GateFindings, entry: &ResultEntry, performance: Option<&Detail>) {
    let above = entry.folder().join("performance");
    if !above.join("power").is_dir() {
        return;
    }
    exactly(to, &above.join("power"), &POWER_FILES, &[]);
    exactly(to, &above.join("ranging"), &RUN_FILES, &RUN_EXTRA);
    let run = entry.performance();
    exactly(to, &run, &RUN_FILES, &RUN_EXTRA);
    let Some(detail) = performance else { return };
    let at = run.join(SAMPLES);
    let Ok(text) = std::fs::read_to_string(&at) else { return };
    let time = |key: &str| detail.text(key).and_then(sortable);
    let (Some(begin), Some(end)) = (time("power_begin"), time("power_end")) else {
        let what = "the run's log has no power_begin and power_end";
        to.refuse(
            GateCheck::Power,
            &at,
            what,
            "power is measured while LoadGen runs",
            "pack the logs of the run again",
        );
        return;
    };
    if !text.lines().filter_map(sample).any(|(when, watts)| watts > 0.0 && begin < when && when < end) {
        let what = "it has no sample between the run's power_begin and power_end";
        to.refuse(GateCheck::Power, &at, what, "power is measured while LoadGen runs", "pack the spl.txt of the run");
    }
}

/// Refuses a folder that lacks one of the files, or has another one.
fn exactly(to: &mut GateFindings, folder: &Path, needed: &[&str], allowed: &[&str]) {
    let there = files(folder);
    let why = "a result with power has exactly these files";
    for name in needed.iter().filter(|name| !there.iter().any(|file| file == *name)) {
        let fix = "pack the output of the power measurement again";
        to.refuse(GateCheck::Power, &folder.join(name), "it is missing", why, fix);
    }
    let is_known = |name: &str| [needed, allowed, &IGNORED].iter().any(|names| names.contains(&name));
    for name in there.iter().filter(|name| !is_known(name)) {
        to.refuse(GateCheck::Power, &folder.join(name), "it is no file of a power measurement", why, "take it out");
    }
}

/// A line `Time,<when>,Watts,<watts>,…`.
fn sample(line: &str) -> Option<(String, f64)> {
    let mut parts = line.strip_prefix("Time,")?.split(',');
    let when = sortable(parts.next()?)?;
    let watts = parts.nth(1)?.trim().parse().ok()?;
    Some((when, watts))
}

/// `MM-DD-YYYY HH:MM:SS.f` as a text that sorts by time.
fn sortable(when: &str) -> Option<String> {
    let (date, time) = when.trim().split_once(' ')?;
    let mut parts = date.split('-');
    let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
    Some(format!("{year}-{month}-{day} {time}"))
}
