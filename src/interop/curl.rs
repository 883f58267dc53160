//! `curl` of a server's own interfaces: one request, its metrics, its readiness.

use crate::command_line::{
    CHAT, COMPLETIONS, ParsedLine, TranslatedLoad, TranslationBuilder, TranslationError, TranslationKind,
    TranslationResult, tool_table,
};
use base::diag::ErrorText;
use base::units::unquoted;
use serde_json::{Map, Value};

tool_table!(TABLE, ["curl"], []);

/// The sentence on a body that is a pattern of a page.
const PATTERN: &str = "cannot translate the line: it is a pattern of the page, no request; give its fields, as \
    `{\"text_input\": \"What is machine learning?\", \"max_tokens\": 20}`";

pub(crate) fn translate(words: &[String]) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_as(TABLE.program, &separate_flags(words), &mut builder);
    let Some(written) = line.plain.first().map(String::as_str).or_else(|| line.value("--url")) else {
        let kind = TranslationKind::Nothing("cannot translate `curl`: it has no URL".to_owned());
        return TranslationBuilder::default().finish(TABLE.program, kind);
    };
    let url = written.strip_prefix("http://").unwrap_or(written);
    let (server, path) = url.split_once('/').unwrap_or((url, ""));
    // `https:` is for servers of OpenAI's interfaces.
    let (server, path) = match written.strip_prefix("https://").map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
        Some((server, path)) => (format!("https://{server}"), path),
        None => (server.to_owned(), path),
    };
    let path = path.trim_end_matches('/');
    let steps: Vec<&str> = path.split('/').collect();
    let triton_command = |what: &str, server: String| {
        TranslationKind::Commands(vec![["regatta", "triton", what, &server].map(str::to_owned).to_vec()])
    };
    let kind = match steps.as_slice() {
        ["metrics"] => triton_command("metrics", server),
        ["v2", "health", "ready" | "live"] | ["v2"] => triton_command("status", format!("http://{server}")),
        ["v2", "models", model, "generate" | "generate_stream"] => {
            with_body(&line, &mut builder, |fields, builder| generate(&server, model, path, fields, &line, builder))?
        }
        ["v2", "models", model, "config"] => of_model("config", &server, model, &mut builder),
        ["v2", "models", model, "stats"] => of_model("statistics", &server, model, &mut builder),
        ["v2", "repository", "models", model, act @ ("load" | "unload")] => of_model(act, &server, model, &mut builder),
        ["v2", "repository", "index"] | ["v2", "models", ..] => triton_command("models", format!("http://{server}")),
        // A gateway may have a prefix in front of it.
        [.., "chat" | "v1", "completions"] => {
            with_body(&line, &mut builder, |fields, builder| Ok(completions(&server, path, fields, &line, builder)))?
        }
        [.., "v1", "models"] => {
            nothing(url, "a `bench` whose `model` is \"\" requests that list itself, and result.json names the model")
        }
        ["health" | "health_generate"] | ["health", "ready" | "live"] => nothing(
            url,
            "a server that a stage starts is waited for, for its `ready.timeout`; for others a benchmark waits as \
                long as its `ready_timeout` says",
        ),
        ["start_profile" | "stop_profile"] => {
            nothing(url, "a profile is taken on the server, with its own tools; a `shell` stage sends this request")
        }
        _ => nothing(url, "not a known interface of an inference server; use a `shell` stage to run it"),
    };
    // Options of what is not sent here do not matter.
    if let TranslationKind::Nothing(_) = kind {
        builder = TranslationBuilder::default();
    }
    builder.finish(TABLE.program, kind)
}

/// `-fsSL` is `-f -s -S -L`.
fn separate_flags(words: &[String]) -> Vec<String> {
    let separated = |word: &String| match word.strip_prefix('-') {
        Some(flags) if flags.chars().all(|flag| "fgiksvLNOS46#".contains(flag)) => {
            flags.chars().map(|flag| format!("-{flag}")).collect()
        }
        _ => vec![word.clone()],
    };
    words.iter().flat_map(separated).collect()
}

fn nothing(url: &str, why: &str) -> TranslationKind {
    TranslationKind::Nothing(format!("cannot translate `curl {url}`: {why}"))
}

/// What is requested of a model over gRPC here.
fn of_model(act: &str, server: &str, model: &str, builder: &mut TranslationBuilder) -> TranslationKind {
    // The port of a server that listens on Triton's own ones.
    let to = server.strip_suffix(":8000").map_or_else(|| server.to_owned(), |host| format!("{host}:8001"));
    builder.note(format!("it goes over gRPC, to {to}: check the port"));
    TranslationKind::Commands(vec![["regatta", "triton", act, &to, model].map(str::to_owned).to_vec()])
}

