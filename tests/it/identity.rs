//! What servers report about themselves, as servers of the field report it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pretty_assertions::assert_eq;
use regatta::event::Endpoint;
use regatta::harness::{Api, Http, ServerIdentity, Transport, query_identity};
use regatta::sim::SimOptions;
use regatta::spec::RequestHeaders;
use serde_json::{Value, json};

use crate::openai::script::good;
use crate::simulator::ground::{Files, Running};
use crate::world::{Ended, World};

/// What a `GET` is answered with.
#[derive(Clone)]
pub enum Body {
    Json(Value),
    /// One after the other; the last one for ever.
    OneByOne(Vec<String>),
    Text(String),
    /// Never ends.
    Endless,
    /// The connection stays open and nothing comes.
    Silent,
}

/// An HTTP server with fixed answers to `GET`, which answers every `POST` with four tokens.
pub struct Described {
    pub address: SocketAddr,
    /// Heads of all `GET`s.
    pub gets: Arc<Mutex<Vec<String>>>,
    /// Bytes of endless bodies that were taken from it.
    pub sent: Arc<AtomicU64>,
    /// How many `POST`s came.
    pub posts: Arc<AtomicU64>,
    /// How long it works on a `POST`, in milliseconds.
    pub work_ms: Arc<AtomicU64>,
    /// Path → answer. May be changed while it serves.
    pub answers: Arc<Mutex<Vec<(String, Body)>>>,
}

impl Described {
    pub fn start(answers: &[(&str, Body)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = answers.iter().map(|(path, body)| ((*path).to_owned(), body.clone())).collect();
        let server = Self {
            address,
            gets: Arc::default(),
            sent: Arc::default(),
            posts: Arc::default(),
            work_ms: Arc::default(),
            answers: Arc::new(Mutex::new(answers)),
        };
        let (gets, sent, answers) = (Arc::clone(&server.gets), Arc::clone(&server.sent), Arc::clone(&server.answers));
        let (posts, work_ms) = (Arc::clone(&server.posts), Arc::clone(&server.work_ms));
        // The threads end with their connections, and those with the test.
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                socket.set_nodelay(true).unwrap();
                let (gets, sent, answers) = (Arc::clone(&gets), Arc::clone(&sent), Arc::clone(&answers));
                let (posts, work_ms) = (Arc::clone(&posts), Arc::clone(&work_ms));
                thread::spawn(move || converse(socket, &gets, &sent, &posts, &work_ms, &answers));
            }
        });
        server
    }

    pub fn put(&self, path: &str, body: Body) {
        let mut answers = self.answers.lock().unwrap();
        answers.retain(|(known, _)| known != path);
        answers.push((path.to_owned(), body));
    }

    fn endpoint(&self) -> Endpoint {
        self.address.to_string().parse().unwrap()
    }

    async fn identity(&self, model: &str) -> ServerIdentity {
        query_identity(&self.endpoint(), &openai(), &RequestHeaders::default(), model).await
    }
}

fn converse(
    mut socket: std::net::TcpStream,
    gets: &Mutex<Vec<String>>,
    sent: &AtomicU64,
    posts: &AtomicU64,
    work_ms: &AtomicU64,
    answers: &Mutex<Vec<(String, Body)>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let request = crate::openai::script::next(&mut socket, &mut bytes)?;
        let Some(rest) = request.strip_prefix("GET ") else {
            posts.fetch_add(1, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(work_ms.load(Ordering::SeqCst)));
            socket.write_all(good().as_bytes()).ok()?;
            continue;
        };
        let path = rest.split(' ').next().unwrap_or_default().to_owned();
        gets.lock().unwrap().push(request.clone());
        let body = answers.lock().unwrap().iter_mut().find(|(known, _)| *known == path).map(|(_, body)| match body {
            Body::OneByOne(all) => Body::Text(if all.len() > 1 { all.remove(0) } else { all[0].clone() }),
            body => body.clone(),
        });
        let (head, text) = match body {
            None | Some(Body::OneByOne(_)) => ("HTTP/1.1 404 Not Found", String::new()),
            Some(Body::Json(value)) => ("HTTP/1.1 200 OK", value.to_string()),
            Some(Body::Text(text)) => ("HTTP/1.1 200 OK", text),
            Some(Body::Silent) => {
                // Until the other side closes it.
                let _ = socket.read(&mut [0; 1]);
                return None;
            }
            Some(Body::Endless) => {
                socket.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
                let piece = format!("10000\r\n{}\r\n", " ".repeat(0x10000));
                loop {
                    socket.write_all(piece.as_bytes()).ok()?;
                    sent.fetch_add(0x10000, Ordering::SeqCst);
                }
            }
        };
        let answer = format!("{head}\r\nserver: uvicorn\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        socket.write_all(answer.as_bytes()).ok()?;
    }
}

