//! Plans are a pure function of the spec and of the files that it names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::{
    ChatMessage, LoadLevel, LoadSegment, Pause, PreviousAnswers, Prompt, PromptFile, PromptSource, SendingSpec, Slo,
    Transport,
};
use base::spec::{
    Arrivals, DelayPlace, History, Length, Limits, Prefixes, RecordOrder, Request, Sessions, StopAfter, ThinkTime,
    TimeSpan,
};

pub(super) fn spec(scenario: LoadPattern, arrivals: Arrivals, stop: StopAfter, seed: u64) -> BenchSpec {
    BenchSpec {
        endpoints: vec!["127.0.0.1:1".parse().unwrap()],
        protocol: Transport::Kserve,
        model: "tensorrt_llm".to_owned(),
        scenario,
        arrivals,
        stop,
        input_len: Length::Uniform { min: 5, max: 50 },
        output_len: Length::Normal { mean: 20.0, stddev: 5.0, min: 1, max: 40 },
        seed,
        warmup: 0,
        pace: SendingSpec::default(),
        content: PromptSource::default(),
        frontends: 1,
        clients: 1,
        stall_timeout: Duration::from_secs(1),
        limits: Limits::default(),
        slo: Slo::default(),
        timelines: false,
        vocab_size: 1000,
        end_id: 2,
        request: Request::default(),
    }
}

pub(super) fn server(rate: f64) -> LoadPattern {
    LoadPattern::Server { rate: rate.into() }
}

pub(super) fn requests(count: u64) -> StopAfter {
    StopAfter { requests: Some(count), duration: None }
}

fn write_plan(file: &Path, schedule: &RequestSchedule) {
    write(&mut fs::File::create(file).unwrap(), schedule).unwrap();
}

/// With a file in a folder of its own.
fn with_file(name: &str, text: &str, kind: DataKind) -> (tempfile::TempDir, BenchSpec) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(name);
    fs::write(&file, text).unwrap();
    let mut spec = spec(LoadPattern::Offline, Arrivals::Poisson, StopAfter::default(), 5);
    spec.content.data = Some(data(file, kind));
    (spec.input_len, spec.output_len) = (Length::Given, Length::Given);
    (folder, spec)
}

fn data(file: PathBuf, kind: DataKind) -> PromptFile {
    PromptFile {
        kind,
        file,
        lengths: None,
        output_lengths: None,
        first: None,
        max_input_tokens: None,
        order: RecordOrder::Given,
        repeat: false,
        block_tokens: 512,
        delay: DelayPlace::BeforeTurn,
    }
}

fn ids(schedule: &RequestSchedule, index: usize) -> Vec<i32> {
    schedule.ids(index as u64, &schedule.requests.get(index).unwrap(), &PreviousAnswers::default()).unwrap()
}

