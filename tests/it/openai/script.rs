//! An HTTP server that writes what a script says, byte for byte: the other side of the tests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What to do with one request, one after the other.
#[derive(Clone, Debug)]
pub enum Do {
    /// In one write.
    Send(String),
    /// The same, of what need not be text.
    Bytes(Vec<u8>),
    /// Over and over again, until the other side hangs up.
    Flood(String),
    /// The same, with a pause after each.
    Drip(String, Duration),
    Wait(Duration),
    /// Says nothing more and keeps the connection.
    Hang,
    Close,
}

/// The answer to a request of this number, from 0. `GET`s are answered with 404 and not counted.
type Script = dyn Fn(u64) -> Vec<Do> + Send + Sync;

pub struct Scripted {
    pub address: SocketAddr,
    /// Heads and bodies as they came.
    pub requests: Arc<Mutex<Vec<String>>>,
    /// Bytes of floods that were taken.
    pub flooded: Arc<AtomicU64>,
    open: Arc<Mutex<Vec<TcpStream>>>,
    /// What a `GET` is answered with, in place of 404.
    models: Arc<Mutex<Option<String>>>,
}

impl Scripted {
    pub fn start(script: impl Fn(u64) -> Vec<Do> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let open = Arc::<Mutex<Vec<TcpStream>>>::default();
        let (kept, recorded) = (Arc::clone(&open), Arc::clone(&requests));
        let flooded = Arc::<AtomicU64>::default();
        let taken = Arc::clone(&flooded);
        let models = Arc::<Mutex<Option<String>>>::default();
        let listed = Arc::clone(&models);
        let script: Arc<Script> = Arc::new(script);
        let number = Arc::new(AtomicU64::new(0));
        // The threads end with their connections, and those with the server or the test.
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                socket.set_nodelay(true).unwrap();
                kept.lock().unwrap().push(socket.try_clone().unwrap());
                let (recorded, script, number) = (Arc::clone(&recorded), Arc::clone(&script), Arc::clone(&number));
                let (taken, listed) = (Arc::clone(&taken), Arc::clone(&listed));
                let kept = socket.try_clone().unwrap();
                thread::spawn(move || {
                    converse(socket, &recorded, &*script, &number, (&taken, &listed));
                    let _ = kept.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        Self { address, requests, flooded, open, models }
    }

    /// With this answer to every `GET`.
    pub fn with_models(self, answer: &str) -> Self {
        *self.models.lock().unwrap() = Some(answer.to_owned());
        self
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        for socket in self.open.lock().unwrap().drain(..) {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Ends with the connection.
fn converse(
    mut socket: TcpStream,
    recorded: &Mutex<Vec<String>>,
    script: &Script,
    number: &AtomicU64,
    (flooded, models): (&AtomicU64, &Mutex<Option<String>>),
) -> Option<()> {
    let mut bytes = Vec::new();
    loop {
        let request = next(&mut socket, &mut bytes)?;
        if request.starts_with("GET ") {
            let listed = models.lock().unwrap().clone();
            let answer = listed.unwrap_or_else(|| "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned());
            socket.write_all(answer.as_bytes()).ok()?;
            continue;
        }
        recorded.lock().unwrap().push(request);
        for step in script(number.fetch_add(1, Ordering::SeqCst)) {
            match step {
                Do::Send(text) => socket.write_all(text.as_bytes()).ok()?,
                Do::Bytes(bytes) => socket.write_all(&bytes).ok()?,
                Do::Flood(text) => loop {
                    if socket.write_all(text.as_bytes()).is_err() {
                        return None;
                    }
                    flooded.fetch_add(text.len() as u64, Ordering::SeqCst);
                },
                Do::Drip(text, pause) => loop {
                    socket.write_all(text.as_bytes()).ok()?;
                    thread::sleep(pause);
                },
                Do::Wait(time) => thread::sleep(time),
                Do::Hang => {
                    // Until the other side or the test's end closes it.
                    let _ = socket.read(&mut [0; 1]);
                    return None;
                }
                Do::Close => return socket.shutdown(std::net::Shutdown::Both).ok().and(None),
            }
        }
    }
}

/// One whole request.
pub fn next(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<String> {
    loop {
        let text = String::from_utf8_lossy(bytes).into_owned();
        if let Some(head) = text.find("\r\n\r\n") {
            let length = text[..head]
                .lines()
                .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
                .unwrap_or(0);
            let whole = head + 4 + length;
            if bytes.len() >= whole {
                bytes.drain(..whole);
                return Some(text[..whole].to_owned());
            }
        }
        let mut piece = [0; 4096];
        let length = socket.read(&mut piece).ok().filter(|length| *length > 0)?;
        bytes.extend_from_slice(&piece[..length]);
    }
}

pub const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
/// The end of a chunked body.
pub const END: &str = "0\r\n\r\n";

/// One chunk of a chunked body.
pub fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

pub fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
}

pub fn role() -> String {
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n".to_owned()
}

pub fn usage(tokens: u64) -> String {
    format!("data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":8,\"completion_tokens\":{tokens}}}}}\n\n")
}

pub const DONE: &str = "data: [DONE]\n\n";

/// A whole good answer of four tokens.
pub fn good() -> String {
    let events = [role(), token("a"), token("b"), token("c"), token("d"), usage(4), DONE.to_owned()];
    [HEAD.to_owned(), events.iter().map(|event| chunk(event)).collect(), END.to_owned()].concat()
}
