//! The schedule in a simulated world: any plan, a clock, processes that end when the dice say so, and faults. A seed
//! decides all of it, so a failure is repeated by its seed.
//!
//! How many of 36,000 seeds find a fix that is undone, counted while servers died and were started again half as often:
//!
//! | undone | seeds |
//! |---|---|
//! | a server that is being stopped keeps its GPUs when one that it needs dies | 15 |
//! | a step whose server has ended for good is not looked up again with another one | 1 |
//! | a step that runs alone waits until outputs have been hashed | 2538 |
//! | `ended_service` counts a server that is being stopped | 0 |
//! | all waiting steps are looked at when nothing is in progress | 0 |
//! | steps that wait for a server that is started again are looked up anew: now `KeysAreFresh` | 0 |

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg as Dice;

use super::*;
use crate::simulated_seeds::seed_count;

/// What holds in every world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    /// Steps of this machine that are not being hashed have at most all slots, and a GPU is leased to one task.
    NothingIsOversold,
    /// A task begins when its steps have ended well; a step, when its servers are up as well.
    NeedsAreMet,
    /// Beside a step that takes all slots no other one of this machine runs, and no output is hashed.
    NothingDisturbsAStepThatRunsAlone,
    /// A step that has to run was looked up after the last start of each of its servers began.
    KeysAreFresh,
    /// A server starts only for a step that has to run, or for the caller.
    ServersAreNeeded,
    /// Unless something failed, a server is stopped only after all its dependents have finished.
    ServersStayUp,
    /// A process is not started a second time beside the first one.
    IsStartedOnce,
    /// After a halt nothing starts.
    NothingStartsAfterAHalt,
    /// Unless something failed, nothing is cancelled and every task ends well.
    OnlyFailuresCancel,
    /// A task that can never start needs, with its servers, more GPUs than other servers leave.
    DeadlocksAreReal,
    /// Everything ends, and nothing is left running.
    EverythingEnds,
}

use Property as P;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    StepFails,
    ServerDies,
    ServerIsStartedAgain,
    InputsChange,
    KeysAreEqual,
    Halt,
}

const FAULTS: [Fault; 6] = [
    Fault::StepFails,
    Fault::ServerDies,
    Fault::ServerIsStartedAgain,
    Fault::InputsChange,
    Fault::KeysAreEqual,
    Fault::Halt,
];

/// What happens at a time of the simulated clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    KeyIsComputed(TaskIndex),
    /// A process has come to what it was started for: a server is up, a step has ended.
    IsDone(TaskIndex),
    ServerDies(TaskIndex),
    IsStopped(TaskIndex),
    CallerLeaves,
    Halt,
}

struct SimulatedRun<'a> {
    schedule: TaskSchedule,
    items: Vec<ScheduledTask>,
    slots: u32,
    gpus: u32,
    faults: &'a [Fault],
    dice: Dice,
    clock: u64,
    ahead: BTreeSet<(u64, u64, Happening)>,
    /// How often each server was started again; and, for each step that has to run, the same of its servers when it was
    /// looked up.
    starts: BTreeMap<TaskIndex, u32>,
    looked_up: BTreeMap<TaskIndex, Vec<u32>>,
    /// Processes, each with its GPUs.
    alive: BTreeMap<TaskIndex, Vec<GpuId>>,
    /// Something failed, or the run was halted.
    is_disturbed: bool,
    restarts: u32,
    steps: u64,
}

