//! A result in one line, and a line for each host.

use super::metric::is_maximum;
use crate::{HostShare, LoadPattern, LoadgenResult, Metric, Repeats, RunResult, Slo, zero_point_text};
use base::event::Verdict;
use base::stats::FEWEST_VALUES;
use base::units::{counted, grouped, three_digits};

/// About how many requests the p99 of a queue needs for an interval, at half of what its servers can do: runs of 10,000
/// have one in at most 2 % (four slots), runs of 30,000 in 18 to 98 %.
const FEWEST_IN_QUEUE: f64 = 30_000.0;

/// A verdict with what else a reader must know of it: `VALID SIMULATED REHEARSAL`.
pub fn marked_verdict(verdict: &str, is_simulated: bool, is_rehearsal: bool) -> String {
    let simulated = if is_simulated { " SIMULATED" } else { "" };
    let rehearsal = if is_rehearsal { " REHEARSAL" } else { "" };
    format!("{verdict}{simulated}{rehearsal}")
}

impl RunResult {
    /// Whether a server was the built-in simulator.
    pub fn is_simulated(&self) -> bool {
        self.identity.as_ref().is_some_and(|identity| identity.simulated)
    }

    /// Whether LoadGen's durations were shortened, so that it cannot be submitted.
    pub fn is_rehearsal(&self) -> bool {
        self.loadgen.as_ref().is_some_and(|loadgen| loadgen.rehearsal)
    }

    /// Whether it is a simulated run of so few requests that its p99 is their maximum: it tries a pipeline out, and its
    /// speed is not what its servers sustain.
    pub fn is_smoke(&self) -> bool {
        self.is_simulated() && self.loadgen.is_none() && is_maximum(self.latency.ttft.n, 0.99)
    }

    /// Whether it is judged by its speed: LoadGen's accuracy runs and audits of answers are not.
    pub fn is_of_speed(&self) -> bool {
        self.loadgen.as_ref().is_none_or(LoadgenResult::is_performance)
    }

    /// The verdict, such as `VALID`, followed by `SIMULATED` if a server was the simulator and by `REHEARSAL` if the
    /// run rehearses a submission.
    pub fn verdict_text(&self) -> String {
        marked_verdict(self.verdict.as_str(), self.is_simulated(), self.is_rehearsal())
    }

