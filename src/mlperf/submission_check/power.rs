//! A measurement of power beside a performance run: its files, its samples while the run lasted, and whether they are
//! those that the measurement recorded. Average and energy are by the method of the official checker. Of the Power WG's
//! own checker the rules about results are repeated here: checksums, times, ranging against testing, one session with
//! the same sources on client and server, the meter's own average and uncertainty. Not repeated are its rules about the
//! commands to the meter, its daemon's log, the kind of meter and accepted versions of the sources.

use std::path::{Path, PathBuf};

use jiff::civil::DateTime;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha1::{Digest as _, Sha1};

use super::checks::{REPACK_POWER, Refused, Review, SubmissionCheck, SubmissionFindings, finding, findings};
use super::loadgen;
use super::tree::{ResultEntry, exactly, files};
use crate::SubmissionLayout;
use base::diag::ErrorText;
use base::files::{read_bytes, read_document, read_text};
use rules::log::{ACCURACY_FILE, DETAIL_FILE, Detail, SUMMARY_FILE};

const POWER_FILES: [&str; 5] = ["client.json", "client.log", "ptd_logs.txt", "server.json", "server.log"];
/// The texts about the meter and its settings; they may have any ending.
const DESCRIPTIONS: [&str; 2] = ["analyzer_table", "power_settings"];
/// What a result with power has below `performance/`, beside the logs of its run.
pub const POWER_PATHS: &str = "\
    power/client.json power/client.log power/ptd_logs.txt power/server.json power/server.log \
    ranging/mlperf_log_detail.txt ranging/mlperf_log_summary.txt ranging/spl.txt run_1/spl.txt";
const RUN_FILES: [&str; 3] = [SUMMARY_FILE, DETAIL_FILE, SAMPLES];
const RUN_EXTRA: [&str; 1] = [ACCURACY_FILE];
/// What the power meter measured.
const SAMPLES: &str = "spl.txt";
/// Testing may draw this much less power than ranging, percent.
const BELOW_RANGING: f64 = 5.0;
/// The meter is asked for a sample each second; a longer silence is worth a look.
const GAP_SECONDS: f64 = 10.0;
/// The meter's uncertainty in a result, at most; in published ones it is 0.6 % and less.
const MOST_UNCERTAIN: f64 = 0.01;
/// Samples and seconds agree so well, and so do watts and volts × amperes × power factor.
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
    check_sessions(to, &above);
    descriptions(to, entry);
    let PowerAverage { watts, joules, seconds, samples, .. } = average(to, &run, performance?, Meter::Measures)?;
    if let Some(detail) = loadgen::other_run(to, &above.join("ranging"), entry, performance)
        && let Some(ranging) = average(to, &above.join("ranging"), &detail, Meter::FindsItsRange)
    {
        let below = (1.0 - watts / ranging.watts) * 100.0;
        findings! { to;
            Refused, Power, &run.join(SAMPLES),
                (below >= BELOW_RANGING).then(|| {
                    format!("testing draws {watts:.2} W, ranging {:.2} W: {below:.2} % less", ranging.watts)
                }),
                "the ranges of the meter are those that ranging found; 5 % less at most", "measure both again";
        }
    }
    Some(MeasuredPower { watts, joules, seconds, samples, per_watt: value.map(|value| value / watts) })
}

/// What the meter does while it samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meter {
    Measures,
    /// It has no value while it changes its range, and writes -1.
    FindsItsRange,
}

