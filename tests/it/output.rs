//! What is printed arrives, or the exit code says that it did not: full disks, closed pipes, warnings.

use std::fs::OpenOptions;
use std::process::Stdio;

use pretty_assertions::assert_eq;

use crate::world::{Ended, World};

const TWO_STAGES: &str = "stages:\n  a: { shell: echo one }\n  b: { shell: echo two, needs: [a] }\n";

/// Commands that print and do nothing else.
const PRINT: [&[&str]; 9] = [
    &["--help"],
    &["--version"],
    &["run", "--help"],
    &["completions", "bash"],
    &["schema"],
    &["list"],
    &["plan", "m"],
    &["show", "m"],
    &["status"],
];

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

/// A pipe whose reader has left.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn output_that_is_lost_is_an_error() {
    let world = World::with(TWO_STAGES);
    world.good(&["run", "m"]);
    for words in PRINT {
        let child = world.command(words).stdout(full()).stderr(Stdio::piped()).spawn().expect("regatta");
        let ended = Ended::of(child);
        assert_eq!(ended.code, 1, "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stderr, "error: cannot write to stdout: No space left on device (os error 28)\n", "{words:?}");
    }
}

#[test]
fn a_closed_pipe_is_quiet() {
    let world = World::with(TWO_STAGES);
    world.good(&["run", "m"]);
    for words in PRINT {
        let child = world.command(words).stdout(closed()).stderr(Stdio::piped()).spawn().expect("regatta");
        let ended = Ended::of(child);
        assert_eq!((ended.code, ended.stderr.as_str()), (141, ""), "{words:?}");
    }
}

#[test]
fn a_run_goes_on_without_its_reader_and_reports_a_full_disk() {
    let world = World::new();
    world.manifest("m", &format!("stages:\n  a: {{ shell: echo x >> {} }}\n", world.path("ran").display()));
    let run = |to: Stdio| {
        let words = ["run", "m", "--force"];
        Ended::of(world.command(&words).stdout(to).stderr(Stdio::piped()).spawn().expect("regatta"))
    };
    let ended = run(closed());
    assert_eq!((ended.code, ended.stderr.as_str(), world.count("ran")), (0, "", 1));
    let ended = run(full());
    assert_eq!((ended.code, world.count("ran")), (1, 2));
    assert!(ended.stderr.contains("cannot write to stdout: No space left on device"), "{}", ended.stderr);
    let failing = "stages:\n  a: { shell: exit 3 }\n";
    world.manifest("m", failing);
    assert_eq!(run(closed()).code, 1);
}

#[test]
fn a_wrong_command_line_keeps_its_code_when_its_message_is_lost() {
    let world = World::with(TWO_STAGES);
    for words in [&["run", "nothing"][..], &["plan", "m", "--nonsense"]] {
        let child = world.command(words).stdout(Stdio::piped()).stderr(full()).spawn().expect("regatta");
        assert_eq!(Ended::of(child).code, 2, "{words:?}");
    }
}

#[test]
fn warnings_are_printed_wherever_a_verdict_is() {
    let world = World::new();
    let bench = ["bench", "sim:", "--offline", "-n", "6", "--isl", "8", "--osl", "2"];
    let quiet = [&bench[..], &["-q"]].concat();
    for (words, mark) in [(&bench[..], "! "), (&quiet, "! bench  warning: ")] {
        let ended = world.regatta(words);
        let warning = "samples: p99 of 6 requests is their maximum";
        ended.shows(&format!("{mark}{warning}"));
        assert_eq!(ended.stdout.matches(warning).count(), 1, "{}", ended.stdout);
        world.good(&["status"]).shows(&format!("warning: {warning}"));
    }
}
