//! `--otlp`: what a collector of OpenTelemetry receives of a run, decoded by the protocol's own Python package.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::ports::free_port;
use crate::python_packages::python;
use crate::world::World;

/// A manifest with a task that fails after one that does not.
const TWO_TASKS: &str =
    "regatta: 1\nname: m\nstages:\n  good:\n    shell: echo good\n  bad:\n    needs: [good]\n    shell: exit 3\n";

fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
    let found = of["attributes"].as_array().and_then(|all| all.iter().find(|one| one["key"] == key));
    let value = found.unwrap_or_else(|| panic!("no {key} in {of:#}"))["value"].as_object().unwrap();
    value.values().next().unwrap()
}

fn nanoseconds(span: &Value, key: &str) -> u64 {
    span[key].as_str().unwrap().parse().unwrap()
}

#[test]
#[ignore = "needs Python, pip and the network"]
fn a_collector_receives_the_spans_of_a_benchmark_and_its_numbers() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/otlp_receiver.py");
    let mut receiver = python().arg(script).arg("2").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines().map(Result::unwrap);
    let url = format!("http://127.0.0.1:{}", lines.next().expect("its port"));
    let world = World::new();
    let ended = world.good(&["bench", "sim:", "--requests", "16", "-c", "8", "--otlp", &url]);
    ended.shows(&format!("values of metrics sent to {url}/v1/traces and {url}/v1/metrics"));
    let received: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    assert!(receiver.wait().unwrap().success());
    let [traces, metrics] = received.as_slice() else { panic!("{received:?}") };
    assert_eq!((&traces["path"], &metrics["path"]), (&"/v1/traces".into(), &"/v1/metrics".into()));

    // One run, its tasks below it, the phases of the benchmark below that; each within its parent's time.
    let traces = &traces["message"]["resourceSpans"][0];
    assert_eq!(attribute(&traces["resource"], "service.name"), "regatta");
    let spans = traces["scopeSpans"][0]["spans"].as_array().unwrap();
    let named =
        |name: &str| spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"));
    let run = named("regatta run bench");
    assert!(run.get("parentSpanId").is_none() && spans.iter().all(|span| span["traceId"] == run["traceId"]));
    for (name, parent) in [("simulator", run), ("bench", run), ("measurement", named("bench"))] {
        let span = named(name);
        assert_eq!(span["parentSpanId"], parent["spanId"], "{name}");
        assert!(nanoseconds(span, "startTimeUnixNano") >= nanoseconds(parent, "startTimeUnixNano"), "{name}");
        assert!(nanoseconds(span, "endTimeUnixNano") <= nanoseconds(parent, "endTimeUnixNano"), "{name}");
    }
    assert_eq!(named("simulator")["events"][0]["name"], "ready");
    assert_eq!(attribute(named("bench"), "regatta.task.state"), "ran");

    // The numbers of result.json, each with its statistic, verdict and the word that they are simulated.
    let metrics = metrics["message"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let points =
        |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap()["gauge"]["dataPoints"].clone();
    let result: Value = serde_json::from_str(&world.read("latest/bench/result.json")).unwrap();
    let ttft = points("regatta.ttft");
    let p99 = ttft.as_array().unwrap().iter().find(|point| attribute(point, "statistic") == "p99").unwrap();
    assert_eq!(p99["asDouble"], result["latency"]["ttft"]["p99"]);
    assert_eq!((attribute(p99, "regatta.simulated"), attribute(p99, "regatta.task")), (&true.into(), &"bench".into()));
    assert_eq!(points("regatta.output_tokens")[0]["asDouble"], result["rates"]["output_tokens"]);
}

/// The variables of the specification are enough; a failed task is an error in the trace, too.
#[test]
#[ignore = "needs Python, pip and the network"]
fn a_failed_run_is_an_error_in_its_trace() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/otlp_receiver.py");
    let mut receiver = python().arg(script).arg("1").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut world = World::new();
    world.env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("http://127.0.0.1:{}/v1/traces", lines.next().unwrap()));
    world.env("OTEL_SERVICE_NAME", "nightly");
    world.file("manifests/m.yaml", TWO_TASKS);
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    let received: Value = serde_json::from_str(&lines.next().expect("a trace")).unwrap();
    assert!(receiver.wait().unwrap().success());
    let traces = &received["message"]["resourceSpans"][0];
    assert_eq!(attribute(&traces["resource"], "service.name"), "nightly");
    let spans = traces["scopeSpans"][0]["spans"].as_array().unwrap();
    let status = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap()["status"].clone();
    assert_eq!(status("regatta run m")["code"], "STATUS_CODE_ERROR");
    assert_eq!(status("bad")["code"], "STATUS_CODE_ERROR");
    assert!(status("bad")["message"].as_str().unwrap().contains('3'), "{:#}", status("bad"));
    assert!(status("good").get("code").is_none());
}

/// A collector that is not there changes neither the exit code nor the output; it is named.
#[test]
fn a_collector_that_is_not_there_is_reported_and_changes_nothing() {
    let free = format!("127.0.0.1:{}", free_port());
    let world = World::new();
    world.file("manifests/m.yaml", "regatta: 1\nname: m\nstages:\n  good:\n    shell: echo good\n");
    let ended = world.regatta(&["run", "m", "--otlp", &format!("http://{free}")]);
    assert_eq!(ended.code, 0, "{ended:?}");
    ended.shows("warning: not all of the run's telemetry was sent to ");
}

/// Neither from the command line nor from the environment.
#[test]
fn a_collector_whose_url_has_a_password_is_refused() {
    let mut world = World::new();
    world.file("manifests/m.yaml", "regatta: 1\nname: m\nstages:\n  good:\n    shell: echo good\n");
    let url = "http://me:hunter2@127.0.0.1:1";
    let of_option = world.regatta(&["run", "m", "--otlp", url]);
    world.env("OTEL_EXPORTER_OTLP_ENDPOINT", url);
    for ended in [of_option, world.regatta(&["run", "m"])] {
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows("has a password or a token in it").shows("OTEL_EXPORTER_OTLP_HEADERS");
        assert!(!ended.stderr.contains("hunter2") && !ended.stdout.contains("hunter2"), "{ended:?}");
    }
}
