//! Primary and exploratory rows, how each is tested, and how often a difference is found; runs of one plan: how they
//! count, and when they show nothing.

use rand::SeedableRng;
use rand_distr::{Distribution, Normal};
use rand_pcg::Pcg64Mcg;
use serde_json::json;

use super::*;
use harness::ManifestIdentity;
use interop::ImportedTokens;

/// Identical servers, and other plans on the other side, each measured three times: plans differ ten times as much as
/// the runs of one. At most one of twenty comparisons may show a difference; counted as 15 independent runs it would
/// be two of three.
#[test]
fn runs_of_one_plan_are_one_observation() {
    let mut random = Pcg64Mcg::seed_from_u64(11);
    let mut factor = |deviation: f64| Normal::new(0.0, deviation).unwrap().sample(&mut random).exp();
    let mut side = |name: &str, first_plan: u32| -> Vec<MeasuredRun> {
        let mut runs = Vec::new();
        for plan in first_plan..first_plan + 5 {
            let of_plan = [100.0 * factor(0.03), 800.0 * factor(0.03)];
            for _ in 0..3 {
                let [ttft, tokens] = of_plan.map(|number| number * factor(0.003));
                runs.push(numbered_run(name, &plan.to_string(), ttft, tokens));
            }
        }
        runs
    };
    let condition: FailCondition = "ttft_mean > +0%".parse().unwrap();
    let (mut different, mut exceeded) = (0, 0);
    for _ in 0..100 {
        let comparison = compare_numbers(&side("a", 0), &side("b", 100));
        assert_eq!((comparison.a_runs, comparison.a_plans, comparison.b_plans), (15, Some(5), Some(5)));
        let judgements = comparison.deltas.iter().filter_map(|delta| delta.judgement);
        let is_different = judgements.into_iter().any(|judged| matches!(judged, Judgement::Better | Judgement::Worse));
        different += usize::from(is_different);
        exceeded += usize::from(matches!(condition.outcome(&comparison, None), Ok(FailConditionOutcome::Exceeded(_))));
    }
    assert!(different <= 8 && exceeded <= 10, "{different} and {exceeded} of 100 pairs of identical servers");
}

/// Each side repeats one plan: by how much two plans differ is not known, however alike the runs of one are.
#[test]
fn one_plan_on_a_side_shows_nothing_about_others() {
    let side = |name: &str, plan: &str, tokens: f64| -> Vec<MeasuredRun> {
        (0..3).map(|run| numbered_run(name, plan, 100.0, tokens + f64::from(run) / 10.0)).collect()
    };
    let (a, other) = (side("a", "seed 0", 400.0), side("b", "seed 4", 320.0));
    let condition: FailCondition = "output_tokens < -2%".parse().unwrap();
    let comparison = compare_numbers(&a, &other);
    let delta = comparison.find("output_tokens", "").unwrap();
    assert_eq!((delta.judgement, delta.interval), (Some(Judgement::CannotTell), None));
    assert!(matches!(condition.outcome(&comparison, None), Ok(FailConditionOutcome::Inconclusive(_))));
    let shown = document(&[], std::slice::from_ref(&comparison), &[]).terminal(crate::Styler::OFF);
    assert!(
        shown.contains("no row is judged: all 3 runs of the first side had the same arrivals and prompts"),
        "{shown}"
    );
    // The same plan on both sides: the difference is that of the servers, with these requests.
    let same = compare_numbers(&a, &side("b", "seed 0", 320.0));
    assert_eq!(same.find("output_tokens", "").unwrap().judgement, Some(Judgement::Worse));
    assert!(matches!(condition.outcome(&same, None), Ok(FailConditionOutcome::Exceeded(_))));
    // Nothing is known of the plans of another tool's runs.
    let unknown = compare_numbers(&side("a", "", 400.0), &side("b", "", 320.0));
    assert_eq!(unknown.find("output_tokens", "").unwrap().judgement, Some(Judgement::Worse));
    assert_eq!((unknown.a_plans, unknown.too_few_plans), (None, None));
}

