//! The simulated counterpart of a benchmark's servers, found in a plan.

use plan::manifest::model::{Action, Engine, Repository, Serve};
use plan::{Plan, Task};
use sim::EngineServing;
use stages::{engine_spec, twin_serving};

/// What a benchmark's servers are made of.
#[derive(Default)]
pub(super) struct ServedTwin {
    pub engine: Option<Engine>,
    pub repository: Option<Repository>,
    /// Simulated seconds per second. `None`: the servers are no simulated ones.
    pub speed: Option<f64>,
}

impl ServedTwin {
    /// The engine and the repository that a benchmark's servers need.
    pub(super) fn of(plan: &Plan, task: &Task) -> Self {
        let mut found = Self::default();
        let mut open: Vec<usize> = task.needs.iter().map(|need| need.task as usize).collect();
        let mut seen = vec![false; plan.tasks.len()];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            let task = &plan.tasks[at];
            match task.action() {
                Some(Action::Engine(engine)) => found.engine = Some(engine.clone()),
                Some(Action::Repository(repository)) => found.repository = Some(repository.clone()),
                Some(Action::Serve(Serve::Simulator(server))) => found.speed = Some(server.speed),
                _ => {}
            }
            open.extend(task.needs.iter().map(|need| need.task as usize));
        }
        found
    }

    /// GPUs in use, and copies of the engine that share the requests.
    pub(super) fn sizes(&self) -> (u32, usize) {
        let each =
            self.engine.as_ref().map_or(1, |engine| engine.tensor_parallelism * engine.pipeline_parallelism).max(1);
        let servers = self.repository.as_ref().map_or(1, |repository| {
            let copies = repository.gpus.map_or(repository.triton_num_servers, |gpus| gpus / each);
            copies.max(repository.triton_num_servers).max(1)
        });
        (servers * each, servers as usize)
    }

    /// What to simulate. `None`: there is no engine.
    pub(super) fn simulated(&self) -> Option<(sim::EngineSpec, EngineServing)> {
        self.engine.as_ref().map(|engine| (engine_spec(engine), twin_serving(self.repository.as_ref())))
    }
}