/// The power while the run lasted. `None`: the log has no samples of that time, which is reported.
fn average(to: &mut SubmissionFindings, run: &Path, detail: &Detail, meter: Meter) -> Option<PowerAverage> {
    let at = run.join(SAMPLES);
    let text = read_text(&at).ok()?;
    let rule = "power is measured while LoadGen runs";
    let Some(window) = PowerWindow::of_run(detail) else {
        finding!(to; Refused, Power, &at, "the run's log has no power_begin and power_end after it",
            rule, "pack the logs of the run again");
        return None;
    };
    let average = PowerAverage::parse(&text, window).map_err(|error| {
        finding!(to; Refused, Power, &at, error.message, "every sample is read", REPACK_POWER);
    });
    let average = average.ok()?;
    let (is_there, impossible) = (average.samples > 0, &average.impossible);
    findings! { to;
        Review, Power, &at, impossible.clone().filter(|_| meter == Meter::FindsItsRange),
            "a meter that changes its range has no value; published results have such samples in their ranging run",
            "otherwise measure again";
        Refused, Power, &at, impossible.clone().filter(|_| meter == Meter::Measures),
            "no system draws less than nothing, or an unknown power", "measure again";
        Refused, Power, &at, (!is_there).then_some("it has no sample between the run's power_begin and power_end"),
            rule, "pack the spl.txt of the run";
        Review, Power, &at,
            (is_there && average.left_out > 0 && impossible.is_none())
                .then(|| format!("{} of its samples in the run are 0 W", average.left_out)),
            "the average leaves them out: a meter that lost its reading", "measure again";
        Review, Power, &at,
            (is_there && average.longest_gap > GAP_SECONDS)
                .then(|| format!("it has no sample for {:.0} s of the run", average.longest_gap)),
            "the meter takes one each second", "measure again";
        Review, Power, &at,
            (is_there && (average.samples as f64 / average.seconds - 1.0).abs() > TOLERANCE).then(|| {
                format!("it has {} samples of a run of {:.0} s", average.samples, average.seconds)
            }),
            "the meter takes one each second, and their mean is the power", "measure again";
        Review, Power, &at,
            (is_there && average.product_deviation > TOLERANCE).then(|| {
                let share = average.product_deviation * 100.0;
                format!("watts differ by up to {share:.0} % from volts × amperes × power factor")
            }),
            "the meter computes one from the others", "measure again";
    }
    is_there.then_some(average)
}

/// Until v5.1 the meter and its settings are described beside user.conf, or in a folder above.
fn descriptions(to: &mut SubmissionFindings, entry: &ResultEntry) {
    if entry.layout != SubmissionLayout::Split {
        return;
    }
    // The official checker looks in the scenario's folder and in the three above it.
    let folder = entry.measurements();
    let below = |folder: &Path| files(folder).into_iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    let there: Vec<PathBuf> = folder.ancestors().take(4).flat_map(below).collect();
    let rule = "the meter and its settings are described, for a scenario, a benchmark, a system or a submitter";
    for name in DESCRIPTIONS {
        let begins = format!("{name}.");
        let file = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let described = there.iter().find(|path| file(path).starts_with(&begins));
        let is_empty = |path: &&PathBuf| std::fs::metadata(path).is_ok_and(|meta| meta.len() == 0);
        findings! { to;
            Refused, Power, &folder.join(format!("{name}.md")), described.is_none().then_some("it is missing"),
                rule, "write it";
            Review, EmptyFile, described.unwrap_or(&folder), described.filter(is_empty).map(|_| "it is empty"),
                rule, "write it";
        }
    }
}

/// Whether a file has one of these names.
pub(crate) fn describes_power(file: &str) -> bool {
    file.split_once('.').is_some_and(|(name, _)| DESCRIPTIONS.contains(&name))
}

// client.json and server.json of a power measurement: both are of one session, and record what was measured when.

/// What each of the two has.
const FIELDS: [&str; 9] =
    ["version", "timezone", "modules", "sources", "messages", "uuid", "session_name", "results", "phases"];
/// Client and server see a phase begin at the same time, within this many seconds.
const SAME_TIME: f64 = 0.8;
/// Times of LoadGen's log may be those of summer time.
const SUMMER_TIME: f64 = 3600.0;
const SAME: &str = "client and server must come from one measurement";

