//! client.json and server.json of a power measurement: both are of one session, and record what was measured when.

use std::path::Path;

use serde_json::{Map, Value};
use sha1::{Digest as _, Sha1};

use super::checks::SubmissionCheck;
use super::finding::SubmissionFindings;
use super::power_samples::PowerWindow;
use base::files::read_bytes;
use rules::log::Detail;

/// What each of the two has.
const FIELDS: [&str; 9] =
    ["version", "timezone", "modules", "sources", "messages", "uuid", "session_name", "results", "phases"];
/// Files whose SHA-1 the sessions record.
const RECORDED: [&str; 9] = [
    "power/client.log",
    "power/ptd_logs.txt",
    "power/server.log",
    "ranging/mlperf_log_detail.txt",
    "ranging/mlperf_log_summary.txt",
    "ranging/spl.txt",
    "run_1/mlperf_log_detail.txt",
    "run_1/mlperf_log_summary.txt",
    "run_1/spl.txt",
];
/// Client and server see a phase begin at the same time, within this many seconds.
const SAME_TIME: f64 = 0.8;
/// Times of LoadGen's log may be those of summer time.
const SUMMER_TIME: f64 = 3600.0;
const SAME: &str = "client and server are of one measurement";
pub(super) const REPACK_HINT: &str = "pack the output of the power measurement again";

/// The two files below `performance/`, where both are there.
pub(super) fn check(to: &mut SubmissionFindings, above: &Path) {
    let mut sessions = Vec::new();
    for name in ["client.json", "server.json"] {
        let at = above.join("power").join(name);
        let Ok(bytes) = read_bytes(&at) else { continue };
        let fields = serde_json::from_slice::<Map<String, Value>>(&bytes).unwrap_or_default();
        let missing: Vec<&str> = FIELDS.into_iter().filter(|field| !fields.contains_key(*field)).collect();
        if !missing.is_empty() {
            let what = format!("these are missing in it: {}", missing.join(", "));
            return to.refuse(
                SubmissionCheck::Power,
                &at,
                what,
                "client and server record what they measured",
                REPACK_HINT,
            );
        }
        sessions.push(fields);
    }
    let [client, server] = &sessions[..] else { return };
    results(to, above, client, server);
    let at = above.join("power/server.json");
    for (of, a, b) in [
        ("session_name", &client["session_name"], &server["session_name"]),
        ("uuid of the client", &client["uuid"]["client"], &server["uuid"]["client"]),
        ("uuid of the server", &client["uuid"]["server"], &server["uuid"]["server"]),
    ] {
        if a != b {
            to.refuse(
                SubmissionCheck::Power,
                &at,
                format!("the {of} is {b}, and {a} in client.json"),
                SAME,
                REPACK_HINT,
            );
        }
    }
    if server.get("debug").is_some_and(|debug| *debug != Value::Bool(false)) {
        to.refuse(SubmissionCheck::Power, &at, "`debug` is on", "the server measures without it", "measure again");
    }
    for (mode, run) in [("ranging", "ranging"), ("testing", "run_1")] {
        phases(to, above, mode, run, [&client["phases"][mode], &server["phases"][mode]]);
    }
}

/// The SHA-1 of each file.
fn results(to: &mut SubmissionFindings, above: &Path, client: &Map<String, Value>, server: &Map<String, Value>) {
    let why = "the sessions of the measurement record the SHA-1 of each of its files";
    for name in RECORDED {
        let at = above.join(name);
        let Ok(bytes) = read_bytes(&at) else { continue };
        let is = format!("{:x}", Sha1::digest(&bytes));
        let recorded = [&client["results"][name], &server["results"][name]].map(Value::as_str);
        let what = match recorded {
            [None, None] => "neither client.json nor server.json records it",
            [client, server] if [client, server].into_iter().flatten().any(|should| should != is) => {
                "it is not the file that client.json and server.json record"
            }
            _ => continue,
        };
        to.refuse(SubmissionCheck::Power, &at, what, why, REPACK_HINT);
    }
}

/// When the phases of a mode began, which are four: before, during and after the run, and the end.
fn phases(to: &mut SubmissionFindings, above: &Path, mode: &str, run: &str, [client, server]: [&Value; 2]) {
    let at = above.join("power/server.json");
    let begins = |phases: &Value| -> Vec<f64> {
        phases.as_array().into_iter().flatten().filter_map(|phase| phase[0].as_f64()).collect()
    };
    let (client, server) = (begins(client), begins(server));
    if client.len() != server.len() {
        let what = format!("{mode} has {} phases, and {} in client.json", server.len(), client.len());
        return to.refuse(SubmissionCheck::Power, &at, what, SAME, REPACK_HINT);
    }
    let apart = client.iter().zip(&server).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    if apart > SAME_TIME {
        let what = format!("phases of {mode} begin up to {apart:.1} s apart in it and in client.json");
        to.refuse(SubmissionCheck::Power, &at, what, SAME, REPACK_HINT);
    }
    let times = Detail::of(&above.join(run)).ok().and_then(|detail| {
        PowerWindow::of(detail.text("power_begin")?, detail.text("power_end")?).and_then(PowerWindow::since_epoch)
    });
    let (Some((begin, end)), [_, from, until, ..]) = (times, &client[..]) else { return };
    let is_within = |time: f64| [0.0, SUMMER_TIME].iter().any(|off| (*from..*until).contains(&(time - off)));
    if !is_within(begin) || !is_within(end) {
        let what = format!("the run in {run}/ is not within the phase of {mode} that it belongs to");
        to.refuse(SubmissionCheck::Power, &at, what, "power is measured while LoadGen runs", REPACK_HINT);
    }
}
