//! Differences: judged by runs, reproducible, and checked against conditions.

mod page;
mod plans;
#[path = "../../../../tests/bench/power.rs"]
#[allow(clippy::print_stdout, reason = "a benchmark prints a table")]
mod power;
#[path = "../../../base/stats/simulated_queue.rs"]
#[allow(dead_code, reason = "tests of statistics and benchmarks use the rest")]
mod simulated_queue;
#[path = "../../../../tests/bench/systems.rs"]
#[allow(dead_code, reason = "benchmarks use the rest")]
mod systems;

use serde_json::{Value, json};
use simulated_queue::{ServiceTime, SimulatedQueue};

use super::*;
use crate::test_runs;
use base::event::Verdict;
use harness::{SweepLevel, SweepPoint, SweepReport};
use interop::{ImportedCounts, ImportedResult, MeasuredResult, MeasuredRun, MetricMeaning};

/// 400 requests; `by` maps the TTFT of each, in ms.
fn measured_run(name: &str, digest: &str, by: impl Fn(u64) -> f64) -> MeasuredRun {
    let traces = (0..400).map(|index| test_runs::trace(index, index as f64 * 10.0, by(index)));
    let result = json!({
        "verdict": "valid", "schedule_digest": digest, "latency": {}, "rates": {},
        "requested": { "scenario": { "server": { "rate": 100.0 } } },
        "counts": { "ok": 400 }, "tokens": { "input": 3200, "output": 1200 },
    });
    MeasuredRun { name: name.to_owned(), result: test_runs::result_of(result), request_traces: traces.collect() }
}

/// The same with other fields in its file.
fn change(measured_run: &mut MeasuredRun, change: impl FnOnce(&mut Value)) {
    let mut file = measured_run.result.json().expect("a result");
    change(&mut file);
    measured_run.result = test_runs::result_of(file);
}

fn compare(a: &[MeasuredRun], b: &[MeasuredRun]) -> Comparison {
    let side = |runs: &[MeasuredRun]| {
        let sheets =
            runs.iter().map(|run| ComparedResult::as_tool(run, interop::Tool::Regatta).expect("requests are known"));
        RunSet::new(runs[0].name.clone(), sheets.collect()).expect("runs of one measurement")
    };
    Comparison::new(&side(a), &side(b), CompareRules::default())
}

