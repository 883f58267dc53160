//! `guidellm benchmark`, the command line of before 0.8: an option for each setting.

use serde_json::Value;

use super::data::{GuideLlmData, pairs};
use super::measured::GuideLlmRun;
use super::warm_up::WarmUp;
use crate::command_line::options::{GivenOption, Opt, flag, many, one, read};
use crate::command_line::translation::{Translation, TranslationBuilder};
use crate::command_line::translation_error::TranslationError;
use base::spec::Quantity;

const TOOL: &str = "guidellm benchmark";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--target"]), one(&["--model"]), one(&["--backend", "--backend-type"]), one(&["--backend-kwargs", "--backend-args"]), one(&["--request-type", "--request-format"]), one(&["--request-formatter-kwargs"]),
    one(&["--profile", "--rate-type"]), one(&["--rate"]), one(&["--data"]), one(&["--data-args"]), one(&["--data-samples"]), one(&["--data-column-mapper"]), one(&["--data-sampler"]), one(&["--data-preprocessors"]), one(&["--data-preprocessors-kwargs"]),
    one(&["--data-request-formatter"]), one(&["--data-collator"]), one(&["--data-num-workers"]), one(&["--dataloader-kwargs"]), one(&["--data-finalizer"]), one(&["--images-per-request"]),
    one(&["--processor", "--tokenizer"]), one(&["--processor-args"]), one(&["--random-seed"]), one(&["--max-seconds"]), one(&["--max-requests"]),
    one(&["--max-errors"]), one(&["--max-error-rate"]), one(&["--max-global-error-rate"]), many(&["--over-saturation", "--detect-saturation", "--stop-over-saturated"]), flag(&["--default-over-saturation"]),
    one(&["--warmup", "--warmup-percent"]), one(&["--cooldown", "--cooldown-percent"]), one(&["--rampup"]), one(&["--scenario", "-c", "--config"]),
    one(&["--output-dir"]), one(&["--output-path"]), many(&["--outputs", "--output-formats"]), one(&["--output-extras"]), one(&["--output-sampling"]), one(&["--sample-requests"]), one(&["--output-kwargs"]),
    flag(&["--disable-console", "--disable-console-outputs"]), flag(&["--disable-console-interactive", "--disable-progress"]), flag(&["--display-scheduler-stats"]), one(&["--prefer-response-metrics"]),
];

/// Options without a meaning here, and why.
#[rustfmt::skip]
const UNTRANSLATED: &[(&[&str], &str)] = &[
    (&["--output-dir", "--output-path", "--outputs", "--output-extras", "--output-sampling", "--sample-requests", "--output-kwargs"], "results are kept with the run: result.json, requests.jsonl, report.html"),
    (&["--disable-console", "--disable-console-interactive", "--display-scheduler-stats"], "`regatta -v` prints more, `-q` less"),
    (&["--max-errors", "--max-error-rate", "--max-global-error-rate"], "how many requests may fail is `limits: { failures: 1% }`; a run is not cut off for it"),
    (&["--over-saturation", "--default-over-saturation"], "a run is not cut off: its verdict shows whether the server kept up"),
    (&["--cooldown"], "all requests are measured to their end; `regatta report` shows the steady part"),
    (&["--rampup"], "a level that rises is `bench.ramp`"),
    (&["--data-args", "--data-column-mapper", "--data-sampler", "--data-preprocessors", "--data-preprocessors-kwargs", "--data-request-formatter", "--data-collator", "--data-num-workers", "--dataloader-kwargs", "--data-finalizer"], "prompts are made up, or a file has them in its `prompt`"),
    (&["--processor-args"], "a tokenizer is a file here, nothing is downloaded or run for it"),
    (&["--images-per-request"], "images are not sent"),
    (&["--prefer-response-metrics"], "the server's counts are used wherever it reports them"),
    (&["--request-formatter-kwargs"], "further fields of a request are --extra NAME:VALUE"),
];

pub(super) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut builder = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut builder);
    for word in line.plain.iter().chain(&line.behind) {
        builder.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    if let Some(name) = line.value("--scenario") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: its settings are in the scenario `{name}`, which is not read; give them as options"
            ),
        );
    }
    let mut run = GuideLlmRun::default();
    for given in &line.given {
        option(given, &mut run, &mut builder);
    }
    run.finish(builder)
}

fn option(given: &GivenOption, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    let value = given.value();
    let text = || Some(value.to_owned());
    match given.name {
        "--target" => run.target = text(),
        "--model" => run.model = text(),
        "--backend" if value == "openai_http" => {}
        "--backend" => {
            builder.push_error(format!("`{}` is not measured: it is no server over HTTP", given.as_written()));
        }
        "--backend-kwargs" => backend(value, run, builder),
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
        "--max-seconds" => run.seconds = number(given, builder),
        "--max-requests" => run.requests = number(given, builder).map(|count| count.map(|count| count as u64)),
        "--warmup" => match number(given, builder) {
            Some(Quantity::Known(amount)) => run.warmup = Some(WarmUp::of(amount)),
            Some(Quantity::Unknown(_)) => builder.push_error(format!("`{}` is no number", given.as_written())),
            None => {}
        },
        name => {
            let why = UNTRANSLATED
                .iter()
                .find(|(names, _)| names.contains(&name))
                .map_or("there is nothing like it here", |it| it.1);
            builder.push_untranslated(given.as_written(), why);
        }
    }
}

/// Why parts of `extras` have no place.
const OTHER_EXTRAS: &str =
    "of `extras` only the fields of its `body` and the `headers` are sent: a message has a role and a text";

/// Fields of the backend, which may have a key among them.
pub(super) fn backend(text: &str, run: &mut GuideLlmRun, builder: &mut TranslationBuilder) {
    for (name, value) in pairs(text) {
        let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
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
                let all = value.as_object().into_iter().flatten();
                run.add_headers(&value["headers"]);
                for (name, _) in all.filter(|(name, _)| !["body", "headers"].contains(&name.as_str())) {
                    builder.push_untranslated(format!("extras.{name}=…"), OTHER_EXTRAS);
                }
            }
            // They may have a key.
            name if name.starts_with("extras") => {
                builder.push_untranslated(format!("{name}=…"), OTHER_EXTRAS);
            }
            "verify" => run.verifies_certificate = plain.eq_ignore_ascii_case("true"),
            "timeout" | "timeout_connect" => {
                builder.push_untranslated(
                    format!("{name}={plain}"),
                    "a request is given up by `request.deadline` or --stall-timeout",
                );
            }
            _ => builder.push_untranslated(format!("{name}={plain}"), "there is nothing like it here"),
        }
    }
}

fn number(given: &GivenOption, builder: &mut TranslationBuilder) -> Option<Quantity<f64>> {
    let is_limit = |number: &Quantity<f64>| number.known().is_none_or(|number| number.is_finite() && *number >= 0.0);
    let number = given.number::<f64>().filter(is_limit);
    if number.is_none() {
        builder.push_error(format!("`{}` is no number", given.as_written()));
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
    let all: Option<Vec<_>> = text.split(',').map(|part| part.trim().parse().ok().filter(is_level)).collect();
    all.unwrap_or_else(|| {
        builder.push_error(format!("`{}`: numbers above 0 with commas between them", given.as_written()));
        Vec::new()
    })
}
