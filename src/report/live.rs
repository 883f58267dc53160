//! The live display: takes each event once, folds it, and prints what a user needs now: on a terminal with bars (one
//! for the run, one for each task that has been running for a moment), elsewhere as plain lines with the same facts
//! and no control codes, or as one JSON object per line. It never decides anything and never waits: an event costs a
//! fold and at most one write, redrawing is bound to [`LiveDisplay::tick`].

use crate::event_line::{Verbosity, line, running_lines, starting_lines};
use crate::run_state::{RunState, TaskPhase, TaskState};
use crate::styler::{Styler, clean, duration_text, fit_stderr};
use crate::summary::{RunPaths, summary};
use base::event::{Event, TaskId};
use indexmap::IndexMap;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How to show a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveOptions {
    /// One JSON object per event on stdout, and nothing else.
    pub json_lines: bool,
    pub quiet: bool,
    pub verbose: bool,
    pub color: anstream::ColorChoice,
    /// Everything on stderr: stdout is for a result.
    pub aside: bool,
    /// Without the frame of a pipeline, as `regatta bench` prints its one stage.
    pub frameless: bool,
}

enum OutputMode {
    Json,
    Plain,
    Bars(Box<Bars>),
}

/// Shows a run while it happens.
pub struct LiveDisplay {
    state: RunState,
    mode: OutputMode,
    verbosity: Verbosity,
    styler: Styler,
    /// Lines that are not out yet. One event, one write; with bars, one redraw.
    pending: String,
    to: Box<dyn Write + Send>,
    began: Instant,
    drawn: Instant,
    /// When the servers that are starting are looked at next, without bars.
    show_starting_at: Instant,
    /// When the steps that are running are shown next, without bars.
    show_running_at: Instant,
    /// The reader has gone (`regatta run … | head`): print no more, but continue.
    deaf: bool,
}

/// How often a line shows the servers that are starting, where there are no bars.
const STARTING: Duration = Duration::from_secs(5);
/// How often lines show the steps that are running, where there are no bars.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// How often it is looked whether there are any: a plan may have thousands of tasks.
const A_LOOK: Duration = Duration::from_millis(200);
/// With bars, lines wait at most this long for [`LiveDisplay::tick`].
const A_FRAME: Duration = Duration::from_millis(100);

impl LiveDisplay {
    /// `to` writes to stdout, or to stderr if the look is `aside`. Bars if stdout is a terminal that can draw them.
    pub fn new(look: LiveOptions, to: Box<dyn Write + Send>) -> Self {
        if look.aside {
            return Self::to(look, to);
        }
        let styler = Styler::chosen(look.color);
        let terminal = io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let way = match (look.json_lines, terminal && !look.quiet) {
            (true, _) => OutputMode::Json,
            (false, true) => OutputMode::Bars(Box::new(Bars::on_stdout(styler, look.frameless))),
            (false, false) => OutputMode::Plain,
        };
        Self::with(look, way, styler, to)
    }

    /// To any writer, without bars and, unless color is `Always`, without control codes.
    pub fn to(look: LiveOptions, to: Box<dyn Write + Send>) -> Self {
        let styler = if look.color == anstream::ColorChoice::Always { Styler::ON } else { Styler::OFF };
        Self::with(look, if look.json_lines { OutputMode::Json } else { OutputMode::Plain }, styler, to)
    }

    fn with(look: LiveOptions, mode: OutputMode, styler: Styler, to: Box<dyn Write + Send>) -> Self {
        let LiveOptions { quiet, verbose, frameless, .. } = look;
        let verbosity = Verbosity { quiet, verbose, frameless, bars: matches!(mode, OutputMode::Bars(_)) };
        let now = Instant::now();
        Self {
            state: RunState::new(),
            mode,
            verbosity,
            styler,
            pending: String::new(),
            to,
            began: now,
            drawn: now,
            show_starting_at: now,
            show_running_at: now + HEARTBEAT,
            deaf: false,
        }
    }

    /// The next event, which happened just now.
    pub fn event(&mut self, event: &Event) {
        if matches!(event, Event::RunStarted { .. }) {
            self.began = Instant::now();
        }
        self.state.fold_at(event, Some(self.began.elapsed().as_secs_f64()));
        match &mut self.mode {
            OutputMode::Json => {
                if let Ok(json) = serde_json::to_string(event) {
                    self.pending.push_str(&json);
                    self.pending.push('\n');
                }
            }
            OutputMode::Plain => line(event, &self.state, self.verbosity, self.styler, &mut self.pending),
            OutputMode::Bars(bars) => {
                line(event, &self.state, self.verbosity, self.styler, &mut self.pending);
                if let Some(task) = event.task() {
                    bars.note(task, &self.state);
                }
                if self.drawn.elapsed() < A_FRAME {
                    return;
                }
            }
        }
        self.tick();
    }

