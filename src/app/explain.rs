//! `explain`: what a metric means, and what a key of a manifest takes.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cli::{CliExit, ExplainRequest, Global};
use crate::console::print_as;
use crate::error::CommandError;
use base::diag::{list_of, nearest};
use base::event::Verdict;
use base::spec::Statistic;
use harness::{FailureClass, FinishReason, KNEE_DEFINITION, PointRole, VerdictReason, Violation};
use plan::manifest::ManifestKey;
use report::explain::{self, ENTRIES, ExplainedNumber};
use report::{Cell, Styler, Table, TextRole};

pub(super) fn explain(global: &Global, request: &ExplainRequest) -> Result<CliExit, CommandError> {
    match &request.topic {
        None => print_as(global.styler(), request.json, explain::list_json, explain::list),
        Some(topic) => {
            let root = ManifestKey::root();
            let topic = Topic::find(topic, &root).ok_or_else(|| unknown(topic, &root))?;
            print_as(global.styler(), request.json, || topic.json(), |styler| topic.text(styler));
        }
    }
    Ok(CliExit::Done)
}

/// What a word of a report or a manifest names.
enum Topic<'k> {
    Number(&'static ExplainedNumber),
    Key(&'k ManifestKey),
    /// A verdict reason, and manifest keys of the same name.
    Reason(VerdictReason, Vec<&'k str>),
    Verdicts(Vec<Verdict>),
    /// A term and what it means.
    Term(&'static str, &'static str),
}

impl<'k> Topic<'k> {
    fn find(topic: &str, root: &'k ManifestKey) -> Option<Self> {
        // `ttft_p99`, as limits and `compare` have it.
        let is_statistic = |name: &str| Statistic::ALL.iter().any(|known| known.as_str() == name);
        let metric = || topic.rsplit_once('_').filter(|(_, name)| is_statistic(name)).map(|(metric, _)| metric);
        let number = || explain::entry(topic).or_else(|| explain::entry(metric()?)).map(Self::Number);
        let key = || root.find(topic).map(Self::Key);
        let reason = || Some(Self::Reason(VerdictReason::find(topic)?, keys_named(topic, root)));
        number().or_else(key).or_else(reason).or_else(|| verdicts(topic)).or_else(|| term(topic))
    }

    fn json(&self) -> Value {
        match self {
            Self::Number(entry) => explain::json(entry),
            Self::Key(key) => json!(key),
            Self::Reason(reason, _) => json!(reason),
            Self::Verdicts(verdicts) => verdicts
                .iter()
                .map(|verdict| json!({"verdict": verdict.as_str(), "about": verdict.about(), "cure": verdict.cure()}))
                .collect(),
            Self::Term(name, about) => json!({ "term": name, "about": about }),
        }
    }

    fn text(&self, styler: Styler) -> String {
        match self {
            Self::Number(entry) => explain::text(entry, styler),
            Self::Key(key) => text(key, styler),
            Self::Reason(reason, keys) => reason_text(reason, keys, styler),
            Self::Verdicts(verdicts) => {
                let facts = |verdict: &Verdict| {
                    let facts = [("what to do", verdict.cure())];
                    titled(verdict.as_str(), "verdict", verdict.about(), &facts, styler)
                };
                verdicts.iter().map(facts).collect::<Vec<_>>().join("\n")
            }
            Self::Term(name, about) => format!("{}: {about}\n", styler.tone(TextRole::Name, name)),
        }
    }
}

/// `OVERLOADED`, `limit_missed`, `INVALID`; all of them of `verdict`.
fn verdicts(topic: &str) -> Option<Topic<'static>> {
    let topic = topic.to_lowercase().replace(['_', '-'], " ");
    let is_meant = |verdict: &Verdict| {
        let is_group = topic == "verdict" || topic == "invalid" && verdict.is_faulty();
        is_group || verdict.as_str().to_lowercase() == topic
    };
    let verdicts: Vec<Verdict> = Verdict::ALL.into_iter().filter(is_meant).collect();
    (!verdicts.is_empty()).then_some(Topic::Verdicts(verdicts))
}

fn term(topic: &str) -> Option<Topic<'static>> {
    let name = topic.to_lowercase().replace('_', " ");
    let knee = std::iter::once(("knee", KNEE_DEFINITION));
    let mut terms = knee.chain(explain::terms()).chain(listed_terms());
    terms
        .find(|(term, _)| term.replace('_', " ").eq_ignore_ascii_case(&name))
        .map(|(term, about)| Topic::Term(term, about))
}

