//! LoadGen's settings: user.conf from a manifest's values, checked before LoadGen runs, because it ignores unknown
//! keys.

mod check;
mod settings;

pub use check::check;
pub use settings::{
    AuditConfig, Conf, ConfLine, LOG_SEED, REHEARSAL_DURATION_MS, TestSettings, audit_config, audit_test, conf,
    in_effect, is_open_only, logged, read, review,
};

#[cfg(test)]
mod tests {
    // user.conf of every kind of test, every error, and texts from other sources.

    use indexmap::IndexMap;
    use serde_json::{Value, json};

    use super::settings::{BUILT_IN, KEYS};
    use super::{check, conf, in_effect, read, review};
    use crate::{MlperfScenario, RuleError, TestRequest};
    use base::spec::{Division, TestMode};

    /// A test that nothing is wrong with; the rest is changed from here.
    fn test_request(user_conf: &IndexMap<String, Value>) -> TestRequest<'_> {
        TestRequest {
            round: "v6.1",
            benchmark: "llama2-70b-99.9",
            scenario: MlperfScenario::Server,
            mode: TestMode::Performance,
            division: Division::Closed,
            rehearsal: false,
            target_qps: Some(100.0),
            user_conf,
            dataset_samples: None,
        }
    }

    fn settings(json: &Value) -> IndexMap<String, Value> {
        json.as_object().unwrap().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn error_lines(wrong: &[RuleError]) -> Vec<String> {
        let rendered = |wrong: &RuleError| {
            let hint = wrong.hint.as_ref().map_or_else(String::new, |hint| format!(" [{hint}]"));
            format!("{}: {} ({}){hint}", wrong.at.join("."), wrong.what, wrong.rule)
        };
        wrong.iter().map(rendered).collect()
    }

    #[test]
    fn user_conf_of_each_scenario() {
        let none = IndexMap::new();
        let server = conf(&test_request(&none)).unwrap();
        assert_eq!((server.model.as_str(), server.scenario, server.audit), ("llama2-70b", "Server", None));
        assert_eq!(
            server.text,
            "# llama2-70b-99.9, Server, closed division, MLPerf Inference v6.1.\n# Times are in milliseconds.\n\
             llama2-70b.Server.target_qps = 100\nllama2-70b.Server.min_duration = 600000\n"
        );
        let interactive =
            conf(&TestRequest { scenario: MlperfScenario::Interactive, target_qps: Some(7.5), ..test_request(&none) })
                .unwrap();
        assert_eq!((interactive.model.as_str(), interactive.scenario), ("llama2-70b-interactive", "Server"));
        assert!(
            interactive.text.contains("\nllama2-70b-interactive.Server.target_qps = 7.5\n"),
            "{}",
            interactive.text
        );
        let offline =
            conf(&TestRequest { scenario: MlperfScenario::Offline, benchmark: "gpt-oss-120b", ..test_request(&none) })
                .unwrap();
        assert!(offline.text.contains("\ngpt-oss-120b.Offline.min_query_count = 6396\n"), "{}", offline.text);
        let user_conf = settings(&json!({ "target_latency": 500, "print_timestamps": true }));
        let single = TestRequest {
            scenario: MlperfScenario::SingleStream,
            benchmark: "llama3.1-8b-edge",
            target_qps: None,
            ..test_request(&user_conf)
        };
        let single = conf(&single).unwrap();
        assert!(single.text.contains("\nllama3_1-8b-edge.SingleStream.target_latency = 500\n"), "{}", single.text);
        assert!(
            single.text.contains("print_timestamps = 1\n") && !single.text.contains("target_qps"),
            "{}",
            single.text
        );
        assert!((single.settings.target_qps - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_rehearsal_is_short_and_takes_the_data_set_that_is_there() {
        let none = IndexMap::new();
        let short = TestRequest {
            rehearsal: true,
            dataset_samples: Some(64),
            scenario: MlperfScenario::Offline,
            ..test_request(&none)
        };
        let short = conf(&short).unwrap();
        for line in [
            "min_duration = 10000",
            "min_query_count = 64",
            "performance_sample_count_override = 64",
            "accuracy_sample_count_override = 64",
        ] {
            assert!(short.text.contains(&format!("llama2-70b.Offline.{line}\n")), "{line}: {}", short.text);
        }
        assert!(
            short.text.starts_with("# llama2-70b-99.9, Offline, closed division, MLPerf Inference v6.1; a rehearsal")
        );
        // LoadGen's own 100 queries are too few for its judgement of the 99th percentile.
        let server = TestRequest { rehearsal: true, dataset_samples: Some(64), ..test_request(&none) };
        let server = conf(&server).unwrap();
        assert!(server.text.contains("llama2-70b.Server.min_query_count = 480\n"), "{}", server.text);
        assert_eq!(server.settings.min_query_count, 480);
        let refused = check(&TestRequest { dataset_samples: Some(64), ..test_request(&none) });
        assert_eq!(
            error_lines(&refused),
            ["dataset: holds 64 samples; llama2-70b-99.9 of v6.1 has 24576 (nothing less may be measured) [complete \
                 it, or add `rehearse: true`]"]
        );
    }

    #[test]
    fn audit_config_of_each_test() {
        let none = IndexMap::new();
        let test06 = conf(&TestRequest { mode: TestMode::Test06, ..test_request(&none) }).unwrap();
        assert_eq!(
            test06.audit.unwrap(),
            "# TEST06 of MLPerf Inference v6.1\n*.*.mode = 2\n*.*.accuracy_log_rng_seed = 720381539243781796\n\
             *.*.accuracy_log_sampling_target = 100\n*.*.min_query_count = 100\n*.*.min_duration = 0\n\
             *.*.sample_concatenate_permutation = 0\n"
        );
        assert_eq!((test06.settings.min_query_count, test06.settings.equal_issue), (100, false));
        let gpt = TestRequest { benchmark: "gpt-oss-120b", scenario: MlperfScenario::Offline, ..test_request(&none) };
        let test07 = conf(&TestRequest { mode: TestMode::Test07, ..gpt.clone() }).unwrap();
        let audit = test07.audit.unwrap();
        assert!(audit.contains("sampling_target = 990\n*.*.min_query_count = 990\n"), "{audit}");
        assert!(audit.contains("*.*.performance_issue_unique = 1\n"), "{audit}");
        assert!(test07.text.contains("performance_sample_count_override = 990\n"), "{}", test07.text);
        let test09 = conf(&TestRequest { mode: TestMode::Test09, ..gpt.clone() }).unwrap().audit.unwrap();
        assert!(test09.contains("sampling_target = 10000\n*.*.min_query_count = 6396\n"), "{test09}");
        // A rehearsal issues what it has loaded.
        let rehearsal =
            TestRequest { mode: TestMode::Test09, rehearsal: true, dataset_samples: Some(300), ..gpt.clone() };
        let rehearsed = conf(&rehearsal).unwrap();
        assert!(rehearsed.audit.unwrap().contains("*.*.min_query_count = 256\n"));
        assert_eq!((rehearsed.settings.min_query_count, rehearsed.settings.performance_samples), (256, 256));
        // Issuing every sample once came with v6.1.
        let before = conf(&TestRequest { mode: TestMode::Test09, round: "v6.0", ..gpt }).unwrap().audit.unwrap();
        assert!(!before.contains("performance_issue_unique"), "{before}");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        let user_conf = settings(&json!({
            "min_duraton": 600_000, "min_duration": 60_000, "ttft_latency": 3000, "qsl_rng_seed": 7, "mode": 2,
            "llama2-70b-99.9.Server.max_duration": 0, "coalesce_queries": 3, "samples_per_query": 8,
            "sample_concatenate_permutation": 0, "max_query_count": 10,
        }));
        let test_request = TestRequest { target_qps: Some(0.0), mode: TestMode::Test07, ..test_request(&user_conf) };
        let performance = TestRequest { mode: TestMode::Performance, ..test_request };
        assert_eq!(
            error_lines(&check(&performance)),
            [
                "target_qps: must be greater than 0 (queries per second)",
                "user_conf.min_duraton: is not a setting of user.conf (LoadGen would silently ignore it) [did you mean \
                 `min_duration`?]",
                "user_conf.min_duration: must be at least 600000 (closed: a run lasts ten minutes or more) \
                 [`min_duration: 600000`; `rehearse: true` allows less, and cannot be submitted]",
                "user_conf.ttft_latency: may be set in the open division only (closed: the round's value) [remove \
                 it, or `division: open`]",
                "user_conf.qsl_rng_seed: cannot be set (LoadGen reads it from its own mlperf.conf and ignores it in \
                 user.conf) [remove it]",
                "user_conf.mode: is set elsewhere (once is enough) [write it as `mode` of `loadgen`]",
                "user_conf.llama2-70b-99.9.Server.max_duration: names a model or a scenario (model and scenario are \
                 put before it; LoadGen knows this model as `llama2-70b`) [write `max_duration`]",
                "user_conf.coalesce_queries: cannot be 3 (0 or 1)",
                "user_conf.samples_per_query: means nothing in Server (LoadGen does not read it in Server) [remove it]",
                "user_conf.sample_concatenate_permutation: must be 1 (closed: answers differ in length, so every \
                 sample is issued equally often) [remove it: LoadGen has it built in]",
            ]
        );
    }

    #[test]
    fn names_that_the_round_does_not_have() {
        let none = IndexMap::new();
        let errors_of = |request: TestRequest<'_>| error_lines(&check(&request)).join("\n");
        let old = errors_of(TestRequest { benchmark: "llama2-70b-99", ..test_request(&none) });
        assert!(old.contains("it is in `v4.1`, `v5.0`, `v5.1`, `v6.0`; v6.1 has"), "{old}");
        let loadgens = errors_of(TestRequest { benchmark: "llama2-70b", round: "v6.0", ..test_request(&none) });
        assert!(loadgens.contains("[name it: `llama2-70b-99`, `llama2-70b-99.9`]"), "{loadgens}");
        let typed = errors_of(TestRequest { benchmark: "deepseek-r2", ..test_request(&none) });
        assert!(typed.contains("did you mean `deepseek-r1`?"), "{typed}");
        let round = errors_of(TestRequest { round: "v6.2", target_qps: None, ..test_request(&none) });
        assert!(round.contains("round: cannot be `v6.2`") && round.contains("needs `target_qps` in Server"), "{round}");
        let mixtral = errors_of(TestRequest {
            benchmark: "mixtral-8x7b",
            round: "v6.0",
            scenario: MlperfScenario::Interactive,
            ..test_request(&none)
        });
        assert!(mixtral.contains("[it is run as Offline, Server]"), "{mixtral}");
        let open = TestRequest {
            division: Division::Open,
            scenario: MlperfScenario::SingleStream,
            target_qps: None,
            ..test_request(&none)
        };
        assert_eq!(errors_of(open), "");
        let test = errors_of(TestRequest { mode: TestMode::Test07, ..test_request(&none) });
        assert!(test.contains("mode: cannot be `test07`") && test.contains("[it has `test06`]"), "{test}");
    }

    #[test]
    fn bounds_of_a_closed_submission() {
        let errors_of = |own: Value, with: &dyn Fn(TestRequest<'_>) -> Vec<String>| with(test_request(&settings(&own)));
        let plain = |request: TestRequest<'_>| error_lines(&check(&request));
        let offline = |request: TestRequest<'_>| {
            error_lines(&check(&TestRequest { scenario: MlperfScenario::Offline, ..request }))
        };
        let open = |request: TestRequest<'_>| error_lines(&check(&TestRequest { division: Division::Open, ..request }));
        let rehearsal = |request: TestRequest<'_>| error_lines(&check(&TestRequest { rehearsal: true, ..request }));
        assert!(errors_of(json!({ "min_query_count": 100 }), &plain).is_empty());
        assert_eq!(errors_of(json!({ "min_query_count": 100 }), &offline).len(), 1);
        assert_eq!(errors_of(json!({ "performance_sample_count_override": 100 }), &plain).len(), 1);
        assert!(errors_of(json!({ "performance_sample_count_override": 100_000 }), &plain).is_empty());
        assert_eq!(errors_of(json!({ "accuracy_sample_count_override": 100 }), &plain).len(), 1);
        assert_eq!(errors_of(json!({ "max_duration": 599_999 }), &plain).len(), 1);
        assert!(errors_of(json!({ "max_duration": 0 }), &plain).is_empty());
        assert_eq!(errors_of(json!({ "max_query_count": 10, "min_query_count": 20 }), &plain).len(), 1);
        assert_eq!(errors_of(json!({ "target_latency": 5 }), &plain).len(), 1);
        assert!(errors_of(json!({ "target_latency": 5, "min_duration": 1000, "ttft_latency": 9 }), &open).is_empty());
        assert!(errors_of(json!({ "min_duration": 1000 }), &rehearsal).is_empty());
        assert_eq!(errors_of(json!({ "ttft_latency": 9 }), &rehearsal).len(), 1);
        assert_eq!(errors_of(json!({ "min_duration": "10m" }), &plain).len(), 1);
        assert_eq!(errors_of(json!({ "min_duration": 1.5 }), &plain).len(), 1);
    }

    #[test]
    fn a_user_conf_of_others_is_held_against_the_rules_by_line() {
        let text = "# ours\nllama2-70b.Server.target_qps = 12.5\n*.Server.min_duration = 1000 # short\n\
                    llama2-70b-99.9.Server.max_duration = 0\nllama2-70b.server.min_query_count = 5\n\
                    llama2-70b.Server.min_duraton = 600000\nllama2-70b.Offline.min_duration = 5\nnonsense\n\
                    llama2-70b.Server.max_async_queries = many\nllama2-70b-interactive.Server.ttft_latency = 9\n";
        let (lines, unread) = read(text);
        assert_eq!((lines.len(), unread.len()), (7, 2));
        assert_eq!(lines[2].model, "llama2-70b-99.9");
        let none = IndexMap::new();
        let wrong = review(text, &TestRequest { target_qps: None, ..test_request(&none) });
        let lines: Vec<usize> = wrong.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [3, 4, 5, 6, 8, 9], "{wrong:#?}");
        assert_eq!(wrong[1].1.hint.as_deref(), Some("did you mean `llama2-70b`?"));
        let fine = conf(&test_request(&none)).unwrap().text;
        assert_eq!(review(&fine, &TestRequest { target_qps: None, ..test_request(&none) }), []);
        let missing = review("", &TestRequest { target_qps: None, ..test_request(&none) });
        assert_eq!(missing.len(), 1);
    }

    #[test]
    fn the_line_that_names_more_is_in_effect() {
        let text = "m.Server.a = 1\n*.Server.a = 2\nm.*.a = 3\n*.Server.b = 4\nm.*.b = 5\n*.*.c = 6\n*.*.c = 7\n\
                    m.Offline.d = 8\nother.Server.d = 9\n";
        let lines = read(text).0;
        let taken = in_effect(&lines, "m", MlperfScenario::Interactive);
        let values: Vec<_> = taken.iter().map(|line| format!("{} {}", line.key, line.value)).collect();
        assert_eq!(values, ["a 1", "b 4", "c 6", "c 7"]);
    }

    #[test]
    fn keys_are_named_once() {
        let mut names: Vec<&str> = KEYS.keys().map(String::as_str).chain(BUILT_IN.split(' ')).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