/// Users who go on until a time is over: with one seed a faster server gets more of the same requests, and that is no
/// other plan.
#[test]
fn closed_loops_that_a_time_ends_are_judged() {
    let side = |name: &str, plan: &str, tokens: f64| -> Vec<MeasuredRun> {
        let run = |run: u32| {
            let mut one = numbered_run(name, plan, 100.0, tokens + f64::from(run) / 10.0);
            change(&mut one, |file| file["requested"]["scenario"] = json!({ "concurrency": { "users": 4.0 } }));
            one
        };
        (0..5).map(run).collect()
    };
    let comparison = compare_numbers(&side("a", "36 requests", 320.0), &side("b", "52 requests", 400.0));
    assert_eq!(comparison.find("output_tokens", "").unwrap().judgement, Some(Judgement::Better));
    assert_eq!((comparison.a_plans, comparison.too_few_plans), (None, None));
}

/// Plan by plan the means are 5 % apart, whichever plan was measured more often.
#[test]
fn plans_that_both_sides_have_are_pairs_of_their_means() {
    let side = |name: &str, slower: f64, runs: [u32; 3]| -> Vec<MeasuredRun> {
        let plan = |(plan, (runs, ttft)): (usize, (u32, f64))| {
            (0..runs).map(move |run| {
                let noise = f64::from(run) - f64::from(runs - 1) / 2.0;
                numbered_run(name, &plan.to_string(), ttft * slower + noise / 100.0, 800.0)
            })
        };
        runs.into_iter().zip([100.0, 180.0, 60.0]).enumerate().flat_map(plan).collect()
    };
    let comparison = compare_numbers(&side("a", 1.0, [1, 2, 3]), &side("b", 1.05, [3, 1, 1]));
    let delta = comparison.find("ttft", "mean").unwrap();
    assert!(delta.paired && delta.percent.is_some_and(|percent| (percent - 5.0).abs() < 0.01), "{delta:?}");
    assert_eq!(delta.judgement, Some(Judgement::Worse));
    let shown = document(&[], &[comparison], &[]).terminal(crate::Styler::OFF);
    assert!(shown.contains("requests make the noise: 3 pairs of means over runs, each with"), "{shown}");
    assert!(
        shown.contains(
            "means over 6 runs of 3 plans and 5 runs of 3 plans, where runs with the same arrivals and \
            prompts count as one"
        ),
        "{shown}"
    );
}

/// Two servers that were given by address differ; one that each run starts is the same on every port.
#[test]
fn servers_models_and_loads_differ_by_name() {
    let side = |name: &str, port: u16, rate: f64, model: &str| {
        let mut run = numbered_run("a", "1", 100.0, 800.0);
        let address = format!("127.0.0.1:{port}");
        let client = json!({ "host": "c", "os": "linux", "arch": "x86_64", "cores": 2 });
        let server =
            json!({ "address": address, "name": if name.is_empty() { &address } else { name }, "model": model });
        change(&mut run, |file| {
            file["requested"]["endpoints"] = json!([address]);
            file["requested"]["model"] = json!(model);
            file["requested"]["scenario"] = json!({ "server": { "rate": rate } });
            file["identity"] = json!({ "simulated": false, "regatta": "0.1.0", "servers": [server], "client": client });
        });
        RunSet::single(ComparedResult::new(&run))
    };
    let differs = |a: &RunSet, b: &RunSet| -> Vec<String> {
        let comparison = Comparison::new(a, b, CompareRules::default());
        comparison.identity.iter().map(harness::IdentityDifference::describe).collect()
    };
    let (given, spawned) = (side("", 18_200, 5.0, "toy"), side("stage server", 40_001, 5.0, "toy"));
    let [address, load, model] =
        [side("", 18_201, 5.0, "toy"), side("", 18_200, 8.0, "toy"), side("", 18_200, 5.0, "tiny")];
    assert_eq!(differs(&given, &address), ["target: 127.0.0.1:18200 / 127.0.0.1:18201"]);
    assert_eq!(differs(&given, &load), ["load: 5 req/s Poisson / 8 req/s Poisson"]);
    assert_eq!(differs(&given, &model), ["model: toy / tiny"]);
    // A port in the manifest's text gives it another digest, which says nothing more.
    let written = |name: &str, port: u16, digest: &str| {
        let mut side = side(name, port, 5.0, "toy").first().clone();
        let manifest = ManifestIdentity { digest: Some(digest.to_owned()), ..ManifestIdentity::default() };
        side.identity.as_mut().unwrap().manifest = Some(manifest);
        RunSet::single(side)
    };
    let [before, after] = [written("", 18_200, "0827"), written("", 18_201, "0989")];
    assert_eq!(differs(&before, &after), ["target: 127.0.0.1:18200 / 127.0.0.1:18201"]);
    assert_eq!(differs(&before, &written("", 18_200, "0989")), ["manifest digest: 0827 / 0989"]);
    let again = side("stage server", 40_002, 5.0, "toy");
    assert_eq!(differs(&spawned, &again), Vec::<String>::new());
    assert_eq!(spawned.first().settings(), again.first().settings());
    let shown = document(&[given, address], &[], &[]).terminal(crate::Styler::OFF);
    assert!(shown.contains("B: toy @ 127.0.0.1:18201 (KServe gRPC) · 5 req/s Poisson · "), "{shown}");
}

