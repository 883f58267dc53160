//! What may start and what must stop: a pure state machine. No clock, no I/O, no async.
//!
//! A step goes `Waiting → ComputingKey → Ready → Running → Finished`, or from `ComputingKey` straight to `Finished`
//! when the store has its output. A service goes
//! `Waiting → ComputingKey → Keyed → Starting → Serving → Stopping → Finished`; it starts only when a step that needs
//! it has to run, and ends when its last dependent has finished. `Keyed` is enough for dependents to be looked up in
//! the store, so a service whose dependents are all cached is never started.

use base::event::GpuId;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

/// Index of a task in the plan.
pub type TaskIndex = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleState {
    Waiting,
    ComputingKey,
    /// A service with a known key that no step has needed yet.
    Keyed,
    /// A step that has to run.
    Ready,
    Starting,
    Serving,
    Running,
    Stopping,
    Finished(TaskEnd),
}

use ScheduleState::{ComputingKey, Finished, Keyed, Ready, Running, Serving, Starting, Stopping, Waiting};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    Done,
    Cached,
    Skipped,
    Failed,
    Cancelled,
    /// A service that no step needed.
    NotNeeded,
}

impl TaskEnd {
    const fn is_good(self) -> bool {
        matches!(self, Self::Done | Self::Cached | Self::Skipped | Self::NotNeeded)
    }
}

/// What the schedule has to know of a task.
#[derive(Clone, Debug)]
pub struct ScheduledTask {
    pub needs: Vec<TaskIndex>,
    pub service: bool,
    /// Slots it takes; `None` for all of them. Services take none.
    pub cpus: Option<u32>,
    pub gpus: u32,
    /// It runs on another machine: nothing of this one is leased to it.
    pub elsewhere: bool,
    /// Those of a group are started in one moment if possible: none of them starts while another one is looked up.
    pub group: Option<u32>,
    /// Not part of this run, or `when` is false.
    pub skipped: bool,
    /// A service that starts without a step that needs it, and stays up until [`TaskSchedule::release_kept_services`].
    pub kept: bool,
}

impl ScheduledTask {
    /// It takes all slots of this machine.
    const fn is_alone(&self) -> bool {
        self.cpus.is_none() && !self.elsewhere
    }
}

struct Node {
    item: ScheduledTask,
    dependents: Vec<TaskIndex>,
    state: ScheduleState,
    /// Needs that are not settled yet.
    unsettled: u32,
    /// Dependents that are not over yet.
    unfinished_dependents: u32,
    held_slots: u32,
    held_gpus: Vec<GpuId>,
    /// Another step may have its slots: it has ended, and its output is being hashed.
    is_hashing: bool,
}

/// Something to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartItem {
    pub task: TaskIndex,
    pub gpus: Vec<GpuId>,
}

#[derive(Default)]
pub struct TaskSchedule {
    nodes: Vec<Node>,
    to_key: BTreeSet<TaskIndex>,
    ready: BTreeSet<TaskIndex>,
    /// How many of them need nothing of this machine.
    ready_remote: u32,
    /// For each group, how many of it are being looked up.
    keying: BTreeMap<u32, u32>,
    to_stop: Vec<TaskIndex>,
    cancelled: Vec<(TaskIndex, TaskIndex)>,
    slots: u32,
    free_slots: u32,
    free_gpus: BTreeSet<GpuId>,
    running_steps: u32,
    /// How many of them take all slots: one at the most.
    running_alone: u32,
    /// How many of them have given their slots back and are being hashed.
    hashing: u32,
    /// Services that are up for the caller.
    kept: Vec<TaskIndex>,
    /// Tasks that something is under way for: keying, running, starting or stopping.
    in_progress: u32,
    /// Nothing new starts any more.
    pub is_halted: bool,
    unfinished: usize,
}

