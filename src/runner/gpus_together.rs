//! How many GPUs must be free at once for a task to run.

use std::collections::BTreeSet;

use plan::{Lifetime, Plan};

/// What a user can do where a run has too few GPUs.
pub const GPUS_HINT: &str = "`--gpus` sets the GPUs that a run may lease: `--gpus N` any N of them, `--gpus 0,1` \
    these, `--gpus 0,` GPU 0 alone";

/// How many GPUs of this machine a task has together with the services that have to be up then. `kept`: services that
/// stay up.
pub fn gpus_together(plan: &Plan, task: usize, kept: impl Iterator<Item = usize>) -> u32 {
    let mut together: BTreeSet<usize> = kept.collect();
    together.insert(task);
    let mut open: Vec<usize> = together.iter().copied().collect();
    while let Some(at) = open.pop() {
        for need in plan.tasks[at].needs.iter().map(|need| need.task as usize) {
            if plan.tasks[need].lifetime == Lifetime::Service && together.insert(need) {
                open.push(need);
            }
        }
    }
    let tasks = together.iter().map(|at| &plan.tasks[*at]);
    tasks.filter(|task| task.host.is_none() && task.skipped.is_none()).map(|task| task.gpus).sum()
}
