//! `timeslices.csv`: what happened in each second.

use std::fmt::Write as _;

use crate::metrics::MeasuredRun;
use crate::results::exported::{Exported, cell};
use crate::results::identity;
use harness::{RequestEnd, RequestRecord};

const NS: u64 = 1_000_000_000;
/// Eleven days: of more, the file would have hundreds of megabytes, and records may state any time.
const MOST_ROWS: u64 = 1_000_000;

#[derive(Clone, Copy, Default)]
struct TimesliceTotals {
    scheduled: u64,
    issued: u64,
    ok: u64,
    failed: u64,
    ended_by_client: u64,
    first_tokens: u64,
    in_flight: i64,
    ttft_ms: f64,
    ttft_max_ms: f64,
}

/// Tokens come from the result, which saw every chunk; all else from the records.
pub(super) fn write(measured_run: &MeasuredRun, records: &[RequestRecord], out: &mut Exported) {
    let stamps = |record: &RequestRecord| [record.t_sched, record.t_issue, record.t_end, record.t_first.unwrap_or(0)];
    let count = records.iter().flat_map(stamps).max().map_or(0, |last| last / NS + 1);
    if count > MOST_ROWS {
        out.without(format!(
            "timeslices.csv: it would have {count} rows, one a second, and more than {MOST_ROWS} are not written"
        ));
        return;
    }
    let mut seconds = vec![TimesliceTotals::default(); count as usize];
    let at = |ns: u64| (ns / NS) as usize;
    let mut change = vec![0i64; seconds.len() + 1];
    for record in records {
        seconds[at(record.t_sched)].scheduled += 1;
        seconds[at(record.t_issue)].issued += 1;
        let end = &mut seconds[at(record.t_end)];
        match record.ended {
            RequestEnd::Ok => end.ok += 1,
            RequestEnd::Failed { .. } => end.failed += 1,
            _ => end.ended_by_client += 1,
        }
        change[(record.t_issue.div_ceil(NS) as usize).min(seconds.len())] += 1;
        change[(record.t_end.div_ceil(NS) as usize).min(seconds.len())] -= 1;
        if let Some(first) = record.t_first {
            let second = &mut seconds[at(first)];
            let ttft = first.saturating_sub(record.t_sched) as f64 / 1e6;
            second.first_tokens += 1;
            second.ttft_ms += ttft;
            second.ttft_max_ms = second.ttft_max_ms.max(ttft);
        }
    }
    let mut in_flight = 0;
    for (second, change) in seconds.iter_mut().zip(change) {
        in_flight += change;
        second.in_flight = in_flight;
    }
    let tokens = |second: usize| measured_run.result.slices().get(second).map(|slice| slice.tokens);
    let mut text =
        "second,scheduled,issued,in_flight,ok,failed,ended_by_client,first_tokens,tokens,ttft_mean_ms,ttft_max_ms,verdict,identity\n"
            .to_owned();
    let (verdict, identity) = (cell(&measured_run.result.verdict_text()), cell(&identity::line(measured_run)));
    for (n, second) in seconds.iter().enumerate() {
        let TimesliceTotals { scheduled, issued, ok, failed, ended_by_client, first_tokens, in_flight, .. } = *second;
        let tokens = tokens(n).map_or_else(String::new, |tokens| tokens.to_string());
        let (mean, max) = if first_tokens > 0 {
            (format!("{:.3}", second.ttft_ms / first_tokens as f64), format!("{:.3}", second.ttft_max_ms))
        } else {
            Default::default()
        };
        let _ = writeln!(
            text,
            "{n},{scheduled},{issued},{in_flight},{ok},{failed},{ended_by_client},{first_tokens},{tokens},{mean},{max},{verdict},{identity}"
        );
    }
    out.file("timeslices.csv", text);
}