impl TaskSchedule {
    /// `items` in topological order: needs point backwards.
    pub fn new(items: Vec<ScheduledTask>, slots: u32, gpus: impl IntoIterator<Item = GpuId>) -> Self {
        let mut nodes: Vec<Node> = Vec::with_capacity(items.len());
        for (ix, item) in items.into_iter().enumerate() {
            for need in &item.needs {
                let need = &mut nodes[*need as usize];
                need.dependents.push(ix as TaskIndex);
                need.unfinished_dependents += 1;
            }
            let unsettled = item.needs.len() as u32;
            // The caller counts as one more dependent.
            let unfinished_dependents = u32::from(item.kept);
            nodes.push(Node {
                item,
                dependents: Vec::new(),
                state: Waiting,
                unsettled,
                unfinished_dependents,
                held_slots: 0,
                held_gpus: Vec::new(),
                is_hashing: false,
            });
        }
        let slots = slots.max(1);
        let kept = (0..).zip(&nodes).filter(|(_, node)| node.item.kept).map(|(ix, _)| ix).collect();
        let mut schedule = Self {
            unfinished: nodes.len(),
            nodes,
            kept,
            slots,
            free_slots: slots,
            free_gpus: gpus.into_iter().collect(),
            ..Self::default()
        };
        for ix in 0..schedule.nodes.len() as TaskIndex {
            if schedule.nodes[ix as usize].unsettled == 0 && schedule.state(ix) == Waiting {
                schedule.settle_ready(ix);
            }
        }
        schedule
    }

    pub fn state(&self, ix: TaskIndex) -> ScheduleState {
        self.nodes[ix as usize].state
    }

    /// Everything has finished.
    pub fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// A task with settled needs: its key is to be computed now.
    pub fn next_to_key(&mut self) -> Option<TaskIndex> {
        self.to_key.pop_first()
    }

    /// A service's key is known.
    pub fn set_keyed(&mut self, ix: TaskIndex) {
        debug_assert!(self.nodes[ix as usize].item.service, "only services are known");
        if self.state(ix) != ComputingKey {
            return;
        }
        self.set(ix, Keyed);
        self.settle_dependents(ix);
        self.stop_if_unneeded(ix);
    }

    /// A step's output is not in the store: it has to run.
    pub fn set_cache_miss(&mut self, ix: TaskIndex) {
        if self.state(ix) != ComputingKey {
            return;
        }
        if self.is_halted {
            self.finish_task(ix, TaskEnd::Cancelled);
            return;
        }
        self.set(ix, Ready);
        self.ready.insert(ix);
        self.ready_remote += u32::from(self.nodes[ix as usize].item.elsewhere);
    }

    /// Another task is about to make the same output: this one is looked up again when that one has finished.
    pub fn waits_for(&mut self, ix: TaskIndex, maker: TaskIndex) {
        if self.state(ix) != ComputingKey {
            return;
        }
        self.set(ix, Waiting);
        let node = &mut self.nodes[ix as usize];
        node.unsettled += 1;
        node.item.needs.push(maker);
        let maker = &mut self.nodes[maker as usize];
        maker.dependents.push(ix);
        maker.unfinished_dependents += 1;
    }

    /// A running step has ended and its output is being hashed: another step may have its slots meanwhile.
    ///
    /// Not where there is one slot, for then steps follow each other; nor those of a step with GPUs or of one that runs
    /// alone, which may be tried again with what it has; nor while as many outputs as there are slots are being hashed.
    pub fn release_slots(&mut self, ix: TaskIndex) {
        let node = &mut self.nodes[ix as usize];
        let item = &node.item;
        let may_release = self.slots > 1 && !item.elsewhere && item.cpus.is_some() && item.gpus == 0;
        if node.state == Running && may_release && self.hashing < self.slots {
            node.is_hashing = true;
            self.hashing += 1;
            self.free_slots += std::mem::take(&mut node.held_slots);
        }
    }

    /// Whether a running step has given its slots back.
    pub fn is_hashing(&self, ix: TaskIndex) -> bool {
        self.nodes[ix as usize].is_hashing
    }

    /// A running step is to be looked up again: its inputs changed under it.
    pub fn rekey(&mut self, ix: TaskIndex) {
        self.release(ix);
        self.set(ix, ComputingKey);
        self.to_key.insert(ix);
    }

