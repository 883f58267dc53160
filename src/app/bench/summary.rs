//! What `regatta bench` prints: the target and its load, the numbers that a reader looks for, the verdict and its cure,
//! and where to look next; of several runs their means. The names are those of the page and of `regatta compare`, and
//! the page has every number with its definition.

use std::fmt::Write as _;
use std::path::Path;

use crate::cli::{BenchLoad, BenchRequest, TokenLength};
use base::spec::{BenchSweep, Quantity, SweepLevels};
use base::units::{counted, grouped, two_decimals};
use harness::{Metric, Reason, ReasonSeverity, RunResult, WHOLE_ANSWERS, zero_point_text};
use report::explain::short_name;
use report::{Styler, TextRole, clean};

/// Reasons below a verdict; the page has all.
const SHOWN_REASONS: usize = 4;

/// The line above the progress: `http://h:1 · concurrency 2 · 20 requests · 550 → 128 tokens`.
pub fn header(request: &BenchRequest) -> String {
    let mut parts = vec![clean(&request.target), load(&request.load)];
    parts.extend(request.requests.as_ref().map(|requests| match requests {
        Quantity::Known(number) => counted(*number, "request"),
        Quantity::Unknown(_) => format!("{requests} requests"),
    }));
    parts.extend(request.duration.clone());
    parts.extend(request.data.as_ref().map(|(_, file)| file.display().to_string()));
    let mean = |length: &Option<TokenLength>| length.as_ref().map(|length| length.mean.to_string());
    parts.extend(match (mean(&request.input), mean(&request.output)) {
        (Some(input), Some(output)) => Some(format!("{input} → {output} tokens")),
        (_, output) => output.map(|output| format!("{output} output tokens")),
    });
    parts.join(" · ") + "\n"
}

fn load(load: &BenchLoad) -> String {
    let levels = |levels: &SweepLevels| match levels {
        SweepLevels::List(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        SweepLevels::Range(range) => range.to_string(),
    };
    match load {
        BenchLoad::Concurrency(users) => format!("concurrency {users}"),
        BenchLoad::Rate(rate) => format!("{rate} req/s"),
        BenchLoad::Offline => "all at once".to_owned(),
        BenchLoad::Trace(speed) => format!("trace at speed {speed}"),
        BenchLoad::Sweep(BenchSweep::Concurrency(users)) => format!("sweep: concurrency {}", levels(users)),
        BenchLoad::Sweep(BenchSweep::Rate(rates)) => format!("sweep: {} req/s", levels(rates)),
        BenchLoad::Sweep(_) => "sweep".to_owned(),
    }
}

/// The numbers and the verdict of one run.
pub fn text(result: &RunResult, styler: Styler) -> String {
    let latency = &result.latency;
    let rows: [(&str, &Metric); 4] =
        [("ttft", &latency.ttft), ("tpot", &latency.tpot), ("itl_token", &latency.itl_token), ("e2e", &latency.e2e)];
    let mut text = format!("\n{:<11}", "");
    let columns = ["mean", "p50", "p90", "p99", "max"];
    for column in columns {
        let _ = write!(text, " {column:>10}");
    }
    text.push('\n');
    for (key, metric) in rows {
        let _ = write!(text, "{:<11}", format!("{} (ms)", short_name(key)));
        for value in [metric.mean, metric.p50, metric.p90, metric.p99, metric.max] {
            let _ = write!(text, " {:>10}", number(value));
        }
        text.push('\n');
    }
    text.push_str(&totals(result));
    text.push('\n');
    text.push_str(&super::options::in_options(&verdict(result, styler)));
    styler.fit(text)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), two_decimals)
}

/// Counts and rates, and below them from when latency counts and who counted the tokens.
fn totals(result: &RunResult) -> String {
    let (counts, rates) = (&result.counts, &result.rates);
    let mut parts = vec![
        format!("{} of {} ok", counts.ok, counted(counts.scheduled as usize, "request")),
        format!("{} req/s", number(rates.requests_full)),
        format!("{} tok/s", rates.output_tokens.map_or_else(|| "n/a".to_owned(), |rate| grouped(rate, 0))),
        format!("in {:.2} s", rates.window_s),
    ];
    if let Some(goodput) = &result.goodput {
        let share = goodput.attainment.filter(|_| !goodput.is_unknown());
        let share = share.map_or_else(
            || "n/a: no answer has a time per token".to_owned(),
            |share| format!("{:.2} %", share * 100.0),
        );
        parts.insert(3, format!("SLO met by {share}"));
    }
    let mut text = parts.join(" · ") + "\n";
    let zero_point = &result.latency.ttft.zero_point;
    let _ = writeln!(text, "TTFT and E2E from {}; tokens: {}", zero_point_text(zero_point), result.tokens.source);
    text.extend(gpus(result));
    if result.has_silently_whole_answers() {
        let _ = writeln!(text, "{WHOLE_ANSWERS}");
    }
    text.extend(result.ttft_p99_interval().map(|interval| format!("{interval}\n")));
    text
}

/// Power and energy, where the servers' GPUs are known.
fn gpus(result: &RunResult) -> Option<String> {
    let gpu = result.gpu.as_ref()?;
    let numbers = [
        gpu.mean_power_w.map(|power| format!("mean power {power:.2} W")),
        gpu.energy_j.map(|energy| format!("energy {energy:.2} J")),
        Some(gpu.tokens_per_joule.map_or_else(
            || format!("tokens per joule n/a: {}", gpu.tokens_per_joule_is),
            |tokens| format!("{tokens:.2} tokens per joule"),
        )),
    ];
    let numbers = numbers.into_iter().flatten().collect::<Vec<_>>().join(", ");
    Some(format!("{} ({}): {numbers}\n", counted(gpu.devices.len(), "GPU"), gpu.population))
}

