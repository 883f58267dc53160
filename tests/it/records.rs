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
                {\"prompt\": \"b\", \"max_tokens\": 4, \"tools\": [{}], \"temperature\": 0.5}\n\
                {\"prompt\": \"c\", \"max_tokens\": 4, \"response_format\": {\"type\": \"json_object\"}, \"tools\": [1]}\n\
                {\"prompt\": \"d\", \"max_tokens\": 4, \"model\": \"other\", \"lora_path\": \"x\", \"priority\": 0, \"delay\": 5}\n";
    for kind in KINDS {
        let why = planned(kind, text).unwrap_err();
        for part in [
            "line 3: `temperature` may change",
            "line 4: `response_format` may change",
            "line 5: `model` is not `ensemble`",
            "line 5: `lora_path` may change",
            "line 5: `priority` may change",
            "line 5: `delay` is a pause",
            "jq -c 'del(.lora_path, .priority, .response_format, .temperature, .tools)'",
        ] {
            assert!(why.contains(part), "{kind:?} lacks `{part}`:\n{why}");
        }
        assert!(
            why.contains("line 3: `tools` may change what is requested, and is not sent (also in 1 more record)"),
            "{why}"
        );
        assert!(!why.contains("`id`"), "{why}");
    }
}

#[test]
fn a_key_that_holds_the_prompt_in_another_form_never_ends_in_a_drawn_prompt() {
    for key in ["question", "query", "turns", "texts", "contents", "body", "inputs", "instructions", "system_prompt"] {
        let (_folder, mut spec) = with_records(DataKind::Jsonl, &format!(r#"{{"{key}": "why", "max_tokens": 6}}"#));
        spec.input_len = Length::Fixed(16);
        let why = plan(&spec).unwrap_err().to_string();
        assert!(why.contains(&format!("line 1: `{key}` may change")), "{why}");
    }
}

#[test]
fn what_a_message_holds_besides_its_text_is_an_error_by_name() {
    let of_message =
        |fields: Value| planned(DataKind::Jsonl, &json!({"messages": [fields], "max_tokens": 6}).to_string());
    let image = json!([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}]);
    for (fields, part) in [
        (json!({"role": "user", "content": image}), "`content` of message 1 is a list of parts (`image_url`, `text`)"),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [{}]}),
            "line 1: `messages[].tool_calls` may change",
        ),
        (json!({"role": "tool", "content": "a", "tool_call_id": "x"}), "line 1: `messages[].tool_call_id` may change"),
        (json!({"role": "user", "content": "a", "name": "x"}), "line 1: `messages[].name` may change"),
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
    assert!(why.contains("entry 2: `bad_words` may") && why.contains("entry 2: `temperature` may"), "{why}");
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
