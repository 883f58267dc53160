//! Text output of a self-test.

use std::fmt::Write as _;

use super::{SelftestReport, Spread};
use base::event::Verdict;
use harness::ReasonSeverity;

impl SelftestReport {
    /// As text for display.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "The load generator on this machine ({} cores), against a server in the same process with known write \
             times.\n\
             Errors are measured minus actual times: p50 / p99 / max, in µs.\n",
            self.cores
        );
        let _ = writeln!(
            out,
            "{:>8}  {:>8}  {:>24}  {:>24}  {:>24}  {:>24}  Poisson",
            "req/s", "requests", "TTFT from issue", "gap between tokens", "issue behind schedule", "late at the server"
        );
        for row in &self.scripted {
            let spread = |s: &Spread| format!("{:.0} / {:.0} / {:.0}", s.p50, s.p99, s.max);
            let poisson = match (row.ks_distance, row.ks_critical) {
                (Some(distance), Some(critical)) if distance <= critical => {
                    format!("yes, {distance:.3} ≤ {critical:.3}")
                }
                (Some(distance), Some(critical)) => format!("NO, {distance:.3} > {critical:.3}"),
                _ => "too few".to_owned(),
            };
            let _ = writeln!(
                out,
                "{:>8}  {:>8}  {:>24}  {:>24}  {:>24}  {:>24}  {poisson}",
                row.rate,
                row.requests,
                spread(&row.ttft_error_us),
                spread(&row.gap_error_us),
                spread(&row.lag_us),
                spread(&row.lateness_at_server_us),
            );
        }
        if self.scripted.is_empty() {
            let _ = writeln!(out, "{:>8}", "none");
        }
        let _ =
            writeln!(out, "\nAgainst a server that answers at once and shares these cores, 64 requests under way:\n");
        for row in &self.ceilings {
            let _ = writeln!(
                out,
                "{:>5} tokens an answer: {:>9.0} tokens/s  {:>7.0} requests/s  {:>6.2} ms of CPU for 1,000 responses",
                row.tokens_per_answer, row.tokens_per_s, row.requests_per_s, row.cpu_ms_per_1000
            );
        }
        if self.ceilings.is_empty() {
            let _ = writeln!(out, "    not measured");
        }
        self.write_verdict(&mut out);
        out
    }

    fn write_verdict(&self, out: &mut String) {
        let means = match self.verdict {
            Verdict::Valid => "this machine can generate these loads, and the numbers above are its error bounds",
            Verdict::ValidWithWarnings => "this machine can generate these loads, with the warnings below",
            _ => "this machine could not generate these loads now; a benchmark at them would measure the client",
        };
        let _ = writeln!(out, "\n{}: {means}", self.verdict.as_str());
        for reason in &self.reasons {
            let mark = if reason.severity == ReasonSeverity::Warning { '!' } else { '✗' };
            let _ = writeln!(out, "  {mark} {}: {}", reason.of, reason.text);
        }
        if self.reasons.is_empty() {
            return;
        }
        if let Some(load) = self.load_average.filter(|load| *load > 0.5) {
            let cores = self.cores;
            let _ = writeln!(
                out,
                "  in the minute before, other processes needed {load:.1} of {cores} cores: repeat it when the machine \
                 is idle"
            );
        }
        if self.is_debug {
            let _ = writeln!(out, "  this is a debug build: one with `--release` needs a fraction of the CPU");
        }
    }
}
