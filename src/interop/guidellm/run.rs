//! `guidellm run`, the command line since 0.8: `--profile kind=constant,rate=10`.

use serde_json::{Map, Value};

use super::data::{GuideLlmData, numeric, pairs};
use super::measured::GuideLlmRun;
use super::options::backend;
use super::warm_up::WarmUp;
use crate::command_line::json_number::quantity;
use crate::command_line::options::{GivenOption, Opt, flag, many, one, read};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use base::diag::{did_you_mean, nearest};
use base::spec::Quantity;
use base::units::unquoted;

const TOOL: &str = "guidellm run";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--config", "-c", "--scenario"]), one(&["--label", "-l"]), one(&["--backend"]), one(&["--profile"]), one(&["--constraint"]), one(&["--tokenizer"]), one(&["--data"]), one(&["--data-column-mapper"]),
    one(&["--data-preprocessor"]), one(&["--data-finalizer"]), one(&["--data-loader"]), one(&["--seed"]), one(&["--output"]), one(&["--metrics"]), many(&["--override"]),
    flag(&["--disable-console", "--disable-console-outputs"]), flag(&["--disable-console-interactive", "--disable-progress"]),
];

pub(super) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    if let Some(name) = line.value("--config") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: its settings are in the scenario `{name}`, which is not read; give them as options"
            ),
        );
    }
    let mut run = GuideLlmRun::default();
    // Values for several measurements stand in place of the profile's own.
    for given in line.given.iter().filter(|given| given.name != "--override") {
        option(given, &mut run, &mut builder);
    }
    for given in line.given.iter().filter(|given| given.name == "--override") {
        overrides(given, &mut run, &mut builder);
    }
    run.finish(builder)
}

fn option(given: &GivenOption, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    let value = given.value();
    let fields = pairs(value);
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    match given.name {
        "--backend" if kind == "openai_http" || kind.is_empty() => backend(value, run, builder),
        "--backend" => {
            builder.push_error(format!("`--backend kind={kind}` is not measured: it is no server over HTTP"));
        }
        "--profile" => profile(&fields, run, builder),
        "--constraint" => constraint(given, kind, &fields, run, builder),
        "--tokenizer" => run.tokenizer = fields.get("model").and_then(Value::as_str).map(str::to_owned),
        "--data" => run.data.extend(GuideLlmData::of_option(value)),
        "--seed" => run.seed = fields.get("value").or(fields.get("seed")).map(ToString::to_string),
        "--data-preprocessor" if kind == "turn_pivot" => run.pivots_turns = true,
        "--data-loader" if fields.get("samples").and_then(quantity).is_some_and(|it| it != Quantity::Known(0)) => {
            run.samples = fields.get("samples").and_then(quantity);
        }
        "--label" | "--output" | "--metrics" => {
            builder.push_untranslated(
                given.as_written(),
                "results are kept with the run: result.json, requests.jsonl, report.html",
            );
        }
        "--disable-console" | "--disable-console-interactive" => {
            builder.push_untranslated(given.as_written(), "`regatta -v` prints more, `-q` less");
        }
        _ => builder.push_untranslated(given.as_written(), "prompts are made up, or a file has them in its `prompt`"),
    }
}

/// Fields of a profile.
const FIELDS: [&str; 10] = [
    "kind",
    "rate",
    "streams",
    "sweep_size",
    "strategy_type",
    "max_concurrency",
    "warmup",
    "cooldown",
    "time_scale",
    "rampup_duration",
];

/// Kinds of a constraint.
const CONSTRAINTS: [&str; 7] = [
    "max_duration",
    "max_requests",
    "min_requests",
    "over_saturation",
    "max_errors",
    "max_error_rate",
    "max_global_error_rate",
];

fn profile(fields: &Map<String, Value>, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    for (name, value) in fields {
        match name.as_str() {
            "kind" => run.profile = value.as_str().map(str::to_owned),
            "rate" | "streams" | "sweep_size" => run.levels = numbers(value),
            "max_concurrency" => run.most_in_flight = quantity(value),
            "warmup" => run.warmup = WarmUp::read(value, builder),
            "time_scale" => run.time_scale = value.as_f64().filter(|scale| *scale > 0.0),
            "strategy_type" if value == "poisson" => run.sweeps_poisson = true,
            "strategy_type" if value == "constant" => run.sweeps_poisson = false,
            "strategy_type" => builder.push_error(format!("`strategy_type={}`: constant or poisson", unquoted(value))),
            "cooldown" => builder.push_untranslated(
                format!("cooldown={value}"),
                "all requests are measured to their end; `regatta report` shows the steady part",
            ),
            "rampup_duration" => {
                builder.push_untranslated(format!("rampup_duration={value}"), "a level that rises is `bench.ramp`");
            }
            other => match nearest(other, FIELDS) {
                Some(near) => {
                    builder.push_error(format!("`{other}={value}` is no field of a profile; did you mean `{near}`?"));
                }
                None => builder.push_untranslated(format!("{other}={value}"), "there is nothing like it here"),
            },
        }
    }
}

fn constraint(
    given: &GivenOption,
    kind: &str,
    fields: &Map<String, Value>,
    run: &mut GuideLlmRun,
    builder: &mut TranslationBuilder,
) {
    match kind {
        "max_duration" | "max_requests" => {
            let name = if kind == "max_duration" { "seconds" } else { "count" };
            let is_limit = |limit: &Quantity<f64>| limit.known().is_none_or(|limit| *limit > 0.0);
            let Some(limit) = fields.get(name).and_then(numeric).filter(is_limit) else {
                return builder.push_error(format!("`{}`: its `{name}` is a number above 0", given.as_written()));
            };
            if kind == "max_duration" {
                run.seconds = Some(limit);
            } else {
                run.requests = Some(limit.map(|limit| limit as u64));
            }
        }
        "min_requests" => builder.push_untranslated(given.as_written(), "a run has a number of requests or a duration"),
        "over_saturation" => builder.push_untranslated(
            given.as_written(),
            "a run is not cut off: its verdict shows whether the server kept up",
        ),
        other if !CONSTRAINTS.contains(&other) => {
            let hint = did_you_mean(other, CONSTRAINTS).unwrap_or_default();
            builder.push_error(format!("`{}`: there is no constraint `{other}`; {hint}", given.as_written()));
        }
        _ => builder.push_untranslated(
            given.as_written(),
            "how many requests may fail is `limits: { failures: 1% }`; a run is not cut off for it",
        ),
    }
}

/// `--override profile.streams 1,2,4`
fn overrides(given: &GivenOption, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    match given.values.as_slice() {
        [name, list] if ["profile.streams", "profile.rate"].contains(&name.as_str()) => {
            let list = list.trim_matches(['[', ']']);
            run.levels = list.split(',').filter_map(|level| level.trim().parse().ok()).collect();
        }
        _ => {
            builder
                .push_untranslated(given.as_written(), "one key of a sweep is read: profile.streams or profile.rate");
        }
    }
}

/// One number or a list of them.
fn numbers(value: &Value) -> Vec<Quantity<f64>> {
    match value {
        Value::Array(all) => all.iter().filter_map(numeric).collect(),
        one => numeric(one).into_iter().collect(),
    }
}
