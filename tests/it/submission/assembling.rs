//! `regatta mlperf assemble`: several systems, and logs of other harnesses, as one submission.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::fixture::{
    BENCHMARK, Runs, SCENARIOS, SCORES, SYSTEM, Submission, VERIFIED, audit_log, good, long_log, measurements, run,
    system_json, user_conf, write,
};
use super::official;
use crate::world::World;

/// A submission that is right, of another system.
fn other(root: &Path, system: &str) -> Submission {
    let made = good(root);
    fs::rename(made.at("results").join(SYSTEM), made.at("results").join(system)).unwrap();
    let mut fields = system_json();
    fields["system_name"] = system.into();
    fields["accelerator_model_name"] = "NVIDIA B200".into();
    fs::remove_file(made.system()).unwrap();
    write(made.at("systems").join(format!("{system}.json")), format!("{fields:#}"));
    write(made.at("src/README.md"), "how the other one was made\n");
    // Its runs were runs of their own.
    for item in walkdir::WalkDir::new(made.at("results")).into_iter().flatten() {
        if item.file_name() == "mlperf_log_detail.txt" {
            made.replace(item.path(), "\"pid\":1,", "\"pid\":2,");
        }
    }
    made
}

#[test]
fn two_systems_become_one_submission_that_the_gate_passes() {
    let world = World::new();
    good(&world.path("a"));
    other(&world.path("b"), "crate_b200x8");
    let arguments = ["mlperf", "assemble", "--out", "whole", "--csv", "results.csv", "a", "b"];
    let assembled = world.good(&arguments);
    assembled.shows("6 results for v6.1: MLCommons would accept it");
    assert!(!assembled.stdout.contains("for review"), "{}", assembled.stdout);
    // Sources of the second that have another content are beside those of the first.
    assert_eq!(world.read("whole/closed/Example/src/README.md"), "how it was made\n");
    assert_eq!(world.read("whole/closed/Example/src/crate_b200x8/README.md"), "how the other one was made\n");
    let table = world.read("results.csv");
    assert_eq!(table.lines().count(), 7, "{table}");
    assert!(table.contains(&format!("v6.1,closed,Example,crate_b200x8,{BENCHMARK},Server,")), "{table}");
    if let Some(printed) = official::check(&world.path("whole"), "v6.1") {
        assert!(regatta::mlperf::Official::parse(&printed).passed, "{printed}");
    }
    // It is not written over, and its systems are told apart by what they are.
    let again = world.regatta(&arguments);
    assert_eq!(again.code, 2);
    again.shows("whole: it is not empty").shows("`--out` names a new folder");
    let renamed = other(&world.path("c"), "shed_b200x8");
    renamed.field(&renamed.at("systems/shed_b200x8.json"), "accelerator_model_name", Some("B200-SXM-180GB".into()));
    world.good(&["mlperf", "diff", "whole", "c"]).shows(&format!("crate_b200x8 ↔ shed_b200x8 {BENCHMARK} Server"));
}

