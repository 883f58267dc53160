//! A long run told into a real file: whole lines, each event once, and the same state from the file as from life. And
//! what a page of results promises that can be seen without a browser.

use std::collections::BTreeMap;

use regatta::event::{Done, Event, RunId, TaskId, TaskTally};
use regatta::harness::first_requests;
use regatta::interop::MeasuredResult;
use regatta::plan::Plan;
use regatta::report::{LiveDisplay, LiveOptions, PageResult, RunPaths, RunState, TaskPhase, run_page};
use serde_json::{Value, json};

const RESULT: &str = "tests/golden/results/benchmark";
const STYLE: &str = include_str!("../../templates/report/style.css");

/// Ten thousand tasks, each third one cached.
fn events() -> Vec<Event> {
    let tasks = 10_000;
    let mut events = vec![Event::RunStarted {
        run: RunId::new("20261120-224301-4711"),
        manifest: "wide".to_owned(),
        params: BTreeMap::new(),
        settings: Vec::new(),
        tasks,
        jobs: 8,
        at: "2026-11-20T22:43:01Z".to_owned(),
        pid: 4711,
    }];
    let mut tally = TaskTally::default();
    for n in 0..tasks {
        let task = TaskId::new(format!("t/{n}"));
        if n % 3 == 0 {
            tally.cached += 1;
            events.push(Event::TaskCached { task, done: Done::default(), out: None, from: None });
            continue;
        }
        tally.ran += 1;
        let reasons = vec!["never ran".to_owned()];
        events.push(Event::TaskStarted { task: task.clone(), attempt: 1, service: false, reasons, log: None });
        events.push(Event::Progress {
            task: task.clone(),
            text: "half".to_owned(),
            done: 1,
            total: Some(2),
            live: None,
        });
        let (done, seconds) = (Done::default(), 0.25);
        events.push(Event::TaskFinished { task, done, out: None, digest: None, unchanged: false, seconds });
    }
    events.push(Event::RunFinished { tally, exit: 0, seconds: 9.5 });
    events
}

fn render(look: LiveOptions, events: &[Event]) -> (RunState, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut live = LiveDisplay::to(look, Box::new(file.reopen().expect("the same file")));
    for event in events {
        live.event(event);
    }
    let run_state = live.finish(&RunPaths::default());
    (run_state, std::fs::read_to_string(file.path()).expect("text"))
}

#[test]
fn a_story_told_as_json_lines_is_told_again_from_them() {
    let events = events();
    let (live, text) = render(LiveOptions { json_lines: true, ..LiveOptions::default() }, &events);
    assert_eq!(text.lines().count(), events.len());
    let mut replayed = RunState::new();
    for line in text.lines() {
        replayed.fold(&serde_json::from_str(line).expect("an event"));
    }
    // A reader of the file does not know when things happened; all else is the same.
    let mut live = live;
    for chapter in live.tasks.values_mut() {
        (chapter.started, chapter.ended) = (None, None);
    }
    assert!(live == replayed);
    assert_eq!(replayed.finished.map(|end| end.tally), Some(replayed.tally));
}

#[test]
fn plain_lines_name_what_ran_and_count_what_was_cached() {
    let (run_state, text) = render(LiveOptions::default(), &events());
    let ran = run_state.in_phase(TaskPhase::Ran).count();
    assert_eq!(text.lines().filter(|line| line.starts_with("✓ ")).count(), ran);
    assert!(!text.contains("✓ t/0 ") && text.contains("✓ t/1 "));
    assert!(text.contains("3334 tasks as before"), "cached tasks are a number");
    assert!(text.contains(&format!("… and {} more", ran - 40)), "the ending stays short");
    assert!(text.ends_with("done: 6666 ran, 3334 cached in 9.5 s\n"));
}

/// A result of the goldens after `change`, with its requests.
fn page_result(task: &str, change: impl Fn(&mut Value)) -> PageResult {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(RESULT);
    let text = std::fs::read_to_string(folder.join("result.json")).expect("a result");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut value);
    let result = MeasuredResult::read(&value.to_string()).expect("a result");
    let requests = first_requests(&folder, PageResult::REQUESTS);
    PageResult { requests, ..PageResult::new(TaskId::new(task), result) }
}

fn page(results: &[PageResult]) -> String {
    let page = run_page(&RunState::new(), results, &[], &Plan::default()).expect("a page");
    // The template engine escapes `/` as well.
    page.replace("&#x2f;", "/")
}