#[test]
fn equal_prefixes_are_equal_tokens_and_equal_words() {
    let mut shared = spec(server(10.0), Arrivals::Constant, requests(200), 8);
    shared.content.prefixes = Some(Prefixes { count: 4, tokens: 32, zipf: None });
    let even = plan(&shared).unwrap();
    let beginnings = |schedule: &RequestSchedule| {
        let mut counts = std::collections::BTreeMap::<Vec<i32>, usize>::new();
        for index in 0..schedule.requests.len() {
            let ids = ids(schedule, index);
            assert_eq!(ids.len() as u32, schedule.requests.get(index).unwrap().input_len);
            *counts.entry(ids[..32].to_vec()).or_default() += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable();
        counts
    };
    assert_eq!(beginnings(&even).len(), 4);
    let text = |index: u64| {
        even.text(index, &even.requests.get(index as usize).unwrap(), &PreviousAnswers::default()).unwrap()
    };
    let words: std::collections::BTreeSet<String> =
        (0..200).map(|index| text(index).split(' ').take(32).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(words.len(), 4);
    shared.content.prefixes = Some(Prefixes { count: 4, tokens: 32, zipf: Some(2.0) });
    let skewed = beginnings(&plan(&shared).unwrap());
    assert!(skewed[skewed.len() - 1] > 110, "{skewed:?}");
}

#[test]
fn distinct_prompts_come_again_whole() {
    let mut few = spec(server(10.0), Arrivals::Constant, requests(100), 8);
    few.content.distinct = Some(3);
    let plan = plan(&few).unwrap();
    let prompts: std::collections::BTreeSet<Vec<i32>> = (0..100).map(|index| ids(&plan, index)).collect();
    assert_eq!(prompts.len(), 3);
}

#[test]
fn a_session_grows_by_its_answers() {
    let mut turns = spec(server(10.0), Arrivals::Constant, requests(9), 8);
    turns.content.sessions = Some(Sessions { turns: Length::Fixed(3), history: History::Planned, turn_delay: None });
    turns.pace.think = Pause::Fixed(250.0);
    let plan = plan(&turns).unwrap();
    assert_eq!(plan.requests.len(), 9);
    for (first, session) in plan.sessions(1) {
        let prompts: Vec<Vec<i32>> = (0..3).map(|turn| ids(&plan, first as usize + turn)).collect();
        for (later, earlier) in [(1, 0), (2, 1)] {
            assert!(prompts[later].starts_with(&prompts[earlier]));
            assert!(prompts[later].len() > prompts[earlier].len() + session[earlier].output_len as usize);
            assert_eq!((session[later].due, session[later].at_ns), (RequestTrigger::Turn, 250_000_000));
        }
        assert_eq!(session[0].due, RequestTrigger::Schedule);
    }
    turns.scenario = LoadPattern::Concurrency { users: LoadLevel::Fixed(1.0) };
    let delay = ThinkTime::Fixed(TimeSpan::parse("200ms").unwrap());
    let conversation = Sessions { turns: Length::Fixed(3), history: History::Planned, turn_delay: Some(delay) };
    turns.content.sessions = Some(conversation);
    let pauses =
        |spec: &BenchSpec| plan_of(spec).requests.to_vec().iter().map(|it| it.at_ns / 1_000_000).collect::<Vec<_>>();
    assert_eq!(pauses(&turns)[..6], [250, 200, 200, 250, 200, 200]);
    turns.pace.think = Pause::default();
    assert_eq!(pauses(&turns)[..6], [0, 200, 200, 0, 200, 200]);
    turns.scenario = server(10.0);
    turns.content.sessions = Some(Sessions { turns: Length::Fixed(2), history: History::Answers, turn_delay: None });
    let request_schedule = plan_of(&turns);
    let answers = PreviousAnswers { answers: vec![Some(Prompt::Ids(vec![7, 7, 7]))] };
    let second = request_schedule.ids(1, &request_schedule.requests.get(1).unwrap(), &answers).unwrap();
    let first = ids(&request_schedule, 0);
    assert_eq!(second[first.len()..first.len() + 3], [7, 7, 7]);
    assert!(second.starts_with(&first) && request_schedule.requests.get(1).unwrap().needs_answers());
}

#[test]
fn a_chat_has_the_answers_before_as_messages_of_their_own() {
    let mut turns = spec(server(10.0), Arrivals::Constant, requests(3), 8);
    for (history, answered) in [(History::Planned, true), (History::Answers, true), (History::Answers, false)] {
        turns.content.sessions = Some(Sessions { turns: Length::Fixed(3), history, turn_delay: None });
        turns.content.prefixes = Some(Prefixes { count: 1, tokens: 4, zipf: None });
        let plan = plan_of(&turns);
        let answer = answered.then(|| Prompt::Text("yes".to_owned()));
        let previous = PreviousAnswers { answers: vec![answer, Some(Prompt::Text("no".to_owned()))] };
        let chat = plan.chat(2, &plan.requests.get(2).unwrap(), &previous).unwrap();
        let texts: Vec<String> = chat.iter().map(|message| message.text.clone()).collect();
        // A turn without an answer is in one message with the next one.
        assert_eq!(texts.len(), if answered { 5 } else { 3 }, "{texts:?}");
        let messages = Prompt::Chat(chat).to_json();
        let roles: Vec<&str> = messages.as_array().unwrap().iter().filter_map(|one| one["role"].as_str()).collect();
        assert_eq!(roles[..3], ["user", "assistant", "user"]);
        assert_eq!(messages[0]["content"], texts[0].as_str());
        let whole = plan.text(2, &plan.requests.get(2).unwrap(), &previous).unwrap();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(words(&texts.join(" ")), words(&whole));
        if history == History::Answers {
            assert_eq!(texts[texts.len() - 2], "no");
        }
    }
    let (_folder, mut recorded) = with_file(
        "s.json",
        r#"[{"conversations": [
            {"from": "human", "value": "a"}, {"from": "gpt", "value": "b"},
            {"from": "human", "value": "c"}, {"from": "gpt", "value": "d"}]}]"#,
        DataKind::Sharegpt,
    );
    recorded.output_len = Length::Fixed(4);
    recorded.content.sessions = Some(Sessions { turns: Length::Given, history: History::Planned, turn_delay: None });
    let plan = plan_of(&recorded);
    let chat = plan.chat(1, &plan.requests.get(1).unwrap(), &PreviousAnswers::default()).unwrap();
    assert_eq!(chat.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
}

