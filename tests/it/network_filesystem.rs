//! A project folder on a real filesystem of the network: two clients at once, a server that stands still, is killed and comes back.
//! `tests/parts/network_filesystem.sh` mounts it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use pretty_assertions::assert_eq;
use tempfile::TempDir;

use crate::campaign::no_process_left;
use crate::kept_part::{KeptPart, script};
use crate::ports::free_port;
use crate::world::{Ended, World, signal_pid, until};

/// `b` waits in the middle of its work. What the test and the stages say to each other is on the machine's own disk.
const STAGES: &str = r#"
stages:
  a: { shell: 'echo a >> "$L/ran"; echo one > out' }
  b: { shell: 'echo b >> "$L/ran"; cat {{ stages.a.out }}/out > out; touch "$L/started"; while [ ! -e "$L/go" ]; do sleep 0.01; done; echo two >> out' }
  c: { shell: 'echo c >> "$L/ran"; cat {{ stages.b.out }}/out > out' }
"#;

/// What every operation on a file reports while the server is away.
const AWAY: &str = "Transport endpoint is not connected (os error 107)";

/// The server and its two mounts, which are gone when this is dropped.
struct Server {
    _part: KeptPart,
    folder: PathBuf,
    port: u16,
}

/// A project on it. The world goes first, then the mounts.
struct Share {
    world: World,
    local: TempDir,
    server: Server,
}

const SCRIPT: &str = "network_filesystem.sh";

impl Server {
    fn up() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("regatta-network-{}-{n}", std::process::id()));
        let port = free_port();
        let part = KeptPart::up(script(SCRIPT).arg("keep").arg(&folder).arg(port.to_string()));
        Self { _part: part, folder, port }
    }

    fn send(&self, signal: &str) {
        let pid = fs::read_to_string(self.folder.join("server.pid")).expect("a process id");
        signal_pid(pid.trim().parse().expect("a number"), signal);
    }

    fn answers(&self) -> [bool; 2] {
        ["one", "two"].map(|name| fs::read_dir(self.folder.join(name)).is_ok())
    }

    /// As if its machine had lost power: both clients have noticed.
    fn kill(&self) {
        self.send("KILL");
        until("the clients to notice", || self.answers() == [false; 2]);
    }

    /// It is back, and both clients have found it.
    fn serve(&self) {
        let done = script(SCRIPT).arg("serve").arg(&self.folder).arg(self.port.to_string()).status();
        assert!(done.expect("network_filesystem.sh").success());
        until("the clients to be connected again", || self.answers() == [true; 2]);
    }
}

impl Share {
    fn with(manifest: &str) -> Self {
        let server = Server::up();
        let local = tempfile::tempdir().expect("a temporary folder");
        let mut world = World::below(&server.folder.join("one"));
        world.manifest("m", manifest);
        world.env("L", local.path());
        Self { world, local, server }
    }