/// The fields of a request; the sentence where they are not in the line.
fn with_body(
    line: &ParsedLine,
    builder: &mut TranslationBuilder,
    then: impl FnOnce(Map<String, Value>, &mut TranslationBuilder) -> Result<TranslationKind, ErrorText>,
) -> Result<TranslationKind, TranslationError> {
    let data = line.value("--data").ok_or_else(|| TranslationError::new("a request has its fields after `-d`"))?.trim();
    let fields = match serde_json::from_str::<Value>(data) {
        Ok(Value::Object(fields)) => fields,
        _ if data.contains("...") || data.contains("{PARAM") => {
            return Ok(TranslationKind::Nothing(PATTERN.to_owned()));
        }
        _ if data.starts_with('@') => {
            let file = data.trim_start_matches('@');
            return Ok(TranslationKind::Nothing(format!(
                "cannot translate the line: the request is in `{file}`, which is not read; give its fields after `-d`"
            )));
        }
        _ => return Err(TranslationError::new(format!("the request after `-d` is not a JSON object: {data}"))),
    };
    Ok(then(fields, builder).unwrap_or_else(|why| TranslationKind::Nothing(why.into())))
}

/// Headers that the request does not have here.
fn unsent_headers(line: &ParsedLine, builder: &mut TranslationBuilder) {
    for given in line.given.iter().filter(|given| given.name == "--header") {
        let name = given.value().split(':').next().unwrap_or_default().trim().to_lowercase();
        if !["content-type", "accept"].contains(&name.as_str()) {
            builder.push_untranslated(format!("{} {name}:…", given.written), "further headers are not sent");
        }
    }
}

/// A request to the generate extension.
fn generate(
    server: &str,
    model: &str,
    path: &str,
    mut fields: Map<String, Value>,
    line: &ParsedLine,
    builder: &mut TranslationBuilder,
) -> Result<TranslationKind, ErrorText> {
    if fields.get("stop") == Some(&Value::Bool(true)) {
        return Err(ErrorText::new(
            "cannot translate the line: it cancels the request of that id; Ctrl-C or `--deadline` of `regatta triton \
             infer` cancels its own",
        ));
    }
    unsent_headers(line, builder);
    // Triton reads the fields of `parameters` like those at the top level.
    if let Some(Value::Object(parameters)) = fields.get("parameters").cloned() {
        fields.shift_remove("parameters");
        fields.extend(parameters);
    }
    let mut command: Vec<String> =
        ["regatta", "triton", "infer", &format!("http://{server}"), model].map(str::to_owned).to_vec();
    if path.ends_with("generate_stream") {
        command.push("--stream".to_owned());
    }
    for (name, value) in fields {
        let text = unquoted(&value);
        match name.as_str() {
            "text_input" => command.extend(["--text".to_owned(), text]),
            "max_tokens" => command.extend(["--max-tokens".to_owned(), text]),
            "stream" if value == Value::Bool(true) && command.iter().any(|word| word == "--stream") => {}
            "stream" if value == Value::Bool(true) => command.push("--stream".to_owned()),
            "stream" if value == Value::Bool(false) => {}
            "id" => builder.push_untranslated(format!("id: {text}"), "each request has an id of its own"),
            // As the backend's own defaults.
            "bad_words" | "stop_words" if value == Value::String(String::new()) => {}
            _ => command.extend(["--input".to_owned(), format!("{name}={value}")]),
        }
    }
    Ok(TranslationKind::Commands(vec![command]))
}

/// One request of OpenAI's interfaces is a benchmark of one request, with the line's own body.
fn completions(
    server: &str,
    path: &str,
    mut fields: Map<String, Value>,
    line: &ParsedLine,
    builder: &mut TranslationBuilder,
) -> TranslationKind {
    let mut load = TranslatedLoad::default();
    let is_chat = path.ends_with("chat/completions");
    let (protocol, usual) = if is_chat { CHAT } else { COMPLETIONS };
    load.put("protocol", protocol);
    // Without a port it is that of the scheme.
    let server = if server.contains(':') { server.to_owned() } else { format!("http://{server}") };
    load.address(&server, &format!("/{path}"), usual);
    if let Some(Value::String(model)) = fields.shift_remove("model") {
        load.put("model", model);
    }
    let is_streaming = fields.shift_remove("stream") == Some(Value::Bool(true));
    load.streaming(is_streaming);
    let lengths = ["max_completion_tokens", "max_tokens"];
    let length = lengths.iter().find_map(|name| fields.get(*name)?.as_u64());
    if let Some(tokens) = length {
        load.put("output_tokens", tokens.to_string());
        for name in lengths {
            fields.shift_remove(name);
        }
    } else {
        // The server decides: the body has no limit.
        fields.insert("max_tokens".to_owned(), Value::Null);
    }
    for given in line.given.iter().filter(|given| given.name == "--header") {
        load.headers(given);
    }
    builder.notes.append(&mut load.builder.notes);
    builder.untranslated.append(&mut load.builder.untranslated);
    builder.problems.append(&mut load.builder.problems);
    load.add("extra", Value::Object(fields).to_string());
    load.put("concurrency", "1");
    load.put("stop.requests", "1");
    load.put("warmup", "0");
    let field = if is_chat { "messages" } else { "prompt" };
    builder.note(format!("the request has the line's own `{field}`, in place of one that a benchmark generates"));
    load.means()
}