impl<'a> SimulatedRun<'a> {
    fn new(seed: u64, tasks: usize, faults: &'a [Fault]) -> Self {
        let mut dice = Dice::seed_from_u64(seed);
        let (slots, gpus) = (1 + dice.random_range(0..4_u32), dice.random_range(0..5_u32));
        // Each task has dice of its own, so that a shorter plan is the beginning of a longer one.
        let items: Vec<ScheduledTask> = (0..tasks as u64)
            .map(|n| {
                let mut dice = Dice::seed_from_u64(seed ^ (n + 1).wrapping_mul(0x2545_f491_4f6c_dd1d));
                let needs: BTreeSet<TaskIndex> =
                    (0..dice.random_range(0..4).min(n)).map(|_| dice.random_range(0..n) as TaskIndex).collect();
                let service = dice.random_ratio(30, 100);
                let elsewhere = !service && dice.random_ratio(20, 100);
                ScheduledTask {
                    needs: needs.into_iter().collect(),
                    service,
                    cpus: (!service && !dice.random_ratio(20, 100)).then(|| 1 + dice.random_range(0..5_u32)),
                    gpus: if elsewhere || dice.random_ratio(50, 100) { 0 } else { dice.random_range(0..4_u32) },
                    elsewhere,
                    group: (elsewhere && dice.random_ratio(50, 100)).then_some(0),
                    skipped: dice.random_ratio(4, 100),
                    kept: service && dice.random_ratio(15, 100),
                }
            })
            .collect();
        let schedule = TaskSchedule::new(items.clone(), slots, (0..gpus).map(GpuId::Index));
        let mut run = Self {
            schedule,
            items,
            slots,
            gpus,
            faults,
            dice,
            clock: 0,
            ahead: BTreeSet::new(),
            starts: BTreeMap::new(),
            looked_up: BTreeMap::new(),
            alive: BTreeMap::new(),
            is_disturbed: false,
            restarts: 0,
            steps: 0,
        };
        run.after(200, Happening::CallerLeaves);
        if run.strikes(Fault::Halt, 10) {
            run.after(100, Happening::Halt);
        }
        run
    }

    fn item(&self, ix: TaskIndex) -> &ScheduledTask {
        &self.items[ix as usize]
    }

    fn after(&mut self, longest: u64, what: Happening) {
        let at = self.clock + 1 + self.dice.random_range(0..longest);
        self.ahead.insert((at, self.steps, what));
    }

    fn strikes(&mut self, fault: Fault, chance: u32) -> bool {
        self.faults.contains(&fault) && self.dice.random_ratio(chance, 100)
    }

    /// The property that does not hold; `Ok`: all do.
    fn run(&mut self) -> Result<(), Property> {
        while self.steps < 5000 {
            while let Some(ix) = self.schedule.next_to_key() {
                self.after(5, Happening::KeyIsComputed(ix));
            }
            while let Some(start) = self.schedule.next_to_start() {
                self.check_start(&start)?;
                self.alive.insert(start.task, start.gpus);
                self.check_machine()?;
                self.after(20, Happening::IsDone(start.task));
            }
            for ix in self.schedule.take_to_stop() {
                let is_over = |ix: usize| matches!(self.schedule.state(ix as u32), ScheduleState::Finished(_));
                let mut dependents = (0..self.items.len()).filter(|d| self.items[*d].needs.contains(&ix));
                holds(P::ServersStayUp, self.is_disturbed || dependents.all(is_over))?;
                self.after(5, Happening::IsStopped(ix));
            }
            holds(P::OnlyFailuresCancel, self.schedule.take_cancelled().is_empty() || self.is_disturbed)?;
            if self.schedule.is_finished() {
                let ends_well = |ix| matches!(self.schedule.state(ix), ScheduleState::Finished(end) if end.is_good());
                let all_well = (0..self.items.len() as u32).all(ends_well);
                holds(P::OnlyFailuresCancel, self.is_disturbed || all_well)?;
                return holds(P::EverythingEnds, self.alive.is_empty());
            }
            self.steps += 1;
            match self.ahead.pop_first() {
                Some((at, _, what)) => {
                    self.clock = at;
                    self.take(what);
                }
                None => self.end_deadlock()?,
            }
        }
        Err(P::EverythingEnds)
    }

    fn take(&mut self, what: Happening) {
        match what {
            Happening::KeyIsComputed(ix) if self.item(ix).service => self.schedule.set_keyed(ix),
            Happening::KeyIsComputed(ix) => self.look_up(ix),
            Happening::IsDone(ix) => match self.schedule.state(ix) {
                ScheduleState::Starting => self.server_is_up(ix),
                ScheduleState::Running => self.step_ends(ix),
                _ => {}
            },
            Happening::ServerDies(ix) if self.schedule.state(ix) == ScheduleState::Serving => {
                if self.may_restart(ix) && self.dice.random_ratio(50, 100) {
                    self.restarts += 1;
                    self.schedule.down(ix);
                    self.start_again(ix);
                } else {
                    self.end(ix, TaskEnd::Failed);
                }
            }
            Happening::ServerDies(_) => {}
            Happening::IsStopped(ix) => {
                let is_without_need = self.schedule.ended_service(ix).is_some();
                self.end(ix, if is_without_need { TaskEnd::Cancelled } else { TaskEnd::Done });
            }
            Happening::CallerLeaves => self.schedule.release_kept_services(),
            Happening::Halt => {
                self.is_disturbed = true;
                self.schedule.halt();
            }
        }
    }

