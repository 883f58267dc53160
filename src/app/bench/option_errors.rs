//! Errors of the manifest that a `regatta bench` line means, with the line's options in place of the manifest's keys and its file.

use crate::cli::BenchRequest;
use crate::error::CommandError;
use base::diag::{Diagnostic, Diagnostics};
use base::spec::RequestField;

/// Where all that options set is.
const BENCH: &str = "stages.bench.bench.";

/// Keys below it, and their options; those below `request` are in [`RequestField`]. A key stands for those below it, too.
const OPTIONS: [(&str, &str); 26] = [
    ("target", "TARGET"),
    ("protocol", "--protocol"),
    ("model", "--model"),
    ("endpoint", "--endpoint"),
    ("tls", "--cacert, --insecure, --cert"),
    ("api_key_env", "--api-key-env"),
    ("ready_timeout", "--ready-timeout"),
    ("extra", "--extra"),
    ("end_id", "--end-id"),
    ("rate", "--rate"),
    ("concurrency", "--concurrency"),
    ("sweep", "--concurrency, --rate or --sweep"),
    ("speed", "--trace"),
    ("stop.requests", "--requests"),
    ("stop.duration", "--duration"),
    ("input_tokens", "--input-tokens"),
    ("output_tokens", "--output-tokens"),
    ("data.max_input_tokens", "--max-input-len"),
    ("data", "--data"),
    ("tokenizer", "--tokenizer"),
    ("warmup", "--warmup"),
    ("triton_num_clients_per_frontend", "--connections"),
    ("stream", "--stream"),
    ("stall_timeout", "--stall-timeout"),
    ("slo", "--goodput"),
    ("vocab_size", "--vocab-size"),
];

pub(super) fn name_options(error: CommandError, request: &BenchRequest, manifest: &str) -> CommandError {
    let CommandError::Manifest(found) = error else { return error };
    let mut named = Diagnostics::new();
    for one in found.into_list() {
        named.push(name_option(one, request, manifest));
    }
    CommandError::Manifest(named)
}

fn name_option(mut found: Diagnostic, request: &BenchRequest, manifest: &str) -> Diagnostic {
    let place = found.primary.as_ref().filter(|label| label.span.source().text() == manifest);
    let Some((label, key)) = place.map(|label| (label.text.clone(), key_at(manifest, label.span.line()))) else {
        return found;
    };
    let Some(option) = key.strip_prefix(BENCH).and_then(|key| option(key, request)) else { return found };
    let named = format!("`{BENCH}");
    found.message =
        match found.message.split_once(&named).and_then(|(before, rest)| Some((before, rest.split_once('`')?.1))) {
            Some((before, after)) => format!("{before}`{option}`{after}"),
            None => format!("`{option}`: {}", found.message),
        };
    if !label.is_empty() && !label.contains(BENCH.trim_end_matches('.')) {
        found.message = format!("{}: {label}", found.message);
    }
    (found.primary, found.further) = (None, Vec::new());
    found
}

fn option(key: &str, request: &BenchRequest) -> Option<String> {
    if let Some(limit) = key.strip_prefix("limits.") {
        let given = request.limits.iter().find(|(key, _)| key == limit);
        return Some(given.map_or_else(
            || format!("--{}", limit.replace('_', "-")),
            |(key, value)| format!("--limit {key}={value}"),
        ));
    }
    if let Some(field) = key.strip_prefix("request.") {
        let field = RequestField::find(field.split('.').next()?)?;
        return field.option.map(|option| format!("--{}", option.name));
    }
    let is_of = |known: &str| key.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    OPTIONS.iter().find(|(known, _)| is_of(known)).map(|(_, option)| (*option).to_owned())
}

/// The key on a line, counted from 1, with those that it is below.
fn key_at(manifest: &str, line: usize) -> String {
    let mut path: Vec<(usize, &str)> = Vec::new();
    for line in manifest.lines().take(line) {
        let begin = line.trim_start();
        let Some((key, _)) = begin.split_once(':') else { continue };
        let indent = line.len() - begin.len();
        path.retain(|(above, _)| *above < indent);
        path.push((indent, key));
    }
    path.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_names_an_option_of_the_line() {
        let command = crate::cli::command();
        let bench = command.find_subcommand("bench").unwrap();
        let known = |option: &str| bench.get_arguments().any(|it| it.get_long() == option.strip_prefix("--"));
        for (key, option) in [("end_id", "--end-id"), ("api_key_env", "--api-key-env")] {
            assert!(OPTIONS.contains(&(key, option)) && known(option), "{key}");
        }
    }

    #[test]
    fn a_line_has_its_key_with_those_above() {
        let text = "regatta: 1\nstages:\n  bench:\n    bench:\n      stop:\n        duration: abc\n      limits:\n        foo: '3'\n";
        assert_eq!(key_at(text, 6), "stages.bench.bench.stop.duration");
        assert_eq!(key_at(text, 8), "stages.bench.bench.limits.foo");
        assert_eq!(key_at(text, 1), "regatta");
    }
}
