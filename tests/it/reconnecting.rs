//! What becomes of requests while a server takes no connections.

use std::io::Write as _;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Instant;

use pretty_assertions::assert_eq;
use regatta::event::Stop;
use regatta::harness::{Api, BenchProgress, BenchSpec, FailureClass, LoadPattern, Measured, run};

use crate::harness::{AT_ONCE, class_of, script};
use crate::openai;
use crate::openai::script::{good, next};
use crate::scripted_server::{Scripted, wait_for};

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

fn users(users: u32) -> LoadPattern {
    LoadPattern::Concurrency { users: f64::from(users).into() }
}

/// One server of several is lost at some time: the users who go on with the others send most of the requests.
fn few_failed(measured: &Measured) {
    let counts = &measured.result.counts;
    assert!(counts.conserved, "{counts:?}");
    assert_eq!(counts.failed_by_class.get(&FailureClass::Connect).copied().unwrap_or(0), counts.failed, "{counts:?}");
    assert!(counts.failed > 0 && counts.failed < counts.scheduled / 2, "{counts:?}");
}

#[test]
fn a_user_without_a_connection_leaves_the_requests_to_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        // The query before the run.
        let (mut socket, _) = listener.accept().unwrap();
        next(&mut socket, &mut Vec::new());
        socket.write_all(NOT_FOUND.as_bytes()).unwrap();
        drop(socket);
        let answer = |socket: &mut std::net::TcpStream, bytes: &mut Vec<u8>| {
            next(socket, bytes)?;
            socket.write_all(good().as_bytes()).ok()
        };
        let [(mut one, _), (mut two, _)] = [listener.accept().unwrap(), listener.accept().unwrap()];
        let (mut of_one, mut of_two) = (Vec::new(), Vec::new());
        answer(&mut one, &mut of_one).unwrap();
        answer(&mut two, &mut of_two).unwrap();
        next(&mut two, &mut of_two);
        drop((listener, two));
        while answer(&mut one, &mut of_one).is_some() {}
    });
    let spec = BenchSpec { scenario: users(2), ..openai::spec(&address, Api::OpenaiChat, 400) };
    few_failed(&wait_for(run(&spec, &Stop::new(), |_| {})).unwrap());
    server.join().unwrap();
}

#[test]
fn a_lost_server_does_not_take_the_requests_of_the_others() {
    let lost = Arc::new(Mutex::new(Some(Scripted::start(true, None, script(|_| AT_ONCE)))));
    let address = lost.lock().unwrap().as_ref().unwrap().address;
    let to_lose = Arc::clone(&lost);
    let act = move |index| {
        if index > 20 {
            drop(to_lose.lock().unwrap().take());
        }
        AT_ONCE
    };
    let server = Scripted::start(true, None, script(act));
    let endpoints = [server.address, address].map(|address| address.to_string().parse().unwrap()).to_vec();
    let spec = BenchSpec { endpoints, clients: 1, scenario: users(2), ..crate::harness::spec(&server, 600) };
    let measured = wait_for(run(&spec, &Stop::new(), |_| {})).unwrap();
    let counts = &measured.result.counts;
    assert!(counts.conserved && counts.failed < 300, "{counts:?}");
}

#[test]
fn no_arrival_fails_after_the_server_is_back() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell_failed, failed) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let serve = |listener: &TcpListener, most: usize| {
            for mut socket in listener.incoming().take(most).map_while(Result::ok) {
                // The end of the test.
                let Some(request) = next(&mut socket, &mut Vec::new()) else { return };
                let answer = if request.starts_with("GET ") { NOT_FOUND.to_owned() } else { good() };
                let answer = answer.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
                socket.write_all(answer.as_bytes()).unwrap();
            }
        };
        serve(&listener, 4);
        drop(listener);
        failed.recv().unwrap();
        let listener = TcpListener::bind(address).unwrap();
        let is_back = Instant::now();
        serve(&listener, usize::MAX);
        is_back
    });
    let scenario = LoadPattern::Server { rate: 100.0.into() };
    let spec = BenchSpec { scenario, ..openai::spec(&address.to_string(), Api::OpenaiChat, 120) };
    let notice = |progress: BenchProgress| {
        if progress.so_far.failed > 0 {
            // Once is enough.
            let _ = tell_failed.send(());
        }
    };
    let measured = wait_for(run(&spec, &Stop::new(), notice)).unwrap();
    drop(std::net::TcpStream::connect(address).unwrap());
    let is_back = server.join().unwrap().saturating_duration_since(measured.zero).as_nanos() as u64;
    let failed: Vec<_> = measured.requests.iter().filter(|record| class_of(record).is_some()).collect();
    assert!(!failed.is_empty());
    assert_eq!(failed.iter().filter(|record| record.t_issue > is_back).count(), 0);
    assert!(failed.iter().all(|record| class_of(record) == Some(FailureClass::Connect)), "{failed:?}");
}