    fn look_up(&mut self, ix: TaskIndex) {
        if self.schedule.state(ix) != ScheduleState::ComputingKey {
            return;
        }
        let is_making = |m: &u32| matches!(self.schedule.state(*m), ScheduleState::Ready | ScheduleState::Running);
        let maker = (0..ix).filter(|m| !self.item(*m).service).find(is_making);
        match maker {
            Some(maker) if self.strikes(Fault::KeysAreEqual, 20) => {
                self.items[ix as usize].needs.push(maker);
                self.schedule.waits_for(ix, maker);
            }
            _ if self.dice.random_ratio(30, 100) => self.schedule.finish_task(ix, TaskEnd::Cached),
            _ => {
                self.looked_up.insert(ix, self.starts_of_servers(ix));
                self.schedule.set_cache_miss(ix);
            }
        }
    }

    fn starts_of_servers(&self, ix: TaskIndex) -> Vec<u32> {
        self.item(ix).needs.iter().map(|need| self.starts.get(need).copied().unwrap_or(0)).collect()
    }

    fn server_is_up(&mut self, ix: TaskIndex) {
        let may_restart = self.may_restart(ix);
        if self.strikes(Fault::ServerDies, 5) {
            return self.end(ix, TaskEnd::Failed);
        }
        if may_restart && self.strikes(Fault::ServerIsStartedAgain, 20) {
            self.restarts += 1;
            return self.start_again(ix);
        }
        self.schedule.up(ix);
        if self.strikes(Fault::ServerDies, 30) {
            self.after(40, Happening::ServerDies(ix));
        }
    }

    fn may_restart(&self, ix: TaskIndex) -> bool {
        self.restarts < 5 && !self.schedule.is_halted && !self.schedule.carries_a_service(ix)
    }

    /// Steps that run with it end for that, and are looked up again.
    fn start_again(&mut self, ix: TaskIndex) {
        self.alive.remove(&ix);
        *self.starts.entry(ix).or_default() += 1;
        for step in self.schedule.running_dependents(ix) {
            self.alive.remove(&step);
            // Another server of it has ended for good.
            match self.schedule.ended_service(step) {
                Some(_) => self.end(step, TaskEnd::Failed),
                None => self.schedule.rekey(step),
            }
        }
        self.schedule.relaunch(ix);
    }

    fn step_ends(&mut self, ix: TaskIndex) {
        if !self.alive.contains_key(&ix) {
            return;
        }
        if !self.schedule.is_hashing(ix) && self.dice.random_ratio(40, 100) {
            self.schedule.release_slots(ix);
            return self.after(5, Happening::IsDone(ix));
        }
        if self.schedule.ended_service(ix).is_some() || self.strikes(Fault::StepFails, 5) {
            return self.end(ix, TaskEnd::Failed);
        }
        if !self.schedule.is_halted && self.restarts < 5 && self.strikes(Fault::InputsChange, 5) {
            self.restarts += 1;
            self.alive.remove(&ix);
            return self.schedule.rekey(ix);
        }
        self.end(ix, TaskEnd::Done);
    }

    fn end(&mut self, ix: TaskIndex, end: TaskEnd) {
        self.is_disturbed |= end == TaskEnd::Failed;
        self.alive.remove(&ix);
        self.schedule.finish_task(ix, end);
    }

    /// Nothing moves any more.
    fn end_deadlock(&mut self) -> Result<(), Property> {
        let Some(ix) = self.schedule.deadlocked_task() else { return Err(P::EverythingEnds) };
        let mut together = BTreeSet::new();
        let mut work = vec![ix];
        while let Some(at) = work.pop() {
            together.insert(at);
            work.extend(self.item(at).needs.iter().filter(|need| self.item(**need).service));
        }
        let needed: u32 = together.iter().map(|ix| self.item(*ix).gpus).sum();
        let others = self.alive.iter().filter(|(ix, _)| !together.contains(ix)).map(|(_, gpus)| gpus.len() as u32);
        holds(P::DeadlocksAreReal, needed + others.sum::<u32>() > self.gpus)?;
        self.end(ix, TaskEnd::Failed);
        Ok(())
    }

