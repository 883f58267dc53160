//! Variables that a run sets itself: one of the same name under `env:` would be replaced without a word.

use super::StageChecker;
use crate::manifest::model::{Stage, input_variable};
use base::diag::Diagnostic;

impl StageChecker<'_> {
    pub(super) fn own_variables(&mut self, stage: &Stage) {
        for name in stage.env.keys() {
            let input = stage.inputs.keys().find(|input| input_variable(input) == *name);
            let (why, hint) = match (name.as_str(), input) {
                ("OUT", _) => ("the output folder".to_owned(), "name it otherwise"),
                (_, Some(input)) => (format!("the input `{input}`"), "name one of them otherwise"),
                ("CUDA_VISIBLE_DEVICES", _) if stage.gpus > 0 => {
                    ("the GPUs that the stage leases".to_owned(), "remove it; `regatta run --gpus` chooses among them")
                }
                _ => continue,
            };
            let message = format!("`stages.{}.env.{name}` has no effect", self.name);
            let key = self.node.get("env").and_then(|env| env.node.get(name)).map(|entry| entry.key.clone());
            let place = key.unwrap_or_else(|| self.node.place(&["env", name]));
            self.found.push(Diagnostic::error(message).at(place, format!("the run sets it: {why}")).hint(hint));
        }
    }
}
