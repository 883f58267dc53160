//! `inference-perf`: its file of settings and its options are one list, since the option `--a.b` is the setting `b` of
//! `a`.

use serde_json::{Map, Value, json};

use crate::command_line::{
    CHAT, COMPLETIONS, GivenOption, ParsedLine, TranslatedLoad, TranslationBuilder, TranslationResult, api_key,
    tool_table,
};
use base::units::unquoted;

tool_table!(
    TABLE,
    ["inference-perf"],
    [
        ("api_key", api_key),
        ("prompts", prompts),
        ("stages", stages),
        ("traffic_split", traffic_split),
        ("retries", retries),
    ]
);

/// `content` reads a file.
pub(crate) fn translate(words: &[String], content: &dyn Fn(&str) -> Option<String>) -> TranslationResult {
    let mut settings = Vec::new();
    if let Some(file) = TABLE.read(words, &mut TranslationBuilder::default()).value("--config_file") {
        let Some(config) = content(file).and_then(|text| base::files::parse_yaml(&text).ok()) else {
            let sentence =
                format!("cannot translate the line: its settings are in `{file}`, which is absent or not YAML");
            return TranslationBuilder::nothing(TABLE.program, sentence + "; import it where the file is");
        };
        flatten("--", &config, &mut settings);
    }
    // The last value of a setting counts: an option of the line overrides the file.
    settings.extend_from_slice(words);
    TABLE.measurement(&settings, |line, load| {
        let (protocol, path) = if line.setting("--api.type") == "chat" { CHAT } else { COMPLETIONS };
        load.put("protocol", protocol);
        load.put("warmup", "0");
        load.address(line.setting("--server.base_url"), path, path);
        load.streaming(line.setting("--api.streaming") == "true");
        if line.setting("--server.ignore_eos") == "true" {
            load.flag("extra.ignore_eos");
        }
    })
}

/// The settings of a file as options. A list is JSON, and so is an object that is itself an option.
fn flatten(prefix: &str, settings: &Map<String, Value>, words: &mut Vec<String>) {
    for (key, value) in settings {
        let name = format!("{prefix}{key}");
        match value {
            Value::Object(inner) if TABLE.row(&name).is_none_or(|row| row.default.is_some()) => {
                flatten(&format!("{name}."), inner, words);
            }
            Value::Null => {}
            value => words.extend([name, unquoted(value)]),
        }
    }
}

/// The levels, which are measured one after the other.
fn stages(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let kind = line.setting("--load.type");
    let (key, level, end) = match kind {
        "constant" | "poisson" => ("rate", "rate", "duration"),
        "concurrent" => ("concurrency", "concurrency_level", "num_requests"),
        _ => return false,
    };
    let list: Vec<Map<String, Value>> = serde_json::from_str(given.value()).unwrap_or_default();
    let values = |name: &str| list.iter().filter_map(|stage| stage.get(name).map(unquoted)).collect::<Vec<_>>();
    let (levels, ends) = (values(level), values(end));
    let Some(last) = ends.last().filter(|_| levels.len() == ends.len()) else { return false };
    load.level(key, &GivenOption { name: given.name, written: given.written.clone(), values: levels });
    if ends.iter().any(|end| end != last) {
        let reason = "all levels of a sweep end alike, like the last one";
        load.builder.push_untranslated_load(format!("{end}: {}", ends.join(", ")), reason);
    }
    if key == "rate" {
        load.put("arrivals", "poisson");
        load.put("stop.duration", format!("{last}s"));
    } else {
        load.put("stop.requests", last);
    }
    if kind == "constant" {
        load.builder.note(
            "`constant` of inference-perf draws random gaps and scales them to the duration, so that the number of \
            requests is exact; Regatta sends Poisson arrivals at that rate",
        );
    }
    true
}

/// It sends a request again whose connection failed before the headers of the answer.
fn retries(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    load.whole("retries.times", given);
    load.set("retries.on", json!(["connect"]));
    load.set("retries.pause", json!(format!("{}s", line.setting("--load.request_retry_backoff_sec"))));
    load.builder.note("inference-perf doubles the pause before each further attempt; in Regatta all are alike");
    true
}

