//! What a run leaves for other programs: the list of runs, JUnit XML, and the summary of a CI job.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

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

/// The GitHub action, as a runner executes it: its steps in order, each in bash, with inputs in their variables.
struct ActionRun {
    world: World,
    inputs: BTreeMap<&'static str, String>,
}

impl ActionRun {
    /// In a project with two results, and a program that only the input names.
    fn new() -> Self {
        let world = World::new();
        for side in ["before", "after"] {
            let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/guides/compare.in").join(side);
            let copied = Command::new("cp").arg("-r").arg(results).arg(world.path(side)).status();
            assert!(copied.expect("cp").success());
        }
        world.file("bin/regatta", &format!("#!/bin/sh\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_regatta")));
        // Stands in for curl, which runners have: releases are in files here.
        world.file("tools/curl", "#!/bin/sh\nfor url; do :; done\ncp \"${url#file://}\" .\n");
        let made = Command::new("chmod").arg("+x").args([world.path("bin/regatta"), world.path("tools/curl")]).status();
        assert!(made.expect("chmod").success());
        let program = world.path("bin/regatta").display().to_string();
        Self { world, inputs: BTreeMap::from([("inputs.program", program)]) }
    }

    fn input(mut self, name: &'static str, value: &str) -> Self {
        self.inputs.insert(name, value.to_owned());
        self
    }

    /// The exit code of the last step that ran. GitHub ends at the first that fails.
    fn run(&self) -> i32 {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release/action");
        let text = std::fs::read_to_string(folder.join("action.yml")).unwrap();
        let action: Value = serde_yaml::from_str(&text).unwrap();
        let mut path = format!("{}:/usr/bin:/bin", self.world.path("tools").display());
        for step in action["runs"]["steps"].as_array().unwrap() {
            assert_eq!(step["shell"], "bash");
            let mut command = Command::new("bash");
            command.args(["-e", "-o", "pipefail", "-c", step["run"].as_str().unwrap()]);
            command.current_dir(self.world.path("")).env_clear().env("PATH", &path).env("GITHUB_ACTION_PATH", &folder);
            command.env("RUNNER_TEMP", self.world.path("")).env("HOME", self.world.path(""));
            for name in ["GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
                command.env(name, self.world.path(name));
            }
            for (name, value) in step["env"].as_object().unwrap() {
                command.env(name, self.value(&action, value.as_str().unwrap()));
            }
            let ended = command.output().unwrap();
            if !ended.status.success() {
                return ended.status.code().unwrap();
            }
            let added = std::fs::read_to_string(self.world.path("GITHUB_PATH")).unwrap();
            path = added.lines().fold(path, |path, folder| format!("{folder}:{path}"));
        }
        0
    }

    /// A text of the action with its expressions replaced. Every input that it uses is declared.
    fn value(&self, action: &Value, text: &str) -> String {
        let mut parts = text.split("${{ ");
        let mut out = parts.next().unwrap().to_owned();
        for part in parts {
            let (name, rest) = part.split_once(" }}").unwrap();
            let usual = match name.strip_prefix("inputs.") {
                Some(input) => {
                    let declared = action["inputs"][input].as_object().expect("a declared input");
                    declared.get("default").and_then(Value::as_str)
                }
                None => None,
            };
            out += self.inputs.get(name).map(String::as_str).or(usual).unwrap_or_else(|| panic!("{name} has no value"));
            out += rest;
        }
        out
    }
}

/// The values of its context that a workflow does not give.
fn of_github(run: ActionRun, server: &str) -> ActionRun {
    run.input("github.server_url", server)
        .input("github.action_repository", "o/regatta")
        .input("github.action_ref", "v1")
}

#[test]
fn the_action_measures_and_summarizes() {
    let run = of_github(ActionRun::new(), "https://unused").input("inputs.run", "bench 'sim:' -n 5 --osl 4 --rate 20");
    let code = run.run();
    assert!([0, 3, 4].contains(&code), "{code}");
    assert!(run.world.path("regatta-result/result.json").exists());
    let summary = run.world.read("GITHUB_STEP_SUMMARY");
    assert!(summary.starts_with("### bench: done in ") && summary.contains("req/s"), "{summary}");
    assert_eq!(run.world.read("GITHUB_OUTPUT"), format!("comparison=\nexit-code={code}\n"));
}

#[test]
fn the_action_compares_with_a_baseline_and_fails_by_its_conditions() {
    let good = |condition: &str| {
        of_github(ActionRun::new(), "https://unused")
            .input("inputs.run", "check --help")
            .input("inputs.baseline", "before")
            .input("inputs.result", "after")
            .input("inputs.fail-if", condition)
    };
    let run = good("ttft_p99 > +50%\n");
    assert_eq!(run.run(), 0);
    let comparison = run.world.read("regatta-comparison.md");
    assert!(comparison.starts_with("### Regatta: compared with the baseline\n\n````text\n"), "{comparison}");
    assert!(comparison.contains("TTFT") && comparison.ends_with("````\n"), "{comparison}");
    assert!(run.world.read("GITHUB_STEP_SUMMARY").ends_with(&comparison));
    assert!(run.world.read("GITHUB_OUTPUT").contains("regatta-comparison.md\nexit-code=0\n"));
    let run = good("ttft_p99 > +50%\ntpot_mean > +1%");
    assert_eq!(run.run(), 7);
    let comparison = run.world.read("regatta-comparison.md");
    assert!(
        comparison.starts_with("### Regatta: the comparison with the baseline failed (exit code 7)"),
        "{comparison}"
    );
    assert!(comparison.contains("tpot_mean>1%") && run.world.read("GITHUB_OUTPUT").ends_with("exit-code=7\n"));
}

/// Without a program the action takes the tarball of its own release, and checks its digest.
#[test]
fn the_action_installs_the_release_of_its_own_tag() {
    let run = ActionRun::new();
    let server = format!("file://{}", run.world.path("server").display());
    let run = of_github(run, &server).input("inputs.run", "check --help").input("inputs.program", "");
    let release = run.world.path("server/o/regatta/releases/download/v1");
    std::fs::create_dir_all(&release).unwrap();
    let pack = "name=regatta-1-$(uname -m)-unknown-linux-gnu; mkdir $name; cp -r ../../../../../../bin $name; \
        tar -czf $name.tar.gz $name; sha256sum $name.tar.gz >SHA256SUMS";
    assert!(Command::new("sh").args(["-euc", pack]).current_dir(&release).status().unwrap().success());
    assert_eq!(run.run(), 0);
    assert!(run.world.read("GITHUB_PATH").ends_with("/regatta/bin\n"));
    let spoil = "printf x | tee -a regatta-1-*.tar.gz";
    assert!(Command::new("sh").args(["-euc", spoil]).current_dir(&release).status().unwrap().success());
    assert_ne!(run.run(), 0);
}
