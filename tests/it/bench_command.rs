//! `regatta bench TARGET`: one line, no manifest, and a table at the end.

use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::openai::script::{Do, HEAD, Scripted, chunk, good, token};
use crate::simulator::ground::Files;
use crate::world::{Ended, World};

/// A measurement beside other tests may find that its client was late; then it says so with 3 or 4, and tells all else.
fn measured(ended: &Ended) {
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
}

/// `regatta sim serve` as a process of its own. Ended when this is dropped.
struct Simulator {
    child: Child,
    grpc: u16,
    http: u16,
    _files: Files,
}

impl Simulator {
    fn start(world: &World) -> Self {
        let files = Files::new(true, &serde_json::json!({}));
        let repository = files.repository();
        let words = ["sim", "serve", "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0"];
        let mut command = world.command(&words);
        let mut child = command.arg("--repository").arg(repository).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = |name: &str| {
            let word = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.unwrap_or_else(|| panic!("no {name} in {line}")).parse().unwrap()
        };
        assert!(line.starts_with("ready ") && port("metrics") > 0, "{line}");
        Self { grpc: port("grpc"), http: port("http"), child, _files: files }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}\n{}\n{}", ended.stdout, ended.stderr))
}

#[test]
fn a_newcomer_tries_it_with_nothing() {
    let world = World::new();
    let words = ["bench", "sim:", "--rate", "20", "-n", "20", "--input-tokens", "64", "--output-tokens", "8"];
    let ended = world.regatta(&words);
    measured(&ended);
    ended.shows("note: simulated server (llama2-70b on one H200): its times are computed, not measured on a GPU");
    ended.shows("sim: · 20 req/s · 20 requests · 64 → 8 tokens").shows("TTFT (ms)").shows("20 of 20 requests ok");
    ended.shows("report  ").shows("again   regatta run .regatta/bench/");
    assert!(ended.stdout.lines().count() <= 25 && !ended.stdout.contains("→ bench"), "{}", ended.stdout);
    assert!(world.path("latest/report.html").exists());
    let again = world.regatta(&[&words[..], &["-v"]].concat());
    measured(&again);
    again.shows("→ bench  forced");
    for column in ["mean", "p50", "p90", "p99", "max"] {
        again.shows(column);
    }
    again.shows("TTFT (ms)").shows("TTFT and E2E from schedule; tokens: output_ids");
}

#[test]
fn every_interface_of_a_server_is_one_line() {
    let world = World::new();
    let server = Simulator::start(&world);
    let (grpc, http) = (server.grpc, server.http);
    let short = ["--offline", "-n", "10", "--isl", "16", "--osl", "4", "--json"];
    for (target, words, protocol, source) in [
        (format!("127.0.0.1:{grpc}"), vec![], "kserve", "output_ids"),
        (format!("grpc://127.0.0.1:{grpc}"), vec!["-m", "ensemble"], "kserve", "responses"),
        (format!("http://127.0.0.1:{http}/v1/chat/completions"), vec!["-m", "ensemble"], "openai-chat", "usage"),
        (format!("openai://127.0.0.1:{http}"), vec!["-m", "tensorrt_llm"], "openai-chat", "usage"),
        (format!("http://127.0.0.1:{http}"), vec![], "openai-chat", "usage"),
        (format!("http://127.0.0.1:{http}/v2/models/ensemble/generate_stream"), vec![], "generate", "responses"),
        (format!("http://127.0.0.1:{http}/v2/models/tensorrt_llm/generate"), vec![], "generate", "output_ids"),
    ] {
        let all: Vec<&str> = ["bench", &target].into_iter().chain(words).chain(short).collect();
        let ended = world.regatta(&all);
        measured(&ended);
        let result = json(&ended);
        assert_eq!(result["counts"]["ok"], 10, "{target}: {result:#}");
        assert_eq!(result["tokens"]["output"], 40, "{target}");
        assert!(result["tokens"]["source"].as_str().unwrap().starts_with(source), "{target}: {}", result["tokens"]);
        let requested = &result["requested"]["protocol"];
        let found = requested.as_str().or_else(|| requested["http"]["api"].as_str()).unwrap();
        assert_eq!(found, protocol, "{target}");
        assert_eq!(result["identity"]["simulated"], true, "{target}");
    }
}

#[test]
fn a_simulated_server_streams_offline_too() {
    let world = World::new();
    let short = ["bench", "sim:", "--offline", "-n", "10", "--isl", "16", "--osl", "4"];
    let result = json(&world.regatta(&[&short[..], &["--json"]].concat()));
    let mean = |metric: &str| result["latency"][metric]["mean"].as_f64().unwrap();
    assert_eq!(result["client"]["call"], "stream");
    assert!(mean("ttft") < mean("e2e") && mean("tpot") > 0.0, "{result:#}");
    let whole = world.regatta(&[&short[..], &["--no-streaming"]].concat());
    whole.shows("answers do not stream, so TTFT is the time of the whole answer");
}

