//! `bench.search`: the highest rate at which the limits hold, as an interval, with every probe kept.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::campaign::no_process_left;
use crate::openai::script::{DONE, Do, END, HEAD, Scripted, chunk, role, token, usage};
use crate::world::{Ended, World, signal, until, until_within};

/// A simulated server that answers one request at a time, 5 ms a step: four tokens take 20 ms, so it can do about 50/s.
const SLOW: &str = r#"
stages:
  engine:
    engine:
      backend: simulator
      precision: fp8
      model: { name: tiny, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 2048 }
      system: { name: slow, gpus: 1, memory_gb: 141, bandwidth_gbs: 0.2, tflops_16bit: 989 }
      build_flags: { max_batch_size: 1, max_num_tokens: 2048, max_input_len: 256, max_seq_len: 512, tokens_per_block: 32 }
  models:
    repository: { engine: "{{ stages.engine.out }}", streaming: true, models: [tensorrt_llm] }
  server:
    serve: { simulator: { repository: "{{ stages.models.out }}" } }
  find:
    bench:
      target: "{{ stages.server }}"
      scenario: server
      arrivals: constant
      search: { low: 20, high: 160, precision: 0.25 }
      limits: { ttft_p99: 400ms }
      stop: { requests: 60 }
      input_tokens: { fixed: 16 }
      output_tokens: { fixed: 4 }
      vocab_size: 1000
"#;

const TRIES: usize = 3;