#[test]
fn other_seeds_are_a_difference() {
    let side = |name: &str, seeds: [u64; 2]| -> RunSet {
        let sheet = |seed: u64| {
            let mut run = numbered_run(name, &seed.to_string(), 100.0, 800.0);
            change(&mut run, |file| {
                file["requested"]["seed"] = json!(seed);
                file["identity"] = json!({ "simulated": false, "regatta": "0.1.0", "servers": [],
                    "client": { "host": "c", "os": "linux", "arch": "x86_64", "cores": 2 } });
            });
            ComparedResult::new(&run)
        };
        RunSet::new(name, seeds.map(sheet).to_vec()).unwrap()
    };
    let differs = |a: [u64; 2], b: [u64; 2]| -> Vec<String> {
        let comparison = Comparison::new(&side("a", a), &side("b", b), CompareRules::default());
        comparison.identity.iter().map(harness::IdentityDifference::describe).collect()
    };
    assert_eq!(differs([0, 10], [2, 4]), ["seed: 0, 10 / 2, 4"]);
    assert_eq!(differs([0, 1], [1, 0]), Vec::<String>::new());
}

/// Whether a row is paired, and in which family it is, is known before its values are: even a TPOT that differs from
/// pair to pair as much as the arrivals do is tested unpaired.
#[test]
fn the_metric_decides_how_a_row_is_tested() {
    let side = |name: &str, slower: f64| -> Vec<MeasuredRun> {
        let run = |(plan, size): (usize, f64)| {
            let mut run = numbered_run(name, &plan.to_string(), size * slower, 800.0 + size);
            change(&mut run, |file| {
                file["latency"]["tpot"] = file["latency"]["ttft"].clone();
                file["latency"]["e2e"] = file["latency"]["ttft"].clone();
            });
            run
        };
        [100.0, 180.0, 60.0, 130.0].into_iter().enumerate().map(run).collect()
    };
    let comparison = compare_numbers(&side("a", 1.0), &side("b", 1.05));
    let row = |metric: &str, stat: &str| {
        let delta = comparison.find(metric, stat).unwrap();
        (delta.family, delta.paired, delta.judgement.unwrap())
    };
    let (primary, exploratory) = (RowFamily::Primary, RowFamily::Exploratory);
    assert_eq!(row("ttft", "mean"), (primary, true, Judgement::Worse));
    assert_eq!(row("ttft", "p50"), (exploratory, true, Judgement::Worse));
    assert_eq!(row("tpot", "mean"), (primary, false, Judgement::CannotTell));
    assert_eq!(row("tpot", "p99"), (exploratory, false, Judgement::CannotTell));
    assert_eq!(row("e2e", "mean"), (exploratory, true, Judgement::Worse));
    assert_eq!(row("output_tokens", ""), (primary, true, Judgement::Equivalent));
    let text = document(&[], std::slice::from_ref(&comparison), &[]).terminal(crate::Styler::OFF);
    assert!(text.contains("2 worse  2 equivalent  1 cannot tell  exploratory: 4 worse, 2 cannot tell"), "{text}");
    let json = json(&[], &[comparison]);
    let delta = |place: usize| &json["comparisons"][0]["deltas"][place];
    assert_eq!((&delta(0)["family"], &delta(1)["family"]), (&json!("primary"), &json!("exploratory")), "{json:#}");
}

