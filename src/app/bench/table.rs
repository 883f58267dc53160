//! The result as the table that users of GenAI-Perf expect, with what each number means under it; and several runs of
//! one measurement.

use std::fmt::Write as _;

use base::units::counted;
use harness::{ConfidenceInterval, Metric, ReasonSeverity, Repeats, RunResult, WHOLE_ANSWERS};
use report::Styler;

/// A column of the latencies: its name, its value, and how wide a terminal must be to have it.
struct Column {
    name: &'static str,
    value: fn(&Metric) -> Option<f64>,
    least_width: usize,
}

const COLUMNS: [Column; 7] = [
    Column { name: "avg", value: |metric| metric.mean, least_width: 0 },
    Column { name: "min", value: |metric| metric.min, least_width: 92 },
    Column { name: "max", value: |metric| metric.max, least_width: 82 },
    Column { name: "p99", value: |metric| metric.p99, least_width: 0 },
    Column { name: "p90", value: |metric| metric.p90, least_width: 0 },
    Column { name: "p75", value: |metric| metric.p75, least_width: 102 },
    Column { name: "p50", value: |metric| metric.p50, least_width: 0 },
];

/// For a terminal of a width; without one, all columns and whole lines.
pub fn text(result: &RunResult, styler: Styler) -> String {
    let latency = &result.latency;
    let (ttft, e2e) = ("Time to first token (ms)", "Request latency (ms)");
    let rows: Vec<(&str, &Metric)> = vec![
        (ttft, &latency.ttft),
        ("  first token from the send (ms)", &latency.ttft_sent),
        ("Time per output token (ms)", &latency.tpot),
        ("Inter-token latency (ms)", &latency.itl_token),
        ("Inter-chunk latency (ms)", &latency.icl),
        (e2e, &latency.e2e),
        ("  latency from the send (ms)", &latency.e2e_sent),
        ("Longest gap (ms)", &latency.max_stall),
        ("Send behind schedule (ms)", &latency.queue_client),
    ];
    let mut text = String::new();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let _ = write!(text, "\n{:<width$}", "");
    let columns = || COLUMNS.iter().filter(|column| styler.width().is_none_or(|width| width >= column.least_width));
    for Column { name, .. } in columns() {
        let _ = write!(text, " {name:>9}");
    }
    text.push('\n');
    for (name, metric) in &rows {
        let _ = write!(text, "{name:<width$}");
        for Column { value, .. } in columns() {
            let _ = write!(text, " {:>9}", number(value(metric)));
        }
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&intervals_text(&rows));
    text.push('\n');
    totals(result, &mut text);
    text.push('\n');
    meanings(&rows, &mut text);
    if result.has_silently_whole_answers() {
        let _ = writeln!(text, "{WHOLE_ANSWERS}");
    }
    verdict(result, &mut text);
    styler.fit(text)
}

