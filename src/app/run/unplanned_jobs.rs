//! Jobs that an earlier run of the manifest left, for tasks that this one does not have.

use std::collections::BTreeSet;

use base::event::TaskId;
use plan::Plan;
use runner::store::{StateFolder, unplanned};

/// So many are named.
const NAMED: usize = 10;

/// A message about them. They are not ended: with other parameters the manifest may have their tasks again.
pub(super) fn unplanned_jobs(home: &StateFolder, plan: &Plan) -> Option<String> {
    let planned: BTreeSet<&TaskId> = plan.tasks.iter().map(|task| &task.id).collect();
    let mut jobs: Vec<(TaskId, Option<String>)> = unplanned(home, &plan.name, |task| planned.contains(task))
        .into_iter()
        .map(|(task, job)| (task, job.claimant().ok().flatten().or_else(|| job.number())))
        .collect();
    jobs.sort();
    (!jobs.is_empty()).then(|| message(&jobs))
}

fn message(jobs: &[(TaskId, Option<String>)]) -> String {
    let name = |(task, number): &(TaskId, Option<String>)| {
        let job = number.as_ref().map(|number| format!(" (job {number})")).unwrap_or_default();
        format!("{task}{job}")
    };
    let names: Vec<String> = jobs.iter().take(NAMED).map(name).collect();
    let more = jobs.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(
        "an earlier run left jobs of tasks that the manifest does not have now: {}{more}; those that are still in the queue go on: a run with their tasks \
         continues them, and `scancel` ends them",
        names.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_other_tasks_are_named_with_their_numbers() {
        let jobs = [(TaskId::new("s/5"), Some("126_0".to_owned())), (TaskId::new("s/6"), None)];
        let text = message(&jobs);
        assert!(text.contains("does not have now: s/5 (job 126_0), s/6; those that"), "{text}");
        let many: Vec<_> = (0..12).map(|number| (TaskId::new(format!("s/{number}")), None)).collect();
        assert!(message(&many).contains("s/9 and 2 more;"));
    }
}
