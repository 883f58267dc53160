//! `aiperf profile`, GenAI-Perf's successor.

use serde_json::{Value, json};

use crate::command_line::{
    CHAT, COMPLETIONS, ConversationOptions, GivenOption, OptionRow, ParsedLine, RangeRatio, SHAREGPT_FILE,
    TranslatedLoad, TranslationBuilder, TranslationResult, WHOLE_REQUESTS, api_key, length_pairs, models, number,
    rate_of_conversations, share, tool_table,
};
use base::diag::ErrorText;
use base::spec::Quantity;

const TOOL: &str = "aiperf profile";

/// How many prompts are made for a benchmark that ends after a time.
const PROMPTS_OF_A_DURATION: u32 = 100;

/// Its options for conversations.
const CONVERSATIONS: ConversationOptions = ConversationOptions {
    count: "--conversation-num",
    turns_mean: "--conversation-turn-mean",
    turns_stddev: "--conversation-turn-stddev",
    delay_mean: "--conversation-turn-delay-mean",
    delay_stddev: "--conversation-turn-delay-stddev",
    delay_ratio: "--conversation-turn-delay-ratio",
};

tool_table!(
    TABLE,
    ["aiperf"],
    [
        ("model", models),
        ("api_key", api_key),
        ("concurrency", concurrency),
        ("rate", |load, _, given| load.level("rate", given)),
        ("input_tokens", |load, _, given| load.level("input_tokens", given)),
        ("output_tokens", |load, _, given| load.level("output_tokens", given)),
        ("arrivals", arrivals),
        ("smoothness", smoothness),
        ("length_pairs", length_pairs),
        ("system_prompt", system_prompt),
        ("range_ratio", range_ratio),
        ("duration", duration),
        ("distinct_prompts", distinct_prompts),
        ("prefixes", prefixes),
        ("public_dataset", public_dataset),
    ]
);

pub(crate) fn translate(words: &[String], first_line: FirstLine<'_>) -> TranslationResult {
    let mut load = TranslatedLoad::default();
    let line = TABLE.read(words, &mut load.builder);
    interface(&line, &mut load);
    let file = match is_measured(&line).and_then(|()| InputFile::parse(&line, first_line, &mut load.builder)) {
        Ok(file) => file,
        Err(why) => return TranslationBuilder::nothing(TOOL, why),
    };
    if let Some(file) = file {
        file.put(&line, &mut load);
    }
    TABLE.apply(&line, &mut load);
    if load.get("data.kind") == Some("sharegpt") && !load.has("output_tokens") {
        load.needs_tokenizer(line.value("--tokenizer").or(line.value("--model")));
    }
    if file == Some(InputFile::Trace) {
        trace(&line, &mut load);
    }
    for given in line.given.iter().filter(|given| RAMPS.iter().any(|(name, ..)| *name == given.name)) {
        if ramp(&line, given, &mut load).is_none() {
            load.builder.push_untranslated_load(given, TABLE.row(given.name).map_or("", OptionRow::reason));
        }
    }
    CONVERSATIONS.put(&line, &mut load);
    rate_of_conversations("--request-rate", &mut load);
    warm_up(&line, &mut load);
    defaults(&line, file, &mut load);
    load.default_tokenizer(None);
    load.finish(TOOL)
}

/// The servers and their protocol.
fn interface(line: &ParsedLine, load: &mut TranslatedLoad) {
    let urls = line.all("--url").values;
    let (protocol, usual) = match line.setting("--endpoint-type") {
        "completions" => COMPLETIONS,
        "chat" => CHAT,
        "kserve_v2_infer" if urls.iter().all(|url| url.starts_with("grpc://")) => return kserve(line, &urls, load),
        "kserve_v2_infer" => {
            load.builder.push_error(format!(
                "cannot translate the line: requests of `kserve_v2_infer` are measured over gRPC without TLS: \
                `--url grpc://HOST:8001`, not {}",
                urls.join(", ")
            ));
            CHAT
        }
        other => {
            load.builder.push_error(format!(
                "cannot translate the line: requests of `{other}` are not measured; those of chat and completions are"
            ));
            CHAT
        }
    };
    load.put("protocol", protocol);
    if !line.has("--use-legacy-max-tokens") {
        load.limits_completion_tokens();
    }
    load.overlapping_address(
        &urls.iter().map(String::as_str).collect::<Vec<_>>(),
        line.value("--endpoint").unwrap_or(usual),
        usual,
    );
}

