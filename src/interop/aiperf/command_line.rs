//! `aiperf profile`, GenAI-Perf's successor.

use serde_json::json;

use crate::interop::command_line::conversations::{ConversationOptions, length_pairs};
use crate::interop::command_line::json_number::number;
use crate::interop::command_line::load::{
    SHAREGPT_FILE, TranslatedLoad, api_key, burstiness, duration_beside_requests, extra, goodput, header, length,
    needs_tokenizer, tokenizer, whole,
};
use crate::interop::command_line::options::{GivenOption, Opt, ParsedLine, flag, many, one, read};
use crate::interop::command_line::translation::{Translation, TranslationBuilder};
use crate::interop::command_line::translation_error::TranslationError;

const TOOL: &str = "aiperf profile";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    many(&["--model", "-m", "--model-names"]), one(&["--model-selection-strategy"]), one(&["--endpoint-type"]), one(&["--endpoint", "--custom-endpoint"]),
    flag(&["--streaming"]), many(&["--url", "-u"]), one(&["--url-strategy"]), one(&["--request-timeout-seconds"]), one(&["--api-key"]), one(&["--transport", "--transport-type"]),
    one(&["--wait-for-model-timeout"]), one(&["--wait-for-model-mode"]), one(&["--wait-for-model-interval"]), flag(&["--reset-kv-cache"]), one(&["--reset-kv-cache-timeout-seconds"]), one(&["--reset-kv-cache-path"]),
    flag(&["--server-profiler"]), one(&["--server-profiler-timeout-seconds"]), one(&["--server-profiler-start-path"]), one(&["--server-profiler-stop-path"]),
    flag(&["--use-legacy-max-tokens"]), flag(&["--per-chunk-usage"]), one(&["--connection-reuse-strategy"]), flag(&["--download-video-content"]), one(&["--request-content-type"]), one(&["--session-header"]), flag(&["--uuid-and-strip"]),
    one(&["--input-file"]), flag(&["--fixed-schedule"]), flag(&["--no-fixed-schedule"]), flag(&["--fixed-schedule-auto-offset"]), one(&["--fixed-schedule-start-offset"]), one(&["--fixed-schedule-end-offset"]),
    one(&["--public-dataset"]), one(&["--hf-subset"]), one(&["--hf-weka-dataset"]), many(&["--dataset-filter"]), one(&["--custom-dataset-type"]), one(&["--dataset-sampling-strategy"]), flag(&["--allow-dataset-wrap"]), flag(&["--no-allow-dataset-wrap"]),
    flag(&["--ignore-trace-delays"]), flag(&["--use-think-time-only"]), one(&["--max-context-length"]), one(&["--trace-session-sample-ratio"]), one(&["--config", "-f"]),
    one(&["--random-seed"]), one(&["--num-dataset-entries", "--num-prompts"]),
    one(&["--synthetic-input-tokens-mean", "--isl", "--prompt-input-tokens-mean"]), one(&["--synthetic-input-tokens-stddev", "--isl-stddev", "--prompt-input-tokens-stddev"]),
    one(&["--isl-block-size", "--prompt-input-tokens-block-size", "--synthetic-input-tokens-block-size"]),
    one(&["--output-tokens-mean", "--osl", "--prompt-output-tokens-mean"]), one(&["--output-tokens-stddev", "--osl-stddev", "--prompt-output-tokens-stddev"]),
    one(&["--seq-dist", "--sequence-distribution"]), one(&["--random-range-ratio"]), one(&["--random-corpus-style"]), one(&["--prompt-corpus"]), one(&["--cache-bust"]), one(&["--system-prompt"]), one(&["--system-prompt-file"]),
    one(&["--prefix-prompt-pool-size", "--num-prefix-prompts", "--prompt-prefix-pool-size"]), one(&["--prefix-prompt-length", "--prompt-prefix-length"]), one(&["--shared-system-prompt-length"]), one(&["--user-context-prompt-length"]),
    many(&["--extra-inputs"]), many(&["--header", "-H"]), many(&["--goodput"]), one(&["--batch-size-text", "--prompt-batch-size", "--batch-size", "-b"]), flag(&["--apply-chat-template"]),
    one(&["--concurrency"]), one(&["--prefill-concurrency"]), one(&["--request-rate"]), one(&["--request-rate-mode", "--arrival-pattern"]), one(&["--arrival-smoothness", "--vllm-burstiness"]), one(&["--request-rate-series"]),
    one(&["--request-count", "--num-requests"]), one(&["--concurrency-ramp-duration"]), one(&["--prefill-concurrency-ramp-duration"]), one(&["--request-rate-ramp-duration"]), one(&["--failed-request-threshold"]),
    one(&["--warmup-request-count", "--num-warmup-requests"]), one(&["--warmup-duration"]), one(&["--num-warmup-sessions"]), one(&["--warmup-concurrency"]), one(&["--warmup-prefill-concurrency"]), one(&["--warmup-request-rate"]), one(&["--warmup-arrival-pattern"]),
    one(&["--warmup-grace-period"]), one(&["--warmup-concurrency-ramp-duration"]), one(&["--warmup-prefill-concurrency-ramp-duration"]), one(&["--warmup-request-rate-ramp-duration"]), one(&["--agentic-cache-warmup-duration"]), one(&["--agentic-warmup-grace-period"]),
    one(&["--benchmark-duration"]), one(&["--benchmark-grace-period"]), one(&["--request-cancellation-rate"]), one(&["--request-cancellation-delay"]), one(&["--user-centric-rate"]), one(&["--num-users"]),
    one(&["--conversation-num", "--num-conversations", "--num-sessions"]), one(&["--conversation-turn-mean", "--session-turns-mean"]), one(&["--conversation-turn-stddev", "--session-turns-stddev"]),
    one(&["--conversation-turn-delay-mean", "--session-turn-delay-mean"]), one(&["--conversation-turn-delay-stddev", "--session-turn-delay-stddev"]), one(&["--conversation-turn-delay-ratio", "--session-delay-ratio"]),
    one(&["--inter-turn-delay-cap-seconds"]), one(&["--max-idle-gap-cap-seconds"]), one(&["--trace-idle-gap-cap-seconds"]), one(&["--system-idle-gap-cap-seconds"]), one(&["--replay-speedup"]), flag(&["--open-loop-replay"]), flag(&["--no-open-loop-replay"]), flag(&["--open-loop-strict"]),
    flag(&["--omit-kv-hints"]), flag(&["--force-min-tokens"]), flag(&["--no-force-min-tokens"]), one(&["--trajectory-start-min-ratio"]), one(&["--trajectory-start-max-ratio"]), flag(&["--burst-phase-starts"]),
    one(&["--synthesis-speedup-ratio"]), one(&["--synthesis-prefix-len-multiplier"]), one(&["--synthesis-prefix-root-multiplier"]), one(&["--synthesis-prompt-len-multiplier"]), one(&["--synthesis-output-len-multiplier"]), one(&["--synthesis-max-isl"]), one(&["--synthesis-max-osl"]),
    one(&["--audio-batch-size", "--batch-size-audio"]), one(&["--audio-length-mean"]), one(&["--audio-length-stddev"]), one(&["--audio-format"]), many(&["--audio-depths"]), many(&["--audio-sample-rates"]), one(&["--audio-num-channels"]),
    one(&["--image-width-mean"]), one(&["--image-width-stddev"]), one(&["--image-height-mean"]), one(&["--image-height-stddev"]), one(&["--image-batch-size", "--batch-size-image"]), one(&["--image-format"]), one(&["--image-source"]), one(&["--image-source-sampling"]),
    one(&["--video-batch-size", "--batch-size-video"]), one(&["--video-duration"]), one(&["--video-fps"]), one(&["--video-width"]), one(&["--video-height"]), one(&["--video-synth-type"]), one(&["--video-format"]), one(&["--video-codec"]),
    one(&["--video-audio-sample-rate"]), one(&["--video-audio-num-channels"]), one(&["--video-audio-codec"]), one(&["--video-audio-depth"]),
    one(&["--rankings-passages-mean"]), one(&["--rankings-passages-stddev"]), one(&["--rankings-passages-prompt-token-mean"]), one(&["--rankings-passages-prompt-token-stddev"]), one(&["--rankings-query-prompt-token-mean"]), one(&["--rankings-query-prompt-token-stddev"]),
    one(&["--artifact-directory", "--artifact-dir", "--output-artifact-dir"]), one(&["--profile-export-file", "--profile-export-prefix"]), one(&["--export-level", "--profile-export-level"]), one(&["--slice-duration"]), flag(&["--auto-plot"]), flag(&["--no-auto-plot"]), flag(&["--plot-required"]), flag(&["--export-outputs-json"]),
    one(&["--otel-url"]), many(&["--stream"]), many(&["--otel-resource-attributes"]), one(&["--gen-ai-provider"]), one(&["--mlflow-tracking-uri"]), one(&["--mlflow-experiment"]), one(&["--mlflow-run-name"]), many(&["--mlflow-tag"]), one(&["--mlflow-parent-run-id"]), many(&["--mlflow-artifact-glob"]),
    one(&["--wandb-project"]), one(&["--wandb-entity"]), one(&["--wandb-run-name"]), many(&["--wandb-tag"]), flag(&["--export-http-trace"]), flag(&["--show-trace-timing"]),
    one(&["--workers-max", "--max-workers"]), one(&["--record-processors", "--record-processor-service-count"]), one(&["--ui-type", "--ui"]), one(&["--zmq-host"]), one(&["--zmq-ipc-path"]), flag(&["--zmq-dual-bind"]), one(&["--api-port"]), one(&["--api-host"]), one(&["--stats-interval"]),
    one(&["--log-level"]), flag(&["--verbose", "-v"]), flag(&["--extra-verbose", "-vv"]), many(&["--gpu-telemetry"]), flag(&["--no-gpu-telemetry"]), many(&["--server-metrics"]), flag(&["--no-server-metrics"]), many(&["--server-metrics-formats"]),
    flag(&["--network-latency-automatic"]), one(&["--network-latency-mean"]), one(&["--network-latency-ping-interval"]),
    one(&["--tokenizer"]), one(&["--tokenizer-revision"]), flag(&["--tokenizer-trust-remote-code"]), flag(&["--use-server-token-count"]),
    one(&["--num-profile-runs"]), one(&["--profile-run-cooldown-seconds"]), one(&["--confidence-level"]), flag(&["--profile-run-disable-warmup-after-first"]), flag(&["--no-profile-run-disable-warmup-after-first"]), flag(&["--set-consistent-seed"]), flag(&["--no-set-consistent-seed"]),
    flag(&["--vary-seed-per-trial"]), flag(&["--no-vary-seed-per-trial"]), one(&["--convergence-metric"]), one(&["--convergence-stat"]), one(&["--convergence-threshold"]), one(&["--convergence-mode"]),
    one(&["--parameter-sweep-cooldown-seconds"]), flag(&["--parameter-sweep-same-seed"]), flag(&["--no-parameter-sweep-same-seed"]), one(&["--parameter-sweep-mode"]), one(&["--sweep-type"]), flag(&["--no-sweep-table"]), many(&["--variant", "--sweep-variant"]),
    many(&["--search-space"]), one(&["--search-metric"]), one(&["--search-stat"]), one(&["--search-direction"]), one(&["--search-max-iterations"]), one(&["--search-initial-points"]), one(&["--search-random-seed"]), one(&["--search-planner"]), one(&["--search-percentile-pooling"]), one(&["--search-recipe"]), one(&["--search-style"]), many(&["--search-sla"]), many(&["--search-sla-tier"]),
    one(&["--optuna-sampler"]), one(&["--optuna-acquisition"]), one(&["--optuna-terminator"]), one(&["--bo-constraint-mode"]), one(&["--ttft-sla-ms"]), one(&["--itl-sla-ms"]), one(&["--tpot-sla-ms"]), one(&["--e2e-sla-ms"]), one(&["--error-rate-sla"]), one(&["--slo-attainment-fraction"]), one(&["--isl-osl-pairs"]),
    one(&["--degradation-threshold"]), one(&["--degradation-metric-tag"]), one(&["--degradation-stat"]), one(&["--isl-min"]), one(&["--isl-max"]), one(&["--isl-steps"]), one(&["--osl-min"]), one(&["--osl-max"]), one(&["--osl-steps"]), one(&["--concurrency-min"]), one(&["--concurrency-max"]), one(&["--concurrency-steps"]),
    one(&["--scenario"]), flag(&["--unsafe-override"]), one(&["--accuracy-benchmark"]), many(&["--accuracy-tasks"]), one(&["--accuracy-n-shots"]), flag(&["--accuracy-enable-cot"]), flag(&["--accuracy-no-enable-cot"]), one(&["--accuracy-grader"]), one(&["--accuracy-system-prompt"]), flag(&["--accuracy-verbose"]),
];

