//! One host, queried only for whether it can be used: for checks before a run.

use std::path::Path;
use std::time::Duration;

use super::agent_output;
use super::agent_protocol::HostProblem;
use super::connection::HostLost;
use super::host_place;
use base::event::Failure;
use exec::process::{ExitKind, ProbeOutput, ProbeResult, probe};
use plan::manifest::model::{SshHost, SshMachine};

/// To log in and to load this program.
const LIMIT: Duration = Duration::from_secs(25);

/// The host's facts, or what is wrong with it and what to do. Starts nothing there. Blocks until it has answered or the
/// time limit is reached.
pub fn query_host(machine: &SshMachine, project: &Path) -> Result<String, (String, Option<String>)> {
    let host = SshHost::Machine(machine.clone());
    let places = host_place::over_ssh(&[host], project).map_err(|Failure { what, hint, .. }| (what, hint))?;
    let Some(place) = places.first() else { return Err(("there is no such host".to_owned(), None)) };
    let (how, words) = match probe(place.argv(&["--version"]), LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => {
            let version = out.lines().last().unwrap_or_default().trim().to_owned();
            let own = concat!("regatta ", env!("CARGO_PKG_VERSION"));
            if version == own {
                return Ok(format!("answers, with {version} and the project folder"));
            }
            let hint =
                "the run and its hosts must have the same version: `program` of the host names another".to_owned();
            return Err((format!("it has {version}, and this is {own}"), Some(hint)));
        }
        ProbeResult::Answered(ProbeOutput { code, err, .. }) => (Some(ExitKind::Code(code)), err),
        ProbeResult::Missing => {
            return Err(("there is no `ssh` here".to_owned(), Some("install openssh-client".to_owned())));
        }
        ProbeResult::TimedOut => (None, String::new()),
        ProbeResult::Failed(why) => (None, why),
    };
    let lost = HostLost::new(how, words.lines().map(str::to_owned).collect());
    let HostProblem { what, hint } = agent_output::connect_problem(place, &lost);
    Err((what, hint))
}