/// The upload is what tar and sha1sum read, has the divisions alone, and is the same each time.
#[test]
fn an_archive_for_the_upload_holds_the_divisions_and_has_its_checksum_beside_it() {
    let world = World::new();
    good(&world.path("a"));
    let assemble = |out: &str, archive: &str| {
        world.regatta(&["mlperf", "assemble", "--out", out, "--archive", archive, "--round", "v6.1", "a"])
    };
    let made = assemble("one", "mlperf_submission_Example.tar.gz");
    assert_eq!(made.code, 0, "{made:?}");
    made.shows("mlperf_submission_Example.tar.gz: ").shows("its SHA-1 is in mlperf_submission_Example.sha1");
    let run = |program: &str, arguments: &[&str]| {
        let ended = std::process::Command::new(program).args(arguments).current_dir(world.path("")).output().unwrap();
        assert!(ended.status.success(), "{program}: {}", String::from_utf8_lossy(&ended.stderr));
        String::from_utf8(ended.stdout).unwrap()
    };
    run("sha1sum", &["--check", "mlperf_submission_Example.sha1"]);
    let names = run("tar", &["-tzf", "mlperf_submission_Example.tar.gz"]);
    assert!(names.lines().all(|name| name.starts_with("closed/")), "{names}");
    fs::create_dir(world.path("unpacked")).unwrap();
    run("tar", &["-xzf", "mlperf_submission_Example.tar.gz", "-C", "unpacked"]);
    run("diff", &["--recursive", "one/closed", "unpacked/closed"]);
    assemble("two", "again.tar.gz");
    assert!(
        fs::read(world.path("again.tar.gz")).unwrap()
            == fs::read(world.path("mlperf_submission_Example.tar.gz")).unwrap()
    );
    // Not of what is refused, and not under another name.
    let named = assemble("three", "upload.zip");
    assert_eq!(named.code, 2, "{named:?}");
    named.shows("`upload.zip` does not end with .tar.gz");
    let a = Submission(world.path("a"));
    a.set("Server/performance/run_1", "result_validity", &json!("INVALID"));
    let refused = assemble("four", "refused.tar.gz");
    assert_eq!(refused.code, 1, "{refused:?}");
    refused.shows("refused.tar.gz is not written: the submission is refused");
    assert!(!world.path("refused.tar.gz").exists());
}

