//! Before a measurement of some length: could this machine make the load at all? Tried against a server that does no work.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::openai::script::{Do, Scripted, good};
use crate::stages::Bench;
use crate::world::alive_with;

/// What the stage left, and what it had to say.
async fn bench(server: &Scripted, more: Value) -> (Value, Vec<String>) {
    let bench = Bench::new();
    let mut action = json!({"bench": {"target": format!("openai://{}", server.address), "model": "m",
        "telemetry": "off", "scenario": "server", "rate": 50.0, "stop": {"requests": 6}, "seed": 11,
        "input_tokens": {"fixed": 8}, "output_tokens": {"fixed": 4}}});
    action["bench"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let _ = bench.perform(&action).await;
    let result = serde_json::from_str(&bench.out("result.json")).unwrap();
    assert_eq!(alive_with(bench.dir.path()), [], "nothing outlives its stage");
    (result, bench.notices())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_tries_the_same_load_and_leaves_the_server_under_test_alone() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let (result, _) = bench(&server, json!({"preflight": "on"})).await;
    let preflight = &result["preflight"];
    assert_eq!(
        (&preflight["rate"], &preflight["tokens_per_answer"], &preflight["planned_tokens_per_s"]),
        (&50.0.into(), &4.into(), &200.0.into()),
        "{preflight:#}"
    );
    // About 1.2 s of arrivals at 50 a second, whatever number the measurement has.
    let requests = preflight["requests"].as_u64().unwrap();
    assert!((20..120).contains(&requests), "{preflight:#}");
    for number in ["lag_p99_ms", "lag_max_ms", "cpu_ms_per_1000_chunks", "cpu_share_planned", "headroom"] {
        assert!(preflight[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {preflight:#}");
    }
    assert!(preflight["server"].as_str().unwrap().contains("a process of its own on this machine"));
    // What it found is a reason of the verdict, with its numbers; on a busy machine there may be one.
    let reasons = result["reasons"].as_array().unwrap();
    let found = reasons.iter().any(|reason| reason["check"] == "preflight");
    assert_eq!(found, preflight["outcome"] != "good", "{reasons:#?}");
    assert_eq!(server.requests.lock().unwrap().len(), 6, "only the measurement asked the server under test");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_are_tried_all_at_once() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let users = json!({"preflight": "on", "scenario": "concurrency", "concurrency": 3, "rate": null});
    let (result, _) = bench(&server, users).await;
    let preflight = &result["preflight"];
    assert_eq!((&preflight["users"], &preflight["in_flight_max"]), (&3.0.into(), &3.into()), "{preflight:#}");
    // A closed loop has no schedule, and how fast its server is nobody knows before.
    for unknown in ["rate", "lag_p99_ms", "planned_tokens_per_s", "cpu_share_planned"] {
        assert!(preflight.get(unknown).is_none(), "{unknown}: {preflight:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_measurement_does_without_and_one_can_say_no() {
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    let (result, notices) = bench(&server, json!({})).await;
    assert_eq!((result.get("preflight"), notices), (None, Vec::new()));
    let (result, notices) = bench(&server, json!({"preflight": "off"})).await;
    assert_eq!((result.get("preflight"), notices), (None, Vec::new()));
    let offline = json!({"preflight": "on", "scenario": "offline", "rate": null});
    let (result, notices) = bench(&server, offline).await;
    assert_eq!(result.get("preflight"), None);
    assert_eq!(
        notices,
        ["no preflight: offline sends everything at once, so there is no schedule that a client could be late for"]
    );
}
