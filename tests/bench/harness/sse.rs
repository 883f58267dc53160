//! An OpenAI server that streams ready-made answers, in a process of its own, and what a client costs that drops them unread.

use std::cell::Cell;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{JoinSet, LocalSet};

use crate::Outcome;
use crate::floor::thread_cpu;
use crate::server::{Server, monotonic};

type Failed = Box<dyn std::error::Error>;

const MODEL: &str = "null";
const END: &[u8] = b"0\r\n\r\n";

/// Answers with so many tokens, each in an event and a chunk of its own. With a gap each is a write of its own, so long after the
/// one before it; without, all are one write.
pub fn serve(tokens: usize, gap: Duration) -> Outcome {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let came: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let stamps = Arc::clone(&came);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let stamps = Arc::clone(&stamps);
            std::thread::spawn(move || converse(&client, tokens, gap, &stamps));
        }
    });
    for line in std::io::stdin().lines() {
        line?;
        // Requests have no number over HTTP, and what was written is not kept.
        for at in std::mem::take(&mut *came.lock().unwrap_or_else(PoisonError::into_inner)) {
            let at = monotonic(at);
            println!("0 {at} {at} {tokens}");
        }
        println!();
    }
    Ok(())
}

fn converse(client: &TcpStream, tokens: usize, gap: Duration, came: &Mutex<Vec<Instant>>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let head = b"HTTP/1.1 200 OK\r\ndate: Wed, 25 Nov 2026 04:00:00 GMT\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    let whole: Vec<u8> = [&head[..], &event(tokens, false).repeat(tokens - 1), &event(tokens, true), END].concat();
    let mut from = BufReader::new(client);
    let mut to = client;
    loop {
        let (mut length, mut is_query, mut line) = (0, false, String::new());
        loop {
            line.clear();
            if from.read_line(&mut line)? == 0 {
                return Ok(());
            }
            is_query |= line.starts_with("GET ");
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
            if line == "\r\n" {
                break;
            }
        }
        std::io::copy(&mut (&mut from).take(length), &mut std::io::sink())?;
        if is_query {
            let body = format!("{{\"object\":\"list\",\"data\":[{{\"id\":\"{MODEL}\",\"object\":\"model\"}}]}}");
            write!(to, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())?;
            continue;
        }
        came.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        if gap.is_zero() {
            to.write_all(&whole)?;
        } else {
            to.write_all(head)?;
            for at in 1..=tokens {
                std::thread::sleep(gap);
                to.write_all(&event(tokens, at == tokens))?;
            }
            to.write_all(END)?;
        }
    }
}

/// As vLLM writes them, in a chunk; the last one with all that follows it.
fn event(tokens: usize, is_last: bool) -> Vec<u8> {
    let common = format!(
        "\"id\":\"cmpl-4f1d6a1c9f0e4d6b8a7c\",\"object\":\"text_completion\",\"created\":1764043200,\"model\":\"{MODEL}\""
    );
    let finish = if is_last { "\"length\"" } else { "null" };
    let token = format!(
        "data: {{{common},\"choices\":[{{\"index\":0,\"text\":\" token\",\"logprobs\":null,\"finish_reason\":{finish},\"stop_reason\":null}}],\"usage\":null}}\n\n"
    );
    let text = if is_last {
        let usage = format!("{{\"prompt_tokens\":32,\"total_tokens\":{},\"completion_tokens\":{tokens}}}", tokens + 32);
        format!("{token}data: {{{common},\"choices\":[],\"usage\":{usage}}}\n\ndata: [DONE]\n\n")
    } else {
        token
    };
    format!("{:x}\r\n{text}\r\n", text.len()).into_bytes()
}

/// So many users, each with a connection and its next request when its last one has ended, until so many of so many bytes were
/// sent. CPU of this thread per 1,000 tokens, ms.
pub fn floor(server: &Server, users: u64, requests: u64, bytes: usize, tokens: u64) -> Result<f64, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address = server.address;
    LocalSet::new().block_on(&runtime, async {
        let left = Rc::new(Cell::new(requests));
        let before = thread_cpu();
        let mut all = JoinSet::new();
        for _ in 0..users {
            let left = Rc::clone(&left);
            all.spawn_local(async move {
                let mut socket = tokio::net::TcpStream::connect(address).await?;
                socket.set_nodelay(true)?;
                let head =
                    format!("POST /v1/completions HTTP/1.1\r\nHost: {address}\r\nContent-Length: {bytes}\r\n\r\n");
                let request = [head.as_bytes(), &vec![b' '; bytes]].concat();
                let mut buffer = vec![0; 64 << 10];
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    socket.write_all(&request).await?;
                    loop {
                        // The end of an answer is five bytes of one write: they come together.
                        match socket.read(&mut buffer).await? {
                            0 => return Err(std::io::Error::other("the server closed the connection")),
                            length if buffer[..length].ends_with(END) => break,
                            _ => {}
                        }
                    }
                }
                Ok(())
            });
        }
        while let Some(ended) = all.join_next().await {
            ended??;
        }
        Ok(thread_cpu().saturating_sub(before).as_secs_f64() * 1e6 / (requests * tokens) as f64)
    })
}