fn openai() -> Transport {
    Transport::Http(Http::new(Api::OpenaiChat))
}

/// As vLLM 0.8 lists it: the id of the permission is drawn anew for each answer.
pub fn vllm_models(created: u64, permission: &str) -> Body {
    Body::Json(json!({"object": "list", "data": [{
        "id": "meta-llama/Llama-3.1-8B-Instruct", "object": "model", "created": created, "owned_by": "vllm",
        "root": "meta-llama/Llama-3.1-8B-Instruct", "parent": null, "max_model_len": 131_072,
        "permission": [{"id": permission, "object": "model_permission", "created": created}],
    }]}))
}

const STARTED: &str = "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.\n\
    # TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1.73e+09\n";

#[tokio::test]
async fn vllm_is_known_by_its_model_list_its_version_and_its_start() {
    let server = Described::start(&[
        ("/v1/models", vllm_models(1, "modelperm-a")),
        ("/version", Body::Json(json!({"version": "0.8.5"}))),
        ("/metrics", Body::Text(STARTED.to_owned())),
    ]);
    let one = server.identity("meta-llama/Llama-3.1-8B-Instruct").await;
    assert_eq!(one.kind.as_deref(), Some("vllm"));
    assert_eq!(one.version.as_deref(), Some("0.8.5"));
    assert_eq!(one.http_server.as_deref(), Some("uvicorn"));
    assert_eq!(one.model_source.as_deref(), Some("meta-llama/Llama-3.1-8B-Instruct"));
    assert_eq!(one.max_model_len, Some(131_072));
    assert_eq!(one.start_time_seconds, Some(1.73e9));
    assert!(!one.is_simulated() && one.backend.is_none() && one.engine_path.is_none(), "{one:?}");

    // What differs from answer to answer is no difference of the server …
    server.put("/v1/models", vllm_models(2, "modelperm-b"));
    assert_eq!(server.identity("meta-llama/Llama-3.1-8B-Instruct").await.digest(), one.digest());
    // … another version, another model and another start are.
    server.put("/version", Body::Json(json!({"version": "0.8.6"})));
    assert_ne!(server.identity("meta-llama/Llama-3.1-8B-Instruct").await.digest(), one.digest());
    server.put("/version", Body::Json(json!({"version": "0.8.5"})));
    server.put("/metrics", Body::Text(STARTED.replace("1.73e+09", "1.74e+09")));
    assert_ne!(server.identity("meta-llama/Llama-3.1-8B-Instruct").await.digest(), one.digest());
}

#[tokio::test]
async fn sglang_reports_its_settings_and_its_keys_are_not_kept() {
    let models =
        json!({"object": "list", "data": [{"id": "qwen", "object": "model", "owned_by": "sglang", "root": "qwen"}]});
    let info = json!({
        "model_path": "https://me:hunter2@hub.example/Qwen/Qwen3-8B?token=hunter2", "version": "0.5.2", "tp_size": 2,
        "dtype": "auto", "api_key": "hunter2", "admin_api_key": "hunter2", "disable_radix_cache": false,
        "internal_states": [{"load": 1}],
    });
    // The older name; the newer one is not there.
    let server = Described::start(&[("/v1/models", Body::Json(models)), ("/get_server_info", Body::Json(info))]);
    // No model is named: it has only one.
    let one = server.identity("").await;
    assert_eq!((one.kind.as_deref(), one.version.as_deref()), (Some("sglang"), Some("0.5.2")));
    assert_eq!(one.model.as_deref(), Some("qwen"));
    assert_eq!(one.model_source.as_deref(), Some("https://hub.example/Qwen/Qwen3-8B"));
    let settings: Vec<_> = one.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(settings, ["disable_radix_cache=false", "dtype=auto", "tp_size=2"]);
    assert!(!serde_json::to_string(&one).unwrap().contains("hunter2"));
}