    /// A service that was up has ended, and will be started again: no step may rely on it meanwhile.
    pub fn down(&mut self, ix: TaskIndex) {
        if self.state(ix) == Serving {
            self.set(ix, Starting);
        }
    }

    /// A service that ended is to be started again, under another key: tasks that wait for it are looked up anew. The
    /// caller decides what happens to those that were running, and to those whose key is being computed.
    pub fn relaunch(&mut self, ix: TaskIndex) {
        if !matches!(self.state(ix), Starting | Serving) {
            return;
        }
        self.release(ix);
        self.set(ix, Keyed);
        for dependent in self.nodes[ix as usize].dependents.clone() {
            if self.state(dependent) == Ready {
                self.remove_ready(dependent);
                self.set(dependent, ComputingKey);
                self.to_key.insert(dependent);
            }
        }
        self.stop_if_unneeded(ix);
    }

    /// Whether another service stands on this one.
    pub fn carries_a_service(&self, ix: TaskIndex) -> bool {
        self.nodes[ix as usize].dependents.iter().any(|d| self.nodes[*d as usize].item.service)
    }

    /// Something that may begin now, earliest in the plan first. A step that cannot have its slots yet is not overtaken
    /// while other steps run, so that a big one gets its turn.
    pub fn next_to_start(&mut self) -> Option<StartItem> {
        /// Of steps that wait, while something is in progress after which they are looked at again.
        const MOST_LOOKED_AT: usize = if cfg!(test) { 3 } else { 256 };
        if self.is_halted {
            return None;
        }
        if let Some(service) = self.kept.iter().find_map(|ix| self.startable(*ix)) {
            return Some(self.start_service(service));
        }
        // What runs elsewhere needs no slot here.
        let mut full = self.free_slots == 0;
        if full && self.ready_remote == 0 {
            return None;
        }
        let mut next = self.ready.first().copied();
        // A step that takes all slots must not be disturbed, not even by the loading of the next one's server; unless
        // nothing moves any more, for then the next one's server may be what holds the GPUs of this one's.
        let mut alone_before = self.running_alone > 0;
        let most = if self.in_progress == 0 { usize::MAX } else { MOST_LOOKED_AT };
        for _ in 0..most {
            let ix = next?;
            next = self.ready.range((Bound::Excluded(ix), Bound::Unbounded)).next().copied();
            let node = &self.nodes[ix as usize];
            let elsewhere = node.item.elsewhere;
            if full && !elsewhere {
                continue;
            }
            if node.item.group.is_some_and(|group| self.keying.get(&group).is_some_and(|n| *n > 0)) {
                continue;
            }
            if !elsewhere
                && node.item.cpus.is_none()
                && std::mem::replace(&mut alone_before, true)
                && self.in_progress > 0
            {
                continue;
            }
            let mut all_up = true;
            let mut to_start = None;
            for need in &node.item.needs {
                if self.nodes[*need as usize].item.service {
                    all_up &= matches!(self.state(*need), Serving | Finished(_));
                    to_start = to_start.or_else(|| self.startable(*need));
                }
            }
            if let Some(service) = to_start {
                return Some(self.start_service(service));
            }
            if !all_up {
                continue;
            }
            let want = if elsewhere { 0 } else { node.item.cpus.unwrap_or(self.slots).clamp(1, self.slots) };
            let must_wait_for_hashing = node.item.is_alone() && self.hashing > 0;
            if want <= self.free_slots && !must_wait_for_hashing && node.item.gpus as usize <= self.free_gpus.len() {
                self.remove_ready(ix);
                let gpus = self.lease(ix, want);
                self.set(ix, Running);
                self.running_steps += 1;
                self.running_alone += u32::from(self.nodes[ix as usize].item.is_alone());
                return Some(StartItem { task: ix, gpus });
            }
            if self.running_steps > 0 {
                if self.ready_remote == 0 {
                    return None;
                }
                full = true;
            }
        }
        None
    }

    fn start_service(&mut self, service: TaskIndex) -> StartItem {
        let gpus = self.lease(service, 0);
        self.set(service, Starting);
        StartItem { task: service, gpus }
    }

