//! From outputs of stages to the result directory.

use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use regatta::mlperf::{self, PackageEntry, PackageRequest, Unpacked};
use regatta::rules::{MlperfScenario, Round};
use serde_json::{Map, Value, json};

use super::fixture::{
    BENCHMARK, Runs, SCENARIOS, SYSTEM, long_log, measure_power, measurements, rescheduled, system_json, write,
};
use regatta::spec::{Division, TestMode};

fn order(runs: &Runs) -> PackageRequest {
    write(runs.0.join("documentation/calibration.md"), "how it was calibrated\n");
    let scenarios = [MlperfScenario::Offline, MlperfScenario::Server, MlperfScenario::Interactive];
    let results = scenarios.map(|scenario| {
        let of = |name: &str| runs.of(scenario.title(), name);
        PackageEntry {
            benchmark: BENCHMARK.to_owned(),
            copy_of: None,
            scenario,
            performance: of("performance"),
            accuracy: of("accuracy"),
            score: of("score"),
            audits: [(TestMode::Test06, of("test06"))].into_iter().collect(),
            verified: [(TestMode::Test06, of("verify"))].into_iter().collect(),
        }
    });
    let object = |value: Value| value.as_object().unwrap().clone();
    PackageRequest {
        round: Round::named("v6.1").unwrap(),
        division: Division::Closed,
        submitter: "Example".to_owned(),
        system: SYSTEM.to_owned(),
        system_json: object(system_json()),
        measurements: object(measurements()),
        machine: Some(runs.0.join("no machine")),
        gpus: Vec::new(),
        results: results.into(),
        source: None,
        documentation: Some(runs.0.join("documentation")),
        rehearse: false,
        version: "0.1.0".to_owned(),
        manifest_files: vec![("manifests/llama2-70b/pipeline.yaml".into(), "regatta: 1\n".to_owned())],
        command: "regatta run llama2-70b package=true system=box".to_owned(),
        upstream_tasks: Vec::new(),
    }
}

fn files(root: &Path) -> Vec<String> {
    let walk = walkdir::WalkDir::new(root).sort_by_file_name().into_iter().flatten();
    walk.filter(|item| item.file_type().is_file())
        .map(|item| item.path().strip_prefix(root).unwrap().display().to_string())
        .collect()
}

#[test]
fn what_is_packed_passes_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |_| ());
    let out = folder.path().join("out");
    let order = order(&runs);
    mlperf::pack(&order, &out).unwrap();
    let examined = mlperf::examine(&out, &order.round);
    assert_eq!(examined.findings, []);
    assert_eq!(
        files(&out.join("closed/Example/results").join(SYSTEM).join(BENCHMARK).join("Server")),
        [
            "README.md",
            "TEST06/accuracy/mlperf_log_accuracy.json",
            "TEST06/verify_accuracy.txt",
            "accuracy/accuracy.txt",
            "accuracy/mlperf_log_accuracy.json",
            "accuracy/mlperf_log_detail.txt",
            "accuracy/mlperf_log_summary.txt",
            "measurements.json",
            "performance/run_1/mlperf_log_accuracy.json",
            "performance/run_1/mlperf_log_detail.txt",
            "performance/run_1/mlperf_log_summary.txt",
            "user.conf",
        ]
    );
    let log = out
        .join("closed/Example/results")
        .join(SYSTEM)
        .join(BENCHMARK)
        .join("Server/accuracy/mlperf_log_accuracy.json");
    let cut = fs::read_to_string(log).unwrap();
    assert!(cut.len() < 10 * 1024 && cut.len() < long_log("Server").len(), "{}", cut.len());
    if let Some(output) = super::official::check(&out, "v6.1") {
        assert!(output.contains("SUMMARY: submission looks OK"), "{output}");
    }
}

/// Copies a measurement of power into the output of a run.
fn metered(folder: &Path, run: &Path) {
    let above = folder.join("measured");
    for name in ["mlperf_log_detail.txt", "mlperf_log_summary.txt"] {
        write(above.join("run_1").join(name), fs::read(run.join(name)).unwrap());
    }
    measure_power(&above);
    for name in mlperf::POWER_PATHS.split(' ') {
        write(run.join(name), fs::read(above.join(name)).unwrap());
    }
}

