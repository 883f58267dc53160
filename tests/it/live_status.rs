//! A run as another terminal sees it: how far each task is, and what a benchmark has measured so far.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use serde_json::Value;

use crate::world::{World, signal, until};

/// The body of an answer to `GET /metrics`.
fn scraped(address: &str) -> String {
    let mut socket = std::net::TcpStream::connect(address).expect("the run listens");
    socket.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
    body.to_owned()
}

#[test]
fn a_run_under_way_can_be_scraped() {
    let world = World::new();
    let words = ["bench", "sim:", "-c", "2", "--duration", "60s", "--input-tokens", "32", "--output-tokens", "16"];
    let mut run = world.start(&[&words[..], &["--metrics-listen", "localhost:0"]].concat());
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map_while(Result::ok);
    let address = lines.find_map(|line| {
        let (_, rest) = line.split_once("metrics of this run: http://")?;
        Some(rest.trim_end_matches("/metrics").to_owned())
    });
    let address = address.expect("the address is printed");
    until("tokens", || scraped(&address).contains("regatta_output_tokens_total{task=\"bench\"}"));
    let text = scraped(&address);
    assert!(text.contains("regatta_tasks{state=\"running\"} 1") && text.ends_with("# EOF\n"), "{text}");
    signal(&run, "INT");
    run.wait().unwrap();
    assert!(std::net::TcpStream::connect(&address).is_err(), "nothing listens after the run");
}

#[test]
fn status_has_what_a_benchmark_has_measured_so_far() {
    let world = World::new();
    let mut run = world.start(&[
        "bench",
        "sim:",
        "-c",
        "4",
        "--duration",
        "60s",
        "--input-tokens",
        "32",
        "--output-tokens",
        "16",
    ]);
    let status = || -> Option<Value> { serde_json::from_str(&world.regatta(&["status", "--json"]).stdout).ok() };
    let live = || status().map(|status| status["run_state"]["tasks"]["bench"]["progress"]["live"].clone());
    until("tokens and a first latency", || {
        live().is_some_and(|live| live["ttft_ms"].is_f64() && live["tpot_ms"].is_f64())
    });
    let live = live().unwrap();
    let number = |key: &str| live[key].as_f64().unwrap();
    assert!(number("tokens") >= number("ended") && number("ended") >= 1.0, "{live}");
    assert!(number("issued") - number("ended") <= 4.0, "{live}");
    let shown = world.regatta(&["status"]).stdout;
    assert!(shown.contains("in flight") && shown.contains(" answered, "), "{shown}");

    signal(&run, "INT");
    run.wait().unwrap();
    // The follower of a run that has ended prints it once, and no progress is left.
    let after = world.regatta(&["status", "--follow"]);
    assert!(
        after.code == 130
            && after.stdout.contains("interrupted")
            && !after.stdout.contains("in flight")
            && after.stdout.contains("not done"),
        "{}",
        after.stdout
    );
    let left = walkdir::WalkDir::new(world.path(".regatta/runs")).into_iter().flatten();
    assert!(left.into_iter().all(|item| item.file_name() != "progress.jsonl"));
}
