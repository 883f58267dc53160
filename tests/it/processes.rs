//! Starting a command and stopping it for certain.

use std::fs;
use std::path::Path;
use std::time::Duration;

use regatta::event::Stop;
use regatta::process::{Command, How, Running, run};
use tempfile::TempDir;

fn shell(dir: &TempDir, text: &str) -> Command {
    Command::new(["/bin/sh", "-c", text], dir.path(), dir.path().join("log"))
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
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.lines().next().unwrap_or_default().to_owned(),
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

#[tokio::test]
async fn output_goes_to_the_log_and_the_exit_code_comes_back() {
    let dir = folder();
    let exit = run(shell(&dir, "echo out; echo err >&2; exit 3"), &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, How::Code(3));
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
    assert_eq!(exit.how, How::Signal(9));
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let dir = folder();
    let missing = Command::new(["/no/such/program"], dir.path(), dir.path().join("log"));
    assert_eq!(
        run(missing, &Stop::new(), |_| {}).await.unwrap_err().to_string(),
        "`/no/such/program` was not found in PATH"
    );
    let nowhere = Command::new(["true"], "/no/such/folder", dir.path().join("log"));
    let error = run(nowhere, &Stop::new(), |_| {}).await.unwrap_err().to_string();
    assert!(error.starts_with("the folder /no/such/folder to run in cannot be used"), "{error}");
    fs::write(dir.path().join("script"), "#!/no/such/interpreter\n").unwrap();
    let plain = Command::new(["./script"], dir.path(), dir.path().join("log"));
    let error = run(plain, &Stop::new(), |_| {}).await.unwrap_err().to_string();
    assert!(error.ends_with("script` is not executable"), "{error}");
}

#[tokio::test]
async fn a_timeout_stops_it() {
    let dir = folder();
    let command = shell(&dir, "sleep 1000").timeout(Some(Duration::from_millis(50)));
    let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, How::TimedOut);
}

#[tokio::test]
async fn who_ignores_term_is_killed_after_the_grace_with_its_children() {
    let dir = folder();
    let stop = Stop::new();
    let text = "trap '' TERM; sleep 1000 & echo $! > child; while :; do sleep 1000; done";
    let command = shell(&dir, text).grace(Duration::from_millis(50));
    let (exit, child) = tokio::join!(run(command, &stop, |_| {}), async {
        let child = line_in(&dir.path().join("child")).await;
        stop.gently();
        child
    });
    assert_eq!(exit.unwrap().how, How::Stopped);
    assert!(!lives(child.parse().unwrap()));
}

#[tokio::test]
async fn the_hard_stop_does_not_wait_for_the_grace() {
    let dir = folder();
    let stop = Stop::new();
    let command =
        shell(&dir, "trap '' TERM; echo up > up; while :; do sleep 1000; done").grace(Duration::from_secs(3600));
    let (exit, ()) = tokio::join!(run(command, &stop, |_| {}), async {
        line_in(&dir.path().join("up")).await;
        stop.gently();
        stop.now();
    });
    assert_eq!(exit.unwrap().how, How::Stopped);
}

#[tokio::test]
async fn a_stop_lets_it_finish_what_it_must() {
    let dir = folder();
    let stop = Stop::new();
    let command = shell(&dir, "trap 'echo bye; exit 0' TERM; echo up > up; while :; do sleep 0.01; done");
    let (exit, ()) = tokio::join!(run(command, &stop, |_| {}), async {
        line_in(&dir.path().join("up")).await;
        stop.gently();
    });
    assert_eq!(exit.unwrap().how, How::Stopped);
    assert_eq!(log(&dir), "bye\n");
}

#[tokio::test]
async fn a_stop_before_the_start_starts_nothing() {
    let dir = folder();
    let stop = Stop::new();
    stop.gently();
    let exit = run(shell(&dir, "echo no > no"), &stop, |_| {}).await.unwrap();
    assert_eq!(exit.how, How::Stopped);
    assert!(!dir.path().join("no").exists());
}

#[tokio::test]
async fn a_background_process_is_ended_and_named_and_does_not_hang_us() {
    for secrets in [vec![], vec!["hush".to_owned()]] {
        let dir = folder();
        let command = shell(&dir, "sleep 1000 & echo $!").secrets(secrets);
        let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
        assert_eq!(exit.how, How::Code(0));
        let pid: i32 = log(&dir).trim().parse().unwrap();
        let names: Vec<_> = exit.leftovers.iter().map(|leftover| (leftover.pid, leftover.command.as_str())).collect();
        assert_eq!(names, [(pid, "sleep 1000")]);
        assert!(!lives(pid));
    }
}

#[tokio::test]
async fn no_secret_reaches_the_log() {
    let dir = folder();
    let command = shell(&dir, "printf 'token=hun'; printf 'ter2\\n'; yes hunter2 | head -20000; echo end")
        .secrets(vec!["hunter2".to_owned()]);
    let exit = run(command, &Stop::new(), |_| {}).await.unwrap();
    assert_eq!(exit.how, How::Code(0));
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
    assert_eq!(exit.how, How::Signal(15));
    assert!(!lives(pid));
}

#[tokio::test]
async fn a_dropped_command_is_killed() {
    let dir = folder();
    let server = Running::start(shell(&dir, "exec sleep 1000")).unwrap();
    let pid = server.pgid();
    drop(server);
    while lives(pid) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