/// Deterministic noise of ±20 ms.
fn noise(index: u64, salt: u64) -> f64 {
    let mixed = (index + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    (mixed % 4_001) as f64 / 100.0 - 20.0
}

/// Five runs of one server; requests and days differ.
fn runs(name: &str, salt: u64, factor: f64) -> Vec<MeasuredRun> {
    let run = |run: u64| {
        let day = noise(run, salt) / 40.0;
        let digest = format!("{salt} {run}");
        measured_run(name, &digest, move |index| (100.0 + day + noise(index, salt + 1_000 * run)) * factor)
    };
    (1..=5).map(run).collect()
}

fn judgement_of(comparison: &Comparison, stat: &str) -> Option<Judgement> {
    comparison.find("ttft", stat).and_then(|delta| delta.judgement)
}

#[test]
fn several_runs_are_judged_and_one_is_not() {
    let (a, same, slower) = (runs("a", 1, 1.0), runs("b", 77, 1.0), runs("c", 77, 1.06));
    let comparison = compare(&a, &slower);
    assert_eq!(
        (judgement_of(&comparison, "mean"), judgement_of(&comparison, "p99")),
        (Some(Judgement::Worse), Some(Judgement::Worse))
    );
    assert_eq!(judgement_of(&compare(&slower, &a), "p50"), Some(Judgement::Better));
    let unclear = judgement_of(&compare(&a, &same), "mean");
    assert!(matches!(unclear, Some(Judgement::CannotTell | Judgement::Equivalent)), "{unclear:?}");
    let one = compare(&a[..1], &slower[..1]);
    let delta = one.find("ttft", "mean").unwrap();
    assert_eq!((delta.judgement, delta.interval, delta.p), (Some(Judgement::NotJudged), None, None));
    assert!(delta.percent.is_some_and(|percent| percent > 3.0));
}

/// Requests → sheets → runs → comparison, on waits of M/M/4 at 80 %, where requests are slow together: identical queues
/// differ in at most one of twenty comparisons in the rows of each family. 40 pairs leave a margin for chance; that of
/// `cargo bench --bench stats` has more.
#[test]
fn identical_queues_are_not_distinguished() {
    let queue = SimulatedQueue::new(4, ServiceTime::Exponential, 0.8);
    let side = |first: u64| -> Vec<MeasuredRun> {
        let run = |seed: u64| {
            let waits: Vec<f64> = queue.requests(400, seed).iter().map(|request| request.wait).collect();
            measured_run("queue", &seed.to_string(), move |index| 20.0 + 100.0 * waits[index as usize])
        };
        (first..first + 5).map(run).collect()
    };
    let is_told_apart = |pair: &u64| {
        let comparison = compare(&side(100 * pair), &side(100 * pair + 50));
        let judgements = comparison.deltas.iter().filter_map(|delta| delta.judgement);
        judgements.into_iter().any(|judged| matches!(judged, Judgement::Better | Judgement::Worse))
    };
    let different = (0..40).filter(is_told_apart).count();
    assert!(different <= 4, "{different} of 40 pairs of identical queues");
}

/// A queue that is busy in a pair is busy on both sides: 5 % are found in pairs, and hidden otherwise. The services
/// of B are those of A, 5 % longer, and a tenth up or down for each request.
#[test]
fn runs_of_the_same_arrivals_are_judged_in_pairs() {
    let queue = SimulatedQueue::new(4, ServiceTime::Exponential, 0.8);
    let side = |name: &str, seeds: std::ops::Range<u64>, salt: u64, slower: f64| -> Vec<MeasuredRun> {
        let run = |seed: u64| {
            let own = |index: u64| 1.0 + noise(index, salt + 7 * seed) / 200.0;
            let services: Vec<f64> = queue.requests(400, seed).iter().map(|request| request.service).collect();
            measured_run(name, &format!("plan {seed}"), move |index| {
                100.0 * slower * services[index as usize] * own(index)
            })
        };
        seeds.map(run).collect()
    };
    let a = side("a", 0..5, 1, 1.0);
    let mut b = side("b", 0..5, 2, 1.05);
    let paired = compare(&a, &b);
    assert_eq!(paired.pairing.pairs, 5);
    assert_eq!(judgement_of(&paired, "mean"), Some(Judgement::Worse), "{:?}", paired.find("ttft", "mean"));
    let page = document(&[], std::slice::from_ref(&paired), &[]).terminal(crate::Styler::OFF);
    let paired_by =
        "paired by seed where requests make the noise: 5 pairs of runs, each with the same arrivals and prompts";
    assert!(page.contains(paired_by), "{page}");
    let tests = "TTFT, E2E, requests: paired t test, differences are geometric means of the pairs' ratios; \
        TPOT, ITL: Welch's test, unpaired";
    assert!(page.contains(tests), "{page}");
    // In another order they are the same pairs.
    b.rotate_left(2);
    let rotated = compare(&a, &b);
    let percent = |comparison: &Comparison| comparison.find("ttft", "mean").and_then(|delta| delta.percent).unwrap();
    assert!((percent(&rotated) - percent(&paired)).abs() < 1e-9);
    let apart = compare(&a, &side("b", 5..10, 2, 1.05));
    assert!(matches!(judgement_of(&apart, "mean"), Some(Judgement::CannotTell)), "{:?}", apart.find("ttft", "mean"));
}

#[test]
fn why_runs_are_not_paired_is_said() {
    let side = |name: &str, plans: &[&str], seeds: u64, edit: fn(&mut Value)| -> Vec<MeasuredRun> {
        let one = |(number, plan): (usize, &&str)| {
            let mut run = measured_run(name, plan, move |index| 100.0 + noise(index, number as u64));
            change(&mut run, |file| {
                file["requested"]["seed"] = json!(seeds + number as u64);
                edit(file);
            });
            run
        };
        plans.iter().enumerate().map(one).collect()
    };
    let as_it_is: fn(&mut Value) = |_| {};
    let closed_loop: fn(&mut Value) = |file| {
        file["requested"]["scenario"] = json!({ "concurrency": { "users": 4.0 } });
        file["requested"]["stop_requests"] = json!(400);
    };
    let alike: fn(&mut Value) = |file| {
        file["requested"]["scenario"] = json!({ "concurrency": { "users": 4.0 } });
        file["requested"]["stop_requests"] = json!(400);
        file["requested"]["input_len"] = json!({ "fixed": 32 });
        file["requested"]["output_len"] = json!({ "fixed": 128 });
    };
    let users = ["a", "b"].map(|name| side(name, &["1", "2", "3"], 0, alike));
    assert_eq!(
        compare(&users[0], &users[1]).pairing.describe(),
        "not paired: the load has no random arrivals, and all requests have the same length"
    );
    // Which lengths a seed draws makes TTFT of a closed loop, and hardly its tokens per second.
    let lengths = ["a", "b"].map(|name| side(name, &["1", "2", "3"], 0, closed_loop));
    let comparison = compare(&lengths[0], &lengths[1]);
    let is_paired = ["ttft", "output_tokens", "tpot"]
        .map(|metric| comparison.deltas.iter().any(|delta| delta.metric == metric && delta.paired));
    assert_eq!(is_paired, [true, false, false], "{:?}", comparison.pairing);
    let a = side("a", &["1", "2", "3"], 0, as_it_is);
    let one_plan = compare(&side("a", &["1", "1"], 0, as_it_is), &side("b", &["1", "1"], 0, as_it_is));
    assert_eq!(one_plan.pairing.describe(), "not paired: all runs of both sides had the same arrivals and prompts");
    let reason = |b: &[MeasuredRun]| compare(&a, b).pairing.describe();
    assert!(
        reason(&side("b", &["1", "2", "3"], 0, as_it_is))
            .starts_with("paired by seed where requests make the noise: 3 pairs")
    );
    for (b, expected) in [
        (side("b", &["4", "5", "6"], 3, as_it_is), "the seeds differ"),
        (side("b", &["4", "5", "6"], 0, as_it_is), "the seeds are the same, and arrivals or prompts differ"),
        (side("b", &["1", "2"], 0, as_it_is), "3 and 2 runs"),
        (side("b", &["1", "2", "2"], 0, as_it_is), "3 and 2 plans"),
        (
            side("b", &["1", "2", ""], 0, as_it_is),
            "the arrivals and prompts of a run are not known, or how many there were depended on the server",
        ),
        (side("b", &["1"], 0, as_it_is), "one run on a side"),
        (side("b", &["1", "2", "3"], 0, closed_loop), "the load differs"),
        (
            side("b", &["1", "2", "3"], 0, |result| {
                result["requested"]["retries"] =
                    json!({ "times": 2, "connect": true, "refused": false, "pause_ms": 0.0 });
            }),
            "the load differs",
        ),
    ] {
        assert_eq!(reason(&b), format!("not paired: {expected}"));
    }
}

/// A run of one plan with these numbers.
fn numbered_run(name: &str, plan: &str, ttft: f64, output_tokens: f64) -> MeasuredRun {
    let mut run = measured_run(name, plan, |_| 0.0);
    change(&mut run, |file| {
        file["latency"]["ttft"] = json!({ "unit": "ms", "n": 400, "mean": ttft, "p50": ttft, "p99": 3.0 * ttft,
            "percentile_rule": "nearest rank" });
        file["rates"] = json!({ "requests_full": output_tokens / 8.0, "output_tokens": output_tokens });
    });
    MeasuredRun { request_traces: Vec::new(), ..run }
}

fn compare_numbers(a: &[MeasuredRun], b: &[MeasuredRun]) -> Comparison {
    let side = |runs: &[MeasuredRun]| {
        RunSet::new(runs[0].name.clone(), runs.iter().map(ComparedResult::new).collect()).unwrap()
    };
    Comparison::new(&side(a), &side(b), CompareRules::default())
}

#[test]
fn a_condition_at_its_edges_prints_what_it_rests_on() {
    let compared =
        |a: f64, b: f64| compare_numbers(&[numbered_run("a", "1", a, 800.0)], &[numbered_run("b", "1", b, 800.0)]);
    let condition: FailCondition = "ttft_mean>5%".parse().unwrap();
    let error = condition.outcome(&compared(0.0, 10.0), None).unwrap_err();
    assert_eq!(
        error.to_string().lines().next(),
        Some("`ttft_mean>5%`: that number of a is 0, so a percentage is undefined")
    );
    // 105 / 100 − 1 is a little more than 0.05 in binary.
    assert!(matches!(condition.outcome(&compared(100.0, 105.0), None), Ok(FailConditionOutcome::Passed(_))));
    assert!(matches!(condition.outcome(&compared(100.0, 105.1), None), Ok(FailConditionOutcome::Exceeded(_))));
    let exact: FailCondition = "ttft_mean>5.25%".parse().unwrap();
    assert!(matches!(exact.outcome(&compared(100.0, 105.25), None), Ok(FailConditionOutcome::Passed(_))));
    assert!(matches!(exact.outcome(&compared(100.0, 105.26), None), Ok(FailConditionOutcome::Exceeded(_))));
    assert_eq!([exact.percent_text(5.0), condition.percent_text(-0.04)], ["+5.00 %", "0.0 %"]);
    // No request of either side was answered in time: infinite exceeds every limit.
    let failed = |name: &str| {
        let mut run = numbered_run(name, "1", 100.0, 800.0);
        change(&mut run, |file| {
            file["latency"]["ttft_adjusted"] = json!({ "n": 400, "unanswered": 40, "p50": 100.0, "p99": null });
        });
        run
    };
    let both = compare_numbers(&[failed("a")], &[failed("b")]);
    let condition: FailCondition = "ttft_adjusted_p99>5%".parse().unwrap();
    assert!(matches!(condition.outcome(&both, None), Ok(FailConditionOutcome::Exceeded(_))));
}

#[test]
fn runs_of_the_same_numbers_are_equivalent() {
    let a = runs("a", 1, 1.0);
    let comparison = compare(&a, &a);
    assert!(comparison.same_plan);
    let throughput = comparison.find("requests_full", "").and_then(|delta| delta.judgement);
    assert_eq!(throughput, Some(Judgement::Equivalent));
}

#[test]
fn runs_of_different_loads_are_no_side() {
    let mut all = runs("a", 1, 1.0);
    change(&mut all[2], |file| file["requested"]["scenario"]["server"]["rate"] = json!(50.0));
    let refused = RunSet::new("a", all.iter().map(ComparedResult::new).collect()).unwrap_err().to_string();
    assert!(refused.contains("not runs of one measurement") && refused.contains("request_rate 100 / 50"), "{refused}");
}

#[test]
fn the_number_of_runs_that_could_tell_is_given() {
    let noisy = |name: &str, salt: u64| -> Vec<MeasuredRun> {
        let run = |run: u64| {
            measured_run(name, &format!("{salt} {run}"), move |index| 100.0 + noise(run, salt) + noise(index, run))
        };
        (1..=3).map(run).collect()
    };
    let comparison = compare(&noisy("a", 1), &noisy("b", 50));
    let delta = comparison.find("ttft", "mean").unwrap();
    assert_eq!(delta.judgement, Some(Judgement::CannotTell));
    assert!(delta.runs_needed.is_some_and(|runs| runs > 3), "{delta:?}");
    let text = document(&[], std::slice::from_ref(&comparison), &[]).terminal(crate::Styler::OFF);
    let detectable = delta.detectable_percent.unwrap();
    assert!(detectable > delta.percent.unwrap().abs(), "{delta:?}");
    let row =
        format!("cannot tell (detectable: {detectable:.1} %; {} runs each would find 5 %)", delta.runs_needed.unwrap());
    assert!(text.contains(&row) && text.contains("means over 3 and 3 runs"), "{row}: {text}");
}

#[test]
fn a_gate_is_read_and_looks_at_one_difference() {
    let a = [measured_run("a", "one", |_| 100.0)];
    let b = [measured_run("b", "one", |_| 110.0)];
    let comparison = compare(&a, &b);
    let trips = |text: &str| {
        let condition: FailCondition = text.parse()?;
        Ok::<_, Box<dyn std::error::Error>>(matches!(
            condition.outcome(&comparison, None)?,
            FailConditionOutcome::Exceeded(_)
        ))
    };
    assert!(trips("ttft_p99>5%").unwrap());
    assert!(trips("ttft_p99 > +5%").unwrap());
    assert!(!trips("ttft_p99 > 10.5%").unwrap());
    assert!(!trips("requests_full<-5").unwrap());
    assert!(trips("ttft_p98>5%").unwrap_err().to_string().contains("ttft_p99"));
    for bad in ["ttft_p99", "ttft>x", ">5%"] {
        assert!(trips(bad).unwrap_err().to_string().contains("is not a condition"), "{bad}");
    }
}

#[test]
fn with_several_runs_a_gate_needs_the_difference_to_be_shown() {
    let condition: FailCondition = "ttft_mean > +5%".parse().unwrap();
    let clear = compare(&runs("a", 1, 1.0), &runs("b", 77, 1.2));
    assert!(matches!(condition.outcome(&clear, None), Ok(FailConditionOutcome::Exceeded(_))));
    let kept = compare(&runs("a", 1, 1.0), &runs("b", 77, 1.02));
    assert!(matches!(condition.outcome(&kept, None), Ok(FailConditionOutcome::Passed(_))));
    // Two runs that differ by 30 %, against two that differ as much: the means are 7 % apart, and that may be chance.
    let two = |name: &str, values: [f64; 2]| {
        values.map(|value| measured_run(name, &value.to_string(), move |_| value)).to_vec()
    };
    let chance = compare(&two("a", [85.0, 115.0]), &two("b", [92.0, 122.0]));
    assert!(matches!(condition.outcome(&chance, None), Ok(FailConditionOutcome::Inconclusive(_))));
}

#[test]
fn what_another_tool_reported_against_its_run_is_named() {
    let imported = |name: &str, result: ImportedResult| {
        let mut run = measured_run(name, "one", |_| 100.0);
        run.result = MeasuredResult::Imported(Box::new(result));
        RunSet::single(ComparedResult::new(&run))
    };
    let failed = |name: &str, failed: f64| {
        let counts = ImportedCounts { ok: Some(100.0 - failed), failed: Some(failed) };
        imported(name, ImportedResult { counts, ..ImportedResult::default() })
    };
    let loadgen = |verdict: &str| {
        let requested = [("loadgen_result".to_owned(), json!(verdict))].into_iter().collect();
        imported("c", ImportedResult { requested, ..ImportedResult::default() })
    };
    assert_eq!(document::doubts(&[loadgen("VALID"), loadgen("INVALID")]), ["B: LoadGen's own result is INVALID"]);
    let sets = [failed("a", 0.0), failed("b", 20.0)];
    assert_eq!(document::doubts(&sets), ["B: 20 of 100 requests failed; its latencies are those of the others"]);
    let json = json(&sets, &[]);
    assert_eq!(
        [&json["results"][0]["runs"][0]["failed"], &json["results"][1]["runs"][0]["failed"]],
        [&json!(null), &json!(20.0)]
    );
}

#[test]
fn a_client_limited_result_is_labeled() {
    let (mut a, b) = (measured_run("a", "one", |_| 100.0), measured_run("b", "one", |_| 110.0));
    change(&mut a, |file| file["verdict"] = json!("invalid_client"));
    let sets = [RunSet::single(ComparedResult::new(&a)), RunSet::single(ComparedResult::new(&b))];
    let words = |set: &RunSet| set.worst().verdict_word();
    assert_eq!((words(&sets[0]), words(&sets[1])), ("INVALID(client)".to_owned(), "VALID".to_owned()));
    assert_eq!(
        document::doubts(&sets),
        ["A is INVALID(client): faulty: the numbers are as much the client's as the server's"]
    );
    assert_eq!(json(&sets, &[])["results"][0]["verdict"], "invalid_client");
}

/// A chunk of eight tokens is one where the server sends no usage: the same server then seems to be eight times as
/// slow.
#[test]
fn output_rates_of_other_counts_are_not_subtracted() {
    let run = |name: &str, source: &str, rate: f64| {
        let mut run = measured_run(name, "plan", |_| 50.0);
        change(&mut run, |file| {
            file["tokens"] = json!({ "input": 3200, "output": 1200, "source": source });
            file["rates"] = json!({ "output_tokens": rate, "requests_full": 10.0 });
        });
        ComparedResult::new(&run)
    };
    let (usage, chunks) = ("usage.completion_tokens", "chunks, each counted as one token");
    let compare = |a: ComparedResult, b: ComparedResult| {
        Comparison::new(&RunSet::single(a), &RunSet::single(b), CompareRules::default())
    };
    let apart = compare(run("a", usage, 8_000.0), run("b", chunks, 1_000.0));
    let tokens = apart.find("output_tokens", "").unwrap();
    assert_eq!((tokens.percent, tokens.judgement), (None, None));
    assert_eq!(tokens.unlike, ["tokens: the server: usage.completion_tokens / chunks, each counted as one token"]);
    assert!(apart.find("requests_full", "").unwrap().percent.is_some(), "requests are requests");
    let condition: FailCondition = "output_tokens < -5%".parse().unwrap();
    assert!(!matches!(condition.outcome(&apart, None), Ok(FailConditionOutcome::Exceeded(_))));
    let alike = compare(run("a", usage, 8_000.0), run("b", usage, 7_000.0));
    assert_eq!(alike.find("output_tokens", "").unwrap().percent, Some(-12.5));
}

/// What stands in for tokens is no count: it is not what an imported tool calls the server's.
#[test]
fn only_a_server_s_count_is_the_server_s() {
    let token_source = |source: &str| {
        let mut run = measured_run("a", "plan", |_| 50.0);
        change(&mut run, |file| {
            file["tokens"]["source"] = json!(source);
            file["rates"] = json!({ "output_tokens": 10.0 });
        });
        ComparedResult::new(&run).measures.into_iter().find(|one| one.key == "output_tokens").unwrap().meaning
    };
    let theirs = MetricMeaning { token_source: "the server".to_owned(), ..token_source("output_ids") };
    assert_eq!(theirs.differences(&token_source("usage.completion_tokens")), Vec::<String>::new());
    for source in [
        "chunks, each counted as one token",
        "requested max_tokens, since the answer is one text",
        "responses, each counted as one token",
        "retokenized: each answer's joined text, by the tokenizer given",
        "usage.completion_tokens; chunks, each counted as one token, for 2 of 3 answers that have no usable one",
    ] {
        assert_eq!(theirs.differences(&token_source(source)).len(), 1, "{source}");
    }
}

#[test]
fn a_row_of_server_runs_has_the_means_over_them() {
    let run = |rate: f64| {
        let mut run = measured_run("a", "plan", |_| 50.0);
        change(&mut run, |file| file["rates"] = json!({ "requests_full": rate, "output_tokens": rate * 100.0 }));
        run
    };
    let row = ServerRow::mean("Server", "a", &[run(10.0), run(12.0)]).unwrap();
    assert_eq!((row.completed_qps, row.output_tokens, row.ttft_ms), (Some(11.0), Some(1_100.0), None));
    assert_eq!(row.remark(), "means over 2 runs");
    assert_eq!(ServerRow::mean("Server", "a", &[run(10.0)]).unwrap().remark(), "");
    // Those of a result of several runs are means already, until it is reduced to the run that it shows.
    let mut whole = run(10.0);
    change(&mut whole, |file| {
        let run = json!({ "folder": "repeats/01", "seed": 1, "verdict": "valid", "started": "" });
        let over = json!({ "mean": 12.0, "values": [10.0, 14.0] });
        file["repeats"] = json!({ "runs": [run, run], "shown": 1, "over_runs": { "requests_full": over } });
    });
    let row = |run: &MeasuredRun| {
        let row = ServerRow::mean("Server", "a", std::slice::from_ref(run)).unwrap();
        (row.completed_qps, row.remark())
    };
    assert_eq!(row(&whole), (Some(12.0), "means over 2 runs".to_owned()));
    let missing = "./a is the result of 2 runs, but their folder `repeats` is not next to it";
    assert_eq!(whole.without_other_runs("./a").as_deref(), Some(missing));
    assert_eq!((row(&whole), whole.without_other_runs("./a")), ((Some(10.0), String::new()), None));
}

/// 100 and 300 against 150 and 300: the means are 112.5 % of each other, the ratios of the pairs 150 % and 100 %.
#[test]
fn a_ratio_says_how_it_was_formed() {
    let side = |name: &str, plans: [&str; 2], values: [f64; 2]| -> RunSet {
        let sheets = plans.iter().zip(values).map(|(plan, value)| {
            ComparedResult::as_tool(&measured_run(name, plan, move |_| value), interop::Tool::Regatta).unwrap()
        });
        RunSet::new(name, sheets.collect()).unwrap()
    };
    let metrics = ["ttft_mean".to_owned()];
    let columns = ["custom".to_owned(), "triton".to_owned()];
    let base = || side("custom", ["1", "2"], [100.0, 300.0]);
    let mut ratios = Ratios { base: "custom".to_owned(), ..Ratios::default() };
    let paired = side("triton", ["1", "2"], [150.0, 300.0]);
    ratios.measured("same seeds", &columns, &[base(), paired], &metrics, CompareRules::default());
    let text = ratios.document("ratios").terminal(crate::Styler::OFF);
    assert!(
        text.contains("122.47 %") && text.contains("\nratio: geometric mean of the ratios of pairs of runs"),
        "{text}"
    );
    let unpaired = side("triton", ["3", "4"], [150.0, 300.0]);
    ratios.measured("other seeds", &columns, &[base(), unpaired], &metrics, CompareRules::default());
    ratios.published("README", 10.0, "triton", 9.0, "samples", "v4.1");
    let json = ratios.json();
    let methods: Vec<&Value> = json["rows"].as_array().unwrap().iter().map(|row| &row["method"]).collect();
    assert_eq!(methods, ["pairs", "means", "published"]);
    let text = ratios.document("ratios").terminal(crate::Styler::OFF);
    assert!(text.contains("112.50 %"), "{text}");
    assert!(text.contains("ratio of other seeds TTFT mean, triton: other / base"), "{text}");
    assert!(text.contains("ratio of same seeds TTFT mean, triton: geometric mean"), "{text}");
    let page = ratios.document("ratios").html().unwrap();
    assert!(page.contains("geometric mean of the ratios") && !page.contains("resampled"), "{page}");
}

#[test]
fn other_seeds_draw_other_lengths_of_one_load() {
    let run = |output: u64, requested: u64| {
        let mut run = measured_run("a", "d", |_| 50.0);
        change(&mut run, |file| {
            file["tokens"] = json!({ "input": 3200 + output, "output": output, "output_requested": requested });
        });
        ComparedResult::as_tool(&run, interop::Tool::Regatta).expect("requests are known")
    };
    let unlike = |a: ComparedResult, b: ComparedResult| a.unlike_load(&b).0;
    assert_eq!(unlike(run(1200, 1200), run(1500, 1500)), Vec::<String>::new());
    assert_eq!(unlike(run(1200, 1200), run(1100, 1200)), ["load: mean answer of 3.0 / 2.8 tokens"]);
}

#[test]
fn prompts_that_one_side_found_in_the_prefix_cache_are_a_note() {
    let with_cached = |name: &str, cached: u64| {
        let mut run = measured_run(name, "p", |_| 100.0);
        change(&mut run, |result| {
            result["tokens"]["input_cached"] = json!({"requests": 20, "prompt_tokens": 1000, "tokens": cached});
        });
        run
    };
    let note = |cached| compare(&[with_cached("a", 20)], &[with_cached("b", cached)]).notes;
    assert_eq!(note(30), [""; 0], "a shared beginning of all prompts");
    assert!(
        note(980)[0].starts_with("2 % / 98 % of the prompt tokens came from the servers' prefix cache"),
        "{:?}",
        note(980)
    );
}

#[test]
fn limits_of_the_verdict_are_no_load() {
    let run = |limit: u64, body: u64| {
        let mut run = measured_run("a", "d", |_| 50.0);
        change(&mut run, |file| {
            file["requested"]["further_limits"] = json!({ "latency": [{ "metric": "e2e", "statistic": "p95",
                "ms": limit }], "failures": null, "goodput": null });
        });
        change(&mut run, |file| {
            file["requested"]["request"] = json!({ "temperature": 0.5, "response_limits": { "body": body } });
        });
        ComparedResult::as_tool(&run, interop::Tool::Regatta).expect("requests are known")
    };
    assert_eq!(run(8000, 1).unlike_load(&run(9000, 2)).0, Vec::<String>::new());
}

#[test]
fn results_of_different_servers_are_no_runs_of_one_measurement() {
    let run = |version: &str| {
        let mut run = measured_run(version, version, |_| 50.0);
        change(&mut run, |file| {
            file["identity"] = json!({
                "simulated": false, "regatta": "0.1.0", "client": { "host": "c", "os": "linux", "arch": "x86_64",
                    "cores": 2 },
                "servers": [{ "address": "h:1", "kind": "vllm", "version": version }],
            });
        });
        ComparedResult::as_tool(&run, interop::Tool::Regatta).expect("requests are known")
    };
    assert!(RunSet::new("a", vec![run("0.10.0"), run("0.10.0")]).is_ok());
    let reason = RunSet::new("a", vec![run("0.10.0"), run("0.11.0")]).unwrap_err().to_string();
    assert!(reason.contains("measured on: vllm 0.10.0 / vllm 0.11.0"), "{reason}");
}

#[test]
fn sweeps_whose_tokens_were_counted_by_others_have_no_difference_in_tokens() {
    let sweep = |name: &str, zero_point: &str, token_source: &str| {
        let point = SweepPoint {
            verdict: Some(Verdict::Valid),
            output_tokens_per_s: Some(1_000.0),
            requests_per_s: Some(10.0),
            zero_point: zero_point.to_owned(),
            token_source: token_source.to_owned(),
            ..SweepPoint::empty(SweepLevel::Rate(10.0), None)
        };
        ComparedSweep { name: name.to_owned(), report: SweepReport::new("rate", vec![point], None) }
    };
    let notes =
        |a: ComparedSweep, b: ComparedSweep| sweep_comparison::sweep_notes(&[a, b], CompareRules::default()).join("\n");
    let [usage, chunks] = ["usage", "chunks"].map(|source| sweep("s", "schedule", source));
    let found = notes(usage.clone(), chunks);
    assert!(found.contains("rates (tokens: usage / chunks); TPOT (tokens: usage / chunks); such numbers"), "{found}");
    assert!(!notes(usage.clone(), usage.clone()).contains("differently"));
    assert!(!notes(usage.clone(), sweep("of an earlier version", "", "")).contains("differently"));
    let found = notes(usage, sweep("s", "user_idle", "usage"));
    assert!(found.contains("TTFT (zero point: schedule / user_idle); E2E (zero point"), "{found}");
}
