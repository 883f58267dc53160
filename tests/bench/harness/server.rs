//! A server in a process of its own, and what it says of what it did.
//!
//! The server's words: the port, in a line, when it listens. Asked `truths`, it answers with a line for each request
//! since it was asked last, and an empty line. Its end is the end of its input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use regatta::sim::{GroundTruthServer, ResponsePattern, ResponseScript};
use rustix::time::{ClockId, clock_gettime};

use crate::Outcome;

/// What happened to a request, as the server saw it; ns of the machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    pub id: u64,
    pub came: i128,
    /// The last token was handed to the socket.
    pub last: i128,
    pub tokens: u64,
}

pub struct Server {
    pub address: SocketAddr,
    child: Child,
    input: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Server {
    /// All tokens at once, so many.
    pub fn at_once(tokens: u32) -> std::io::Result<Self> {
        Self::start(&["at-once".to_owned(), tokens.to_string()])
    }

    /// The first token after so many ms, each other as long after the one before it.
    pub fn paced(first_ms: f64, gap_ms: f64) -> std::io::Result<Self> {
        Self::start(&["paced".to_owned(), first_ms.to_string(), gap_ms.to_string()])
    }

    /// OpenAI's completions, streamed: so many tokens, with a gap a write each, without one all at once.
    pub fn sse(tokens: u32, gap_ms: u64) -> std::io::Result<Self> {
        Self::start(&["sse".to_owned(), tokens.to_string(), gap_ms.to_string()])
    }

    fn start(manner: &[String]) -> std::io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .args(manner)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| std::io::Error::other("the server has no output"))?;
        let mut answers = BufReader::new(answers);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let port: u16 = line.trim().parse().map_err(|_| std::io::Error::other("the server named no port"))?;
        Ok(Self { address: ([127, 0, 0, 1], port).into(), child, input, answers })
    }

    /// What it did since it was asked last, in the order of arrival.
    pub fn truths(&mut self) -> std::io::Result<Vec<Truth>> {
        if let Some(input) = &mut self.input {
            writeln!(input, "truths")?;
        }
        let mut truths = Vec::new();
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line)?;
            let numbers: Vec<i128> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            let [id, came, last, tokens] = numbers[..] else { break };
            truths.push(Truth { id: id as u64, came, last, tokens: tokens as u64 });
        }
        truths.sort_by_key(|truth| truth.came);
        Ok(truths)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.input = None;
        let _ = self.child.wait();
    }
}

/// On the monotonic clock, which all processes of a machine share.
pub fn monotonic(instant: Instant) -> i128 {
    let (now, time) = (Instant::now(), clock_gettime(ClockId::Monotonic));
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec);
    ns + instant.saturating_duration_since(now).as_nanos() as i128
        - now.saturating_duration_since(instant).as_nanos() as i128
}

/// Of the other process.
pub fn serve(manner: &[String]) -> Outcome {
    let number = |at: usize| manner.get(at).and_then(|word| word.parse::<f64>().ok()).unwrap_or_default();
    if manner.first().is_some_and(|first| first == "sse") {
        return crate::sse::serve(number(1) as usize, Duration::from_millis(number(2) as u64));
    }
    let pattern = match manner.first().map(String::as_str) {
        Some("paced") => {
            let even = |ms| (ms, ms);
            ResponsePattern::Scripted(ResponseScript { seed: 0, first_ms: even(number(1)), gap_ms: even(number(2)) })
        }
        _ => ResponsePattern::AtOnce { tokens: number(1) as u32 },
    };
    let proof = GroundTruthServer::start(pattern)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", proof.address.port())?;
    out.flush()?;
    for line in std::io::stdin().lines() {
        line?;
        for truth in proof.ground_truths() {
            let last = truth.wrote.last().copied().unwrap_or(truth.came);
            writeln!(out, "{} {} {} {}", truth.id, monotonic(truth.came), monotonic(last), truth.wrote.len())?;
        }
        proof.clear();
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}