/// The two files below `performance/`, where both are there.
pub(super) fn check_sessions(to: &mut SubmissionFindings, above: &Path) {
    let mut sessions = Vec::new();
    for name in ["client.json", "server.json"] {
        let at = above.join("power").join(name);
        let Ok(text) = read_document(&at) else { continue };
        let fields = serde_json::from_str::<Map<String, Value>>(&text).unwrap_or_default();
        let missing: Vec<&str> = FIELDS.into_iter().filter(|field| !fields.contains_key(*field)).collect();
        if !missing.is_empty() {
            return finding!(to; Refused, Power, &at, format!("these are missing in it: {}", missing.join(", ")),
                "client and server record what they measured", REPACK_POWER);
        }
        sessions.push(fields);
    }
    let [client, server] = &sessions[..] else { return };
    results(to, above, client, server);
    let at = above.join("power/server.json");
    meter(to, above, &at, server);
    let messages = [client, server].map(|session| {
        let messages = session["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        // Before the last of these, the client may have found the two clocks apart.
        let sets_clock = |message: &Value| message["cmd"].as_str().is_some_and(|cmd| cmd.contains("set_ntp"));
        let synchronized = &messages[messages.iter().rposition(sets_clock).map_or(0, |at| at + 1)..];
        synchronized.iter().flat_map(|message| [number(&message["cmd_time"]), number(&message["reply_time"])]).collect()
    });
    let [of_client, of_server]: &[Vec<f64>; 2] = &messages;
    same_times(to, &at, "`messages`", [of_client, of_server]);
    let is_other =
        |name: &str, a: &Value, b: &Value| (a != b).then(|| format!("the {name} is {b}, and {a} in client.json"));
    findings! { to;
        Refused, Power, &at, is_other("session_name", &client["session_name"], &server["session_name"]),
            SAME, REPACK_POWER;
        Refused, Power, &at, is_other("uuid of the client", &client["uuid"]["client"], &server["uuid"]["client"]),
            SAME, REPACK_POWER;
        Refused, Power, &at, is_other("uuid of the server", &client["uuid"]["server"], &server["uuid"]["server"]),
            SAME, REPACK_POWER;
        Refused, Power, &at,
            (client["sources"] != server["sources"]).then_some("`sources` differs from that of client.json"),
            "client and server log the SHA-1 of each source file, and both run the same revision", REPACK_POWER;
        Refused, Power, &at, server.get("debug").filter(|debug| **debug != Value::Bool(false)).map(|_| "`debug` is on"),
            "the server measures without it", "measure again";
    }
    for (mode, run) in [("ranging", "ranging"), ("testing", "run_1")] {
        phases(to, above, mode, run, [&client["phases"][mode], &server["phases"][mode]]);
    }
}

/// NaN, which equals nothing, unless it is a number.
fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// What the meter replied, against its samples. Each published one is the mean of its `spl.txt`, to the last digit.
fn meter(to: &mut SubmissionFindings, above: &Path, at: &Path, server: &Map<String, Value>) {
    let replies = server.get("ptd_messages").and_then(Value::as_array).into_iter().flatten();
    let replies: Vec<&str> = replies.filter_map(|message| message["reply"].as_str()).collect();
    let numbers = |name: &str| -> Vec<f64> {
        let values = replies.iter().filter_map(|reply| reply.strip_prefix(name)?.split(',').next());
        values.map(|value| value.parse().unwrap_or(f64::NAN)).collect()
    };
    let (watts, uncertain) = (numbers("Watts,"), numbers("Uncertainty,").pop());
    // A second meter has its own replies.
    let devices = server.get("ptd_config").and_then(Value::as_array).map_or(1, Vec::len);
    for (run, replied) in [("ranging", watts.first()), ("run_1", watts.last())] {
        let text = read_text(above.join(run).join(SAMPLES)).unwrap_or_default();
        let average = PowerAverage::parse(&text, PowerWindow::ALWAYS).ok().filter(|average| average.samples > 0);
        let apart =
            replied.zip(average).filter(|(replied, average)| !(0.999..=1.001).contains(&(average.watts / **replied)));
        findings! { to;
            Review, Power, at,
                apart.filter(|_| devices == 1).map(|(replied, PowerAverage { watts, .. })| {
                    format!("the meter's average of {run} is {replied:.2} W, that of its samples {watts:.2} W")
                }),
                "the meter averages the samples that it logs", REPACK_POWER;
        }
    }
    let device = server.get("ptd_config").map(|config| config.get(0).unwrap_or(config));
    let kind = device.and_then(|device| Some((device["device_type"].as_u64()?, device["command"].as_array()?)));
    findings! { to;
        Review, Power, at,
            (watts.is_empty() || uncertain.is_none()).then_some("`ptd_messages` lacks `Watts,…` or `Uncertainty,…`"),
            "the meter replies what it measured", REPACK_POWER;
        Review, Power, at,
            uncertain.filter(|share| !(0.0..=MOST_UNCERTAIN).contains(share))
                .map(|share| format!("the meter's uncertainty is {:.2} %", share * 100.0)),
            "it is at most 1 %", "measure with ranges that fit, or with another meter";
        Review, Power, at,
            kind.filter(|(kind, command)| !command.contains(&Value::from(kind.to_string())))
                .map(|(kind, _)| format!("`device_type` is {kind}, and the meter's daemon was started for another")),
            "both are of the meter that measured", REPACK_POWER;
    }
}

/// Client and server record the same events, at the same times. False: another number of them.
fn same_times(to: &mut SubmissionFindings, at: &Path, name: &str, [client, server]: [&[f64]; 2]) -> bool {
    let (is_as_many, [to_server, to_client]) = (client.len() == server.len(), [server.len(), client.len()]);
    let apart = client.iter().zip(server).map(|(a, b)| (a - b).abs()).max_by(f64::total_cmp).unwrap_or_default();
    let other = if is_as_many {
        (!(0.0..=SAME_TIME).contains(&apart))
            .then(|| format!("times of {name} are up to {apart:.1} s apart in it and in client.json"))
    } else {
        Some(format!("it has {to_server} times of {name}, and client.json has {to_client}"))
    };
    findings! { to; Refused, Power, at, other, SAME, REPACK_POWER; }
    is_as_many
}

/// The SHA-1 of each file.
fn results(to: &mut SubmissionFindings, above: &Path, client: &Map<String, Value>, server: &Map<String, Value>) {
    let rule = "the sessions of the measurement record the SHA-1 of each of its files";
    let logs = ["run_1/mlperf_log_detail.txt", "run_1/mlperf_log_summary.txt"];
    let is_json = |name: &&str| Path::new(name).extension() == Some("json".as_ref());
    for name in POWER_PATHS.split(' ').chain(logs).filter(|name| !is_json(name)) {
        let at = above.join(name);
        let Ok(bytes) = read_bytes(&at) else { continue };
        let is = format!("{:x}", Sha1::digest(&bytes));
        let recorded = [&client["results"][name], &server["results"][name]].map(Value::as_str);
        let finding = match recorded {
            [None, None] => "neither client.json nor server.json records it",
            [client, server] if [client, server].into_iter().flatten().any(|should| should != is) => {
                "it is not the file that client.json and server.json record"
            }
            _ => continue,
        };
        finding!(to; Refused, Power, &at, finding, rule, REPACK_POWER);
    }
}

/// When the phases of a mode began, which are four: before, during and after the run, and the end.
fn phases(to: &mut SubmissionFindings, above: &Path, mode: &str, run: &str, [client, server]: [&Value; 2]) {
    let at = above.join("power/server.json");
    let [client, server]: [Vec<f64>; 2] =
        [client, server].map(|phases| phases.as_array().into_iter().flatten().map(|phase| number(&phase[0])).collect());
    if !same_times(to, &at, &format!("the phases of {mode}"), [&client, &server]) {
        return;
    }
    let window = Detail::read_folder(&above.join(run)).ok().and_then(|detail| PowerWindow::of_run(&detail));
    let (Some(PowerWindow { begin, end }), [_, from, until, ..]) = (window, &client[..]) else { return };
    let is_within = |time: f64| [0.0, SUMMER_TIME].iter().any(|off| (*from..*until).contains(&(time - off)));
    if !is_within(begin) || !is_within(end) {
        finding!(to; Refused, Power, &at,
            format!("the run in {run}/ is not within the phase of {mode} that it belongs to"),
            "power is measured while LoadGen runs", REPACK_POWER);
    }
}

// Samples of a power meter (`spl.txt`), and their average over the time of a run by the method of the official checker.

/// How LoadGen and the power meter's log write a time.
const TIME: &str = "%m-%d-%Y %H:%M:%S%.f";

/// Between which times of its log a run is measured: seconds since 1970, as if they were of UTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PowerWindow {
    begin: f64,
    end: f64,
}

