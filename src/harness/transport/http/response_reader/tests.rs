//! Answers of good and of bad servers, event by event.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::tokens::{CountedTokens, TokenSource, Violations};

fn expected(api: Api) -> ExpectedAnswer<'static> {
    ExpectedAnswer {
        api,
        path: "/v1/x",
        model: "",
        secrets: &[],
        tokens: 10,
        beams: 1,
        has_choices: false,
        limits: ResponseBounds::default(),
    }
}

fn counted(http_outcome: HttpOutcome) -> CountedTokens {
    http_outcome.account.settle(TokenSource::Usage, None)
}

fn listen(api: Api, body: &[&str]) -> (HttpOutcome, Result<(), HttpFault>) {
    let mut http_outcome = HttpOutcome::default();
    let mut response_reader = HttpResponseReader::new(expected(api), &mut http_outcome);
    response_reader.head(200, true);
    let mut outcome = Ok(());
    for (at, piece) in body.iter().enumerate() {
        outcome = outcome.and_then(|()| response_reader.data(piece.as_bytes(), at as u64));
    }
    let outcome = outcome.and_then(|()| response_reader.end(body.len() as u64));
    (http_outcome, outcome)
}

fn content(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
}

const ROLE: &str = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn several_events_in_one_read_share_its_time() {
    let two = [content("a"), content("b")].concat();
    let (response, outcome) = listen(Api::OpenaiChat, &[ROLE, &two, &content("c"), DONE]);
    assert_eq!(outcome, Ok(()));
    let times: Vec<u64> = counted(response).chunks.iter().map(|chunk| chunk.t_read).collect();
    assert_eq!(times, [1, 1, 2]);
}

proptest! {
    #[test]
    fn however_the_body_is_cut_the_tokens_are_the_same(
        words in prop::collection::vec("[a-z]{0,5}", 1..9),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
    ) {
        // An event without text at the end would be no token.
        let words = [words, vec!["z".to_owned()]].concat();
        let usage = format!("data: {{\"choices\":[],\"usage\":{{\"completion_tokens\":{}}}}}\n\n", words.len());
        let body = [ROLE.to_owned(), words.iter().map(|word| content(word)).collect(), usage, DONE.to_owned()].concat();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
        at.extend([0, body.len()]);
        at.sort_unstable();
        let pieces: Vec<&str> = at.windows(2).map(|pair| &body[pair[0]..pair[1]]).collect();
        let (response, outcome) = listen(Api::OpenaiChat, &pieces);
        prop_assert_eq!(outcome, Ok(()));
        prop_assert!(response.account.has_ended());
        let counted = counted(response);
        prop_assert!(counted.is_per_chunk);
        prop_assert_eq!(counted.chunks.len(), words.len());
        prop_assert_eq!(counted.usage.unwrap().completion, Some(words.len() as u64));
    }
}

#[test]
fn an_answer_in_a_protocol_that_is_not_measured_is_named() {
    let anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\
                     \"type\":\"message\",\"role\":\"assistant\",\"content\":[],\"model\":\"m\"}}\n\n";
    let responses =
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n";
    for (body, title) in [(anthropic, "Anthropic's Messages"), (responses, "OpenAI's Responses")] {
        let (class, why) = listen(Api::OpenaiChat, &[body]).1.unwrap_err();
        assert_eq!(class, FailureClass::Stream);
        assert!(why.starts_with(&format!("{title} is not measured: ")), "{why}");
    }
    let whole = |body: &str| {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(200, false);
        let (begin, rest) = body.split_at(body.len() / 2);
        response_reader.data(begin.as_bytes(), 1).unwrap();
        response_reader.data(rest.as_bytes(), 2).unwrap();
        response_reader.end(3).unwrap_err().1
    };
    let line = |text: &str, done: bool| {
        format!(
            "{{\"model\":\"m\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{{\"role\":\"assistant\",\
             \"content\":\"{text}\"}},\"done\":{done}}}\n"
        )
    };
    for body in [line("a", false) + &line("b", false) + &line("", true), line("ab", true)] {
        let why = whole(&body);
        assert!(why.starts_with("Ollama's own interface (lines of JSON) is not measured: Ollama also offers"), "{why}");
    }
    let message = "{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"text\",\
                   \"text\":\"a\"}],\"usage\":{\"input_tokens\":8,\"output_tokens\":1}}";
    assert!(whole(message).starts_with("Anthropic's Messages is not measured: "));
    let response = "{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1741476542,\"output\":[]}";
    assert!(whole(response).starts_with("OpenAI's Responses is not measured: "));
    // Two lines of another kind stay what they are, and an error comes before everything else.
    assert!(whole("{\"a\":1}\n{\"a\":2}\n").starts_with("it is not JSON: "));
    let page = whole("<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please log in</body></html>");
    assert_eq!(page, format!("the answer {A_PAGE} (the HTML page \"Sign in\")"));
    assert_eq!(error_text(b"\r\n<html><body><h1>Bad Gateway</h1></body></html>"), "an HTML page");
    let error = "{\"type\":\"message\",\"error\":{\"message\":\"no room\"}}";
    assert_eq!(whole(error), "no room");
    assert_eq!(whole(""), "the answer is empty (HTTP status 200)");
}