#[test]
fn a_prompt_as_it_is_sent_is_counted_in_ids_or_in_words() {
    let plan = plan(&spec(server(1.0), Arrivals::Constant, requests(1), 1)).unwrap();
    assert_eq!(plan.length_of(&Prompt::Ids(vec![4, 5, 6])), 3);
    assert_eq!(plan.length_of(&Prompt::Text("one two\nthree four".to_owned())), 4);
    let messages = ["one two", "three", "four"].map(|text| ChatMessage::new("user", text.to_owned()));
    assert_eq!(plan.length_of(&Prompt::Chat(messages.to_vec())), 4);
}

#[test]
fn a_delay_is_before_its_turn_or_after_its_answer() {
    let lines = "{\"session_id\": 1, \"delay\": 10, \"prompt\": \"a\", \"output_length\": 2}\n\
                 {\"session_id\": 2, \"prompt\": \"x\", \"output_length\": 2}\n\
                 {\"session_id\": 1, \"delay\": 20, \"prompt\": \"b\", \"output_length\": 2}\n\
                 {\"session_id\": 1, \"prompt\": \"c\", \"output_length\": 2}\n";
    let pauses = |spec: &BenchSpec| -> Vec<u64> {
        let later = |request: &PlannedRequest| request.turn > 0;
        plan_of(spec).requests.iter().filter(later).map(|request| request.at_ns / 1_000_000).collect()
    };
    let (_folder, mut spec) = with_file("delays.jsonl", lines, DataKind::Jsonl);
    assert_eq!(pauses(&spec), [20, 0]);
    spec.content.data.as_mut().unwrap().delay = DelayPlace::AfterAnswer;
    assert_eq!(pauses(&spec), [10, 20]);
    let file = r#"{"data": [{"payload": [{"prompt": "a", "max_tokens": 2}], "session_id": ["s"], "delay": [3000]},
                             {"payload": [{"prompt": "b", "max_tokens": 2}], "session_id": ["s"]}]}"#;
    let (_folder, spec) = with_file("input_data.json", file, DataKind::Jsonl);
    assert_eq!(pauses(&spec), [3000]);
}

#[test]
fn a_text_is_a_record_on_a_line_and_in_a_list() {
    for text in ["\"one two\"\n\"three\"\n", "[\"one two\", \"three\"]"] {
        let (_folder, mut spec) = with_file("prompts.json", text, DataKind::Sharegpt);
        spec.output_len = Length::Fixed(4);
        let lengths: Vec<u32> = plan_of(&spec).requests.iter().map(|request| request.input_len).collect();
        assert_eq!(lengths, [2, 1]);
    }
}

