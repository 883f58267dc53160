//! What in the answers speaks against the numbers of a run, and the setting that leaves out a field which a server
//! refuses.

use serde_json::Value;

use crate::measure::latency::{COALESCED, NEGLIGIBLE, in_one_read};
use crate::measure::reasons::VerdictReasons;
use crate::measure::token_counts::{RETOKENIZED, token_counters};
use crate::tokens::CHUNKS;
use crate::transport::connection::NAME_THE_KEY;
use crate::transport::request_encoder::TokenCounting;
use crate::{
    Api, BenchSpec, CallSource, LoadPattern, ReasonSeverity, RunResult, TokenCounts, Transport, VerdictCheck,
    Violation, WHOLE_ANSWERS,
};
use base::spec::{REQUEST_FIELDS, WireForm};

/// A gateway may write `[DONE]` where the server behind it broke off: the budget of failures is for such answers, too.
pub(super) fn broken_off(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    let counts = &result.counts;
    if counts.unexplained > 0 {
        let text = format!(
            "{} of {} answers are shorter than requested, without a finish_reason and without usage, and others of the \
             same server have a finish_reason: it cannot be told whether they broke off; they are in the latencies and \
             rates",
            counts.unexplained, counts.ok
        );
        found.warn(VerdictCheck::Failures, text);
    }
    if counts.broken_off == 0 {
        return;
    }
    let is_within = spec.limits.failure_budget().is_some_and(|budget| counts.failed_share() <= budget);
    let text = format!(
        "{} of {} answers broke off: they are shorter than requested, without a finish_reason and without usage, and \
         others of the same server have a finish_reason; they are in the latencies and rates",
        counts.broken_off, counts.ok
    );
    let severity = if is_within { ReasonSeverity::Warning } else { ReasonSeverity::InvalidServer };
    found.add(VerdictCheck::Failures, severity, text);
}

/// Protocol violations in answers. They are in no number; some of them make the other numbers doubtful too.
pub(super) fn violations(result: &RunResult, found: &mut VerdictReasons) {
    let counts = &result.counts;
    for (class, count) in &counts.violations {
        let example = counts.violation_examples.get(class).map_or("", String::as_str);
        let severity = severity_of(*class, &result.requested.protocol);
        found.add(VerdictCheck::Protocol, severity, format!("{count} × {}: {example}", class.as_str()));
    }
}

fn severity_of(class: Violation, protocol: &Transport) -> ReasonSeverity {
    use Violation::{
        ContentType, FinishReason, MalformedUsage, MissingEnd, SecondEnd, UsageMismatch, WrongId, WrongModel,
    };
    match (class, protocol) {
        // Over HTTP a connection has one request at a time, so the names are not needed; and servers have aliases. A
        // second `[DONE]` is the proxy's own.
        (MissingEnd | UsageMismatch | MalformedUsage | ContentType | FinishReason, _)
        | (WrongId | WrongModel | SecondEnd, Transport::Http(_)) => ReasonSeverity::Warning,
        _ => ReasonSeverity::InvalidServer,
    }
}

/// Chunks that came together leave out figures that people expect, or blur them.
fn coalesced(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    let absent = result.latency.max_stall.absent.as_ref();
    if spec.answers_to_a_prompt() > 1 {
        if let Some(why) = absent {
            let text = format!("{why}: TPOT, ITL, ICL and the longest gap are left out");
            found.warn(VerdictCheck::Tokens, text);
        }
        return;
    }
    let share = result.tokens.coalesced_share.filter(|share| *share > COALESCED);
    let share =
        share.map(|share| format!("{:.0} % of the chunks came in one read with the chunk before", share * 100.0));
    let one_read = result.tokens.one_read_share.filter(|share| *share > NEGLIGIBLE);
    let mut so = Vec::new();
    if absent.is_some() {
        so.push("TPOT, ITL, ICL and the longest gap are left out");
    } else {
        so.extend(share.as_ref().map(|_| "TPOT and ITL spread the time of a read over its tokens"));
        so.extend(one_read.map(|_| "TPOT, ITL, ICL and the longest gap are from the other answers"));
    }
    let parts: Vec<String> = share.into_iter().chain(one_read.map(in_one_read)).collect();
    let cause = match (parts.is_empty(), absent) {
        (true, Some(why)) => why.clone(),
        (true, None) => return,
        _ => parts.join(", and "),
    };
    let text = format!(
        "{cause}: the server or a proxy in front of it writes several at once (nginx: set `proxy_buffering off`; \
         HAProxy: `option http-no-delay`), or the client was late; {}, and TTFT is the time of the first read, which \
         may also contain later tokens",
        so.join(", ")
    );
    found.warn(VerdictCheck::Coalesced, text);
}