/// Rows of one family need no stronger evidence because there are many of the other.
#[test]
fn each_family_is_corrected_for_itself() {
    let side = |name: &str, factor: f64| -> Vec<MeasuredRun> {
        let run = |plan: usize| {
            let noise = [0.99, 1.0, 1.012, 0.995, 1.003][plan];
            let mut run = numbered_run(name, &format!("{name} {plan}"), 100.0 * factor * noise, 800.0);
            change(&mut run, |file| {
                for key in ["e2e", "e2e_sent", "ttft_sent", "icl", "max_stall"] {
                    file["latency"][key] = file["latency"]["ttft"].clone();
                }
            });
            run
        };
        (0..5).map(run).collect()
    };
    let comparison = compare_numbers(&side("a", 1.0), &side("b", 1.02));
    let row = |metric: &str| comparison.find(metric, "mean").unwrap();
    let (primary, exploratory) = (row("ttft").p.unwrap(), row("e2e").p.unwrap());
    // Of the same numbers: 16 rows of the exploratory family, and TTFT mean weighs 6 of the 9 of the four primary rows.
    assert!((exploratory / primary - 16.0 * 6.0 / 9.0).abs() < 1e-9, "{primary} {exploratory}");
}

/// A campaign of `cargo bench --bench stats -- power`, which has more comparisons and other loads.
/// `REGATTA_COMPARISONS=200` prints that one's tables.
#[test]
fn a_slower_server_is_found_and_an_identical_one_is_not() {
    if let Some(pairs) = std::env::var("REGATTA_COMPARISONS").ok().and_then(|pairs| pairs.parse().ok()) {
        return power::tables(pairs, 1_000);
    }
    let campaign = |slower| power::Campaign {
        law: power::LAWS[1],
        runs: 5,
        slower,
        between_runs: 0.01,
        has_same_seeds: true,
        requests: 1_000,
    };
    let [same, slower] = [1.0, 1.05].map(|slower| campaign(slower).count(40));
    assert!(same.families.iter().all(|claims| *claims <= 4), "{same:?} of 40");
    assert!(slower.worse[0] >= 34 && slower.worse[2] >= 36 && slower.any_worse >= 36, "{slower:?} of 40");
}

/// Two searches by limits with their estimates; each result is that of a probe at another rate.
#[test]
fn searches_are_compared_by_the_rates_that_they_found() {
    let search = |(rate, low, high): (f64, f64, f64), limit: &str| {
        let file = json!({
            "model": "tiny", "limits": [limit], "probes": [], "found": { "at_least": low, "below": high },
            "estimate": { "rate": rate, "low": low, "high": high, "probes": 9, "slope": 7.0 },
        });
        let mut run = measured_run("load", "x", |_| 100.0);
        change(&mut run, |file| file["requested"]["scenario"]["server"]["rate"] = json!(low));
        RunSet::single(ComparedResult::new(&run).with_search(&serde_json::from_value(file).unwrap()))
    };
    let compared = |a, b| Comparison::new(&a, &b, CompareRules::default());
    let limit = "TTFT p99 ≤ 400ms";
    let (slow, near, fast) = ((10.0, 9.0, 11.0), (10.5, 9.5, 11.5), (20.0, 18.0, 22.0));
    let better = compared(search(slow, limit), search(fast, limit));
    let delta = better.find(FOUND_RATE, "").unwrap();
    assert_eq!((delta.percent, delta.judgement), (Some(100.0), Some(Judgement::Better)));
    assert!(better.find("output_tokens", "").is_none_or(|delta| delta.percent.is_none()), "those are at two rates");
    let judgement = |a, b| compared(a, b).find(FOUND_RATE, "").and_then(|delta| delta.judgement);
    assert_eq!(judgement(search(fast, limit), search(slow, limit)), Some(Judgement::Worse));
    assert_eq!(judgement(search(slow, limit), search(near, limit)), Some(Judgement::CannotTell));
    let condition: FailCondition = "found_rate<-2%".parse().unwrap();
    let unclear = compared(search(near, limit), search(slow, limit));
    assert!(matches!(condition.outcome(&unclear, None), Ok(FailConditionOutcome::Inconclusive(_))));
    let lower = compared(search(fast, limit), search(slow, limit));
    assert!(matches!(condition.outcome(&lower, None), Ok(FailConditionOutcome::Exceeded(_))));
    let text = document(&[search(slow, limit), search(fast, limit)], &[better], &[]).terminal(crate::Styler::OFF);
    assert!(text.contains("found rate: 10 (9 … 11) / 20 (18 … 22) requests/s"), "{text}");
    let unlike = compared(search(slow, limit), search(fast, "TTFT p99 ≤ 900ms"));
    assert_eq!(unlike.find(FOUND_RATE, "").unwrap().percent, None);
}

