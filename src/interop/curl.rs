//! `curl` of a server's own interfaces: one request, its metrics, its readiness.

use serde_json::Value;

use crate::interop::command_line::options::{Opt, flag, many, one, read};
use crate::interop::command_line::translation::{Translation, TranslationBuilder, TranslationKind};
use crate::interop::command_line::translation_error::TranslationError;

const TOOL: &str = "curl";

#[rustfmt::skip]
static TABLE: &[Opt] = &[
    one(&["--request", "-X"]), one(&["--data", "-d", "--data-raw", "--data-binary", "--json"]), one(&["--header", "-H"]), flag(&["--silent", "-s"]), flag(&["--verbose", "-v"]),
    flag(&["--show-error", "-S"]), flag(&["--location", "-L"]), flag(&["--fail", "-f"]), flag(&["--include", "-i"]), one(&["--output", "-o"]), flag(&["--no-buffer", "-N"]), flag(&["--insecure", "-k"]),
    one(&["--write-out", "-w"]), one(&["--max-time", "-m"]), flag(&["-sS"]), flag(&["-sf"]), flag(&["-fsS"]), many(&["--url"]),
];

pub(in crate::interop) fn translate(words: &[String]) -> Result<Translation, TranslationError> {
    let mut sheet = TranslationBuilder::default();
    let line = read(TOOL, TABLE, words, &mut sheet);
    let Some(url) = line.plain.first().map(String::as_str).or_else(|| line.value("--url")) else {
        sheet.push_error("`curl` without a URL");
        return sheet.finish(TOOL, TranslationKind::Commands(Vec::new()));
    };
    let url = url.strip_prefix("http://").unwrap_or(url);
    let (server, path) = url.split_once('/').unwrap_or((url, ""));
    let path = path.trim_end_matches('/');
    let steps: Vec<&str> = path.split('/').collect();
    let asks = |what: &str, server: String| {
        Ok(TranslationKind::Commands(vec![["regatta", "triton", what, &server].map(str::to_owned).to_vec()]))
    };
    let kind = match steps.as_slice() {
        ["metrics"] => asks("metrics", server.to_owned()),
        ["v2", "health", "ready" | "live"] | ["v2"] => asks("status", format!("http://{server}")),
        ["v2", "models", model, "generate" | "generate_stream"] => {
            generate(server, model, path, line.value("--data"), &mut sheet)
        }
        ["v2", "repository", "index"] | ["v2", "models", ..] => asks("models", format!("http://{server}")),
        ["v1", "chat", "completions"] | ["v1", "completions"] => {
            Ok(completions(server, path, line.value("--data"), &mut sheet))
        }
        _ => Ok(TranslationKind::Nothing(format!(
            "`curl {url}` has no meaning here: it is no interface of an inference server that is known here; a `shell` stage runs it"
        ))),
    };
    sheet.finish(TOOL, kind?)
}

/// A request to the generate extension.
fn generate(
    server: &str,
    model: &str,
    path: &str,
    data: Option<&str>,
    sheet: &mut TranslationBuilder,
) -> Result<TranslationKind, TranslationError> {
    let data = data.ok_or_else(|| TranslationError::new("a request to `generate` has its fields behind `-d`"))?;
    let fields = match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(fields)) => fields,
        _ if data.contains("...") || data.contains("{PARAM") => {
            return Ok(TranslationKind::Nothing(
                "the line has no meaning here: it is a pattern of the page, no request; give its fields, as `{\"text_input\": \"What is machine learning?\", \"max_tokens\": 20}`".to_owned(),
            ));
        }
        _ => return Err(TranslationError::new(format!("the request behind `-d` is no JSON object: {data}"))),
    };
    let mut command: Vec<String> =
        ["regatta", "triton", "infer", &format!("http://{server}"), model].map(str::to_owned).to_vec();
    if path.ends_with("generate_stream") {
        command.push("--stream".to_owned());
    }
    for (name, value) in fields {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match name.as_str() {
            "text_input" => command.extend(["--text".to_owned(), text]),
            "max_tokens" => command.extend(["--max-tokens".to_owned(), text]),
            "stream" if value == Value::Bool(true) && command.iter().any(|word| word == "--stream") => {}
            "stream" if value == Value::Bool(true) => command.push("--stream".to_owned()),
            // As the backend's own defaults.
            "bad_words" | "stop_words" if value == Value::String(String::new()) => {}
            "parameters" => {
                sheet.push_untranslated(format!("parameters: {text}"), "write its fields beside the others");
            }
            _ => command.extend(["--input".to_owned(), format!("{name}={value}")]),
        }
    }
    Ok(TranslationKind::Commands(vec![command]))
}

/// One request of OpenAI's interface is one request of a benchmark.
fn completions(server: &str, path: &str, data: Option<&str>, sheet: &mut TranslationBuilder) -> TranslationKind {
    let fields = data.and_then(|data| serde_json::from_str::<Value>(data).ok()).unwrap_or_default();
    let mut command: Vec<String> = ["regatta", "bench"].map(str::to_owned).to_vec();
    let protocol = if path.contains("chat") { "openai-chat" } else { "openai-completions" };
    command.extend([server.to_owned(), "--protocol".to_owned(), protocol.to_owned()]);
    if let Some(model) = fields["model"].as_str() {
        command.extend(["--model".to_owned(), model.to_owned()]);
    }
    if let Some(tokens) = fields["max_tokens"].as_u64().or_else(|| fields["max_completion_tokens"].as_u64()) {
        command.extend(["--output-tokens".to_owned(), tokens.to_string()]);
    }
    if let Some(Value::Number(temperature)) = fields.get("temperature") {
        command.extend(["--temperature".to_owned(), temperature.to_string()]);
    }
    sheet.note("a benchmark makes its prompt up, of the model's usual length: `--data FILE` has prompts of your own");
    command.extend(["--concurrency", "1", "--requests", "1"].map(str::to_owned));
    TranslationKind::Commands(vec![command])
}