/// Its options for conversations.
const CONVERSATIONS: ConversationOptions = ConversationOptions {
    count: "--conversation-num",
    turns_mean: "--conversation-turn-mean",
    turns_stddev: "--conversation-turn-stddev",
    delay_mean: "--conversation-turn-delay-mean",
    delay_stddev: "--conversation-turn-delay-stddev",
    delay_ratio: "--conversation-turn-delay-ratio",
};

/// Options without a meaning here, and why. A name that ends with a dash is the beginning of several.
#[rustfmt::skip]
const LEFT: &[(&[&str], &str)] = &[
    (&["--artifact-directory", "--profile-export-file", "--export-level", "--export-outputs-json", "--export-http-trace", "--show-trace-timing"], "results are kept with the run: requests.jsonl has every request"),
    (&["--slice-duration"], "`regatta export TASK --as timeslices` writes them"),
    (&["--auto-plot", "--no-auto-plot", "--plot-required"], "the report of a run has its plots"),
    (&["--otel-", "--stream", "--gen-ai-provider", "--mlflow-", "--wandb-"], "nothing is sent elsewhere: result.json has every number"),
    (&["--workers-max", "--record-processors", "--zmq-", "--api-port", "--api-host", "--stats-interval"], "one process sends and measures; it reports when it cannot keep up"),
    (&["--ui-type", "--log-level", "--verbose", "--extra-verbose"], "`regatta -v` prints more, `-q` less"),
    (&["--gpu-telemetry", "--no-gpu-telemetry", "--server-metrics", "--no-server-metrics", "--server-metrics-formats"], "GPU readings come from nvidia-smi or from the servers' own metrics"),
    (&["--network-latency-"], "latency is what a client sees, the network included"),
    (&["--tokenizer-revision", "--tokenizer-trust-remote-code"], "a tokenizer is a file here, nothing is downloaded or run for it"),
    (&["--apply-chat-template"], "prompts are sent as they are; over `openai-chat` the server applies its template"),
    (&["--model-selection-strategy"], "with one model there is nothing to select"),
    (&["--url-strategy"], "requests go to the servers in turn"),
    (&["--wait-for-model-"], "a stage waits until its server is ready, for `ready.timeout`"),
    (&["--reset-kv-cache", "--reset-kv-cache-"], "a server that a stage starts has an empty cache"),
    (&["--server-profiler", "--server-profiler-"], "a profile is taken on the server, with its own tools"),
    (&["--use-server-token-count", "--per-chunk-usage"], "server counts are used wherever the server reports them"),
    (&["--use-legacy-max-tokens"], "the field is the one that the protocol has; another is --extra NAME:VALUE"),
    (&["--connection-reuse-strategy"], "connections are kept and used again"),
    (&["--isl-block-size"], "it is for traces with hash ids: `data.block_tokens`"),
    (&["--isl-osl-pairs"], "lengths with weights are `input_tokens: { empirical: … }`"),
    (&["--random-corpus-style", "--prompt-corpus", "--cache-bust"], "prompts are made up with the seed, and no two are alike"),
    (&["--system-prompt", "--system-prompt-file", "--user-context-prompt-length"], "what prompts share is made up: `prefixes`, or it is written in the prompts of --data"),
    (&["--hf-subset", "--hf-weka-dataset", "--dataset-filter"], "nothing is downloaded: give the file, with `--data FILE --data-kind sharegpt`"),
    (&["--dataset-sampling-strategy", "--allow-dataset-wrap", "--no-allow-dataset-wrap"], "the order of records is `data.order`, and `data.repeat` begins again at their end"),
    (&["--fixed-schedule", "--no-fixed-schedule", "--fixed-schedule-auto-offset"], "arrivals at the time stamps of data are `scenario: trace`"),
    (&["--fixed-schedule-start-offset", "--fixed-schedule-end-offset"], "a trace is sent whole: leave the records outside of that time out of the file"),
    (&["--ignore-trace-delays", "--use-think-time-only", "--max-context-length", "--trace-", "--inter-turn-delay-cap-seconds", "--max-idle-gap-cap-seconds", "--system-idle-gap-cap-seconds", "--replay-speedup", "--open-loop-", "--no-open-loop-replay", "--omit-kv-hints", "--force-min-tokens", "--no-force-min-tokens", "--trajectory-", "--burst-phase-starts", "--agentic-", "--synthesis-"], "a trace is sent as it is; its speed is `speed`, with `scenario: trace`"),
    (&["--benchmark-grace-period", "--warmup-grace-period"], "requests under way are waited for; `stall_timeout` gives one up"),
    (&["--failed-request-threshold"], "how many requests may fail is `limits: { failures: 1% }`; a run is not cut off for it"),
    (&["--prefill-concurrency"], "a limit of requests before their first token does not exist here; `max_in_flight` limits all"),
    (&["--concurrency-ramp-duration", "--request-rate-ramp-duration", "--request-rate-series", "--prefill-concurrency-ramp-duration"], "a level that rises is `bench.ramp`"),
    (&["--num-warmup-sessions", "--warmup-"], "requests of the warm-up come as the measured ones do"),
    (&["--user-centric-rate", "--num-users"], "users that pause are `scenario: concurrency` with `think_time`"),
    (&["--session-header"], "turns of a conversation have no header of their own"),
    (&["--transport", "--request-content-type"], "the endpoint type selects the protocol"),
    (&["--audio-", "--image-", "--video-", "--download-video-content", "--uuid-and-strip"], "images, sound and video are not sent"),
    (&["--rankings-"], "rankings are not measured"),
    (&["--profile-run-", "--no-profile-run-disable-warmup-after-first", "--confidence-level"], "each of several runs has its own warm-up, and intervals are of 95 %"),
    (&["--set-consistent-seed", "--no-set-consistent-seed", "--vary-seed-per-trial", "--no-vary-seed-per-trial"], "seeds of several runs count up"),
    (&["--convergence-"], "the number of runs is fixed: `repeat`; the intervals say whether it was enough"),
    (&["--parameter-sweep-", "--no-parameter-sweep-same-seed", "--sweep-type", "--no-sweep-table", "--variant"], "values of a sweep are a stage's `foreach`"),
    (&["--search-", "--optuna-", "--bo-constraint-mode", "--ttft-sla-ms", "--itl-sla-ms", "--tpot-sla-ms", "--e2e-sla-ms", "--error-rate-sla", "--slo-attainment-fraction", "--degradation-", "--isl-min", "--isl-max", "--isl-steps", "--osl-min", "--osl-max", "--osl-steps", "--concurrency-min", "--concurrency-max", "--concurrency-steps"], "the highest rate within limits is `bench.search` with `limits`"),
    (&["--accuracy-"], "accuracy is MLPerf's, in the `mlperf` stages"),
];