#[test]
fn a_line_of_a_trace_may_have_a_text_or_no_hash_ids() {
    let lines = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 2}\n\
                 {\"timestamp\": 5, \"text_input\": \"one two\", \"output_length\": 3}\n";
    let (_folder, mut trace) = with_file("trace.jsonl", lines, DataKind::Mooncake);
    trace.scenario = LoadPattern::Trace { speed: 1.0 };
    let lengths = |spec: &BenchSpec| -> Vec<(u32, u32)> {
        plan_of(spec).requests.iter().map(|request| (request.input_len, request.output_len)).collect()
    };
    assert_eq!(lengths(&trace), [(9, 2), (2, 3)]);
    let (_folder, mut short) = with_file("short.jsonl", "{\"input_length\": 9, \"hash_ids\": [1]}", DataKind::Mooncake);
    assert!(plan(&short).unwrap_err().to_string().contains("has no output length"));
    short.output_len = Length::Fixed(4);
    assert_eq!(lengths(&short), [(9, 4)]);
}

fn plan_of(spec: &BenchSpec) -> RequestSchedule {
    plan(spec).unwrap()
}

#[test]
fn what_cannot_be_planned_says_why() {
    let reason = |spec: &BenchSpec| plan(spec).unwrap_err().to_string();
    assert!(reason(&spec(server(0.0), Arrivals::Poisson, requests(1), 0)).contains("rate above 0"));
    assert!(
        reason(&spec(LoadPattern::Offline, Arrivals::Poisson, StopAfter::default(), 0)).contains("number of requests")
    );
    let mut wrong = spec(LoadPattern::Offline, Arrivals::Poisson, requests(1), 0);
    wrong.input_len = Length::Uniform { min: 9, max: 3 };
    assert!(reason(&wrong).contains("min is above max"));
    let falling =
        LoadPattern::Server { rate: LoadLevel::Ramp(vec![LoadSegment { from: 10.0, to: 0.0, seconds: 2.0 }]) };
    assert!(reason(&spec(falling, Arrivals::Constant, requests(50), 0)).contains("falls to 0 after 10 requests"));
    assert!(
        reason(&spec(server(1.0), Arrivals::Gamma { cv: 0.0 }, requests(1), 0)).contains("coefficient of variation")
    );
    assert!(reason(&spec(LoadPattern::Trace { speed: 1.0 }, Arrivals::Poisson, requests(1), 0)).contains("needs data"));
}

#[test]
fn a_trace_keeps_its_times_its_lengths_and_its_blocks() {
    let text = "{\"timestamp\": 2000, \"input_length\": 700, \"output_length\": 5, \"hash_ids\": [0, 9]}\n\
                {\"timestamp\": 1000, \"input_length\": 512, \"output_length\": 3, \"hash_ids\": [0]}\n\
                {\"timestamp\": 5000, \"input_length\": 600, \"output_length\": 7, \"hash_ids\": [4, 9]}\n";
    let (_folder, mut trace) = with_file("trace.jsonl", text, DataKind::Mooncake);
    trace.scenario = LoadPattern::Trace { speed: 2.0 };
    let plan = plan(&trace).unwrap();
    let seen: Vec<(u64, u32, u32)> =
        plan.requests.iter().map(|r| (r.at_ns / 1_000_000, r.input_len, r.output_len)).collect();
    assert_eq!(seen, [(0, 512, 3), (500, 700, 5), (2000, 600, 7)]);
    let (first, second, third) = (ids(&plan, 0), ids(&plan, 1), ids(&plan, 2));
    assert_eq!(first[..], second[..512]);
    assert_ne!(first[..], third[..512]);
    // Block 9 is the same at every position, as far as it reaches.
    assert_eq!(second[512..600], third[512..600]);
    assert_eq!(plan.data.as_ref().map(|data| (data.records, data.taken, data.repeated)), Some((3, 3, false)));
}

