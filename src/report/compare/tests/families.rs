//! Primary and exploratory rows, how each is tested, and how often a difference is found.

use super::*;

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
        return power::tables(pairs);
    }
    let campaign =
        |slower| power::Campaign { law: power::LAWS[1], runs: 5, slower, between_runs: 0.01, has_same_seeds: true };
    let [same, slower] = [1.0, 1.05].map(|slower| campaign(slower).count(40));
    assert!(same.families.iter().all(|claims| *claims <= 4), "{same:?} of 40");
    assert!(slower.worse[0] >= 34 && slower.worse[2] >= 36 && slower.any_worse >= 36, "{slower:?} of 40");
}