/// Why an option has no place.
fn left(name: &str) -> &'static str {
    let begins = |one: &&str| *one == name || one.ends_with('-') && name.starts_with(*one);
    LEFT.iter().find(|(names, _)| names.iter().any(begins)).map_or("there is nothing like it here", |it| it.1)
}

pub(in crate::interop) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut sheet = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut sheet);
    for word in line.plain.iter().chain(&line.behind) {
        sheet.push_error(format!("`{word}`: {TOOL} takes options only"));
    }
    let mut load = TranslatedLoad::default();
    load.put(
        "--protocol",
        match line.value("--endpoint-type").unwrap_or("chat") {
            "chat" => "openai-chat",
            "completions" => "openai-completions",
            other => {
                sheet.push_error(format!("`--endpoint-type {other}` is not supported: there are chat and completions"));
                "openai-chat"
            }
        },
    );
    let urls: Vec<&str> = line
        .given
        .iter()
        .filter(|given| given.name == "--url")
        .flat_map(|given| &given.values)
        .map(String::as_str)
        .collect();
    load.target(if urls.is_empty() { "localhost:8000".to_owned() } else { urls.join("|") });
    if let Some(file) = line.value("--config") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: its settings are in `{file}`, which is not read; give them as options"
            ),
        );
    }
    if let Some(name) = line.value("--public-dataset").filter(|name| *name != "sharegpt") {
        return TranslationBuilder::nothing(
            TOOL,
            format!(
                "the line has no meaning here: the data set `{name}` is not downloaded; save its prompts as JSON lines and give them with `--input-file FILE --custom-dataset-type single_turn`"
            ),
        );
    }
    for given in &line.given {
        if !levels(given, &mut load, &mut sheet) && !length(&mut load, given) {
            option(given, &line, &mut load, &mut sheet);
        }
    }
    if load.get("--data-kind") == Some("sharegpt") && !load.has("--output-tokens") {
        let model = line.value("--tokenizer").or(line.value("--model"));
        needs_tokenizer(model, &mut load, &mut sheet);
    }
    // It sends a trace at its time stamps, whatever level is given.
    let is_trace = line.value("--custom-dataset-type") == Some("mooncake_trace") || line.has("--fixed-schedule");
    if is_trace && line.has("--input-file") && !line.has("--no-fixed-schedule") {
        let levels = ["--concurrency", "--request-rate"];
        for given in line.given.iter().filter(|given| levels.contains(&given.name)) {
            sheet.note(format!("{}: arrivals are those of the trace, as AIPerf sends one whose lines have a `timestamp`; without time stamps it sends them at that level: then write `data: {{ jsonl: FILE }}` and the level", given.as_written()));
        }
        load.trace(1.0);
        load.keys.shift_remove("max_in_flight");
    }
    CONVERSATIONS.put(&line, &mut load, &mut sheet);
    defaults(&line, &mut load, &mut sheet);
    sheet.finish(TOOL, load.means())
}