impl PowerWindow {
    /// Of a whole file.
    const ALWAYS: Self = Self { begin: f64::NEG_INFINITY, end: f64::INFINITY };

    /// `None`: one of the texts is not a time.
    fn parse(begin: &str, end: &str) -> Option<Self> {
        let window = Self { begin: time(begin)?, end: time(end)? };
        (window.begin < window.end).then_some(window)
    }

    fn of_run(detail: &Detail) -> Option<Self> {
        Self::parse(detail.text("power_begin")?, detail.text("power_end")?)
    }
}

/// One line `Time,<when>,Watts,<watts>,Volts,<volts>,Amps,<amps>,PF,<power factor>,Mark,<mark>`. A meter of several
/// channels sums their watts, and adds `Ch1,Watts,<watts>,Volts,<volts>,Amps,<amps>,PF,<power factor>,Ch2,…`: its volts
/// and amperes are means.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PowerSample {
    at: f64,
    watts: f64,
    /// Volts × amperes × power factor, where the line has them all.
    product: Option<f64>,
}

/// What the samples within a window are worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PowerAverage {
    /// Samples that count: above 0 W.
    pub samples: u64,
    /// Samples within the window that the average leaves out.
    pub left_out: u64,
    /// The first value that no meter can measure.
    pub impossible: Option<String>,
    /// The mean of the samples that count.
    pub watts: f64,
    /// Of the window.
    pub seconds: f64,
    /// Mean × window, as the official checker computes energy.
    pub joules: f64,
    /// The longest time within the window without a sample.
    pub longest_gap: f64,
    /// The largest deviation of watts from volts × amperes × power factor, as a share.
    pub product_deviation: f64,
}

