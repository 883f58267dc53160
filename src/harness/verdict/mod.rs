//! The verdict: did this run measure the server under the planned load, or something else? Pure.
//!
//! Each check, its limit and what it makes of the run is a row of [`crate::verdict_reasons`]. A rate that was not
//! reached is not the client's fault where `max_in_flight` held arrivals back (OVERLOADED), and for LoadGen where the
//! client was in time, or with limits missed whatever the lag (LIMIT MISSED). LoadGen's latencies include lag and CPU
//! of the client: they speak against a run only where LoadGen reports a latency over its limit; lag only where that is
//! TTFT, of which it is half.
//!
//! Every number that counts from the schedule includes the lag, so a little of it makes them worse, never better: lag
//! therefore causes a warning first, and INVALID only above the second limit.

mod answers;
pub(crate) mod lateness;
pub mod preflight;
pub(crate) mod servers;
mod unjudged_run;

#[cfg(test)]
mod answer_findings_tests;
#[cfg(test)]
pub(crate) mod metric_vector_tests;
#[cfg(test)]
pub(crate) mod verdict_table_tests;

pub use answers::failure_cure;
pub use unjudged_run::UnjudgedRun;

use crate::measure::metric::is_maximum;
use crate::measure::reasons::VerdictReasons;
use crate::measure::result::PreflightResult;
use crate::verdict::answers::{answers, broken_off, violations};
use crate::verdict::unjudged_run::Evidence;
use crate::{BenchSpec, FailureClass, LoadgenResult, Metric, Mismatch, ReasonSeverity, RunResult, VerdictCheck};
use base::spec::{Arrivals, GoodputLimit};
use base::units::{counted, distinct_decimals};

pub(crate) const RATE: f64 = 0.01;
/// Of LoadGen's runs in which the client is not late: of few requests 1 % of the time is a few milliseconds.
pub(crate) const RATE_IN_TIME: f64 = 0.05;
/// The largest share of repeated prompts.
pub(crate) const REPEATED: f64 = 0.05;
/// The largest share of prompt tokens from the cache where only the servers' metrics have it: the template of a chat is
/// at the beginning of every prompt.
pub(crate) const CACHED: f64 = 0.2;
pub(crate) const CPU: f64 = 0.85;
pub(crate) const CORE_WAIT: f64 = 0.01;
pub(crate) const BACKLOG_MS: f64 = 1.0;

/// Every finding against the run, from its numbers and from all other evidence.
fn set_verdict(spec: &BenchSpec, result: &RunResult, evidence: &Evidence) -> VerdictReasons {
    let mut reasons = VerdictReasons::default();
    servers::lost(evidence, &mut reasons);
    bookkeeping(spec, result, &mut reasons);
    violations(result, &mut reasons);
    load(spec, result, evidence, &mut reasons);
    client(spec, result, &mut reasons);
    admitted_rate(result, &mut reasons);
    limits(spec, result, &mut reasons);
    result.stability.findings(&mut reasons);
    answers(spec, result, &mut reasons);
    prompts(spec, result, &mut reasons);
    servers::loadgen(result, &mut reasons);
    servers::other_load(result, &mut reasons);
    servers::lowered(evidence, &mut reasons);
    servers::identity(result, evidence, &mut reasons);
    reasons.extend(result.preflight.iter().flat_map(PreflightResult::reasons));
    reasons
}