fn option(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    let value = given.value();
    match given.name {
        "--model" => {
            load.put("--model", value);
            if given.values.len() > 1 {
                sheet.push_untranslated(
                    given.as_written(),
                    "one measurement drives one model, the first; add a `bench` for each",
                );
            }
        }
        "--endpoint-type" | "--url" => {}
        "--endpoint" => load.put("--endpoint", value),
        "--streaming" => load.flag("--streaming"),
        "--api-key" => api_key("--api-key", load, sheet),
        "--header" => header(given, load, sheet),
        "--extra-inputs" => given.values.iter().for_each(|word| extra(load, sheet, word, true)),
        "--goodput" => goodput(load, sheet, given),
        "--random-seed" => load.put("--seed", value),
        "--concurrency" if line.has("--request-rate") => whole(given, load, sheet, "max_in_flight"),
        "--concurrency" => load.put("--concurrency", value),
        "--request-rate" => load.put("--rate", value),
        "--request-rate-mode" => match value {
            "constant" | "poisson" => load.put("--arrivals", value),
            "gamma" => {
                if !line.has("--arrival-smoothness") {
                    sheet.note("gaps of a gamma distribution with the smoothness 1 are Poisson's");
                }
            }
            _ => sheet.push_untranslated(
                given.as_written(),
                "at once up to a number in flight is a closed loop: --concurrency",
            ),
        },
        "--arrival-smoothness" if line.value("--request-rate-mode") == Some("gamma") => burstiness(given, load, sheet),
        "--request-count" => load.put("--requests", value),
        // Read together, above.
        name if name.starts_with("--conversation-") => {}
        "--seq-dist" => length_pairs(&given.as_written(), value, load, sheet),
        "--num-profile-runs" => load.put("--repeat", value),
        "--warmup-duration" => {
            load.keys.insert("warmup_time".to_owned(), json!(format!("{value}s")));
        }
        "--shared-system-prompt-length" => match value.parse::<u32>() {
            Ok(tokens) if tokens > 0 => {
                load.keys.insert("prefixes".to_owned(), json!({"count": 1, "tokens": tokens}));
            }
            _ => sheet.push_error(format!("`{}`: a whole number from 1 on", given.as_written())),
        },
        "--random-range-ratio" => around(given, line, load, sheet),
        "--warmup-request-count" => load.put("--warmup", value),
        "--benchmark-duration" => load.put("--duration", format!("{value}s")),
        "--request-timeout-seconds" => {
            load.keys.insert("request".to_owned(), json!({"deadline": format!("{value}s")}));
        }
        "--request-cancellation-rate" if value.parse::<f64>().is_ok_and(|rate| rate == 0.0) => {}
        "--request-cancellation-rate" | "--request-cancellation-delay" => {
            sheet.push_untranslated(
                given.as_written(),
                "requests are ended after tokens, not after a time: `bench.request.cancel`",
            );
        }
        "--num-dataset-entries" if line.has("--input-file") => {
            sheet.push_untranslated(given.as_written(), "each record of the data is sent once");
        }
        "--num-dataset-entries" | "--prefix-prompt-pool-size" | "--prefix-prompt-length" => pool(given, line, load),
        "--tokenizer" => tokenizer(given, load, sheet),
        "--public-dataset" => {
            load.put("--data", SHAREGPT_FILE);
            load.put("--data-kind", "sharegpt");
            load.keys.insert("data".to_owned(), json!({"order": "shuffled", "repeat": true}));
            sheet.note(format!("nothing is downloaded: put {SHAREGPT_FILE} there, or name it in `data.sharegpt`"));
        }
        "--batch-size-text" if value == "1" => {}
        "--input-file" => {
            load.put("--data", value);
            match line.value("--custom-dataset-type") {
                None | Some("single_turn") => load.put("--data-kind", "jsonl"),
                Some("mooncake_trace") => load.put("--data-kind", "mooncake"),
                Some(other) => {
                    sheet.push_untranslated(
                        format!("--custom-dataset-type {other}"),
                        "read are single_turn and mooncake_trace",
                    );
                }
            }
        }
        "--custom-dataset-type" | "--fixed-schedule" | "--fixed-schedule-auto-offset" if line.has("--input-file") => {}
        name => sheet.push_untranslated(given.as_written(), left(name)),
    }
}

