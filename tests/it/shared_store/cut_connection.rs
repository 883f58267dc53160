//! A line to a server that can be cut, or go silent, after so many bytes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// What becomes of the line once its bytes have passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Whole,
    /// Connections are closed, and new ones, too.
    Cut,
    /// Nothing passes any more; connections stay.
    Silent,
}

#[derive(Debug)]
struct Rule {
    then: Then,
    left: u64,
    happened: bool,
}

#[derive(Debug)]
struct State {
    rule: Mutex<Rule>,
    changed: Condvar,
    connections: AtomicU64,
    /// Towards the client, and from it.
    down: AtomicU64,
    up: AtomicU64,
}

pub struct CuttableConnection {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl CuttableConnection {
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State {
            rule: Mutex::new(Rule { then: Then::Whole, left: u64::MAX, happened: false }),
            changed: Condvar::new(),
            connections: AtomicU64::new(0),
            down: AtomicU64::new(0),
            up: AtomicU64::new(0),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                shared.connections.fetch_add(1, Ordering::SeqCst);
                // Of a line that is cut nothing is heard.
                if shared.is_cut() {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                for (from, to, is_down) in [(&client, &server, false), (&server, &client, true)] {
                    let (from, to) = (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"));
                    let shared = Arc::clone(&shared);
                    std::thread::spawn(move || carry(from, to, &shared, is_down));
                }
            }
        });
        Self { address, state }
    }

    /// So many more bytes pass, both ways together; then the line is cut.
    pub fn cut_after(&self, bytes: u64) {
        self.state.rule(Then::Cut, bytes);
    }

    /// So many more bytes pass; then nothing is heard any more.
    pub fn silent_after(&self, bytes: u64) {
        self.state.rule(Then::Silent, bytes);
    }

    pub fn heal(&self) {
        self.state.rule(Then::Whole, u64::MAX);
    }

    /// The bytes have passed.
    pub fn has_happened(&self) -> bool {
        self.state.lock().happened
    }

    pub fn connections(&self) -> u64 {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Bytes that came to the client.
    pub fn down(&self) -> u64 {
        self.state.down.load(Ordering::SeqCst)
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Rule> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rule(&self, then: Then, left: u64) {
        *self.lock() = Rule { then, left, happened: false };
        self.changed.notify_all();
    }

    fn is_cut(&self) -> bool {
        let rule = self.lock();
        rule.happened && rule.then == Then::Cut
    }

    /// How many of these bytes may pass now; waits while the line is silent.
    fn allow(&self, bytes: usize) -> Option<usize> {
        let mut rule = self.lock();
        loop {
            if rule.then == Then::Whole {
                return Some(bytes);
            }
            let passing = bytes.min(usize::try_from(rule.left).unwrap_or(usize::MAX));
            rule.left -= passing as u64;
            if passing > 0 {
                return Some(passing);
            }
            rule.happened = true;
            if rule.then == Then::Cut {
                return None;
            }
            rule = self.changed.wait(rule).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, state: &State, is_down: bool) {
    let mut buffer = vec![0; 64 << 10];
    'line: while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut rest = &buffer[..n];
        while !rest.is_empty() {
            let Some(passing) = state.allow(rest.len()) else { break 'line };
            if to.write_all(&rest[..passing]).is_err() {
                break 'line;
            }
            let count = if is_down { &state.down } else { &state.up };
            count.fetch_add(passing as u64, Ordering::SeqCst);
            rest = &rest[passing..];
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