    /// A line for each host, for the ending of a run: its name and its numbers.
    pub fn hosts_in_short(&self) -> Vec<(String, String)> {
        let ms = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |ms| format!("{ms:.1}"));
        let line = |one: &HostShare| {
            let failed = if one.failed > 0 { format!(", {} failed", one.failed) } else { String::new() };
            let speed = one.output_tokens_per_s.map_or_else(|| "n/a".to_owned(), |speed| grouped(speed, 0));
            format!(
                "{} ok{failed}  {speed} tok/s  TTFT p50/p99 {}/{} ms  TPOT p50/p99 {}/{} ms",
                one.ok,
                ms(one.ttft.p50),
                ms(one.ttft.p99),
                ms(one.tpot.p50),
                ms(one.tpot.p99)
            )
        };
        self.hosts.iter().map(|one| (one.host.clone(), line(one))).collect()
    }

    /// `VALID  1,204 tok/s  TTFT p99 212 ms [180 … 260]  TPOT p99 9.84 ms [9.70 … 9.98] (30000 requests; latency from
    /// schedule; tokens: output_ids)`; a run that is too short for the 95 % interval of TTFT p99 has in its place the
    /// number of requests that one takes. Offline has requests/s in place of the latencies. With `slo`, also
    /// `goodput 9.40 req/s, 98.2 % met TTFT ≤ 450 ms`, and a smoke run `smoke, 48 requests`. Of several runs it is
    /// `VALID  5 runs  1,204 tok/s [1,190 … 1,218] TTFT p99 212 ms [205 … 219]
    /// …`. For a run that LoadGen drove it is LoadGen's own numbers; where LoadGen gives none, the headline reports
    /// that.
    pub fn headline(&self) -> String {
        self.loadgen.as_ref().map_or_else(|| self.own_headline(), |loadgen| self.headline_of(loadgen))
    }

    fn headline_of(&self, loadgen: &LoadgenResult) -> String {
        let (verdict, answers, scenario) = (self.verdict_text(), self.counts.ok, &loadgen.scenario);
        let text = loadgen.result.as_deref().unwrap_or("no result");
        if loadgen.is_accuracy() {
            let speed = self.rates.output_tokens.map_or_else(|| "n/a".to_owned(), |rate| grouped(rate, 0));
            return format!(
                "{verdict}  {answers} answers logged, to be scored (LoadGen {scenario}, accuracy mode: no speed is \
                 measured; by Regatta's own time stamps it was {speed} tok/s)"
            );
        }
        if loadgen.headline.is_empty() {
            return format!("{}  (Regatta's own numbers; LoadGen {scenario}: {text})", self.own_headline());
        }
        if !loadgen.is_performance() {
            let test = loadgen.mode.to_uppercase();
            return format!(
                "{verdict}  {} (LoadGen {scenario} {test}: n={answers}, an audit of answers: it is not judged by its \
                 speed)",
                loadgen.headline
            );
        }
        format!("{verdict}  {} (LoadGen {scenario}: {text}, n={answers})", loadgen.headline)
    }

    /// Means over runs, with their 95 % intervals.
    fn headline_over(&self, repeats: &Repeats) -> String {
        let few = if repeats.runs.len() == 2 { " (two runs show little)" } else { "" };
        let over = |name: &str, shown: fn(f64) -> String, unit: &str| {
            repeats.over_runs.get(name).map_or_else(
                || "n/a".to_owned(),
                |over| format!("{}{unit} [{} … {}]", shown(over.mean), shown(over.low), shown(over.high)),
            )
        };
        let middle = match &self.requested.scenario {
            LoadPattern::Offline => over("requests_full", three_digits, " req/s"),
            _ => format!(
                "TTFT p99 {}  TPOT p99 {}",
                over("ttft_p99", three_digits, " ms"),
                over("tpot_p99", three_digits, " ms")
            ),
        };
        format!(
            "{}  {} runs  {}  {middle} (mean and 95 % interval over runs{few}; {} in the first; latency from {}; \
             tokens: {})",
            self.verdict_text(),
            repeats.runs.len(),
            over("output_tokens", |rate| grouped(rate, 0), " tok/s"),
            counted(self.counts.ok, "request"),
            zero_point_text(self.requested.scenario.zero_point()),
            self.tokens.source
        )
    }

    fn own_headline(&self) -> String {
        if let Some(repeats) = &self.repeats {
            return self.headline_over(repeats);
        }
        let tokens = self.rates.output_tokens.map_or_else(|| "n/a".to_owned(), |rate| grouped(rate, 0));
        let middle = match &self.requested.scenario {
            LoadPattern::Offline => {
                format!("{} req/s", self.rates.requests_full.map_or_else(|| "n/a".to_owned(), three_digits))
            }
            _ => {
                format!("TTFT p99 {}  TPOT p99 {}", p99(&self.latency.ttft), p99(&self.latency.tpot))
            }
        };
        let smoke =
            if self.is_smoke() { format!("  smoke, {}", counted(self.counts.ok, "request")) } else { String::new() };
        let missing_interval = self.needed_for_interval().map(|text| format!("; {text}"));
        format!(
            "{}  {tokens} tok/s  {middle}{}{smoke} ({}{}; latency from {}; tokens: {})",
            self.verdict_text(),
            self.goodput_in_short().unwrap_or_default(),
            counted(self.counts.ok, "request"),
            missing_interval.unwrap_or_default(),
            zero_point_text(self.requested.scenario.zero_point()),
            self.tokens.source
        )
    }

    /// The interval of TTFT p99, or how many requests would give one; none where p99 is not in the headline, or grows
    /// with the length of the run.
    pub fn ttft_p99_interval(&self) -> Option<String> {
        let ends = interval(&self.latency.ttft);
        ends.map(|ends| format!("95 % interval of TTFT p99: {ends} ms")).or_else(|| self.needed_for_interval())
    }

    fn needed_for_interval(&self) -> Option<String> {
        let ttft = &self.latency.ttft;
        let is_shown = interval(ttft).is_none()
            && !matches!(self.requested.scenario, LoadPattern::Offline)
            && !is_maximum(ttft.n, 0.99);
        let [least, in_queue] = [FEWEST_VALUES as f64, FEWEST_IN_QUEUE].map(|requests| grouped(requests, 0));
        let needed = match ttft.p99_interval_requests {
            // A run shows only a part of how its requests depend on each other, and the less the busier its servers.
            Some(requests) => format!("at least {} requests", grouped(requests, 0)),
            // So short a run does not show whether its requests queue up.
            None => format!("{least} requests, or at least {in_queue} if they queue"),
        };
        let text = || format!("an interval of TTFT p99 needs {needed}");
        (ttft.n > 0 && is_shown && self.verdict != Verdict::Overloaded).then(text)
    }

    /// None where the limits of the verdict already cover the whole SLO.
    fn goodput_in_short(&self) -> Option<String> {
        let (goodput, requested) = (self.goodput.as_ref()?, &self.requested);
        let slo = &goodput.slo;
        let as_limits =
            Slo { ttft_ms: requested.ttft_p99_limit_ms, tpot_ms: requested.tpot_p99_limit_ms, e2e_ms: None };
        if *slo == as_limits {
            return None;
        }
        let limits: Vec<String> = [("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2E", slo.e2e_ms)]
            .into_iter()
            .filter_map(|(name, limit)| Some(format!("{name} ≤ {} ms", three_digits(limit?))))
            .collect();
        let rate = goodput.requests.map_or_else(|| "n/a".to_owned(), three_digits);
        let kept =
            goodput.attainment.map_or_else(|| "n/a".to_owned(), |share| format!("{} %", three_digits(share * 100.0)));
        Some(format!("  goodput {rate} req/s, {kept} met {}", limits.join(", ")))
    }
}

/// `212 ms`, with its interval where there is one: `212 ms [180 … 260]`.
fn p99(metric: &Metric) -> String {
    let interval = interval(metric).map_or_else(String::new, |ends| format!(" [{ends}]"));
    metric.p99.map_or_else(|| "n/a".to_owned(), |value| format!("{} ms{interval}", three_digits(value)))
}

/// `180 … 260`
fn interval(metric: &Metric) -> Option<String> {
    let (low, high) = metric.p99_interval.and_then(|ends| ends.low.zip(ends.high))?;
    Some(format!("{} … {}", three_digits(low), three_digits(high)))
}