/// The classes in the reasons `failures` and `protocol`, how answers ended, and the points of a sweep.
fn listed_terms() -> impl Iterator<Item = (&'static str, &'static str)> {
    let failures = FailureClass::ALL.iter().map(|class| (class.as_str(), class.about()));
    let violations = Violation::ALL.iter().map(|class| (class.as_str(), class.about()));
    let reasons = FinishReason::ALL.iter().map(|reason| (reason.as_str(), reason.about()));
    let roles = PointRole::ALL.iter().map(|role| (role.as_str(), role.about()));
    failures.chain(violations).chain(reasons).chain(roles)
}

/// The paths of the keys of this name: `target` alone may be several.
fn keys_named<'k>(name: &str, root: &'k ManifestKey) -> Vec<&'k str> {
    root.all().into_iter().filter(|key| key.name() == name).map(|key| key.path.as_str()).collect()
}

fn unknown(topic: &str, root: &ManifestKey) -> CommandError {
    let keys = root.all();
    let same = keys_named(topic, root);
    let names = ENTRIES.iter().map(|entry| entry.name.as_str());
    let words = keys.iter().flat_map(|key| [key.path.as_str(), key.path.strip_prefix("stages.").unwrap_or_default()]);
    let hint = if !same.is_empty() {
        format!("there is: {}", list_of(same))
    } else if let Some(near) = nearest(topic, names.chain(words).filter(|word| !word.is_empty())) {
        format!("did you mean `{near}`?")
    } else {
        "`regatta explain` lists the metrics, `regatta explain stages` the actions and keys of a stage".to_owned()
    };
    CommandError::hinted(format!("no metric or key is called `{topic}`"), hint)
}

/// The row of a verdict's reason. Keys of its name are about something else.
fn reason_text(reason: &VerdictReason, keys: &[&str], styler: Styler) -> String {
    let keys = format!("the manifest's {}", list_of(keys.iter().copied()));
    let facts = [("limit", &*reason.limit), ("verdict", &reason.class), ("what to do", reason.cure)];
    let also = ("same name", keys.as_str());
    let facts: Vec<_> = facts.into_iter().chain(keys.contains('`').then_some(also)).collect();
    titled(reason.id, "reason of a verdict", reason.about, &facts, styler)
}

fn titled(name: &str, kind: &str, about: &str, facts: &[(&str, &str)], styler: Styler) -> String {
    let rows = facts.iter().map(|(name, text)| [Cell::quiet(*name), (*text).into()]);
    let facts = Table::list([], rows).terminal(styler, "  ");
    format!("{}: {kind}\n{about}\n\n{facts}", styler.tone(TextRole::Name, name))
}