impl PowerAverage {
    /// Of a whole spl.txt. Err: a line that the official checker cannot read.
    pub(super) fn parse(text: &str, window: PowerWindow) -> Result<Self, ErrorText> {
        // To the microsecond: seconds since 1970 are no more exact.
        let seconds = ((window.end - window.begin) * 1e6).round() / 1e6;
        let mut average = Self { seconds, ..Self::default() };
        let mut sum = 0.0;
        let mut last = None;
        for (index, line) in text.lines().enumerate() {
            if !line.starts_with("Time") {
                continue;
            }
            let sample = PowerSample::parse(line)
                .map_err(|fault| ErrorText::new(format_args!("line {}: {fault}", index + 1)))?;
            if !(window.begin < sample.at && sample.at < window.end) {
                continue;
            }
            if !sample.watts.is_finite() || sample.watts < 0.0 {
                average.impossible.get_or_insert(format!("line {}: {} W", index + 1, sample.watts));
            }
            average.longest_gap = average.longest_gap.max(sample.at - last.unwrap_or(window.begin));
            last = Some(sample.at);
            if sample.watts > 0.0 {
                average.samples += 1;
                sum += sample.watts;
                if let Some(product) = sample.product {
                    let deviation = (product / sample.watts - 1.0).abs();
                    average.product_deviation = average.product_deviation.max(deviation);
                }
            } else {
                average.left_out += 1;
            }
        }
        average.longest_gap = average.longest_gap.max(window.end - last.unwrap_or(window.end));
        if average.samples > 0 {
            average.watts = sum / average.samples as f64;
            average.joules = average.watts * average.seconds;
        }
        Ok(average)
    }
}

impl PowerSample {
    fn parse(line: &str) -> Result<Self, ErrorText> {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let field = |index: usize| fields.get(index).copied().unwrap_or_default();
        let number = |index: usize| field(index).parse::<f64>().ok();
        let at = time(field(1))
            .ok_or_else(|| ErrorText::new(format_args!("`{}` is not a time, MM-DD-YYYY HH:MM:SS.fff", field(1))))?;
        if field(2) != "Watts" {
            return Err(ErrorText::new(format_args!("`{}` is where `Watts` is due", field(2))));
        }
        let watts = number(3).ok_or_else(|| ErrorText::new(format_args!("`{}` is not a number of watts", field(3))))?;
        // Where the names `Watts` are: of the line, or of its channels.
        let names = if fields.get(12) == Some(&"Ch1") { (13..fields.len()).step_by(9).collect() } else { vec![2] };
        let product = |name: usize| match (number(name + 3), number(name + 5), number(name + 7)) {
            (Some(volts), Some(amps), Some(factor)) if volts > 0.0 && amps > 0.0 && factor > 0.0 => {
                Some(volts * amps * factor)
            }
            _ => None,
        };
        let product = names.into_iter().map(product).sum();
        Ok(Self { at, watts, product })
    }
}

