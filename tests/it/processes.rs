//! Starting a command and stopping it for certain.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use regatta::event::{Event, RunId, Stop, TaskId};
use regatta::exec::process::{
    ExitKind, ProcessCommand, Running, WatchdogHandle, adopt_orphans, end_leftovers, mark_descendants, run, sweep,
};
use tempfile::TempDir;

use crate::world::{World, until};

fn shell(dir: &TempDir, text: &str) -> ProcessCommand {
    ProcessCommand::new(["/bin/sh", "-c", text], dir.path(), dir.path().join("log"))
}

fn log(dir: &TempDir) -> String {
    fs::read_to_string(dir.path().join("log")).unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Alive and not a zombie.
fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| Some(!stat.rsplit_once(") ")?.1.starts_with('Z')))
        .unwrap_or(false)
}

/// Waits until a file is there and complete (it ends in a line break); gives its first line.
async fn line_in(path: &Path) -> String {
    let mut text = String::new();
    wait_until(&format!("a line in {}", path.display()), || {
        text = fs::read_to_string(path).unwrap_or_default();
        text.ends_with('\n')
    })
    .await;
    text.lines().next().unwrap_or_default().to_owned()
}

/// Waits for something that another process does, while the runtime goes on.
async fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !is() {
        assert!(Instant::now() < deadline, "waited a minute for {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn output_goes_to_the_log_and_the_exit_code_comes_back() {
    let dir = folder();
    let exit = run(shell(&dir, "echo out; echo err >&2; exit 3"), &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, ExitKind::Code(3));
    assert_eq!(exit.leftovers, []);
    assert_eq!(log(&dir), "out\nerr\n");
}

#[tokio::test]
async fn a_command_has_nothing_on_its_standard_input_and_its_own_group() {
    let dir = folder();
    let mut group = 0;
    let text = "cat; echo $$; ps -o pgid= -p $$ | tr -d ' '";
    run(shell(&dir, text), &Stop::new(), |pgid| group = pgid).await.unwrap();
    assert_eq!(log(&dir), format!("{group}\n{group}\n"));
}

#[tokio::test]
async fn the_environment_is_ours_with_changes() {
    let dir = folder();
    let command = shell(&dir, "echo ${HOME:+home} $MORE ${PATH:-nopath}").set("MORE", "more").remove("PATH");
    run(command, &Stop::new(), |_| {}).await.unwrap();
    // Some shells give themselves a default PATH; ours must not come through.
    assert!(log(&dir).starts_with("home more "), "{}", log(&dir));
    assert!(!log(&dir).contains(&std::env::var("PATH").unwrap()));
}

#[tokio::test]
async fn a_killed_command_says_by_which_signal() {
    let dir = folder();
    let exit = run(shell(&dir, "kill -9 $$"), &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, ExitKind::Signal(9));
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let dir = folder();
    let missing = ProcessCommand::new(["/no/such/program"], dir.path(), dir.path().join("log"));
    assert_eq!(
        run(missing, &Stop::new(), |_| {}).await.unwrap_err().to_string(),
        "`/no/such/program` was not found in PATH"
    );
    let nowhere = ProcessCommand::new(["true"], "/no/such/folder", dir.path().join("log"));
    let error = run(nowhere, &Stop::new(), |_| {}).await.unwrap_err().to_string();
    assert!(error.starts_with("the folder /no/such/folder to run in cannot be used"), "{error}");
    fs::write(dir.path().join("script"), "#!/no/such/interpreter\n").unwrap();
    let plain = ProcessCommand::new(["./script"], dir.path(), dir.path().join("log"));
    let error = run(plain, &Stop::new(), |_| {}).await.unwrap_err().to_string();
    assert!(error.ends_with("script` is not executable"), "{error}");
}

#[tokio::test]
async fn who_ignores_term_is_killed_after_the_grace_with_its_children() {
    let dir = folder();
    let stop = Stop::new();
    let text = "trap '' TERM; sleep 1000 & echo $! > child; while :; do sleep 1000; done";
    let command = ProcessCommand { grace: Duration::from_millis(50), ..shell(&dir, text) };
    let (exit, child) = tokio::join!(run(command, &stop, |_| {}), async {
        let child = line_in(&dir.path().join("child")).await;
        stop.request();
        child
    });
    assert_eq!(exit.unwrap().how, ExitKind::Stopped);
    assert!(!lives(child.parse().unwrap()));
}

#[tokio::test]
async fn the_hard_stop_does_not_wait_for_the_grace() {
    let dir = folder();
    let stop = Stop::new();
    let text = "trap '' TERM; echo up > up; while :; do sleep 1000; done";
    let command = ProcessCommand { grace: Duration::from_hours(1), ..shell(&dir, text) };
    let (exit, ()) = tokio::join!(run(command, &stop, |_| {}), async {
        line_in(&dir.path().join("up")).await;
        stop.request();
        stop.now();
    });
    assert_eq!(exit.unwrap().how, ExitKind::Stopped);
}

#[tokio::test]
async fn a_stop_lets_it_finish_what_it_must() {
    let dir = folder();
    let stop = Stop::new();
    let command = shell(&dir, "trap 'echo bye; exit 0' TERM; echo up > up; while :; do sleep 0.01; done");
    let (exit, ()) = tokio::join!(run(command, &stop, |_| {}), async {
        line_in(&dir.path().join("up")).await;
        stop.request();
    });
    assert_eq!(exit.unwrap().how, ExitKind::Stopped);
    assert!(log(&dir).ends_with("bye\n"), "{}", log(&dir));
}

#[tokio::test]
async fn a_stop_before_the_start_starts_nothing() {
    let dir = folder();
    let stop = Stop::new();
    stop.request();
    let exit = run(shell(&dir, "echo no > no"), &stop, |_| {}).await.unwrap();
    assert_eq!(exit.how, ExitKind::Stopped);
    assert!(!dir.path().join("no").exists());
}

#[tokio::test]
async fn a_background_process_is_ended_and_named_and_does_not_hang_us() {
    for secrets in [vec![], vec!["hush".to_owned()]] {
        let dir = folder();
        let command = ProcessCommand { secrets, ..shell(&dir, "sleep 1000 & echo $!") };
        let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
        assert_eq!(exit.how, ExitKind::Code(0));
        let pid: i32 = log(&dir).trim().parse().unwrap();
        let [leftover] = &exit.leftovers[..] else { panic!("{:?}", exit.leftovers) };
        assert_eq!(leftover.pid, pid);
        assert!(leftover.command.contains("sleep 1000"), "{}", leftover.command);
        assert!(!lives(pid));
    }
}

#[tokio::test]
async fn no_secret_reaches_the_log() {
    let dir = folder();
    let text = "printf 'token=hun'; printf 'ter2\\n'; yes hunter2 | head -20000; echo end";
    let command = ProcessCommand { secrets: vec!["hunter2".to_owned()], ..shell(&dir, text) };
    let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, ExitKind::Code(0));
    let log = log(&dir);
    assert!(!log.contains("hunter2"));
    assert_eq!(log.lines().count(), 20_002);
    assert!(log.starts_with("token=***\n***\n"), "{}", &log[..40]);
    assert!(log.ends_with("***\nend\n"));
}

