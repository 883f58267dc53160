//! `regatta mlperf` and the `package` stage from a manifest.

use std::fmt::Write as _;

use super::fixture::{BENCHMARK, Runs, SCENARIOS, good, measurements, system_json};
use crate::world::World;

/// Stages that leave what LoadGen's runs would, and the package of them.
pub(super) fn manifest(rehearse: bool) -> String {
    manifest_with(&format!("rehearse: {rehearse}"))
}

/// With one more line under `package`.
fn manifest_with(more: &str) -> String {
    let mut stages = String::new();
    let mut results = String::new();
    for scenario in SCENARIOS.map(str::to_lowercase) {
        for name in ["performance", "accuracy", "test06", "score", "verify"] {
            let _ = write!(
                stages,
                "  {scenario}_{name}:\n    inputs: {{ run: runs/{scenario}/{name} }}\n    shell: cp -r {{{{ inputs.run }}}}/. .\n"
            );
        }
        let out = |name: &str| format!("\"{{{{ stages.{scenario}_{name}.out }}}}\"");
        let _ = writeln!(
            results,
            "          - {{ benchmark: {BENCHMARK}, scenario: {scenario}, performance: {}, accuracy: {}, score: {}, audits: {{ test06: {} }}, verified: {{ test06: {} }} }}",
            out("performance"),
            out("accuracy"),
            out("score"),
            out("test06"),
            out("verify")
        );
    }
    format!(
        "{stages}  package:\n    mlperf:\n      package:\n        round: v6.1\n        submitter: Example\n        system: box\n        {more}\n        system_json: {}\n        measurements: {}\n        results:\n{results}",
        system_json(),
        measurements()
    )
}

#[test]
fn a_manifest_packs_a_submission_that_the_gate_passes() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{}", manifest(false)));
    world.good(&["run", "m"]).shows("3 results in closed/Example, the submission check passes it");
    let lock: serde_json::Value =
        serde_json::from_str(&world.read("latest/package/closed/Example/documentation/regatta.lock")).unwrap();
    assert_eq!(lock["stages"].as_array().unwrap().len(), 15);
    assert_eq!(lock["results"][0]["runs"]["performance"]["task"], "offline_performance");
    let readme = world.read(format!("latest/package/closed/Example/results/box/{BENCHMARK}/Server/README.md"));
    assert!(readme.contains("regatta run m --until server_performance"), "{readme}");
    world
        .good(&["mlperf", "check", "latest/package"])
        .shows("3 results for v6.1: MLCommons would accept it, 2 for review");
}

