//! A search for the highest rate, as a table of its probes and a picture: each probe's p99 against its rate, the
//! limit, and the interval that was found. By the limits of the stage it is the 95 % interval of an estimate, or lies
//! between probes where they do not show the rate well enough for one; by LoadGen's rules it lies between a test that
//! was VALID and one that was not.

use crate::chart::{Chart, ChartPoint, ChartSeries, PointKind, number};
use crate::metric_row::cell;
use crate::result_sections::ResultBlock;
use base::stats::RateEstimate;
use base::units::counted;
use harness::{FoundRate, LimitSearch, LoadgenJudgement, ProbeJudgement, SearchProbe, SearchReport, SearchRules};

pub(crate) const TITLE: &str = "The search for the highest rate";

/// A latency that is drawn: its name, its limit and how a probe has it.
type LimitedLatency = (&'static str, Option<f64>, fn(&SearchProbe) -> Option<f64>);

/// What a search by the limits of the stage or by LoadGen's rules found.
pub(crate) fn section(report: &SearchReport) -> ResultBlock {
    let SearchReport { rules, bounds, probes, found, .. } = report;
    let (low, high) = (found.at_least, found.below);
    let latencies: [LimitedLatency; 2] = [
        ("TTFT", report.ttft_p99_limit_ms, |probe| probe.ttft_p99_ms),
        ("TPOT", report.tpot_p99_limit_ms, |probe| probe.tpot_p99_ms),
    ];
    let loadgen = "an interval. At its lower end a test as long as the rules want it was VALID by LoadGen and \
        without errors; at its upper end a test was not, short or whole. TTFT and TPOT are LoadGen's, of all queries \
        of a test, from its schedule. What stands above is the whole test at the lower end.";
    let (estimate, about) = match rules {
        SearchRules::Loadgen { .. } => (None, loadgen.to_owned()),
        SearchRules::Limits(LimitSearch { estimate, .. }) => (*estimate, about_limits(estimate.as_ref(), report)),
    };
    let limits = limits(report).join(" and ");
    let with = if limits.is_empty() { limits } else { format!(" with {limits}") };
    let mut block = ResultBlock::new(TITLE, format!("Highest rate{with}: {about}"));
    block.head = vec!["probe", "req/s", "TTFT p99 ms", "TPOT p99 ms", "tokens/s", "limits"];
    let upper = high.map_or_else(|| " or more".to_owned(), |high| format!(" – {}", number(high)));
    let searched = format!(
        "of scheduled arrivals; searched from {} to {}, to {} %",
        number(bounds.low),
        number(bounds.high),
        number(bounds.precision * 100.0)
    );
    if let Some(estimate) = &estimate {
        let rate = estimated(estimate, report, "");
        let note = format!("where the margins of {} probes near the limits cross 0", estimate.probes);
        block.facts.push(["requests per second".to_owned(), rate, note]);
    }
    let name = if estimate.is_some() { "its 95 % interval" } else { "requests per second" };
    block.facts.push([name.to_owned(), format!("{}{upper}", number(low)), searched]);
    if let SearchRules::Limits(LimitSearch { started_from: Some(earlier), .. }) = rules {
        let note = format!("found by the earlier search {}; its probes are not in this estimate", earlier.path);
        block.facts.push(["started near".to_owned(), number(earlier.rate()), note]);
    }
    for (n, probe) in probes.iter().enumerate() {
        let kind = match probe.judgement {
            ProbeJudgement::Loadgen(LoadgenJudgement { is_whole: true }) => ", whole",
            ProbeJudgement::Loadgen(LoadgenJudgement { is_whole: false }) => ", short",
            ProbeJudgement::Limits(_) | ProbeJudgement::Unknown {} => "",
        };
        let reason = probe.why.as_deref().unwrap_or_default();
        block.rows.push(vec![
            format!("{}{kind}", n + 1),
            number(probe.probe.rate),
            cell(probe.ttft_p99_ms),
            cell(probe.tpot_p99_ms),
            cell(probe.output_tokens_per_s),
            if probe.probe.met { "held".to_owned() } else { format!("missed: {reason}") },
        ]);
    }
    for (name, limit, latency) in latencies {
        let points = probes.iter().filter_map(|probe| Some((probe.probe.rate, latency(probe)?, probe.probe.met)));
        if let Some(limit) = limit {
            block.plots.extend(draw(name, &points.collect::<Vec<_>>(), limit, found, estimate.is_some()));
        }
    }
    block
}

/// What a search found, as the head of a page has it: the rate with its limits and interval, and the probe below as
/// one of several.
pub(crate) struct FoundHead {
    /// `133 req/s at TTFT p99 ≤ 100ms`
    pub sentence: String,
    /// Name, value, what it is.
    pub number: [String; 3],
    /// `probe 12 of 12, at 102.1 req/s`
    pub probe: String,
    /// What the section below it is.
    pub note: String,
}

pub(crate) fn head(report: &SearchReport) -> FoundHead {
    let range = &report.found;
    let upper = range.below.map_or_else(|| " or more".to_owned(), |high| format!(" … {}", number(high)));
    let ends = format!("{}{upper}", number(range.at_least));
    let (rate, how) = match &report.rules {
        SearchRules::Limits(LimitSearch { estimate: Some(estimate), .. }) => {
            (estimated(estimate, report, " req/s"), format!("95 % interval {ends}"))
        }
        SearchRules::Limits(_) if range.below.is_some() => {
            (format!("{ends} req/s"), "bracketed, not estimated".to_owned())
        }
        SearchRules::Limits(_) => {
            (format!("{} req/s or more", number(range.at_least)), "the highest rate that was tried".to_owned())
        }
        SearchRules::Loadgen { .. } => (format!("{ends} req/s"), "by LoadGen's rules".to_owned()),
    };
    let limits = limits(report).join(" and ");
    let at = if limits.is_empty() { limits } else { format!(" at {limits}") };
    let probes = report.probes.len();
    let is_shown = |tried: &SearchProbe| tried.probe.rate.total_cmp(&range.at_least).is_eq();
    let place = report.probes.iter().rposition(is_shown).map_or_else(String::new, |at| format!(" {}", at + 1));
    let probe = format!("probe{place} of {probes}, at {} req/s", number(range.at_least));
    FoundHead {
        sentence: format!("{rate}{at}, {how}"),
        number: [
            "highest rate".to_owned(),
            rate.clone(),
            format!("of scheduled arrivals{at}; {how}, from {}", counted(probes, "probe")),
        ],
        note: format!(
            "The search found {rate}{at}, {how}. The numbers and plots here are those of {probe}: one measurement of \
                the search."
        ),
        probe,
    }
}

/// The limits as texts. A file of LoadGen's rules or of an earlier version has those of the two latencies alone.
fn limits(report: &SearchReport) -> Vec<String> {
    if let SearchRules::Limits(LimitSearch { goal: Some(goal), .. }) = &report.rules {
        return goal.limits.clone();
    }
    [("TTFT", report.ttft_p99_limit_ms), ("TPOT", report.tpot_p99_limit_ms)]
        .into_iter()
        .filter_map(|(name, limit)| Some(format!("{name} p99 ≤ {} ms", number(limit?))))
        .collect()
}

/// The rate of the estimate with its unit, `or more` where it is above all rates that may be tried.
fn estimated(estimate: &RateEstimate, report: &SearchReport, unit: &str) -> String {
    let or_more = if estimate.rate > report.bounds.high { " or more" } else { "" };
    format!("{}{unit}{or_more}", number(report.found.estimated(estimate, &report.bounds)))
}

/// What was found by the limits of the stage, and what is above.
fn about_limits(estimate: Option<&RateEstimate>, report: &SearchReport) -> String {
    let SearchReport { bounds, probes, found, .. } = report;
    let last = probes.iter().rev().find(|tried| tried.probe.rate.total_cmp(&found.at_least).is_eq());
    let came = last.map_or("is not known", |last| if last.probe.met { "held" } else { "missed" });
    let outcome = match (estimate, found.below) {
        (Some(estimate), _) => format!(
            "estimated as {}, with a 95 % interval; the last probe, at its lower end, {came}.",
            estimated(estimate, report, " req/s")
        ),
        (None, Some(_)) => format!("bracketed, not estimated; the last probe, at the lower end, {came}."),
        (None, None) if found.at_least < bounds.high || came == "missed" => {
            format!(
                "not reached: nothing above {} req/s was tried; the last probe, at this rate, {came}.",
                number(found.at_least)
            )
        }
        (None, None) => "not reached: the limits held at the highest rate that may be tried.".to_owned(),
    };
    format!(
        "{outcome} Every probe is a whole measurement with its own result.json; TTFT from schedule, of successful \
            requests, full window. What stands above is the last probe at the lower end."
    )
}

fn draw(name: &str, points: &[(f64, f64, bool)], limit: f64, found: &FoundRate, is_estimated: bool) -> Option<String> {
    let highest = points.iter().map(|point| point.0).fold(0.0, f64::max);
    let kind = if is_estimated { "95 % interval" } else { "found" };
    let upper = found.below.map_or_else(|| "more".to_owned(), number);
    let between = format!("{kind}: {} – {upper} req/s", number(found.at_least));
    let point = |(rate, ms, met): &(f64, f64, bool)| ChartPoint {
        x: *rate,
        y: *ms,
        hint: format!("{} req/s: {name} p99 {} ms", number(*rate), number(*ms)),
        kind: if *met { PointKind::Valid } else { PointKind::OverLimit },
        ..ChartPoint::default()
    };
    // Probes are in the order in which they were tried: no line leads through them.
    let probes = ChartSeries { points: points.iter().map(point).collect(), is_front: true, ..ChartSeries::default() };
    Chart {
        title: &format!("{name} p99 of each probe, ms; {between}"),
        across: "requests per second",
        upright: "ms",
        series: vec![probes],
        limits: vec![(limit, format!("limit {} ms", number(limit)))],
        found: Some((found.at_least, found.below.unwrap_or(highest))),
        ..Chart::default()
    }
    .draw()
}