/// A Triton server, whose model has the tensors that AIPerf takes where nothing else is set.
fn kserve(line: &ParsedLine, urls: &[String], load: &mut TranslatedLoad) {
    load.put("protocol", "kserve");
    load.target(urls.iter().map(|url| url.trim_start_matches("grpc://")).collect::<Vec<_>>().join("|"));
    for tensor in line.all("--extra-inputs").values.iter().filter(|value| value.starts_with("v2_")) {
        let sentence = format!("`--extra-inputs {tensor}`: the model has the tensors of Triton's LLM backends");
        load.builder.push_error(sentence + ", text_input and text_output");
    }
}

/// The sentence on a line that is not measured.
fn is_measured(line: &ParsedLine) -> Result<(), ErrorText> {
    if let Some(file) = line.value("--config") {
        return Err(ErrorText::new(format_args!(
            "cannot translate the line: its settings are in `{file}`, which is not read; pass them as options"
        )));
    }
    if let Some(rate) = line.value("--user-centric-rate") {
        return Err(ErrorText::new(user_centric(rate, line.value("--num-users"))));
    }
    if let Some(name) = line.value("--public-dataset").filter(|name| *name != "sharegpt") {
        return Err(ErrorText::new(format_args!(
            "cannot translate the line: the data set `{name}` is not downloaded; save its prompts as JSON lines \
                and give them with `--input-file FILE --custom-dataset-type single_turn`"
        )));
    }
    match line.given.iter().find(|given| given.name.starts_with("--search-") || given.name.starts_with("--optuna-")) {
        Some(given) => Err(ErrorText::new(format_args!(
            "cannot translate `{TOOL} {given}`: it searches for a load within limits; that is `bench.search`, which \
                finds the highest rate within `limits`, and `regatta bench --sweep` for all levels up to saturation"
        ))),
        None => Ok(()),
    }
}

/// It sends a trace at its time stamps, whatever level is given.
fn trace(line: &ParsedLine, load: &mut TranslatedLoad) {
    for given in line.given.iter().filter(|given| ["--concurrency", "--request-rate"].contains(&given.name)) {
        load.builder.note(format!(
            "{given}: arrivals are those of the trace, as AIPerf sends one whose lines have a \
            `timestamp`; without time stamps it sends them at that level: then write `data: {{ jsonl: FILE }}` and \
            the level"
        ));
    }
    load.trace(1.0);
    load.keys.shift_remove("max_in_flight");
}

/// Options of a level that rises, the option and the key of the level.
const RAMPS: [(&str, &str, &str); 2] = [
    ("--concurrency-ramp-duration", "--concurrency", "concurrency"),
    ("--request-rate-ramp-duration", "--request-rate", "rate"),
];

/// A level that rises evenly and then stays, as docs/tutorials/ramping.md of AIPerf has it: users from 1 on, a rate
/// from what its first step of 0.1 s has. None where the line has another level, too, or one of them is not known.
fn ramp(line: &ParsedLine, given: &GivenOption, load: &mut TranslatedLoad) -> Option<()> {
    const STEP_S: f64 = 0.1;
    let (_, option, key) = RAMPS.iter().find(|(name, ..)| *name == given.name)?;
    let above_0 = |text: &str| text.trim_end_matches('s').parse::<f64>().ok().filter(|number| *number > 0.0);
    let (to, seconds) = (above_0(line.value(option)?)?, above_0(given.value())?);
    let from = if *key == "rate" { to * STEP_S / seconds } else { 1.0 };
    if (*key == "concurrency" && line.has("--request-rate")) || !from.is_finite() || from >= to {
        return None;
    }
    load.set(key, Value::Null);
    let over = format!("{}ms", number((seconds * 1e3).round()));
    load.set("ramp", json!({"linear": {"from": number(from), "to": number(to), "over": over}}));
    Some(())
}

