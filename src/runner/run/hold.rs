//! Services that are up for the caller: reported when the last one is ready.

use super::{Runner, TaskOutput};
use crate::event::Stop;
use crate::runner::hold::HeldService;
use crate::runner::schedule::{ScheduleState, TaskIndex};
use crate::runner::task_executor::TaskExecutor;

impl<W: TaskExecutor> Runner<W> {
    /// Requested when the caller needs its services no more; never, where it holds none.
    pub(super) fn hold_release(&self) -> Stop {
        self.options.hold.as_ref().map_or_else(Stop::new, |hold| hold.release.clone())
    }

    /// Sends the held services to the caller if all of them are up.
    pub(super) fn announce_held(&mut self) {
        let Some(hold) = self.options.hold.as_ref().filter(|_| self.schedule.are_held_up()) else { return };
        if std::mem::replace(&mut self.held_announced, true) {
            return;
        }
        let held = self.tasks.iter().enumerate().filter(|(ix, _)| hold.tasks[*ix]);
        let services = held.filter_map(|(ix, task)| match &self.outputs[ix] {
            Some(TaskOutput::Service { endpoints, .. }) if !endpoints.is_empty() => {
                Some(HeldService { task: task.id.clone(), endpoints: endpoints.clone() })
            }
            _ => None,
        });
        // No receiver is left: then the caller is stopping.
        let _ = hold.ready.send(services.collect());
    }

    /// The caller has the address of this service.
    pub(super) fn is_announced(&self, ix: TaskIndex) -> bool {
        let is_held = self.options.hold.as_ref().is_some_and(|hold| hold.tasks[ix as usize]);
        is_held && self.held_announced && self.schedule.state(ix) == ScheduleState::Serving
    }
}
