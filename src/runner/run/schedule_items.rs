//! What the schedule has to know of each task.

use std::collections::HashMap;

use crate::options::{RunOptions, TaskRole};
use crate::schedule::ScheduledTask;
use plan::{Lifetime, Plan, Task};

/// Of a whole plan, in its order.
pub(super) fn items(plan: &Plan, options: &RunOptions) -> Vec<ScheduledTask> {
    let mut groups: HashMap<&str, u32> = HashMap::new();
    let kept = |ix: usize| options.kept_services.as_ref().is_some_and(|hold| hold.tasks[ix]);
    let parts = plan.tasks.iter().zip(&options.roles).enumerate();
    parts.map(|(ix, (task, part))| item(task, *part, kept(ix), &mut groups)).collect()
}

fn item<'a>(task: &'a Task, part: TaskRole, kept: bool, groups: &mut HashMap<&'a str, u32>) -> ScheduledTask {
    let skipped = task.skipped.is_some() || part == TaskRole::NotNeeded;
    let elsewhere = task.host.is_some();
    let next = groups.len() as u32;
    // Steps of one stage that run elsewhere may be one job array.
    let in_group = elsewhere && task.lifetime == Lifetime::Step;
    ScheduledTask {
        // A task that does not run waits for no server and keeps none up.
        needs: if skipped { Vec::new() } else { task.needs.iter().map(|need| need.task).collect() },
        service: task.lifetime == Lifetime::Service,
        cpus: task.cpus,
        gpus: if elsewhere { 0 } else { task.gpus },
        elsewhere,
        group: in_group.then(|| *groups.entry(&task.stage).or_insert(next)),
        skipped,
        kept: kept && !skipped,
    }
}
