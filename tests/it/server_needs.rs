//! Servers that need more of a client than a request: headers, patience, fewer fields, another form of metrics.

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use regatta::event::Stop;
use regatta::harness::{LoadPattern, run};
use regatta::spec::{RequestHeaders, StreamMode};
use serde_json::Value;

use crate::arrivals::{measured, spec};
use crate::openai::script::{DONE, END, HEAD, chunk, good, next, role, token};
use crate::scripted_server::{Act, Last, Scripted, wait_for};
use crate::world::{Ended, World};

/// An HTTP server that answers by a function of the whole request, and keeps all requests.
struct Gateway {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Gateway {
    /// `None`: 404 for a `GET`, four tokens for a `POST`.
    fn start(answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let (recorded, answer) = (Arc::clone(&requests), Arc::new(answer));
        // The threads end with their connections, and those with the test.
        thread::spawn(move || {
            for mut socket in listener.incoming().map_while(Result::ok) {
                let (recorded, answer) = (Arc::clone(&recorded), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut bytes = Vec::new();
                    while let Some(request) = next(&mut socket, &mut bytes) {
                        recorded.lock().unwrap().push(request.clone());
                        let usual = || if request.starts_with("GET ") { status(404, "") } else { good() };
                        let text = answer(&request).unwrap_or_else(usual);
                        if std::io::Write::write_all(&mut socket, text.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, requests }
    }

    /// A benchmark of it, into the folder `out`, which is emptied.
    fn bench(&self, world: &World, options: &[&str]) -> Ended {
        // There is none the first time.
        std::fs::remove_dir_all(world.path("out")).ok();
        let target = format!("openai://{}", self.address);
        let words = ["bench", &target, "-n", "4", "--output-tokens", "4", "--out", "out"];
        world.regatta(&[&words[..], options].concat())
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn status(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn path(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}

/// As a server of this kind describes itself.
fn described(request: &str, kind: &str) -> Option<String> {
    match path(request) {
        "/v1/models" => Some(status(200, &format!(r#"{{"data":[{{"id":"m","owned_by":"{kind}"}}]}}"#))),
        "/version" => Some(status(200, r#"{"version":"0.10.1"}"#)),
        _ => None,
    }
}

fn result(world: &World) -> Value {
    serde_json::from_str(&world.read("out/result.json")).unwrap()
}

fn is_measured(ended: &Ended) {
    assert!([0, 3].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
}

#[test]
fn headers_are_sent_with_every_request_and_keys_are_in_no_file() {
    let has_key = |request: &str| request.to_ascii_lowercase().contains("\r\napi-key: s3cret-key-1\r\n");
    let server = Gateway::start(move |request| {
        if has_key(request) {
            return described(request, "vllm");
        }
        Some(status(401, r#"{"error":{"message":"wrong key S3CRET-KEY-1"}}"#))
    });
    let mut world = World::new();
    world.env("TENANT", "S3CRET-TENANT");
    let headers = ["--header", "api-key: S3CRET-KEY-1", "-H", "x-team=perf", "--header", "x-tenant:${TENANT}"];
    let ended = server.bench(&world, &[&headers[..], &["--warmup", "2"]].concat());
    is_measured(&ended);
    let requests = server.requests();
    for part in ["POST /v1/chat/completions", "GET /v1/models", "GET /metrics", "GET /version"] {
        assert!(requests.iter().any(|request| request.starts_with(part)), "no {part}");
    }
    for request in &requests {
        assert!(
            has_key(request) && request.contains("x-team: perf") && request.contains("x-tenant: S3CRET-TENANT"),
            "{request}"
        );
    }
    let kept = world.read("out/manifest.yaml");
    assert!(kept.contains("${API_KEY}") && kept.contains("x-team: perf"), "{kept}");
    let found = std::process::Command::new("grep").args(["-rlai", "S3CRET-"]).arg(world.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "a key is in a file");
    assert!(!ended.stdout.contains("S3CRET") && !ended.stderr.contains("S3CRET"));

    // A server that repeats a key in its refusal.
    let refused = server.bench(&world, &["--header", "api-key: S3CRET-KEY-2"]);
    assert_ne!(refused.code, 0);
    refused.shows("does not accept the value of the header api-key");
    let unset = server.bench(&world, &["--header", "api-key:${NOT_SET}"]);
    unset.shows("the environment variable NOT_SET is not set");
}

#[test]
fn an_authorization_that_is_given_replaces_the_bearer() {
    let server = Gateway::start(|request| described(request, "x"));
    let mut world = World::new();
    world.env("BEARER", "the-bearer");
    let words = ["--api-key-env", "BEARER", "--header", "Authorization: Basic abc", "--header", "User-Agent: mine"];
    is_measured(&server.bench(&world, &words));
    let posts: Vec<String> = server.requests().into_iter().filter(|request| request.starts_with("POST")).collect();
    for request in &posts {
        assert!(request.contains("Basic abc") && !request.contains("the-bearer"), "{request}");
        assert_eq!(request.to_ascii_lowercase().matches("user-agent").count(), 1, "{request}");
    }
}

#[test]
fn headers_that_cannot_be_sent_are_errors_of_the_line_and_of_the_manifest() {
    let world = World::new();
    for (header, why) in [
        ("content-length: 5", "`--header content-length` is set by Regatta itself"),
        ("no value", "`--header no value` is not a header"),
        ("two words: a", "has the name `two words`"),
        ("a: b\u{1}", "control character"),
    ] {
        let ended = world.regatta(&["bench", "openai://127.0.0.1:9", "--header", header]);
        assert_eq!(ended.code, 2, "{header}");
        ended.shows(why);
    }
    let bench = "target: 'openai://h:1', scenario: offline, stop: { requests: 1 }, input_tokens: { fixed: 1 }, \
                 output_tokens: { fixed: 1 }";
    world.manifest(
        "m",
        &format!(
            "stages:\n  b:\n    bench: {{ {bench}, request: {{ headers: {{ Host: a, api-key: sek, x-a: '${{', \
                  x-b: b, X-B: c }} }} }}\n"
        ),
    );
    let ended = world.regatta(&["check", "m"]);
    assert_ne!(ended.code, 0);
    for text in [
        "`stages.b.bench.request.headers.Host` is set by Regatta itself",
        "`stages.b.bench.request.headers.api-key` holds a key: write `${API_KEY}`",
        "`stages.b.bench.request.headers.x-a` has a `${`",
        "`stages.b.bench.request.headers.x-b` is given twice",
    ] {
        ended.shows(text);
    }
}

#[test]
fn headers_are_metadata_of_every_call_over_grpc() {
    let gap = Duration::ZERO;
    let script = Arc::new(move |_: u64| Act::Answer { gap, per_chunk: 1, last: Last::FlagOnToken });
    let server = Scripted::start(true, None, script);
    *server.required.lock().unwrap() = Some(("x-tenant", "perf"));
    let mut spec = spec(server.address, LoadPattern::Offline, 8);
    spec.request.headers.add("x-tenant: perf").unwrap();
    for stream in [StreamMode::PerRequest, StreamMode::Shared] {
        spec.pace.stream = stream;
        measured(&spec);
        assert_eq!(server.unauthenticated.load(Ordering::SeqCst), 0);
    }
    spec.request.headers = RequestHeaders::default();
    let refused = wait_for(run(&spec, &Stop::new(), |_| {})).map(|measured| measured.result.counts.failed);
    assert!(!matches!(refused, Ok(0)), "{refused:?}");
}

#[test]
fn a_server_that_still_loads_is_waited_for() {
    let probes = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&probes);
    let server = Gateway::start(move |request| match path(request) {
        "/health" if counted.fetch_add(1, Ordering::SeqCst) < 3 => Some(status(503, "")),
        "/health" => Some(status(200, "")),
        _ if counted.load(Ordering::SeqCst) < 4 => Some(status(503, "loading")),
        _ => described(request, "x"),
    });
    let world = World::new();
    is_measured(&server.bench(&world, &["--ready-timeout", "5m"]));
    assert_eq!(probes.load(Ordering::SeqCst), 4);
    let absent = world.regatta(&["bench", "openai://127.0.0.1:9", "-n", "1", "--ready-timeout", "300ms"]);
    absent.shows("was not ready within 300ms: no connection").shows("`--ready-timeout` sets how long");
}

#[test]
fn an_error_of_a_connection_names_the_proxy_that_is_not_used() {
    let mut world = World::new();
    world.env("http_proxy", "http://127.0.0.1:9").env("no_proxy", "other.invalid");
    let words = ["bench", "openai://no-such-host.invalid:8000", "-n", "1"];
    world.regatta(&words).shows("http_proxy is set, and is not used");
    world.regatta(&[&words[..], &["--ready-timeout", "300ms"]].concat()).shows("http_proxy is set, and is not used");
    world.env("no_proxy", ".invalid");
    assert!(!world.regatta(&words).stderr.contains("http_proxy"));
    // Those whose other clients go through the proxy learn that these numbers are without it. Not a loopback address
    // as it is usually written, which no client reaches through a proxy.
    let server = Gateway::start(|request| described(request, "x"));
    let target = format!("openai://127.1:{}", server.address.port());
    let reached = world.regatta(&["bench", &target, "-n", "4", "--output-tokens", "4"]);
    is_measured(&reached);
    reached.shows("http_proxy is set, and is not used: a benchmark connects to its servers directly");
    assert!(!server.bench(&world, &[]).stderr.contains("http_proxy"));
}

/// A page as vLLM's API servers have it together: without `process_*`.
const PAGE: &str = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\"} 3.0\n\
    vllm:num_requests_running{engine=\"1\"} 2.0\n# TYPE vllm:generation_tokens_total counter\n\
    vllm:generation_tokens_total{engine=\"0\"} 20.0\n";
const OPENMETRICS: &str = "# TYPE vllm:generation_tokens counter\n# UNIT vllm:generation_tokens tokens\n\
    vllm:generation_tokens_total{engine=\"0\"} 20.0 # {trace_id=\"a1\"} 0.5 1700000000.5\n\
    vllm:generation_tokens_created{engine=\"0\"} 1.7e+09\n# TYPE vllm:num_requests_running gauge\n\
    vllm:num_requests_running{engine=\"0\"} 3.0\n# EOF\n";

#[test]
fn metrics_are_read_without_a_start_time_behind_a_redirect_and_as_openmetrics() {
    for (redirects, page) in [(false, PAGE), (true, PAGE), (false, OPENMETRICS)] {
        let server = Gateway::start(move |request| match path(request) {
            "/metrics" if redirects => {
                Some("HTTP/1.1 307 X\r\nLocation: /metrics/\r\nContent-Length: 0\r\n\r\n".to_owned())
            }
            "/metrics" | "/metrics/" => Some(status(200, page)),
            _ => described(request, "vllm"),
        });
        let world = World::new();
        is_measured(&server.bench(&world, &[]));
        let result = result(&world);
        let metrics = result["server_metrics"]["metrics"].as_array().unwrap();
        let kind = |name: &str| metrics.iter().find(|it| it["name"] == name).map(|it| it["kind"].clone());
        assert_eq!(kind("vllm:generation_tokens_total"), Some("counter".into()), "{metrics:?}");
        assert_eq!(kind("vllm:num_requests_running"), Some("gauge".into()));
        assert_eq!(result["identity"]["servers"][0]["metrics_not_read"], Value::Null);
    }
}

#[test]
fn a_result_says_why_metrics_are_not_read() {
    for (owner, answer, why) in [
        ("vllm", status(404, ""), "HTTP status 404"),
        ("vllm", status(200, "# TYPE a gauge\na 1\n"), "it has no metrics of vLLM, SGLang or Triton"),
        ("tensorrt_llm", status(200, "[{\"iter\": 1}]"), "it is JSON, as trtllm-serve has it"),
        (
            "vllm",
            "HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:9/metrics\r\nContent-Length: 0\r\n\r\n".to_owned(),
            "a redirect to http://127.0.0.1:9/metrics",
        ),
    ] {
        let server = Gateway::start(move |request| match path(request) {
            "/metrics" => Some(answer.clone()),
            _ => described(request, owner),
        });
        let world = World::new();
        let ended = server.bench(&world, &[]);
        is_measured(&ended);
        ended.shows("/metrics are not in the result").shows(why);
        let found = result(&world)["identity"]["servers"][0]["metrics_not_read"].clone();
        assert!(found.as_str().unwrap().contains(why), "{found}");
    }
}

/// Refuses a request with one of these fields, as servers of the field do; answers others without `usage`.
fn strict(fields: &'static [&'static str], refusal: &'static str) -> Gateway {
    Gateway::start(move |request| {
        if request.starts_with("GET ") {
            return described(request, "x");
        }
        if let Some(field) = fields.iter().find(|field| request.contains(&format!("\"{field}\""))) {
            return Some(status(400, &refusal.replace("FIELD", field)));
        }
        let events = [role(), token("a"), token("b"), token("c"), token("d"), DONE.to_owned()];
        Some([HEAD.to_owned(), events.iter().map(|event| chunk(event)).collect(), END.to_owned()].concat())
    })
}

#[test]
fn a_field_that_the_server_refuses_is_left_out_by_the_setting_that_the_failure_names() {
    let world = World::new();
    let openai = strict(
        &["max_tokens"],
        r#"{"error":{"message":"Unsupported parameter: 'FIELD'. Use 'max_completion_tokens' instead."}}"#,
    );
    let refused = openai.bench(&world, &[]);
    refused
        .shows("try      `--length-field max_completion_tokens` sends the length of answers")
        .shows("--length-field max_completion_tokens");
    openai.bench(&world, &["--warmup", "0"]).shows("--length-field max_completion_tokens");
    is_measured(&openai.bench(&world, &["--length-field", "max_completion_tokens"]));

    let mistral =
        strict(&["stream_options"], r#"{"detail":[{"loc":["body","FIELD"],"msg":"Extra inputs are not permitted"}]}"#);
    mistral.bench(&world, &[]).shows("--extra stream_options:null");
    let without = mistral.bench(&world, &["--extra", "stream_options:null"]);
    is_measured(&without);
    let all = format!("{}{}", without.stdout, without.stderr);
    assert!(all.contains("chunks stand in; name a `--tokenizer`") && !all.contains("include_usage"), "{all}");
}

#[test]
fn lines_of_other_tools_keep_their_headers_and_their_patience() {
    let world = World::new();
    let imported = |line: &str| {
        let words: Vec<&str> = ["import", "--"].into_iter().chain(line.split(' ')).collect();
        world.good(&words).stdout
    };
    let line = "vllm bench serve --base-url http://h:1 --model m --dataset-name random --num-prompts 3";
    let vllm = imported(&format!("{line} --header api-key=sek x-team=perf --ready-check-timeout-sec 600"));
    for text in [
        "${API_KEY}",
        "x-team: perf",
        "ready_timeout: 600s",
        "from the environment variable API_KEY; it is not written down",
    ] {
        assert!(vllm.contains(text), "no {text} in\n{vllm}");
    }
    assert!(!vllm.contains("sek") && !vllm.contains("ready.timeout"), "{vllm}");
    let none = imported(&format!("{line} --ready-check-timeout-sec 0"));
    assert!(!none.contains("ready_timeout: 0") && none.contains("a server has to be ready"), "{none}");
    for line in [
        "genai-perf profile -m m --service-kind openai --endpoint-type chat -u h:1 -H x-team:perf",
        "aiperf profile -m m --endpoint-type chat -u h:1 --header x-team:perf --wait-for-model-timeout 60",
        "perf_analyzer -m m -u h:8001 -i grpc --concurrency-range 1 -H x-team:perf",
        "guidellm benchmark --target http://h:1 --rate-type concurrent --rate 1 --max-requests 3 --data \
         prompt_tokens=8,output_tokens=4 --backend-args {\"headers\":{\"x-team\":\"perf\"}}",
        "curl http://h:1/v1/chat/completions -H x-team:perf -d {\"model\":\"m\",\"messages\":[]}",
    ] {
        let manifest = imported(line);
        assert!(manifest.contains("x-team: perf"), "{line}\n{manifest}");
    }
}
