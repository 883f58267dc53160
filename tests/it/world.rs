//! The words that the other chapters are written in: a project folder, and the real program in it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A project folder of its own.
pub struct World {
    folder: TempDir,
    env: Vec<(String, OsString)>,
}

/// A test that fails in the middle of a run must not leave the run behind, and shows how far it came.
impl Drop for World {
    #[expect(clippy::print_stderr, reason = "it is for the reader of a failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.newest_journal();
            let lines: Vec<&str> = journal.lines().collect();
            eprintln!("the newest journal:\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
            for (pid, _) in alive_with(self.folder.path()) {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
            }
        }
    }
}

/// Longer than any command of a test takes beside all others.
const LONGEST_COMMAND: Duration = Duration::from_mins(30);

/// How a command ended, and what it printed.
#[derive(Debug)]
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    pub fn new() -> Self {
        Self::below(&std::env::temp_dir())
    }

    /// In a folder of its own below this one.
    pub fn below(folder: &Path) -> Self {
        let folder = tempfile::Builder::new().prefix("regatta-world").tempdir_in(folder).expect("a temporary folder");
        Self { folder, env: Vec::new() }
    }

    /// A world with one manifest called `m`.
    pub fn with(manifest: &str) -> Self {
        let world = Self::new();
        world.manifest("m", manifest);
        world
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn file(&self, name: &str, text: &str) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        fs::write(path, text).expect("a file");
        self
    }

    /// Copies a folder of this repository into the project.
    pub fn copy(&self, folder: &str) -> &Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in walkdir::WalkDir::new(&from).into_iter().map(|entry| entry.expect("a file of ours")) {
            let to = self.path(folder).join(entry.path().strip_prefix(&from).expect("below it"));
            if entry.file_type().is_dir() {
                fs::create_dir_all(to).expect("a folder");
            } else {
                fs::copy(entry.path(), to).expect("a copy");
            }
        }
        self
    }

    /// `stages:` and what follows; the head is always the same.
    pub fn manifest(&self, name: &str, body: &str) -> &Self {
        self.file(&format!("manifests/{name}.yaml"), &format!("regatta: 1\nname: {name}\n{body}"))
    }

    pub fn env(&mut self, name: &str, value: impl AsRef<Path>) -> &mut Self {
        self.env.push((name.to_owned(), value.as_ref().into()));
        self
    }

    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_regatta"));
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command
            .env_remove("REGATTA_HOME")
            .env_remove("REGATTA_STORE")
            .env_remove("REGATTA_SIGN_KEY")
            .env_remove("REGATTA_TRUSTED_KEYS")
            .envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Runs the program to its end.
    pub fn regatta(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("regatta"))
    }

    /// Runs it, and it must end well.
    pub fn good(&self, words: &[&str]) -> Ended {
        let ended = self.regatta(words);
        assert_eq!(ended.code, 0, "{words:?}\n{}\n{}", ended.stdout, ended.stderr);
        ended
    }

    /// As `good`, for a command that measures. A client that other tests disturb is late, and says so with exit code 3 or 4; then
    /// it measures again, and what was good before is cached.
    pub fn good_when_undisturbed(&self, words: &[&str]) -> Ended {
        for _ in 0..3 {
            let ended = self.regatta(words);
            if ![3, 4].contains(&ended.code) {
                assert_eq!(ended.code, 0, "{words:?}\n{}\n{}", ended.stdout, ended.stderr);
                return ended;
            }
        }
        self.good(words)
    }

    /// Starts it and lets it run.
    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("regatta")
    }

    /// Waits until a stage has said something by making this file: a handshake, with a deadline for a broken one.
    pub fn await_file(&self, name: &str) {
        let path = self.path(name);
        until(&format!("{} to appear", path.display()), || path.exists());
    }

    /// How often a stage that appends a line to this file has run.
    pub fn count(&self, name: &str) -> usize {
        fs::read_to_string(self.path(name)).map_or(0, |text| text.lines().count())
    }

    /// The journal of the newest run; empty before the first.
    pub fn newest_journal(&self) -> String {
        let runs = fs::read_dir(self.path(".regatta/runs")).into_iter().flatten().flatten();
        let newest = runs.map(|run| run.path()).max();
        newest.and_then(|run| fs::read_to_string(run.join("journal.jsonl")).ok()).unwrap_or_default()
    }

    /// The decisions of `regatta plan m --json`: task id → decision.
    pub fn decisions(&self, words: &[&str]) -> Vec<(String, String)> {
        let mut all = vec!["plan", "m", "--json"];
        all.extend(words);
        let plan: serde_json::Value = serde_json::from_str(&self.good(&all).stdout).expect("JSON");
        let text = |v: &serde_json::Value| v.as_str().expect("a text").to_owned();
        plan["tasks"].as_array().expect("tasks").iter().map(|t| (text(&t["id"]), text(&t["decision"]))).collect()
    }

    /// Ids of the tasks that the plan says will run.
    pub fn will_run(&self, words: &[&str]) -> Vec<String> {
        self.decisions(words).into_iter().filter(|(_, d)| d == "run").map(|(id, _)| id).collect()
    }
}