/// `10,20,30` is a measurement for each.
fn levels(given: &GivenOption, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) -> bool {
    let (option, key) = match given.name {
        "--concurrency" => ("--concurrency", "concurrency"),
        "--request-rate" => ("--rate", "rate"),
        "--synthetic-input-tokens-mean" => ("--input-tokens", "input_tokens"),
        "--output-tokens-mean" => ("--output-tokens", "output_tokens"),
        _ => return false,
    };
    if !given.value().contains(',') {
        return false;
    }
    let values: Option<Vec<_>> =
        given.value().split(',').map(|part| part.trim().parse::<f64>().ok().map(number)).collect();
    match values {
        Some(_) if load.is_swept() => sheet.push_untranslated(
            given.as_written(),
            "one key of a sweep is read, the first; `foreach` of a stage takes several",
        ),
        Some(values) => load.sweep(Some(option), key, values, sheet),
        None => sheet.push_error(format!("`{}`: numbers with commas between them", given.as_written())),
    }
    true
}

/// Lengths evenly around their means, or up to them, by the tool whose style it is.
fn around(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    let Some(ratio) = given.value().parse::<f64>().ok().filter(|ratio| (0.0..=1.0).contains(ratio)) else {
        return sheet.push_untranslated(given.as_written(), "a ratio from 0 to 1 is read");
    };
    let is_sglang = line.value("--random-corpus-style").is_some_and(|style| style.starts_with("sglang"));
    for (name, key) in [("--synthetic-input-tokens-mean", "input_tokens"), ("--output-tokens-mean", "output_tokens")] {
        let Some(mean) = line.value(name).and_then(|text| text.parse::<f64>().ok()) else { continue };
        let (low, high) = if is_sglang { (mean * ratio, mean) } else { (mean * (1.0 - ratio), mean * (1.0 + ratio)) };
        load.length_between(key, (low as u32).max(1), (high as u32).max(1));
    }
}

