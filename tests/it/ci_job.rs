//! What a run leaves for other programs: the list of runs, JUnit XML, and the summary of a CI job.

use regatta::event::Event;
use regatta::runner::store::{last_run, read_journal};
use serde_json::Value;

use crate::campaign::home;
use crate::world::World;

const BODY: &str = "stages:\n  good: { shell: 'true' }\n  bad: { shell: 'echo no disk >&2; exit 3' }\n  after: { needs: [bad], shell: 'true' }\n";

#[test]
fn runs_are_listed_newest_first_and_filtered() {
    let world = World::new();
    world.manifest("one", "stages:\n  a: { shell: 'true' }\n");
    world.manifest("two", BODY);
    world.good(&["run", "one"]);
    world.regatta(&["run", "two", "--keep-going"]);
    let list = |words: &[&str]| -> Vec<(String, String)> {
        let all: Vec<&str> = ["runs", "--json"].iter().chain(words).copied().collect();
        let json: Value = serde_json::from_str(&world.good(&all).stdout).unwrap();
        let text = |row: &Value, key: &str| row[key].as_str().unwrap().to_owned();
        json["runs"].as_array().unwrap().iter().map(|row| (text(row, "manifest"), text(row, "state"))).collect()
    };
    let row = |manifest: &str, state: &str| (manifest.to_owned(), state.to_owned());
    assert_eq!(list(&[]), [row("two", "failed"), row("one", "done")]);
    assert_eq!(list(&["--failed"]), [row("two", "failed")]);
    assert_eq!(list(&["one"]), [row("one", "done")]);
    assert_eq!(list(&["-n", "1"]).len(), 1);
    world.good(&["runs"]).shows("1 failed").shows("one");
}

#[test]
fn a_ci_job_gets_junit_and_a_summary() {
    let mut world = World::new();
    world.env("GITHUB_STEP_SUMMARY", "summary.md");
    world.file("summary.md", "an earlier step\n").manifest("two", BODY);
    let ended = world.regatta(&["run", "two", "--keep-going", "--junit", "report.xml"]);
    assert_ne!(ended.code, 0);
    let xml = world.read("report.xml");
    assert!(xml.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
    assert!(
        xml.contains("<testcase classname=\"two\" name=\"bad\"") && xml.contains("<failure message=\"exit code 3\">"),
        "{xml}"
    );
    let summary = world.read("summary.md");
    assert!(summary.starts_with("an earlier step\n### two: failed"), "{summary}");
    assert!(summary.contains("**bad** failed: exit code 3"), "{summary}");
    // Also where nothing has to run.
    world.manifest("one", "stages:\n  a: { shell: 'true' }\n");
    world.good(&["run", "one"]);
    world.good(&["run", "one", "--junit", "again.xml"]);
    assert!(world.read("again.xml").contains("tests=\"1\" failures=\"0\""));
}

#[test]
fn a_junit_file_that_cannot_be_written_fails_the_command() {
    let world = World::new();
    world.manifest("one", "stages:\n  a: { shell: 'true' }\n").manifest("bad", "stages:\n  a: { shell: 'exit 3' }\n");
    // Without a folder for it nothing is started.
    let bench = ["bench", "sim:", "-n", "3", "--osl", "4", "--junit", "absent/x.xml"];
    for words in [&["run", "one", "--junit", "absent/x.xml"][..], &bench] {
        let ended = world.regatta(words);
        assert_eq!(ended.code, 2, "{ended:?}");
        ended.shows("`--junit absent/x.xml`: there is no folder absent");
    }
    assert!(!world.path(".regatta/runs").exists());
    let ended = world.regatta(&["run", "one", "--junit", "/dev/full"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("error: cannot write /dev/full: ");
    let run = last_run(&home(&world)).unwrap().unwrap();
    let events = read_journal(&home(&world).run(&run).join("journal.jsonl")).unwrap().events;
    assert!(matches!(events.last(), Some(Event::RunFinished { exit: 1, .. })), "{:?}", events.last());
    // No process reads it: the end of the run does not wait for one.
    assert!(std::process::Command::new("mkfifo").arg(world.path("pipe")).status().unwrap().success());
    let ended = world.regatta(&["run", "one", "--junit", "pipe"]);
    assert_eq!(ended.code, 1, "{ended:?}");
    ended.shows("error: cannot write pipe: no process reads it");
}

#[test]
fn a_report_that_cannot_be_written_is_named() {
    let mut world = World::new();
    let folder = world.path("");
    world.env("W", folder);
    world.manifest(
        "m",
        "stages:\n  a: { shell: 'for run in \"$W\"/.regatta/runs/*; do mkdir \"$run/report.html\"; done' }\n",
    );
    world.good(&["run", "m"]).shows("warning: this run has no report: cannot write").shows("report.html");
}