fn number(value: Option<f64>) -> String {
    match value {
        None => "n/a".to_owned(),
        Some(value) if value.abs() >= 1e6 => format!("{value:.0}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn totals(result: &RunResult, text: &mut String) {
    let (counts, tokens, rates) = (&result.counts, &result.tokens, &result.rates);
    let mut line = |name: &str, value: String, what: &str| {
        let _ = writeln!(text, "{name:<27} {value:>14}  {what}");
    };
    let per_s = |value: Option<f64>| number(value);
    line("Requests", counts.ok.to_string(), &format!("ok of {} scheduled; {} failed", counts.scheduled, counts.failed));
    line(
        "Request throughput (1/s)",
        per_s(rates.requests_full),
        &format!("over {:.2} s: schedule start to the last answer", rates.window_s),
    );
    line("Output token throughput", per_s(rates.output_tokens), "tokens/s of successful requests, same window");
    line(
        "Output tokens",
        tokens.output.to_string(),
        &format!("{}; {} requested", tokens.source, tokens.output_requested),
    );
    let server = tokens.input_server.map_or_else(String::new, |server| format!("; the server counts {server}"));
    let cached = tokens.input_cached.map_or_else(String::new, |cached| {
        format!("; {} of {} from its prefix cache, in {} answers", cached.tokens, cached.prompt_tokens, cached.requests)
    });
    line("Input tokens", tokens.input.to_string(), &format!("{}{server}{cached}", tokens.input_source));
    if let Some(share) = tokens.coalesced_share {
        line(
            "Coalesced chunks",
            format!("{:.1} %", share * 100.0),
            "came in one read with the chunk before, and are one arrival with it",
        );
    }
    if !counts.finish_reasons.is_empty() {
        let each: Vec<String> =
            counts.finish_reasons.iter().map(|(reason, count)| format!("{count} {}", reason.as_str())).collect();
        let sum: u64 = counts.finish_reasons.values().sum();
        line("Finish reasons", sum.to_string(), &each.join(", "));
    }
    if !counts.violations.is_empty() {
        let each: Vec<String> =
            counts.violations.iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
        let sum: u64 = counts.violations.values().sum();
        line("Protocol violations", sum.to_string(), &format!("{}; in no number", each.join(", ")));
    }
    special(result, &mut line);
    gpus(result, &mut line);
    let connections = &result.connections;
    let idle = if connections.idle_closed + connections.resent > 0 {
        format!(
            "; {} closed by the server while idle, {} sent again",
            connections.idle_closed,
            counted(connections.resent, "request")
        )
    } else {
        String::new()
    };
    line("Connections", connections.count.to_string(), &format!("{} reconnected{idle}", connections.reconnects));
    line(
        "Client CPU",
        result.client.cpu_ms_per_1000_chunks.map_or_else(|| "n/a".to_owned(), |ms| format!("{ms:.2}")),
        "ms for 1,000 chunks",
    );
}

/// Rows that exist only when requested, or when something went wrong.
fn special(result: &RunResult, line: &mut impl FnMut(&str, String, &str)) {
    if let Some(goodput) = &result.goodput {
        let met = if goodput.is_unknown() {
            "no answer has a time per token".to_owned()
        } else {
            format!("{} of {} scheduled requests met their SLO", goodput.good, goodput.of)
        };
        let share = goodput.attainment.map_or_else(|| "n/a".to_owned(), |share| format!("{:.2} %", share * 100.0));
        line("SLO attainment", share, &met);
        line("Goodput (1/s)", number(goodput.requests), "requests that met their SLO, same window");
    }
    for (name, adjusted) in [
        ("TTFT p99, adjusted (ms)", &result.latency.ttft_adjusted),
        ("E2E p99, adjusted (ms)", &result.latency.e2e_adjusted),
    ] {
        if adjusted.unanswered > 0 {
            let value = adjusted.p99.map_or_else(|| "∞".to_owned(), |p99| number(Some(p99)));
            line(
                name,
                value,
                &format!("of {} requests, {} unanswered, which count as infinite", adjusted.n, adjusted.unanswered),
            );
        }
    }
    if let Some(steady) = &result.steady {
        let about = format!("{} requests from {:.1} s to {:.1} s", steady.requests, steady.from_s, steady.to_s);
        line("Steady TTFT p99 (ms)", number(steady.ttft.p99), &about);
    }
    if let Some(server) = &result.server {
        line("Server's queue p99 (ms)", number(server.queue.p99), &format!("its own stamps, of {}", server.queue.n));
        line("Server's TTFT p99 (ms)", number(server.ttft.p99), &format!("its own stamps, of {}", server.ttft.n));
    }
    if let Some(cancelled) = &result.cancellations {
        let about = format!("cancelled as configured, after {} tokens; in no latency", cancelled.after_tokens);
        line("Cancelled requests", cancelled.requests.to_string(), &about);
    }
    for (name, output) in &result.outputs {
        let about = format!("bytes in {} responses; {} misshapen", output.responses, output.misshapen);
        line(name, output.bytes.to_string(), &about);
    }
    if let Some(sessions) = &result.load.sessions {
        let (first, later) = (number(sessions.ttft_first.p99), number(sessions.ttft_later.p99));
        let about =
            format!("{:.1} turns each; TTFT p99 of first turns {first}, of later ones {later} ms", sessions.turns_mean);
        line("Sessions", sessions.count.to_string(), &about);
    }
    if let Some(most) = result.load.max_in_flight {
        let about = format!("arrivals that waited with {} in flight", counted(most, "request"));
        line("Held back", result.load.held_back.to_string(), &about);
    }
}

/// Energy, where the power of the servers' GPUs is known.
fn gpus(result: &RunResult, line: &mut impl FnMut(&str, String, &str)) {
    let Some(gpu) = &result.gpu else { return };
    let which = format!("{}: {}; {}", counted(gpu.devices.len(), "GPU"), gpu.population, gpu.source);
    if let Some(power) = gpu.mean_power_w {
        line("GPU power (W)", number(Some(power)), &format!("mean over the same window, of {which}"));
    }
    if let Some(energy) = gpu.energy_j {
        line("GPU energy (J)", number(Some(energy)), "the area under their readings of power, same window");
    }
    line("Tokens per joule", number(gpu.tokens_per_joule), &gpu.tokens_per_joule_is);
}

/// Each distinct meaning once, with the rows that have it.
fn meanings(rows: &[(&str, &Metric)], text: &mut String) {
    let meaning = |metric: &Metric| match &metric.absent {
        Some(why) => format!("left out: {why}"),
        None => format!(
            "of {} {}; clock from {}; tokens from {}",
            metric.n, metric.population, metric.zero_point, metric.token_source
        ),
    };
    for (meaning, names) in by_text(rows.iter().map(|(name, metric)| (*name, meaning(metric)))) {
        let _ = writeln!(text, "{}: {meaning}", names.join(", "));
    }
    let _ = writeln!(text, "Percentiles: {}", percentile_rules(rows));
}

/// The rule of the first row, and what others add to it.
fn percentile_rules(rows: &[(&str, &Metric)]) -> String {
    let rows = rows.iter().filter(|(_, metric)| metric.absent.is_none());
    let rules = by_text(rows.map(|(name, metric)| (*name, metric.percentile_rule.clone())));
    let Some(((usual, _), others)) = rules.split_first() else { return "n/a".to_owned() };
    others.iter().fold(usual.clone(), |text, (rule, names)| {
        let further = rule.strip_prefix(usual.as_str()).unwrap_or(rule).trim_start_matches(", ");
        format!("{text}; of {} {further}", names.join(", "))
    })
}

fn verdict(result: &RunResult, text: &mut String) {
    let _ = writeln!(text, "\n{}", result.verdict_text());
    if let Some(identity) = &result.identity {
        let _ = writeln!(text, "  {}", identity.line());
    }
    for reason in result.reasons() {
        let mark = if reason.severity == ReasonSeverity::Warning { "!" } else { "✗" };
        let _ = writeln!(text, "  {mark} {}: {}", reason.check, reason.text);
    }
}

/// 95 % intervals of latencies from this one run; and for those without, the reason.
fn intervals_text(rows: &[(&str, &Metric)]) -> String {
    let intervals = |metric: &Metric| {
        [metric.mean_interval, metric.p50_interval, metric.p90_interval, metric.p99_interval]
            .map(|it| it.and_then(shown))
    };
    let with: Vec<_> = rows
        .iter()
        .map(|(name, metric)| (*name, intervals(metric)))
        .filter(|(_, intervals)| intervals.iter().any(Option::is_some))
        .collect();
    let mut text = String::new();
    if !with.is_empty() {
        let title = "95 % intervals";
        let width = with.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(title.len());
        let _ = write!(text, "{title:<width$}");
        for column in ["avg", "p50", "p90", "p99"] {
            let _ = write!(text, " {column:>19}");
        }
        text.push('\n');
        for (name, intervals) in with {
            let _ = write!(text, "{name:<width$}");
            for interval in intervals {
                let _ = write!(text, " {:>19}", interval.unwrap_or_else(|| "–".to_owned()));
            }
            text.push('\n');
        }
        text.push_str(
            "of this run alone: where each number would be if the run had continued for ever; `--repeat 5` \
            shows how much runs differ\n",
        );
    }
    text + &reasons(rows)
}

fn shown(ConfidenceInterval { low, high }: ConfidenceInterval) -> Option<String> {
    Some(format!("{:.2} … {:.2}", low?, high?))
}

/// Each distinct reason once, with the rows that have it.
fn reasons(rows: &[(&str, &Metric)]) -> String {
    let reasons = by_text(rows.iter().filter_map(|(name, metric)| Some((*name, metric.no_interval.clone()?))));
    let measured = rows.iter().filter(|(_, metric)| metric.n > 0).count();
    reasons.into_iter().fold(String::new(), |mut text, (why, names)| {
        let rows = if names.len() == measured { String::new() } else { format!(" of {}", names.join(", ")) };
        let _ = writeln!(text, "No 95 % interval{rows} from this run for {why}");
        text
    })
}

/// Each distinct text once, with the rows that have it.
fn by_text<'a>(rows: impl Iterator<Item = (&'a str, String)>) -> Vec<(String, Vec<&'a str>)> {
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, text) in rows {
        let name = name.trim().trim_end_matches(" (ms)");
        match texts.iter_mut().find(|(same, _)| *same == text) {
            Some((_, names)) => names.push(name),
            None => texts.push((text, vec![name])),
        }
    }
    texts
}

