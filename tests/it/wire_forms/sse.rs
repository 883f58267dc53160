//! Answers over HTTP as servers write them. Each has six tokens unless its truth says otherwise.
//!
//! Sources: `vllm/entrypoints/openai/{chat_completion,completion}/serving.py`, `sglang/srt/entrypoints/openai/serving_chat.py`,
//! `tensorrt_llm/serve/postprocess_handlers.py`, OpenAI's reference of `chat.completion.chunk`.

use std::time::Duration;

use regatta::harness::Api;

use super::{Form, GAP, Truth};
use crate::openai::script::{DONE, Do, END, HEAD, chunk};

/// One event in JSON, beside the fields that every event has.
fn event(rest: &str) -> String {
    format!("data: {{\"id\":\"cmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",{rest}}}\n\n")
}

/// One choice of a chat.
fn delta(delta: &str, finish: &str, rest: &str) -> String {
    event(&format!(
        "\"choices\":[{{\"index\":0,\"delta\":{{{delta}}},\"logprobs\":null,\"finish_reason\":{finish}}}]{rest}"
    ))
}

fn text(text: &str, finish: &str, rest: &str) -> String {
    event(&format!("\"choices\":[{{\"index\":0,\"text\":\"{text}\",\"finish_reason\":{finish}}}]{rest}"))
}

fn usage(tokens: u64) -> String {
    format!(
        ",\"usage\":{{\"prompt_tokens\":8,\"completion_tokens\":{tokens},\"total_tokens\":{}}}",
        tokens.saturating_add(8)
    )
}

fn role() -> String {
    delta("\"role\":\"assistant\",\"content\":\"\"", "null", "")
}

fn contents(count: usize) -> Vec<String> {
    (0..count).map(|n| delta(&format!("\"content\":\"t{n} \""), "null", "")).collect()
}

fn total(tokens: u64) -> String {
    event(&format!("\"choices\":[]{}", usage(tokens)))
}

/// A total that is no count.
fn malformed(tokens: &str) -> String {
    event(&format!("\"choices\":[],\"usage\":{{\"prompt_tokens\":8,\"completion_tokens\":{tokens}}}"))
}

fn done() -> String {
    DONE.to_owned()
}

/// Each event in a write of its own; those that begin with `data: {` and have output come `GAP` after the one before.
fn paced(events: &[String]) -> Vec<Do> {
    let mut steps = vec![Do::Send(HEAD.to_owned())];
    for event in events {
        if event.contains("\"choices\":[{") || event.contains("text_output") || event.contains("output_ids") {
            steps.push(Do::Wait(GAP));
        }
        steps.push(Do::Send(chunk(event)));
    }
    steps.push(Do::Send(END.to_owned()));
    steps
}

fn whole(body: &str) -> Vec<Do> {
    vec![Do::Send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))]
}

fn form(name: &'static str, api: Api, truth: Truth, steps: Vec<Do>) -> Form {
    Form { name, truth, by: super::By::Http { api, streams: true, steps } }
}

fn one_piece(name: &'static str, truth: Truth, body: &str) -> Form {
    Form { name, truth, by: super::By::Http { api: Api::OpenaiChat, streams: false, steps: whole(body) } }
}

/// Six tokens, one a chunk.
const SIX: Truth = Truth { ok: 1, tokens: 6, first: 1, chunks: 6 };