#[test]
fn the_power_of_a_run_is_packed_where_the_gate_and_the_official_checker_look() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |_| ());
    metered(folder.path(), &runs.of("Server", "performance"));
    let out = folder.path().join("out");
    let order = order(&runs);
    mlperf::pack(&order, &out).unwrap();
    let examined = mlperf::examine(&out, &order.round);
    assert_eq!(examined.findings, []);
    let watts: Vec<f64> = examined.results.iter().flat_map(|result| &result.power).map(|power| power.watts).collect();
    assert!(watts.len() == 1 && (watts[0] - 4000.0).abs() < 2.0, "{watts:?}");
    if let Some(output) = super::official::check_without_power_rules(&out, "v6.1") {
        assert!(output.contains("SUMMARY: submission looks OK"), "{output}");
    }
}

/// Without a text of the submitter's: what the stages set is in it, and the lines to fill in are found.
#[test]
fn a_template_of_the_calibration_has_the_settings_of_quantization() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |_| ());
    let action = json!({"engine": {"precision": "fp8", "checkpoint_flags": {"kv_cache_dtype": "fp8"}, "trtllm": null}});
    let stage = json!({"task": "quantize/offline", "kind": "engine", "action": action, "facts": {}, "inputs": {}, "upstream": {}});
    let task = mlperf::FinishedTask { stage: serde_json::from_value(stage).unwrap(), folder: None };
    let order = PackageRequest { documentation: None, upstream_tasks: vec![task], ..order(&runs) };
    let out = folder.path().join("out");
    mlperf::pack(&order, &out).unwrap();
    let text = out.join("closed/Example/documentation/calibration.md");
    let template = fs::read_to_string(&text).unwrap();
    for line in [
        "- weight_transformations: quantization",
        "- quantize/offline: `engine.precision: \"fp8\"`",
        "- quantize/offline: `engine.checkpoint_flags: {\"kv_cache_dtype\":\"fp8\"}`",
        "FILL IN: layers that were left in a higher precision, and why",
    ] {
        assert!(template.lines().any(|other| other == line), "{line} is not in\n{template}");
    }
    let calibration = |finding: &mlperf::SubmissionFinding| finding.check.to_string() == "calibration";
    let unfinished = mlperf::examine(&out, &order.round).findings.into_iter().find(calibration).unwrap();
    assert_eq!(unfinished.what, "calibration.md is the template that packing writes, with lines to fill in");
    write(&text, fs::read_to_string(&text).unwrap().replace("FILL IN: ", "- "));
    assert!(!mlperf::examine(&out, &order.round).findings.iter().any(calibration));
}

#[test]
fn older_rounds_have_their_own_layout() {
    let folder = tempfile::tempdir().unwrap();
    let seeds = Round::named("v5.1").unwrap().loadgen.seeds;
    let runs = Runs::new(&folder.path().join("runs"), |test| test["round"] = json!("v5.1"));
    for scenario in SCENARIOS {
        let logs = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];
        let runs_of = |log| ["performance", "accuracy", "test06"].map(|name| runs.of(scenario, name).join(log));
        for path in logs.into_iter().flat_map(runs_of) {
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace("6.0.17 @ d6147c7eb7", "5.1.2 @ d6147c7eb7")
                .replace("2085463073848966840", &seeds.qsl.to_string())
                .replace("2747215439041700203", &seeds.sample_index.to_string())
                .replace("16159082839903944936", &seeds.schedule.to_string());
            write(path, rescheduled(&text));
        }
    }
    let out = folder.path().join("out");
    metered(folder.path(), &runs.of("Offline", "performance"));
    let order = PackageRequest { round: Round::named("v5.1").unwrap(), ..order(&runs) };
    for name in ["analyzer_table.md", "power_settings.pdf"] {
        write(runs.0.join("documentation").join(name), "described\n");
    }
    mlperf::pack(&order, &out).unwrap();
    assert_eq!(mlperf::examine(&out, &order.round).findings, []);
    let submitter = out.join("closed/Example");
    let below = Path::new(SYSTEM).join(BENCHMARK).join("Server");
    assert_eq!(
        files(&submitter.join("measurements").join(&below)),
        ["README.md", &format!("{SYSTEM}_Server.json"), "user.conf"]
    );
    assert_eq!(
        files(&submitter.join("compliance").join(&below)),
        ["TEST06/accuracy/mlperf_log_accuracy.json", "TEST06/verify_accuracy.txt"]
    );
    let made = files(&submitter.join("code").join(SYSTEM));
    assert_eq!(made, ["README.md", "manifests/llama2-70b/pipeline.yaml"]);
    assert!(!submitter.join("src").exists());
    if let Some(output) = super::official::check_without_power_rules(&out, "v5.1") {
        assert!(output.contains("SUMMARY: submission looks OK"), "{output}");
    }
    // For v6.1 it is another one's layout and another one's seeds.
    let checks: Vec<String> = mlperf::examine(&out, &Round::named("v6.1").unwrap())
        .findings
        .into_iter()
        .map(|finding| finding.check.to_string())
        .collect();
    for check in ["layout", "seeds", "lock", "missing file"] {
        assert!(checks.iter().any(|found| found == check), "{check} is not among {checks:?}");
    }
}

