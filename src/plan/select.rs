//! `--until` and `--only`: which tasks of a plan are wanted.

use super::task::Plan;
use base::diag::{Diagnostic, Diagnostics, did_you_mean};

impl Plan {
    /// For each task whether it is wanted. `until`: these and all they need; `only`: just these; neither: all.
    /// A name is a stage (all its tasks) or one task.
    ///
    /// # Errors
    /// Every name that is neither, with a suggestion.
    pub fn select(&self, until: &[String], only: &[String]) -> Result<Vec<bool>, Diagnostics> {
        let mut found = Diagnostics::new();
        let mut wanted = vec![until.is_empty() && only.is_empty(); self.tasks.len()];
        for name in until.iter().chain(only) {
            let mut any = false;
            for (task, wanted) in self.tasks.iter().zip(&mut wanted) {
                if task.stage == *name || task.id.as_str() == name {
                    *wanted = true;
                    any = true;
                }
            }
            if !any {
                let mut known: Vec<&str> = self.tasks.iter().map(|task| task.stage.as_str()).collect();
                known.dedup();
                known.extend(self.tasks.iter().map(|task| task.id.as_str()).filter(|id| id.contains('/')));
                let unknown = Diagnostic::error(format!("there is no stage or task `{name}`"));
                found.push(unknown.maybe_hint(did_you_mean(name, known.iter().copied())));
            }
        }
        if only.is_empty() {
            // Needs point backwards, so one sweep from the end reaches everything.
            for at in (0..self.tasks.len()).rev() {
                if wanted.get(at) == Some(&true) {
                    for need in self.tasks.get(at).into_iter().flat_map(|task| &task.needs) {
                        if let Some(wanted) = wanted.get_mut(need.task as usize) {
                            *wanted = true;
                        }
                    }
                }
            }
        }
        found.or(wanted)
    }

    /// The `KEY=VALUE` arguments that make this plan again, wherever they are typed: those of the command line, and the
    /// values that the environment decided.
    pub fn settings(&self) -> Vec<String> {
        let mut all: Vec<String> = self.given.keys().cloned().collect();
        for name in self.of_environment.keys() {
            let start = format!("{name}=");
            if let Some(value) = self.params.get(name).filter(|_| !all.iter().any(|word| word.starts_with(&start))) {
                all.push(format!("{start}{}", argument(value)));
            }
        }
        all
    }

    /// Command-line options that change nothing for the chosen tasks, a sentence for each.
    pub fn idle(&self, chosen: &[bool]) -> Vec<String> {
        let at_work = |stage: &String| {
            self.tasks
                .iter()
                .zip(chosen)
                .any(|(task, chosen)| *chosen && task.skipped.is_none() && task.stage == *stage)
        };
        self.given
            .iter()
            .filter(|(_, users)| !users.is_empty() && !users.iter().any(at_work))
            .map(|(word, users)| {
                let users: Vec<&str> = users.iter().map(String::as_str).collect();
                let (names, are) = (users.join(", "), if users.len() == 1 { "is" } else { "are" });
                format!("{word} changes nothing here: only {names} would use it, and {are} skipped or not selected")
            })
            .collect()
    }
}

/// A value for display as it is typed: a list is `a,b`.
fn argument(shown: &str) -> String {
    let items: Option<Vec<serde_json::Value>> = serde_json::from_str(shown).ok();
    let Some(items) = items else { return shown.to_owned() };
    let texts: Vec<String> =
        items.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect();
    texts.join(",")
}