pub fn forms() -> Vec<Form> {
    let completions =
        |name, truth, events: Vec<Vec<String>>| form(name, Api::OpenaiCompletions, truth, paced(&events.concat()));
    let generate = |name, truth, events: Vec<String>| form(name, Api::Generate, truth, paced(&events));
    let texts = |count: usize| (0..count).map(|n| text(&format!("t{n} "), "null", "")).collect::<Vec<_>>();
    let pieces = |tokens: u32| Truth { ok: 1, tokens: 6, first: tokens, chunks: 6 / tokens };
    let failed = Truth { ok: 0, tokens: 0, first: 0, chunks: 0 };
    let counted = |n: u64| delta(&format!("\"content\":\"t{n} \""), "null", &usage(n));
    let mut forms = vec![
        chat(
            "openai chat: role, finish alone, usage",
            SIX,
            vec![vec![role()], contents(6), vec![delta("", "\"stop\"", ""), total(6), done()]],
        ),
        completions(
            "openai completions: finish alone, usage",
            SIX,
            vec![texts(6), vec![text("", "\"length\"", ""), total(6), done()]],
        ),
        chat(
            "vllm chat: finish on the last token",
            SIX,
            vec![vec![role()], contents(5), vec![delta("\"content\":\"z\"", "\"length\"", ""), total(6), done()]],
        ),
        chat(
            "vllm chat: continuous usage",
            SIX,
            vec![
                vec![delta("\"role\":\"assistant\",\"content\":\"\"", "null", &usage(0))],
                (1..6).map(counted).collect(),
                vec![delta("\"content\":\"z\"", "\"length\"", &usage(6)), total(6), done()],
            ],
        ),
        completions(
            "vllm completions: usage null, then total",
            SIX,
            vec![
                (0..5).map(|_| text("t ", "null", ",\"usage\":null")).collect(),
                vec![text("z", "\"length\"", ",\"usage\":null"), total(6), done()],
            ],
        ),
        completions(
            "vllm completions: continuous usage",
            SIX,
            vec![(1..=6).map(|n| text("t ", "null", &usage(n))).collect(), vec![total(6), done()]],
        ),
        chat(
            "vllm chat: ends with an end token without text",
            Truth { chunks: 5, ..SIX },
            vec![vec![role()], contents(5), vec![delta("\"content\":\"\"", "\"stop\"", ""), total(6), done()]],
        ),
        completions(
            "vllm completions: token_ids, 2 a chunk, no usage",
            pieces(2),
            vec![
                (0..3)
                    .map(|_| {
                        event("\"choices\":[{\"index\":0,\"text\":\"ab\",\"token_ids\":[5,6],\"finish_reason\":null}]")
                    })
                    .collect(),
                vec![text("", "\"length\"", ""), done()],
            ],
        ),
        completions(
            "vllm completions: logprobs, 3 a chunk, total",
            pieces(3),
            vec![
                (0..2)
                    .map(|_| {
                        event(
                            "\"choices\":[{\"index\":0,\"text\":\"abc\",\"logprobs\":{\"tokens\":[\"a\",\"b\",\"c\"]},\
                             \"finish_reason\":null}]",
                        )
                    })
                    .collect(),
                vec![text("", "\"length\"", ""), total(6), done()],
            ],
        ),
        chat(
            "vllm chat: a token without text in the middle",
            SIX,
            vec![
                vec![role()],
                contents(3),
                vec![delta("\"content\":\"\"", "null", "")],
                contents(2),
                vec![delta("", "\"stop\"", ""), total(6), done()],
            ],
        ),
        chat(
            "sglang chat: null deltas, matched_stop",
            SIX,
            vec![
                vec![role()],
                contents(6),
                vec![
                    event(
                        "\"choices\":[{\"index\":0,\"delta\":{\"role\":null,\"content\":null,\"tool_calls\":null},\
                         \"finish_reason\":\"length\",\"matched_stop\":null}],\"usage\":null",
                    ),
                    total(6),
                    done(),
                ],
            ],
        ),
        chat(
            "sglang chat: stream interval 3, total",
            pieces(3),
            vec![vec![role()], contents(2), vec![delta("", "\"length\"", ""), total(6), done()]],
        ),
        chat(
            "sglang chat: stream interval 3, continuous usage",
            pieces(3),
            vec![vec![role(), counted(3), counted(6)], vec![delta("", "\"length\"", ""), total(6), done()]],
        ),
        chat(
            "sglang chat: reasoning and text of one step",
            SIX,
            vec![
                vec![role()],
                (1..=2).map(|n| delta("\"reasoning_content\":\"hm\"", "null", &usage(n))).collect(),
                vec![
                    delta("\"reasoning_content\":\"hm\"", "null", &usage(3))
                        + &delta("\"content\":\"t\"", "null", &usage(3)),
                ],
                (4..=6).map(counted).collect(),
                vec![delta("", "\"stop\"", ""), total(6), done()],
            ],
        ),
        chat(
            "trtllm-serve chat: blank before the line end",
            SIX,
            vec![
                vec![role().replace("}\n\n", "} \n\n")],
                (0..5).map(|_| delta("\"content\":\"t\",\"reasoning_content\":\"\"", "null", "")).collect(),
                vec![delta("\"content\":\"z\",\"reasoning_content\":\"\"", "\"length\"", ""), total(6), done()],
            ],
        ),
        chat(
            "trtllm-serve chat: continuous usage, a token without text",
            SIX,
            vec![
                vec![delta("\"role\":\"assistant\"", "null", &usage(0)), counted(1), counted(2)],
                vec![delta("\"content\":\"\",\"reasoning_content\":\"\"", "null", &usage(3))],
                vec![counted(4), counted(5), delta("\"content\":\"z\"", "\"length\"", &usage(6)), total(6), done()],
            ],
        ),
        completions(
            "trtllm-serve completions: finish on the last token",
            SIX,
            vec![texts(5), vec![text("z", "\"length\"", ""), total(6), done()]],
        ),
        chat(
            "usage on the finish chunk only",
            SIX,
            vec![vec![role()], contents(6), vec![delta("", "\"stop\"", &usage(6)), done()]],
        ),
        chat(
            "usage on the last token only",
            SIX,
            vec![vec![role()], contents(5), vec![delta("\"content\":\"z\"", "\"length\"", &usage(6)), done()]],
        ),
        chat(
            "usage on the last token, and again alone",
            SIX,
            vec![
                vec![role()],
                contents(5),
                vec![delta("\"content\":\"z\"", "\"length\"", &usage(6)), total(6), done()],
            ],
        ),
        chat("no usage", SIX, vec![vec![role()], contents(6), vec![delta("", "\"stop\"", ""), done()]]),
        chat(
            "no usage, 3 tokens a chunk",
            pieces(3),
            vec![vec![role()], contents(2), vec![delta("", "\"stop\"", ""), done()]],
        ),
        chat("no [DONE]", SIX, vec![vec![role()], contents(6), vec![delta("", "\"stop\"", ""), total(6)]]),
        chat(
            "a role in every delta",
            SIX,
            vec![
                (0..6).map(|_| delta("\"role\":\"assistant\",\"content\":\"t\"", "null", "")).collect(),
                vec![delta("\"role\":\"assistant\",\"content\":\"\"", "\"stop\"", ""), total(6), done()],
            ],
        ),
        chat(
            "reasoning_content, then content",
            SIX,
            vec![
                vec![role()],
                (0..3).map(|_| delta("\"reasoning_content\":\"r\"", "null", "")).collect(),
                contents(3),
                vec![delta("", "\"stop\"", ""), total(6), done()],
            ],
        ),
        chat(
            "reasoning, then content",
            SIX,
            vec![
                vec![role()],
                (0..3).map(|_| delta("\"reasoning\":\"r\"", "null", "")).collect(),
                contents(3),
                vec![delta("", "\"stop\"", ""), total(6), done()],
            ],
        ),
        chat(
            "tool-call deltas",
            SIX,
            vec![
                vec![role()],
                (0..6)
                    .map(|_| delta("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"x\"}}]", "null", ""))
                    .collect(),
                vec![delta("", "\"tool_calls\"", ""), total(6), done()],
            ],
        ),
        chat("tokens after [DONE]", SIX, vec![vec![role()], contents(6), vec![total(6), done()], contents(50)]),
        chat(
            "usage after [DONE]",
            SIX,
            vec![vec![role()], contents(6), vec![delta("", "\"stop\"", ""), done(), total(6)]],
        ),
        chat(
            "events with nothing in them",
            SIX,
            vec![vec![role(), "data:\n\ndata: \n\n".to_owned()], contents(6), vec![total(6), done()]],
        ),
        chat("[DONE] twice", SIX, vec![vec![role()], contents(6), vec![total(6), done(), done()]]),
        chat(
            "usage of 10^19 tokens",
            SIX,
            vec![vec![role()], contents(6), vec![total(10_000_000_000_000_000_000), done()]],
        ),
        chat("usage of -1 tokens", SIX, vec![vec![role()], contents(6), vec![malformed("-1"), done()]]),
        chat("usage of 1.5 tokens", SIX, vec![vec![role()], contents(6), vec![malformed("1.5"), done()]]),
        chat("usage of many tokens", SIX, vec![vec![role()], contents(6), vec![malformed("\"many\""), done()]]),
        chat(
            "usage that is a text",
            SIX,
            vec![vec![role()], contents(6), vec![event("\"choices\":[],\"usage\":\"many\""), done()]],
        ),
        chat("no choices, and usage", failed, vec![vec![total(6), done()]]),
        chat("no choices, no usage", failed, vec![vec![event("\"choices\":[]"), done()]]),
        chat("a role, and usage", failed, vec![vec![role(), total(6), done()]]),
        chat("usage above the requested", SIX, vec![vec![role()], contents(6), vec![total(7), done()]]),
        chat("usage below the chunks", SIX, vec![vec![role()], contents(6), vec![total(4), done()]]),
        chat(
            "usage that decreases",
            SIX,
            vec![vec![role()], (1..=5).map(counted).collect(), vec![counted(3), total(6), done()]],
        ),
        chat(
            "finish_reason abort",
            failed,
            vec![vec![role()], contents(3), vec![delta("", "\"abort\"", ""), total(3), done()]],
        ),
        chat(
            "finish_reason content_filter",
            Truth { ok: 1, tokens: 3, first: 1, chunks: 3 },
            vec![vec![role()], contents(3), vec![delta("", "\"content_filter\"", ""), total(3), done()]],
        ),
        chat(
            "another model answers",
            SIX,
            vec![contents(6), vec![total(6), done()]]
                .into_iter()
                .map(|events| events.iter().map(|event| event.replace("\"model\":\"m\"", "\"model\":\"x\"")).collect())
                .collect(),
        ),
        chat(
            "a new id in every event",
            SIX,
            vec![
                contents(6)
                    .iter()
                    .enumerate()
                    .map(|(n, event)| event.replace("cmpl-1", &format!("cmpl-{n}")))
                    .collect(),
                vec![total(6).replace("cmpl-1", "cmpl-0"), done()],
            ],
        ),
        chat(
            "an error in the stream",
            failed,
            vec![contents(2), vec!["data: {\"error\":{\"message\":\"out of memory\"}}\n\n".to_owned(), done()]],
        ),
        one_piece(
            "one piece with usage",
            Truth { ok: 1, tokens: 6, first: 6, chunks: 1 },
            &format!(
                "{{\"id\":\"a\",\"model\":\"m\",\"choices\":[{{\"message\":{{\"content\":\"a b\"}},\
                 \"finish_reason\":\"length\"}}]{}}}",
                usage(6)
            ),
        ),
        one_piece(
            "one piece without usage",
            Truth { ok: 1, tokens: 6, first: 6, chunks: 1 },
            "{\"id\":\"a\",\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"a b\"},\"finish_reason\":\"stop\"}]}",
        ),
        Form {
            name: "one piece in place of a stream",
            truth: Truth { ok: 1, tokens: 6, first: 6, chunks: 1 },
            by: super::By::Http {
                api: Api::OpenaiChat,
                streams: true,
                steps: whole(&format!(
                    "{{\"id\":\"a\",\"model\":\"m\",\"choices\":[{{\"message\":{{\"content\":\"a b\"}},\
                     \"finish_reason\":\"length\"}}]{}}}",
                    usage(6)
                )),
            },
        },
        generate(
            "generate: text_output, empty at the end",
            SIX,
            (0..6)
                .map(|_| "data: {\"model_name\":\"m\",\"text_output\":\" t\"}\n\n".to_owned())
                .chain(["data: {\"model_name\":\"m\",\"text_output\":\"\"}\n\n".to_owned()])
                .collect(),
        ),
    ];
    forms.extend(other_counts());
    forms.extend(other_fields());
    forms.extend(cuts());
    forms
}

