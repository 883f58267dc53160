//! One model under check, and how the checks report what they find in it.

use std::path::PathBuf;

use crate::pbtxt::{PbtxtDocument, PbtxtStep, unfilled};
use crate::proto::inference::ModelConfig;
use base::diag::{Diagnostic, Diagnostics, SourceText};

/// A model's folder and its config, as far as it can be read.
pub(super) struct Model {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    pub(super) source: SourceText,
    pub(super) document: PbtxtDocument,
    pub(super) config: ModelConfig,
    /// Whether every field could be read. Rules about what is missing hold only then.
    pub(super) is_whole: bool,
    /// Version folders, the newest first.
    pub(super) versions: Vec<u64>,
}

/// One model under examination.
pub(super) struct ModelChecker<'a> {
    pub(super) model: &'a Model,
    pub(super) found: &'a mut Diagnostics,
}

impl ModelChecker<'_> {
    pub(super) fn error(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: Option<String>) {
        self.push_diagnostic(Diagnostic::error(message), way, hint);
    }

    pub(super) fn warn(&mut self, way: &[PbtxtStep<'_>], message: impl Into<String>, hint: Option<String>) {
        self.push_diagnostic(Diagnostic::warning(message), way, hint);
    }

    fn push_diagnostic(&mut self, what: Diagnostic, way: &[PbtxtStep<'_>], hint: Option<String>) {
        let span = self.model.source.span(self.model.document.place(way));
        self.found.push(what.at(span, "").maybe_hint(hint));
    }

    pub(super) fn is_ensemble(&self) -> bool {
        self.model.config.platform == "ensemble"
    }
}

/// The way to a text of `parameters`.
pub(super) const fn parameter(key: &str) -> [PbtxtStep<'_>; 4] {
    [PbtxtStep::Name("parameters"), PbtxtStep::Key(key), PbtxtStep::Name("value"), PbtxtStep::Name("string_value")]
}

/// The placeholder that a whole text is, if it is one.
pub(super) fn placeholder(text: &str) -> Option<String> {
    unfilled(text).into_iter().next().map(|unfilled| unfilled.name)
}