/// The numbers that a reader looks for; result.json has all.
const OVER_RUNS: [(&str, &str); 9] = [
    ("ttft_mean", "TTFT mean (ms)"),
    ("ttft_p50", "TTFT p50 (ms)"),
    ("ttft_p99", "TTFT p99 (ms)"),
    ("tpot_mean", "TPOT mean (ms)"),
    ("tpot_p99", "TPOT p99 (ms)"),
    ("e2e_mean", "Latency mean (ms)"),
    ("e2e_p99", "Latency p99 (ms)"),
    ("requests_full", "Request throughput (1/s)"),
    ("output_tokens", "Output tokens (1/s)"),
];

/// Means over the runs of one measurement with their intervals.
pub fn repeats_text(repeats: &Repeats) -> String {
    let count = repeats.runs.len();
    let mut text = format!(
        "\n{:<27} {:>11} {:>25} {:>16}\n",
        format!("Over {count} runs"),
        "mean",
        "95 % interval",
        "between runs"
    );
    for (name, title) in OVER_RUNS {
        let Some(over) = repeats.over_runs.get(name) else { continue };
        let interval = format!("{:.2} … {:.2}", over.low, over.high);
        let share =
            if over.mean == 0.0 { "n/a".to_owned() } else { format!("{:.1} %", over.stddev / over.mean * 100.0) };
        let _ = writeln!(text, "{title:<27} {:>11.2} {interval:>25} {share:>16}", over.mean);
    }
    let seeds: Vec<String> = repeats.runs.iter().map(|run| run.seed.to_string()).collect();
    let verdicts: Vec<&str> = repeats.runs.iter().map(|run| run.verdict.as_str()).collect();
    let _ = writeln!(
        text,
        "mean: of the runs' numbers; interval: of that mean, by Student's t over runs; between runs: standard \
            deviation in percent of it"
    );
    if count == 2 {
        let _ = writeln!(
            text,
            "two runs show little of how much runs differ: an interval is 12.7 standard errors to each side, of five \
                runs 2.8 (`--repeat 5`)"
        );
    }
    let _ =
        writeln!(text, "seeds {}: {}; the table above is run {}", seeds.join(", "), verdicts.join(", "), repeats.shown);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::{Goodput, LoadPattern, Slo};

    /// One name is one number: what counts from the send says so, with each load.
    #[test]
    fn offline_has_the_rows_of_the_other_loads() {
        let file = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(file).unwrap();
        result.requested.scenario = LoadPattern::Offline;
        result.latency.ttft.mean = Some(692.45);
        result.latency.ttft_sent.mean = Some(691.13);
        let shown = text(&result, Styler::OFF);
        let row = |name: &str| {
            let line = shown.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
            line.rsplit_once(") ").unwrap().1.split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!([row("Time to first token"), row("first token from the send")], ["692.45", "691.13"]);
        assert!(!shown.contains(WHOLE_ANSWERS), "{shown}");
        result.client.call = "unary".to_owned();
        assert!(text(&result, Styler::OFF).contains(WHOLE_ANSWERS));
    }

    #[test]
    fn an_slo_on_a_time_that_no_answer_has_is_met_by_no_number() {
        let file = include_str!("../../../tests/golden/results/benchmark/result.json");
        let mut result: RunResult = serde_json::from_str(file).unwrap();
        let slo = Slo { tpot_ms: Some(25.0), ..Slo::default() };
        result.goodput = Some(Goodput { slo, of: 9, ..Goodput::default() });
        let shown = text(&result, Styler::OFF);
        assert!(shown.contains("no answer has a time per token") && !shown.contains("0 of 9"), "{shown}");
    }
}
