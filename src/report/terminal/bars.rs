//! Bars on a terminal: one for the run, one for each task that has been running for a moment.

use std::time::{Duration, Instant};

use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::terminal::styler::{Styler, clean, duration_text};
use base::event::TaskId;

/// Redraws per second, at most.
const HERTZ: u8 = 10;
/// A task that ends sooner than this has no bar: ten thousand short tasks must not flicker.
const A_MOMENT: Duration = Duration::from_millis(150);
/// More bars than this do not fit; the rest is a number in the line of the run.
const SHOWN: usize = 12;

/// A task of which it is not known how far it is.
const SPINNER: &str = "  {spinner} {prefix:.cyan}  {wide_msg}";

pub(super) struct Bars {
    multi: MultiProgress,
    run: ProgressBar,
    tasks: IndexMap<TaskId, Bar>,
    styler: Styler,
}

struct Bar {
    since: Instant,
    /// Absent until the task has been running for a moment.
    shown: Option<ProgressBar>,
}

impl Bars {
    pub fn on_stdout(styler: Styler) -> Self {
        Self::on(ProgressDrawTarget::stdout_with_hz(HERTZ), styler)
    }

    fn on(target: ProgressDrawTarget, paint: Styler) -> Self {
        let multi = MultiProgress::with_draw_target(target);
        let run = multi.add(ProgressBar::new(0));
        run.set_style(style(paint, "{bar:24.green/dim} {pos}/{len} {elapsed:.dim} {wide_msg}"));
        Self { multi, run, tasks: IndexMap::new(), styler: paint }
    }

    /// Records since when each running task runs. Cheap: nothing is drawn.
    pub fn note(&mut self, task: &TaskId, run_state: &RunState) {
        let runs = run_state.tasks.get(task).is_some_and(|entry| !entry.state.is_finished());
        if runs && !self.tasks.contains_key(task) {
            self.tasks.insert(task.clone(), Bar { since: Instant::now(), shown: None });
        } else if !runs && let Some(Bar { shown: Some(bar), .. }) = self.tasks.shift_remove(task) {
            bar.finish_and_clear();
            self.multi.remove(&bar);
        }
    }

    /// Prints lines above the bars.
    pub fn print(&self, lines: &str) {
        if !lines.is_empty() {
            // A terminal that went away is no reason to stop a benchmark.
            let _ = self.multi.println(lines.trim_end_matches('\n'));
        }
    }

    /// Brings all bars up to date.
    pub fn draw(&mut self, run_state: &RunState) {
        // It has not begun: another one is in its way.
        if run_state.total == 0 {
            return;
        }
        let mut shown = 0;
        for (task, bar) in &mut self.tasks {
            if shown == SHOWN {
                break;
            }
            let Some(entry) = run_state.tasks.get(task) else { continue };
            if bar.shown.is_none() && bar.since.elapsed() >= A_MOMENT {
                // It is drawn as soon as it has a name: in its own style, and not in that of the library.
                let new = ProgressBar::no_length().with_style(style(self.styler, SPINNER));
                bar.shown = Some(self.multi.insert_before(&self.run, new));
            }
            if let Some(drawn) = &bar.shown {
                shown += 1;
                show(drawn, task, entry, bar.since, self.styler);
            }
        }
        self.run.set_length(run_state.total as u64);
        self.run.set_position(run_state.done() as u64);
        let unseen = if shown == SHOWN { self.tasks.len() - shown } else { 0 };
        self.run.set_message(status_line(run_state, unseen));
        self.run.tick();
    }

    /// Takes everything off the screen.
    pub fn clear(self) {
        for bar in self.tasks.values().filter_map(|bar| bar.shown.as_ref()) {
            bar.finish_and_clear();
        }
        self.run.finish_and_clear();
        let _ = self.multi.clear();
    }
}

fn style(styler: Styler, template: &str) -> ProgressStyle {
    let template = if styler == Styler::ON {
        template.to_owned()
    } else {
        template.replace(".green/dim", "").replace(".cyan", "").replace(".dim", "").replace(":}", "}")
    };
    ProgressStyle::with_template(&template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("━╸─")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

fn show(bar: &ProgressBar, task: &TaskId, entry: &TaskState, since: Instant, styler: Styler) {
    let for_long = duration_text(since.elapsed().as_secs_f64());
    let total = entry.progress.as_ref().and_then(|progress| progress.total).filter(|total| *total > 0);
    let text = entry.progress.as_ref().map(|progress| clean(&progress.text)).unwrap_or_default();
    bar.set_prefix(task.to_string());
    if let Some(total) = total {
        bar.set_style(style(styler, "  {spinner} {prefix:.cyan}  {bar:24.green/dim} {pos}/{len} {wide_msg}"));
        bar.set_length(total);
        bar.set_position(entry.progress.as_ref().map_or(0, |progress| progress.done).min(total));
        bar.set_message(format!("{text}  {for_long}"));
    } else {
        bar.set_style(style(styler, SPINNER));
        let state = match entry.state {
            TaskPhase::Serving => format!("up {for_long}"),
            TaskPhase::Retrying => format!("{for_long}, waiting for the next attempt"),
            _ if entry.service => format!("{for_long}, starting"),
            _ => for_long,
        };
        bar.set_message(format!("{state}  {text}"));
    }
    bar.tick();
}

fn status_line(run_state: &RunState, unseen: usize) -> String {
    let mut parts = Vec::new();
    if run_state.tally.cached > 0 {
        parts.push(format!("{} cached", run_state.tally.cached));
    }
    let interrupted = run_state.interrupted();
    for (n, word) in [(run_state.tally.failed - interrupted, "failed"), (interrupted, "interrupted")] {
        if n > 0 {
            parts.push(format!("{n} {word}"));
        }
    }
    if unseen > 0 {
        parts.push(format!("{unseen} more running"));
    }
    if run_state.stopping.is_some() {
        parts.push("stopping".to_owned());
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A typing error in a template would otherwise show only on a user's terminal.
    #[test]
    fn every_template_is_one() {
        for paint in [Styler::ON, Styler::OFF] {
            let mut bars = Bars::on(ProgressDrawTarget::hidden(), paint);
            bars.draw(&RunState { total: 1, ..RunState::new() });
            bars.clear();
        }
        for template in [
            "{bar:24.green/dim} {pos}/{len} {elapsed:.dim} {wide_msg}",
            "  {spinner} {prefix:.cyan}  {bar:24.green/dim} {pos}/{len} {wide_msg}",
        ] {
            let plain = template.replace(".green/dim", "").replace(".cyan", "").replace(".dim", "").replace(":}", "}");
            ProgressStyle::with_template(template).expect("with color");
            ProgressStyle::with_template(&plain).expect("without");
        }
    }
}