#[test]
fn everything_that_only_a_person_knows_is_asked_for_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |_| ());
    let order = PackageRequest { system_json: Map::new(), measurements: Map::new(), ..order(&runs) };
    let Err(Unpacked::Incomplete { problems, snippet }) = mlperf::pack(&order, &folder.path().join("out")) else {
        panic!("it was packed");
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    insta::assert_snapshot!(snippet.unwrap(), @r#"
    mlperf:
      package:
        system_json:
          status:   # whether one can buy it: available, preview or rdi, e.g. available
          host_processor_model_name:   # the CPU, e.g. Intel(R) Xeon(R) Platinum 8480C
          host_processors_per_node:   # sockets of a host, e.g. 2
          host_processor_core_count:   # cores of one CPU, e.g. 56
          host_memory_capacity:   # memory of a host, e.g. 2 TB
          host_storage_capacity:   # disks of a host, e.g. 30 TB
          host_storage_type:   # kind of those disks, e.g. NVMe SSD
          accelerators_per_node:   # accelerators of a host, e.g. 8
          accelerator_model_name:   # the accelerator, e.g. NVIDIA H200-SXM-141GB
          accelerator_memory_capacity:   # memory of one accelerator, e.g. 141 GB
          framework:   # what the model runs on, with versions, e.g. TensorRT-LLM 0.20, CUDA 12.9
          operating_system:   # of the host, with its version, e.g. Ubuntu 24.04.2
          system_type:   # datacenter, edge, or datacenter,edge, e.g. datacenter
          other_software_stack:   # everything else that matters, with versions, e.g. Triton 25.05, driver 575.57
          host_memory_configuration:   # modules and their speed, e.g. 32x 64GB DDR5-4800
          host_networking:   # network cards between hosts, or to clients, e.g. 8x 400Gbps InfiniBand
          host_networking_topology:   # how hosts are connected, e.g. single host
          accelerator_host_interconnect:   # between accelerator and host, e.g. PCIe Gen5 x16
          accelerator_interconnect:   # between accelerators, e.g. 18x 4th-gen NVLink, 900 GB/s
          accelerator_memory_configuration:   # kind of that memory, e.g. HBM3e
          cooling:   # air-cooled, liquid-cooled, passive, e.g. air-cooled
          host_network_card_count:   # network cards of a host, e.g. 10
        measurements:
          input_data_types:   # type of the token ids that go in, e.g. int32
          retraining:   # whether the model was trained further, e.g. No
          starting_weights_filename:   # the starting weights and their origin, e.g. meta-llama/Llama-2-70b-chat-hf
          weight_data_types:   # types of the weights as they are served, e.g. fp8
          weight_transformations:   # what was done to the weights, e.g. quantization
    "#);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn all_that_is_wrong_with_its_runs_is_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |test| {
        if test["scenario"] == "server" {
            test["rehearsal"] = json!(true);
            test["dataset"]["synthetic"] = json!(test["mode"] == "accuracy");
        }
        if test["scenario"] == "interactive" {
            test["scenario"] = json!("server");
        }
    });
    fs::remove_file(runs.of("Offline", "performance").join("user.conf")).unwrap();
    fs::remove_file(runs.of("Offline", "score").join("accuracy.txt")).unwrap();
    let mut order = order(&runs);
    order.submitter = "Example Inc.".to_owned();
    order.results[0].verified.clear();
    let Err(Unpacked::Incomplete { problems, .. }) = mlperf::pack(&order, &folder.path().join("out")) else {
        panic!("it was packed");
    };
    let text = problems.join("\n").replace(&runs.0.display().to_string(), "RUNS");
    insta::assert_snapshot!(text, @r#"
    `submitter` becomes the name of a folder, with letters, digits, . _ - + only: "Example Inc."
    llama2-70b-99.9 Offline: the performance run (RUNS/offline/performance) has no user.conf
    llama2-70b-99.9 Offline: RUNS/offline/score has no accuracy.txt
    llama2-70b-99.9 Offline: TEST06 was run but not verified; also name its `verify` stage
    llama2-70b-99.9 Server: the performance run (RUNS/server/performance) is a rehearsal with shortened durations; `rehearse: true` under `package` packs it for practice
    llama2-70b-99.9 Server: the accuracy run (RUNS/server/accuracy) is a rehearsal with shortened durations; `rehearse: true` under `package` packs it for practice
    llama2-70b-99.9 Server: the accuracy run (RUNS/server/accuracy) is on made-up data; `rehearse: true` under `package` packs it for practice
    llama2-70b-99.9 Server: the TEST06 run (RUNS/server/test06) is a rehearsal with shortened durations; `rehearse: true` under `package` packs it for practice
    llama2-70b-99.9 Interactive: the performance run (RUNS/interactive/performance) is of llama2-70b-99.9 Server, performance, in v6.1
    llama2-70b-99.9 Interactive: the accuracy run (RUNS/interactive/accuracy) is of llama2-70b-99.9 Server, accuracy, in v6.1
    llama2-70b-99.9 Interactive: the TEST06 run (RUNS/interactive/test06) is of llama2-70b-99.9 Server, TEST06, in v6.1
    "#);

    // A rehearsal is packed when it is asked for, and marked.
    let runs = Runs::new(&folder.path().join("again"), |test| test["rehearsal"] = json!(true));
    let order = PackageRequest { rehearse: true, ..self::order(&runs) };
    let out = folder.path().join("out");
    mlperf::pack(&order, &out).unwrap();
    let checks: Vec<String> =
        mlperf::examine(&out, &order.round).findings.into_iter().map(|finding| finding.check.to_string()).collect();
    assert!(checks.len() == 10 && checks.iter().all(|check| check == "rehearsal"), "{checks:?}");
    assert!(out.join("closed/Example/documentation/REHEARSAL.md").is_file());
}