/// Made-up prompts.
fn prompts(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let is_shared = given.value() == "shared_prefix";
    let [input, output] = match given.value() {
        "random" | "synthetic" => ["--data.input_distribution", "--data.output_distribution"],
        "shared_prefix" => ["--data.shared_prefix.question_len", "--data.shared_prefix.output_len"],
        _ => return false,
    };
    if is_shared {
        let count = line.first_number::<u32>(&["--data.shared_prefix.num_groups"]);
        load.prefixes(count, &line.first_number(&["--data.shared_prefix.system_prompt_len"]));
    }
    length(input, "input_tokens", is_shared, line, load) && length(output, "output_tokens", is_shared, line, load)
}

/// A number, where `is_number` and no distribution is given, or a distribution.
fn length(path: &str, key: &'static str, is_number: bool, line: &ParsedLine, load: &mut TranslatedLoad) -> bool {
    let is_set = |field: &str| line.has(&format!("{path}.{field}"));
    if is_number && !["type", "min", "max", "mean", "std_dev"].into_iter().any(is_set) {
        load.put(key, line.first_number::<u32>(&[path]).to_string());
        return true;
    }
    let setting = |field: &str| line.setting(&format!("{path}.{field}"));
    let number = |field: &str| setting(field).parse::<f64>().unwrap_or_default();
    let (min, max, mean) = (number("min") as u32, number("max") as u32, number("mean") as u32);
    load.put(key, mean.to_string());
    match setting("type") {
        "fixed" => {}
        "uniform" => load.length_between(key, &min.into(), &max.into()),
        law @ ("normal" | "lognormal") => {
            let law = json!({law: {"mean": number("mean"), "stddev": number("std_dev"), "min": min, "max": max}});
            load.keys.insert(key.to_owned(), law);
        }
        _ => return false,
    }
    true
}

/// `[{"name": "a", "split": 0.7}, …]`
fn traffic_split(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    let adapters: Vec<Map<String, Value>> = serde_json::from_str(given.value()).unwrap_or_default();
    let weights =
        adapters.iter().filter_map(|adapter| Some((unquoted(adapter.get("name")?), adapter.get("split")?.clone())));
    load.set("request.adapters", weights.collect());
    !adapters.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TranslatedBench, Translation, TranslationKind};

    /// The configuration of the guide, with a distribution of lengths.
    const CONFIG: &str = "
data:
  type: random
  input_distribution: { min: 10, max: 100, mean: 50, std_dev: 10, total_count: 100 }
  output_distribution: { min: 10, max: 100, mean: 50, std_dev: 0, type: fixed }
load:
  type: constant
  stages:
  - rate: 1
    duration: 30
  - rate: 2
    duration: 30
  lora_traffic_split:
  - { name: sql, split: 0.75 }
  - { name: chat, split: 0.25 }
api:
  type: chat
  streaming: true
server:
  type: vllm
  model_name: m
  base_url: http://0.0.0.0:8000
  ignore_eos: true
tokenizer:
  pretrained_model_name_or_path: m
report:
  request_lifecycle: { summary: true, per_stage: true }
