//! HTTP within TLS, against a real TLS server: whom the harness trusts, and what it says when it does not.

mod server;

use std::io::{Read as _, Write as _};

use pretty_assertions::assert_eq;
use regatta::event::Stop;
use regatta::harness::{Api, BenchSpec, HarnessError, Http, Measured, Transport, run};
use regatta::spec::Tls;

use self::server::{Authority, Folder, Secure, self_signed};
use crate::openai;
use crate::scripted_server::wait_for;
use crate::world::World;

const HERE: &str = "127.0.0.1";

fn measure(address: std::net::SocketAddr, tls: Tls) -> Result<Measured, HarnessError> {
    let protocol = Transport::Http(Http { tls: Some(Box::new(tls)), ..Http::new(Api::OpenaiChat) });
    let spec =
        BenchSpec { endpoints: vec![address.to_string().parse().unwrap()], protocol, ..openai::spec_of_chat(20) };
    wait_for(run(&spec, &Stop::new(), |_| {}))
}

/// Why there was no connection.
fn refused(server: &Secure, tls: Tls) -> String {
    match measure(server.address, tls) {
        Err(HarnessError::Connect { why, .. }) => {
            assert!(server.behind.requests.lock().unwrap().is_empty(), "nothing was sent to whom we do not trust");
            why
        }
        Ok(_) => panic!("it was trusted"),
        Err(other) => panic!("{other}"),
    }
}

fn all_ok(measured: &Measured) {
    let counts = &measured.result.counts;
    assert_eq!((counts.ok, counts.conserved), (20, true), "{:?}", counts.failures);
    assert_eq!(measured.result.tokens.output, 80);
}

