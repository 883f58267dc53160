//! Messages for the user when a host cannot be used, fails, or is lost.

use std::path::Path;

use super::agent_protocol::HostProblem;
use super::connection::HostLost;
use super::host_place::HostPlace;
use crate::remote::ssh::{NO_FOLDER, NO_FOLDER_TEXT, NO_PROGRAM, explain_error};
use base::event::{Failure, FailureKind};
use exec::process::{self, ExitKind};

/// How many of the last lines of a host's log are shown.
const TAIL: usize = 15;

/// Everything that is wrong with any host, at once.
pub fn unusable(places: &[HostPlace], problems: &[(usize, HostProblem)]) -> Failure {
    let mut hosts: Vec<usize> = problems.iter().map(|(host, _)| *host).collect();
    hosts.dedup();
    let what = match (hosts.as_slice(), places.len()) {
        ([host], 1) => format!("host {} cannot be used", places[*host].name),
        (hosts, all) => format!("{} of {all} hosts cannot be used", hosts.len()),
    };
    let lines: Vec<String> = problems
        .iter()
        .map(|(host, problem)| {
            let hint = problem.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            format!("{}: {}{hint}", places[*host].name, problem.what)
        })
        .collect();
    Failure::new(FailureKind::Service, what).cause(lines.join("\n"))
}

/// Why a host never greeted us.
pub fn connect_problem(place: &HostPlace, lost: &HostLost) -> HostProblem {
    let text = lost.last_lines.join("\n");
    let last = lost.last_lines.iter().rev().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned());
    if lost.how == Some(ExitKind::Code(NO_FOLDER)) && text.contains(NO_FOLDER_TEXT) {
        let what = last.unwrap_or_else(|| "there is no project folder".to_owned());
        return HostProblem::new(
            what,
            "the project folder must be at the same place there, on a filesystem that all hosts share",
        );
    }
    if lost.how == Some(ExitKind::Code(NO_PROGRAM)) {
        let what = last.unwrap_or_else(|| "this program is not there".to_owned());
        return HostProblem::new(what, "`program` of the host sets the path of this program there");
    }
    if let Some((what, hint)) = place.ssh().and_then(|ssh| explain_error(ssh, &text)) {
        let last = last.map(|last| format!(": {last}")).unwrap_or_default();
        return HostProblem::new(format!("{what}{last}"), hint);
    }
    let ended = match lost.how {
        None => "it did not answer in time".to_owned(),
        Some(ExitKind::Code(code)) => format!("the connection ended with exit code {code}"),
        Some(_) => "the connection was ended".to_owned(),
    };
    HostProblem { what: last.map_or_else(|| ended.clone(), |last| format!("{ended}: {last}")), hint: None }
}

/// A host that was there and does not respond any more.
pub fn lost_host_failure(place: &HostPlace, lost: &HostLost, log: &Path, when: &str) -> Failure {
    let text = lost.last_lines.join("\n");
    let known = place.ssh().and_then(|ssh| explain_error(ssh, &text));
    let since = lost.last_message_at.strftime("%H:%M:%S UTC");
    let what = format!(
        "connection to host {} was lost {when}: last message at {since}, {:.1} s ago",
        place.name,
        lost.since.elapsed().as_secs_f64()
    );
    let mut failure = Failure::new(FailureKind::Service, what).tail(last_lines(log));
    failure.log = Some(log.to_owned());
    let last = lost.last_lines.iter().rev().find(|line| !line.trim().is_empty());
    failure = match (&known, last) {
        (Some((what, _)), Some(last)) => failure.cause(format!("{what}: {}", last.trim())),
        (None, Some(last)) => failure.cause(last.trim().to_owned()),
        (_, None) => failure.cause("its connection broke, or the machine is down: no messages arrive any more"),
    };
    match known {
        Some((_, hint)) => failure.hint(hint),
        None => failure,
    }
}

/// A host's servers failed, as the host itself reports it.
pub fn failed(place: &HostPlace, failure: Failure) -> Failure {
    Failure { what: format!("host {}: {}", place.name, failure.what), ..failure }
}

/// Of all logs of a host's servers: that of the first, unless only others have content.
fn last_lines(log: &Path) -> Vec<String> {
    let own = process::tail(log, TAIL);
    if !own.is_empty() {
        return own;
    }
    (0..)
        .map(|index| log.with_extension(format!("{index}.log")))
        .take_while(|log| log.exists())
        .find_map(|log| {
            let lines = process::tail(&log, TAIL);
            (!lines.is_empty()).then_some(lines)
        })
        .unwrap_or_default()
}