/// Why turns at a fixed distance are not sent, and what is.
fn user_centric(rate: &str, users: Option<&str>) -> String {
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| *number > 0.0);
    let users = users.unwrap_or("N");
    let gap = match (number(rate), number(users)) {
        (Some(rate), Some(users)) => format!("{} s", number_text(users / rate)),
        _ => format!("{users}/{rate} s"),
    };
    format!(
        "cannot translate `{TOOL} --user-centric-rate {rate}`: AIPerf starts the turns of a user {gap} apart; \
        a user of Regatta pauses after the end of an answer. `--concurrency {users}` with `think_time: {{ fixed: \
        … }}`, of {gap} less the time of an answer, is close to it"
    )
}

fn number_text(value: f64) -> String {
    number((value * 1e3).round() / 1e3).to_string()
}

fn concurrency(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if line.has("--request-rate") && !given.value().contains(',') {
        load.whole("max_in_flight", given);
        return true;
    }
    load.level("concurrency", given)
}

fn arrivals(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    match given.value() {
        law @ ("constant" | "poisson") => load.put("arrivals", law),
        "gamma" if line.has("--arrival-smoothness") => {}
        "gamma" => load.builder.note("gaps of a gamma distribution with the smoothness 1 are Poisson's"),
        _ => return false,
    }
    true
}

fn smoothness(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let is_gamma = line.value("--request-rate-mode") == Some("gamma");
    if is_gamma {
        load.burstiness(given);
    }
    is_gamma
}

fn system_prompt(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    match given.number::<u32>() {
        Some(tokens) if tokens != Quantity::Known(0) => load.prefixes(1, &tokens),
        _ => load.builder.push_error(format!("`{given}`: a whole number of at least 1")),
    }
    true
}

/// Lengths evenly around their means, or up to them, by the tool whose style it is.
fn range_ratio(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    let is_sglang = line.value("--random-corpus-style").is_some_and(|style| style.starts_with("sglang"));
    let law = if is_sglang { RangeRatio::UpTo } else { RangeRatio::Around };
    for (name, key) in [("--synthetic-input-tokens-mean", "input_tokens"), ("--output-tokens-mean", "output_tokens")] {
        let Some(ratio) = share(given, key.trim_end_matches("_tokens")) else { return false };
        let Some(mean) = line.number::<u32>(name) else { continue };
        let (low, high) = law.bounds(&mean, &ratio);
        load.length_between(key, &low, &high);
    }
    true
}

fn duration(load: &mut TranslatedLoad, _: &ParsedLine, given: &GivenOption) -> bool {
    if given.value().contains(',') {
        load.builder.push_error(format!(
            "`{given}`: one number is read; a list is a line, and a measurement, for each of its values"
        ));
    } else if given.number::<f64>().is_some() {
        load.put("stop.duration", format!("{}s", given.value()));
    } else {
        load.builder.push_error(format!("`{given}`: a number of seconds"));
    }
    true
}

fn distinct_prompts(load: &mut TranslatedLoad, line: &ParsedLine, given: &GivenOption) -> bool {
    if let Some(entries) = positive(line, given.name) {
        // So many of the data, which are sent again and again.
        let key = if line.has("--public-dataset") { "data.first" } else { "distinct_prompts" };
        load.set(key, json!(entries));
    }
    true
}

fn prefixes(load: &mut TranslatedLoad, line: &ParsedLine, _: &GivenOption) -> bool {
    let count = positive(line, "--prefix-prompt-pool-size");
    if let (Some(count), Some(tokens)) = (count, positive(line, "--prefix-prompt-length")) {
        load.prefixes(count, &tokens);
    }
    true
}