#[test]
fn one_stream_for_all_requests_of_a_connection_is_one_word() {
    let world = World::new();
    let server = Simulator::start(&world);
    let target = format!("127.0.0.1:{}", server.grpc);
    let words = ["--stream", "shared", "--offline", "-n", "10", "--isl", "16", "--osl", "4", "--json"];
    let ended = world.regatta(&["bench", &target].into_iter().chain(words).collect::<Vec<_>>());
    measured(&ended);
    let result = json(&ended);
    assert_eq!((&result["counts"]["ok"], &result["requested"]["stream"]), (&10.into(), &"shared".into()), "{result:#}");
    let connections = &result["connections"];
    assert_eq!((&connections["stream"], &connections["shared_streams"]), (&"shared".into(), &1.into()));
    let http = world.regatta(&["bench", &format!("http://127.0.0.1:{}/v1", server.http), "--stream", "shared"]);
    assert_eq!(http.code, 2, "{http:?}");
    http.shows("cannot be `shared` over HTTP");
}

/// vLLM answers each such request with an error.
#[test]
fn a_minimum_above_the_length_of_answers_is_refused_before_the_load() {
    let line = ["bench", "openai://127.0.0.1:1", "--min-tokens", "20", "--output-tokens", "4", "--dry-run"];
    let ended = World::new().regatta(&line);
    ended.shows("`--min-tokens` is more than `output_tokens`").shows("no request has more than 4 tokens");
    assert_eq!(ended.code, 2);
}

#[test]
fn genai_perfs_words_mean_what_they_mean_there() {
    let world = World::new();
    let server = Simulator::start(&world);
    let url = format!("127.0.0.1:{}", server.http);
    let words = "bench -m ensemble --service-kind openai --endpoint-type completions --synthetic-input-tokens-mean 20 \
                 --synthetic-input-tokens-stddev 0 --output-tokens-mean 5 --output-tokens-stddev 0 --streaming \
                 --random-seed 123 --request-rate 50 --request-count 12 --tokenizer gpt2 --num-prompts 12 --json \
                 --extra-inputs ignore_eos:true --profile-export-file my_export.json --artifact-dir kept --url";
    let ended = world.regatta(&words.split_whitespace().chain([url.as_str()]).collect::<Vec<_>>());
    measured(&ended);
    let result = json(&ended);
    assert_eq!((&result["counts"]["ok"], &result["requested"]["seed"]), (&12.into(), &123.into()));
    assert_eq!(result["requested"]["protocol"]["http"]["extra"]["ignore_eos"], true);
    ended.shows("--tokenizer gpt2 is not a file on this machine and has no effect");
    assert_eq!(world.read("my_export.json").lines().count(), 12);
    for name in ["result.json", "requests.jsonl", "report.html", "manifest.yaml"] {
        assert!(world.path("kept").join(name).exists(), "{name}");
    }
}

#[test]
fn users_and_prompts_from_a_file_go_over_every_protocol() {
    let world = World::new();
    let server = Simulator::start(&world);
    world.file("prompts.jsonl", &"{\"prompt\": \"one two three four\", \"output_length\": 6}\n".repeat(9));
    for target in [format!("grpc://127.0.0.1:{}", server.grpc), format!("openai://127.0.0.1:{}", server.http)] {
        let words = ["bench", &target, "-m", "ensemble", "-c", "3", "--input-file", "prompts.jsonl", "--json"];
        let ended = world.regatta(&words);
        measured(&ended);
        let result = json(&ended);
        assert_eq!(result["counts"]["ok"], 9, "{result:#}");
        assert_eq!(result["tokens"]["output"], 54);
        assert!(result["little"]["in_flight_mean"].as_f64().unwrap() <= 3.0, "{}", result["little"]);
    }
}

