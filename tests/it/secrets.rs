//! A run that uses secrets in every way there is, and a search for them in everything that is left of it: files, outputs of all
//! commands that look back, and the arguments and environments of processes that others can see.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::openai::script::{Do, Scripted, good};
use crate::simulator::ground::Files;
use crate::world::{Ended, World};

/// Of the environment: for a command, for a server that repeats what it is sent, for a server of ours.
const SECRETS: [(&str, &str); 3] =
    [("TOKEN", "hf_5e9b1c7a22d04f"), ("API_KEY", "sk-61f0aa93c2b8d7"), ("SERVE_TOKEN", "srv-0d4c8e77ab1f35")];

fn found_in(bytes: &[u8]) -> Vec<&'static str> {
    let holds = |value: &str| bytes.windows(value.len()).any(|window| window == value.as_bytes());
    SECRETS.iter().filter(|(_, value)| holds(value)).map(|(name, _)| *name).collect()
}

fn is_clean(what: &str, ended: &Ended) {
    for text in [&ended.stdout, &ended.stderr] {
        assert_eq!(found_in(text.as_bytes()), [""; 0], "{what} prints it:\n{text}");
    }
}

fn are_clean(folder: &Path) {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let mut count = 0;
    for file in files {
        let bytes = fs::read(file.path()).expect("a file");
        assert_eq!(found_in(&bytes), [""; 0], "{} holds it", file.path().display());
        count += 1;
    }
    assert!(count > 10, "only {count} files");
}

#[test]
fn secrets_are_in_nothing_that_a_run_leaves_behind() {
    let mut world = World::new();
    // A server that refuses, and repeats the key: once within a sentence, once as JSON.
    let refusal = |key: &str| {
        let body = format!("{{\"error\":{{\"message\":\"the key {key} may not use this model\",\"key\":\"{key}\"}}}}");
        format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let server =
        Scripted::start(move |number| vec![Do::Send(if number % 2 == 0 { refusal(SECRETS[1].1) } else { good() })]);
    for (name, value) in SECRETS {
        world.env(name, value);
    }
    let files = Files::new(true, &serde_json::json!({}));
    world.manifest(
        "m",
        &format!(
            r#"
stages:
  prepare:
    secrets: [TOKEN]
    outputs: [length]
    shell: 'echo "uses $TOKEN"; echo "$TOKEN" | tee /dev/stderr | wc -c > length; tr "\0" "\n" < /proc/$PPID/cmdline > args'
  server:
    secrets: [SERVE_TOKEN]
    serve:
      command:
        words: [sh, -c, 'echo "begins with $SERVE_TOKEN"; exec {program} sim serve --repository {repository} --grpc-port "$1"', server, '{{port}}']
  client:
    needs: [prepare, server]
    shell: 'true'
  measure:
    needs: [prepare]
    bench:
      target: 'openai://{address}'
      model: m
      scenario: offline
      stop: {{ requests: 6 }}
      input_tokens: {{ fixed: 8 }}
      output_tokens: {{ fixed: 4 }}
      api_key_env: API_KEY
  fails:
    needs: [client]
    secrets: [TOKEN]
    shell: 'echo "refused: $TOKEN" >&2; exit 4'
"#,
            address = server.address,
            program = env!("CARGO_BIN_EXE_regatta"),
            repository = files.repository().display()
        ),
    );
    let ended = world.regatta(&["run", "m", "--keep-going", "--events", "jsonl", "--junit", "junit.xml"]);
    assert_ne!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    assert_ne!(ended.code, 2, "{}\n{}", ended.stdout, ended.stderr);
    is_clean("run", &ended);
    for words in [
        &["plan", "m"][..],
        &["plan", "m", "--json"],
        &["plan", "m", "--launch"],
        &["show", "m"],
        &["status"],
        &["status", "--json"],
        &["runs"],
        &["runs", "--json"],
        &["history"],
        &["logs", "fails"],
        &["logs", "prepare"],
        &["report"],
        &["doctor", "m"],
        &["doctor", "m", "--json"],
        &["lock", "show"],
    ] {
        is_clean(&words.join(" "), &world.regatta(words));
    }
    are_clean(&world.path(""));
    let repeated = walkdir::WalkDir::new(world.path(".regatta")).into_iter().flatten().any(|entry| {
        fs::read(entry.path())
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains("the key *** may not use this model"))
    });
    assert!(repeated, "what the server repeated is kept, without the key");
}

#[test]
fn no_process_of_a_run_has_a_secret_among_its_arguments() {
    let mut world = World::new();
    for (name, value) in SECRETS {
        world.env(name, value);
    }
    // What the stage itself starts is its own affair; what is started for it is ours.
    world.manifest(
        "m",
        "stages:\n  a: { secrets: [TOKEN, API_KEY], outputs: [ps], shell: 'cat /proc/[0-9]*/cmdline > ps 2>/dev/null || true' }\n",
    );
    let ended = world.regatta(&["run", "m"]);
    assert_eq!(ended.code, 0, "{}\n{}", ended.stdout, ended.stderr);
    let seen = fs::read(world.path("latest/a/ps")).expect("what ps sees");
    assert!(seen.windows(7).any(|window| window == b"regatta"), "it sees the runner");
    assert_eq!(found_in(&seen), [""; 0]);
}

