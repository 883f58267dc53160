//! Machines that servers are to run on: queries all at once whether they can be used.

use std::path::Path;

use super::needs::Needs;
use report::{DoctorFinding, FindingLevel};
use stages::query_host;

/// A line on each host. Blocks until the last one has answered or has timed out.
pub fn examine(needs: &Needs, project: &Path) -> Vec<DoctorFinding> {
    std::thread::scope(|scope| {
        let queries: Vec<_> = needs
            .hosts
            .iter()
            .map(|(name, (machine, by))| (name, by, scope.spawn(move || query_host(machine, project))))
            .collect();
        let finding_of = |(name, by, handle): (&String, &Vec<String>, std::thread::ScopedJoinHandle<'_, _>)| {
            let answer: Result<String, (String, Option<String>)> =
                handle.join().unwrap_or_else(|_| Err(("it could not be queried".to_owned(), None)));
            let works = answer.is_ok();
            let (found, fix) = match answer {
                Ok(found) => (found, None),
                Err((what, fix)) => (what, fix),
            };
            let finding = DoctorFinding::fact(format!("host {name}"), found).needed(
                "to start servers",
                by,
                FindingLevel::of(works),
            );
            finding.fix(fix.unwrap_or_default())
        };
        queries.into_iter().map(finding_of).collect()
    })
}