    fn check_start(&self, start: &StartItem) -> Result<(), Property> {
        let (ix, item) = (start.task, self.item(start.task));
        holds(P::NothingStartsAfterAHalt, !self.schedule.is_halted)?;
        holds(P::IsStartedOnce, !self.alive.contains_key(&ix))?;
        holds(P::NothingIsOversold, start.gpus.len() == item.gpus as usize)?;
        let is_free = |gpu: &GpuId| !self.alive.values().flatten().any(|held| held == gpu);
        holds(P::NothingIsOversold, start.gpus.iter().all(is_free))?;
        let is_met = |need: &TaskIndex| match self.schedule.state(*need) {
            ScheduleState::Finished(TaskEnd::Skipped) => true,
            ScheduleState::Finished(end) => !self.item(*need).service && end.is_good(),
            ScheduleState::Serving => self.item(*need).service,
            _ => false,
        };
        holds(P::NeedsAreMet, item.needs.iter().all(is_met))?;
        let is_fresh = || self.looked_up.get(&ix) == Some(&self.starts_of_servers(ix));
        holds(P::KeysAreFresh, item.service || is_fresh())?;
        holds(P::ServersAreNeeded, !item.service || item.kept || self.has_work(ix))
    }

    /// Whether a step that has to run needs this server, or a kept server does.
    fn has_work(&self, server: TaskIndex) -> bool {
        (server + 1..self.items.len() as u32).filter(|ix| self.item(*ix).needs.contains(&server)).any(|ix| {
            let item = self.item(ix);
            if item.service { item.kept || self.has_work(ix) } else { self.schedule.state(ix) == ScheduleState::Ready }
        })
    }

    fn check_machine(&self) -> Result<(), Property> {
        let local = self.alive.keys().filter(|ix| !self.item(**ix).service && !self.item(**ix).elsewhere);
        let local: Vec<TaskIndex> = local.copied().collect();
        let slots = |ix: &TaskIndex| self.item(*ix).cpus.unwrap_or(self.slots).min(self.slots);
        let used: u32 = local.iter().filter(|ix| !self.schedule.is_hashing(**ix)).map(slots).sum();
        holds(P::NothingIsOversold, used <= self.slots)?;
        let is_alone = local.iter().any(|ix| self.item(*ix).cpus.is_none());
        holds(P::NothingDisturbsAStepThatRunsAlone, !is_alone || local.len() == 1)
    }
}

fn holds(property: Property, is_so: bool) -> Result<(), Property> {
    if is_so { Ok(()) } else { Err(property) }
}

/// The smallest plan and the fewest faults with which a seed still fails.
fn shrunk(seed: u64, tasks: usize, property: Property) -> (usize, Vec<Fault>) {
    let fails = |tasks: usize, faults: &[Fault]| SimulatedRun::new(seed, tasks, faults).run() == Err(property);
    let mut faults = FAULTS.to_vec();
    for fault in FAULTS {
        let fewer: Vec<Fault> = faults.iter().copied().filter(|other| *other != fault).collect();
        if fails(tasks, &fewer) {
            faults = fewer;
        }
    }
    ((1..=tasks).find(|tasks| fails(*tasks, &faults)).unwrap_or(tasks), faults)
}

#[test]
fn in_every_simulated_world_all_properties_hold() {
    let seeds = seed_count(36_000);
    let mut steps = 0;
    let mut failures = Vec::new();
    for seed in 0..seeds {
        let tasks = 1 + Dice::seed_from_u64(!seed).random_range(0..40_usize);
        let mut run = SimulatedRun::new(seed, tasks, &FAULTS);
        if let Err(property) = run.run() {
            let (tasks, faults) = shrunk(seed, tasks, property);
            failures.push(format!("{property:?}: seed {seed} with {tasks} tasks and {faults:?}"));
        }
        steps += run.steps;
    }
    assert!(
        failures.is_empty(),
        "{} of {seeds} seeds fail, such as\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    assert!(steps > 25 * seeds, "only {steps} steps");
}
