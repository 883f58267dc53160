//! GuideLLM's command lines: `guidellm benchmark` of before 0.8, and `guidellm run` since.

mod data;
mod load;

use serde_json::{Map, Value};

use self::data::{GuideLlmData, numeric, pairs};
use self::load::{GuideLlmRun, WarmUp};
use crate::command_line::{
    GivenOption, OptionRow, ParsedLine, TranslationBuilder, TranslationResult, idle_command, quantity, tool_table,
};
use base::diag::{ErrorText, did_you_mean, nearest};
use base::spec::Quantity;
use base::units::unquoted;

pub(crate) fn translate(words: &[String]) -> TranslationResult {
    let (command, rest) = words.split_first().map_or(("", words), |(command, rest)| (command.as_str(), rest));
    match (command, rest.first().map(String::as_str)) {
        ("run", _) => translate_run(rest),
        ("benchmark", Some("run")) => translate_benchmark(&rest[1..]),
        ("benchmark", Some(option)) if option.starts_with('-') => translate_benchmark(rest),
        ("benchmark", None) => translate_benchmark(rest),
        // The first releases had no command.
        (option, _) if option.starts_with('-') => translate_benchmark(words),
        ("", _) => TranslationBuilder::nothing(
            "guidellm",
            "cannot translate the line: its settings are in variables; give them as options, as `guidellm \
                benchmark --target URL --profile sweep --data …`",
        ),
        (command, other) => {
            let other = other.filter(|word| command == "benchmark" && !word.starts_with('-'));
            let line = [Some(command), other].into_iter().flatten();
            let line = line.collect::<Vec<_>>().join(" ");
            idle_command(&format!("guidellm {line}"), "guidellm *")
        }
    }
}

tool_table!(BENCHMARK, ["guidellm-benchmark"], []);

/// `guidellm benchmark`, the command line of before 0.8: an option for each setting.
fn translate_benchmark(words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let line = BENCHMARK.read(words, &mut builder);
    let mut run = GuideLlmRun::default();
    if let Err(sentence) = scenario(line.value("--scenario"), &line, &mut run) {
        return TranslationBuilder::nothing(BENCHMARK.program, sentence);
    }
    for given in &line.given {
        benchmark_option(given, &mut run, &mut builder);
    }
    run.finish(builder)
}

/// The data of a line's scenario, or the sentence on one that GuideLLM 0.8 does not come with
/// (guidellm/benchmark/scenarios). Their profile is the usual one, and options of the line override them.
fn scenario(name: Option<&str>, line: &ParsedLine, run: &mut GuideLlmRun) -> Result<(), ErrorText> {
    let Some(name) = name else { return Ok(()) };
    let scenarios: Map<String, Value> =
        toml::from_str(include_str!("scenarios.toml")).expect("a table of this program");
    let data = scenarios.get(name).and_then(Value::as_object).ok_or_else(|| {
        ErrorText::new(format_args!(
            "cannot translate the line: its settings are in the scenario `{name}`, which is not read; give them as \
            options"
        ))
    })?;
    run.data = if line.has("--data") { Vec::new() } else { vec![GuideLlmData::Synthetic(data.clone())] };
    Ok(())
}

fn benchmark_option(given: &GivenOption, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    let value = given.value();
    let text = || Some(value.to_owned());
    match given.name {
        "--target" => run.target = text(),
        "--model" => run.model = text(),
        "--backend" if value == "openai_http" => {}
        "--backend" => {
            builder.push_error(format!("cannot measure `{given}`: it is not an HTTP server"));
        }
        "--backend-kwargs" => backend(value, run, builder),
        "--api-key" => run.has_api_key = true,
        "--request-type" => run.request_format = text(),
        "--profile" => run.profile = text(),
        "--rate" => run.levels.extend(levels(given, builder)),
        "--data" => run.data.push(GuideLlmData::read(value)),
        "--data-samples" => {
            if let Some(samples) = given.number::<u64>().filter(|samples| *samples != Quantity::Known(0)) {
                run.samples = Some(samples);
            }
        }
        "--processor" => run.tokenizer = text(),
        "--random-seed" => run.seed = text(),
        "--data-sampler" if value == "random" => run.is_shuffled = true,
        "--max-seconds" => run.seconds = number(given, builder),
        "--max-requests" => run.requests = number(given, builder).map(|count| count.map(|count| count as u64)),
        "--warmup" => match number(given, builder) {
            Some(Quantity::Known(amount)) => run.warmup = Some(WarmUp::new(amount)),
            Some(Quantity::Unknown(_)) => builder.push_error(format!("`{given}` is not a number")),
            None => {}
        },
        name => BENCHMARK.row(name).into_iter().for_each(|row| row.push_untranslated(given, builder)),
    }
}

