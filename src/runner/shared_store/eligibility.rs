//! Which outputs another machine may use: those that would be the same there.

use plan::{ActionKind, Lifetime, Plan, Task};

/// Why a task's output stays on the machine that made it; `None`: it may be shared.
pub fn why_not(plan: &Plan, task: &Task) -> Option<&'static str> {
    if task.lifetime == Lifetime::Service {
        return Some("a server leaves no output");
    }
    if !task.cache {
        return Some("cache is false");
    }
    if !task.share {
        return Some("share is false");
    }
    let of_its_kind = match task.kind {
        ActionKind::Mlperf if task.is_loadgen_library() => None,
        ActionKind::Bench | ActionKind::TrtllmBench | ActionKind::Mlperf | ActionKind::Compare => {
            Some("measurements, and what is made of them, are about the machine that made them")
        }
        ActionKind::Image => Some("an image is in a container program's own store; a registry shares it"),
        ActionKind::Git => Some("a clone's history is no part of its digest; its remote shares it"),
        ActionKind::Serve => Some("a server leaves no output"),
        ActionKind::Repository => {
            Some("a model repository names its engine by a path of this machine, and is made in no time")
        }
        ActionKind::Shell | ActionKind::Template | ActionKind::Engine | ActionKind::Weights => None,
    };
    if of_its_kind.is_some() {
        return of_its_kind;
    }
    if task.host.is_some() {
        return Some("it is made on another machine than this one, of which too little is known");
    }
    let asks_a_server = task.needs.iter().any(|need| plan.tasks[need.task as usize].lifetime == Lifetime::Service);
    asks_a_server.then_some("it talks to a server of this run, so it may be a measurement")
}
