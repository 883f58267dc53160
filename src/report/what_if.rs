//! What the simulator says of several systems and settings: a table, or JSON.

use std::fmt::{self, Write as _};

use serde_json::json;

use crate::terminal::styler::{Styler, TextRole, table};
use base::spec::Length;
use base::units::three_digits;

/// One benchmark of one point of the grid.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfRow {
    /// The settings that differ between the points.
    pub settings: Vec<(String, String)>,
    /// The benchmark's task.
    pub task: String,
    pub lengths: WhatIfLengths,
    pub gpus: u32,
    pub servers: usize,
    /// Why there are no numbers.
    pub outcome: Result<WhatIfNumbers, WhatIfProblem>,
    /// No other point has more tokens per second with as many GPUs or fewer.
    pub is_best: bool,
    /// The same at several rates, up to a little more than the highest one; empty where they were not asked for.
    pub curve: Vec<WhatIfNumbers>,
    /// What would measure it. Empty: no command would.
    pub command: String,
}

impl WhatIfRow {
    /// Its settings and its benchmark.
    pub(super) fn name(&self) -> String {
        let settings: Vec<String> = self.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        [settings.join(" "), self.task.clone()].join(" ").trim().to_owned()
    }

    pub(super) fn tokens_per_gpu(&self, numbers: &WhatIfNumbers) -> f64 {
        numbers.tokens_per_second / f64::from(self.gpus.max(1))
    }
}

/// The lengths that the points with numbers have, each once.
pub(super) fn lengths(rows: &[WhatIfRow]) -> Vec<String> {
    let mut lengths: Vec<&WhatIfLengths> = Vec::new();
    for row in rows.iter().filter(|row| row.outcome.is_ok()) {
        if !lengths.contains(&&row.lengths) {
            lengths.push(&row.lengths);
        }
    }
    lengths.into_iter().map(ToString::to_string).collect()
}

/// The lengths in tokens that the numbers are for: the shipped benchmark of a simulated system is shorter than that of the real one.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIfLengths {
    pub input: Length,
    pub output: Length,
    /// `--input-tokens` was given.
    pub is_input_given: bool,
    /// `--output-tokens` was given.
    pub is_output_given: bool,
}

impl fmt::Display for WhatIfLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match (self.is_input_given, self.is_output_given) {
            (true, true) => "as given",
            (false, false) => "those of this benchmark, which --input-tokens and --output-tokens replace",
            (true, false) => "answers as in this benchmark",
            (false, true) => "prompts as in this benchmark",
        };
        write!(f, "tokens: prompts {}, answers {}: {source}", self.input, self.output)
    }
}

/// A point that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct WhatIfProblem(pub String);

/// What the model says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhatIfNumbers {
    /// The highest rate within the goal, or that of the benchmark; requests per second. `None`: all requests at once.
    pub rate: Option<f64>,
    pub tokens_per_second: f64,
    /// ms. `None`: no request has this latency, as answers of one token have no TPOT.
    pub ttft_p50: Option<f64>,
    pub ttft_p99: Option<f64>,
    pub tpot_p50: Option<f64>,
    pub tpot_p99: Option<f64>,
    /// How often a request lost its KV cache.
    pub pauses: u64,
}

/// The table, the front and the commands. `goal` is the text of the limits.
pub fn what_if_text(rows: &[WhatIfRow], goal: &str, paint: Styler) -> String {
    let mut out = String::from("A model, not a measurement");
    if goal.is_empty() {
        out.push('\n');
    } else {
        let _ = writeln!(out, ": the highest rate with {goal}; Offline without limits");
    }
    let mut keys: Vec<&String> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.settings) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let quiet = |text: &str| (TextRole::Quiet, text.to_owned());
    let mut lines = Vec::new();
    let mut head: Vec<_> = vec![quiet("")];
    head.extend(keys.iter().map(|key| quiet(key)));
    head.extend(["benchmark", "GPUs", "req/s", "tok/s", "of a GPU", "TTFT p50", "p99", "TPOT p50", "p99"].map(quiet));
    lines.push(head);
    for row in rows {
        let mut line = vec![(TextRole::Name, if row.is_best { "*" } else { " " }.to_owned())];
        line.extend(keys.iter().map(|key| {
            let value = row.settings.iter().find(|(name, _)| name == *key);
            (TextRole::Plain, value.map(|(_, value)| value.clone()).unwrap_or_default())
        }));
        line.push((TextRole::Plain, row.task.clone()));
        match &row.outcome {
            Ok(numbers) => {
                let each = row.tokens_per_gpu(numbers);
                line.push((TextRole::Plain, row.gpus.to_string()));
                line.push((TextRole::Plain, numbers.rate.map_or_else(|| "all".to_owned(), three_digits)));
                line.push((TextRole::Plain, three_digits(numbers.tokens_per_second)));
                line.push((TextRole::Plain, three_digits(each)));
                for ms in [numbers.ttft_p50, numbers.ttft_p99, numbers.tpot_p50, numbers.tpot_p99] {
                    line.push((TextRole::Plain, latency(ms)));
                }
            }
            Err(why) => line.push((TextRole::Plain, why.to_string())),
        }
        lines.push(line);
    }
    out.push_str(&table(paint, "  ", &lines));
    out.push_str("* no other point has more tok/s with as many GPUs or fewer\n");
    for lengths in lengths(rows) {
        let _ = writeln!(out, "{lengths}");
    }
    let has_command = |row: &&WhatIfRow| row.outcome.is_ok() && !row.command.is_empty();
    if rows.iter().any(|row| has_command(&row)) {
        out.push_str("\nTo measure it\n");
    }
    let mut commands: Vec<&String> = Vec::new();
    for row in rows.iter().filter(has_command) {
        if !commands.contains(&&row.command) {
            commands.push(&row.command);
            let _ = writeln!(out, "  {}", row.command);
        }
    }
    out
}

/// All rows as JSON.
pub fn what_if_json(rows: &[WhatIfRow], goal: &str) -> String {
    let points: Vec<_> = rows
        .iter()
        .map(|row| {
            let settings: serde_json::Map<_, _> =
                row.settings.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
            let mut point = json!({"settings": settings, "task": row.task,
                "input_tokens": row.lengths.input, "output_tokens": row.lengths.output, "gpus": row.gpus, "servers": row.servers,
                "pareto": row.is_best, "command": row.command});
            match &row.outcome {
                Ok(n) => {
                    point["rate"] = json!(n.rate);
                    point["tokens_per_second"] = json!(n.tokens_per_second);
                    point["ttft_ms"] = json!({"p50": n.ttft_p50, "p99": n.ttft_p99});
                    point["tpot_ms"] = json!({"p50": n.tpot_p50, "p99": n.tpot_p99});
                    point["preemptions"] = json!(n.pauses);
                }
                Err(why) => point["error"] = json!(why.to_string()),
            }
            point
        })
        .collect();
    format!("{:#}\n", json!({"simulated": true, "note": "a model, not a measurement", "goal": goal, "points": points}))
}

/// A latency in ms that no request may have.
pub(super) fn latency(ms: Option<f64>) -> String {
    ms.map_or_else(|| "n/a".to_owned(), |ms| format!("{} ms", three_digits(ms)))
}