impl Ended {
    /// Waits for its end. One that waits for what never comes is killed, and the test fails.
    #[track_caller]
    pub fn of(child: Child) -> Self {
        let pid = child.id();
        let (ended, end) = mpsc::channel::<()>();
        let limit = std::thread::spawn(move || {
            let is_late = end.recv_timeout(LONGEST_COMMAND) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
            is_late
        });
        let output = child.wait_with_output().expect("an end");
        drop(ended);
        assert!(!limit.join().expect("a thread"), "killed after {LONGEST_COMMAND:?}: {output:?}");
        Self {
            // 128 + n as a shell would say it, should a signal have ended it.
            code: output
                .status
                .code()
                .unwrap_or_else(|| 128 + std::os::unix::process::ExitStatusExt::signal(&output.status).unwrap_or(0)),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    #[track_caller]
    pub fn shows(&self, text: &str) -> &Self {
        let all = format!("{}{}", self.stdout, self.stderr);
        assert!(all.contains(text), "expected {text:?} in:\n{all}");
        self
    }

    /// Tasks that ran, from the plain lines.
    pub fn ran(&self) -> Vec<String> {
        let lines = self.stdout.lines().filter_map(|line| line.strip_prefix("✓ "));
        let mut ran: Vec<String> = lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
        ran.sort();
        ran.dedup();
        ran
    }
}

/// Waits for something that another process does.
#[track_caller]
pub fn until(what: &str, is: impl FnMut() -> bool) {
    until_within(Duration::from_mins(1), what, is);
}

/// The same, for so long at most.
#[track_caller]
pub fn until_within(limit: Duration, what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !is() {
        assert!(Instant::now() < deadline, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().expect("kill");
    assert!(done.success());
}

/// Signals a process that is no child.
pub fn signal_pid(pid: i32, name: &str) {
    let done = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().expect("kill");
    assert!(done.success());
}

/// Living processes whose environment holds this text (a world's folder is in the environment of all its processes).
pub fn alive_with(text: impl AsRef<OsStr>) -> Vec<(i32, String)> {
    let text = text.as_ref().as_encoded_bytes().to_vec();
    let mut found = Vec::new();
    for item in fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = item.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let mut environ = Vec::new();
        let Ok(mut file) = fs::File::open(item.path().join("environ")) else { continue };
        if file.read_to_end(&mut environ).is_err() || !environ.windows(text.len()).any(|w| w == text) {
            continue;
        }
        let stat = fs::read_to_string(item.path().join("stat")).unwrap_or_default();
        let zombie = stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        let command = fs::read(item.path().join("cmdline")).unwrap_or_default();
        if !zombie && pid != std::process::id() as i32 {
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}