#[test]
fn later_turns_of_a_trace_keep_their_times_also_in_a_written_plan() {
    let lines = "{\"session_id\": 1, \"timestamp\": 500, \"input_length\": 4, \"output_length\": 2}\n\
                 {\"session_id\": 1, \"timestamp\": 700, \"input_length\": 4, \"output_length\": 2}\n\
                 {\"session_id\": 1, \"delay\": 10, \"input_length\": 4, \"output_length\": 2}\n";
    let (folder, mut spec) = with_file("trace.jsonl", lines, DataKind::Jsonl);
    let times = |schedule: &RequestSchedule| -> Vec<_> {
        schedule.requests.iter().map(|request| (request.at_ns / 1_000_000, request.earliest_ns / 1_000_000)).collect()
    };
    assert_eq!(times(&plan_of(&spec)), [(0, 0), (0, 0), (10, 0)], "time stamps count in a trace only");
    spec.scenario = LoadPattern::Trace { speed: 2.0 };
    let trace = plan_of(&spec);
    assert_eq!(times(&trace), [(0, 0), (0, 100), (5, 0)]);
    let file = folder.path().join("plan.jsonl");
    write_plan(&file, &trace);
    spec.content.data = Some(data(file, DataKind::Plan));
    let again = plan_of(&spec);
    assert_eq!((again.digest, &again.requests), (trace.digest, &trace.requests));
}

#[test]
fn the_list_of_benchmark_core_model_is_read() {
    let text = r#"
      [{"input": "one two", "instruction": "three", "output": "a b c d"},
       {"input": "", "instruction": "five six", "output": "a b c d e f g h i j"},
       {"prompt": "seven", "output_length": 3}]"#;
    let (_folder, spec) = with_file("core.json", text, DataKind::Jsonl);
    let plan = plan_of(&spec);
    let lengths: Vec<_> = plan.requests.iter().map(|request| (request.input_len, request.output_len)).collect();
    // 1.3 tokens for each word of the output, rounded down.
    assert_eq!(lengths, [(3, 5), (2, 13), (1, 3)]);
    let text = plan.text(0, &plan.requests.get(0).unwrap(), &PreviousAnswers::default()).unwrap();
    assert!(format!("{text:?}").contains("one two three"), "{text:?}");
}

#[test]
fn every_mistake_of_a_file_has_its_line() {
    let text = [
        r#"{"prompt": "fine", "output_length": 3}"#,
        r#"{"prompt": "#,
        "",
        r#"{"output_length": 0, "text": "x"}"#,
        r#"{"input_ids": [1, -4], "output_length": 2}"#,
        r#"{"color": "red"}"#,
        r#"{"prompt": "a", "input_ids": [3]}"#,
        r#"{"input_length": 4294967295, "output_length": 1}"#,
        "",
    ];
    let (_folder, spec) = with_file("wrong.jsonl", &text.join("\n"), DataKind::Jsonl);
    let reason = plan(&spec).unwrap_err().to_string();
    for (line, what) in [
        (2, "EOF"),
        (4, "output length must be at least 1"),
        (5, "-4 is not a valid token id"),
        (6, "`color` may change what is requested"),
        (7, "more than one of"),
        (8, "4294967295 tokens: the maximum is 16777216"),
    ] {
        let message = reason.lines().find(|message| message.contains(&format!("line {line}:")));
        assert!(message.is_some_and(|message| message.contains(what)), "line {line} is missing in:\n{reason}");
    }
    assert!(!reason.contains("line 1:") && !reason.contains("line 3:"), "{reason}");
}

#[test]
fn data_that_end_too_early_are_a_mistake_unless_they_may_be_repeated() {
    let text = "{\"input_ids\": [5, 6], \"output_length\": 3}\n{\"input_ids\": [7], \"output_length\": 4}\n";
    let (_folder, mut spec) = with_file("two.jsonl", text, DataKind::Jsonl);
    assert_eq!(plan_of(&spec).requests.len(), 2);
    spec.stop = requests(5);
    let reason = plan(&spec).unwrap_err().to_string();
    assert!(reason.contains("after 2 requests") && reason.contains("repeat: true"), "{reason}");
    spec.content.data.as_mut().unwrap().repeat = true;
    let again = plan_of(&spec);
    assert_eq!((0..5).map(|index| ids(&again, index)[0]).collect::<Vec<_>>(), [5, 7, 5, 7, 5]);
    assert!(again.data.unwrap().repeated);
    spec.content.data.as_mut().unwrap().first = Some(1);
    assert_eq!(plan_of(&spec).data.unwrap().records, 1);
}