/// Requests of OpenAI's interfaces do, unless `extra` has other options of the stream.
fn requests_usage(spec: &BenchSpec) -> bool {
    let Transport::Http(http) = &spec.protocol else { return false };
    let is_openai = matches!(http.api, Api::OpenaiChat | Api::OpenaiCompletions);
    is_openai && http.extra.get("stream_options").is_none_or(|options| options["include_usage"] == true)
}

/// The server refuses options of the stream, or the requests are to be without them for another reason.
fn leaves_out_stream_options(spec: &BenchSpec) -> bool {
    matches!(&spec.protocol, Transport::Http(http) if http.extra.get("stream_options").is_some_and(Value::is_null))
}

/// Whose output tokens this source stands in for, as the subject of a sentence; none where it counted no answer.
fn uncounted(result: &RunResult, source: &str) -> Option<String> {
    let ok = result.counts.ok;
    let counters = token_counters(&result.tokens.source);
    let (_, share) = counters.into_iter().find(|(counter, _)| *counter == source)?;
    let answers = (share * ok as f64).round() as u64;
    Some(if answers >= ok { "output tokens".to_owned() } else { format!("output tokens of {answers} of {ok} answers") })
}

/// Tokens that came in no chunk are not several in one.
fn hidden_reasoning(tokens: &TokenCounts) -> String {
    match tokens.output_reasoning {
        None | Some(0) => String::new(),
        Some(reasoning) => format!(
            "; `usage` counts {reasoning} of {} tokens as reasoning: where its text does not come, that changes \
             nothing, and TTFT includes its time",
            tokens.output
        ),
    }
}

