//! What servers report of themselves, over HTTP: each answer is that of a server on this machine that knows nothing else.

use std::cell::LazyCell;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use regatta::event::Endpoint;
use regatta::harness::{Api, Http, ServerIdentity, Transport, changes_of_servers, gpu, query_identity};
use regatta::spec::RequestHeaders;
use regatta::triton::{Exposition, HttpAddress, HttpClient, Scraper, summarize};
use serde_json::json;

use super::{block_on, choose, parts};

/// Answers every request, on a connection of its own.
struct AnsweringServer {
    port: u16,
    answers: Arc<Mutex<Answers>>,
}

/// One after the other; the last one again and again.
#[derive(Default)]
struct Answers {
    all: Vec<Vec<u8>>,
    given: usize,
}

impl Answers {
    fn next(&mut self) -> Vec<u8> {
        let answer = self.all.get(self.given).or(self.all.last()).cloned().unwrap_or_default();
        self.given += 1;
        answer
    }
}

thread_local! {
    static SERVER: LazyCell<AnsweringServer> = LazyCell::new(AnsweringServer::start);
}

impl AnsweringServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let answers = Arc::<Mutex<Answers>>::default();
        let of_thread = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that has gone is none of the server's concern.
                let _ = answer(stream, &of_thread);
            }
        });
        Self { port, answers }
    }

    fn address(&self) -> HttpAddress {
        HttpAddress { host: "127.0.0.1".to_owned(), port: self.port }
    }
}

fn lock(answers: &Mutex<Answers>) -> MutexGuard<'_, Answers> {
    answers.lock().expect("it is not poisoned")
}

/// Reads a request to its end, so that closing the connection does not cut the answer off.
fn answer(mut stream: TcpStream, answers: &Mutex<Answers>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    let (mut request, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece)?;
        request.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&request).to_lowercase();
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let given = head.split_once("content-length: ").and_then(|(_, rest)| rest.lines().next()?.parse().ok());
            body.len() >= given.unwrap_or(0)
        });
        if length == 0 || whole {
            break;
        }
    }
    let body = lock(answers).next();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), &body].concat())
}

/// Does something with a server that gives these answers.
fn with_answers<T>(all: Vec<Vec<u8>>, what: impl FnOnce(HttpAddress) -> T) -> T {
    SERVER.with(|server| {
        *lock(&server.answers) = Answers { all, given: 0 };
        what(server.address())
    })
}

/// The first byte decides what is requested of the server, and over which interface; its answers are separated by bytes that are 0.
pub fn server_reports(data: &[u8]) {
    const APIS: [Api; 3] = [Api::OpenaiChat, Api::OpenaiCompletions, Api::Generate];
    let (choice, data) = choose(data);
    let answers = parts(data).map(<[u8]>::to_vec).collect();
    with_answers(answers, |address| {
        block_on(async {
            match APIS.get(choice % (APIS.len() + 2)) {
                Some(api) => identify(*api, &address).await,
                None if choice % 2 == 1 => report(address).await,
                None => stream(address).await,
            }
        });
    });
}

async fn identify(api: Api, address: &HttpAddress) {
    let port = address.port;
    let endpoint =
        Endpoint { host: address.host.clone(), grpc: port, http: Some(port), metrics: Some(port), name: None };
    let found = query_identity(&endpoint, &Transport::Http(Http::new(api)), &RequestHeaders::default(), "m").await;
    let text = serde_json::to_string(&found).expect("JSON");
    assert_eq!(serde_json::from_str::<ServerIdentity>(&text).expect("its own JSON"), found);
    let before = [found.clone(), ServerIdentity::default()];
    let _ = changes_of_servers(&before, &[ServerIdentity::default(), found.clone()]);
    let _ = changes_of_servers(&before, &[found]);
}

async fn report(address: HttpAddress) {
    let mut client = HttpClient::new(address);
    let _ = client.is_ready().await;
    let _ = client.server_metadata().await;
    let _ = client.model_metadata("m", "").await;
    let _ = client.model_config("m", "1").await;
    let _ = client.repository_index().await;
    let _ = client.infer("m", &json!({})).await;
    let _ = client.generate("m", &json!({})).await;
}

async fn stream(address: HttpAddress) {
    let Ok(mut events) = HttpClient::new(address).generate_stream("m", &json!({})).await else { return };
    while events.next().await.is_some() {}
}

/// `/metrics`, of several polls with bytes that are 0 between them.
pub fn server_metrics(data: &[u8]) {
    let mut readable = false;
    for part in parts(data) {
        let Ok(exposition) = Exposition::parse(&String::from_utf8_lossy(part)) else { continue };
        readable = true;
        let _ = serde_json::to_string(&exposition).expect("JSON");
        for (_, sample) in exposition.samples() {
            let again = Exposition::parse(&format!("{} 1\n", sample.key())).expect("its own key");
            let again = again.samples().next().expect("a sample").1.clone();
            assert_eq!((&again.name, &again.labels), (&sample.name, &sample.labels), "{}", sample.key());
        }
    }
    if readable {
        poll(parts(data).map(<[u8]>::to_vec).collect());
    }
}

fn poll(answers: Vec<Vec<u8>>) {
    let (scrape, begun) = with_answers(answers, |address| {
        let begun = Instant::now();
        let scraper = Scraper::start([address.clone(), address].map(HttpClient::new).into(), Duration::from_mins(1))
            .expect("a thread");
        (block_on(scraper.finish()), begun)
    });
    for zero in [begun, Instant::now()] {
        let summary = summarize(&scrape, zero, Duration::from_secs(1));
        let _ = serde_json::to_string(&summary).expect("JSON");
        let _ = gpu::summarize(
            &gpu::served(&scrape, zero),
            gpu::GpusUsage { window_s: 1.0, ..Default::default() },
            None,
            "",
        );
        assert_eq!(scrape.lines(zero).count(), scrape.ticks.len());
    }
}