/// How many requests users need is known only when they take them.
#[test]
fn data_that_end_before_the_duration_of_a_closed_loop_are_an_error_too() {
    let text = "{\"input_ids\": [5, 6], \"output_length\": 3}\n{\"input_ids\": [7], \"output_length\": 4}\n";
    let (_folder, mut spec) = with_file("two.jsonl", text, DataKind::Jsonl);
    spec.scenario = LoadPattern::Concurrency { users: 1.0.into() };
    spec.stop = StopAfter { requests: None, duration: Some(Duration::from_secs(10).into()) };
    let queue = |spec: &BenchSpec| PlanQueue::new(&Arc::new(plan_of(spec)), spec).unwrap();
    let second = 1_000_000_000;

    let early = queue(&spec);
    assert!(
        early.take(0, false).is_some()
            && early.take(second, false).is_some()
            && early.take(2 * second, false).is_none()
    );
    assert!(early.close().unwrap_err().to_string().contains("the data end after 2 requests"));
    let in_time = queue(&spec);
    assert!(
        in_time.take(0, false).is_some()
            && in_time.take(second, false).is_some()
            && in_time.take(10 * second, false).is_none()
    );
    assert_eq!(in_time.close().unwrap().requests.len(), 2);
    spec.content.data.as_mut().unwrap().repeat = true;
    let repeated = queue(&spec);
    assert!((0..9).all(|at| repeated.take(at * second, false).is_some()));
    assert_eq!(repeated.close().unwrap().requests.len(), 9);
}

#[test]
fn a_pause_past_the_end_sends_its_own_user_home_and_nobody_else() {
    let users = LoadPattern::Concurrency { users: 1.0.into() };
    let stop = StopAfter { requests: None, duration: Some(Duration::from_secs(10).into()) };
    let mut spec = spec(users, Arrivals::Poisson, stop, 3);
    spec.pace.think = Pause::Uniform { min: 0.0, max: 2_000.0 };
    let queue = PlanQueue::new(&Arc::new(plan_of(&spec)), &spec).unwrap();
    let second = 1_000_000_000;
    // A second before the end: every other pause is too long.
    let taken = (0..200).filter_map(|_| queue.take(9 * second, false)).collect::<Vec<_>>();
    assert!((60..140).contains(&taken.len()), "{}", taken.len());
    assert!(taken.iter().all(|(_, session)| session[0].at_ns < second));
    assert_eq!(queue.close().unwrap().requests.len(), taken.len());
}

#[test]
fn conversations_become_a_question_or_a_session() {
    let text = r#"[
      {"id": "a", "conversations": [{"from": "human", "value": "one two"}, {"from": "gpt", "value": "three"},
                                    {"from": "human", "value": "four"}, {"from": "gpt", "value": "five six"}]},
      {"id": "b", "conversations": [{"from": "gpt", "value": "no question"}]}]"#;
    let (_folder, mut spec) = with_file("talk.json", text, DataKind::Sharegpt);
    spec.output_len = Length::Fixed(9);
    let single = plan_of(&spec);
    assert_eq!((single.requests.len(), single.requests.get(0).unwrap().input_len), (1, 2));
    assert_eq!(single.data.unwrap().skipped, ["1 conversations do not begin with a question and its answer"]);
    spec.content.sessions = Some(Sessions { turns: Length::Fixed(10), history: History::Planned, turn_delay: None });
    let session = plan_of(&spec);
    let text = |index: u64| {
        session.text(index, &session.requests.get(index as usize).unwrap(), &PreviousAnswers::default()).unwrap()
    };
    assert_eq!((text(0).as_str(), text(1).as_str()), ("one two", "one two\nthree\nfour"));
}