fn time(text: &str) -> Option<f64> {
    let time = DateTime::strptime(TIME, text.trim()).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_duration().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{PowerAverage, PowerWindow};

    fn window() -> PowerWindow {
        PowerWindow::parse("08-24-2023 10:15:00.000", "08-24-2023 10:15:04.000").unwrap()
    }

    /// Samples as PTDaemon writes them, with a line that is not a sample.
    const TEXT: &str = "Time,08-24-2023 10:14:59.500,Watts,9.0,Volts,228.5,Amps,0.05,PF,0.78,Mark,idle\n\
        Starting untimed measurement\n\
        Time,08-24-2023 10:15:00.500,Watts,22.9,Volts,228.57,Amps,0.1279,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:01.500,Watts,23.1,Volts,228.57,Amps,0.1290,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:02.500,Watts,0,Volts,228.57,Amps,0.0,PF,0.0,Mark,x_testing\n\
        Time,08-24-2023 10:15:03.500,Watts,23.0,Volts,228.57,Amps,0.1285,PF,0.7808,Mark,x_testing\n\
        Time,08-24-2023 10:15:04.000,Watts,50.0,Volts,228.57,Amps,0.2,PF,0.78,Mark,x_testing\n";

    #[test]
    fn the_average_is_of_positive_samples_strictly_within_the_window() {
        let average = PowerAverage::parse(TEXT, window()).unwrap();
        assert_eq!((average.samples, average.left_out), (3, 1));
        assert!((average.watts - 23.0).abs() < 1e-9, "{average:?}");
        assert!((average.joules - 92.0).abs() < 1e-9, "{average:?}");
        assert!((average.longest_gap - 1.0).abs() < 1e-9 && average.product_deviation < 0.01, "{average:?}");
    }

    /// Of a published result for v5.1.
    #[test]
    fn the_products_of_channels_are_summed() {
        let line = "Time,08-24-2023 \
            10:15:00.507,Watts,2884.000000,Volts,211.026667,Amps,4.640333,PF,0.982045,Mark,a_testing,\
            Ch1,Watts,976.000000,Volts,210.390000,Amps,4.715000,PF,0.984200,\
            Ch2,Watts,956.000000,Volts,211.370000,Amps,4.613000,PF,0.980900,\
            Ch3,Watts,952.000000,Volts,211.320000,Amps,4.593000,PF,0.981100\n";
        let average = PowerAverage::parse(line, window()).unwrap();
        assert!(average.product_deviation < 0.001, "{average:?}");
        let average = PowerAverage::parse(&line.replace("Watts,2884", "Watts,1884"), window()).unwrap();
        assert!(average.product_deviation > 0.5, "{average:?}");
    }

    #[test]
    fn a_line_that_cannot_be_read_is_named() {
        let parse_error = |line: &str| PowerAverage::parse(&format!("{TEXT}{line}\n"), window()).unwrap_err().message;
        assert_eq!(parse_error("Time,08-24-2023 10:15:03.600,Watts,none"), "line 8: `none` is not a number of watts");
        assert_eq!(parse_error("Time,08-24-2023 10:15:03.600"), "line 8: `` is where `Watts` is due");
        assert_eq!(parse_error("Time,08-24-2023 10:15:03.600,Volts,230.0"), "line 8: `Volts` is where `Watts` is due");
        assert_eq!(parse_error("Time,08-24-2023 10:15:03.600,Watts"), "line 8: `` is not a number of watts");
        assert_eq!(
            parse_error("Time,yesterday,Watts,1.0"),
            "line 8: `yesterday` is not a time, MM-DD-YYYY HH:MM:SS.fff"
        );
    }

    #[test]
    fn no_meter_measures_less_than_nothing() {
        for watts in ["-1.5", "nan", "inf"] {
            let text = format!("{TEXT}Time,08-24-2023 10:15:03.600,Watts,{watts}\n");
            assert!(
                PowerAverage::parse(&text, window()).unwrap().impossible.unwrap().starts_with("line 8: "),
                "{watts}"
            );
        }
        assert_eq!(PowerAverage::parse(TEXT, window()).unwrap().impossible, None);
    }

    #[test]
    fn a_window_that_ends_before_it_begins_is_none() {
        assert_eq!(PowerWindow::parse("08-24-2023 10:15:04.000", "08-24-2023 10:15:00.000"), None);
    }
}
