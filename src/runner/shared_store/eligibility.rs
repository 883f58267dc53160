//! Which outputs another machine may use: those that would be the same there.

use plan::{Lifetime, Plan, Task};

/// Why a task's output stays on the machine that made it; `None`: it may be shared.
pub fn why_not(plan: &Plan, task: &Task) -> Option<&'static str> {
    if let Some(obstacle) = task.kind.facts().sharing_obstacle.filter(|_| task.lifetime == Lifetime::Service) {
        return Some(obstacle);
    }
    if !task.cache {
        return Some("cache is false");
    }
    if !task.share {
        return Some("share is false");
    }
    if let Some(obstacle) = task.kind.facts().sharing_obstacle.filter(|_| !task.is_loadgen_library()) {
        return Some(obstacle);
    }
    if task.host.is_some() {
        return Some("it is made on another machine than this one, of which too little is known");
    }
    let asks_a_server = task.needs.iter().any(|need| plan.tasks[need.task as usize].lifetime == Lifetime::Service);
    asks_a_server.then_some("it talks to a server of this run, so it may be a measurement")
}
