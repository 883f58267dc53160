//! What comes out of the load generator's sockets, and when: a relay in front of a server that stamps every request. The
//! server's own stamps are later by its work on the requests before; at thousands of requests per second that is most of
//! what they show.

use std::io::Write as _;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::server::monotonic;

/// Cores below which a relay that never sleeps would take one that something else needs.
const CORES_TO_SPIN: usize = 8;
/// What an HTTP/2 client sends first.
const PREFACE: usize = 24;

pub struct Tap {
    pub address: SocketAddr,
    came: Arc<Mutex<Vec<Instant>>>,
}

impl Tap {
    /// Its threads end with the connections that they relay.
    pub fn before(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let came: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let stamps = Arc::clone(&came);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else { return };
                let stamps = Arc::clone(&stamps);
                let (Ok(mut from), Ok(mut to)) = (server.try_clone(), client.try_clone()) else { return };
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || {
                    let _ = relay(&client, &server, &stamps);
                    let _ = server.shutdown(Shutdown::Both);
                });
            }
        });
        Ok(Self { address, came })
    }

    pub fn spins() -> bool {
        std::thread::available_parallelism().is_ok_and(|cores| cores.get() >= CORES_TO_SPIN)
    }

    /// When requests were there as a whole, since it was called last, in order; ns on the monotonic clock.
    pub fn came(&self) -> Vec<i128> {
        let mut came = std::mem::take(&mut *self.came.lock().unwrap_or_else(PoisonError::into_inner));
        came.sort_unstable();
        came.into_iter().map(monotonic).collect()
    }
}

fn relay(client: &TcpStream, mut server: &TcpStream, stamps: &Mutex<Vec<Instant>>) -> std::io::Result<()> {
    // Of this read alone: the socket itself is shared with the thread that writes the answers to it.
    let flags = if Tap::spins() { RecvFlags::DONTWAIT } else { RecvFlags::empty() };
    let mut frames = Frames { skip: PREFACE, ..Frames::default() };
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match recv(client, &mut buffer[..], flags) {
            Ok((0, _)) => return Ok(()),
            Ok((length, _)) => length,
            Err(Errno::AGAIN) => {
                std::hint::spin_loop();
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let now = Instant::now();
        let requests = frames.ended(&buffer[..length]);
        stamps.lock().unwrap_or_else(PoisonError::into_inner).extend(std::iter::repeat_n(now, requests));
        server.write_all(&buffer[..length])?;
    }
}

/// Where HTTP/2 frames begin and end.
#[derive(Default)]
struct Frames {
    /// Bytes until the next frame.
    skip: usize,
    head: Vec<u8>,
    /// The frame that is skipped ends a request.
    ends: bool,
}

impl Frames {
    /// How many frames that end a request are whole with these bytes.
    fn ended(&mut self, mut bytes: &[u8]) -> usize {
        const HEAD: usize = 9;
        let mut ended = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if self.skip > 0 {
                return ended;
            }
            ended += usize::from(std::mem::take(&mut self.ends));
            let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
            self.head.extend_from_slice(head);
            bytes = rest;
            let Ok([a, b, c, kind, flags, ..]) = <[u8; HEAD]>::try_from(self.head.as_slice()) else { return ended };
            self.head.clear();
            self.skip = u32::from_be_bytes([0, a, b, c]) as usize;
            // DATA or HEADERS with END_STREAM.
            self.ends = kind < 2 && flags & 1 == 1;
        }
    }
}