/// One set of runs is a result for 99.9 % and for 99 % in a round that has both: the package passes the checkers with six results.
#[test]
fn a_package_has_results_for_99_percent_where_the_round_has_both() {
    let folder = tempfile::tempdir().unwrap();
    let round = Round::named("v6.0").unwrap();
    let seeds = round.loadgen.seeds;
    let runs = Runs::new(&folder.path().join("runs"), |test| test["round"] = json!("v6.0"));
    for scenario in SCENARIOS {
        let logs = ["mlperf_log_detail.txt", "mlperf_log_summary.txt"];
        let runs_of = |log| ["performance", "accuracy", "test06"].map(|name| runs.of(scenario, name).join(log));
        for path in logs.into_iter().flat_map(runs_of) {
            let text = fs::read_to_string(&path).unwrap();
            let text = text
                .replace("6.0.17 @ d6147c7eb7", "6.0.15 @ d6147c7eb7")
                .replace("2085463073848966840", &seeds.qsl.to_string())
                .replace("2747215439041700203", &seeds.sample_index.to_string())
                .replace("16159082839903944936", &seeds.schedule.to_string());
            write(path, rescheduled(&text));
        }
    }
    let out = folder.path().join("out");
    let mut order = PackageRequest { round: round.clone(), ..order(&runs) };
    let copies: Vec<PackageEntry> = order.results.iter().filter_map(|entry| entry.lowered(&round)).collect();
    assert_eq!(copies.len(), 3);
    order.results.extend(copies);
    mlperf::pack(&order, &out).unwrap();
    let examined = mlperf::examine(&out, &round);
    assert_eq!((examined.refusal_count(), examined.results.len()), (0, 6), "{:#?}", examined.findings);
    let below = |benchmark: &str| files(&out.join("closed/Example/results").join(SYSTEM).join(benchmark));
    assert_eq!(below("llama2-70b-99"), below("llama2-70b-99.9"));
    if let Some(output) = super::official::check(&out, "v6.0") {
        assert!(output.contains("SUMMARY: submission looks OK"), "{output}");
    }
    // A round that has one of them copies nothing.
    assert!(order.results[0].lowered(&Round::named("v6.1").unwrap()).is_none());
}

/// `retraining: false` of a manifest would be an empty value to the official checker, and `is_network: false` no text.
#[test]
fn flags_of_the_manifest_are_packed_as_texts() {
    let folder = tempfile::tempdir().unwrap();
    let runs = Runs::new(&folder.path().join("runs"), |_| ());
    let mut order = order(&runs);
    order.measurements["retraining"] = json!(false);
    order.system_json["hw_notes"] = json!(true);
    let out = folder.path().join("out");
    let packed = mlperf::pack(&order, &out).unwrap();
    let read = |below: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(out.join(&packed.submitter).join(below)).unwrap()).unwrap()
    };
    let result = format!("results/{SYSTEM}/{BENCHMARK}/Server/measurements.json");
    assert_eq!(read(&result)["retraining"], json!("false"));
    assert_eq!(read(&format!("systems/{SYSTEM}.json"))["hw_notes"], json!("true"));
    assert_eq!(mlperf::examine(&out, &order.round).findings, []);
}