/// What a package holds is enough to plan its README's line in a bare folder: the manifest, what it includes, and the
/// submitter's own system. Files that are not in it are named.
#[test]
fn a_package_is_planned_again_from_what_it_holds() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    let stages = manifest(false).replace("submitter: Example", "submitter: \"{{ organization }}\"");
    world.file("manifests/parts/stages.yaml", &format!("regatta: 1\nstages:\n{stages}"));
    let system = "system: { about: the machine, catalog: ., default: mine }";
    let pipeline = format!("regatta: 1\nname: m\ninclude: [../parts/stages.yaml]\nparams:\n  {system}\n");
    world.file("manifests/m/pipeline.yaml", &pipeline);
    world.file("manifests/m/mine.yaml", "regatta: 1\nvars: { organization: Example }\n");
    world.good(&["run", "m", "system=mine"]);

    let packed = "latest/package/closed/Example";
    let readme = world.read(format!("{packed}/results/box/{BENCHMARK}/Server/README.md"));
    assert!(readme.contains("In `src/box` of the submitter's folder"), "{readme}");
    let line = readme.lines().find_map(|line| line.strip_prefix("regatta run ")).unwrap();
    assert_eq!(line, "m system=mine");
    let origin = world.read(format!("{packed}/src/box/README.md"));
    assert!(origin.contains("SHA-256 of the program ") && origin.contains("- run: "), "{origin}");

    let (bare, above) = (World::new(), world.path(format!("{packed}/src/box")));
    for item in walkdir::WalkDir::new(&above).into_iter().flatten().filter(|item| item.file_type().is_file()) {
        let name = item.path().strip_prefix(&above).unwrap();
        bare.file(name.to_str().unwrap(), &std::fs::read_to_string(item.path()).unwrap());
    }
    let planned = bare.good(&[&["plan"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
    planned.shows("16 to run").shows("interactive_performance  will fail: input run: ").shows("does not exist");
}

#[test]
fn a_table_tells_how_far_each_result_is_and_what_brings_it_forward() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{}", manifest(false)));
    let none = world.regatta(&["mlperf", "status"]);
    assert_eq!(none.code, 2);
    none.shows("nothing has run in this folder yet");
    insta::assert_snapshot!(world.good(&["mlperf", "status", "m"]).stdout, @r#"
    system  benchmark        scenario     performance  accuracy  audit    package
    box     llama2-70b-99.9  Offline      missing      missing   missing  missing
    box     llama2-70b-99.9  Server       missing      missing   missing  missing
    box     llama2-70b-99.9  Interactive  missing      missing   missing  missing

    forward:
      llama2-70b-99.9 Offline performance      regatta run m --until offline_performance
      llama2-70b-99.9 Offline accuracy         regatta run m --until offline_score
      llama2-70b-99.9 Offline audit            regatta run m --until offline_verify
      package                                  regatta run m --until package
      llama2-70b-99.9 Server performance       regatta run m --until server_performance
      llama2-70b-99.9 Server accuracy          regatta run m --until server_score
      llama2-70b-99.9 Server audit             regatta run m --until server_verify
      llama2-70b-99.9 Interactive performance  regatta run m --until interactive_performance
      llama2-70b-99.9 Interactive accuracy     regatta run m --until interactive_score
      llama2-70b-99.9 Interactive audit        regatta run m --until interactive_verify
    "#);
    world.good(&["run", "m"]);
    insta::assert_snapshot!(world.good(&["mlperf", "status"]).stdout, @r#"
    system  benchmark        scenario     performance             accuracy                                       audit  package
    box     llama2-70b-99.9  Offline      done 11287 tok/s VALID  done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   done submittable
    box     llama2-70b-99.9  Server       done 11940 tok/s VALID  done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   done submittable
    box     llama2-70b-99.9  Interactive  done 11852 tok/s VALID  done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   done submittable
    "#);
    // A run of the server is made anew: what is made of it is stale, and the others are not.
    world.file("runs/server/performance/note", "again");
    insta::assert_snapshot!(world.good(&["mlperf", "status", "m"]).stdout, @r#"
    system  benchmark        scenario     performance              accuracy                                       audit  package
    box     llama2-70b-99.9  Offline      done 11287 tok/s VALID   done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   stale submittable
    box     llama2-70b-99.9  Server       stale 11940 tok/s VALID  done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   stale submittable
    box     llama2-70b-99.9  Interactive  done 11852 tok/s VALID   done {'rouge1': 44.4542, 'rouge2': 22.0419, …  done   stale submittable

    forward:
      package                             regatta run m --until package
      llama2-70b-99.9 Server performance  regatta run m --until server_performance
    "#);
    let status: serde_json::Value =
        serde_json::from_str(&world.good(&["mlperf", "status", "m", "--json"]).stdout).unwrap();
    assert_eq!(status["results"][1]["performance"]["state"], "stale");
    assert_eq!(status["results"][1]["performance"]["why"], "server_performance: input run changed");
    let nothing = world.regatta(&["mlperf", "status", "quickstart"]);
    assert_eq!(nothing.code, 2);
    nothing.shows("quickstart has no stages of MLPerf");
    let nothing = world.regatta(&["mlperf", "status", "llama2-70b"]);
    assert_eq!(nothing.code, 2);
    nothing.shows("llama2-70b runs no LoadGen and packs nothing with these arguments").shows("package=true");
}

/// What the README of a package says makes it again is what made it, wherever a value was set.
#[test]
fn the_commands_of_a_package_make_the_same_keys() {
    let mut world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    world.file(
        "manifests/file-name.yaml",
        &format!(
            "regatta: 1\nname: another-name\nparams:\n  hosts: {{ list: any, default: [a], env: HOSTS_OF_THE_TEST }}\n  systems: {{ list: [x, y], default: [x] }}\n  note: {{ path: optional }}\n  greeting: {{ text: {{}}, default: hello }}\nvars:\n  tuning: {{ rate: 1 }}\nstages:\n  seen:\n    foreach: {{ system: '{{{{ systems }}}}' }}\n    shell: echo '{{{{ hosts }}}} {{{{ system }}}} {{{{ note or \"-\" }}}} {{{{ greeting }}}} {{{{ tuning.rate }}}}' > seen\n{}",
            manifest(false)
        ),
    );
    world.env("HOSTS_OF_THE_TEST", "h1,h2");
    world.good(&["run", "file-name", "systems=x,y", "greeting=good morning", "tuning.rate=2.5"]);
    let readme = world.read(format!("latest/package/closed/Example/results/box/{BENCHMARK}/Server/README.md"));
    let commands: Vec<&str> = readme.lines().filter(|line| line.starts_with("regatta run ")).collect();
    assert_eq!(commands.len(), 4, "{readme}");
    for command in commands {
        let planned = command.replacen("regatta run", "\"$REGATTA\" plan", 1);
        let ended = std::process::Command::new("sh")
            .args(["-c", &planned])
            .env("REGATTA", env!("CARGO_BIN_EXE_regatta"))
            .env_remove("HOSTS_OF_THE_TEST")
            .current_dir(world.path(""))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && text.contains(" 0 to run"), "{command}\n{ended:?}");
    }
    // The state of the last run needs no more arguments, either.
    world.good(&["mlperf", "status"]).shows("done submittable");
}

#[test]
fn what_only_a_person_knows_is_asked_for_in_a_file_to_paste() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    let manifest =
        manifest(false).replace(", \"weight_data_types\":\"fp8\"", "").replace(",\"weight_data_types\":\"fp8\"", "");
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{manifest}"));
    let refused = world.regatta(&["run", "m"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.shows("values that are not known (1): weight_data_types").shows("missing.yaml has them");
    let kept = world.read(".regatta/failed/package/missing.yaml");
    assert_eq!(
        kept,
        "mlperf:\n  package:\n    measurements:\n      weight_data_types:   # types of the weights as they are served, e.g. fp8\n"
    );
}

/// The runner's records say that the accuracy run was of another engine than the performance run.
#[test]
fn runs_of_two_engines_are_no_result() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    let engine = |name: &str, batch: u32| {
        format!(
            "  {name}:\n    engine:\n      backend: simulator\n      precision: fp8\n      model: {{ name: x, architecture: LlamaForCausalLM, parameters: 1000000, num_hidden_layers: 2, hidden_size: 64, intermediate_size: 128, num_attention_heads: 4, num_key_value_heads: 4, vocab_size: 1000, max_position_embeddings: 2048 }}\n      system: {{ name: x, gpus: 1, memory_gb: 80, bandwidth_gbs: 2000, tflops_16bit: 900 }}\n      build_flags: {{ max_batch_size: {batch} }}\n"
        )
    };
    let with = |other: &str| {
        let mut stages = engine("one", 8) + &engine("other", 16) + &manifest(false);
        for (name, engine) in [("performance", "one"), ("accuracy", other), ("test06", "one")] {
            let run = format!("run: runs/server/{name} }}\n    shell: cp -r {{{{ inputs.run }}}}/. .");
            assert!(stages.contains(&run));
            stages = stages.replace(&run, &format!("{run} && test -d {{{{ stages.{engine}.out }}}}"));
        }
        world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{stages}"));
        world.regatta(&["run", "m"])
    };
    let refused = with("other");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.shows("1 of 3 findings keep it from being submitted").shows("the accuracy run had another `engine`");
    let same = with("one");
    assert_eq!(same.code, 0, "{}{}", same.stdout, same.stderr);
    let lock = world.read("latest/package/closed/Example/documentation/regatta.lock");
    let lock: serde_json::Value = serde_json::from_str(&lock).unwrap();
    let server = &lock["results"][1]["runs"];
    assert_eq!(server["performance"]["under_test"]["engine"].as_array().unwrap().len(), 1);
    assert_eq!(server["performance"]["under_test"], server["accuracy"]["under_test"]);
}

#[test]
fn a_rehearsal_is_packed_and_refused() {
    let world = World::new();
    Runs::new(&world.path("runs"), |test| test["rehearsal"] = serde_json::json!(true));
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{}", manifest(true)));
    world.good(&["run", "m"]).shows("REHEARSAL, not for submission: 3 results in closed/Example");
    let checked = world.regatta(&["mlperf", "check", "latest/package"]);
    assert_eq!(checked.code, 1, "{}", checked.stderr);
    checked.shows("refused rehearsal: this package is a rehearsal").shows("Server       11940 tok/s  VALID REHEARSAL");
    // Regatta's record beside LoadGen's logs is of a simulated server.
    let record = include_str!("../../golden/results/benchmark/result.json");
    world.file("runs/server/performance/result.json", record);
    world.good(&["run", "m"]);
    let checked = world.regatta(&["mlperf", "check", "latest/package", "--csv", "results.csv", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&checked.stdout).unwrap();
    let server = &report["examined"]["results"][2];
    assert_eq!(
        (&server["scenario"], &server["simulated"], &server["rehearsal"]),
        (&"Server".into(), &true.into(), &true.into())
    );
    let table = world.read("results.csv");
    assert!(
        table.contains("simulated,rehearsal,refused,objections\n") && table.contains(",true,true,true,"),
        "{table}"
    );
    let status = world.good(&["mlperf", "status", "m"]);
    status.shows("11940 tok/s VALID SIMULATED REHEARSAL").shows("11287 tok/s VALID REHEARSAL");
    let both = world.good(&["mlperf", "diff", "latest/package", "latest/package"]);
    both.shows("Server       11940 tok/s VALID SIMULATED REHEARSAL");

    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{}", manifest(false)));
    let refused = world.regatta(&["run", "m"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.shows("is a rehearsal with shortened durations");
}

/// A rehearsal may leave scenarios and scores out; a submission would be refused for it as well.
#[test]
fn a_rehearsal_counts_what_a_submission_would_lack_apart() {
    let world = World::new();
    Runs::new(&world.path("runs"), |test| test["rehearsal"] = serde_json::json!(true));
    let is_left_out = |line: &&str| line.contains("{ benchmark: ") && !line.contains("scenario: offline");
    let offline: Vec<String> = manifest(true).lines().filter(|line| !is_left_out(line)).map(str::to_owned).collect();
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{}\n", offline.join("\n")));
    let scores = "runs/offline/score/accuracy.txt";
    let without = world.read(scores).replace(", 'tokens_per_sample': 294.0", "");
    world.file(scores, &without);
    world
        .good(&["run", "m"])
        .shows("REHEARSAL, not for submission: 1 result in closed/Example")
        .shows(" findings because of it, 2 that a submission would have, too: missing scenario, missing score");
}

/// A script in the place of the official checker, run by `sh` as if that were Python.
#[test]
fn the_official_checker_is_asked_and_its_errors_are_folded_in() {
    let world = World::new();
    Runs::new(&world.path("runs"), |_| ());
    let manifest = manifest_with("checker: inference\n        python: sh");
    world.file("manifests/m.yaml", &format!("regatta: 1\nname: m\nstages:\n{manifest}"));
    let script = "inference/tools/submission/submission_checker/main.py";
    world.file(script, "echo \"[now main.py:1 INFO] $*\"; echo 'INFO:main:SUMMARY: submission looks OK'");
    world.good(&["run", "m"]).shows(
        "3 results in closed/Example, the submission check passes it, 2 findings for review, the official checker passes it",
    );
    let package: serde_json::Value = serde_json::from_str(&world.read("latest/package/.regatta/package.json")).unwrap();
    assert_eq!(package["submittable"], true);
    assert_eq!(
        package["official"]["last"][0],
        "[now main.py:1 INFO] --input . --version v6.1 --csv .regatta/official.csv"
    );

    world.file(
        script,
        "echo '[now x.py:1 ERROR] closed/Example is odd'; echo 'ERROR:main:SUMMARY: submission has errors'; exit 1",
    );
    let refused = world.regatta(&["run", "m"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.shows("the official checker refuses it").shows("official checker: closed/Example is odd");

    world.file(script, "echo 'ModuleNotFoundError: numpy' >&2; exit 1");
    let refused = world.regatta(&["run", "m"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    refused.shows("the official checker did not finish").shows("ModuleNotFoundError: numpy");
}

/// Of a benchmark that was not looked at nothing is said but that.
#[test]
fn a_submission_with_other_benchmarks_is_not_called_accepted() {
    let world = World::new();
    let submission = good(&world.path("a"));
    std::fs::create_dir_all(submission.of("../whisper/Offline/performance")).unwrap();
    world.good(&["mlperf", "check", "a"]).shows("\nnot examined: whisper: it hears speech\n").shows(
        "\n3 results for v6.1: MLCommons would accept these; not examined: 1 × whisper (run the official checker)",
    );
    let report: serde_json::Value =
        serde_json::from_str(&world.good(&["mlperf", "check", "a", "--json"]).stdout).unwrap();
    assert_eq!((&report["submittable"], &report["refused"]), (&serde_json::Value::Null, &0.into()));
}

#[test]
fn a_folder_is_checked_and_held_against_another() {
    let world = World::new();
    good(&world.path("a"));
    let b = good(&world.path("b"));
    world.good(&["mlperf", "check", "a"]).shows("3 results for v6.1: MLCommons would accept it");
    b.field(&b.system(), "framework", Some("TensorRT-LLM 1.0".into()));
    b.replace(&b.of("Server/user.conf"), "40.5", "44.5");
    let report: serde_json::Value =
        serde_json::from_str(&world.good(&["mlperf", "check", "b", "--json"]).stdout).unwrap();
    assert_eq!((&report["submittable"], &report["for_review"]), (&true.into(), &1.into()));
    assert_eq!(report["examined"]["findings"][0]["check"], "user.conf");
    world.good(&["mlperf", "check", "b"]).shows("1 for review (1 contradiction; `--review` prints them)");
    world.good(&["mlperf", "check", "b", "--review"]).shows("  review user.conf: line 1: it sets target_qps = 44.5");
    b.set("Server/performance/run_1", "result_completed_tokens_per_second", &serde_json::json!(13_134.2));
    let refused = world.regatta(&["mlperf", "check", "b"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    let ended = world.good(&["mlperf", "diff", "a", "b"]);
    insta::assert_snapshot!(ended.stdout, @r#"
    A  a
    B  b

                                 A                  B                  B/A
    llama2-70b-99.9 Interactive  11852 tok/s VALID  11852 tok/s VALID  1.000
    llama2-70b-99.9 Offline      11287 tok/s VALID  11287 tok/s VALID  1.000
    llama2-70b-99.9 Server       11940 tok/s VALID  13134 tok/s VALID  1.100

    llama2-70b-99.9 Server
      user.conf llama2-70b.Server.target_qps  40.5  44.5

    system
      framework  TensorRT-LLM 0.20, CUDA 12.9  TensorRT-LLM 1.0
    "#);
    world.good(&["mlperf", "check", "a", "--round", "6.1"]).shows("3 results for v6.1");
    for inside in ["a/closed", "a/closed/Example"] {
        let none = world.regatta(&["mlperf", "check", inside]);
        assert_eq!(none.code, 1, "{none:?}");
        none.shows("do:  check a, which holds the divisions");
    }
    let none = world.regatta(&["mlperf", "check", "nowhere"]);
    assert_eq!(none.code, 2);
    none.shows("nowhere: no such folder");
    world.file("empty/x", "");
    let none = world.regatta(&["mlperf", "check", "empty"]);
    assert_eq!(none.code, 2);
    none.shows("its round is unknown");
}
