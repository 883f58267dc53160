//! MLPerf's rules before and after a run: what a plan tells of its tests, and whether audits hold.

use crate::world::World;

/// A benchmark with LoadGen; `more` are keys of `loadgen`.
fn bench(name: &str, scenario: &str, more: &str) -> String {
    format!(
        "  {name}:\n    bench:\n      target: 127.0.0.1:1\n      scenario: {scenario}\n      loadgen: {{ library: lib, dataset: data, \
         round: v6.1, benchmark: llama2-70b-99.9, {more} }}\n"
    )
}

const AUDITED: &str =
    "audits: { test06: \"{{ stages.audit.out }}\" }, verified: { test06: \"{{ stages.audit.out }}\" }";

/// A package of one result; `more` are keys of it.
fn package(scenario: &str, accuracy: &str, more: &str) -> String {
    format!(
        "  pack:\n    mlperf:\n      package:\n        round: v6.1\n        submitter: us\n        system: s\n        results:\n          \
         - {{ benchmark: llama2-70b-99.9, scenario: {scenario}, performance: \"{{{{ stages.performance.out }}}}\", \
         accuracy: \"{{{{ stages.{accuracy}.out }}}}\", score: \"{{{{ stages.{accuracy}.out }}}}\", {more} }}\n"
    )
}