#[test]
fn a_dry_run_prints_a_manifest_that_runs() {
    let world = World::new();
    let ended = world.good(&["bench", "sim:h100", "--rate", "5", "-n", "9", "--ttft-p99", "2s", "--dry-run"]);
    assert!(!world.path(".regatta").exists(), "nothing was written");
    world.file("mine.yaml", &ended.stdout);
    world.good(&["check", "mine.yaml"]).shows("good, 4 tasks");
}

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let mut world = World::new();
    let server = Scripted::start(|_| vec![Do::Send(good())]);
    world.env("MY_KEY", "very-secret");
    let target = format!("openai://{}", server.address);
    let words =
        ["bench", &target, "-m", "m", "--offline", "-n", "3", "--osl", "4", "--api-key-env", "MY_KEY", "--out", "o"];
    let ended = world.regatta(&words);
    measured(&ended);
    assert!(
        server.requests.lock().unwrap().iter().all(|request| request.contains("Authorization: Bearer very-secret\r\n"))
    );
    let everything =
        walkdir::WalkDir::new(world.path(".")).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    for file in everything {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(11).any(|window| window == b"very-secret"), "{}", file.path().display());
    }
    assert!(!format!("{}{}", ended.stdout, ended.stderr).contains("very-secret"));
    let ended = world.regatta(&["bench", &target, "-m", "m", "--offline", "-n", "1", "--api-key-env", "NO_SUCH_KEY"]);
    assert_eq!(ended.code, 2);
    ended.shows("`--api-key-env NO_SUCH_KEY`: the environment variable is not set");
    for (key, fault) in [(" \n", "is empty"), ("a\nb", "contains a line break")] {
        let mut world = World::new();
        world.env("BAD_KEY", key);
        let ended = world.regatta(&["bench", "openai://h:1", "-m", "m", "-n", "1", "--api-key-env", "BAD_KEY"]);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows(&format!("`--api-key-env BAD_KEY`: the environment variable {fault}"));
        assert!(!world.path(".regatta").exists());
    }
}