/// A search whose limits held at the highest rate found no rate that could be subtracted.
#[test]
fn a_rate_that_is_a_lower_bound_is_not_subtracted() {
    let search = |rate: f64, bounds: Value, estimate: Value, below: Value| {
        let file = json!({
            "model": "tiny", "limits": ["TTFT p99 ≤ 400ms"], "probes": [], "bounds": bounds,
            "found": { "at_least": rate, "below": below }, "estimate": estimate,
        });
        let run = measured_run("load", "x", |_| 100.0);
        RunSet::single(ComparedResult::new(&run).with_search(&serde_json::from_value(file).unwrap()))
    };
    let bounds = || json!({ "low": 1.0, "high": 400.0, "precision": 0.02 });
    let open = || search(400.0, bounds(), Value::Null, Value::Null);
    let above = json!({ "rate": 450.0, "low": 390.0, "high": 500.0, "probes": 9, "slope": 7.0 });
    let above = search(390.0, bounds(), above, Value::Null);
    let within = search(350.0, bounds(), Value::Null, json!(380.0));
    let condition: FailCondition = "found_rate<-2%".parse().unwrap();
    for (a, b) in [(&open(), &within), (&within, &open()), (&open(), &open()), (&above, &within)] {
        let compared = Comparison::new(a, b, CompareRules::default());
        let delta = compared.find(FOUND_RATE, "").unwrap();
        assert_eq!((delta.percent, delta.judgement), (None, None), "{delta:?}");
        assert!(matches!(condition.outcome(&compared, None), Err(error) if error.message.contains("are not alike")));
    }
    let sets = [open(), above];
    let compared = Comparison::new(&sets[0], &sets[1], CompareRules::default());
    let text = document(&sets, &[compared], &[]).terminal(crate::Styler::OFF);
    assert!(text.contains("400.00 or more  400.00 or more"), "{text}");
    assert!(text.contains("400 or more / 400 or more requests/s"), "{text}");
    assert!(text.contains("found rate: that of load is 400 or more requests/s, the highest that was tried"), "{text}");
}

/// A file of another tool names its model and its load, without an identity.
#[test]
fn imported_results_show_what_their_files_say() {
    let side = |name: &str, requested: Value| {
        let mut run = numbered_run(name, "1", 100.0, 800.0);
        let requested = requested.as_object().unwrap().clone();
        let tokens = ImportedTokens { input: Some(50_000.0), output: Some(12_800.0), ..ImportedTokens::default() };
        let counts = ImportedCounts { ok: Some(100.0), failed: None };
        let result = ImportedResult { requested, counts, tokens, ..ImportedResult::default() };
        run.result = MeasuredResult::Imported(Box::new(result));
        ComparedResult::new(&run)
    };
    let requested = |model: &str| json!({ "model": model, "request_rate": 10.0, "requests": 100 });
    let [llama, qwen] = ["meta/llama", "qwen/7b"].map(|model| side(model, requested(model)));
    let line = "meta/llama · 10 req/s · 100 requests · 500 → 128 tokens";
    assert_eq!(llama.measured_on().as_deref(), Some(line));
    let users = side("users", json!({ "concurrency": 8 }));
    assert_eq!(users.measured_on().as_deref(), Some("unknown model · concurrency 8 · 500 → 128 tokens"));
    assert_eq!(side("none", json!({})).measured_on(), None);
    assert!(
        RunSet::new("both", vec![llama.clone(), qwen.clone()])
            .is_err_and(|error| error.to_string().contains("meta/llama / qwen/7b"))
    );
    let sets = [llama, qwen].map(RunSet::single);
    let comparison = Comparison::new(&sets[0], &sets[1], CompareRules::default());
    let differs: Vec<String> = comparison.identity.iter().map(harness::IdentityDifference::describe).collect();
    assert_eq!(differs, ["model: meta/llama / qwen/7b"]);
    let shown = document(&sets, &[comparison], &[]).terminal(crate::Styler::OFF);
    assert!(shown.contains(&format!("A: {line}")), "{shown}");
}
