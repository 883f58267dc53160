//! `explain`: what a metric means, and what a key of a manifest takes.

use std::fmt::Write as _;

use serde_json::json;

use crate::cli::{CliExit, ExplainRequest, Global};
use crate::console::print;
use crate::error::CommandError;
use base::diag::{list_of, nearest};
use harness::{VerdictReason, Violation};
use plan::manifest::ManifestKey;
use report::explain::{self, ENTRIES};
use report::{Styler, TextRole, table};

pub(super) fn explain(global: &Global, request: &ExplainRequest) -> Result<CliExit, CommandError> {
    let styler = Styler::chosen(global.color.choice());
    let text = match &request.topic {
        None if request.json => format!("{:#}\n", explain::list_json()),
        None => explain::list(styler),
        Some(topic) => {
            if let Some(entry) = explain::entry(topic) {
                if request.json { format!("{:#}\n", explain::json(entry)) } else { explain::text(entry, styler) }
            } else {
                let root = ManifestKey::root();
                match (root.find(topic), VerdictReason::find(topic)) {
                    (Some(key), _) if request.json => format!("{:#}\n", json!(key)),
                    (Some(key), _) => text(key, styler),
                    // Of a key of the same name only the path is missing.
                    (None, Some(reason)) if !root.all().iter().any(|key| key.name() == topic) => {
                        if request.json {
                            format!("{:#}\n", json!(reason))
                        } else {
                            reason_text(&reason, styler)
                        }
                    }
                    _ => return Err(unknown(topic, &root)),
                }
            }
        }
    };
    print(&text);
    Ok(CliExit::Done)
}

fn unknown(topic: &str, root: &ManifestKey) -> CommandError {
    let keys = root.all();
    // `target` alone may be several keys.
    let same: Vec<&str> = keys.iter().filter(|key| key.name() == topic).map(|key| key.path.as_str()).collect();
    // `ttft_p99`, as limits and `compare` have it.
    let metric = topic.rsplit_once('_').and_then(|(metric, _)| explain::entry(metric)).map(|entry| entry.name);
    let names = ENTRIES.iter().map(|entry| entry.name);
    let words = keys.iter().flat_map(|key| [key.path.as_str(), key.path.strip_prefix("stages.").unwrap_or_default()]);
    let hint = if let Some(reason) = hint_of_reason(topic).filter(|_| same.is_empty()) {
        reason
    } else if metric.is_some() || !same.is_empty() {
        format!("there is: {}", list_of(metric.into_iter().chain(same)))
    } else if let Some(near) = nearest(topic, names.chain(words).filter(|word| !word.is_empty())) {
        format!("did you mean `{near}`?")
    } else if topic.to_lowercase().contains("valid") || topic == "verdict" {
        "`regatta manual 8` has the verdicts and their reasons".to_owned()
    } else {
        "`regatta explain` lists the metrics, `regatta explain stages` the actions and keys of a stage".to_owned()
    };
    CommandError::hinted(format!("there is no metric and no key `{topic}`"), hint)
}

/// Of names in verdicts and sweeps that have no entry of their own.
fn hint_of_reason(topic: &str) -> Option<String> {
    if serde_json::from_value::<Violation>(json!(topic)).is_ok() {
        let kind = "it is a kind of answer that contradicts its protocol, of the reason `protocol` of verdicts";
        return Some(format!("{kind}: `regatta manual 8` has the verdicts"));
    }
    (topic == "knee").then(|| "`regatta manual 23` has the knee of a sweep".to_owned())
}

/// The row of a verdict's reason.
fn reason_text(reason: &VerdictReason, styler: Styler) -> String {
    let facts = [("limit", &*reason.limit), ("verdict", &reason.class), ("what to do", reason.cure)];
    let row = |(name, text): (&str, &str)| vec![(TextRole::Quiet, name.to_owned()), (TextRole::Plain, text.to_owned())];
    let name = styler.tone(TextRole::Name, reason.id);
    format!("{name}: reason of a verdict\n{}\n\n{}", reason.about, table(styler, "  ", &facts.map(row)))
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
    let row = |(name, text): (&str, String)| vec![(TextRole::Quiet, name.to_owned()), (TextRole::Plain, text)];
    out.push('\n');
    out.push_str(&table(styler, "  ", &facts.into_iter().map(row).collect::<Vec<_>>()));
    let row = |name: &str, text: &str| vec![(TextRole::Name, name.to_owned()), (TextRole::Plain, text.to_owned())];
    if !key.values.is_empty() {
        out.push_str("\nValues\n");
        let rows: Vec<_> = key.values.iter().map(|allowed| row(&allowed.value, &allowed.about)).collect();
        out.push_str(&table(styler, "  ", &rows));
    }
    for (title, are_actions) in [("Actions", true), ("Keys", false)] {
        let rows: Vec<_> = key.keys.iter().filter(|one| one.is_action() == are_actions).map(summary).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "\n{}", if key.keys.iter().any(|one| one.choice) { "One of" } else { title });
            out.push_str(&table(styler, "  ", &rows));
        }
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
fn summary(key: &ManifestKey) -> Vec<(TextRole, String)> {
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
    vec![
        (TextRole::Name, key.name().to_owned()),
        (TextRole::Quiet, types),
        (TextRole::Plain, default),
        (TextRole::Plain, about.to_owned()),
    ]
}