#[test]
fn a_server_that_answers_with_errors_makes_the_run_invalid_and_is_quoted() {
    let world = World::new();
    let broken = [HEAD.to_owned(), chunk(&token("a")), chunk("data: {\"error\":\"out of memory\"}\n\n")].concat();
    let server = Scripted::start(move |_| vec![Do::Send(broken.clone()), Do::Close]);
    let target = format!("openai://{}", server.address);
    let ended = world.regatta(&["bench", &target, "-m", "m", "--offline", "-n", "3", "--warmup", "0", "--osl", "4"]);
    assert_eq!(ended.code, 5, "{}\n{}", ended.stdout, ended.stderr);
    ended.shows("INVALID(server)").shows("3 of 3 requests failed: 3 server; first: out of memory");
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_starts() {
    let world = World::new();
    for (words, message) in [
        (vec!["bench"], "`regatta bench sim:` tries it without a server"),
        (vec!["bench", "grpcs://host:1"], "TLS is supported over HTTP only"),
        (vec!["bench", "https://host/v1", "--cert", "mine.pem"], "--key <FILE>"),
        (vec!["bench", "sim:abacus"], "the simulator knows the GPUs h100, h200 and the models"),
        (vec!["bench", "host"], "is not host:port"),
        (vec!["bench", "h:1", "--rate", "5", "--offline"], "cannot be used with"),
        (vec!["bench", "h:1", "--rate", "0"], "must be above 0"),
        (vec!["bench", "openai://h:1", "-k"], "`--insecure` requires an `https://` target"),
        (vec!["bench", "h:1", "--limit", "goodput=95%"], "`--goodput ttft:450 tpot:40`"),
        (vec!["bench", "h:1", "--tokenizer", "/nope"], "`--tokenizer /nope`: no such file"),
        (vec!["bench", "https://h:1/v1", "--cacert", "nope.pem"], "`--cacert nope.pem`: no such file"),
        (vec!["bench", "h:1", "--data", "nope.jsonl"], "`--data nope.jsonl`: no such file"),
        (vec!["bench", "h:1", "--api-key-env", "NO_SUCH_KEY"], "`--api-key-env NO_SUCH_KEY`"),
    ] {
        let ended = world.regatta(&words);
        assert_eq!(ended.code, 2, "{words:?}\n{}{}", ended.stdout, ended.stderr);
        ended.shows(message);
    }
    assert!(!world.path(".regatta").exists());
}

#[test]
fn an_error_of_the_manifest_names_the_option_that_it_comes_from() {
    let world = World::new();
    for (words, message) in [
        (["--ttft-p99", "abc"], "`--ttft-p99` must be a duration, not `abc`"),
        (["--limit", "foo=3"], "`--limit foo=3`: unknown key `foo`"),
        (["--duration", "abc"], "`--duration` must be a duration"),
        (["--duration", "0s"], "`--duration` must be above 0"),
    ] {
        for more in [&[][..], &["--dry-run"]] {
            let ended = world.regatta(&[&["bench", "h:1", words[0], words[1]], more].concat());
            assert_eq!(ended.code, 2, "{words:?}\n{}{}", ended.stdout, ended.stderr);
            ended.shows(message);
            assert!(!ended.stderr.contains(".yaml") && ended.stdout.is_empty(), "{ended:?}");
        }
    }
}

#[test]
fn quiet_leaves_the_table_out_and_keeps_the_json() {
    let world = World::new();
    let words = ["bench", "sim:", "-q", "-n", "4", "--input-tokens", "8", "--output-tokens", "2"];
    let ended = world.regatta(&words);
    measured(&ended);
    // As of `run -q`, only what is wrong.
    assert!(!ended.stdout.contains("TTFT (ms)"), "{}", ended.stdout);
    assert!(json(&world.regatta(&[&words[..], &["--json"]].concat()))["counts"].is_object());
}

#[test]
fn a_folder_that_is_named_with_out_keeps_what_regatta_did_not_write() {
    let world = World::new();
    world.file("survey/points/gps.csv", "x").file("survey/manifest.yaml", "mine");
    let short = ["bench", "sim:", "-n", "3", "--osl", "4"];
    let to = |folder, more: &[&'static str]| world.regatta(&[&short[..], &["--out", folder], more].concat());
    let refused = to("survey", &[]);
    assert_eq!(refused.code, 2, "{refused:?}");
    refused.shows(
        "`--out survey` would replace what Regatta did not write there: survey/manifest.yaml, survey/points/gps.csv",
    );
    assert!(!world.path(".regatta").exists(), "nothing was measured");
    assert_eq!((world.read("survey/points/gps.csv"), world.read("survey/manifest.yaml")), ("x".into(), "mine".into()));
    let imported = world.regatta(&["import", "survey", "--out", "survey"]);
    assert_ne!(imported.code, 0);

    world.file("kept/notes", "mine");
    measured(&to("kept", &[]));
    // As of an earlier benchmark with more runs.
    world.file("kept/repeats/02/result.json", &world.read("kept/result.json"));
    let before = world.read("kept/result.json");
    for other in [&["--repeat", "2"][..], &["-c", "1,2"], &["--seed", "7"]] {
        let refused = to("kept", other);
        assert_eq!(refused.code, 2, "{refused:?}");
        refused.shows("`--out kept` holds the result of another benchmark").shows("hint: name another folder");
    }
    assert_eq!(world.read("kept/result.json"), before);
    measured(&to("kept", &[]));
    assert_ne!(world.read("kept/result.json"), before);
    assert!(!world.path("kept/repeats").exists(), "what an earlier `--out` left is replaced");
    assert_eq!(world.read("kept/notes"), "mine");
    let ended = to("kept", &["--profile-export-file", "/dev/full"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("copied to kept").shows("cannot write /dev/full: No space left on device");
    assert!(!ended.stderr.contains("an earlier run"), "{ended:?}");
    let words = ["bench", "openai://127.0.0.1:1", "-m", "m", "-n", "1", "--out", "kept"];
    let manifest = world.good(&[&words[..], &["--dry-run"]].concat()).stdout;
    world.file("kept/manifest.yaml", &manifest);
    let failed = world.regatta(&words);
    assert_ne!(failed.code, 0);
    failed.shows("note: kept still has the result of an earlier run");
}

#[test]
fn a_folder_whose_path_is_not_text_is_refused() {
    let world = World::new();
    let folder = world.path(std::ffi::OsStr::from_bytes(b"nu\xff"));
    std::fs::create_dir(&folder).unwrap();
    let refused = |mut command: std::process::Command| {
        let ended = Ended::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(ended.code, 2, "{ended:?}");
        ended
    };
    for words in [&["bench", "sim:", "-n", "5", "-q"][..], &["run", "m"], &["plan", "m"], &["runs"]] {
        let mut command = world.command(words);
        command.current_dir(&folder);
        refused(command).shows("error: the path of the current folder is not UTF-8: /").shows("hint: rename");
    }
    let mut command = world.command(&["bench", "sim:", "-n", "5", "--home"]);
    command.arg(&folder);
    refused(command).shows("error: the path of the state folder is not UTF-8: /");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn the_requests_of_several_runs_do_not_go_into_one_file() {
    let world = World::new();
    for several in [["-c", "1,2"], ["--repeat", "2"]] {
        let words = [&["bench", "sim:", "-n", "3", "--profile-export-file", "x.jsonl"][..], &several].concat();
        let refused = world.regatta(&words);
        assert_eq!(refused.code, 2, "{refused:?}");
        refused
            .shows("`--profile-export-file` has the requests of one run, and this measures several")
            .shows("--out DIR");
    }
    assert!(!world.path(".regatta").exists(), "nothing was measured");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let world = World::new();
    world.file("file", "");
    let refused = world.regatta(&["bench", "sim:", "-n", "3", "--home", "file/state"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    refused.shows("cannot create ").shows("file/state");
    measured(&world.regatta(&["bench", "sim:", "-n", "3", "--osl", "4"]));
    let refused = world.regatta(&["history", "--html", "absent/x.html"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    refused.shows("cannot write absent/x.html");
}
