//! A measurement of power beside a performance run: its files, its samples while the run lasted, and whether they are those
//! that the measurement recorded. Average and energy are by the method of the official checker. Of the Power WG's own checker
//! the rules about results are repeated here: checksums, times, ranging against testing, one session; those about the power
//! meter's messages and the sources of its tools are not.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::power_samples::{PowerAverage, PowerWindow};
use super::power_sessions::{self, REPACK_HINT};
use super::tree::{ResultEntry, files};
use crate::SubmissionLayout;
use base::files::read_text;
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};

const POWER_FILES: [&str; 5] = ["client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"];
const RUN_FILES: [&str; 3] = [SUMMARY_FILE, DETAIL_FILE, SAMPLES];
const RUN_EXTRA: [&str; 1] = [ACCURACY_FILE];
/// Files that no check minds.
const IGNORED: [&str; 3] = ["mlperf_log_trace.json", "results.json", ".gitkeep"];
/// What the power meter measured.
const SAMPLES: &str = "spl.txt";
/// Testing may draw this much less power than ranging, percent.
const BELOW_RANGING: f64 = 5.0;
/// The meter is asked for a sample each second; a longer silence is worth a look.
const GAP_SECONDS: f64 = 10.0;
/// Energy by the mean and by the time between samples agree so well, and so do watts and volts × amperes × power factor.
const TOLERANCE: f64 = 0.05;

/// The power of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPower {
    /// The average while the run lasted.
    pub watts: f64,
    pub joules: f64,
    pub seconds: f64,
    pub samples: u64,
    /// The result for each watt: of tokens per second, tokens per joule.
    pub per_watt: Option<f64>,
}

pub(super) fn check(
    to: &mut SubmissionFindings,
    entry: &ResultEntry,
    performance: Option<&Detail>,
    value: Option<f64>,
) -> Option<MeasuredPower> {
    let above = entry.folder().join("performance");
    if !above.join("power").is_dir() {
        return None;
    }
    exactly(to, &above.join("power"), &POWER_FILES, &[]);
    exactly(to, &above.join("ranging"), &RUN_FILES, &RUN_EXTRA);
    let run = entry.performance();
    exactly(to, &run, &RUN_FILES, &RUN_EXTRA);
    power_sessions::check(to, &above);
    descriptions(to, entry);
    let testing = average(to, &run, performance?, Meter::Measures)?;
    if let Ok(detail) = Detail::of(&above.join("ranging"))
        && let Some(ranging) = average(to, &above.join("ranging"), &detail, Meter::FindsItsRange)
    {
        let below = (1.0 - testing.1.watts / ranging.1.watts) * 100.0;
        if below >= BELOW_RANGING {
            let (testing, ranging) = (testing.1.watts, ranging.1.watts);
            let what = format!("testing draws {testing:.2} W, ranging {ranging:.2} W: {below:.2} % less");
            let why = "the ranges of the meter are those that ranging found; 5 % less at most";
            to.refuse(SubmissionCheck::Power, &run.join(SAMPLES), what, why, "measure both again");
        }
    }
    let (window, average) = testing;
    Some(MeasuredPower {
        watts: average.watts,
        joules: average.joules,
        seconds: window.seconds(),
        samples: average.samples,
        per_watt: value.map(|value| value / average.watts),
    })
}

/// What the meter does while it samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meter {
    Measures,
    /// It has no value while it changes its range, and writes -1.
    FindsItsRange,
}