/// Why parts of `extras` have no place.
const OTHER_EXTRAS: &str =
    "of `extras` only the fields of its `body` and the `headers` are sent: a message has a role and a text";

/// Fields of the backend, which may have a key among them.
fn backend(text: &str, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    for (name, value) in pairs(text) {
        let plain = unquoted(&value);
        match name.as_str() {
            "kind" | "validate_backend" | "http2" | "follow_redirects" => {}
            "target" => run.target = Some(plain),
            "model" => run.model = Some(plain),
            "request_format" => run.request_format = Some(plain),
            "api_key" => run.has_api_key = true,
            "stream" => run.without_streaming = plain.eq_ignore_ascii_case("false"),
            "max_tokens" | "max_completion_tokens" => run.fields.push(format!("max_tokens:{plain}")),
            name if name.starts_with("extras.body.") => {
                run.fields.push(format!("{}:{plain}", name.trim_start_matches("extras.body.")));
            }
            "headers" | "extras.headers" if value.is_object() => run.add_headers(&value),
            name if let Some(header) = name.strip_prefix("extras.").unwrap_or(name).strip_prefix("headers.") => {
                run.headers.push(format!("{header}:{plain}"));
            }
            "extras" if ["/body", "/headers"].iter().any(|part| value.pointer(part).is_some_and(Value::is_object)) => {
                run.fields.extend(value.pointer("/body").map(Value::to_string));
                let parts = value.as_object().into_iter().flatten();
                run.add_headers(&value["headers"]);
                for (name, _) in parts.filter(|(name, _)| !["body", "headers"].contains(&name.as_str())) {
                    builder.push_untranslated_load(format!("extras.{name}=…"), OTHER_EXTRAS);
                }
            }
            // They may have a key.
            name if name.starts_with("extras") => {
                builder.push_untranslated_load(format!("{name}=…"), OTHER_EXTRAS);
            }
            "verify" => run.verifies_certificate = plain.eq_ignore_ascii_case("true"),
            "timeout" | "timeout_connect" => {
                builder.push_untranslated(
                    format!("{name}={plain}"),
                    "`request.deadline` or --stall-timeout ends a request",
                );
            }
            _ => builder.push_untranslated(format!("{name}={plain}"), "Regatta has no equivalent"),
        }
    }
}

fn number(given: &GivenOption, builder: &mut TranslationBuilder) -> Option<Quantity<f64>> {
    let is_limit = |number: &Quantity<f64>| number.known().is_none_or(|number| number.is_finite() && *number >= 0.0);
    let number = given.number::<f64>().filter(is_limit);
    if number.is_none() {
        builder.push_error(format!("`{given}` is not a number"));
    }
    number
}

/// `10`, `1,2,4` or `[1, 2, 4]`
fn levels(given: &GivenOption, builder: &mut TranslationBuilder) -> Vec<Quantity<f64>> {
    if let Some(level @ Quantity::Unknown(_)) = given.number() {
        return vec![level];
    }

    let text = given.value().trim_matches(['[', ']']);
    let is_level = |level: &Quantity<f64>| level.known().is_none_or(|level| level.is_finite() && *level > 0.0);
    let levels: Option<Vec<_>> = text.split(',').map(|part| part.trim().parse().ok().filter(is_level)).collect();
    levels.unwrap_or_else(|| {
        builder.push_error(format!("`{given}`: numbers above 0 with commas between them"));
        Vec::new()
    })
}