#[test]
fn an_error_that_is_no_event_is_the_reason_of_an_answer_that_breaks_off() {
    let token = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    for (end, reason) in [
        ("{\n  \"error\": {\n    \"code\": 503,\n    \"message\": \"no room\"\n  }\n}\n", "after 1 token: no room"),
        ("Internal Server Error", "after 1 token: Internal Server Error"),
        (": a comment\n\n", "after 1 token without a finish_reason and without [DONE]"),
    ] {
        let error = listen(Api::OpenaiChat, &[token, end]).1.unwrap_err().1;
        assert_eq!(error, format!("the stream ended {reason}"));
    }
}

#[test]
fn usage_in_every_event_says_how_many_tokens_it_brought() {
    let event =
        |n: u32| format!("data: {{\"choices\":[{{\"text\":\"x\"}}],\"usage\":{{\"completion_tokens\":{n}}}}}\n\n");
    let (response, outcome) = listen(Api::OpenaiCompletions, &[&event(3), &event(4), &event(4), DONE]);
    assert_eq!(outcome, Ok(()));
    assert_eq!(counted(response).chunks.iter().map(|chunk| chunk.tokens).collect::<Vec<_>>(), [3, 1]);
}

#[test]
fn token_ids_are_collected_where_a_driver_needs_them_and_an_answer_without_them_fails() {
    let first = Rc::new(Cell::new(None));
    let listen = |body: &[&str]| {
        let seen = Rc::clone(&first);
        let ids = AnswerIds::new(move |token, at| seen.set(Some((token, at))));
        let mut http_outcome = HttpOutcome { ids: Some(ids), ..HttpOutcome::default() };
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiCompletions), &mut http_outcome);
        response_reader.head(200, true);
        let mut pieces = (1_u64..).zip(body);
        let outcome = pieces.try_for_each(|(at, piece)| response_reader.data(piece.as_bytes(), at));
        (http_outcome.ids.unwrap().ids, outcome)
    };
    let event =
        |ids: &str| format!("data: {{\"choices\":[{{\"text\":\"\",\"token_ids\":{ids},\"finish_reason\":null}}]}}\n\n");
    // trtllm-serve's last event has no tokens, but the reason.
    let last = "data: {\"choices\":[{\"text\":\"\",\"token_ids\":[],\"finish_reason\":\"stop\"}]}\n\n";
    let whole = event("[7,8]") + &event("[9]");
    let (one, rest) = whole.split_at(40);
    assert_eq!(listen(&[one, rest, last, DONE]), (vec![7, 8, 9], Ok(())));
    assert_eq!(first.get(), Some((7, 2)));
    let (_, refused) = listen(&["data: {\"choices\":[{\"text\":\"a\",\"token_ids\":null}]}\n\n"]);
    let (class, why) = refused.unwrap_err();
    assert_eq!(class, FailureClass::Server);
    assert!(why.contains("`extra: { detokenize: false }` requests them of trtllm-serve"), "{why}");
}

/// Servers and gateways may end a stream with `[DONE]` also where the answer broke off.
#[test]
fn an_error_under_any_key_fails_and_a_message_about_progress_does_not() {
    let end = |body: &[&str]| listen(Api::OpenaiChat, body).1;
    let failed = |why: &str| Err((FailureClass::Server, why.to_owned()));
    let fastchat = "data: {\"text\":\"too much traffic\",\"error_code\":50002}\n\n";
    assert_eq!(end(&[&content("a"), fastchat, DONE]), failed("too much traffic"));
    let flat = "data: {\"object\":\"error\",\"message\":\"out of memory\",\"code\":500}\n\n";
    assert_eq!(end(&[flat, DONE]), failed("out of memory"));
    let detail = "data: {\"detail\":\"Internal Server Error\"}\n\n";
    assert_eq!(end(&[&content("a"), detail, DONE]), failed("Internal Server Error"));
    assert_eq!(end(&[&content("a"), detail]), failed("Internal Server Error"));
    let progress = "data: {\"message\":\"your request waits\"}\n\n";
    assert_eq!(end(&[progress, &content("a").replace("null", "\"stop\""), DONE]), Ok(()));
}