pub(super) fn answers(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    let tokens = &result.tokens;
    // With an external driver an output length is a limit, not a request.
    let is_limit = matches!(spec.scenario, LoadPattern::External(_));
    if tokens.longer + if is_limit { 0 } else { tokens.shorter } > 0 {
        let by = if tokens.source.contains(RETOKENIZED) {
            "; they were counted by tokenizing their text again, which may find a few more or less than were generated"
        } else {
            ""
        };
        let reasons = &result.counts.finish_reasons;
        let each: Vec<String> = reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect();
        let finish = if each.is_empty() { String::new() } else { format!("; finish reasons: {}", each.join(", ")) };
        let text = format!(
            "answers differ from what was requested: {} shorter, {} longer; {} tokens received, {} \
             requested{by}{finish}",
            tokens.shorter, tokens.longer, tokens.output, tokens.output_requested
        );
        found.warn(VerdictCheck::Lengths, text);
    }
    let is_by_whole_answers =
        matches!(spec.scenario, LoadPattern::Offline | LoadPattern::External(CallSource::AllAtOnce));
    if !is_by_whole_answers && result.has_whole_answers() {
        found.warn(VerdictCheck::Unary, WHOLE_ANSWERS.to_owned());
    } else if !is_by_whole_answers && tokens.whole_answers > 0 {
        let text = format!(
            "{} of {} answers came in one piece, although streams were requested, so their TTFT is the time of the \
             whole answer",
            tokens.whole_answers, result.counts.ok
        );
        found.warn(VerdictCheck::Unary, text);
    }
    if let Some(whose) = uncounted(result, &TokenCounting::Requested.source()) {
        let text = format!("{whose} were not counted: an answer is one text, so the requested number is used");
        found.warn(VerdictCheck::Tokens, text);
    }
    let has = |class| result.counts.violations.contains_key(&class);
    if let Some(whose) = uncounted(result, CHUNKS) {
        let is_of_all = tokens.source == CHUNKS;
        let sends_none = if is_of_all { "the server sends no usage" } else { "they came without usage" };
        let (cause, remark, setting) = if has(Violation::AboveRequested) {
            ("the server's `usage` has more tokens than were requested, so it is not used", "", "")
        } else if has(Violation::UsageMismatch) {
            ("the server's `usage` contradicts its answers, so it is not used", "", "")
        } else if has(Violation::MalformedUsage) {
            ("the server's `usage` is malformed", "", "")
        } else if requests_usage(spec) {
            (sends_none, ", although each request has `stream_options.include_usage`", "")
        } else if leaves_out_stream_options(spec) {
            (sends_none, ", which requests without `stream_options` do not ask for", "")
        } else {
            (sends_none, "", "set `extra: {stream_options: {include_usage: true}}`, or ")
        };
        let text =
            format!("{whose} were not counted: {cause}{remark}, and chunks stand in; {setting}name a `tokenizer`");
        found.warn(VerdictCheck::Tokens, text);
    } else if tokens.chunk_tokens_unknown > 0 && tokens.source == TokenCounting::Usage.source() {
        let unknown = format!("{} of {}", tokens.chunk_tokens_unknown, result.counts.ok);
        let left_out = "per-token metrics are left out where this matters";
        let advice = if leaves_out_stream_options(spec) {
            ""
        } else {
            "; `extra: {stream_options: {include_usage: true, continuous_usage_stats: true}}` makes vLLM, SGLang and \
             trtllm-serve report it for each chunk"
        };
        let text = if has(Violation::UsageMismatch) {
            format!(
                "the tokens in each chunk of {unknown} answers are unknown, because the server's `usage` contradicts \
                 them: {left_out}"
            )
        } else {
            format!(
                "{unknown} answers have several tokens in a chunk, and the server reports only their total: \
                 {left_out}{advice}{}",
                hidden_reasoning(tokens)
            )
        };
        found.warn(VerdictCheck::Tokens, text);
    }
    coalesced(spec, result, found);
    for (name, output) in result.outputs.iter().filter(|(_, output)| output.misshapen > 0) {
        let example = output.example.as_deref().unwrap_or_default();
        let text = format!("{} of {} `{name}` do not fit their request: {example}", output.misshapen, output.responses);
        found.warn(VerdictCheck::Outputs, text);
    }
    let request = &spec.request;
    let outputs = [
        (request.return_log_probs, "output_log_probs"),
        (request.return_context_logits, "context_logits"),
        (request.return_generation_logits, "generation_logits"),
    ];
    for (_, name) in
        outputs.into_iter().filter(|(is_requested, name)| *is_requested && !result.outputs.contains_key(*name))
    {
        found.warn(VerdictCheck::Outputs, format!("`{name}` was requested and not received"));
    }
    if let Some(server) = result.server.as_ref().filter(|server| server.without > 0) {
        let text =
            format!("{} of {} requests arrived without the server's time stamps", server.without, result.counts.ok);
        found.warn(VerdictCheck::Outputs, text);
    }
}

/// What such a refusal says, in small letters. A value that is too large is not refused like this.
const REFUSALS: &str = "additional propert|extra_forbidden|instead|not allowed|not permitted|not supported|unexpected|\
    unknown|unrecognized|unsupported";

/// Parts of the reason of a failure, and what to do.
const CURES: [(&[&str], &str); 11] = [
    (&["HTTP status 401", "HTTP status 403"], NAME_THE_KEY),
    (
        &["The model `", "not found, try pulling it first", "Invalid model name"],
        "set `model` to one of those that the server lists at /v1/models",
    ),
    (
        &["chat template"],
        "`protocol: openai-completions` needs no chat template; or start the server with one, vLLM by \
         `--chat-template FILE`",
    ),
    (
        &["HTTP status 404 of", "HTTP status 405"],
        "if the server has no such path, name another with `endpoint`, or another interface with `protocol`",
    ),
    (
        &["HTTP status 426", "HTTP status 505"],
        "the server wants another version of HTTP: put a proxy that speaks HTTP/1.1 in front of it",
    ),
    (&["which is not followed"], "name the server that it leads to, or its path with `endpoint`"),
    (&["Connection refused"], "the server accepts no more connections: read its log"),
    (&["context length", "context size"], "lower `input_tokens` or `output_tokens`, or raise the server's limit"),
    (&["max_tokens is too large"], "lower `output_tokens`"),
    (&["treaming is not supported"], "`request.streaming: false` asks for whole answers, whose TTFT is not measured"),
    (&["the answer has no token"], "if the model ends it at once, set `extra: { ignore_eos: true }`"),
];

/// What to do against failures for this reason. Of fields that the server refuses: what leaves them out.
pub fn failure_cure(why: &str) -> Option<String> {
    let is_of = |(parts, _): &&(&[&str], _)| parts.iter().any(|part| why.contains(part));
    CURES.iter().find(is_of).map(|(_, cure)| (*cure).to_owned()).or_else(|| refused_field(why))
}

