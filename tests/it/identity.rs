//! What servers report about themselves, as servers of the field report it.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use pretty_assertions::assert_eq;
use regatta::event::Endpoint;
use regatta::harness::{Api, Http, Protocol, ServerIdentity, ask_identity};
use regatta::sim::SimOptions;
use serde_json::{Value, json};

use crate::openai::script::good;
use crate::simulator::ground::{Files, Running};

/// What a `GET` is answered with.
#[derive(Clone)]
pub enum Body {
    Json(Value),
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
    pub asked: Arc<Mutex<Vec<String>>>,
    /// Bytes of endless bodies that were taken from it.
    pub sent: Arc<AtomicU64>,
    /// Path → answer. May be changed while it serves.
    pub answers: Arc<Mutex<Vec<(String, Body)>>>,
}

impl Described {
    pub fn start(answers: &[(&str, Body)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answers = answers.iter().map(|(path, body)| ((*path).to_owned(), body.clone())).collect();
        let server =
            Self { address, asked: Arc::default(), sent: Arc::default(), answers: Arc::new(Mutex::new(answers)) };
        let (asked, sent, answers) = (Arc::clone(&server.asked), Arc::clone(&server.sent), Arc::clone(&server.answers));
        // The threads end with their connections, and those with the test.
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                socket.set_nodelay(true).unwrap();
                let (asked, sent, answers) = (Arc::clone(&asked), Arc::clone(&sent), Arc::clone(&answers));
                thread::spawn(move || converse(socket, &asked, &sent, &answers));
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
        ask_identity(&self.endpoint(), &openai(), model).await
    }
}

fn converse(
    mut socket: std::net::TcpStream,
    asked: &Mutex<Vec<String>>,
    sent: &AtomicU64,
    answers: &Mutex<Vec<(String, Body)>>,
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let request = crate::openai::script::next(&mut socket, &mut bytes)?;
        let Some(rest) = request.strip_prefix("GET ") else {
            socket.write_all(good().as_bytes()).ok()?;
            continue;
        };
        let path = rest.split(' ').next().unwrap_or_default().to_owned();
        asked.lock().unwrap().push(request.clone());
        let body = answers.lock().unwrap().iter().find(|(known, _)| *known == path).map(|(_, body)| body.clone());
        let (head, text) = match body {
            None => ("HTTP/1.1 404 Not Found", String::new()),
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

fn openai() -> Protocol {
    Protocol::Http(Http::new(Api::OpenaiChat))
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
    let gone = ask_identity(&"127.0.0.1:9".parse().unwrap(), &openai(), "m").await;
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
    let over_http = |api| (http.to_string().parse::<Endpoint>().unwrap(), Protocol::Http(Http::new(api)));
    let kserve = ask_identity(&grpc, &Protocol::Kserve, "tensorrt_llm").await;
    for (endpoint, protocol) in [over_http(Api::Generate), over_http(Api::OpenaiCompletions)] {
        let one = ask_identity(&endpoint, &protocol, "tensorrt_llm").await;
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
    let ensemble = ask_identity(&grpc, &Protocol::Kserve, "ensemble").await;
    assert_eq!(ensemble.backend.as_deref(), Some("ensemble"));
    assert_eq!(ensemble.engine_path, kserve.engine_path);
    assert_ne!(ensemble.metadata_digest, kserve.metadata_digest);
}