/// The errors of a plan of a user's own manifest with a package.
fn refused(stages: &str) -> crate::world::Ended {
    let world = World::with(&format!("stages:\n{stages}"));
    world.file("lib/a", "").file("data/a", "");
    let refused = world.regatta(&["plan", "m"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    let checked = world.regatta(&["check", "m"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    refused
}

/// Made-up data, rehearsals, another scenario, another run, no audit: the plan has the place and what to do.
#[test]
fn a_package_that_the_round_can_never_accept_is_refused_by_the_plan() {
    let runs = |more: &str| {
        bench("performance", "server", more)
            + &bench("accuracy", "server", "target_qps: 100, mode: accuracy")
            + &bench("audit", "server", "target_qps: 100, mode: test06")
    };
    let good = runs("target_qps: 100");
    let made_up = "  dataset: { mlperf: { dataset: { round: v6.1, benchmark: llama2-70b-99.9, synthetic: {} } } }\n"
        .to_owned()
        + &good.replacen("dataset: data", "dataset: \"{{ stages.dataset.out }}\"", 1)
        + &package("server", "accuracy", AUDITED);
    refused(&made_up)
        .shows("error: `pack` cannot be packed: the data of dataset is synthetic\n")
        .shows("manifests/m.yaml:")
        .shows("the round accepts no result for it")
        .shows("synthetic: {}")
        .shows("help: read the data set there, `from: PATH`; `rehearse: true` under `package` packs for practice");
    refused(&(runs("target_qps: 100, rehearse: true") + &package("server", "accuracy", AUDITED)))
        .shows("`pack` cannot be packed: performance is a rehearsal");
    refused(&(good.clone() + &package("single_stream", "accuracy", AUDITED)))
        .shows("`pack` cannot be packed: SingleStream is not a scenario of llama2-70b-99.9 in v6.1")
        .shows("it is run as Offline, Server, Interactive")
        .shows("`pack` cannot be packed: performance is a run of llama2-70b-99.9 Server in v6.1, mode performance");
    // The rules want an accuracy run of each scenario: that of another one is not taken for it.
    let offline = good.clone() + &bench("of_offline", "offline", "mode: accuracy");
    refused(&(offline + &package("server", "of_offline", AUDITED)))
        .shows("of_offline is a run of llama2-70b-99.9 Offline in v6.1, mode accuracy")
        .shows("this needs llama2-70b-99.9 Server in v6.1, mode accuracy")
        .shows("each scenario has its own performance, accuracy and audit runs");
    refused(&(good.clone() + &package("server", "accuracy", "audits: { test07: \"{{ stages.audit.out }}\" }")))
        .shows("`test07` is not an audit test of llama2-70b-99.9 of v6.1")
        .shows("a closed result of llama2-70b-99.9 of v6.1 has passed TEST06, and `audits` has none")
        .shows("a closed result of llama2-70b-99.9 of v6.1 has passed TEST06, and `verified` has none");
    let short = "target_qps: 100, division: open, user_conf: { min_duration: 1000 }";
    refused(&(runs(short) + &package("server", "accuracy", AUDITED)))
        .shows("performance is for the open division: its `user_conf.min_duration` must be at least 600000");
    let whole = World::with(&format!("stages:\n{good}{}", package("server", "accuracy", AUDITED)));
    whole.file("lib/a", "").file("data/a", "");
    whole.good(&["plan", "m"]);
}

/// Power is measured beside the one run that is a result.
#[test]
fn power_of_other_runs_and_of_no_machine_is_refused_by_the_plan() {
    let meter = |server: &str| format!("power: {{ server: \"{server}\", ntp: time.example.com }}");
    refused(&bench("accuracy", "server", &format!("target_qps: 100, mode: accuracy, {}", meter("director"))))
        .shows("`stages.accuracy.bench.loadgen.power` cannot be combined with `mode: accuracy`")
        .shows("the rules measure the power of performance runs only");
    for server in ["director:", "director:99999", ":4950"] {
        refused(&bench("performance", "server", &format!("target_qps: 100, {}", meter(server))))
            .shows("`stages.performance.bench.loadgen.power.server` must be a host, or a host and a port");
    }
    let text = bench("performance", "server", &format!("target_qps: 100, {}", meter("director:4951")));
    let world = World::with(&format!("stages:\n{text}"));
    world.file("lib/a", "").file("data/a", "");
    world.good(&["plan", "m"]).shows(", run twice for the power meter: ranging, then testing");
}

/// LoadGen is given token ids; OpenAI's interfaces and the generate extension answer with text, unless ids are requested.
#[test]
fn loadgen_over_a_protocol_that_answers_with_text_is_refused_by_the_plan() {
    let label = "LoadGen's samples are token ids, and it is given the token ids of each answer";
    let over = |target: &str, protocol: &str| {
        let one = bench("performance", "server", "target_qps: 100");
        one.replace("target: 127.0.0.1:1\n", &format!("target: {target}\n{protocol}"))
    };
    for protocol in ["generate", "openai-chat"] {
        refused(&over("127.0.0.1:1", &format!("      protocol: {protocol}\n")))
            .shows("`stages.performance.bench.protocol` cannot be combined with `loadgen`")
            .shows("manifests/m.yaml:7:17")
            .shows(label)
            .shows(
                "help: `protocol: kserve`, or `openai-completions` with `extra: { detokenize: false }` (trtllm-serve)",
            );
    }
    refused(&over("127.0.0.1:1", "      protocol: openai-completions\n      request: { interface: token_ids }\n"))
        .shows("`stages.performance.bench.protocol` needs answers with token ids for `loadgen`")
        .shows("help: `extra: { detokenize: false }` requests them of trtllm-serve, `extra: { return_token_ids: true }` of vLLM");
    refused(&over("http://127.0.0.1:1/v1/completions", "      extra: { detokenize: false }\n"))
        .shows("`stages.performance.bench.target` needs prompts of token ids for `loadgen`");
    refused(&over("127.0.0.1:1", "      request: { interface: text }\n"))
        .shows("`stages.performance.bench.request.interface` cannot be combined with `loadgen`");
    let with_ids = "      request: { interface: token_ids }\n      extra: { return_token_ids: true }\n";
    for good in [over("grpc://127.0.0.1:1", ""), over("http://127.0.0.1:1/v1/completions", with_ids)] {
        let world = World::with(&format!("stages:\n{good}"));
        world.file("lib/a", "").file("data/a", "");
        world.good(&["plan", "m"]);
    }
}

/// `also_99` packs results twice in a round that has both benchmarks, and is refused in one that has not.
#[test]
fn copies_for_99_percent_are_planned_where_the_round_has_both() {
    let world = World::new();
    world.file("data.parquet", "");
    let plan = |round: &str| {
        let round = format!("round={round}");
        let arguments = [
            "plan",
            "llama2-70b",
            "package=true",
            "also_99=true",
            "dataset_path=data.parquet",
            "model_path=.",
            "system=h200-x8",
        ];
        world.regatta(&[&arguments[..], &[round.as_str(), "scenarios=offline"]].concat())
    };
    let planned = plan("v6.0");
    assert_eq!(planned.code, 0, "{planned:?}");
    let refused = plan("v6.1");
    assert_eq!(refused.code, 2, "{refused:?}");
    refused
        .shows("`package` cannot be packed: v6.1 has no benchmark for 99 % beside llama2-70b-99.9")
        .shows("help: remove it; llama2-70b-99 was in the rounds until v6.0");
}

/// The rules allow speculative decoding of deepseek-r1 in Interactive, with three drafts; of other benchmarks of the round not at all.
#[test]
fn speculative_decoding_that_the_rules_forbid_is_refused_by_the_plan() {
    let world = World::new();
    let drafts = |scenario: &str, layers: u32| {
        format!(
            "tuning.{scenario}.serve_flags.options.speculative_config={{\"decoding_type\":\"MTP\",\"num_nextn_predict_layers\":{layers}}}"
        )
    };
    let deepseek = |scenarios: &str, drafts: &str| {
        let arguments = ["plan", "deepseek-r1", "loadgen=true", "system=b200-x8", "model_path=.", "image=a:1"];
        let rev = "trt_llm_rev=0123456789abcdef0123456789abcdef01234567";
        world.regatta(&[&arguments[..], &[rev, "tests=performance,accuracy", scenarios, drafts]].concat())
    };
    let allowed = deepseek("scenarios=offline,interactive", &drafts("interactive", 3));
    assert_eq!(allowed.code, 0, "{allowed:?}");
    let refused = deepseek("scenarios=offline,server", &drafts("server", 3));
    assert_eq!(refused.code, 2, "{refused:?}");
    refused
        .shows("options.speculative_config` cannot be set for deepseek-r1 Server of v6.1")
        .shows("closed: the rules allow it in Interactive only")
        .shows("help: remove it, or `division: open`")
        .shows("1 error");
    let refused = deepseek("scenarios=offline,interactive", &drafts("interactive", 7));
    assert_eq!(refused.code, 2, "{refused:?}");
    refused
        .shows("options.speculative_config` must draft 3 tokens in each step for deepseek-r1 Interactive of v6.1")
        .shows("closed: the rules fix speculative-num-steps=3; this run drafts 7")
        .shows("help: `num_nextn_predict_layers: 3`, or `division: open`");
    let of_engine = world.regatta(&[
        "plan",
        "llama2-70b",
        "loadgen=true",
        "model_path=.",
        "system=h200-x8",
        "scenarios=offline",
        "tuning.offline.build_flags.speculative_decoding_mode=eagle",
    ]);
    assert_eq!(of_engine.code, 2, "{of_engine:?}");
    of_engine
        .shows("build_flags.speculative_decoding_mode` cannot be set for llama2-70b-99.9 Offline of v6.1")
        .shows("closed: the round does not allow it for this benchmark");
}

/// One parameter, one error: the round has no such benchmark.
#[test]
fn an_accuracy_that_the_round_has_not_is_one_error_that_names_the_parameter() {
    let world = World::new();
    let plan = |more: &[&str]| {
        world.regatta(&[&["plan", "llama2-70b", "package=true", "rehearse=true", "accuracy=99"], more].concat())
    };
    let refused = plan(&[]);
    assert_eq!(refused.code, 2, "{refused:?}");
    refused
        .shows("error: v6.1 has llama2-70b for 99.9 % only")
        .shows("help: leave out `accuracy=99`, or choose the last round that has it: round=v6.0")
        .shows("1 error");
    assert_eq!(plan(&["round=v6.0"]).code, 0);
}

/// What only shows when the package is made is reported before the runs: a stand-in, a misspelt field, fields that are missing or wrong.
#[test]
fn a_plan_reports_what_the_description_of_the_system_lacks() {
    let world = World::new();
    let mine = "regatta: 1\ninclude: [h200-x8.yaml]\nvars:\n  system_json: { coolin: air, framework: TensorRT-LLM }\n";
    world.file("data.parquet", "").file("manifests/llama2-70b/mine.yaml", mine);
    let plan = |more: &[&str]| {
        let arguments = [
            "plan",
            "llama2-70b",
            "package=true",
            "dataset_path=data.parquet",
            "model_path=.",
            "scenarios=offline",
            "system=mine",
        ];
        world.regatta(&[&arguments[..], more].concat())
    };
    let planned = plan(&[]);
    assert_eq!(planned.code, 0, "{planned:?}");
    planned
        .shows("package: the submitter is `Example`, a stand-in: `submitter` is your organization, as registered for the round")
        .shows("package: `system_json.coolin` is packed as it is: did you mean `cooling`?");
    let missing = planned
        .stdout
        .lines()
        .find(|line| line.contains(" required values of the package are neither given nor detected"))
        .unwrap();
    for field in ["cooling", "host_networking", "accelerator_interconnect"] {
        assert!(missing.contains(&format!(" {field}")), "{field}: {missing}");
    }
    for field in ["framework", "accelerator_model_name", "system_name", "retraining", "hw_notes"] {
        assert!(!missing.contains(&format!(" {field}")), "{field}: {missing}");
    }
    let named = plan(&["submitter=Us"]);
    assert!(named.code == 0 && !named.stdout.contains("a stand-in"), "{named:?}");
    for more in [&["system_json.system_type=cloud"][..], &["system_json.system_type=cloud", "rehearse=true"]] {
        let refused = plan(more);
        assert_eq!(refused.code, 2, "{refused:?}");
        refused
            .shows("`package` cannot be packed: `system_type` is \"cloud\", not one of datacenter | edge")
            .shows("help: take one of them");
    }
}

/// As the client of MLPerf Endpoints writes a run, and as its submissions lie.
#[test]
fn results_of_mlperf_endpoints_are_named_as_not_supported() {
    let sentence = "results of MLPerf Endpoints are not supported: only MLPerf Inference's results with LoadGen's logs are checked";
    let world = World::new();
    world
        .file("run/config.yaml", "mode: perf\n")
        .file("run/events.jsonl", "{}\n")
        .file("run/performance/result_summary.json", "{}\n")
        .file("org/id/results/box/llama2-70b/r1/point.yaml", "concurrency: 32\n")
        .file("mixed/closed/Org/results/box/llama2-70b-99.9/Offline/config.yaml", "{}\n")
        .file("mixed/closed/Org/results/box/llama2-70b-99.9/Offline/performance/result_summary.json", "{}\n")
        .file("mixed/closed/Org/results/box/llama2-70b-99.9/Offline/accuracy/accuracy_results.json", "{}\n");
    for folder in ["run", "org"] {
        let checked = world.regatta(&["mlperf", "check", folder]);
        assert_eq!(checked.code, 2, "{checked:?}");
        checked.shows(sentence).shows("`submission-checker check FOLDER` of the package endpoints-submission-cli");
        let assembled = world.regatta(&["mlperf", "assemble", folder, "--out", "all"]);
        assert_eq!(assembled.code, 2, "{assembled:?}");
        assembled.shows(sentence);
    }
    world.regatta(&["mlperf", "diff", "run", "run"]).shows(sentence);
    let mixed = world.regatta(&["mlperf", "check", "mixed", "--round", "v6.1"]);
    assert_eq!(mixed.code, 1, "{mixed:?}");
    mixed.shows("closed/Org/results/box/llama2-70b-99.9/Offline: results of MLPerf Endpoints are not supported");
}

#[test]
fn a_plan_tells_how_long_its_tests_take_and_which_scenario_is_missing() {
    let mut manifest = "stages:\n".to_owned();
    manifest += &bench("performance", "server", "target_qps: 100");
    manifest += &bench("narrow", "interactive", "target_qps: 41");
    manifest += &bench("accuracy", "offline", "mode: accuracy");
    manifest += &bench("audit", "server", "target_qps: 100, mode: test06");
    manifest += &bench("accuracy_server", "server", "target_qps: 100, mode: accuracy");
    manifest += &package("server", "accuracy_server", AUDITED);
    let world = World::with(&manifest);
    world.file("lib/a", "").file("data/a", "");
    let planned = world.good(&["plan", "m"]);
    planned
        .shows("performance: 100 qps × 600 s → 73,728 queries (3 × 24,576), about 12 min 13 s until the last one arrives\n")
        .shows("narrow: 41 qps × 600 s → 49,152 queries (2 × 24,576), about 19 min 53 s until the last one arrives; up to 40.64 qps one data set less is enough: 10 min 0 s\n")
        .shows("accuracy: 24,576 samples at once, each sample once\n")
        .shows("audit: 100 queries at 100 qps, about 1.1 s until the last one arrives\n")
        .shows("pack: a closed submission of llama2-70b-99.9 in v6.1 must also contain Offline\n");
}

/// The file beside LoadGen's logs.
const TEST: &str = r#"{ "round": "v6.1", "benchmark": "llama2-70b-99.9", "scenario": "server", "mode": "test06", "division": "closed",
    "rehearsal": true, "loadgen_version": "6.0.17", "seeds": { "qsl": 1, "sample_index": 2, "schedule": 3 },
    "dataset": { "benchmark": "llama2-70b-99.9", "synthetic": true, "samples": 48, "sha256": "" },
    "target_qps": 100, "sut_name": "", "result": "INVALID", "errors": 0 }"#;

#[test]
fn an_audit_passes_or_names_the_sample_that_offends() {
    let world = World::with(
        "stages:\n  verify: { mlperf: { verify: { round: v6.1, benchmark: llama2-70b-99.9, audit: tests/golden/mlperf/logs/test06-server } } }\n",
    );
    let logs = "tests/golden/mlperf/logs/test06-server";
    world.copy(logs).file(&format!("{logs}/test.json"), TEST);
    world.good(&["run", "m"]).shows("TEST06 passes: 100 answers looked at");
    assert!(world.read("latest/verify/verify_accuracy.txt").ends_with("TEST06 verification complete\n"));
    let log = format!("{logs}/mlperf_log_accuracy.json");
    let spoilt = world.read(&log).replacen("\"token_count\" : ", "\"token_count\" : 9", 1);
    world.file(&log, &spoilt);
    let failed = world.regatta(&["run", "m"]);
    assert_ne!(failed.code, 0);
    failed.shows("TEST06 fails").shows("sample 4 (query 0): 93 tokens were reported, but the answer has 3");
}