    /// Redraws. To be called ten times a second or so, for clocks that move while nothing happens.
    pub fn tick(&mut self) {
        if let OutputMode::Bars(bars) = &mut self.mode {
            bars.print(&self.pending);
            self.pending.clear();
            bars.draw(&self.state);
            self.drawn = Instant::now();
        } else {
            self.show_long_steps();
            self.write_pending();
        }
    }

    /// Lines for servers that are not ready yet and for long steps, so that a log without a terminal shows what is
    /// waited for, and how far it is.
    fn show_long_steps(&mut self) {
        if self.verbosity.quiet || !matches!(self.mode, OutputMode::Plain) {
            return;
        }
        let (instant, now, before) = (Instant::now(), self.began.elapsed().as_secs_f64(), self.pending.len());
        if instant >= self.show_starting_at {
            starting_lines(&self.state, now - STARTING.as_secs_f64(), self.styler, &mut self.pending);
            let pause = if self.pending.len() > before { STARTING } else { A_LOOK };
            self.show_starting_at = instant + pause;
        }
        if instant >= self.show_running_at {
            self.show_running_at = instant + HEARTBEAT;
            running_lines(&self.state, now, now - HEARTBEAT.as_secs_f64(), self.styler, &mut self.pending);
        }
    }

    pub const fn state(&self) -> &RunState {
        &self.state
    }

    pub const fn set_not_needed(&mut self, servers: usize) {
        self.state.not_needed = servers;
    }

    /// The summary and the final state. `--events jsonl` prints no summary: `run_finished` is the last line.
    pub fn finish(mut self, places: &RunPaths) -> RunState {
        match std::mem::replace(&mut self.mode, OutputMode::Plain) {
            OutputMode::Json => return self.state,
            OutputMode::Plain => {}
            OutputMode::Bars(bars) => {
                bars.print(&self.pending);
                self.pending.clear();
                bars.clear();
            }
        }
        let failed = self.state.tally.failed > 0;
        // A benchmark prints its result in place of a summary.
        if !self.verbosity.frameless && (!self.verbosity.quiet || failed) {
            self.pending.push_str(&summary(&self.state, places, self.styler));
        }
        self.write_pending();
        self.state
    }

    /// One write and one flush, so that a reader of a pipe or a file sees whole lines at once.
    fn write_pending(&mut self) {
        if !self.pending.is_empty() && !self.deaf {
            self.deaf = self.to.write_all(self.pending.as_bytes()).and_then(|()| self.to.flush()).is_err();
        }
        self.pending.clear();
    }
}

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
    /// Without the bar of the run.
    is_frameless: bool,
}

struct Bar {
    since: Instant,
    /// Absent until the task has been running for a moment.
    shown: Option<ProgressBar>,
}

impl Bars {
    pub fn on_stdout(styler: Styler, is_frameless: bool) -> Self {
        Self::on(ProgressDrawTarget::stdout_with_hz(HERTZ), styler, is_frameless)
    }