fn bookkeeping(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    let counts = &result.counts;
    if counts.failed > 0 {
        let classes: Vec<String> = FailureClass::ALL
            .iter()
            .filter_map(|class| Some(format!("{} {}", counts.failed_by_class.get(class)?, class.as_str())))
            .collect();
        let first = counts.failures.first().map_or("", |failed| failed.why.as_str());
        let cure = counts.failures.iter().find_map(|failed| failure_cure(&failed.why));
        let cure = cure.map_or_else(String::new, |cure| format!("; {cure}"));
        let (share, budget) = (counts.failed_share(), spec.limits.failure_budget());
        let is_within = budget.is_some_and(|budget| share <= budget);
        let with_broken_off = match counts.broken_off {
            0 => String::new(),
            broken_off => format!(" with {} that broke off", counted(broken_off, "answer")),
        };
        let of_budget = budget.map_or_else(String::new, |budget| {
            let how = if is_within { "within" } else { "beyond" };
            format!(" ({:.2} %{with_broken_off}, {how} the budget of {:.2} %)", share * 100.0, budget * 100.0)
        });
        // Empty for one server.
        let mut failing = result.endpoints.iter().filter(|server| server.failed > 0);
        let of_server = match (failing.next(), failing.next()) {
            (Some(server), None) => format!(", all of them at {}", server.host),
            _ => String::new(),
        };
        found.add(
            VerdictCheck::Failures,
            match counts.failed_by_class.get(&FailureClass::Client) {
                _ if is_within => ReasonSeverity::Warning,
                Some(_) => ReasonSeverity::InvalidClient,
                None => ReasonSeverity::InvalidServer,
            },
            format!(
                "{} of {} failed{of_server}{of_budget}: {}; first: {first}{cure}",
                counts.failed,
                counted(counts.issued, "request"),
                classes.join(", ")
            ),
        );
    }
    // No failure budget allows that.
    let is_budgeted = spec.limits.failures.is_some();
    if is_budgeted && counts.failed > 0 && counts.ok == 0 && counts.cancelled + counts.cancelled_early == 0 {
        let text = format!("none of {} was answered: nothing was measured", counted(counts.issued, "request"));
        found.add(VerdictCheck::Failures, ReasonSeverity::InvalidServer, text);
    }
    broken_off(spec, result, found);
    if counts.retried > 0 {
        let classes: Vec<String> =
            counts.retried_by_class.iter().map(|(class, count)| format!("{count} {}", class.as_str())).collect();
        let text = format!(
            "{} failed, sent again as `retries` requests: {}; latencies count from the first intended time",
            counted(counts.retried, "attempt"),
            classes.join(", ")
        );
        found.warn(VerdictCheck::Retries, text);
    }
    let resent = result.connections.resent;
    if resent > 0 {
        let text = format!(
            "{} had to be sent again, because the server closed the kept connection at that moment; latencies count \
             from the first intended time",
            counted(resent, "request")
        );
        found.warn(VerdictCheck::Retries, text);
    }
    if !counts.conserved {
        let text = format!(
            "requests do not add up: {} scheduled, {} issued, {} ok, {} failed, {} cancelled, {} not sent",
            counts.scheduled, counts.issued, counts.ok, counts.failed, counts.cancelled, counts.not_sent
        );
        found.add(VerdictCheck::Conservation, ReasonSeverity::InvalidClient, text);
    }
    if counts.in_flight_at_end > 0 {
        let text = format!("{} still in flight at the end", counted(counts.in_flight_at_end, "request"));
        found.add(VerdictCheck::InFlight, ReasonSeverity::InvalidClient, text);
    }
    for Mismatch { what, found: one, expected } in &result.self_check.mismatches {
        let text = format!("the run's own sums disagree: {what}: {one} and {expected}");
        found.add(VerdictCheck::SelfCheck, ReasonSeverity::InvalidClient, text);
    }
}

fn load(spec: &BenchSpec, result: &RunResult, evidence: &Evidence, found: &mut VerdictReasons) {
    let counts = &result.counts;
    // A stop while no user is at work cancels nothing, and ends the load all the same.
    if evidence.was_stopped || counts.cancelled + counts.not_sent > 0 {
        let text = format!(
            "interrupted: {} of {} not sent, {} cancelled",
            counts.not_sent,
            counted(counts.scheduled, "request"),
            counts.cancelled
        );
        found.add(VerdictCheck::Stopped, ReasonSeverity::InvalidClient, text);
    }
    if result.load.held_back > 0 {
        let text = format!(
            "{} waited because {} in flight are all that `max_in_flight` allows; latencies count the wait",
            counted(result.load.held_back, "arrival"),
            counted(result.load.max_in_flight.unwrap_or(0), "request")
        );
        found.warn(VerdictCheck::HeldBack, text);
    }
    if let (Some(distance), Some(critical)) = (result.client.ks_distance, result.client.ks_critical)
        && distance > critical
    {
        let is_gamma = matches!(spec.arrivals, Arrivals::Gamma { .. });
        let law = if is_gamma { "of their gamma law" } else { "Poisson" };
        let text = format!("the real arrivals are not {law}: distance {distance:.4}, critical {critical:.4}");
        found.warn(VerdictCheck::Ks, text);
    }
}

