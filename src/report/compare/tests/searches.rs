//! Comparisons of searches for the highest rate.

use super::*;

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
    assert!(matches!(condition.outcome(&unclear), Ok(FailConditionOutcome::Inconclusive(_))));
    let lower = compared(search(fast, limit), search(slow, limit));
    assert!(matches!(condition.outcome(&lower), Ok(FailConditionOutcome::Exceeded(_))));
    let text = document(&[search(slow, limit), search(fast, limit)], &[better], &[]).terminal(crate::Styler::OFF);
    assert!(text.contains("found_rate: 10 (9 … 11) / 20 (18 … 22) requests/s"), "{text}");
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
        assert!(matches!(condition.outcome(&compared), Err(NoDifference::Unlike { .. })));
    }
    let sets = [open(), above];
    let compared = Comparison::new(&sets[0], &sets[1], CompareRules::default());
    let text = document(&sets, &[compared], &[]).terminal(crate::Styler::OFF);
    assert!(text.contains("400.00 or more  400.00 or more"), "{text}");
    assert!(text.contains("400 or more / 400 or more requests/s"), "{text}");
    assert!(text.contains("found_rate: that of load is 400 or more requests/s, the highest that was tried"), "{text}");
}