fn chat(name: &'static str, truth: Truth, events: Vec<Vec<String>>) -> Form {
    form(name, Api::OpenaiChat, truth, paced(&events.into_iter().flatten().collect::<Vec<_>>()))
}

/// A count beside every event that is none of the answer.
fn other_counts() -> Vec<Form> {
    let beside = |tokens: u64| -> Vec<Vec<String>> {
        vec![
            vec![delta("\"role\":\"assistant\",\"content\":\"\"", "null", &usage(tokens))],
            (0..6).map(|n| delta(&format!("\"content\":\"t{n} \""), "null", &usage(tokens))).collect(),
            vec![delta("", "\"stop\"", &usage(tokens))],
        ]
    };
    let with = |tokens, end: Vec<String>| [beside(tokens), vec![end]].concat();
    vec![
        chat("localai chat: usage of 0 beside every event, then total", SIX, with(0, vec![total(6), done()])),
        chat("usage of 0 beside every event", SIX, with(0, vec![done()])),
        chat("usage of 1 beside every event, then total", SIX, with(1, vec![total(6), done()])),
        chat("usage of 1 beside every event", SIX, with(1, vec![done()])),
    ]
}

/// Fields with other names or contents than usual.
fn other_fields() -> Vec<Form> {
    let failed = Truth { ok: 0, tokens: 0, first: 0, chunks: 0 };
    let end = || vec![delta("", "\"stop\"", ""), total(6), done()];
    let six = |output: &str| (0..6).map(|_| delta(output, "null", "")).collect::<Vec<_>>();
    let empty_reason = |count: usize| -> Vec<String> {
        contents(count).iter().map(|event| event.replace("\"finish_reason\":null", "\"finish_reason\":\"\"")).collect()
    };
    let about = || event("\"choices\":[],\"prompt_filter_results\":[]").replace("cmpl-1", "").replace("\"m\"", "\"\"");
    let body_without_end = |last: Do| {
        let mut steps = paced(&[vec![role()], contents(6), end()].concat());
        steps.pop();
        steps.push(last);
        steps
    };
    vec![
        chat(
            "function_call deltas",
            SIX,
            vec![vec![role()], six("\"function_call\":{\"name\":null,\"arguments\":\"x\"}"), end()],
        ),
        chat(
            "content as a list of parts",
            SIX,
            vec![vec![role()], six("\"content\":[{\"type\":\"text\",\"text\":\"t\"}]"), end()],
        ),
        chat("output under an unknown name", SIX, vec![vec![role()], six("\"thinking\":\"t\""), end()]),
        chat("a total without any text", Truth { ok: 1, tokens: 6, first: 6, chunks: 1 }, vec![vec![role()], end()]),
        chat(
            "localai chat: an empty finish_reason beside every chunk",
            SIX,
            vec![vec![role()], empty_reason(6), end()],
        ),
        chat("an empty finish_reason beside every chunk, cut", failed, vec![vec![role()], empty_reason(3)]),
        chat("an event about the request with empty names", SIX, vec![vec![about(), role()], contents(6), end()]),
        form("the body does not end after [DONE]", Api::OpenaiChat, SIX, body_without_end(Do::Hang)),
        form("the connection is closed after [DONE]", Api::OpenaiChat, SIX, body_without_end(Do::Close)),
    ]
}

