//! A Hugging Face hub of one repository, on loopback: its index with digests, its files with ranges, and its bad days.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

pub const COMMIT: &str = "c0ffeec0ffeec0ffeec0ffeec0ffeec0ffeec0ff";

/// What befalls the next answers for a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trick {
    /// The connection is closed after so many bytes; once.
    CutAt(usize),
    /// Nothing more comes after so many bytes, until the client goes; once.
    StallAt(usize),
    /// One bit is wrong.
    Flip { times: u32 },
}

#[derive(Default)]
struct State {
    /// Name → bytes, and whether it is kept in large-file storage.
    files: BTreeMap<String, (Vec<u8>, bool)>,
    tricks: BTreeMap<String, Trick>,
    requests: Vec<String>,
    tokens: Vec<String>,
    sent: Vec<String>,
    has_stalled: bool,
    /// Status, code, message.
    refusal: Option<(u16, String, String)>,
}

/// It serves as long as the test lives.
pub struct Hub {
    url: String,
    state: Arc<Mutex<State>>,
}

impl Hub {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let _ = serve(stream, &shared);
                });
            }
        });
        Self { url, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn file(&self, name: &str, bytes: &[u8], is_large: bool) {
        self.state().files.insert(name.to_owned(), (bytes.to_vec(), is_large));
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.state().files[name].0.clone()
    }

    pub fn play(&self, name: &str, trick: Trick) {
        self.state().tricks.insert(name.to_owned(), trick);
    }

    pub fn refuse(&self, status: u16, code: &str, message: &str) {
        self.state().refusal = Some((status, code.to_owned(), message.to_owned()));
    }

    /// `GET index`, `GET <file>`, `GET <file> from <offset>`; in order.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// The bearer of each request.
    pub fn tokens(&self) -> Vec<String> {
        self.state().tokens.clone()
    }

    pub fn has_stalled(&self) -> bool {
        self.state().has_stalled
    }

    /// Whether a file has gone out whole.
    pub fn sent(&self, name: &str) -> bool {
        self.state().sent.iter().any(|sent| sent == name)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, request after request.
fn serve(stream: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let (mut from, mut token) = (0, String::new());
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
                break;
            }
            let (name, value) = header.trim().split_once(": ").unwrap_or_default();
            match name.to_lowercase().as_str() {
                "range" => from = value.trim_start_matches("bytes=").trim_end_matches('-').parse().unwrap_or(0),
                "authorization" => value.trim_start_matches("Bearer ").clone_into(&mut token),
                _ => {}
            }
        }
        lock(state).tokens.push(token);
        if !answer(&mut stream, state, &path, from)? {
            return Ok(());
        }
    }
}

/// False ends the connection.
fn answer(stream: &mut TcpStream, state: &Mutex<State>, path: &str, from: usize) -> std::io::Result<bool> {
    if let Some((status, code, message)) = lock(state).refusal.clone() {
        write!(
            stream,
            "HTTP/1.1 {status} No\r\nx-error-code: {code}\r\nx-error-message: {message}\r\ncontent-length: 0\r\n\r\n"
        )?;
        return Ok(true);
    }
    if path.starts_with("/api/models/owner/model/revision/") && path.ends_with("?blobs=true") {
        lock(state).requests.push("GET index".to_owned());
        let body = index(&lock(state).files).to_string();
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        return Ok(true);
    }
    let name = path.trim_start_matches(&format!("/owner/model/resolve/{COMMIT}/")).to_owned();
    let Some((bytes, _)) = lock(state).files.get(&name).cloned() else {
        write!(stream, "HTTP/1.1 404 No\r\nx-error-code: EntryNotFound\r\ncontent-length: 0\r\n\r\n")?;
        return Ok(true);
    };
    let shown = if from > 0 { format!("GET {name} from {from}") } else { format!("GET {name}") };
    lock(state).requests.push(shown);
    let mut rest = bytes.get(from..).unwrap_or_default().to_vec();
    let trick = lock(state).tricks.remove(&name);
    if let Some(Trick::Flip { times }) = trick {
        if let Some(last) = rest.last_mut() {
            *last ^= 1;
        }
        if times > 1 {
            lock(state).tricks.insert(name.clone(), Trick::Flip { times: times - 1 });
        }
    }
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {}\r\n", rest.len())?;
    if from > 0 {
        write!(stream, "content-range: bytes {from}-{}/{}\r\n", bytes.len() - 1, bytes.len())?;
    }
    write!(stream, "\r\n")?;
    match trick {
        Some(Trick::CutAt(at)) => {
            stream.write_all(&rest[..at])?;
            return Ok(false);
        }
        Some(Trick::StallAt(at)) => {
            stream.write_all(&rest[..at])?;
            stream.flush()?;
            lock(state).has_stalled = true;
            // Until the client has gone.
            let _ = stream.read(&mut [0]);
            return Ok(false);
        }
        _ => stream.write_all(&rest)?,
    }
    lock(state).sent.push(name);
    Ok(true)
}

fn index(files: &BTreeMap<String, (Vec<u8>, bool)>) -> serde_json::Value {
    let siblings: Vec<_> = files
        .iter()
        .map(|(name, (bytes, is_large))| {
            let mut git = Sha1::new();
            git.update(format!("blob {}\0", bytes.len()));
            git.update(bytes);
            let mut sibling =
                json!({"rfilename": name, "size": bytes.len(), "blobId": format!("{:x}", git.finalize())});
            if *is_large {
                sibling["lfs"] =
                    json!({"sha256": format!("{:x}", Sha256::digest(bytes)), "size": bytes.len(), "pointerSize": 134});
            }
            sibling
        })
        .collect();
    json!({"id": "owner/model", "sha": COMMIT, "siblings": siblings})
}