/// The samples of a run while it lasted. None: there are none, which is reported.
fn average(
    to: &mut SubmissionFindings,
    run: &Path,
    detail: &Detail,
    meter: Meter,
) -> Option<(PowerWindow, PowerAverage)> {
    let at = run.join(SAMPLES);
    let text = read_text(&at).ok()?;
    let why = "power is measured while LoadGen runs";
    let times = detail.text("power_begin").zip(detail.text("power_end"));
    let Some(window) = times.and_then(|(begin, end)| PowerWindow::of(begin, end)) else {
        let what = "the run's log has no power_begin and power_end after it";
        to.refuse(SubmissionCheck::Power, &at, what, why, "pack the logs of the run again");
        return None;
    };
    let average = match PowerAverage::of(&text, window) {
        Ok(average) => average,
        Err(error) => {
            to.refuse(SubmissionCheck::Power, &at, error.to_string(), "every sample is read", REPACK_HINT);
            return None;
        }
    };
    if let Some(impossible) = average.impossible.as_ref().filter(|_| meter == Meter::FindsItsRange) {
        let why =
            "a meter that changes its range has no value; published results have such samples in their ranging run";
        to.review(SubmissionCheck::Power, &at, impossible.clone(), why, "measure again, if it is none of these");
    }
    if let Some(impossible) = average.impossible.as_ref().filter(|_| meter == Meter::Measures) {
        let why = "no system draws less than nothing, or an unknown power";
        to.refuse(SubmissionCheck::Power, &at, impossible.clone(), why, "measure again");
    }
    if average.samples == 0 {
        let what = "it has no sample between the run's power_begin and power_end";
        to.refuse(SubmissionCheck::Power, &at, what, why, "pack the spl.txt of the run");
        return None;
    }
    if average.left_out > 0 && average.impossible.is_none() {
        let what = format!("{} of its samples in the run are 0 W", average.left_out);
        let why = "the average leaves them out: a meter that lost its reading";
        to.review(SubmissionCheck::Power, &at, what, why, "measure again");
    }
    if average.longest_gap > GAP_SECONDS {
        let what = format!("it has no sample for {:.0} s of the run", average.longest_gap);
        to.review(SubmissionCheck::Power, &at, what, "the meter takes one each second", "measure again");
    }
    if (average.integrated_joules / average.joules - 1.0).abs() > TOLERANCE {
        let (mean, each) = (average.joules, average.integrated_joules);
        let what = format!("energy is {mean:.0} J by the mean, and {each:.0} J by the time between samples");
        let why = "samples are evenly spread over the run, or their mean is not its power";
        to.review(SubmissionCheck::Power, &at, what, why, "measure again");
    }
    if average.product_deviation > TOLERANCE {
        let what = format!(
            "watts differ by up to {:.0} % from volts × amperes × power factor",
            average.product_deviation * 100.0
        );
        to.review(SubmissionCheck::Power, &at, what, "the meter computes one from the others", "measure again");
    }
    Some((window, average))
}

/// Until v5.1 the meter and its settings are described beside user.conf.
fn descriptions(to: &mut SubmissionFindings, entry: &ResultEntry) {
    if entry.layout != SubmissionLayout::Split {
        return;
    }
    let folder = entry.measurements();
    let there = files(&folder);
    for name in ["analyzer_table", "power_settings"] {
        if !there.iter().any(|file| file.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))) {
            let why = "the meter and its settings are described";
            to.refuse(SubmissionCheck::Power, &folder.join(format!("{name}.md")), "it is missing", why, "write it");
        }
    }
}

/// Refuses a folder that lacks one of the files, or has another one.
fn exactly(to: &mut SubmissionFindings, folder: &Path, needed: &[&str], allowed: &[&str]) {
    let there = files(folder);
    let why = "a result with power has exactly these files";
    for name in needed.iter().filter(|name| !there.iter().any(|file| file == *name)) {
        to.refuse(SubmissionCheck::Power, &folder.join(name), "it is missing", why, REPACK_HINT);
    }
    let is_known = |name: &str| [needed, allowed, &IGNORED].iter().any(|names| names.contains(&name));
    for name in there.iter().filter(|name| !is_known(name)) {
        to.refuse(
            SubmissionCheck::Power,
            &folder.join(name),
            "it is no file of a power measurement",
            why,
            "take it out",
        );
    }
}