/// Whether requests were issued at the rate of their schedule.
fn admitted_rate(result: &RunResult, found: &mut VerdictReasons) {
    let (Some(offered), Some(admitted)) = (result.rates.offered, result.rates.admitted) else { return };
    // The schedule goes on after a stop, and its rate is not that of the part that was sent. `lag` checks each request.
    if result.counts.not_sent > 0 {
        return;
    }
    // Else nothing but the client makes requests late; one late request changes the rate only at an end of the run.
    let is_late = lateness::is_beyond_chance(result.client.late.very_late, result.latency.queue_client.n);
    let allowed = match result.loadgen {
        _ if is_late || result.load.held_back > 0 => RATE,
        Some(_) => RATE_IN_TIME,
        None => return,
    };
    if (admitted - offered).abs() <= allowed * offered {
        return;
    }
    // A server that misses its limits at a lower rate, too, misses them at this one.
    let is_missed_anyway = |loadgen: &LoadgenResult| {
        admitted < offered && loadgen.is_over_latency_limit() && !servers::lag_explains_limit(loadgen, result)
    };
    let is_loads = result.loadgen.as_ref().is_some_and(|loadgen| !is_late || is_missed_anyway(loadgen));
    let severity = match result.load.held_back > 0 {
        true => ReasonSeverity::Overloaded,
        false if is_loads => ReasonSeverity::LimitMissed,
        false => ReasonSeverity::InvalidClient,
    };
    let text = format!("requests were issued at {admitted:.2}/s, and {offered:.2}/s were scheduled");
    found.add(VerdictCheck::Rate, severity, text);
}

/// Accuracy and audit runs of LoadGen are about answers: their times are in no result.
fn is_judged_by_speed(result: &RunResult) -> bool {
    result.loadgen.as_ref().is_none_or(LoadgenResult::is_performance)
}

fn client(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    if !is_judged_by_speed(result) {
        return;
    }
    let is_server = spec.scenario.is_open_loop();
    // For LoadGen the client is part of what it measures: lateness makes its numbers worse, never better. So neither
    // lag nor CPU speaks against a test that kept its limits (`admitted_rate` may), and lag not against one that missed
    // them all the same.
    let unless = |stands: bool| if stands { ReasonSeverity::Warning } else { ReasonSeverity::InvalidClient };
    let loadgen = result.loadgen.as_ref();
    let late = unless(loadgen.is_some_and(|loadgen| !servers::lag_explains_limit(loadgen, result)));
    let busy = unless(loadgen.is_some_and(|loadgen| !loadgen.is_over_latency_limit()));
    // Arrivals that are delayed by `max_in_flight` are late on purpose, and their wait is in their latency.
    let is_held = spec.pace.max_in_flight.is_some();
    if let (true, Some((is_hard, text))) = (is_server && !is_held, lateness::lag(result)) {
        found.add(VerdictCheck::Lag, if is_hard { late } else { ReasonSeverity::Warning }, text);
    }
    if result.client.cpu_share_max > CPU {
        let severity = if is_server { busy } else { ReasonSeverity::Warning };
        let text = format!(
            "a load worker used {:.0} % of a core (bound {:.0} %): {}",
            result.client.cpu_share_max * 100.0,
            CPU * 100.0,
            VerdictCheck::Cpu.cure()
        );
        found.add(VerdictCheck::Cpu, severity, text);
    }
    if let Some(wait) = result.client.core_wait_share_max.filter(|wait| *wait > CORE_WAIT) {
        found
            .warn(VerdictCheck::CoreWait, format!("a load worker waited {:.1} % of the time for a core", wait * 100.0));
    }
    if let Some(backlog) = result.client.backlog_p99_ms.filter(|backlog| *backlog > BACKLOG_MS) {
        let text = format!("answers waited {backlog:.2} ms (p99) inside the client after they were read");
        found.warn(VerdictCheck::Backlog, text);
    }
    if is_server && result.connections.waited_for_stream > 0 {
        let text = format!(
            "arrivals were held back {}; each connection allows {}: {}",
            counted(result.connections.waited_for_stream, "time"),
            result.connections.max_streams.map_or_else(|| "few streams".to_owned(), |max| counted(max, "stream")),
            VerdictCheck::Streams.cure()
        );
        found.warn(VerdictCheck::Streams, text);
    }
    if result.connections.reconnects > 0 {
        found.warn(VerdictCheck::Reconnects, format!("{} lost", counted(result.connections.reconnects, "connection")));
    }
}

fn limits(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    for limit in spec.limits.latencies() {
        let (name, key, most) = (limit.name(), limit.key(), limit.ms);
        let metric = result.latency.limited(limit.metric);
        let text = match metric.and_then(|metric| metric.statistic(limit.statistic)) {
            Some(found) if found <= most => continue,
            Some(found) => {
                let (found, most) = distinct_decimals(found, most, 1);
                format!("{name} is {found} ms, the limit {key} is {most} ms")
            }
            None => {
                let absent = metric.and_then(|metric| metric.absent.as_ref());
                let cause = absent.map_or_else(String::new, |cause| format!(": {cause}"));
                format!("there is no {name} to check against the limit {key} of {most:.1} ms{cause}")
            }
        };
        found.add(VerdictCheck::Limits, ReasonSeverity::LimitMissed, text);
    }
    if let Some(limit) = spec.limits.goodput {
        goodput(limit, result, found);
    }
    let Metric { n, .. } = result.latency.ttft;
    if is_judged_by_speed(result) && is_maximum(n, 0.99) {
        found.warn(VerdictCheck::Samples, format!("p99 of {} is their maximum", counted(n, "request")));
    }
}