/// Beside other tests the client may not get enough of the machine; then the search says so and ends, rightly, and is tried again.
fn tested(what: &str, manifest: &str, attempt: impl Fn(&World) -> Attempt) {
    let is_disturbed = |_| {
        let world = World::with(manifest);
        let attempt = attempt(&world);
        no_process_left(&world);
        attempt == Attempt::ClientDisturbed
    };
    if (0..TRIES).all(is_disturbed) {
        // Past the harness, which keeps what a good test prints.
        let _ = writeln!(std::io::stderr(), "NOT TESTED: {what}, because this machine was too busy for the client");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    Tested,
    ClientDisturbed,
}

fn is_client_disturbed(ended: &Ended) -> bool {
    assert!([0, 3].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    if ended.code == 3 {
        ended.shows("it is the client that is measured, not the server");
    }
    ended.code == 3
}

#[test]
fn the_highest_rate_is_an_interval_and_the_cost_is_printed_beforehand() {
    tested("the interval of a search", SLOW, |world| {
        let ended = world.regatta(&["run", "m"]);
        ended.shows("searching from 20 to 160 req/s to 25 %: at most 12 probes");
        if is_client_disturbed(&ended) {
            return Attempt::ClientDisturbed;
        }
        let search: Value = serde_json::from_str(&world.read("latest/find/search.json")).unwrap();
        let (low, high) = (search["found"]["at_least"].as_f64().unwrap(), search["found"]["below"].as_f64().unwrap());
        let estimate = &search["estimate"];
        assert!(low >= 20.0 && low < high, "{search:#}");
        assert!(estimate["low"].as_f64() <= estimate["rate"].as_f64(), "{search:#}");
        // It can do about 50 a second, and 60 requests hide some of an overload.
        assert!(low <= 80.0 && high >= 40.0, "{search:#}");
        assert!(search["probes"].as_array().unwrap().len() <= 12, "{search:#}");
        ended.shows("req/s at TTFT p99 ≤ 400ms").shows(&format!("95 % interval {low} … {high}, "));
        for probe in search["probes"].as_array().unwrap() {
            let result = format!("latest/find/{}/result.json", probe["folder"].as_str().unwrap());
            assert!(world.read(result).contains("\"schedule_digest\""));
        }
        assert!(world.regatta(&["run", "m"]).ran().is_empty(), "what was found is not looked for again");
        // The rate that was found can be asked for again, request by request.
        let result: Value = serde_json::from_str(&world.read("latest/find/result.json")).unwrap();
        assert_eq!(result["requested"]["scenario"]["server"]["rate"].as_f64(), Some(low));
        let again = SLOW
            .replace(
                "search: { low: 20, high: 160, precision: 0.25 }",
                &format!("rate: {low}\n      data: {{ plan: plan.jsonl }}"),
            )
            .replace(
                "      stop: { requests: 60 }\n      input_tokens: { fixed: 16 }\n      output_tokens: { fixed: 4 }\n",
                "",
            );
        world.file("plan.jsonl", &world.read("latest/find/plan.jsonl"));
        world.manifest("again", &again);
        let replayed = world.regatta(&["run", "again"]);
        assert!([0, 3, 4].contains(&replayed.code), "{}\n{}", replayed.stdout, replayed.stderr);
        replayed.shows("60 requests; latency from schedule");
        if replayed.code == 0 {
            assert_eq!(
                world.read("latest/find/plan.jsonl"),
                world.read("plan.jsonl"),
                "the same requests at the same times"
            );
        }
        Attempt::Tested
    });
}

/// The result of the first probe of `SLOW`, whether its search is over or not.
fn first_probe(world: &World) -> Option<PathBuf> {
    let folders = fs::read_dir(world.path(".regatta/out")).ok()?.flatten();
    folders.map(|folder| folder.path().join("probes/01-20/result.json")).find(|path| path.exists())
}

/// Differs for a file that was made anew.
fn made(path: &Path) -> (u64, i64) {
    fs::metadata(path).map(|meta| (meta.ino(), meta.mtime_nsec())).unwrap()
}

#[test]
fn a_search_that_was_cut_off_goes_on_with_the_probes_that_it_has() {
    tested("a search that was cut off and goes on", SLOW, |world| {
        let run = world.start(&["run", "m"]);
        until("the first probe", || first_probe(world).is_some());
        signal(&run, "INT");
        let ended = Ended::of(run);
        if ended.code == 3 {
            // The probe after it was the client's fault before the signal came.
            return Attempt::ClientDisturbed;
        }
        assert_eq!(ended.code, 130, "{ended:?}");
        let path = first_probe(world).unwrap();
        let before = made(&path);
        // One that measured its own client, beside other tests, is rightly measured again.
        let is_kept = !fs::read_to_string(&path).unwrap().contains("\"verdict\": \"invalid_client\"");
        let again = world.regatta(&["run", "m"]);
        if is_client_disturbed(&again) || !is_kept {
            return Attempt::ClientDisturbed;
        }
        assert_eq!(made(&world.path("latest/find/probes/01-20/result.json")), before, "it was not measured again");
        Attempt::Tested
    });
}

#[test]
fn a_probe_whose_client_was_disturbed_is_measured_once_more() {
    tested("a search whose first probe is measured twice", SLOW, |world| {
        let run = world.start(&["run", "m"]);
        let outputs = world.path(".regatta/out");
        let disturbed = || {
            let folders = fs::read_dir(&outputs).ok()?.flatten();
            let result =
                folders.map(|folder| folder.path().join("probes/01-20/result.json")).find(|path| path.exists())?;
            let result: Value = serde_json::from_str(&fs::read_to_string(result).ok()?).ok()?;
            Some((result["verdict"] == "invalid_client", format!("{}: {}", result["verdict"], result["reasons"])))
        };
        // The program is stopped and goes on, again and again, until it has seen that its first probe was late because of that.
        until_within(Duration::from_mins(5), "the first probe", || {
            signal(&run, "STOP");
            thread::sleep(Duration::from_millis(250));
            signal(&run, "CONT");
            // Time to go on, which a busy machine shares out.
            thread::sleep(Duration::from_millis(100));
            disturbed().is_some()
        });
        let (is_clients, why) = disturbed().expect("it is there");
        assert!(is_clients, "{why}");
        let ended = Ended::of(run);
        ended.shows("probe 1 at 20 req/s: the client was disturbed; measuring again: lag");
        if is_client_disturbed(&ended) {
            return Attempt::ClientDisturbed;
        }
        ended.shows("the probe at 20 req/s was measured twice, because the client was too slow: lag");
        let search: Value = serde_json::from_str(&world.read("latest/find/search.json")).unwrap();
        let first = &search["probes"][0];
        assert!(first["first_invalid"].as_str().unwrap().starts_with("lag"), "{first:#}");
        assert_eq!(first["folder"], "probes/01-20-again");
        assert_ne!(first["verdict"], "invalid_client", "{first:#}");
        Attempt::Tested
    });
}

/// A result of a search for this server, as far as another search reads it.
fn earlier(rate: f64, limit: &str) -> String {
    json!({
        "model": "tensorrt_llm", "limits": [format!("TTFT p99 ≤ {limit}")],
        "found": { "at_least": rate * 0.95, "below": rate * 1.05 },
        "estimate": { "rate": rate, "low": rate * 0.95, "high": rate * 1.05, "probes": 6, "slope": 8.0 },
    })
    .to_string()
}

#[test]
fn a_search_begins_at_an_earlier_one_and_its_content_is_part_of_the_key() {
    let begin = "precision: 0.25, start_from: earlier/search.json }";
    tested("a search that begins at an earlier one", &SLOW.replace("precision: 0.25 }", begin), |world| {
        let refused = world.regatta(&["run", "m"]);
        assert_ne!(refused.code, 0, "{refused:?}");
        refused.shows("earlier/search.json");
        world.file("earlier/search.json", "{}");
        world
            .regatta(&["run", "m"])
            .shows("`earlier/search.json` is not a result of a search")
            .shows("the folder that has it");
        world.file("earlier/search.json", &earlier(50.0, "1s"));
        world.regatta(&["run", "m"]).shows("its limits are TTFT p99 ≤ 1s, this search's are TTFT p99 ≤ 400ms");
        world.file("earlier/search.json", &earlier(50.0, "400ms"));
        let ended = world.regatta(&["run", "m"]);
        ended.shows("the first probes are near 50.0 req/s, which earlier/search.json found");
        if is_client_disturbed(&ended) {
            return Attempt::ClientDisturbed;
        }
        let search: Value = serde_json::from_str(&world.read("latest/find/search.json")).unwrap();
        let from = &search["started_from"];
        assert_eq!((&from["path"], &from["estimate"]["rate"]), (&json!("earlier/search.json"), &json!(50.0)));
        assert!(from["digest"].as_str().is_some_and(|digest| digest.len() == 64), "{search:#}");
        // A little below the earlier rate, not `low`.
        let first = search["probes"][0]["rate"].as_f64().unwrap();
        assert!((45.0..50.0).contains(&first), "{search:#}");
        assert!(world.regatta(&["run", "m"]).ran().is_empty());
        // What one search wrote, another can read. Another content is another search.
        world.file("earlier/search.json", &world.read("latest/find/search.json"));
        let again = world.regatta(&["run", "m"]);
        again.shows("input bench.search.start_from changed");
        Attempt::Tested
    });
}

/// One answer at a time, of one token after 8.62 ms: 116 requests a second, and no wait at all below that. The queue is kept in
/// numbers, so that a busy machine does not change what it can do.
fn one_at_a_time() -> Scripted {
    const SERVICE: Duration = Duration::from_micros(8_620);
    let free_at = Mutex::new(Instant::now());
    let answer: String = [role(), token("a"), usage(1), DONE.to_owned()].iter().map(|event| chunk(event)).collect();
    Scripted::start(move |_| {
        let mut free_at = free_at.lock().unwrap();
        let now = Instant::now();
        *free_at = now.max(*free_at) + SERVICE;
        vec![Do::Wait(*free_at - now), Do::Send([HEAD, &answer, END].concat())]
    })
}

#[test]
fn a_server_that_holds_up_to_a_step_is_estimated_between_its_probes_or_bracketed() {
    let server = one_at_a_time();
    let manifest = format!(
        "
stages:
  find:
    bench:
      target: openai://{}
      model: queue
      scenario: server
      arrivals: constant
      search: {{ low: 10, high: 160, start: 40 }}
      limits: {{ ttft_p99: 1s }}
      stop: {{ requests: 120 }}
      input_tokens: {{ fixed: 16 }}
      output_tokens: {{ fixed: 1 }}
",
        server.address
    );
    tested("a search on a server that holds up to a step", &manifest, |world| {
        let ended = world.regatta(&["run", "m"]);
        if is_client_disturbed(&ended) {
            return Attempt::ClientDisturbed;
        }
        let search: Value = serde_json::from_str(&world.read("latest/find/search.json")).unwrap();
        let probes: Vec<(f64, bool)> = search["probes"].as_array().unwrap().iter().map(rate_and_whether_met).collect();
        for (rate, _) in &probes {
            assert!(probes.iter().filter(|(other, _)| other.total_cmp(rate).is_eq()).count() <= 2, "{search:#}");
        }
        let held = probes.iter().filter(|(_, met)| *met).map(|(rate, _)| *rate).fold(0.0, f64::max);
        let missed = probes.iter().filter(|(_, met)| !met).map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
        assert!(held > 0.0 && missed.is_finite(), "{search:#}");
        if search["estimate"].is_null() {
            ended.shows("bracketed, not estimated: between ");
            return Attempt::Tested;
        }
        let [rate, low, high] = ["rate", "low", "high"].map(|key| search["estimate"][key].as_f64().unwrap());
        assert!((held.min(missed)..=held.max(missed)).contains(&rate), "{search:#}");
        assert!(high <= 2.0 * low, "{search:#}");
        ended.shows(" req/s at TTFT p99 ≤ 1s").shows("95 % interval ");
        Attempt::Tested
    });
}

fn rate_and_whether_met(probe: &Value) -> (f64, bool) {
    (probe["rate"].as_f64().unwrap(), probe["met"].as_bool().unwrap())
}

#[test]
fn limits_that_cannot_be_met_are_said() {
    tested("a search whose limits cannot be met", &SLOW.replace("ttft_p99: 400ms", "ttft_p99: 1ms"), |world| {
        let ended = world.regatta(&["run", "m"]);
        assert!([3, 4].contains(&ended.code), "{ended:?}");
        if ended.code == 3 {
            return Attempt::ClientDisturbed;
        }
        ended.shows("the limits are missed even at 20 req/s").shows("begin lower (`search.low`)");
        // What has ended is measured again, and not read: the machine may have been busy.
        let first = made(&first_probe(world).unwrap());
        assert!([3, 4].contains(&world.regatta(&["run", "m"]).code));
        assert_ne!(made(&first_probe(world).unwrap()), first);
        Attempt::Tested
    });
}