    /// The service that has to start first so that `ix` can be up: itself, or one that it needs.
    fn startable(&self, ix: TaskIndex) -> Option<TaskIndex> {
        let node = &self.nodes[ix as usize];
        if node.state != Keyed {
            return None;
        }
        let below = || node.item.needs.iter().copied().filter(|n| self.nodes[*n as usize].item.service);
        if below().all(|n| matches!(self.state(n), Serving | Finished(_))) {
            return (node.item.gpus as usize <= self.free_gpus.len()).then_some(ix);
        }
        below().find_map(|n| self.startable(n))
    }

    /// A service is ready.
    pub fn up(&mut self, ix: TaskIndex) {
        if self.state(ix) == Starting {
            self.set(ix, Serving);
            self.stop_if_unneeded(ix);
        }
    }

    /// A task has finished, in whichever way. Dependents of a bad end are cancelled (see [`Self::take_cancelled`]).
    pub fn finish_task(&mut self, ix: TaskIndex, how: TaskEnd) {
        let mut work = vec![(ix, how)];
        while let Some((at, how)) = work.pop() {
            if matches!(self.state(at), Finished(_)) {
                continue;
            }
            self.release(at);
            let was_settled =
                self.nodes[at as usize].item.service && matches!(self.state(at), Keyed | Starting | Serving | Stopping);
            self.to_key.remove(&at);
            self.remove_ready(at);
            self.set(at, Finished(how));
            self.unfinished -= 1;
            for need in self.nodes[at as usize].item.needs.clone() {
                self.nodes[need as usize].unfinished_dependents -= 1;
                self.stop_if_unneeded(need);
            }
            if how.is_good() {
                if !was_settled {
                    self.settle_dependents(at);
                }
                continue;
            }
            for dependent in self.nodes[at as usize].dependents.clone() {
                // Running dependents of a dead server end by themselves; the loop stops them. One that is being stopped
                // has its GPUs until it has ended.
                if matches!(self.state(dependent), Running | Stopping | Finished(_)) {
                    continue;
                }
                if matches!(self.state(dependent), Starting | Serving) {
                    self.begin_stop(dependent);
                    continue;
                }
                self.cancelled.push((dependent, at));
                work.push((dependent, TaskEnd::Cancelled));
            }
        }
    }

    /// Nothing new starts; what has not started is cancelled. What runs, goes on.
    pub fn halt(&mut self) {
        self.is_halted = true;
        for ix in 0..self.nodes.len() as TaskIndex {
            match self.state(ix) {
                Keyed => self.finish_task(ix, TaskEnd::NotNeeded),
                Waiting | Ready | ComputingKey => {
                    self.cancelled.push((ix, ix));
                    self.finish_task(ix, TaskEnd::Cancelled);
                }
                _ => {}
            }
        }
        self.release_kept_services();
    }

    /// All kept services are up.
    pub fn are_kept_services_up(&self) -> bool {
        self.kept.iter().all(|ix| self.state(*ix) == Serving)
    }

    /// The caller needs its services no more: those that no step needs stop.
    pub fn release_kept_services(&mut self) {
        for ix in std::mem::take(&mut self.kept) {
            self.nodes[ix as usize].unfinished_dependents -= 1;
            self.stop_if_unneeded(ix);
        }
    }

    /// Services to stop now; each is named once.
    pub fn take_to_stop(&mut self) -> Vec<TaskIndex> {
        std::mem::take(&mut self.to_stop)
    }

    /// Tasks that were cancelled, each with the task that was the reason (itself if the run was halted).
    pub fn take_cancelled(&mut self) -> Vec<(TaskIndex, TaskIndex)> {
        std::mem::take(&mut self.cancelled)
    }

    /// Nothing runs, nothing starts or stops by itself, and yet there are unfinished steps, or kept services that are
    /// not started: the first of them.
    pub fn deadlocked_task(&self) -> Option<TaskIndex> {
        if self.in_progress > 0 {
            return None;
        }
        let waits = |ix: &TaskIndex| self.state(*ix) == Keyed;
        self.ready.first().copied().or_else(|| self.kept.iter().copied().find(waits))
    }