fn goodput(limit: GoodputLimit, result: &RunResult, found: &mut VerdictReasons) {
    let mut missed = |text: String| found.add(VerdictCheck::Limits, ReasonSeverity::LimitMissed, text);
    let Some(goodput) = &result.goodput else {
        return missed("there is no goodput to check against its limit: `slo` is not set".to_owned());
    };
    if goodput.slo.tpot_ms.is_some() && goodput.attainment.is_none() && result.latency.tpot.n == 0 {
        let text = "there is no TPOT to check against `slo`, and so no goodput to check against its limit";
        return missed(text.to_owned());
    }
    let (reached, least, unit) = match limit {
        GoodputLimit::Share(percent) => (goodput.attainment.map(|share| share * 100.0), percent.share() * 100.0, " %"),
        GoodputLimit::PerSecond(least) => (goodput.requests, least, " requests/s"),
    };
    match reached {
        Some(reached) if reached >= least => {}
        Some(reached) => {
            let (reached, least) = distinct_decimals(reached, least, 2);
            missed(format!("goodput is {reached}{unit}, the limit goodput is {least}{unit}"));
        }
        None => missed(format!("there is no goodput to check against the limit of {least:.2}{unit}")),
    }
}

/// The server's report of its prefix cache counts more than which prompts were sent: it may have no cache. Sessions and
/// shared prefixes are meant to be cached. LoadGen sends each sample again and again by its own rules.
fn prompts(spec: &BenchSpec, result: &RunResult, found: &mut VerdictReasons) {
    servers::cut_prompts(result, found);
    servers::longer_prompts(spec, result, found);
    let (repeated, scheduled) = (result.load.prompts_repeated, result.counts.scheduled);
    let is_wanted = spec.content.sessions.is_some() || spec.content.prefixes.is_some();
    let cached = result.tokens.input_cached.filter(|_| !is_wanted);
    let advice = "send more different prompts, or report this share with the result";
    if let Some(cached) = cached.filter(|cached| cached.share() > REPEATED) {
        let text = format!(
            "{} of {} prompt tokens came from the server's prefix cache, as the `usage` of {} of {} answers reports, \
             and {repeated} of {scheduled} prompts had been sent before in this run: TTFT and throughput are in part \
             those of the cache; {advice}",
            cached.tokens, cached.prompt_tokens, cached.requests, result.counts.ok
        );
        found.warn(VerdictCheck::RepeatedPrompts, text);
        return;
    }
    if !is_wanted && servers::prefix_cache(result, CACHED, found) {
        return;
    }
    if result.loadgen.is_none()
        && repeated as f64 > REPEATED * scheduled as f64
        && cached.is_none_or(|it| it.requests < result.counts.ok)
    {
        let text = format!(
            "{repeated} of {scheduled} prompts had been sent before in this run: a server with a prefix cache does not \
             compute them again, so that TTFT and throughput are those of its cache; {advice}"
        );
        found.warn(VerdictCheck::RepeatedPrompts, text);
    }
}

#[cfg(test)]
mod tests {
    //! Each bound from both sides, on one sound run of which one number is changed.

    use super::*;
    use crate::HostShare;
    use crate::verdict::metric_vector_tests::{spec, summarized};
    use crate::verdict::verdict_table_tests::answered_after;

    type Findings = Vec<(VerdictCheck, ReasonSeverity)>;

    /// What one check says of a run of 200 requests with this change.
    fn findings(change: impl FnOnce(&mut RunResult), check: impl FnOnce(&RunResult, &mut VerdictReasons)) -> Findings {
        let mut run = summarized(&spec(200), answered_after(200, |_| 30)).result;
        change(&mut run);
        let mut reasons = VerdictReasons::default();
        check(&run, &mut reasons);
        reasons.into_reasons().into_iter().map(|reason| (reason.check, reason.severity)).collect()
    }

    fn by_loadgen(mode: &str, result: &str) -> LoadgenResult {
        LoadgenResult { mode: mode.to_owned(), result: Some(result.to_owned()), ..LoadgenResult::default() }
    }