";

    fn import(config: &str, options: &str) -> Translation {
        let words: Vec<String> =
            format!("--config_file c.yml {options}").split_whitespace().map(str::to_owned).collect();
        translate(&words, &|_| Some(config.to_owned())).unwrap_or_else(|error| panic!("{error}"))
    }

    fn bench(config: &str, options: &str) -> TranslatedBench {
        let TranslationKind::Bench(bench) = import(config, options).kind else { panic!("no benchmark") };
        bench
    }

    #[test]
    fn a_file_of_settings_is_a_sweep_over_its_stages() {
        let translation = import(CONFIG, "");
        let TranslationKind::Bench(bench) = translation.kind else { panic!("no benchmark") };
        let args = bench.args.join(" ");
        for part in [
            "http://0.0.0.0:8000 --model m --protocol openai-chat --rate 1,2 --arrivals poisson --duration 30s",
            "--output-tokens 50 --ignore-eos --streaming",
        ] {
            assert!(args.contains(part), "`{part}` is missing in {args}");
        }
        assert_eq!(bench.keys["request"]["adapters"], json!({"sql": 0.75, "chat": 0.25}));
        let normal = json!({"normal": {"mean": 50.0, "stddev": 10.0, "min": 10, "max": 100}});
        assert_eq!(bench.keys["input_tokens"], normal);
        let lost = translation.untranslated.iter().filter(|option| option.is_workload);
        assert_eq!(lost.map(|option| option.argument.as_str()).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn options_of_the_line_count_before_the_file_and_unknown_settings_are_errors() {
        let translation = import(CONFIG, "--server.base_url http://h:1 --api.streaming false");
        let TranslationKind::Bench(bench) = translation.kind else { panic!("no benchmark") };
        assert!(bench.args[0] == "http://h:1" && bench.args.contains(&"--no-streaming".to_owned()), "{bench:?}");
        let users = CONFIG.replace("type: constant", "type: concurrent").replace("duration: 30", "num_requests: 9");
        let TranslationKind::Bench(bench) = import(&users.replace("- rate:", "- concurrency_level:"), "").kind else {
            panic!("no benchmark")
        };
        assert!(bench.args.join(" ").contains("--concurrency 1,2 --requests 9"), "{bench:?}");
        for (option, lost) in [
            ("--load.type trace_replay", "--load.stages"),
            ("--data.type shareGPT", "--data.type shareGPT"),
            ("--load.stages []", "--load.stages []"),
        ] {
            let options = import(CONFIG, option).untranslated;
            let is_lost = options.iter().any(|option| option.is_workload && option.argument.starts_with(lost));
            assert!(is_lost, "{option}: {options:?}");
        }
        let words = ["--config_file".to_owned(), "c.yml".to_owned()];
        let wrong = CONFIG.replace("model_name: m", "modell_name: m");
        let error = translate(&words, &|_| Some(wrong.clone())).unwrap_err().to_string();
        assert!(error.contains("--server.modell_name"), "{error}");
        let absent = translate(&words, &|_| None).unwrap().kind;
        assert!(
            matches!(&absent, TranslationKind::Nothing(why) if why.contains("import it where the file is")),
            "{absent:?}"
        );
    }

    #[test]
    fn a_shared_prefix_has_lengths_as_numbers_or_distributions_and_an_object_that_has_no_place_is_named_whole() {
        let shared = CONFIG.replace(
            "type: random",
            "type: shared_prefix\n  shared_prefix: { num_groups: 4, \
            system_prompt_len: 300, question_len: { type: uniform, min: 10, max: 20 } }",
        );
        let made = bench(&shared, "");
        assert_eq!(made.keys["prefixes"], json!({"count": 4, "tokens": 300}));
        assert_eq!(made.keys["input_tokens"], json!({"uniform": {"min": 10, "max": 20}}));
        assert!(made.args.join(" ").contains("--output-tokens 50"), "{made:?}");
        let images = format!("{CONFIG}\nx:\n")
            .replace("\nx:\n", "")
            .replace("data:\n", "data:\n  multimodal: { image: { count: 2 } }\n");
        let lost = import(&images, "").untranslated;
        let image = lost.iter().find(|option| option.argument.starts_with("--data.multimodal {"));
        assert!(image.is_some_and(|option| option.is_workload), "{lost:?}");
    }

    #[test]
    fn headers_are_an_object_and_secrets_are_not_shown() {
        let made = bench(CONFIG, "--api.headers {\"x-team\":\"a\"} --server.api_key hush");
        let args = made.args.join(" ");
        assert!(args.contains("--header x-team:a") && args.contains("API_KEY") && !args.contains("hush"), "{args}");
        let lost = import(CONFIG, "--tokenizer.token hush").untranslated;
        assert!(!format!("{lost:?}").contains("hush"), "{lost:?}");
    }
}