/// On a phone of 390 px a picture has 337 px: no letter may be smaller than 11 px there.
#[test]
fn no_letter_of_a_page_is_smaller_than_11_px_on_a_phone() {
    let (screen, _) = STYLE.split_once("@media print").expect("rules of print");
    let sizes = screen.split("font-size:").skip(1).map(|rest| rest.split([';', '}']).next().unwrap_or_default().trim());
    let mut count = 0;
    for size in sizes {
        let number = |unit: &str| size.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
        let pixels = number("rem").or_else(|| number("em")).map(|rem| rem * 16.0).or_else(|| number("px"));
        // `inherit`, and the picture of the head, which is magnified.
        let Some(pixels) = pixels.filter(|pixels| (pixels - 10.5).abs() > 1e-9) else { continue };
        count += 1;
        assert!(pixels >= 11.0, "{size}");
    }
    assert!(count > 20, "{count} sizes");
    assert!(screen.contains("svg text { font: 13.2px"), "letters of pictures");
    let page = page(&[page_result("load", |_| ())]);
    for svg in page.split("<svg ").skip(1) {
        let tag = svg.split('>').next().unwrap_or_default();
        let is_key = tag.contains(r#"class="key""#);
        assert!(is_key || tag.contains(r#"viewBox="0 0 400 "#), "{tag}");
    }
}

#[test]
fn limits_are_lines_in_the_distributions() {
    let limited = page(&[page_result("load", |result| {
        result["asked"]["ttft_p99_limit_ms"] = json!(17.0);
        result["asked"]["slo"]["tpot_ms"] = json!(9_000.0);
    })]);
    assert!(limited.contains("</svg>limit of p99: 17 ms</span>"), "{limited}");
    let lines =
        limited.split("<line ").filter(|line| line.contains(r#"class="limit""#) && !line.starts_with("y1")).count();
    assert_eq!(lines, 2, "in the head and below: {limited}");
    assert!(limited.contains("</svg>SLO of each request: 9,000 ms (beyond this picture)</span>"), "{limited}");
    assert!(limited.matches("ms (log scale)").count() >= 4, "{limited}");
    let free = page(&[page_result("load", |_| ())]);
    assert_eq!(free.matches(r#"class="limit""#).count(), 0);
}

#[test]
fn each_metric_has_its_definition_behind_a_question_mark() {
    let page = page(&[page_result("load", |_| ())]);
    let metrics = page.split(r#"aria-label="metrics""#).nth(1).and_then(|rest| rest.split("</table>").next());
    let metrics = metrics.expect("a table of metrics");
    let rows = metrics.matches("<tr").count() - 1;
    assert_eq!((rows, metrics.matches(r#"<summary aria-label="definition">?</summary>"#).count()), (rows, rows));
    assert!(rows >= 7 && metrics.contains("<span>from schedule · "), "{metrics}");
}

#[test]
fn the_head_has_what_was_measured_and_the_latencies_of_server() {
    let offline = page_result("load/offline", |result| result["asked"]["scenario"] = json!("offline"));
    let page = page(&[offline, page_result("load/server", |_| ())]);
    let (head, _) = page.split_once("<nav").expect("contents");
    let first = head.split("<p ").nth(1).expect("a first line");
    assert!(first.starts_with(r#"class="strong">"#) && first.contains(" · all at once · "), "{first}");
    for wanted in ["<b>load/offline</b>", "<b>load/server</b>", "<dt>TTFT p99</dt>", "<dt>TPOT p99</dt>", "40 req/s"] {
        assert!(head.contains(wanted), "{wanted}: {head}");
    }
}

#[test]
fn a_timeline_has_the_first_requests_and_says_how_many() {
    let with_timeline = page(&[page_result("load", |_| ())]);
    let all = "Requests by schedule, a line for each: all 24 of 24";
    assert!(with_timeline.contains(all), "{with_timeline}");
    // Three answers have one token, and with it no time between tokens.
    for (class, count) in [("prefill", 24), ("decode", 21)] {
        let path =
            with_timeline.split(&format!(r#"" class="{class}"/>"#)).next().and_then(|rest| rest.rsplit("d=\"").next());
        assert_eq!(path.map(|path| path.matches('M').count()), Some(count), "{class}");
    }
    let many = page(&[page_result("load", |result| result["counts"]["scheduled"] = json!(5_000))]);
    assert!(many.contains("a line for each: the first 24 of 5,000"), "{many}");
    let none = page(&[PageResult { requests: Vec::new(), ..page_result("load", |_| ()) }]);
    assert!(!none.contains("Requests by schedule"));
}

#[test]
fn a_page_without_a_pipeline_has_no_section_of_one() {
    let page = page(&[page_result("load", |_| ())]);
    assert!(!page.contains(r#"id="timeline""#) && !page.contains(r#"id="pipeline""#), "{page}");
}