#[tokio::test]
async fn trtllm_serve_and_others_are_what_they_say() {
    let models = |owner: &str| Body::Json(json!({"data": [{"id": "m", "owned_by": owner}]}));
    let server = Described::start(&[
        ("/v1/models", models("tensorrt_llm")),
        ("/version", Body::Json(json!({"version": "1.0.0"}))),
    ]);
    let one = server.identity("m").await;
    assert_eq!((one.kind.as_deref(), one.version.as_deref()), (Some("trtllm-serve"), Some("1.0.0")));
    // A name that is not known is not made into a kind of server.
    server.put("/v1/models", models("acme"));
    let other = server.identity("m").await;
    assert_eq!((other.kind, other.settings["owned_by"].as_str()), (None, "acme"));
    // Nothing is asked of a server that is not there, and nothing is made up for it.
    let gone = query_identity(&"127.0.0.1:9".parse().unwrap(), &openai(), &RequestHeaders::default(), "m").await;
    assert_eq!(
        gone,
        ServerIdentity { address: "127.0.0.1:9".to_owned(), model: Some("m".to_owned()), ..ServerIdentity::default() }
    );
}

#[tokio::test]
async fn answers_that_never_end_are_given_up() {
    let server = Described::start(&[("/v1/models", Body::Endless), ("/version", Body::Silent)]);
    let one = server.identity("m").await;
    assert!(!one.is_known(), "{one:?}");
    // The limit is 4 MiB; sockets hold some more.
    let sent = server.sent.load(Ordering::SeqCst);
    assert!(sent < 64 << 20, "{sent} bytes were taken");
}