fn positive(line: &ParsedLine, name: &str) -> Option<Quantity<u32>> {
    line.number::<u32>(name).filter(|number| *number != Quantity::Known(0))
}

fn public_dataset(load: &mut TranslatedLoad, _: &ParsedLine, _: &GivenOption) -> bool {
    load.data("sharegpt", SHAREGPT_FILE);
    load.set("data.order", json!("shuffled"));
    load.flag("data.repeat");
    load.builder.note(format!("not downloaded: put {SHAREGPT_FILE} into the project, or name it in `data.sharegpt`"));
    true
}

/// The warm-up, which has the load of the measured requests, as here: a number of requests or of conversations, or a
/// time. Several are limits, the first of which ends it.
fn warm_up(line: &ParsedLine, load: &mut TranslatedLoad) {
    const LIMITS: [&str; 3] = ["--num-warmup-sessions", "--warmup-request-count", "--warmup-duration"];
    let number = |name: &str| line.value(name).and_then(|text| text.parse::<f64>().ok());
    let turns = number("--conversation-turn-mean").map_or(1.0, |turns| turns.max(1.0));
    let sessions = number(LIMITS[0]).map(|sessions| (sessions * turns).ceil());
    let sessions = sessions.filter(|sessions| number(LIMITS[1]).is_none_or(|requests| *sessions < requests));
    let used = if sessions.is_some() { 0 } else { 1 + usize::from(!line.has(LIMITS[1])) };
    for name in LIMITS.into_iter().filter(|name| *name != LIMITS[used]) {
        if let Some(value) = line.value(name) {
            let reason =
                "AIPerf ends the warm-up at the first of its limits; Regatta warms up with one number of requests";
            load.builder.push_untranslated(format!("{name} {value}"), reason);
        }
    }
    if let Some(turns) = sessions {
        load.put("warmup", turns.to_string());
        load.builder.note(format!(
            "the warm-up is {turns} requests, as many as its conversations have turns on average; each is a first turn"
        ));
    } else if let Some(seconds) = line.value(LIMITS[2]).filter(|_| used == 2) {
        load.put("warmup", "1");
        load.set("warmup_time", json!(format!("{seconds}s")));
    } else {
        load.put("warmup", line.value(LIMITS[1]).unwrap_or("0"));
    }
}

/// Sets what a line without an option means there.
fn defaults(line: &ParsedLine, file: Option<InputFile>, load: &mut TranslatedLoad) {
    if !load.has("concurrency") && !load.has("rate") && !load.has("speed") {
        load.put("concurrency", "1");
    }
    let sends_all = load.has("data") && !line.has("--public-dataset");
    if !load.has("stop.requests") && !load.has("stop.duration") && !sends_all {
        let users = load.most_users().or_else(|| line.number("--concurrency"));
        load.usual_requests(users, "AIPerf");
    }
    // The first of its limits ends it.
    if load.has("stop.requests")
        && let Some(duration) = load.remove("stop.duration")
    {
        load.drop_duration(format!("--benchmark-duration {}", duration.trim_end_matches('s')));
    }
    // `_resolve_entries` in aiperf/config/flags/_converter_dataset.py: as many prompts as requests, where their
    // number is given.
    if !load.has("stop.requests")
        && ["distinct_prompts", "sessions"].iter().all(|key| !load.keys.contains_key(*key))
        && !load.has("data")
    {
        load.set("distinct_prompts", json!(PROMPTS_OF_A_DURATION));
    }
    let has_lengths = matches!(file, Some(InputFile::Lengths | InputFile::Trace));
    if !load.has("output_tokens") && has_lengths {
        load.builder.note(
            "for a line without `output_length` AIPerf lets the model decide the length; Regatta needs \
            `output_tokens`, which applies to all lines",
        );
    } else if !load.has("output_tokens") && load.get("data.kind").is_none_or(|kind| kind == "jsonl") {
        load.usual_answers();
    }
    if !line.has("--streaming") {
        load.streaming(false);
    }
}