fn refused_field(why: &str) -> Option<String> {
    let lower = why.to_lowercase();
    if !REFUSALS.split('|').any(|refusal| lower.contains(refusal)) {
        return None;
    }
    let names = |field: &str| lower.contains(field);
    let by_length_field =
        |field: &str| format!("`request: {{ length_field: {field} }}` sends the length of answers as {field}");
    let length = match (names("max_tokens"), names("max_completion_tokens")) {
        (true, true) => Some(by_length_field("max_completion_tokens")),
        (true, false) => Some(
            "`extra: { max_tokens: null }` leaves max_tokens out, and the server decides how long answers are; with \
             `request: { length_field: max_completion_tokens }` openai-chat has another name for it"
                .to_owned(),
        ),
        (false, true) => Some(by_length_field("max_tokens")),
        (false, false) => None,
    };
    let options =
        names("stream_options").then(|| "`extra: { stream_options: null }` leaves stream_options out".to_owned());
    let is_sent = |name: &str| lower.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    let fields = REQUEST_FIELDS.iter().filter(|field| field.names(WireForm::Openai).iter().any(|name| is_sent(name)));
    let keys = fields.map(|field| format!("request.{}", field.name()));
    let keys = keys.chain(is_sent("ignore_eos").then(|| "extra.ignore_eos".to_owned()));
    let refused = keys.map(|key| format!("leave out `{key}`"));
    let settings: Vec<String> = length.into_iter().chain(options).chain(refused).collect();
    (!settings.is_empty()).then(|| settings.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_what_to_set_against_it() {
        for (why, settings) in [
            (
                "HTTP status 400: Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                 'max_completion_tokens' instead.",
                &["`request: { length_field: max_completion_tokens }`"][..],
            ),
            (
                concat!(
                    r#"HTTP status 422: {"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"#,
                    r#""msg":"Extra inputs are not permitted"}]}"#
                ),
                &["`extra: { stream_options: null }`"],
            ),
            (
                "HTTP status 400: Unrecognized request arguments supplied: max_tokens, stream_options",
                &["`extra: { max_tokens: null }`", "`extra: { stream_options: null }`"],
            ),
            ("HTTP status 422: max_completion_tokens: Extra inputs are not permitted", &["length_field: max_tokens"]),
            ("HTTP status 400: Unrecognized request argument supplied: ignore_eos", &["leave out `extra.ignore_eos`"]),
            ("HTTP status 400: Unsupported value: 'temperature' does not support 0", &["`request.temperature`"]),
            ("HTTP status 422: min_tokens: Extra inputs are not permitted", &["`request.min_length`"]),
            ("HTTP status 401: No credentials", &["`api_key_env`", "`request.headers`"]),
            ("HTTP status 404 of POST /v1/chat/completions: Not Found", &["`endpoint`"]),
            ("HTTP status 404 of POST /v1/chat/completions: The model `m` does not exist.", &["`model`"]),
            ("HTTP status 404 of POST /v1/chat/completions: model 'm' not found, try pulling it first", &["`model`"]),
            ("HTTP status 400: you must provide a chat template", &["`protocol: openai-completions`"]),
            ("HTTP status 308, a redirect to /v1/, which is not followed", &["`endpoint`"]),
            ("HTTP status 426: Upgrade Required", &["speaks HTTP/1.1"]),
            ("HTTP status 505: HTTP Version Not Supported", &["speaks HTTP/1.1"]),
            ("Connection refused (os error 111)", &["read its log"]),
            ("HTTP status 400: This model's maximum context length is 4096 tokens", &["`input_tokens`"]),
            ("HTTP status 400: the request exceeds the available context size", &["`output_tokens`"]),
            ("the answer has no token", &["`extra: { ignore_eos: true }`"]),
            ("HTTP status 400: Streaming is not supported for this model", &["`request.streaming: false`"]),
        ] {
            let hint = failure_cure(why).unwrap();
            assert!(settings.iter().all(|setting| hint.contains(setting)), "{why}: {hint}");
        }
        let too_large =
            "HTTP status 400: max_tokens is too large: 9000. This model supports at most 4096 completion tokens";
        assert_eq!(failure_cure(too_large).as_deref(), Some("lower `output_tokens`"));
        assert_eq!(failure_cure("HTTP status 404: unknown model"), None);
    }
}
