//! Services that are up for the caller: reported when the last one is ready.

use super::{Runner, TaskOutput};
use crate::kept_services::KeptService;
use crate::schedule::{ScheduleState, TaskIndex};
use crate::task_executor::TaskExecutor;
use base::event::Stop;

impl<W: TaskExecutor> Runner<W> {
    /// Requested when the caller needs its services no more; never, where it holds none.
    pub(super) fn services_release(&self) -> Stop {
        self.options.kept_services.as_ref().map_or_else(Stop::new, |services| services.release.clone())
    }

    /// Sends the kept services to the caller if all of them are up.
    pub(super) fn announce_services(&mut self) {
        let Some(requested) = self.options.kept_services.as_ref().filter(|_| self.schedule.are_kept_services_up())
        else {
            return;
        };
        if std::mem::replace(&mut self.services_announced, true) {
            return;
        }
        let kept = self.plan.tasks.iter().enumerate().filter(|(ix, _)| requested.tasks[*ix]);
        let services = kept.filter_map(|(ix, task)| match &self.outputs[ix] {
            Some(TaskOutput::Service { endpoints, .. }) if !endpoints.is_empty() => {
                Some(KeptService { task: task.id.clone(), endpoints: endpoints.clone() })
            }
            _ => None,
        });
        // No receiver is left: then the caller is stopping.
        let _ = requested.ready.send(services.collect());
    }

    /// The caller has the address of this service.
    pub(super) fn is_announced(&self, ix: TaskIndex) -> bool {
        let is_kept = self.options.kept_services.as_ref().is_some_and(|services| services.tasks[ix as usize]);
        is_kept && self.services_announced && self.schedule.state(ix) == ScheduleState::Serving
    }
}