/// The first line of a file that is at hand.
pub(crate) type FirstLine<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is in the file of prompts of a line. Where the line does not name its type, AIPerf takes it from the first
/// line of the file (`_infer_dataset_type` in aiperf/dataset/composer/custom.py of 0.13.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputFile {
    /// A prompt for each request, one after the other and from the top again.
    Prompts,
    /// The same, drawn at random.
    Pool,
    /// Lengths, sent at the level of the line.
    Lengths,
    /// Requests at the time stamps of a trace.
    Trace,
}

impl InputFile {
    /// That of the line. An error is the sentence on a type that is not read.
    fn parse(
        line: &ParsedLine,
        first_line: FirstLine<'_>,
        builder: &mut TranslationBuilder,
    ) -> Result<Option<Self>, ErrorText> {
        let Some(file) = line.value("--input-file") else { return Ok(None) };
        let scheduled = |kind: Self| if line.has("--fixed-schedule") { Self::Trace } else { kind };
        match line.value("--custom-dataset-type") {
            Some("single_turn") => Ok(Some(scheduled(Self::Prompts))),
            Some("raw_payload") => {
                builder.note(WHOLE_REQUESTS);
                Ok(Some(Self::Prompts))
            }
            Some("random_pool") => Ok(Some(Self::Pool)),
            Some("mooncake_trace") if line.has("--no-fixed-schedule") => Ok(Some(Self::Lengths)),
            Some("mooncake_trace") => Ok(Some(Self::Trace)),
            Some(other) => Err(not_read(file, other)),
            None => match first_line(file).map(|text| Self::seen(file, &text)) {
                Some(Ok(Self::Trace)) if line.has("--no-fixed-schedule") => Ok(Some(Self::Lengths)),
                Some(seen) => seen.map(|kind| Some(scheduled(kind))),
                None => {
                    if !line.has("--fixed-schedule") {
                        builder.note(format!(
                            "--input-file {file} is not on this machine, and AIPerf takes its type from its first \
                            line; it is imported as a prompt in each line. For a trace (`timestamp`, `input_length`), \
                            which is sent at its time stamps, add --custom-dataset-type mooncake_trace"
                        ));
                    }
                    Ok(Some(scheduled(Self::Prompts)))
                }
            },
        }
    }

    fn seen(file: &str, first: &str) -> Result<Self, ErrorText> {
        let record: Value = serde_json::from_str(first.trim()).unwrap_or_default();
        let has = |name: &str| record.get(name).is_some();
        if has("turns") {
            return Err(not_read(file, "multi_turn"));
        }
        let is_trace = has("input_length")
            || has("hash_ids")
            || has("timestamp") && ["text_input", "messages", "payload"].into_iter().any(has);
        Ok(match (is_trace, has("timestamp")) {
            (true, true) => Self::Trace,
            (true, false) => Self::Lengths,
            (false, _) => Self::Prompts,
        })
    }

    /// The data of the load, and how often each record is sent.
    fn put(self, line: &ParsedLine, load: &mut TranslatedLoad) {
        let is_mooncake = self == Self::Trace && line.value("--custom-dataset-type") != Some("single_turn");
        let kind = if is_mooncake { "mooncake" } else { "jsonl" };
        load.data(kind, line.value("--input-file").unwrap_or_default());
        if self == Self::Pool {
            load.set("data.order", json!("shuffled"));
        }
        // It begins again at their end.
        let has_end = line.has("--request-count") || line.has("--benchmark-duration");
        if self != Self::Trace && has_end && !line.has("--no-allow-dataset-wrap") {
            load.flag("data.repeat");
        }
    }
}

fn not_read(file: &str, kind: &str) -> ErrorText {
    ErrorText::new(format_args!(
        "cannot translate the line: `{file}` of the type {kind} is not supported; supported are single_turn, \
        random_pool, raw_payload and mooncake_trace. Save conversations as JSON lines, one for each turn, \
        `{{\"session_id\": 1, \"prompt\": \"…\"}}`, and give them with `regatta bench --data FILE.jsonl`"
    ))
}
