//! What the types cannot express about `compare:`.

use super::StageChecker;
use crate::actions::{ActionFacts, BY_THIS_PROGRAM, Check};
use crate::manifest::model::{CompareResults, ResultPaths, Stage};
use base::diag::did_you_mean;

impl Check for CompareResults {
    const FACTS: ActionFacts =
        ActionFacts { is_repeatable: false, container_obstacle: BY_THIS_PROGRAM, ..ActionFacts::MEASUREMENT };

    fn reads(&self) -> Vec<(&'static str, &str)> {
        let paths = self.results.values().flat_map(ResultPaths::all);
        paths.map(|path| ("compare.results", path.as_str())).collect()
    }

    fn check(&self, _: &Stage, checker: &mut StageChecker<'_>) {
        checker.compare(self);
    }
}

impl StageChecker<'_> {
    pub(super) fn compare(&mut self, compare: &CompareResults) {
        let columns: Vec<&str> = compare.results.keys().map(String::as_str).collect();
        if columns.len() < 2 {
            let hint = Some("`{ custom: \"{{ stages.a.outs }}\", triton: \"{{ stages.b.outs }}\" }`".to_owned());
            self.push_error(&["compare", "results"], "needs two columns or more", "nothing to compare with", hint);
        }
        if compare.metrics.is_empty() {
            self.push_error(
                &["compare", "metrics"],
                "must name a number",
                "it is empty",
                Some("`[output_tokens]`".to_owned()),
            );
        }
        for (index, row) in compare.published_server.iter().enumerate() {
            if !columns.contains(&row.column.as_str()) {
                let path = ["compare", "published_server", &index.to_string(), "column"];
                let hint = did_you_mean(&row.column, columns.iter().copied());
                self.push_error(&path, "is no column", "not under `results`", hint);
            }
        }
        for (index, row) in compare.published.iter().enumerate() {
            for name in row.values.keys().filter(|name| !columns.contains(&name.as_str())) {
                let path = ["compare", "published", &index.to_string(), "values", name];
                self.push_error(
                    &path,
                    "is no column",
                    "not under `results`",
                    did_you_mean(name, columns.iter().copied()),
                );
            }
        }
    }
}
