//! What a planned package will lack.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use crate::manifest::model::MlperfPackage;
use base::event::Endpoint;
use base::files::read_text;
use base::spec::Division;
use rules::{Accelerator, EXAMPLE_SUBMITTER, GivenDescription, MlperfScenario, Round, misspelt_fields};
use triton::is_own_address;

/// One line each. What is known of the machine is read below a root folder. `servers` are those that the plan's LoadGen tests
/// measure and that no stage of it starts.
pub(super) fn package_notes(package: &MlperfPackage, machine: &Path, servers: &[Endpoint]) -> Vec<String> {
    let mut notes = missing_scenarios(package);
    if package.submitter == EXAMPLE_SUBMITTER && !package.rehearse {
        notes.push(format!(
            "the submitter is `{EXAMPLE_SUBMITTER}`, a stand-in: `submitter` is your organization, as registered for the round"
        ));
    }
    for (name, near) in misspelt_fields(&package.system_json) {
        notes.push(format!("`system_json.{name}` is packed as it is: did you mean `{near}`?"));
    }
    let is_elsewhere = !servers.is_empty() && !servers.iter().any(|server| is_known_here(&server.host, machine));
    if is_elsewhere {
        let servers = servers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        notes.push(format!(
            "{servers}: servers of another machine, so nothing of the host is detected here; Closed requires LoadGen on the host, and the division Network is not packed"
        ));
    }
    notes.extend(missing_values(package, Some(machine).filter(|_| !is_elsewhere)));
    notes
}

/// Whether the host is the machine below a root folder, as far as its name or address shows: no other machine is queried in a plan.
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
            notes.push(format!("a closed submission of {name} in {round} must hold {lacks}, too"));
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
    (!missing.is_empty()).then(|| {
        format!("{} values are neither given nor detected, and nothing is packed without them: {names}", missing.len())
    })
}
