//! Records of files of prompts: every key is sent, is metadata, or is an error that names it; and every reader of a user's text takes
//! it as an editor on Windows saves it.

use std::fs;

use pretty_assertions::assert_eq;
use regatta::harness::{
    Api, BenchSpec, DataKind, Http, LoadPattern, PreviousAnswers, RequestSchedule, Transport, plan, write,
};
use regatta::spec::{History, Length, Prefixes, Sessions, StopAfter};
use serde_json::{Value, json};

use crate::arrivals::{from, measured, paced};
use crate::openai::script::{DONE, Do, END, HEAD, Scripted, chunk, role, token, usage};
use crate::openai::{chat, measure, spec_of_chat};
use crate::world::World;

const KINDS: [DataKind; 3] = [DataKind::Jsonl, DataKind::Sharegpt, DataKind::Mooncake];

/// A benchmark over `openai-chat` of a file of this text.
fn with_records(kind: DataKind, text: &str) -> (tempfile::TempDir, BenchSpec) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("records");
    fs::write(&file, text).unwrap();
    let mut spec = spec_of_chat(0);
    spec.stop = StopAfter::default();
    (spec.input_len, spec.output_len) = (Length::Given, Length::Given);
    spec.content.data = Some(from(file, kind));
    (folder, spec)
}

fn planned(kind: DataKind, text: &str) -> Result<RequestSchedule, String> {
    let (_folder, spec) = with_records(kind, text);
    plan(&spec).map_err(|error| error.to_string())
}

fn messages(schedule: &RequestSchedule, index: usize) -> Value {
    let planned = schedule.requests.get(index).unwrap();
    json!(schedule.chat(index as u64, &planned, &PreviousAnswers::default()).unwrap())
}

fn bodies(server: &Scripted) -> Vec<Value> {
    let requests = server.requests.lock().unwrap();
    let body = |request: &String| serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    requests.iter().map(body).collect()
}

/// An answer of so many tokens.
fn answer(tokens: u64) -> Vec<Do> {
    let text: String = (0..tokens).map(|_| token("a")).collect();
    let events = [role(), text, usage(tokens), DONE.to_owned()].concat();
    vec![Do::Send([HEAD, &chunk(&events), END].concat())]
}

#[test]
fn messages_are_sent_with_their_roles_and_the_length_of_their_record() {
    let row = |name: &str, tokens: u32| {
        let messages = json!([{"role": "system", "content": "Be terse."}, {"role": "user", "content": "one"},
                              {"role": "assistant", "content": "1"}, {"role": "user", "content": "two"}]);
        json!({"messages": messages, name: tokens, "id": 3, "source": "s", "model": "ensemble", "stream": true, "tools": []})
    };
    let rows = [row("max_tokens", 1), row("max_completion_tokens", 2)];
    let text = format!("{}\n{}\n", rows[0], rows[1]);
    let server = Scripted::start(|number| answer(number + 1));
    let (_folder, with_data) = with_records(DataKind::Jsonl, &text);
    let mut spec = BenchSpec { scenario: LoadPattern::Concurrency { users: 1.0.into() }, ..chat(&server, 2) };
    spec.content = with_data.content;
    spec.output_len = Length::Given;
    let counts = measure(&spec).result.counts;
    assert_eq!((counts.ok, counts.failed), (2, 0), "{:?}", counts.failures);
    let sent = bodies(&server);
    for (at, row) in rows.iter().enumerate() {
        assert_eq!(sent[at]["messages"], row["messages"]);
        assert_eq!(sent[at]["max_tokens"], at as u64 + 1);
    }
    // A length of the benchmark is that of all requests.
    spec.output_len = Length::Fixed(9);
    assert!(plan(&spec).unwrap().requests.iter().all(|request| request.output_len == 9));
}