#[tokio::test]
async fn the_simulator_says_what_it_is_over_every_protocol() {
    let files = Files::new(true, &json!({}));
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Running::start(SimOptions { speed: 20.0, http: Some(any), ..files.options() });
    let http = server.http.unwrap();
    let grpc = Endpoint::list(&server.address.to_string()).unwrap().remove(0);
    let over_http = |api| (http.to_string().parse::<Endpoint>().unwrap(), Transport::Http(Http::new(api)));
    let kserve = query_identity(&grpc, &Transport::Kserve, &RequestHeaders::default(), "tensorrt_llm").await;
    for (endpoint, protocol) in [over_http(Api::Generate), over_http(Api::OpenaiCompletions)] {
        let one = query_identity(&endpoint, &protocol, &RequestHeaders::default(), "tensorrt_llm").await;
        assert_eq!(one.kind.as_deref(), Some("regatta-simulator"), "{one:?}");
        assert_eq!(one.version, kserve.version);
        assert_eq!(one.simulation, kserve.simulation);
    }
    assert_eq!(kserve.version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(kserve.simulation.as_ref().map(|it| it.speed), Some(20.0));
    assert_eq!(kserve.backend.as_deref(), Some("tensorrtllm"));
    assert_eq!(kserve.max_batch_size, Some(512));
    assert!(kserve.engine_path.as_deref().is_some_and(|path| path.starts_with('/')), "{kserve:?}");
    // The engine behind an ensemble is that of its step.
    let ensemble = query_identity(&grpc, &Transport::Kserve, &RequestHeaders::default(), "ensemble").await;
    assert_eq!(ensemble.backend.as_deref(), Some("ensemble"));
    assert_eq!(ensemble.engine_path, kserve.engine_path);
    assert_ne!(ensemble.metadata_digest, kserve.metadata_digest);
}

fn vllm(version: Body) -> Described {
    Described::start(&[
        ("/v1/models", vllm_models(1, "modelperm-a")),
        ("/version", version),
        ("/metrics", Body::Text(STARTED.to_owned())),
    ])
}

#[test]
fn prompts_that_an_attached_vllm_has_in_its_prefix_cache_are_reported() {
    let world = World::new();
    let server = vllm(Body::Json(json!({"version": "0.24.0"})));
    let counted = |gets: u32| {
        let (hits, queries) = (6 * gets, 10 * gets);
        format!(
            "{STARTED}# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total {queries}\n\
             # TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total {hits}\n"
        )
    };
    server.put("/metrics", Body::OneByOne((0..20).map(counted).collect()));
    let ended = bench(&world, &server);
    let result = result_of(&world);
    let text = "60 % of the prompt tokens came from the server's prefix cache, as its metrics count";
    assert!(result["reasons"].to_string().contains(text), "{}\n{}", result["reasons"], ended.stdout);
    assert_eq!(result["server_metrics"]["servers"], json!([server.address.to_string()]));
}

/// Six requests to a server that somebody else started.
fn bench(world: &World, server: &Described) -> Ended {
    let target = format!("openai://{}", server.address);
    let model = "meta-llama/Llama-3.1-8B-Instruct";
    let words = ["bench", &target, "-m", model, "--rate", "50", "-n", "6", "--isl", "8", "--osl", "4"];
    world.regatta(&words)
}

/// The folder of the only result, also where it is INVALID and not in `latest`.
fn folder_of(world: &World) -> String {
    let files = walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten();
    let path = files.map(walkdir::DirEntry::into_path).find(|path| path.ends_with("result.json")).expect("a result");
    path.parent().unwrap().display().to_string()
}

fn result_of(world: &World) -> Value {
    serde_json::from_str(&world.read(format!("{}/result.json", folder_of(world)))).unwrap()
}

const SHAPES: [&str; 4] = ["genai-perf", "aiperf", "vllm", "perf-analyzer"];

/// Every file of every shape, by name.
fn exported(world: &World) -> Vec<(String, String)> {
    let folder = folder_of(world);
    for shape in SHAPES {
        world.good(&["export", &folder, "--as", shape, "--out", &format!("out/{shape}")]);
    }
    let files = walkdir::WalkDir::new(world.path("out")).into_iter().flatten().filter(|it| it.file_type().is_file());
    let text = |it: walkdir::DirEntry| {
        let name = it.path().strip_prefix(world.path("out")).unwrap().display().to_string();
        (name, String::from_utf8_lossy(&std::fs::read(it.path()).unwrap()).into_owned())
    };
    let mut all: Vec<_> = files.map(text).collect();
    all.sort();
    all
}

#[test]
fn an_attached_server_is_named_on_every_surface() {
    let world = World::new();
    let git = |words: &[&str]| {
        let done = std::process::Command::new("git")
            .args(["-c", "user.name=t", "-c", "user.email=t@example.invalid"])
            .args(words)
            .current_dir(world.path(""))
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    world.file("notes.txt", "one");
    git(&["init", "-q"]);
    git(&["add", "notes.txt"]);
    git(&["commit", "-qm", "one"]);
    let commit = git(&["rev-parse", "HEAD"]);
    world.file("notes.txt", "two");
    let server = vllm(Body::Json(json!({"version": "0.8.5"})));
    let ended = bench(&world, &server);
    // Beside other tests the client may be late, and says so.
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    ended.shows("vllm 0.8.5 (meta-llama/Llama-3.1-8B-Instruct)");
    assert!(!ended.stdout.contains("SIMULATED"), "{}", ended.stdout);

    let identity = &result_of(&world)["identity"];
    assert_eq!(identity["simulated"], false);
    let one = &identity["servers"][0];
    assert_eq!((&one["kind"], &one["version"]), (&json!("vllm"), &json!("0.8.5")), "{identity:#}");
    assert_eq!((&one["http_server"], &one["start_time_seconds"]), (&json!("uvicorn"), &json!(1.73e9)));
    let host = rustix_host();
    assert_eq!((&one["host"], &identity["client"]["host"]), (&json!(host), &json!(host)));
    assert_eq!(identity["regatta"], env!("CARGO_PKG_VERSION"));
    let manifest = &identity["manifest"];
    assert_eq!((&manifest["commit"], &manifest["dirty"]), (&json!(commit), &json!(true)), "{manifest:#}");
    assert_eq!(manifest["task"], "bench");
    assert_eq!(manifest["digest"].as_str().map(str::len), Some(64));
    // Nobody runs an engine or the GPUs of a server that does not say so.
    assert!(identity.get("engines").is_none(), "{identity:#}");

    let page = world.read("latest/report.html").replace("&#x2f;", "/");
    assert!(page.contains("vllm 0.8.5 (meta-llama/Llama-3.1-8B-Instruct)"), "the head of the page names the server");
    assert!(page.contains(&commit) && !page.contains("SIMULATED"));
    for (name, text) in exported(&world) {
        // A request of AIPerf's has room for its own words only.
        if !name.ends_with("aiperf/profile_export.jsonl") {
            assert!(text.contains("vllm") && text.contains("0.8.5"), "{name} does not name the server");
            let line = format!(" @ {} (", server.address);
            assert!(text.contains(&line), "{name} does not have the workload line: {line}");
        }
        assert!(!text.contains("SIMULATED"), "{name}");
    }
    // Beside itself nothing differs.
    let compared = world.regatta(&["compare", &folder_of(&world), &folder_of(&world)]);
    compared.shows("A: vllm 0.8.5").shows("B: vllm 0.8.5");
    assert!(!compared.stdout.contains("differs:"), "{}", compared.stdout);
}

fn rustix_host() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    read.trim().to_owned()
}

#[test]
fn a_server_that_changes_under_the_measurement_makes_it_invalid() {
    let world = World::new();
    let server =
        vllm(Body::OneByOne(["0.8.5", "0.8.6"].map(|version| json!({"version": version}).to_string()).to_vec()));
    let ended = bench(&world, &server);
    let result = result_of(&world);
    assert_eq!(result["verdict"], "invalid_server", "{}", ended.stdout);
    let reason = &result["reasons"][0];
    assert_eq!(reason["check"], "identity");
    let text = reason["text"].as_str().unwrap();
    assert!(text.ends_with("so the results are a mixture: version 0.8.5 / 0.8.6"), "{text}");
    assert_eq!(result["identity"]["servers"][0]["version"], "0.8.6");
}

#[test]
fn a_search_of_an_attached_server_is_made_again() {
    let world = World::new();
    let server = vllm(Body::Json(json!({"version": "0.8.5"})));
    // Lateness is held against TTFT, and arrivals against their schedule: beside half a second, and at this rate, a client that
    // other tests disturb is not late.
    server.work_ms.store(500, Ordering::SeqCst);
    world.manifest(
        "m",
        &format!(
            "stages:\n  find:\n    bench: {{ target: 'openai://{}', model: meta-llama/Llama-3.1-8B-Instruct, scenario: server, \
             search: {{ low: 10, high: 20, start: 20 }}, limits: {{ ttft_p99: 10s }}, stop: {{ requests: 5 }}, \
             input_tokens: {{ fixed: 8 }}, output_tokens: {{ fixed: 4 }} }}\n",
            server.address
        ),
    );
    let posts = || server.posts.load(Ordering::SeqCst);
    // A client that other tests disturb is found out (3); it has measured all the same.
    let has_measured = |code: i32| [0, 3].contains(&code);
    let first = world.regatta(&["run", "m"]);
    let before = posts();
    assert!(has_measured(first.code) && before >= 5, "{before} requests\n{}\n{}", first.stdout, first.stderr);
    let second = world.regatta(&["run", "m"]);
    let again = posts() - before;
    assert!(has_measured(second.code) && again >= 5, "{again} requests\n{}\n{}", second.stdout, second.stderr);
}

#[test]
fn a_server_that_was_restarted_is_reported_in_a_warning() {
    let world = World::new();
    let server = vllm(Body::Json(json!({"version": "0.8.5"})));
    server.put("/metrics", Body::OneByOne(vec![STARTED.to_owned(), STARTED.replace("1.73e+09", "1.74e+09")]));
    let ended = bench(&world, &server);
    let text = "reported different start times before and after the measurement: it was restarted, or several \
                servers answer at this address";
    // The terminal has the first reasons only, and a busy machine adds some.
    let result = result_of(&world);
    let reason = result["reasons"].as_array().unwrap().iter().find(|reason| reason["check"] == "identity").unwrap();
    assert_eq!(reason["severity"], "warning", "{reason:#}\n{}", ended.stdout);
    assert!(reason["text"].as_str().unwrap().contains(text), "{reason:#}");
    assert_eq!(result["identity"]["servers"][0]["start_time_seconds"], json!(1.74e9));
}

#[test]
fn a_simulated_result_is_loud_on_every_surface() {
    let world = World::new();
    let words = ["bench", "sim:", "--rate", "20", "-n", "20", "--input-tokens", "64", "--output-tokens", "8"];
    let ended = world.regatta(&words);
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    // The last line counts tasks.
    let has_verdict = |line: &str| line.contains("VALID") && !line.contains("not VALID");
    let verdicts: Vec<&str> =
        ended.stdout.lines().chain(ended.stderr.lines()).filter(|line| has_verdict(line)).collect();
    assert!(!verdicts.is_empty(), "{}", ended.stdout);
    for line in verdicts {
        assert!(line.contains("SIMULATED"), "a verdict without it: {line}");
    }
    let identity = &result_of(&world)["identity"];
    assert_eq!(identity["simulated"], true);
    assert_eq!(identity["servers"][0]["simulation"]["speed"], 1.0);
    assert_eq!(identity["servers"][0]["backend"], "tensorrtllm");
    let rests_on = "assumed ±35 %: assumed from the data sheet, not fitted";
    assert_eq!(identity["servers"][0]["settings"]["step_times"], rests_on);
    let engine = &identity["engines"][0];
    assert_eq!(engine["digest"].as_str().map(str::len), Some(64), "{identity:#}");
    assert!(engine["build"]["max_batch_size"].is_string() && engine["build"]["tp_size"] == "1", "{engine:#}");
    assert_eq!(identity["engines"].as_array().map(Vec::len), Some(1), "built by the run and named by its server: one");

    let page = world.read("latest/report.html");
    assert!(page.contains("<title>") && page.split("</title>").next().unwrap().contains("SIMULATED"));
    assert!(page.contains("SIMULATED, no GPU: regatta-simulator") && page.contains(rests_on));
    world.regatta(&["status"]).shows("SIMULATED");
    for (name, text) in exported(&world) {
        let is_marked = text.contains("SIMULATED") || text.contains("\"simulated\":true");
        assert!(is_marked, "{name} does not say that it is simulated");
    }
}

/// A gateway that passes on the list of models, and nothing else of the server.
#[test]
fn a_simulator_behind_a_gateway_is_as_loud() {
    for (speed, expected) in [(None, 1.0), (Some(20.0), 20.0)] {
        let model = "meta-llama/Llama-3.1-8B-Instruct";
        let mut card = json!({"id": model, "object": "model", "owned_by": "regatta-simulator"});
        if let Some(speed) = speed {
            card["speed"] = json!(speed);
            card["step_times"] = json!("fitted ±15 %: fitted to rows");
        }
        let server = Described::start(&[("/v1/models", Body::Json(json!({"object": "list", "data": [card]})))]);
        let world = World::new();
        let ended = bench(&world, &server);
        ended.shows("SIMULATED");
        let identity = &result_of(&world)["identity"];
        assert_eq!(identity["simulated"], true);
        assert_eq!(identity["servers"][0]["simulation"]["speed"], expected);
        let rests_on = speed.map_or(Value::Null, |_| "fitted ±15 %: fitted to rows".into());
        assert_eq!(identity["servers"][0]["settings"]["step_times"], rests_on);
        assert!(world.read("latest/report.html").contains("SIMULATED, no GPU: regatta-simulator"));
        assert_eq!(ended.stdout.contains("speed: the simulator runs at speed 20"), expected > 1.0, "{}", ended.stdout);
    }
}

#[test]
fn figures_of_a_simulator_that_does_not_run_with_the_clock_are_refused() {
    let files = Files::new(true, &json!({}));
    let server = Running::start(SimOptions { speed: 20.0, ..files.options() });
    let world = World::new();
    let target = server.address.to_string();
    let words = ["bench", &target, "--offline", "-n", "10", "--isl", "16", "--osl", "4"];
    let ended = world.regatta(&words);
    assert_ne!(ended.code, 0);
    ended.shows("speed: the simulator runs at speed 20").shows("SIMULATED");
    let result = result_of(&world);
    assert!(result["reasons"].as_array().unwrap().iter().any(|it| it["check"] == "speed"), "{result:#}");
    assert!(result["verdict"].as_str().unwrap().starts_with("invalid"), "{}", result["verdict"]);
    assert_eq!(result["identity"]["servers"][0]["simulation"]["speed"], 20.0);
}