#[test]
fn a_whole_answer_without_choices_fails_with_what_the_server_says() {
    let whole = |body: &str| {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(200, false);
        response_reader.data(body.as_bytes(), 1).and_then(|()| response_reader.end(1)).unwrap_err()
    };
    let flat = r#"{"object":"error","message":"not loaded","code":404}"#;
    assert_eq!(whole(flat), (FailureClass::Server, "not loaded".to_owned()));
    assert_eq!(whole(r#"{"detail":"not loaded"}"#), (FailureClass::Server, "not loaded".to_owned()));
    let reason = r#"the answer has no token: {"choices":[]}"#.to_owned();
    assert_eq!(whole(r#"{"choices":[]}"#), (FailureClass::Short, reason));
}

#[test]
fn a_whole_answer_has_the_requested_tokens_for_each_text_and_none_without_text() {
    let tokens = |choices: &str| {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(200, false);
        let body = format!("{{\"choices\":[{choices}]}}");
        response_reader.data(body.as_bytes(), 1).and_then(|()| response_reader.end(1)).unwrap();
        counted(http_outcome).tokens
    };
    let message = |rest: &str| format!(r#"{{"message":{{"role":"assistant",{rest}}},"finish_reason":"stop"}}"#);
    let (text, empty) = (message(r#""content":"a""#), message(r#""content":"""#));
    assert_eq!(tokens(&text), 10);
    assert_eq!(tokens(&format!("{text},{text}")), 20);
    assert_eq!(tokens(&format!("{text},{empty}")), 10);
    assert_eq!((tokens(&empty), tokens(&message(r#""content":null"#))), (0, 0));
    assert_eq!(tokens(&message(r#""content":null,"thinking":"a""#)), 10);
}

/// Frameworks label a text as such by default, and clients read its lines all the same.
#[test]
fn events_are_known_by_their_form_where_their_content_type_is_another() {
    for cut in [1, 3, 20, 200] {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(200, false);
        let body = [": wait\n\n", ROLE, &content("a"), &content("b"), DONE].concat();
        let (one, two) = body.split_at(cut);
        for (at, piece) in (1..).zip([one, two]) {
            response_reader.data(piece.as_bytes(), at).unwrap();
        }
        response_reader.end(3).unwrap();
        let counted = counted(http_outcome);
        assert_eq!((counted.tokens, counted.is_whole), (2, false));
        let violations: Vec<Violation> = counted.violations.each().map(|(class, ..)| class).collect();
        assert_eq!(violations, [Violation::ContentType], "cut at {cut}");
    }
}

#[test]
fn an_early_end_an_error_and_wrong_json_each_have_their_class() {
    let class = |body: &[&str]| listen(Api::OpenaiChat, body).1.unwrap_err().0;
    assert_eq!(class(&[&content("a")]), FailureClass::Short);
    assert_eq!(class(&[&content("a").replace("null", "\"\"")]), FailureClass::Short);
    assert_eq!(class(&[&content("a"), "data: {\"error\":{\"message\":\"no\"}}\n\n"]), FailureClass::Server);
    assert_eq!(class(&["event: error\ndata: {\"detail\":1}\n\n"]), FailureClass::Server);
    assert_eq!(class(&[&content("a"), "data: {\"choices\":\n\n"]), FailureClass::Stream);
}

#[test]
fn an_empty_text_at_the_end_of_a_triton_stream_is_no_token() {
    let event = |text: &str| format!("data: {{\"text_output\":\"{text}\"}}\n\n");
    let (response, outcome) = listen(Api::Generate, &[&event("a"), &event(""), &event("b"), &event("")]);
    assert_eq!(outcome, Ok(()));
    assert_eq!(counted(response).chunks.iter().map(|chunk| chunk.t_read).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn the_ids_of_several_beams_are_those_of_the_longest() {
    let answer = "{\"output_ids\":[[5,6,7],[5,6,2]]}";
    let mut http_outcome = HttpOutcome::default();
    let expected = ExpectedAnswer { beams: 2, ..expected(Api::Generate) };
    let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
    response_reader.head(200, false);
    response_reader.data(answer.as_bytes(), 1).unwrap();
    assert_eq!(response_reader.end(1), Ok(()));
    assert_eq!(response_reader.tokens(), 3);
}

#[test]
fn a_refusal_includes_the_server_message() {
    let refuse = |status, body: &str| {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(status, false);
        response_reader.data(body.as_bytes(), 0).unwrap();
        response_reader.end(0).unwrap_err()
    };
    let (class, why) = refuse(429, "{\"error\":{\"message\":\"slow down\"}}");
    assert_eq!((class, why.as_str()), (FailureClass::Refused, "HTTP status 429: slow down"));
    assert_eq!(refuse(500, "").0, FailureClass::Server);
    assert!(refuse(500, &"x".repeat(LONGEST_ERROR - 1)).1.starts_with("HTTP status 500: xxx"));
    assert_eq!(refuse(500, "oh").1, "HTTP status 500: oh");
}

#[test]
fn a_key_in_an_id_or_a_name_that_is_cut_is_not_shown_in_part() {
    const KEY: &str = "sk-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM";
    let secrets = [KEY.to_owned()];
    let long = format!("{}{KEY}", "x".repeat(50));
    // The same, with escapes, of which the cut leaves a part.
    let escaped = format!("{}\\u0073\\u006b{}", "x".repeat(50), &KEY[2..]);
    let half = format!("{}{}\\u0036", "x".repeat(67), &KEY[..9]);
    for id in [&long, &escaped, &half] {
        let event = |id: &str, model: &str| {
            format!(
                "data: {{\"id\":\"{id}\",\"model\":\"{model}\",\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n"
            )
        };
        for events in
            [[event("1", "m"), event(id, "m")], [event(id, "m"), event("1", "m")], [event("1", "m"), event("1", id)]]
        {
            let mut http_outcome = HttpOutcome::default();
            let expected = ExpectedAnswer { model: "m", secrets: &secrets, ..expected(Api::OpenaiChat) };
            let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
            response_reader.head(200, true);
            response_reader.data(events.concat().as_bytes(), 1).unwrap();
            let counted = counted(http_outcome);
            let examples = format!("{:?}", counted.violations);
            assert!(examples.contains("x***…") && !examples.contains("sk-0"), "{examples}");
        }
    }
}

#[test]
fn of_a_key_only_what_a_cut_may_have_left_is_taken_for_a_part() {
    let key = ["token-abc123".to_owned()];
    for (from, to) in [
        ("Invalid token", "Invalid token"),
        ("Invalid token-abc123", "Invalid ***"),
        ("Invalid token-ab…", "Invalid ***…"),
        ("Invalid tok…", "Invalid tok…"),
    ] {
        assert_eq!(without_secrets(from.to_owned(), &key), to);
    }
    let mut http_outcome = HttpOutcome::default();
    let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
    response_reader.head(401, false);
    response_reader.data(b"Invalid token", 0).unwrap();
    assert_eq!(response_reader.refusal().1, "HTTP status 401: Invalid token");
    assert_eq!(response_reader.cut_refusal().1, "HTTP status 401: Invalid token…");
}

#[test]
fn of_a_refusal_without_end_no_more_is_read_than_is_kept() {
    let mut http_outcome = HttpOutcome::default();
    let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
    response_reader.head(503, false);
    let piece = [b'x'; 1 << 10];
    let pieces = (0..100).take_while(|at| response_reader.data(&piece, *at).is_ok()).count();
    assert_eq!(pieces, LONGEST_ERROR / piece.len() - 1, "the one that fills it ends the request");
    let (class, why) = response_reader.data(&piece, 100).unwrap_err();
    assert_eq!(class, FailureClass::Refused);
    assert!(why.starts_with("HTTP status 503: xxx") && why.len() < 500, "{why}");
}

#[test]
fn blanks_around_the_end_a_byte_order_mark_and_empty_names_are_understood() {
    let event = |name: &str| {
        format!(
            "data: {{\"id\":\"{name}\",\"model\":\"{name}\",\
             \"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let about = "data: {\"id\":\"\",\"model\":\"\",\"choices\":[],\"prompt_filter_results\":[]}\n\n";
    let body = format!("\u{feff}{}{about}{}data: [DONE] \n\n", event("m"), event("m"));
    // The mark may be cut.
    for cut in 0..4 {
        let mut http_outcome = HttpOutcome::default();
        let expected = ExpectedAnswer { model: "m", ..expected(Api::OpenaiChat) };
        let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
        response_reader.head(200, true);
        let (one, two) = body.as_bytes().split_at(cut);
        response_reader.data(one, 1).unwrap();
        response_reader.data(two, 2).unwrap();
        response_reader.end(3).unwrap();
        let counted = counted(http_outcome);
        assert_eq!((counted.chunks.len(), counted.violations), (2, Violations::default()), "cut at {cut}");
    }
}

#[test]
fn of_an_id_of_any_length_only_the_beginning_is_kept() {
    let event = |id: &str| format!("data: {{\"id\":\"{id}\",\"choices\":[{{\"delta\":{{\"content\":\"a\"}}}}]}}\n\n");
    let long = "i".repeat(1 << 20);
    let wrong = |second: &str| {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(200, true);
        for id in [long.as_str(), second] {
            response_reader.data(event(id).as_bytes(), 1).unwrap();
        }
        assert_eq!(response_reader.id.as_ref().map(|(start, _)| start.len()), Some(LONGEST_ID));
        counted(http_outcome).violations.each().count() > 0
    };
    assert!(!wrong(&long));
    assert!(wrong(&long[1..]) && wrong("other"));
}

#[test]
fn what_many_small_kept_events_take_is_part_of_the_budget() {
    let mut http_outcome = HttpOutcome { events: Some(Vec::new()), ..HttpOutcome::default() };
    let limits = ResponseBounds { total: 64 << 10, ..ResponseBounds::default() };
    let expected = ExpectedAnswer { limits, ..expected(Api::OpenaiChat) };
    let mut response_reader = HttpResponseReader::new(expected, &mut http_outcome);
    response_reader.head(200, true);
    let outcome = (0..2_000).try_for_each(|at| response_reader.data(b"data: {}\n\n", at));
    assert_eq!(outcome.unwrap_err().0, FailureClass::TooLarge);
}

#[test]
fn every_status_of_success_is_an_answer() {
    for status in [200, 201, 299] {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(status, true);
        response_reader.data([&content("a"), DONE].concat().as_bytes(), 1).unwrap();
        assert_eq!((response_reader.end(2), response_reader.tokens()), (Ok(()), 1), "{status}");
    }
}

#[test]
fn a_server_that_has_no_such_path_is_shown_which() {
    for (status, begin) in [(404, "HTTP status 404 of POST /v1/x: {"), (405, "HTTP status 405 of POST /v1/x: {")] {
        let mut http_outcome = HttpOutcome::default();
        let mut response_reader = HttpResponseReader::new(expected(Api::OpenaiChat), &mut http_outcome);
        response_reader.head(status, false);
        response_reader.data(b"{\"detail\":\"Not Found\"}", 1).unwrap();
        assert!(response_reader.refusal().1.starts_with(begin), "{}", response_reader.refusal().1);
    }
}

#[test]
fn an_error_is_the_servers_in_whatever_field_of_an_event_it_is() {
    for (event, reason) in [
        ("event: error\ndata: backend gone\n\n", "backend gone"),
        ("event: error\ndata: {\"error\":{\"message\":\"no room\"}}\n\n", "no room"),
        ("error: {\"code\":500,\"message\":\"cache full\"}\n\n", "{\"code\":500,\"message\":\"cache full\"}"),
    ] {
        let failed = listen(Api::OpenaiChat, &[&content("a"), event]).1;
        assert_eq!(failed, Err((FailureClass::Server, reason.to_owned())));
    }
}

#[test]
fn output_beside_a_repeated_role_is_output() {
    let event = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"x\"}}]}\n\n";
    // What stands beside the role at the end is about the message.
    let end = event.replace("}}]}", "},\"finish_reason\":\"stop\"}]}");
    let (response, outcome) = listen(Api::OpenaiChat, &[ROLE, event, event, &end, DONE]);
    assert_eq!(outcome, Ok(()));
    let times: Vec<u64> = counted(response).chunks.iter().map(|chunk| chunk.t_read).collect();
    assert_eq!(times, [1, 2]);
}

#[test]
fn lines_of_json_in_place_of_events_are_named() {
    let line = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n";
    let (class, why) = listen(Api::OpenaiChat, &[line, line, "data: [DONE]\n"]).1.unwrap_err();
    assert_eq!(class, FailureClass::Stream);
    assert!(why.contains("; JSON lines without empty lines between them are not events: "), "{why}");
}