#[test]
fn a_stage_without_its_secret_runs_and_a_notice_says_why_there_is_none() {
    let mut world = World::new();
    world.env("EMPTY_TOKEN", "").env("BLANK_TOKEN", " \n");
    world.manifest("m", "stages:\n  a: { secrets: [UNSET_TOKEN, EMPTY_TOKEN, BLANK_TOKEN], shell: 'echo x > out' }\n");
    let ended = world.good(&["run", "m"]);
    for notice in [
        "UNSET_TOKEN is not set; the stage lists it",
        "EMPTY_TOKEN is empty; the",
        "BLANK_TOKEN is only white space; the",
    ] {
        ended.shows(notice);
    }
}

#[test]
fn an_address_with_a_password_is_refused_without_it() {
    const PASSWORD: &str = "hunter2-4711";
    let hides = |ended: &Ended| {
        assert_eq!(ended.code, 2, "{ended:?}");
        assert!(!format!("{ended:?}").contains(PASSWORD), "{ended:?}");
        assert!(ended.stderr.contains("holds no user"), "{ended:?}");
    };
    for stage in [
        format!(
            "bench: {{ target: 'http://me:{PASSWORD}@host:1', model: m, scenario: offline, stop: {{ requests: 1 }} }}"
        ),
        format!(
            "bench: {{ target: 'openai://{PASSWORD}@host', model: m, scenario: offline, stop: {{ requests: 1 }} }}"
        ),
        format!("serve: {{ attach: {{ endpoints: 'a|me:{PASSWORD}@host:1' }} }}"),
        format!("serve: {{ attach: {{ endpoints: ['a:1', 'me:{PASSWORD}@host:1'] }} }}"),
    ] {
        let world = World::with(&format!("stages:\n  a:\n    {stage}\n"));
        hides(&world.regatta(&["plan", "m"]));
        hides(&world.regatta(&["run", "m"]));
    }
    let world = World::new();
    for target in
        [format!("openai://{PASSWORD}@host"), format!("http://me:{PASSWORD}@host:1"), format!("me:{PASSWORD}@host:1")]
    {
        hides(&world.regatta(&["bench", &target, "-m", "m"]));
        hides(&world.regatta(&["triton", "status", &target.replace("openai", "grpc")]));
    }
}

/// The address of a mirror may hold them; only requests do.
#[test]
fn the_password_of_a_model_hub_is_in_no_message_and_no_file() {
    const PASSWORD: &str = "hunter2-4711";
    let mut world = World::with("stages:\n  a: { weights: { hf: owner/model } }\n");
    let home = world.path("home");
    world.env("HF_HOME", &home).env("NO_PROXY", "127.0.0.1");
    // Once no server is there, once it refuses.
    let refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for mut socket in listener.incoming().map_while(Result::ok) {
            let _ = socket.read(&mut [0; 4096]);
            let _ = socket.write_all(refusal.as_bytes());
        }
    });
    for host in ["127.0.0.1:9".to_owned(), address.to_string()] {
        world.env("HF_ENDPOINT", format!("http://me:{PASSWORD}@{host}/"));
        let ended = world.regatta(&["run", "m", "--events", "jsonl"]);
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            format!("{ended:?}").contains(&format!("http://{host}")),
            "the rest of the address is shown: {ended:?}"
        );
        assert!(!format!("{ended:?}").contains(PASSWORD), "{ended:?}");
    }
    for entry in walkdir::WalkDir::new(world.path("")).into_iter().flatten().filter(|it| it.file_type().is_file()) {
        let bytes = fs::read(entry.path()).expect("a file");
        assert!(
            !bytes.windows(PASSWORD.len()).any(|window| window == PASSWORD.as_bytes()),
            "{}",
            entry.path().display()
        );
    }
}

#[test]
fn a_run_gives_others_no_more_rights_than_the_umask_leaves_them() {
    for (umask, forbidden) in [("077", 0o077), ("027", 0o027), ("022", 0o022)] {
        let world = World::new();
        world.file("data/x", "1").file("templates/y.j2", "{{ a }}");
        world.manifest(
            "m",
            "stages:\n  a: { inputs: { x: data/x }, outputs: [y], shell: 'cp {{ inputs.x }} y; echo said' }\n\
             \x20 b: { template: { from: templates, with: { a: 1 } } }\n  c: { needs: [a, b], shell: 'exit 3' }\n",
        );
        let line = format!("umask {umask}; exec '{}' run m --keep-going", env!("CARGO_BIN_EXE_regatta"));
        let ended = std::process::Command::new("/bin/sh").args(["-c", &line]).current_dir(world.path("")).output();
        assert_eq!(ended.expect("sh").status.code(), Some(1));
        let mut made = 0;
        for folder in [".regatta", "latest"] {
            for entry in walkdir::WalkDir::new(world.path(folder)).into_iter().flatten() {
                let found = entry.metadata().expect("what it is");
                if !found.is_symlink() {
                    let mode = found.permissions().mode();
                    assert_eq!(mode & forbidden, 0, "umask {umask}: {} has {mode:o}", entry.path().display());
                    made += 1;
                }
            }
        }
        assert!(made > 10, "only {made} entries");
    }
}