    fn on(target: ProgressDrawTarget, paint: Styler, is_frameless: bool) -> Self {
        let multi = MultiProgress::with_draw_target(target);
        let run = multi.add(ProgressBar::new(0));
        run.set_style(style(paint, "{bar:24.green/dim} {pos}/{len} {elapsed:.dim} {wide_msg}"));
        Self { multi, run, tasks: IndexMap::new(), styler: paint, is_frameless }
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
            // A benchmark goes on after its terminal went away.
            let _ = self.multi.println(fit_stderr(lines.trim_end_matches('\n')));
        }
    }

    /// Updates all bars.
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
        if self.is_frameless {
            return;
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
    let is_measuring = total.is_some() && entry.progress.as_ref().is_some_and(|progress| progress.live.is_some());
    // 80 columns have room for the level and its count, and below them for what was measured so far.
    let (count, numbers) = text.split_once(", ").unwrap_or((&text, ""));
    // Each change is drawn: a prefix that changes twice flickers.
    bar.set_prefix(if is_measuring { format!("{task}  {count}") } else { task.to_string() });
    if let Some(total) = total {
        let (template, message) = if is_measuring {
            ("  {spinner} {prefix:.cyan}  {bar:12.green/dim} {elapsed:.dim}\n    {wide_msg}", numbers.to_owned())
        } else {
            ("  {spinner} {prefix:.cyan}  {bar:24.green/dim} {pos}/{len} {wide_msg}", format!("{text}  {for_long}"))
        };
        bar.set_style(style(styler, template));
        bar.set_length(total);
        bar.set_position(entry.progress.as_ref().map_or(0, |progress| progress.done).min(total));
        bar.set_message(message);
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
    use crate::test_runs;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("not poisoned").extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn displayed_text(look: LiveOptions, events: &[Event]) -> String {
        let paper = Paper::default();
        let mut live = LiveDisplay::to(look, Box::new(paper.clone()));
        for event in events {
            live.event(event);
        }
        let places = RunPaths { report: Some("report.html".into()), latest: Some("latest".into()), logs: None };
        live.finish(&places);
        let bytes = paper.0.lock().expect("not poisoned").clone();
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn a_good_run_reads_well() {
        insta::assert_snapshot!(displayed_text(LiveOptions::default(), &test_runs::valid()), @r"
        quickstart system=sim  6 tasks, run 20261120-224301-4711
        → repository/server  action.servers: 1 → 2
        ✓ repository/server  12 ms
        → triton/server  a dependent runs
        ▲ triton/server  ready after 1.2 s  127.0.0.1:40001
        → load/server  upstream `repository/server` changed
        ✓ load/server  1m 02s  VALID  1,204 tok/s  TTFT p99 212 ms
        ▼ triton/server  stopped, was up 1m 06s
        → package  never ran
        ✓ package  400 ms

        Ran
          ✓  repository/server  12 ms
          ✓  triton/server      1m 06s  service
          ✓  load/server        1m 02s
          ✓  package            400 ms
        Cached
          1 task as before
        Skipped
          smoke  `when` is false
        Results
          load/server  VALID  1,204 tok/s  TTFT p99 212 ms
                              from schedule

        done: 4 ran, 1 cached, 1 skipped in 1m 07s
          report   report.html
          outputs  latest
        ");
    }

    #[test]
    fn a_failed_run_says_what_to_do() {
        insta::assert_snapshot!(displayed_text(LiveOptions::default(), &test_runs::failing()), @r"
        quickstart system=sim  6 tasks, run 20261120-224301-4711
        → repository/server  action.servers: 1 → 2
        ✓ repository/server  12 ms
        → triton/server  a dependent runs
        ▲ triton/server  ready after 1.2 s  127.0.0.1:40001
        → load/server  upstream `repository/server` changed
        ✗ triton/server  12 s  killed by SIGKILL
        ✗ load/server  10 s  `triton/server` died
        - package  not started  `load/server` failed

        Ran
          ✓  repository/server  12 ms
        Cached
          1 task as before
        Skipped
          smoke  `when` is false
        Not started
          package  `load/server` failed

        ✗ triton/server failed after 12 s: killed by SIGKILL
          command  tritonserver --model-repository=⟦repository⟧
          cause    out of GPU memory
          try      lower `kv_cache_free_gpu_mem_fraction` (now 0.95)
          log      logs/triton.server.log
          kept     .regatta/kept/triton.server
          last lines
          │ loading model
          │ CUDA error: out of memory

        ✗ load/server failed after 10 s: `triton/server` died

        failed: 1 ran, 1 cached, 1 skipped, 2 failed, 1 not started in 14 s
          report   report.html
          outputs  latest
        ");
    }

    #[test]
    fn a_quiet_run_that_goes_well_says_nothing() {
        let quiet = LiveOptions { quiet: true, ..LiveOptions::default() };
        assert_eq!(displayed_text(quiet, &test_runs::valid()), "");
        assert!(displayed_text(quiet, &test_runs::failing()).contains("out of GPU memory"));
    }

    #[test]
    fn plain_lines_have_no_control_codes() {
        for look in [LiveOptions::default(), LiveOptions { verbose: true, ..LiveOptions::default() }] {
            let text = displayed_text(look, &test_runs::failing());
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        }
    }

    #[test]
    fn json_lines_are_the_events_and_nothing_else() {
        let text = displayed_text(LiveOptions { json_lines: true, ..LiveOptions::default() }, &test_runs::failing());
        let read: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).expect("an event")).collect();
        assert_eq!(read, test_runs::failing());
    }

    #[test]
    fn ten_thousand_cached_tasks_are_one_number() {
        let task = |n: usize| base::event::TaskId::new(format!("t/{n}"));
        let cached = |n| Event::TaskCached { task: task(n), done: base::event::Done::default(), out: None, from: None };
        let mut events: Vec<Event> = (0..10_000).map(cached).collect();
        let tally = base::event::TaskTally { cached: 10_000, ..Default::default() };
        events.push(Event::RunFinished { tally, exit: 0, seconds: 0.2 });
        assert_eq!(
            displayed_text(LiveOptions::default(), &events).lines().next(),
            Some("done: 10000 cached in 200 ms")
        );
    }

    /// `regatta run … | head -1` must not stop a benchmark.
    #[test]
    fn a_reader_that_left_is_no_failure() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut live = LiveDisplay::to(LiveOptions::default(), Box::new(Gone));
        for event in &test_runs::valid() {
            live.event(event);
        }
        assert_eq!(live.finish(&RunPaths::default()).tally.ran, 4);
    }

    /// A typing error in a template would otherwise show only on a user's terminal.
    #[test]
    fn every_template_is_one() {
        for paint in [Styler::ON, Styler::OFF] {
            let mut bars = Bars::on(ProgressDrawTarget::hidden(), paint, false);
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
