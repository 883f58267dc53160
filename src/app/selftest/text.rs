//! Text output of a self-test.

use super::{MaxRateResult, Scripted, SelftestReport, Spread};
use base::event::Verdict;
use harness::ReasonSeverity;
use report::{Block, Cell, Document, Section, Table};

impl SelftestReport {
    /// As it is shown.
    pub fn document(&self) -> Document {
        let about = format!(
            "The load generator on this machine ({} cores), against a server in the same process with known write \
             times. Errors are measured minus actual times: p50 / p99 / max, in µs.",
            self.cores
        );
        let heads = [
            "req/s",
            "requests",
            "TTFT from issue",
            "gap between tokens",
            "issue behind schedule",
            "late at the server",
            "Poisson",
        ];
        let scripted = match self.scripted.as_slice() {
            [] => Block::plain("none"),
            rows => Block::table(Table::list(heads, rows.iter().map(scripted_row))),
        };
        let ceilings = match self.ceilings.as_slice() {
            [] => Block::plain("not measured"),
            rows => Block::list(rows.iter().map(ceiling_row)),
        };
        let flood = "Against a server that answers at once and shares these cores, 64 requests under way";
        let sections = [Section::new(about).with([scripted]), Section::new(flood).with([ceilings]), self.verdict()];
        Document::of_sections(sections)
    }

    fn verdict(&self) -> Section {
        let meaning = match self.verdict {
            Verdict::Valid => "this machine can generate these loads, and the numbers above are its error bounds",
            Verdict::ValidWithWarnings => "this machine can generate these loads, with the warnings below",
            _ => "this machine could not generate these loads now; a benchmark at them would measure the client",
        };
        let mut lines = Vec::new();
        for reason in &self.reasons {
            let mark = if reason.severity == ReasonSeverity::Warning { '!' } else { '✗' };
            lines.push(format!("{mark} {}: {}", reason.of, reason.text));
        }
        if let Some(load) = self.load_average.filter(|load| *load > 0.5 && !self.reasons.is_empty()) {
            let cores = self.cores;
            lines.push(format!(
                "in the minute before, other processes needed {load:.1} of {cores} cores: repeat it when the machine \
                 is idle"
            ));
        }
        if self.is_debug && !self.reasons.is_empty() {
            lines.push("this is a debug build: one with `--release` needs a fraction of the CPU".to_owned());
        }
        let section = Section::new(format!("{}: {meaning}", self.verdict.as_str()));
        section.with(lines.into_iter().map(Block::plain))
    }
}

fn scripted_row(row: &Scripted) -> Vec<Cell> {
    let spread = |spread: &Spread| format!("{:.0} / {:.0} / {:.0}", spread.p50, spread.p99, spread.max);
    let poisson = match (row.ks_distance, row.ks_critical) {
        (Some(distance), Some(critical)) if distance <= critical => format!("yes, {distance:.3} ≤ {critical:.3}"),
        (Some(distance), Some(critical)) => format!("NO, {distance:.3} > {critical:.3}"),
        _ => "too few".to_owned(),
    };
    let errors = [&row.ttft_error_us, &row.gap_error_us, &row.lag_us, &row.lateness_at_server_us].map(spread);
    let load = [row.rate.to_string(), row.requests.to_string()];
    load.into_iter().chain(errors).chain([poisson]).map(Cell::from).collect()
}

fn ceiling_row(row: &MaxRateResult) -> [Cell; 4] {
    [
        Cell::name(format!("{} tokens an answer", row.tokens_per_answer)),
        format!("{:.0} tokens/s", row.tokens_per_s).into(),
        format!("{:.0} requests/s", row.requests_per_s).into(),
        format!("{:.2} ms of CPU for 1,000 responses", row.cpu_ms_per_1000).into(),
    ]
}