    #[test]
    fn a_rate_that_was_not_reached_is_judged_by_what_held_it_back() {
        let rate = |admitted: f64, change: fn(&mut RunResult)| {
            let run = |run: &mut RunResult| {
                (run.rates.offered, run.rates.admitted) = (Some(100.0), Some(admitted));
                change(run);
            };
            findings(run, admitted_rate).first().map(|(_, severity)| *severity)
        };
        assert_eq!(rate(97.0, |_| ()), None, "no request was late");
        assert_eq!(rate(97.0, |run| run.client.late.very_late = 50), Some(ReasonSeverity::InvalidClient));
        assert_eq!(rate(98.9, |run| run.load.held_back = 5), Some(ReasonSeverity::Overloaded));
        assert_eq!(rate(99.1, |run| run.load.held_back = 5), None);
        let stopped = |run: &mut RunResult| (run.load.held_back, run.counts.not_sent) = (5, 20);
        assert_eq!(rate(90.0, stopped), None, "the rate of the schedule is not that of the part that was sent");
        let in_time = |run: &mut RunResult| run.loadgen = Some(by_loadgen("performance", "VALID"));
        assert_eq!((rate(96.0, in_time), rate(94.0, in_time)), (None, Some(ReasonSeverity::LimitMissed)));
    }

    #[test]
    fn the_client_is_late_by_its_own_fault_unless_arrivals_were_to_wait() {
        let late =
            |spec: &BenchSpec| findings(|run| run.client.late.very_late = 50, |run, found| client(spec, run, found));
        let mut held = spec(200);
        assert_eq!(late(&held), [(VerdictCheck::Lag, ReasonSeverity::InvalidClient)]);
        held.pace.max_in_flight = Some(8);
        assert_eq!(late(&held), []);
        let waits = |share| {
            findings(|run| run.client.core_wait_share_max = Some(share), |run, found| client(&held, run, found))
        };
        assert_eq!((waits(0.009), waits(0.011)), (vec![], vec![(VerdictCheck::CoreWait, ReasonSeverity::Warning)]));
    }

    #[test]
    fn a_limit_that_is_just_reached_holds_and_answers_of_an_audit_have_no_p99() {
        let mut limited = spec(200);
        limited.limits.ttft_p99 = Some(std::time::Duration::from_millis(20).into());
        let p99 = |ms| findings(|run| run.latency.ttft.p99 = Some(ms), |run, found| limits(&limited, run, found));
        assert_eq!((p99(20.0), p99(20.1)), (vec![], vec![(VerdictCheck::Limits, ReasonSeverity::LimitMissed)]));
        let few = |mode: &str| {
            let run = |run: &mut RunResult| (run.latency.ttft.n, run.loadgen) = (50, Some(by_loadgen(mode, "INVALID")));
            findings(run, |run, found| {
                limits(&spec(50), run, found);
                servers::loadgen(run, found);
            })
        };
        let missed = (VerdictCheck::Loadgen, ReasonSeverity::LimitMissed);
        assert_eq!(few("performance"), [missed, (VerdictCheck::Samples, ReasonSeverity::Warning)]);
        assert_eq!(few("audit"), []);
    }

    #[test]
    fn unfinished_and_failed_requests_are_findings() {
        let books =
            |spec: &BenchSpec, change: fn(&mut RunResult)| findings(change, |run, found| bookkeeping(spec, run, found));
        let plain = spec(200);
        let open = books(&plain, |run| run.counts.in_flight_at_end = 1);
        assert_eq!(open, [(VerdictCheck::InFlight, ReasonSeverity::InvalidClient)]);
        let none = |run: &mut RunResult| (run.counts.ok, run.counts.failed, run.counts.issued) = (0, 200, 200);
        let failed = (VerdictCheck::Failures, ReasonSeverity::InvalidServer);
        assert_eq!(books(&plain, none), [failed], "one finding");
        let first = |failed_of_other| {
            let mut run = summarized(&plain, answered_after(200, |_| 30)).result;
            let server = |host: &str, failed| HostShare { host: host.to_owned(), failed, ..HostShare::default() };
            run.endpoints = vec![server("h:1", failed_of_other), server("h:2", 100)];
            run.counts.failed = 100 + failed_of_other;
            let mut reasons = VerdictReasons::default();
            bookkeeping(&plain, &run, &mut reasons);
            reasons.into_reasons().remove(0).text
        };
        assert!(first(0).starts_with("100 of 200 requests failed, all of them at h:2: "), "{}", first(0));
        assert!(first(1).starts_with("101 of 200 requests failed: "), "{}", first(1));
    }
}