tool_table!(RUN, ["guidellm-run"], []);

/// `guidellm run`, the command line since 0.8: `--profile kind=constant,rate=10`.
fn translate_run(words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let line = RUN.read(words, &mut builder);
    let mut run = GuideLlmRun::default();
    if let Err(sentence) = scenario(line.value("--config"), &line, &mut run) {
        return TranslationBuilder::nothing(RUN.program, sentence);
    }
    // Values for several measurements stand in place of the profile's own.
    for given in line.given.iter().filter(|given| given.name != "--override") {
        run_option(given, &mut run, &mut builder);
    }
    for given in line.given.iter().filter(|given| given.name == "--override") {
        overrides(given, &mut run, &mut builder);
    }
    run.finish(builder)
}

fn run_option(given: &GivenOption, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    let value = given.value();
    let fields = pairs(value);
    let kind = fields.get("kind").and_then(Value::as_str).unwrap_or_default();
    match given.name {
        "--backend" if kind == "openai_http" || kind.is_empty() => backend(value, run, builder),
        "--backend" => {
            builder.push_error(format!("cannot measure `--backend kind={kind}`: it is not an HTTP server"));
        }
        "--profile" => profile(&fields, run, builder),
        "--constraint" => constraint(given, kind, &fields, run, builder),
        "--tokenizer" => run.tokenizer = fields.get("model").and_then(Value::as_str).map(str::to_owned),
        "--data" => run.data.extend(GuideLlmData::parse_all(value)),
        "--seed" => run.seed = fields.get("value").or(fields.get("seed")).map(ToString::to_string),
        "--data-preprocessor" if kind == "turn_pivot" => run.pivots_turns = true,
        "--data-loader" if fields.get("samples").and_then(quantity).is_some_and(|it| it != Quantity::Known(0)) => {
            run.samples = fields.get("samples").and_then(quantity);
        }
        name => RUN.row(name).into_iter().for_each(|row| row.push_untranslated(given, builder)),
    }
}

/// Why a field has no equivalent: the reason in the row of the option that it was before 0.8.
fn former_reason(option: &str) -> &'static str {
    BENCHMARK.row(option).map_or("", OptionRow::reason)
}

/// Fields of a profile.
const FIELDS: &str =
    "kind rate streams sweep_size strategy_type max_concurrency warmup cooldown time_scale rampup_duration";

/// Kinds of a constraint.
const CONSTRAINTS: &str =
    "max_duration max_requests min_requests over_saturation max_errors max_error_rate max_global_error_rate";

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
            "cooldown" => builder.push_untranslated(format!("cooldown={value}"), former_reason("--cooldown")),
            "rampup_duration" => {
                builder.push_untranslated_load(format!("rampup_duration={value}"), former_reason("--rampup"));
            }
            other => match nearest(other, FIELDS.split(' ')) {
                Some(near) => {
                    builder
                        .push_error(format!("`{other}={value}` is not a field of a profile; did you mean `{near}`?"));
                }
                None => builder.push_untranslated(format!("{other}={value}"), "Regatta has no equivalent"),
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
                return builder.push_error(format!("`{given}`: its `{name}` is a number above 0"));
            };
            if kind == "max_duration" {
                run.seconds = Some(limit);
            } else {
                run.requests = Some(limit.map(|limit| limit as u64));
            }
        }
        "min_requests" => builder.push_untranslated(given, "a run has a number of requests or a duration"),
        "over_saturation" => builder.push_untranslated(given, former_reason("--over-saturation")),
        other if CONSTRAINTS.split(' ').all(|kind| kind != other) => {
            let hint = did_you_mean(other, CONSTRAINTS.split(' ')).unwrap_or_default();
            builder.push_error(format!("`{given}`: there is no constraint `{other}`; {hint}"));
        }
        _ => builder.push_untranslated(given, former_reason("--max-errors")),
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
            builder.push_untranslated_load(given, "one key of a sweep is read: profile.streams or profile.rate");
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