#[tokio::test]
async fn a_service_can_be_watched_and_stopped() {
    let dir = folder();
    let mut server = Running::start(shell(&dir, "echo ready; exec sleep 1000")).unwrap();
    let log = dir.path().join("log");
    tokio::select! {
        how = server.ended() => panic!("{how:?}"),
        line = line_in(&log) => assert_eq!(line, "ready"),
    }
    assert_eq!(server.tail(5), ["ready"]);
    let pid = server.pgid();
    let exit = server.stop(Duration::from_secs(5), &Stop::new()).await;
    assert_eq!(exit.how, ExitKind::Signal(15));
    assert!(!lives(pid));
}

#[tokio::test]
async fn a_dropped_command_is_killed() {
    let dir = folder();
    let server = Running::start(shell(&dir, "exec sleep 1000")).unwrap();
    let pid = server.pgid();
    drop(server);
    wait_until("the command to be killed", || !lives(pid)).await;
}

/// Runs one of the ignored tests of this file in a process of its own.
fn alone(test: &str, home: &Path) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("processes::{test}"), "--ignored", "--nocapture"]).env(ALONE, home);
    command
}

const ALONE: &str = "REGATTA_TEST_FOLDER";

fn alone_in() -> Option<std::path::PathBuf> {
    std::env::var_os(ALONE).map(Into::into)
}

#[test]
fn no_process_escapes_a_runner_that_adopts_orphans() {
    let dir = folder();
    let output = alone("in_its_own_process_escapers_are_ended", dir.path()).output().unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{text}");
}