    /// Running steps that need this service.
    pub fn running_dependents(&self, ix: TaskIndex) -> Vec<TaskIndex> {
        let node = &self.nodes[ix as usize];
        node.dependents.iter().copied().filter(|d| self.state(*d) == Running).collect()
    }

    /// A service that a task needs and cannot have any more: it stops, or has ended. The task may be a step that runs
    /// or waits for its key, or a service.
    pub fn ended_service(&self, ix: TaskIndex) -> Option<TaskIndex> {
        let has_ended = |need: &TaskIndex| match self.state(*need) {
            Stopping => true,
            Finished(end) => end != TaskEnd::Skipped,
            _ => false,
        };
        let needs = self.nodes[ix as usize].item.needs.iter().copied();
        needs.filter(|need| self.nodes[*need as usize].item.service).find(has_ended)
    }

    fn remove_ready(&mut self, ix: TaskIndex) {
        if self.ready.remove(&ix) {
            self.ready_remote -= u32::from(self.nodes[ix as usize].item.elsewhere);
        }
    }

    fn lease(&mut self, ix: TaskIndex, slots: u32) -> Vec<GpuId> {
        let want = self.nodes[ix as usize].item.gpus as usize;
        let gpus: Vec<GpuId> = self.free_gpus.iter().copied().take(want).collect();
        for gpu in &gpus {
            self.free_gpus.remove(gpu);
        }
        self.free_slots -= slots;
        let node = &mut self.nodes[ix as usize];
        node.held_slots = slots;
        node.held_gpus.clone_from(&gpus);
        gpus
    }

    /// Every transition passes here.
    fn set(&mut self, ix: TaskIndex, state: ScheduleState) {
        let moves = |state| matches!(state, Running | Starting | Stopping | ComputingKey);
        let was = std::mem::replace(&mut self.nodes[ix as usize].state, state);
        self.in_progress += u32::from(moves(state));
        self.in_progress -= u32::from(moves(was));
        if let Some(group) = self.nodes[ix as usize].item.group {
            let keying = self.keying.entry(group).or_default();
            *keying += u32::from(state == ComputingKey);
            *keying -= u32::from(was == ComputingKey);
        }
    }

    fn release(&mut self, ix: TaskIndex) {
        let node = &mut self.nodes[ix as usize];
        if node.state == Running {
            self.running_steps -= 1;
            self.running_alone -= u32::from(node.item.is_alone());
        }
        self.hashing -= u32::from(std::mem::take(&mut node.is_hashing));
        self.free_slots += std::mem::take(&mut node.held_slots);
        self.free_gpus.extend(std::mem::take(&mut node.held_gpus));
    }

    fn settle_dependents(&mut self, ix: TaskIndex) {
        for dependent in self.nodes[ix as usize].dependents.clone() {
            let node = &mut self.nodes[dependent as usize];
            node.unsettled -= 1;
            if node.unsettled == 0 && node.state == Waiting {
                self.settle_ready(dependent);
            }
        }
    }

    /// All needs of `ix` are settled.
    fn settle_ready(&mut self, ix: TaskIndex) {
        if self.nodes[ix as usize].item.skipped {
            self.finish_task(ix, TaskEnd::Skipped);
        } else {
            self.set(ix, ComputingKey);
            self.to_key.insert(ix);
        }
    }

    fn stop_if_unneeded(&mut self, ix: TaskIndex) {
        let node = &self.nodes[ix as usize];
        if !node.item.service || node.unfinished_dependents > 0 {
            return;
        }
        match node.state {
            Keyed => self.finish_task(ix, TaskEnd::NotNeeded),
            Starting | Serving => self.begin_stop(ix),
            _ => {}
        }
    }

    fn begin_stop(&mut self, ix: TaskIndex) {
        self.set(ix, Stopping);
        self.to_stop.push(ix);
    }
}

#[cfg(test)]
mod simulated_world;
#[cfg(test)]
mod tests;