fn pool(given: &GivenOption, line: &ParsedLine, load: &mut TranslatedLoad) {
    let number = |name: &str| line.value(name).and_then(|n| n.parse::<u32>().ok()).filter(|n| *n > 0);
    if given.name == "--num-dataset-entries" {
        if let Some(entries) = number("--num-dataset-entries") {
            load.keys.insert("distinct_prompts".to_owned(), json!(entries));
        }
    } else if let (Some(count), Some(tokens)) = (number("--prefix-prompt-pool-size"), number("--prefix-prompt-length"))
    {
        load.keys.insert("prefixes".to_owned(), json!({"count": count, "tokens": tokens}));
    }
}

fn defaults(line: &ParsedLine, load: &mut TranslatedLoad, sheet: &mut TranslationBuilder) {
    if !load.has("--concurrency") && !load.has("--rate") && !load.has("--offline") {
        load.put("--concurrency", "1");
    }
    if !line.has("--warmup-request-count") {
        load.put("--warmup", if line.has("--warmup-duration") { "1" } else { "0" });
    }
    if !load.has("--requests") && !load.has("--duration") && !load.has("--data") {
        load.put("--requests", "10");
        sheet.note("neither a number of requests nor a duration is given: 10 requests, as AIPerf has it");
    }
    // The first of its limits ends it.
    if load.has("--requests")
        && let Some(duration) = load.remove("--duration")
    {
        duration_beside_requests(format!("--benchmark-duration {}", duration.trim_end_matches('s')), sheet);
    }
    if !load.has("--output-tokens") && load.get("--data-kind").is_none_or(|kind| kind == "jsonl") {
        if load.has("--data") {
            load.put("--output-tokens", "128");
        }
        sheet.note("no --osl: there the model decides the length of its answers; here 128 tokens are requested");
    }
    if !line.has("--streaming") {
        load.flag("--no-streaming");
    }
}