#[test]
fn a_written_plan_is_sent_again_exactly_and_a_changed_one_is_refused() {
    let mut original = spec(server(40.0), Arrivals::Poisson, requests(30), 11);
    original.content.prefixes = Some(Prefixes { count: 2, tokens: 10, zipf: None });
    original.content.sessions =
        Some(Sessions { turns: Length::Uniform { min: 1, max: 3 }, history: History::Planned, turn_delay: None });
    let first = plan_of(&original);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.jsonl");
    write_plan(&file, &first);
    let bytes = fs::read_to_string(&file).unwrap();
    // Another seed and other lengths: the file alone decides.
    let mut replay = spec(server(40.0), Arrivals::Poisson, StopAfter::default(), 99);
    replay.content.data = Some(data(file.clone(), DataKind::Plan));
    let again = plan_of(&replay);
    assert_eq!((again.digest, &again.requests), (first.digest, &first.requests));
    for index in 0..first.requests.len() {
        assert_eq!(ids(&again, index), ids(&first, index));
    }
    write_plan(&file, &again);
    assert_eq!(fs::read_to_string(&file).unwrap(), bytes);
    let line = bytes.lines().nth(4).unwrap();
    fs::write(&file, bytes.replacen(line, &line.replacen("\"out\":", "\"out\":1", 1), 1)).unwrap();
    assert!(plan(&replay).unwrap_err().to_string().contains("it was changed"));
    // A few bytes that would be drawn as gigabytes.
    let longer = line.replacen("\"tokens\":", "\"tokens\":4294900", 1);
    assert_ne!(longer, line);
    fs::write(&file, bytes.replacen(line, &longer, 1)).unwrap();
    assert!(plan(&replay).unwrap_err().to_string().contains("tokens: the maximum is 16777216"));
    fs::write(&file, bytes.replacen("pcg64", "pcg32", 1)).unwrap();
    assert!(plan(&replay).unwrap_err().to_string().contains("generator pcg32"));
    fs::write(&file, &bytes).unwrap();
    replay.scenario = LoadPattern::Concurrency { users: 2.0.into() };
    assert!(plan(&replay).unwrap_err().to_string().contains("another scenario"));
}

#[test]
fn samples_that_are_called_for_again_are_written_once_and_sent_again_exactly() {
    use crate::{CallSource, ExternalSample};
    let external = spec(LoadPattern::External(CallSource::AtTimes), Arrivals::Poisson, requests(1), 7);
    let samples = [[5, 6, 7].as_slice(), &[8, 9]].map(|ids| ExternalSample { prompt: ids.into(), output_len: 3 });
    let set = super::for_external_driver(&external, &samples).unwrap();
    let called = [1, 0, 1, 1, 0].into_iter().enumerate().map(|(at, sample): (usize, usize)| {
        let session = at as u64;
        PlannedRequest { at_ns: session * 1_000_000, session, ..set.requests.get(sample).unwrap() }
    });
    let first = set.with_issued(called.collect());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plan.jsonl");
    write_plan(&file, &first);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text.matches("\"parts\"").count(), 2, "{text}");
    assert_eq!(text.lines().nth(3).unwrap().split_once("\"as\":").unwrap().1, "0}");
    let mut replay = spec(server(40.0), Arrivals::Poisson, StopAfter::default(), 99);
    replay.content.data = Some(data(file.clone(), DataKind::Plan));
    let again = plan_of(&replay);
    assert_eq!((again.digest, &again.requests), (first.digest, &first.requests));
    assert_eq!(ids(&again, 3), ids(&first, 3));
    write_plan(&file, &again);
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    fs::write(&file, text.replacen("\"as\":0", "\"as\":9", 1)).unwrap();
    let refused = plan(&replay).unwrap_err().to_string();
    assert!(refused.contains("line 4: `as` names request 9, which has no `parts` before it"), "{refused}");
}

#[test]
fn a_pipe_is_refused_at_once_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    for kind in [DataKind::Plan, DataKind::Jsonl, DataKind::Sharegpt] {
        let mut of_pipe = spec(server(40.0), Arrivals::Poisson, requests(3), 1);
        of_pipe.content.data = Some(data(pipe.clone(), kind));
        let refused = plan(&of_pipe).unwrap_err().to_string();
        assert!(refused.contains("it is a pipe, a socket or a device, not a file"), "{kind:?}: {refused}");
    }
}