#[test]
fn messages_keep_a_shared_prefix_in_front_and_are_their_own_history() {
    let text = "{\"session_id\": 1, \"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"a\"}], \"max_tokens\": 1}\n\
                {\"session_id\": 1, \"messages\": [{\"role\": \"tool\", \"content\": \"b\"}], \"max_tokens\": 1}\n";
    let (folder, mut spec) = with_records(DataKind::Jsonl, text);
    spec.content.sessions = Some(Sessions { turns: Length::Given, history: History::Planned, turn_delay: None });
    let schedule = plan(&spec).unwrap();
    assert_eq!(messages(&schedule, 0), json!([{"role": "system", "content": "s"}, {"role": "user", "content": "a"}]));
    assert_eq!(messages(&schedule, 1), json!([{"role": "tool", "content": "b"}]));
    spec.content.prefixes = Some(Prefixes { count: 1, tokens: 2, zipf: None });
    let first = messages(&plan(&spec).unwrap(), 0);
    let system = first[0]["content"].as_str().unwrap();
    assert!(system.ends_with(" s") && system.split(' ').count() == 3 && first[1]["content"] == "a", "{first}");

    // A plan with messages is sent again as it is, and over no protocol that would lose them.
    let server = Scripted::start(|_| answer(1));
    let mut first = chat(&server, 0);
    (first.stop, first.content, first.output_len) = (StopAfter::default(), spec.content, Length::Given);
    let measured = measure(&first);
    write(folder.path(), &measured).unwrap();
    let mut again = chat(&server, 0);
    again.stop = StopAfter::default();
    again.content.data = Some(from(folder.path().join("plan.jsonl"), DataKind::Plan));
    assert_eq!(messages(&plan(&again).unwrap(), 1), messages(&measured.schedule, 1));
    again.protocol = Transport::Kserve;
    let why = plan(&again).unwrap_err().to_string();
    assert!(why.contains("`messages` cannot be sent over KServe"), "{why}");
}