    /// A command on a terminal that is in the project folder already, and begins later.
    fn prepare(&self, client: &str, words: &[&str]) -> Prepared {
        let plain = self.world.command(words);
        let folder = self.server.folder.join(client).join(self.world.path("").file_name().expect("a name"));
        let mut command = Command::new("sh");
        command
            .args(["-c", r#"read -r _ || exit; exec timeout 60 "$0" "$@""#])
            .arg(plain.get_program())
            .args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let streams = command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Prepared { shell: streams.spawn().expect("sh"), words: words.join(" ") }
    }

    fn regatta(&self, client: &str, words: &[&str]) -> Ended {
        self.prepare(client, words).end()
    }

    #[track_caller]
    fn good(&self, client: &str, words: &[&str]) -> Ended {
        let ended = self.regatta(client, words);
        assert_eq!(ended.code, 0, "{words:?} {ended:?}");
        ended
    }

    fn say(&self, name: &str) {
        fs::write(self.local.path().join(name), "").expect("a file");
    }

    fn await_stage(&self) {
        until("the stage to be under way", || self.local.path().join("started").exists());
    }

    fn ran(&self) -> String {
        fs::read_to_string(self.local.path().join("ran")).unwrap_or_default().replace('\n', "")
    }

    /// A run of the first client, in the middle of `b`.
    fn under_way(&self) -> Child {
        let run = self.prepare("one", &["run", "m"]).begin();
        self.await_stage();
        run
    }
}

struct Prepared {
    shell: Child,
    words: String,
}

impl Prepared {
    fn begin(mut self) -> Child {
        self.shell.stdin.take().expect("a pipe").write_all(b"\n").expect("a line");
        self.shell
    }

    fn end(self) -> Ended {
        Ended::of(self.begin())
    }
}

#[test]
#[ignore = "needs root, for a GlusterFS server and its mounts"]
fn two_clients_share_the_outputs_and_the_lock() {
    let share = Share::with(STAGES);
    let first = share.under_way();
    let mut second = share.prepare("two", &["run", "m"]).begin();
    let (mut told, mut lines) = (String::new(), BufReader::new(second.stdout.take().expect("its output")));
    while !told.contains("waiting for run") {
        assert_ne!(lines.read_line(&mut told).expect("a line"), 0, "{told}");
    }
    let refused = share.regatta("two", &["clean", "--yes"]);
    assert_eq!(refused.code, 1);
    refused.shows("is working in this folder");
    share.good("two", &["status"]).shows("running  b");
    share.say("go");
    assert_eq!(Ended::of(first).code, 0);
    lines.read_to_string(&mut told).expect("its output");
    assert!(second.wait().expect("an end").success(), "{told}");
    assert_eq!(share.ran(), "abc", "what one client made, the other one finds");
    for client in ["one", "two"] {
        assert!(share.good(client, &["run", "m"]).ran().is_empty(), "{client}");
        share.good(client, &["status"]).shows("c");
    }
    assert_eq!(share.world.read("latest/c/out"), "one\ntwo\n");
}

#[test]
#[ignore = "needs root, for a GlusterFS server and its mounts"]
fn what_the_other_client_removes_or_replaces_is_noticed() {
    let share = Share::with(
        r#"
stages:
  a: { inputs: { s: s.txt }, shell: 'exec 3< {{ inputs.s }}; touch "$L/started"; while [ ! -e "$L/go" ]; do sleep 0.01; done; cat <&3 > out' }
  b: { shell: 'cat {{ stages.a.out }}/out > out' }
"#,
    );
    share.world.file("s.txt", "before\n");
    let other = share.server.folder.join("two").join(share.world.path("").file_name().unwrap());
    let run = share.under_way();
    // The stage of the first client has it open.
    fs::write(other.join("s.new"), "after\n").unwrap();
    fs::rename(other.join("s.new"), other.join("s.txt")).unwrap();
    share.say("go");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(share.world.read("latest/b/out"), "after\n");
    fs::remove_file(fs::canonicalize(other.join("latest/a/out")).unwrap()).unwrap();
    share.good("one", &["run", "m"]).shows("out is missing in its output");
    share.good("two", &["clean", "--yes"]);
    share.regatta("one", &["status"]).shows("nothing has run in this folder yet");
    assert_eq!(share.good("one", &["run", "m"]).ran(), ["a", "b"]);
}

#[test]
#[ignore = "needs root, for a GlusterFS server and its mounts"]
fn a_server_that_stands_still_for_a_while_only_delays_a_run() {
    let share = Share::with(STAGES);
    let mut run = share.under_way();
    share.server.send("STOP");
    share.say("go");
    // How long it stands still is the fault.
    std::thread::sleep(Duration::from_secs(1));
    assert!(run.try_wait().unwrap().is_none(), "it cannot go on without the server");
    share.server.send("CONT");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(share.ran(), "abc");
    assert_eq!(share.world.read("latest/c/out"), "one\ntwo\n");
}

#[test]
#[ignore = "needs root, for a GlusterFS server and its mounts"]
fn a_server_that_is_killed_fails_the_run_with_the_cause_and_loses_nothing() {
    let share = Share::with(STAGES);
    let all = [
        &["run", "m"][..],
        &["run", "quickstart"],
        &["plan", "m"],
        &["list"],
        &["status"],
        &["runs"],
        &["logs"],
        &["report"],
        &["history"],
        &["gc"],
        &["gc", "--yes"],
        &["clean", "--yes"],
        &["tag", "t"],
    ];
    let prepared: Vec<Prepared> = all.into_iter().map(|words| share.prepare("two", words)).collect();
    let run = share.under_way();
    share.server.kill();
    share.say("go");
    let ended = Ended::of(run);
    assert_eq!(ended.code, 1, "{ended:?}");
    let folder = share.world.path(".regatta/out");
    ended.shows(&format!("cannot list {}", folder.display())).shows(AWAY);
    no_process_left(&share.world);
    for command in prepared {
        let words = command.words.clone();
        let ended = command.end();
        let text = format!("{words}: {ended:?}");
        assert!([1, 2].contains(&ended.code), "{text}");
        ended.shows(AWAY);
        assert!([".regatta", "manifests"].iter().any(|path| ended.stderr.contains(path)), "it names no path: {text}");
        for wrong in ["panicked", "there is no manifest", "nothing has run", "no run", "nothing to remove"] {
            assert!(!text.contains(wrong), "{text}");
        }
    }
    share.server.serve();
    assert_eq!(share.ran(), "ab");
    assert_eq!(share.good("one", &["run", "m"]).ran(), ["b", "c"], "what was finished is kept");
    assert_eq!(share.world.read("latest/c/out"), "one\ntwo\n");
    assert!(share.good("two", &["run", "m"]).ran().is_empty());
}