/// What was measured, the verdict, and each reason with its cure.
fn verdict(result: &RunResult, styler: Styler) -> String {
    let verdict = styler.tone(TextRole::from(result.verdict()), result.verdict_text());
    // The verdict has that word.
    let identity = result.identity.as_ref();
    let measured = identity.map(|identity| clean(&identity.short_line()).replacen("SIMULATED, ", "", 1));
    let judged = [Some(verdict), measured].into_iter().flatten().collect::<Vec<_>>().join("  ");
    let mut text = format!("{}\n{judged}\n", clean(&result.workload().to_string()));
    let is_warning = |reason: &Reason| reason.severity == ReasonSeverity::Warning;
    let reasons = result.reasons();
    let has_faults = !reasons.iter().all(is_warning);
    // A line that says "1 more" takes as much room as the reason.
    let shown = if reasons.len() == SHOWN_REASONS + 1 { reasons.len() } else { SHOWN_REASONS };
    for reason in reasons.iter().take(shown) {
        let (role, mark) = if is_warning(reason) { (TextRole::Warning, "!") } else { (TextRole::Bad, "✗") };
        let _ = writeln!(text, "  {} {}", styler.tone(role, mark), clean(&reason.line()));
        // Some texts have a cure for their case. That of a warning can wait until the faults are gone.
        let is_cured =
            !(reason.check.cure().is_empty() || reason.text.contains("; ") || has_faults && is_warning(reason));
        if is_cured {
            let _ = writeln!(text, "    → {}", reason.check.cure());
        }
    }
    if let Some(more @ 1..) = reasons.len().checked_sub(shown) {
        let _ = writeln!(text, "  … and {more} more, in the report");
    }
    text
}

/// Where the result is, and how to have it again.
pub fn files(report: Option<&Path>, out: &Path, manifest: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let shown = |path: &Path| path.strip_prefix(&here).unwrap_or(path).display().to_string();
    let rows = [
        ("report", report.map(shown)),
        ("files", Some(shown(out))),
        ("again", Some(format!("regatta run {}", shown(manifest)))),
    ];
    let rows = rows.into_iter().filter_map(|(name, text)| Some(format!("{name:<7} {}\n", text?)));
    std::iter::once("\n".to_owned()).chain(rows).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::{ConfidenceInterval, Goodput, LoadPattern, Slo};

    fn golden() -> RunResult {
        serde_json::from_str(include_str!("../../../tests/golden/results/benchmark/result.json")).unwrap()
    }

    #[test]
    fn one_benchmark_is_read_at_a_glance() {
        let result = golden();
        let shown = text(&result, Styler::OFF) + &files(Some(Path::new("r.html")), Path::new("o"), Path::new("m.yaml"));
        assert!(shown.lines().count() <= 24, "with the header at most 25 lines: {shown}");
        let numbers: Vec<&str> = shown.lines().take_while(|line| !line.contains(" · ")).collect();
        assert!(numbers.len() == 6 && numbers.iter().all(|line| line.chars().count() <= 80), "{shown}");
        let (workload, verdict) = (result.workload().to_string(), result.verdict_text());
        assert!(shown.contains(&format!("\n{workload}\n{verdict}")), "what was measured, and its verdict: {shown}");
        assert!(shown.contains("again   regatta run m.yaml"), "{shown}");
    }

    #[test]
    fn a_p99_has_its_interval_or_how_many_requests_give_one() {
        let mut result = golden();
        result.latency.ttft.n = 300;
        let shown = text(&result, Styler::OFF);
        assert!(shown.contains("\nan interval of TTFT p99 needs 2,000 requests, or at least"), "{shown}");
        result.latency.ttft.p99_interval = Some(ConfidenceInterval { low: Some(18.28), high: Some(21.0) });
        let shown = text(&result, Styler::OFF);
        assert!(shown.contains("\n95 % interval of TTFT p99: 18.3 … 21.0 ms\n"), "{shown}");
    }

    /// One name is one number with each load: none of them counts from the send.
    #[test]
    fn offline_has_the_rows_of_the_other_loads() {
        let mut result = golden();
        result.requested.scenario = LoadPattern::Offline;
        result.latency.ttft.mean = Some(692.45);
        result.latency.ttft_sent.mean = Some(691.13);
        let shown = text(&result, Styler::OFF);
        let row = shown.lines().find(|line| line.starts_with("TTFT (ms)")).unwrap();
        assert_eq!(row.split_whitespace().nth(2), Some("692.45"));
        assert!(!shown.contains(WHOLE_ANSWERS), "{shown}");
        result.client.call = "unary".to_owned();
        assert!(text(&result, Styler::OFF).contains(WHOLE_ANSWERS));
    }

    #[test]
    fn an_slo_on_a_time_that_no_answer_has_is_met_by_no_number() {
        let mut result = golden();
        let slo = Slo { tpot_ms: Some(25.0), ..Slo::default() };
        result.goodput = Some(Goodput { slo, of: 9, ..Goodput::default() });
        let shown = text(&result, Styler::OFF);
        assert!(shown.contains("SLO met by n/a: no answer has a time per token"), "{shown}");
    }
}