/// One key, and the keys directly below it.
fn text(key: &ManifestKey, styler: Styler) -> String {
    let mut out = format!("{}: {}\n", styler.tone(TextRole::Name, &key.path), key.type_text());
    if !key.about.is_empty() {
        out.push_str(&key.about);
        out.push('\n');
    }
    let mut facts = vec![("required", if key.required { "yes" } else { "no" }.to_owned())];
    facts.extend(key.default_text().map(|default| ("default", default)));
    facts.push(("expression", if key.expression { "allowed: {{ … }}" } else { "not allowed" }.to_owned()));
    let mut list = |title: &str, rows: Vec<Vec<Cell>>| {
        if !rows.is_empty() {
            let _ = write!(out, "\n{title}{}", Table::list([], rows).terminal(styler, "  "));
        }
    };
    list("", facts.into_iter().map(|(name, text)| vec![Cell::quiet(name), text.into()]).collect());
    let values = key.values.iter().map(|allowed| vec![Cell::name(&allowed.value), (&allowed.about).into()]);
    list("Values\n", values.collect());
    let is_choice = key.keys.iter().any(|one| one.choice);
    for (title, are_actions) in [("Actions\n", true), ("Keys\n", false)] {
        let rows = key.keys.iter().filter(|one| one.is_action() == are_actions).map(summary);
        list(if is_choice { "One of\n" } else { title }, rows.collect());
    }
    if let Some(example) = key.example() {
        out.push_str("\nExample\n");
        for line in example.trim_end().lines() {
            let indent = if line.is_empty() { "" } else { "  " };
            let _ = writeln!(out, "{indent}{line}");
        }
    }
    out
}

/// A key among its siblings: its name, its type, whether it is required, and the first sentence on it.
fn summary(key: &ManifestKey) -> Vec<Cell> {
    let default = match key.default_text() {
        _ if key.required => "required".to_owned(),
        Some(default) => format!("[{default}]"),
        None => String::new(),
    };
    let types = if key.values.is_empty() {
        key.type_text()
    } else {
        key.values.iter().map(|allowed| allowed.value.as_str()).collect::<Vec<_>>().join(" | ")
    };
    let about = key.about.split_inclusive(". ").next().unwrap_or_default().trim_end();
    vec![Cell::name(key.name()), Cell::quiet(types), default.into(), about.into()]
}

#[cfg(test)]
mod tests {
    use harness::{LATENCIES, verdict_reasons};
    use report::compare::Judgement;

    use super::*;

    #[test]
    fn every_word_that_a_report_prints_is_explained() {
        let root = ManifestKey::root();
        let latencies = LATENCIES.iter().map(|row| row.key);
        let reasons: Vec<&str> = verdict_reasons().into_iter().map(|reason| reason.id).collect();
        let judged = [Judgement::Better, Judgement::Worse, Judgement::Equivalent, Judgement::CannotTell];
        let judged = judged.into_iter().chain([Judgement::NotJudged]).map(Judgement::as_text);
        let words = latencies.chain(reasons).chain(Verdict::ALL.map(Verdict::as_str)).chain(judged);
        let terms = explain::terms().map(|(term, _)| term);
        let words =
            words.chain(listed_terms().map(|(term, _)| term)).chain(terms).chain(["ttft_p99", "tpot_mean", "SLO"]);
        let words = words.chain(Statistic::ALL.iter().map(|statistic| statistic.as_str()));
        let printed = "INVALID limit_missed overloaded knee wrong_id SIMULATED verdict REHEARSAL smoke users schedule \
                       user_idle Poisson poisson-scaled output_ids usage.completion_tokens retokenized chunks \
                       broken_off unexplained spread scatter holm saturated again n/a ◆";
        let phrases = ["in flight", "longest stall", "Welch's test", "95 % interval", "no change of level"];
        for word in words.chain(printed.split_whitespace()).chain(phrases) {
            let topic = Topic::find(word, &root).unwrap_or_else(|| panic!("`{word}` is not explained"));
            let text = topic.text(Styler::OFF);
            assert!(text.lines().count() >= 1 && text.contains(": "), "{word}: {text}");
            assert!(!topic.json().is_null(), "{word}");
        }
        let samples = Topic::find("samples", &root).map(|topic| topic.text(Styler::OFF)).unwrap();
        assert!(samples.contains("more than 100 requests") && samples.contains("stages.mlperf.dataset"), "{samples}");
        assert!(Topic::find("xyzzy", &root).is_none());
    }
}
