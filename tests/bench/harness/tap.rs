//! What comes out of the load generator's sockets, and when: a relay in front of a server for which the kernel stamps every
//! request as it reaches the relay's socket. The server's stamps are later by its work on the requests before; at thousands
//! of requests per second that is most of what they show.
//!
//! One read has one stamp, that of its last bytes: requests that wait for the relay together are stamped together. Where
//! cores are free for it the relay therefore never sleeps: it reads again and again, and another thread passes on what it
//! read. Where they are not, it groups the requests of each wake-up, and the table names it.

use std::io::{IoSliceMut, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use rustix::time::{ClockId, clock_gettime};

/// What an HTTP/2 client sends first.
const PREFACE: usize = 24;

/// Two load workers that may spin, two relays, what passes bytes on, and the server.
pub const CORES_TO_SPIN: usize = 8;

pub struct Tap {
    pub address: SocketAddr,
    came: Arc<Mutex<Vec<Stamp>>>,
}

/// When a request was there as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// ns on the monotonic clock.
    pub at: i128,
    /// Else it is the time of the relay's read. The kernel stamps nothing in the first ms after it was asked to.
    pub is_kernels: bool,
}

impl Tap {
    /// Its threads end with the connections that they relay.
    pub fn before(server: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let came: Arc<Mutex<Vec<Stamp>>> = Arc::default();
        let stamps = Arc::clone(&came);
        let spins = std::thread::available_parallelism()?.get() >= CORES_TO_SPIN;
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(mut server) = TcpStream::connect(server) else { return };
                let stamps = Arc::clone(&stamps);
                let (Ok(mut from), Ok(mut to)) = (server.try_clone(), client.try_clone()) else { return };
                let (pass_on, passed_on) = channel::<Vec<u8>>();
                let _ = (client.set_nodelay(true), server.set_nodelay(true));
                if setsockopt(&client, ReceiveTimestampns, &true).is_err() {
                    return;
                }
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || {
                    for bytes in passed_on {
                        if server.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                    let _ = server.shutdown(Shutdown::Both);
                });
                std::thread::spawn(move || relay(&client, spins, &pass_on, &stamps));
            }
        });
        Ok(Self { address, came })
    }

    /// The requests since it was called last, in order.
    pub fn came(&self) -> Vec<Stamp> {
        let mut came = std::mem::take(&mut *self.came.lock().unwrap_or_else(PoisonError::into_inner));
        came.sort_unstable();
        came
    }
}

fn relay(client: &TcpStream, spins: bool, server: &Sender<Vec<u8>>, stamps: &Mutex<Vec<Stamp>>) -> std::io::Result<()> {
    let flags = if spins { MsgFlags::MSG_DONTWAIT } else { MsgFlags::empty() };
    let mut frames = Frames { skip: PREFACE, ..Frames::default() };
    let mut buffer = vec![0; 64 << 10];
    let mut control = nix::cmsg_space!(TimeSpec);
    loop {
        let (length, stamp) = {
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let message = match recvmsg::<()>(client.as_raw_fd(), &mut parts, Some(&mut control), flags) {
                Err(Errno::EAGAIN) => {
                    std::hint::spin_loop();
                    continue;
                }
                read => read?,
            };
            // Of the last bytes that this read brought.
            let stamp = message.cmsgs()?.find_map(|message| match message {
                ControlMessageOwned::ScmTimestampns(at) => Some(ns(at.tv_sec(), at.tv_nsec())),
                _ => None,
            });
            (message.bytes, stamp)
        };
        if length == 0 {
            return Ok(());
        }
        let requests = frames.ended(&buffer[..length]);
        let [monotonic, real] = [ClockId::Monotonic, ClockId::Realtime].map(|clock| {
            let now = clock_gettime(clock);
            ns(now.tv_sec, now.tv_nsec)
        });
        // The kernel stamps on the clock of the wall.
        let at = stamp.map_or(monotonic, |stamp| stamp - real + monotonic);
        let stamp = Stamp { at, is_kernels: stamp.is_some() };
        stamps.lock().unwrap_or_else(PoisonError::into_inner).extend(std::iter::repeat_n(stamp, requests));
        if server.send(buffer[..length].to_vec()).is_err() {
            return Ok(());
        }
    }
}

fn ns(seconds: i64, ns: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(ns)
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