#[tokio::test]
#[ignore = "another test runs it in a process of its own"]
async fn in_its_own_process_escapers_are_ended() {
    if alone_in().is_none() {
        return;
    }
    adopt_orphans().unwrap();
    // A daemon: forks, leaves the session, forks again, holds the output open, ignores TERM.
    let daemon = r#"(setsid sh -c '(trap "" TERM; echo $$ > pid.tmp; while :; do sleep 1000; done) & echo $! > daemon.tmp; mv daemon.tmp daemon' &); while ! [ -e daemon ]; do sleep 0.01; done; echo done"#;
    for secrets in [vec![], vec!["hush".to_owned()]] {
        let dir = folder();
        let command = ProcessCommand { secrets, ..shell(&dir, daemon) };
        let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
        assert_eq!(exit.how, ExitKind::Code(0));
        assert_eq!(log(&dir), "done\n");
        let pid: i32 = fs::read_to_string(dir.path().join("daemon")).unwrap().trim().parse().unwrap();
        assert!(exit.leftovers.iter().any(|leftover| leftover.pid == pid), "{:?}", exit.leftovers);
        assert!(!lives(pid));
    }
    // What one command left must not be blamed on another that ends while the first still runs.
    let dir = folder();
    let other = folder();
    let patient = r"(setsid sh -c 'echo $$ > daemon; exec sleep 1000' &); while ! [ -e go ]; do sleep 0.01; done";
    let stop = Stop::new();
    let (first, second) = tokio::join!(run(shell(&dir, patient), &stop, |_| {}), async {
        let daemon = {
            let file = dir.path().join("daemon");
            line_in(&file).await
        };
        let exit = run(shell(&other, "true"), &stop, |_| {}).await;
        assert!(lives(daemon.parse().unwrap()));
        fs::write(dir.path().join("go"), "").unwrap();
        exit
    });
    assert_eq!(first.unwrap().leftovers.len(), 1);
    assert_eq!(second.unwrap().leftovers, []);
    // Who cleans its environment has no mark; the sweep at the end finds it.
    let dir = folder();
    // It has left the group before its shell ends, or it would end with that.
    let escaper = "(setsid env -i sh -c 'echo > up; exec sleep 1000' &); while ! [ -e up ]; do sleep 0.01; done";
    let exit = run(shell(&dir, escaper), &Stop::new(), |_| {}).await.unwrap();
    let swept = sweep(Duration::from_secs(5)).await;
    assert!(!exit.leftovers.is_empty() || !swept.is_empty());
    assert_eq!(sweep(Duration::ZERO).await, []);
}

#[test]
fn when_the_runner_is_killed_its_watchdog_ends_everything_and_then_frees_the_lock() {
    let dir = folder();
    let mut runner = alone("in_its_own_process_a_runner_waits_to_be_killed", dir.path()).spawn().unwrap();
    let up = dir.path().join("up");
    until("the runner to be up", || {
        assert!(runner.try_wait().unwrap().is_none(), "the runner ended");
        up.exists()
    });
    runner.kill().unwrap();
    runner.wait().unwrap();
    let lock = fs::File::open(dir.path().join("lock")).unwrap();
    until("the lock to be free", || {
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_ok()
    });
    for name in ["registered", "unregistered", "escaped", "emptied"] {
        let pid = fs::read_to_string(dir.path().join(name)).unwrap().trim().parse().unwrap();
        assert!(!lives(pid), "{name}");
    }
}