#[test]
fn a_server_of_a_known_authority_is_measured() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let server = Secure::start(&authority.issue(HERE, |_| {}), None);
    let measured = measure(server.address, folder.trusting(&authority.pem())).unwrap();
    all_ok(&measured);
    assert!(measured.result.connections.reconnects == 0, "connections are kept: {:?}", measured.result.connections);
    let text = serde_json::to_string(&measured.result.requested).unwrap();
    assert!(text.contains(r#""tls":{"insecure":false}"#) && !text.contains("ca.pem"), "{text}");
}

#[test]
fn who_is_not_trusted_is_sent_nothing_and_the_error_says_what_to_do() {
    let (authority, folder) = (Authority::new("ours"), Folder::new());
    let other = Authority::new("another");
    let unknown = Secure::start(&other.issue(HERE, |_| {}), None);
    let why = refused(&unknown, folder.trusting(&authority.pem()));
    assert!(why.contains("an unknown authority") && why.contains("`tls.ca` (--cacert)"), "{why}");

    let elsewhere = Secure::start(&authority.issue("elsewhere.example", |_| {}), None);
    let why = refused(&elsewhere, folder.trusting(&authority.pem()));
    assert!(why.contains("is for elsewhere.example, not for 127.0.0.1"), "{why}");

    let old = authority.issue(HERE, |params| {
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let why = refused(&Secure::start(&old, None), folder.trusting(&authority.pem()));
    assert!(why.contains("expired at 2002-01-01T00:00:00Z: renew it"), "{why}");

    let early = authority.issue(HERE, |params| params.not_before = rcgen::date_time_ymd(2900, 1, 1));
    let why = refused(&Secure::start(&early, None), folder.trusting(&authority.pem()));
    assert!(why.contains("valid only from 2900-01-01"), "{why}");
}

#[test]
fn anybody_is_trusted_when_that_is_asked_for() {
    let server = Secure::start(&Authority::new("nobody").issue("elsewhere.example", |_| {}), None);
    all_ok(&measure(server.address, Tls { insecure: true, ..Tls::default() }).unwrap());
}

#[test]
fn a_self_signed_certificate_is_trusted_by_its_own_file_and_name() {
    let folder = Folder::new();
    let (mine, other) = (self_signed(HERE), self_signed(HERE));
    let server = Secure::start(&mine, None);
    all_ok(&measure(server.address, folder.trusting(&mine.cert)).unwrap());
    let why = refused(&Secure::start(&mine, None), folder.trusting(&other.cert));
    assert!(why.contains("name its file with `tls.ca` (--cacert)"), "{why}");
    let named = self_signed("elsewhere.example");
    let why = refused(&Secure::start(&named, None), folder.trusting(&named.cert));
    assert!(why.contains("not for 127.0.0.1"), "{why}");
}

#[test]
fn a_server_that_wants_to_know_us_is_told_who_we_are() {
    let (authority, clients, folder) = (Authority::new("ours"), Authority::new("clients"), Folder::new());
    let server = Secure::start(&authority.issue(HERE, |_| {}), Some(&clients));
    let trusting = folder.trusting(&authority.pem());
    let Err(HarnessError::Model { why, .. } | HarnessError::Connect { why, .. }) =
        measure(server.address, trusting.clone())
    else {
        panic!("the server did not request a certificate");
    };
    assert!(why.contains("`tls.client_cert` and `tls.client_key`"), "{why}");
    let with = |identity: &server::Identity| Tls {
        client_cert: Some(folder.file("client.pem", &identity.cert)),
        client_key: Some(folder.file("client.key", &identity.key)),
        ..trusting.clone()
    };
    all_ok(&measure(server.address, with(&clients.issue("client", |_| {}))).unwrap());
    let Err(error) = measure(server.address, with(&authority.issue("client", |_| {}))) else { panic!("it was let in") };
    assert!(error.to_string().contains("may not know the authority of tls.client_cert"), "{error}");
}

#[test]
fn a_server_that_wants_tls_is_recognized() {
    let server = Secure::start(&Authority::new("ours").issue(HERE, |_| {}), None);
    let spec = BenchSpec { endpoints: vec![server.address.to_string().parse().unwrap()], ..openai::spec_of_chat(1) };
    let Err(error) = wait_for(run(&spec, &Stop::new(), |_| {})) else { panic!("plain text was taken") };
    assert!(error.to_string().contains("if it speaks TLS at this port, write https://"), "{error}");
}

#[test]
fn a_server_without_tls_is_recognized() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test.
    std::thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            // As a web server answers to what it cannot read.
            let _ = socket.read(&mut [0; 1024]);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let Err(error) = measure(address, Tls { insecure: true, ..Tls::default() }) else { panic!("plain text") };
    let text = error.to_string();
    assert!(text.contains("does not speak TLS at this port: write http://"), "{text}");
}

#[test]
fn files_that_cannot_be_used_are_all_named_and_never_shown() {
    let folder = Folder::new();
    let secret = folder.file("secret.key", "S3CRET-IN-THE-FILE");
    let tls = Tls {
        ca: Some("no-such-file.pem".into()),
        client_cert: Some(folder.file("empty.pem", "")),
        client_key: Some(secret),
        insecure: false,
    };
    let Err(HarnessError::Spec(why)) = measure("127.0.0.1:1".parse().unwrap(), tls) else { panic!("they were used") };
    for wanted in
        ["tls.ca: no-such-file.pem cannot be read", "empty.pem has no certificate", "has no private key in PEM"]
    {
        assert!(why.contains(wanted), "no {wanted} in {why}");
    }
    assert!(!why.contains("S3CRET"), "{why}");
}

#[test]
fn one_line_measures_a_server_within_tls_and_writes_no_secret_down() {
    let (authority, mut world) = (Authority::new("ours"), World::new());
    let server = Secure::start(&authority.issue(HERE, |_| {}), None);
    world.file("ca.pem", &authority.pem());
    world.env("THE_KEY", "S3CRET-OF-THE-SERVER");
    let target = format!("https://{}/v1", server.address);
    let words = ["bench", &target, "-m", "any", "-n", "8", "--output-tokens", "4", "--api-key-env", "THE_KEY"];
    let ended = world.regatta(&[&words[..], &["--cacert", "ca.pem", "--out", "kept"]].concat());
    assert!([0, 3, 4].contains(&ended.code), "{}\n{}", ended.stdout, ended.stderr);
    let requests = server.behind.requests.lock().unwrap().clone();
    assert!(!requests.is_empty() && requests.iter().all(|request| request.contains("Bearer S3CRET-OF-THE-SERVER")));
    let found = std::process::Command::new("grep").args(["-rl", "S3CRET-OF"]).arg(world.path(".")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "the key is in no file");
    assert!(!ended.stdout.contains("S3CRET") && !ended.stderr.contains("S3CRET"));

    let unknown = world.regatta(&[&words[..], &["--out", "other"]].concat());
    assert_ne!(unknown.code, 0);
    unknown.shows("an unknown authority").shows("--cacert");
}