/// The same answer, cut and written in every way that HTTP and SSE allow.
fn cuts() -> Vec<Form> {
    let utf8 = || (0..6).map(|_| delta("\"content\":\"é😀\"", "null", "")).collect::<Vec<_>>();
    let answer = || [vec![role()], utf8(), vec![delta("", "\"stop\"", ""), total(6), done()]].concat();
    let bytes: Vec<Do> = {
        // Byte by byte, also inside of characters; a pause before each event.
        let mut steps = vec![Do::Send(HEAD.to_owned())];
        for event in answer() {
            steps.push(Do::Wait(GAP));
            steps.extend(chunk(&event).bytes().map(|byte| Do::Bytes(vec![byte])));
        }
        steps.push(Do::Send(END.to_owned()));
        steps
    };
    let rewritten = |name, rewrite: fn(&str) -> String| {
        let events: Vec<String> = answer().iter().map(|event| rewrite(event)).collect();
        form(name, Api::OpenaiChat, SIX, paced(&events))
    };
    let marked = {
        let mut events = [utf8(), vec![delta("", "\"stop\"", ""), total(6), done()]].concat();
        events[0].insert(0, '\u{feff}');
        events
    };
    let three_in_one: Vec<Do> = {
        let events = contents(6);
        let (one, two) = (events[..3].concat(), events[3..].concat());
        let end = [total(6), done()].concat();
        vec![
            Do::Send(HEAD.to_owned()),
            Do::Send(chunk(&one)),
            Do::Wait(Duration::from_millis(60)),
            Do::Send([chunk(&two), chunk(&end), END.to_owned()].concat()),
        ]
    };
    vec![
        form("cut at every byte, inside of characters too", Api::OpenaiChat, SIX, bytes),
        rewritten("CRLF", |event| event.replace('\n', "\r\n")),
        rewritten("comments and keep-alive lines", |event| format!(": keep-alive\n\n:\nretry: 3\n{event}\n\n")),
        rewritten("events of several data lines", |event| event.replacen(",\"object\"", "\ndata: ,\"object\"", 1)),
        rewritten("no blank after the colon, event names", |event| {
            format!("event: message\n{}", event.replacen("data: ", "data:", 1))
        }),
        rewritten("blanks around [DONE]", |event| event.replace("data: [DONE]", "data:  [DONE] ")),
        form("a byte order mark before the first token", Api::OpenaiChat, SIX, paced(&marked)),
        form("three events in one write", Api::OpenaiChat, Truth { first: 3, ..SIX }, three_in_one),
    ]
}