#[tokio::test]
#[ignore = "another test runs it in a process of its own, and kills it"]
async fn in_its_own_process_a_runner_waits_to_be_killed() {
    let Some(home) = alone_in() else { return };
    adopt_orphans().unwrap();
    let lock = fs::File::create(home.join("lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let name = RunId::new(format!("test-{}", std::process::id()));
    let watchdog = WatchdogHandle::start(Path::new(env!("CARGO_BIN_EXE_regatta")), &name, lock, |_| {}).unwrap();
    let command = |text: &str| ProcessCommand::new(["/bin/sh", "-c", text], &home, home.join("log"));
    let deaf = "trap '' TERM; echo $$ > registered; while :; do sleep 1000; done";
    let registered = Running::start(command(deaf)).unwrap();
    watchdog.follow(&Event::ProcessStarted { task: TaskId::new("registered"), pgid: registered.pgid() });
    mark_descendants(&home, &name);
    // It left its group, its parent and its environment.
    let emptying = "(setsid env -i sh -c 'echo $$ > emptied; exec sleep 1000' &)
        while ! [ -s emptied ]; do sleep 0.01; done";
    assert_eq!(Running::start(command(emptying)).unwrap().wait().await.how, ExitKind::Code(0));
    let marked =
        command("echo $$ > unregistered; (setsid sh -c 'echo $$ > escaped; exec sleep 1000' &); exec sleep 1000");
    let unregistered = Running::start(marked.set("REGATTA_RUN", name.as_str())).unwrap();
    for file in ["registered", "unregistered", "escaped", "emptied"] {
        line_in(&home.join(file)).await;
    }
    fs::write(home.join("up"), "").unwrap();
    std::future::pending::<()>().await;
    drop((registered, unregistered));
}

#[tokio::test]
async fn a_run_that_ends_in_order_sends_its_watchdog_away() {
    let dir = folder();
    let hold = fs::File::create(dir.path().join("lock")).unwrap();
    let name = RunId::new(format!("test-bye-{}", std::process::id()));
    let watchdog = WatchdogHandle::start(Path::new(env!("CARGO_BIN_EXE_regatta")), &name, hold, |_| {}).unwrap();
    let mut server = Running::start(shell(&dir, "exec sleep 1000").set("REGATTA_RUN", name.as_str())).unwrap();
    watchdog.follow(&Event::ProcessStarted { task: TaskId::new("server"), pgid: server.pgid() });
    watchdog.finish();
    // It was told that all is well, so it did not touch what still runs.
    assert!(tokio::time::timeout(Duration::ZERO, server.ended()).await.is_err());
}

#[tokio::test]
async fn the_next_run_ends_what_a_dead_run_left() {
    let dir = folder();
    let home = dir.path().join("state");
    let mark = |command: ProcessCommand, run: &str| command.set("REGATTA_HOME", &home).set("REGATTA_RUN", run);
    let old = Running::start(mark(shell(&dir, "exec sleep 1000"), "old")).unwrap();
    let mut new = Running::start(mark(shell(&dir, "exec sleep 1000"), "new")).unwrap();
    let pid = old.pgid();
    let found = tokio::task::spawn_blocking(move || end_leftovers(&home, &RunId::new("new"))).await.unwrap();
    assert_eq!(found.iter().map(|leftover| leftover.pid).collect::<Vec<_>>(), [pid]);
    assert_eq!(old.wait().await.how, ExitKind::Signal(15));
    assert!(tokio::time::timeout(Duration::ZERO, new.ended()).await.is_err());
}

#[test]
fn the_next_run_ends_what_a_dead_run_left_without_an_environment() {
    let dir = folder();
    let output = alone("in_its_own_process_an_emptied_environment_is_left_and_ended", dir.path()).output().unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "{text}");
}

#[tokio::test]
#[ignore = "another test runs it in a process of its own: the mark is of the whole process"]
async fn in_its_own_process_an_emptied_environment_is_left_and_ended() {
    let Some(folder) = alone_in() else { return };
    let home = folder.join("state");
    let emptied = |name: &str| {
        let text = format!("(setsid env -i sh -c 'echo $$ > {name}; exec sleep 1000' &)");
        ProcessCommand::new(["/bin/sh", "-c", &text], &folder, folder.join("log"))
    };
    let mut pids = Vec::new();
    for (run, project) in [("old", &home), ("new", &home), ("old", &folder)] {
        mark_descendants(project, &RunId::new(run));
        let name = format!("{run}{}", pids.len());
        let started = Running::start(emptied(&name)).unwrap();
        pids.push(line_in(&folder.join(&name)).await.parse::<i32>().unwrap());
        drop(started);
    }
    let ended = tokio::task::spawn_blocking(move || end_leftovers(&home, &RunId::new("new"))).await.unwrap();
    // Neither the run itself nor a run of another project.
    assert_eq!(ended.iter().map(|leftover| leftover.pid).collect::<Vec<_>>(), pids[..1]);
    assert_eq!(pids.iter().map(|&pid| lives(pid)).collect::<Vec<_>>(), [false, true, true]);
    for pid in &pids[1..] {
        rustix::process::kill_process(rustix::process::Pid::from_raw(*pid).unwrap(), rustix::process::Signal::KILL)
            .unwrap();
    }
}

/// `read`, `sudo`, `ssh` and `docker login` open the terminal themselves: closing the standard input is not enough.
#[test]
fn a_stage_that_asks_at_the_terminal_fails_and_does_not_wait() {
    let world = World::with("stages:\n  ask: { shell: \"read answer < /dev/tty\" }\n");
    let line = format!("timeout 60 {} run m --color never", env!("CARGO_BIN_EXE_regatta"));
    let mut command = std::process::Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).current_dir(world.path("")).stdin(std::process::Stdio::null());
    let ended = command.output().expect("a terminal");
    assert_eq!(ended.status.code(), Some(1), "{}", String::from_utf8_lossy(&ended.stdout));
}
