//! A server that changes its limit of concurrent streams during a run (RFC 9113, 5.1.2).

use std::cell::Cell;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use pretty_assertions::assert_eq;
use regatta::event::Stop;
use regatta::harness::{
    BenchProgress, BenchSpec, LoadPattern, Measured, ReasonSeverity, RequestEnd, VerdictCheck, run,
};

use crate::harness::{AT_ONCE, adds_up, script, spec};
use crate::scripted_server::{Scripted, wait_for};

const SETTINGS: u8 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const PREFACE: usize = 24;

/// The connections of clients.
#[derive(Clone, Default)]
struct Clients(Arc<Mutex<Vec<TcpStream>>>);

impl Clients {
    /// Sends SETTINGS in the server's name.
    fn announce(&self, streams: u32) {
        let mut frame = vec![0, 0, 6, SETTINGS, 0, 0, 0, 0, 0];
        frame.extend(MAX_CONCURRENT_STREAMS.to_be_bytes());
        frame.extend(streams.to_be_bytes());
        for client in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            let _ = client.write_all(&frame);
        }
    }

    /// Listens, and passes on what clients and the server send to each other, frame by frame.
    fn relay_to(&self, server: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let clients = self.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(server).unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let (from_client, from_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let at = {
                    let mut all = clients.0.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push(client);
                    all.len() - 1
                };
                thread::spawn(move || to_server(from_client, server));
                let clients = clients.clone();
                thread::spawn(move || {
                    let mut from_server = from_server;
                    while let Some(frame) = next_frame(&mut from_server) {
                        let mut all = clients.0.lock().unwrap_or_else(PoisonError::into_inner);
                        if all[at].write_all(&frame).is_err() {
                            break;
                        }
                    }
                });
            }
        });
        address
    }
}

/// The server knows of one SETTINGS only, its own: it would end the connection at a second acknowledgement.
fn to_server(mut client: TcpStream, mut server: TcpStream) {
    let mut preface = [0; PREFACE];
    if client.read_exact(&mut preface).is_err() || server.write_all(&preface).is_err() {
        return;
    }
    let mut acknowledged = false;
    while let Some(frame) = next_frame(&mut client) {
        let is_acknowledgement = frame[3] == SETTINGS && frame[4] & 1 == 1;
        if is_acknowledgement && std::mem::replace(&mut acknowledged, true) {
            continue;
        }
        if server.write_all(&frame).is_err() {
            return;
        }
    }
    let _ = server.shutdown(std::net::Shutdown::Both);
}

fn next_frame(from: &mut impl Read) -> Option<Vec<u8>> {
    let mut frame = vec![0; 9];
    from.read_exact(&mut frame).ok()?;
    let length = u32::from_be_bytes([0, frame[0], frame[1], frame[2]]) as usize;
    frame.resize(9 + length, 0);
    from.read_exact(&mut frame[9..]).ok()?;
    Some(frame)
}

/// Six requests of two users; `at_first` is called when the server receives the first.
fn measured(
    stall_timeout: Duration,
    at_first: impl Fn(&Clients) + Send + Sync + 'static,
    on_progress: impl Fn(&Clients, BenchProgress),
) -> Measured {
    let clients = Clients::default();
    let announcing = clients.clone();
    let server = Scripted::start(
        true,
        None,
        script(move |index| {
            if index == 0 {
                at_first(&announcing);
            }
            AT_ONCE
        }),
    );
    let spec = BenchSpec {
        endpoints: vec![clients.relay_to(server.address).to_string().parse().unwrap()],
        scenario: LoadPattern::Concurrency { users: 2.0.into() },
        clients: 1,
        stall_timeout,
        ..spec(&server, 6)
    };
    let stop = Stop::new();
    let watched = |progress| on_progress(&clients, progress);
    let running = async { tokio::time::timeout(Duration::from_mins(1), run(&spec, &stop, watched)).await };
    wait_for(running).expect("the run ends").unwrap()
}

#[test]
fn a_server_that_allows_no_request_any_more_does_not_hold_the_run_up() {
    let measured = measured(Duration::from_millis(500), |clients| clients.announce(0), |_, _| {});
    adds_up(&measured);
    let counts = &measured.result.counts;
    assert!(counts.ok >= 1 && counts.failed >= 1, "{counts:?}");
    assert_eq!(counts.ok + counts.failed, 6, "{counts:?}");
    for record in measured.requests.to_vec().iter().filter(|record| !record.is_ok()) {
        let RequestEnd::Failed { why, .. } = &record.ended else { panic!("{record:?}") };
        assert!(why.starts_with("the server has allowed no requests for 0.5 s"), "{why}");
    }
    let reasons = measured.result.reasons();
    let failures = reasons.iter().find(|reason| reason.check == VerdictCheck::Failures).unwrap();
    assert_eq!(failures.severity, ReasonSeverity::InvalidServer);
}

#[test]
fn a_limit_that_is_raised_lets_go_what_waits() {
    let begun = Instant::now();
    let ended_before = Cell::new(0);
    let raise = |clients: &Clients, progress: BenchProgress| {
        // None was in flight when as many had ended before, too: the next ones wait.
        if progress.so_far.ended > 0
            && progress.so_far.in_flight() == 0
            && ended_before.replace(progress.so_far.ended) == progress.so_far.ended
        {
            clients.announce(100);
        }
    };
    let measured = measured(Duration::from_secs(30), |clients| clients.announce(0), raise);
    adds_up(&measured);
    assert!(measured.result.connections.waited_for_stream > 0, "{:?}", measured.result.connections);
    assert_eq!(measured.result.counts.ok, 6, "{:?}", measured.result.counts);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