#[test]
fn parts_that_disagree_are_all_named_and_nothing_is_written() {
    let world = World::new();
    good(&world.path("a"));
    let b = good(&world.path("b"));
    b.field(&b.system(), "cooling", Some("liquid-cooled".into()));
    b.replace(&b.of("Server/user.conf"), "40.5", "44.5");
    let refused = world.regatta(&["mlperf", "assemble", "--out", "whole", "a", "b"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    refused.shows(&format!("systems/{SYSTEM}.json: a/closed")).shows("Server/user.conf: a/closed");
    assert!(!world.path("whole").exists());
    // The same documentation for all is named once.
    world.file("texts/calibration.md", "one text\n");
    other(&world.path("c"), "crate");
    world.file("c/closed/Example/documentation/calibration.md", "another text\n");
    let refused = world.regatta(&["mlperf", "assemble", "--out", "whole", "a", "c"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    refused.shows("documentation/calibration.md: a/closed");
    world.good(&["mlperf", "assemble", "--out", "whole", "--documentation", "texts", "a", "c"]);
    assert_eq!(world.read("whole/closed/Example/documentation/calibration.md"), "one text\n");
    let none = world.regatta(&["mlperf", "assemble", "--out", "x", "texts"]);
    assert_eq!(none.code, 2);
    none.shows("nor latest/package");
}

/// Packages that Regatta made keep their provenance, each system its own.
#[test]
fn packages_keep_their_records_and_a_changed_file_is_found() {
    let world = World::new();
    for system in ["box", "crate"] {
        let project = format!("{system}-project");
        Runs::new(&world.path(format!("{project}/runs")), |_| ());
        let manifest = super::standing::manifest(false).replace("system: box", &format!("system: {system}"));
        world.file(&format!("{project}/manifests/m.yaml"), &format!("regatta: 1\nname: m\nstages:\n{manifest}"));
        let ended = world.command(&["run", "m"]).current_dir(world.path(&project)).status().unwrap();
        assert!(ended.success(), "{system}");
    }
    world.file("texts/calibration.md", "how both were calibrated\n");
    let arguments = ["--documentation", "texts", "box-project", "crate-project"];
    world
        .good(&[&["mlperf", "assemble", "--out", "whole"], &arguments[..]].concat())
        .shows("6 results for v6.1: MLCommons would accept it");
    for system in ["box", "crate"] {
        let lock: Value =
            serde_json::from_str(&world.read(format!("whole/closed/Example/documentation/regatta.{system}.lock")))
                .unwrap();
        assert_eq!((&lock["system"], lock["results"].as_array().unwrap().len()), (&json!(system), 3));
    }
    let conf = world.path(format!("whole/closed/Example/results/crate/{BENCHMARK}/Server/user.conf"));
    let text = fs::read_to_string(&conf).unwrap().replace("40.5", "40.6");
    write(&conf, text);
    let refused = world.regatta(&["mlperf", "check", "whole"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    refused.shows("refused changed file");
    // A system without a record among those that have one was put there by hand.
    fs::remove_file(world.path("whole/closed/Example/documentation/regatta.crate.lock")).unwrap();
    world.regatta(&["mlperf", "check", "whole"]).shows("regatta.lock has no entry for the system crate");
}

/// Logs as a harness leaves them: no tree, accuracy logs whole and without a hash.
#[test]
fn logs_of_another_harness_are_packed() {
    let world = World::new();
    good(&world.path("a"));
    let mut fields = system_json();
    fields["system_name"] = "crate".into();
    world.file("crate.json", &format!("{fields:#}"));
    let mut arguments = vec!["mlperf".to_owned(), "assemble".into(), "--out".into(), "whole".into(), "a".into()];
    for scenario in SCENARIOS {
        let folder = world.path("logs").join(scenario);
        run(&folder.join("performance"), scenario, "performance");
        run(&folder.join("accuracy"), scenario, "accuracy");
        write(folder.join("accuracy/mlperf_log_accuracy.json"), long_log(scenario));
        write(folder.join("accuracy/accuracy.txt"), format!("{scenario}\n{SCORES}"));
        write(folder.join("TEST06/verify_accuracy.txt"), VERIFIED);
        write(folder.join("TEST06/accuracy/mlperf_log_accuracy.json"), audit_log(scenario));
        write(folder.join("user.conf"), user_conf(scenario));
        write(folder.join("measurements.json"), format!("{:#}", measurements()));
        write(folder.join("mlperf.conf"), "# as LoadGen has it\n");
        write(folder.join("dmesg.txt"), "of the machine\n");
        arguments.extend(["--logs".to_owned(), format!("crate.json:{BENCHMARK}:{scenario}=logs/{scenario}")]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let assembled = world.good(&arguments);
    assembled.shows("6 results for v6.1: MLCommons would accept it");
    assembled.shows("left out, since a submission has no place for it: logs/Server/dmesg.txt");
    let conf = world.read(format!("whole/closed/Example/results/crate/{BENCHMARK}/Server/mlperf.conf"));
    assert_eq!(conf, "# as LoadGen has it\n");
    let scores = world.read(format!("whole/closed/Example/results/crate/{BENCHMARK}/Server/accuracy/accuracy.txt"));
    assert!(scores.contains(&format!("hash={}", super::fixture::sha256(long_log("Server").as_bytes()))), "{scores}");
    if let Some(printed) = official::check(&world.path("whole"), "v6.1") {
        assert!(regatta::mlperf::Official::parse(&printed).passed, "{printed}");
    }
    // What is missing is named, all of it.
    fs::remove_file(world.path("logs/Server/user.conf")).unwrap();
    fs::remove_dir_all(world.path("logs/Offline/TEST06")).unwrap();
    let refused = world.regatta(&[&["mlperf", "assemble", "--out", "x"], &arguments[4..]].concat());
    assert_eq!(refused.code, 2, "{refused:?}");
    refused.shows("logs/Server/user.conf is missing").shows("logs/Offline/TEST06/verify_accuracy.txt is missing");
    let wrong = world.regatta(&["mlperf", "assemble", "--out", "x", "--logs", "crate.json=logs/Server"]);
    assert_eq!(wrong.code, 2);
    wrong.shows("it is SYSTEM.json:BENCHMARK:SCENARIO=FOLDER");
    // In another order, and with the logs beside one another.
    let logs = format!("{BENCHMARK}:Server:crate.json=logs/Server");
    let wrong = world.regatta(&["mlperf", "assemble", "--out", "x", "--logs", &logs]);
    assert_eq!(wrong.code, 2);
    wrong.shows("the description of the system comes first");
    run(&world.path("flat"), "Server", "performance");
    let logs = format!("crate.json:{BENCHMARK}:Server=flat");
    let wrong = world.regatta(&["mlperf", "assemble", "--out", "x", "--logs", &logs]);
    assert_eq!(wrong.code, 2);
    wrong.shows("error: flat: found mlperf_log_detail.txt in it: the logs of the performance run belong into performance/run_1/");
    assert!(!wrong.stderr.contains("is missing"), "{}", wrong.stderr);
}

/// Open has no audit tests, and in Closed the answers of TEST06 may stay at home.
#[test]
fn logs_of_another_harness_need_no_more_of_an_audit_than_the_checkers_ask_for() {
    for division in ["open", "closed"] {
        let world = World::new();
        let mut fields = system_json();
        fields["division"] = division.into();
        world.file("crate.json", &format!("{fields:#}"));
        let mut arguments = vec!["mlperf".to_owned(), "assemble".into(), "--out".into(), "whole".into()];
        for scenario in SCENARIOS {
            let folder = world.path("logs").join(scenario);
            run(&folder.join("performance/run_1"), scenario, "performance");
            run(&folder.join("accuracy"), scenario, "accuracy");
            write(folder.join("accuracy/mlperf_log_accuracy.json"), long_log(scenario));
            write(folder.join("accuracy/accuracy.txt"), format!("{scenario}\n{SCORES}"));
            if division == "closed" {
                write(folder.join("TEST06/verify_accuracy.txt"), VERIFIED);
            }
            write(folder.join("src/README.md"), "how it was made\n");
            write(folder.join("user.conf"), user_conf(scenario));
            write(folder.join("measurements.json"), format!("{:#}", measurements()));
            arguments.extend(["--logs".to_owned(), format!("crate.json:{BENCHMARK}:{scenario}=logs/{scenario}")]);
        }
        world.file("texts/calibration.md", "how it was calibrated\n");
        arguments.extend(["--documentation".to_owned(), "texts".to_owned()]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        world.good(&arguments).shows("3 results for v6.1: MLCommons would accept it");
        assert_eq!(
            world.path(format!("whole/{division}/Example/results/crate/{BENCHMARK}/Server/TEST06")).exists(),
            division == "closed"
        );
    }
}

/// The logs are of v6.1, where 99 % is no benchmark: in v6.0 both are refused, for the same reasons.
#[test]
fn a_result_for_99_9_percent_is_one_for_99_too_where_the_round_has_both() {
    let world = World::new();
    good(&world.path("a"));
    let ended = world.regatta(&["mlperf", "assemble", "--out", "v6.0", "--round", "v6.0", "--also-99", "--json", "a"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let results = report["examined"]["results"].as_array().unwrap();
    let of = |name: &str| results.iter().filter(|result| result["benchmark"] == name).count();
    assert_eq!((of("llama2-70b-99.9"), of("llama2-70b-99")), (3, 3), "{report:#}");
    let findings = report["examined"]["findings"].as_array().unwrap();
    let reasons = |name: &str| {
        let place = format!("/{name}");
        let ours = findings.iter().filter(|finding| {
            let text = finding["place"].as_str().unwrap();
            text.contains(&format!("{place}/")) || text.ends_with(&place)
        });
        let mut checks: Vec<&str> = ours.map(|finding| finding["check"].as_str().unwrap()).collect();
        checks.sort_unstable();
        checks
    };
    assert_eq!(reasons("llama2-70b-99.9"), reasons("llama2-70b-99"));
    assert!(!findings.iter().any(|finding| finding["check"] == "reused log"), "they share their runs: {findings:#?}");
    world.good(&["mlperf", "assemble", "--out", "v6.1", "--also-99", "a"]).shows("3 results for v6.1");
}