#[test]
fn messages_over_a_protocol_without_them_are_an_error_with_the_cure() {
    let row = r#"{"messages": [{"role": "user", "content": "a"}], "max_tokens": 6}"#;
    let body = format!(r#"{{"data": [{{"payload": [{row}]}}]}}"#);
    for text in [format!("{row}\n{row}\n"), format!("[{row}, {row}]"), body] {
        let (_folder, mut spec) = with_records(DataKind::Jsonl, &text);
        plan(&spec).unwrap();
        for (protocol, name) in [
            (Transport::Kserve, "KServe"),
            (Transport::Http(Http::new(Api::OpenaiCompletions)), "openai-completions"),
            (Transport::Http(Http::new(Api::Generate)), "generate"),
        ] {
            spec.protocol = protocol;
            // With lengths of prompts at hand none is made up either.
            spec.input_len = Length::Fixed(16);
            let why = plan(&spec).unwrap_err().to_string();
            assert!(why.contains(&format!("1: `messages` cannot be sent over {name}")), "{why}");
            assert!(why.contains("protocol: openai-chat"), "{why}");
        }
    }
}

#[test]
fn every_key_that_is_not_sent_is_named_at_once_with_its_first_record() {
    let text = "{\"prompt\": \"a\", \"max_tokens\": 4, \"id\": 1}\n\n\
                {\"prompt\": \"b\", \"max_tokens\": 4, \"image\": [{}], \"query\": 0.5}\n\
                {\"prompt\": \"c\", \"max_tokens\": 4, \"metric_name\": {\"type\": \"json_object\"}, \"image\": [1]}\n\
                {\"prompt\": \"d\", \"max_tokens\": 4, \"url\": \"/v1/embeddings\", \"lora_path\": \"x\", \"priority\": 0, \"delay\": 5}\n";
    for kind in KINDS {
        let why = planned(kind, text).unwrap_err();
        for part in [
            "line 3: `query` may change",
            "line 4: `metric_name` may change",
            "line 5: `url` is not `/v1/chat/completions`, where the benchmark sends",
            "line 5: `lora_path` may change",
            "line 5: `priority` may change",
            "line 5: `delay` is a pause",
            "a record's own field into its `extra`",
            "jq -c 'del(.image, .lora_path, .metric_name, .priority, .query)'",
        ] {
            assert!(why.contains(part), "{kind:?} lacks `{part}`:\n{why}");
        }
        assert!(
            why.contains("line 3: `image` may change what is requested, and is not sent (also in 1 more record)"),
            "{why}"
        );
        assert!(!why.contains("`id`"), "{why}");
    }
}

#[test]
fn a_key_that_holds_the_prompt_in_another_form_never_ends_in_a_drawn_prompt() {
    for key in ["question", "query", "turns", "texts", "contents", "inputs", "instructions", "system_prompt"] {
        let (_folder, mut spec) = with_records(DataKind::Jsonl, &format!(r#"{{"{key}": "why", "max_tokens": 6}}"#));
        spec.input_len = Length::Fixed(16);
        let why = plan(&spec).unwrap_err().to_string();
        assert!(why.contains(&format!("line 1: `{key}` may change")), "{why}");
    }
}

#[test]
fn what_a_message_holds_and_no_server_reads_is_an_error_by_name() {
    let of_message =
        |fields: Value| planned(DataKind::Jsonl, &json!({"messages": [fields], "max_tokens": 6}).to_string());
    for (fields, part) in [
        (json!({"role": "user", "content": [{"text": "a"}]}), "a part in `content` of message 1 has no `type`"),
        (json!({"role": "user", "content": "a", "images": ["x.png"]}), "line 1: `messages[].images` may change"),
        (json!({"role": "user"}), "message 1 has no text"),
        (json!({"content": "a"}), "message 1 has no `role`"),
    ] {
        let why = of_message(fields).unwrap_err();
        assert!(why.contains(part), "`{part}` is missing in:\n{why}");
    }
    of_message(json!({"role": "developer", "content": "a", "weight": 1, "name": null})).unwrap();
    let images = r#"{"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "image": "x.png", "system": "s", "max_tokens": 3}"#;
    let why = planned(DataKind::Sharegpt, images).unwrap_err();
    assert!(why.contains("line 1: `image` may change") && why.contains("line 1: `system` may change"), "{why}");
}

#[test]
fn conversations_are_read_from_a_list_and_from_lines_whatever_the_kind() {
    let conversation = |id: &str, question: &str| {
        json!({"id": id, "model": "gpt-4", "conversation_id": id, "turn": 1, "language": "English", "timestamp": "2024-01-01T00:00:00Z",
               "conversations": [{"from": "human", "value": question, "markdown": null}, {"from": "gpt", "value": "yes", "weight": 1}]})
    };
    let (first, second) = (conversation("a", "one two"), conversation("b", "three"));
    for kind in KINDS {
        for text in
            [format!("[{first},\n{second}]"), format!("{first}\n\n{second}\n"), format!("\u{feff}{first}\r\n{second}")]
        {
            let (_folder, mut spec) = with_records(kind, &text);
            spec.output_len = Length::Fixed(5);
            let schedule = plan(&spec).unwrap();
            assert_eq!(messages(&schedule, 0), json!([{"role": "user", "content": "one two"}]));
            assert_eq!(messages(&schedule, 1), json!([{"role": "user", "content": "three"}]));
            assert_eq!(schedule.requests.len(), 2);
        }
    }
    let wrong = format!("{first}\n{}\n", json!({"conversations": [{"from": "human"}]}));
    let why = planned(DataKind::Sharegpt, &wrong).unwrap_err();
    assert!(why.contains("line 2: message 1 has no text"), "{why}");
}

#[test]
fn a_line_that_is_not_utf_8_and_a_length_that_is_a_text_are_named() {
    let (folder, spec) =
        with_records(DataKind::Jsonl, "{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"output_tokens\": \"4\"}\n");
    let why = plan(&spec).unwrap_err().to_string();
    assert!(why.contains("line 2: column 36: invalid type: string \"4\", expected a whole number"), "{why}");
    fs::write(folder.path().join("records"), b"{\"prompt\": \"caf\xe9\"}\n").unwrap();
    let why = plan(&spec).unwrap_err().to_string();
    assert!(why.contains("line 1: it is not UTF-8"), "{why}");
}

#[test]
fn inputs_files_of_genai_perf_and_aiperf_keep_the_same_rule() {
    let file = json!({"data": [
        {"text_input": ["a b"], "max_tokens": [2], "stream": [true], "model": "ensemble"},
        {"session_id": "s", "payloads": [
            {"messages": [{"role": "user", "content": "c"}], "max_completion_tokens": 3, "stream": true},
            {"messages": [{"role": "user", "content": "c"}, {"role": "user", "content": "d"}], "max_completion_tokens": 4}]},
    ]});
    let schedule = planned(DataKind::Jsonl, &file.to_string()).unwrap();
    let lengths: Vec<u32> = schedule.requests.iter().map(|request| request.output_len).collect();
    assert_eq!(lengths, [2, 3, 4]);
    assert_eq!(messages(&schedule, 2), json!([{"role": "user", "content": "c"}, {"role": "user", "content": "d"}]));
    let file = json!({"data": [{"text_input": "a", "max_tokens": [2]},
                               {"text_input": "a", "max_tokens": [2], "bad_words": ["x"], "payload": [{"temperature": 1}]}]});
    let why = planned(DataKind::Jsonl, &file.to_string()).unwrap_err();
    assert!(why.contains("entry 2: `bad_words` may") && !why.contains("temperature"), "{why}");
}

/// A benchmark of these records, and the requests that came: heads and bodies.
fn sent(text: &str, prepare: impl FnOnce(&mut BenchSpec)) -> Vec<(String, Value)> {
    let server = Scripted::start(|_| answer(1));
    let (_folder, with_data) = with_records(DataKind::Jsonl, text);
    let mut spec = BenchSpec { scenario: LoadPattern::Concurrency { users: 1.0.into() }, ..chat(&server, 0) };
    (spec.content, spec.output_len, spec.stop) = (with_data.content, Length::Given, StopAfter::default());
    prepare(&mut spec);
    let counts = measure(&spec).result.counts;
    assert_eq!(counts.failed, 0, "{:?}", counts.failures);
    let requests = server.requests.lock().unwrap();
    let parts = requests.iter().map(|request| request.split_once("\r\n\r\n").unwrap());
    parts.map(|(head, body)| (head.to_owned(), serde_json::from_str(body).unwrap())).collect()
}

#[test]
fn a_record_sends_its_own_request() {
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    let called = json!([{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]);
    let talk = json!([
        {"role": "user", "content": [{"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]},
        {"role": "assistant", "content": null, "tool_calls": called},
        {"role": "tool", "content": "21 C", "tool_call_id": "c1"},
    ]);
    let rows = [
        json!({"messages": talk, "max_tokens": 5, "tools": tools, "tool_choice": "auto", "temperature": 0.5,
               "stop": "END", "random_seed": 7, "model": "sql", "extra": {"priority": 3},
               "response_format": {"type": "json_object"}, "headers": {"X-Tenant": "a", "accept": "text/event-stream"}}),
        json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}),
    ];
    let sent = sent(&format!("{}\n{}\n", rows[0], rows[1]), |spec| {
        spec.request.temperature = Some(0.25);
        spec.request.headers.0.insert("x-tenant".to_owned(), "all".to_owned());
    });
    let (head, body) = &sent[0];
    for key in ["messages", "tools", "tool_choice", "response_format", "model"] {
        assert_eq!(body[key], rows[0][key], "{key}");
    }
    assert_eq!((&body["temperature"], &body["seed"], &body["priority"]), (&json!(0.5), &json!(7), &json!(3)));
    assert_eq!((&body["stop"], &body["max_tokens"], &body["stream"]), (&json!(["END"]), &json!(5), &json!(true)));
    assert!(body["extra"].is_null() && body["headers"].is_null() && body["random_seed"].is_null(), "{body}");
    let lines: Vec<String> = head.lines().map(str::to_lowercase).filter(|line| line.contains("tenant")).collect();
    assert_eq!(lines, ["x-tenant: a"]);
    assert_eq!(head.to_lowercase().matches("\naccept: ").count(), 1, "{head}");
    let (head, body) = &sent[1];
    assert_eq!((&body["temperature"], &body["model"]), (&json!(0.25), &json!("ensemble")));
    assert!(body["tools"].is_null() && body["seed"].is_null() && head.contains("x-tenant: all"), "{head} {body}");
}

#[test]
fn a_batch_file_is_sent_as_its_bodies_are() {
    // The example of OpenAI's guide to its Batch API.
    let row = |id: &str, text: &str| {
        json!({"custom_id": id, "method": "POST", "url": "/v1/chat/completions", "body": {"model": "gpt-3.5-turbo-0125",
            "messages": [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}],
            "max_tokens": 1000, "metadata": {"team": "a"}}})
    };
    let rows = [row("request-1", "Hello world!"), row("request-2", "Hello again!")];
    let sent = sent(&format!("{}\n{}\n", rows[0], rows[1]), |_| {});
    for ((_, body), row) in sent.iter().zip(&rows) {
        for (key, value) in row["body"].as_object().unwrap() {
            assert_eq!(&body[key], value, "{key}");
        }
        assert!(body["custom_id"].is_null() && body["url"].is_null() && body["body"].is_null(), "{body}");
    }
    let text = json!({"custom_id": "a", "method": "GET", "url": "/v1/embeddings", "body": {"prompt": "x", "max_tokens": 1, "n": 2}});
    let why = planned(DataKind::Jsonl, &text.to_string()).unwrap_err();
    for part in [
        "line 1: `method` is not `POST`",
        "line 1: `url` is not `/v1/chat/completions`, where the benchmark sends",
        "line 1: `n` may change",
    ] {
        assert!(why.contains(part), "`{part}` is missing in:\n{why}");
    }
}

#[test]
fn values_of_records_are_checked_like_the_benchmarks_and_all_at_once() {
    let rows = [
        json!({"prompt": "a", "max_tokens": 4, "temperature": -1, "top_p": 2}),
        json!({"prompt": "a", "max_tokens": 4, "top_k": "many", "headers": {"api-key": "sk-1"}}),
        json!({"prompt": "a", "max_tokens": 4, "headers": {"X-A": "${A}"}, "min_tokens": 2, "min_length": 3}),
    ];
    let text = rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let why = planned(DataKind::Jsonl, &text).unwrap_err();
    for part in [
        "line 1: `temperature` must be 0 or more",
        "line 1: `top_p` must be from 0 to 1",
        "line 2: `top_k` invalid type",
        "line 2: `headers.api-key` holds a key",
        "line 3: `headers` may contain secrets from the environment",
        "line 3: `min_tokens` differs from another key of the same meaning",
    ] {
        assert!(why.contains(part), "`{part}` is missing in:\n{why}");
    }
    // Over the protocols that cannot send them they are not passed over.
    let (_folder, mut spec) =
        with_records(DataKind::Jsonl, r#"{"prompt": "a", "max_tokens": 4, "temperature": 1, "tools": [1]}"#);
    for protocol in [Transport::Kserve, Transport::Http(Http::new(Api::Generate))] {
        spec.protocol = protocol;
        let why = plan(&spec).unwrap_err().to_string();
        assert!(why.contains("`temperature` may change") && why.contains("`tools` may change"), "{why}");
    }
}

#[test]
fn adapters_are_drawn_by_their_weights_and_a_record_has_its_own() {
    let row = |at: usize| {
        let model = if at.is_multiple_of(10) { json!("own") } else { json!(null) };
        json!({"messages": [{"role": "user", "content": at.to_string()}], "max_tokens": 1, "model": model}).to_string()
    };
    let text = (0..200).map(row).collect::<Vec<_>>().join("\n");
    let with_adapters = |spec: &mut BenchSpec| {
        spec.request.adapters = [("sql".to_owned(), 3.0), ("chat".to_owned(), 1.0)].into();
    };
    let models = |sent: &[(String, Value)]| -> Vec<String> {
        sent.iter().map(|(_, body)| body["model"].as_str().unwrap().to_owned()).collect()
    };
    let drawn = models(&sent(&text, with_adapters));
    let count = |name: &str| drawn.iter().filter(|model| *model == name).count();
    assert_eq!(count("own"), 20);
    assert!((110..=160).contains(&count("sql")) && count("sql") + count("chat") == 180, "{drawn:?}");
    assert_eq!(models(&sent(&text, with_adapters)), drawn);
}

#[test]
fn a_plan_keeps_the_requests_of_its_records() {
    let row = r#"{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/a.png"}}]}], "max_tokens": 1, "tools": [{"type": "function"}], "headers": {"X-Tenant": "a"}}"#;
    let (folder, with_data) = with_records(DataKind::Jsonl, row);
    let server = Scripted::start(|_| answer(1));
    let mut first = chat(&server, 0);
    (first.stop, first.content, first.output_len) = (StopAfter::default(), with_data.content, Length::Given);
    write(folder.path(), &measure(&first)).unwrap();
    let mut again = chat(&server, 0);
    again.stop = StopAfter::default();
    again.content.data = Some(from(folder.path().join("plan.jsonl"), DataKind::Plan));
    measure(&again);
    let requests = server.requests.lock().unwrap();
    let without_id = |request: &String| {
        let lines = request.lines().filter(|line| !line.starts_with("X-Request-Id"));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(requests.len(), 2);
    assert!(requests[0].contains("http://x/a.png") && requests[0].contains("X-Tenant: a"), "{}", requests[0]);
    assert_eq!(without_id(&requests[0]), without_id(&requests[1]));
    again.protocol = Transport::Http(Http::new(Api::Generate));
    plan(&again).unwrap_err();
}

#[test]
fn lengths_under_two_names_must_be_one() {
    let row = |second: u32| format!(r#"{{"prompt": "a", "max_tokens": 4, "max_completion_tokens": {second}}}"#);
    assert_eq!(planned(DataKind::Jsonl, &row(4)).unwrap().requests.get(0).unwrap().output_len, 4);
    let why = planned(DataKind::Jsonl, &row(5)).unwrap_err();
    assert!(why.contains("`max_completion_tokens` differs"), "{why}");
}

/// A text as an editor on Windows saves it.
fn marked(text: &str) -> String {
    format!("\u{feff}{}", text.replace('\n', "\r\n"))
}

#[test]
fn prompts_are_read_as_without_a_byte_order_mark_and_with_any_line_end() {
    let lines = "{\"prompt\": \"one two\", \"output_tokens\": 4}\n\n{\"prompt\": \"three\", \"output_tokens\": 4}\n";
    let list = "[{\"prompt\": \"a\", \"output_tokens\": 4},\n {\"prompt\": \"b\", \"output_tokens\": 4}]\n";
    let talk = "[{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", \"value\": \"b\"}], \"max_tokens\": 4}]\n";
    let inputs = "{\"data\": [{\"text_input\": [\"a\"],\n \"max_tokens\": [4]}]}\n";
    for kind in KINDS {
        for text in [lines, list, talk, inputs] {
            let (plain, with_mark) = (planned(kind, text).unwrap(), planned(kind, &marked(text)).unwrap());
            assert_eq!(plain.digest, with_mark.digest, "{kind:?} {text}");
        }
    }
    let server = paced(std::time::Duration::ZERO);
    let mut first = crate::arrivals::spec(server.address, LoadPattern::Offline, 2);
    first.warmup = 0;
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &measured(&first)).unwrap();
    let file = folder.path().join("plan.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, marked(&text.replace('\n', "\n\n"))).unwrap();
    first.stop = StopAfter::default();
    first.content.data = Some(from(file.clone(), DataKind::Plan));
    assert_eq!(plan(&first).unwrap().requests.len(), 2);
    fs::write(&file, text.replacen('{', "{\"speed\": 2, ", 1)).unwrap();
    assert!(plan(&first).unwrap_err().to_string().contains("unknown field `speed`"));
}

/// Manifests, included files, configurations and results of other tools, command lines in scripts.
#[test]
fn texts_of_commands_are_read_as_without_a_byte_order_mark() {
    let world = World::new();
    world.file(
        "manifests/m.yaml",
        &marked("include: [part.yaml]\nregatta: 1\nabout: Marked\nstages: { a: { shell: 'true' } }\n"),
    );
    world.file("manifests/part.yaml", &marked("params: { x: { default: a, text: {} } }\n"));
    world.good(&["check", "m"]);
    world.good(&["list"]).shows("Marked");
    world.file(
        "bench.sh",
        &marked("aiperf profile --model m --url localhost:8000 --input-file t.jsonl --concurrency 4\n"),
    );
    world.file("t.jsonl", &marked("\n{\"timestamp\": 0, \"input_length\": 20, \"output_length\": 10}\n"));
    world.good(&["import", "bench.sh"]).shows("mooncake");
    let result = json!({ "backend": "openai-chat", "model_id": "m", "num_prompts": 8, "request_rate": "inf", "max_concurrency": 2,
        "duration": 2.0, "completed": 8, "failed": 0, "total_input_tokens": 800, "total_output_tokens": 400,
        "request_throughput": 4.0, "output_throughput": 200.0, "mean_ttft_ms": 50.0, "mean_tpot_ms": 10.0, "mean_itl_ms": 11.0 });
    world.file("r.json", &marked(&format!("{result:#}")));
    world.good(&["import", "r.json", "--out", "imported"]);
}
