//! Whether this machine can generate the load now: tried before a measurement, for a second or two, against a server
//! that does no work. Pure: what to try, and what to report.
//!
//! A client that is late or has no CPU left measures itself. The measurement detects that too, but only after it
//! finished.

use std::time::Duration;

use crate::verdict::CPU;
use crate::verdict::lateness::{LAG, LAG_HARD, count_text};
use crate::{
    BenchSpec, LateRequests, LoadPattern, Measured, PromptSource, Reason, ReasonSeverity, RequestEnd, RequestSchedule,
    SendingSpec, Slo, Transport, VerdictCheck,
};
use base::diag::ErrorText;
use base::event::Endpoint;
use base::spec::{Arrivals, Length, Limits, Request, StopAfter};

pub use crate::measure::result::PreflightResult;

/// Of arrivals, or of users at work.
const ARRIVALS: Duration = Duration::from_millis(1_200);
/// From the arrival of a request to its first token, ms, evenly between the two.
const FIRST_MS: (f64, f64) = (20.0, 60.0);
/// An answer goes on for no longer than this, so that all of it is over soon after the last arrival.
const ANSWER_MS: f64 = 500.0;
/// As fast as a fast server makes tokens for one user.
const GAP_MS: f64 = 10.0;
/// Longer ones say nothing more about the client.
const MOST_INPUT: u32 = 4_096;
const MOST_OUTPUT: u32 = 1_000;
/// Measurements that are expected to take less do not try it unasked.
pub const WORTH_IT: Duration = Duration::from_secs(30);
/// What the client must be able to do, in loads: twice the planned one.
const HEADROOM: f64 = 2.0;

/// What is tried.
#[derive(Clone, Debug)]
pub struct PreflightTrial {
    /// Without endpoints: the caller that starts the server sets its own, by [`PreflightTrial::at`].
    spec: BenchSpec,
    /// How the server answers: ms to the first token and from token to token, each evenly between the two.
    pub first_ms: (f64, f64),
    pub gap_ms: (f64, f64),
    connections: usize,
    planned_tokens_per_s: Option<f64>,
}

/// How long the measurement will take at least, as far as the spec alone determines it.
pub fn expected(spec: &BenchSpec) -> Option<Duration> {
    let by_time = spec.stop.time();
    match &spec.scenario {
        LoadPattern::Server { rate } => {
            let by_count = spec.stop.requests.map(|requests| requests as f64 / rate.highest().max(f64::MIN_POSITIVE));
            let by_count = by_count.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            by_time.max(by_count)
        }
        LoadPattern::Concurrency { .. } => by_time,
        // All at once: as fast as the server accepts. A trace: as its file defines. LoadGen: as its rules define.
        LoadPattern::Offline | LoadPattern::Trace { .. } | LoadPattern::External(_) => None,
    }
}

impl PreflightTrial {
    /// One second of the same load. `None` if the load has no schedule.
    pub fn new(spec: &BenchSpec, schedule: &RequestSchedule) -> Option<Self> {
        let requests = schedule.requests.len().max(1) as f64;
        let mean = |of: fn(&crate::PlannedRequest) -> u32| {
            (schedule.requests.iter().map(|planned| f64::from(of(&planned))).sum::<f64>() / requests).round() as u32
        };
        let (input, output) = (mean(|planned| planned.input_len), mean(|planned| planned.output_len).max(1));
        let (scenario, rate) = match &spec.scenario {
            LoadPattern::Offline | LoadPattern::External(_) => return None,
            LoadPattern::Server { rate } => (LoadPattern::Server { rate: rate.highest().into() }, Some(rate.highest())),
            LoadPattern::Trace { .. } => {
                let rate = busiest(schedule);
                (LoadPattern::Server { rate: rate.into() }, Some(rate))
            }
            LoadPattern::Concurrency { users } => (LoadPattern::Concurrency { users: users.highest().into() }, None),
        };
        let answer = output.min(MOST_OUTPUT);
        let gap = GAP_MS.min(ANSWER_MS / f64::from(answer));
        let trial = BenchSpec {
            endpoints: Vec::new(),
            protocol: Transport::Kserve,
            model: "tensorrt_llm".to_owned(),
            scenario,
            // Scaled gaps end with a number of requests, and the trial ends with its time.
            arrivals: if spec.arrivals == Arrivals::PoissonScaled { Arrivals::Poisson } else { spec.arrivals },
            stop: StopAfter { requests: None, duration: Some(ARRIVALS.into()) },
            input_len: Length::Fixed(input.clamp(1, MOST_INPUT)),
            output_len: Length::Fixed(answer),
            warmup: 0,
            pace: SendingSpec::default(),
            content: PromptSource::default(),
            stall_timeout: Duration::from_secs(5),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines: false,
            request: Request::default(),
            vocab_size: 32_000,
            end_id: 2,
            ..spec.clone()
        };
        Some(Self {
            spec: trial,
            first_ms: FIRST_MS,
            // Half as much to either side.
            gap_ms: (gap * 0.5, gap * 1.5),
            connections: spec.connections(),
            planned_tokens_per_s: rate.map(|rate| rate * f64::from(output)),
        })
    }

    /// What to run, with as many connections as the measurement will have, all to this server.
    pub fn at(&self, server: Endpoint) -> BenchSpec {
        let clients = u32::try_from(self.connections).unwrap_or(u32::MAX).max(1);
        BenchSpec { endpoints: vec![server], frontends: 1, clients, ..self.spec.clone() }
    }

    /// Evaluates the trial, or returns why it has no result.
    pub fn evaluate(&self, measured: &Measured) -> Result<PreflightResult, ErrorText> {
        let result = &measured.result;
        if let Some(why) = measured.requests.iter().find_map(|record| match record.ended {
            RequestEnd::Failed { why, .. } => Some(why),
            _ => None,
        }) {
            return Err(ErrorText::new(format_args!("a request to the null server failed: {why}")));
        }
        if result.counts.ok == 0 {
            return Err(ErrorText::new("no request was answered by the null server"));
        }
        let preflight_result = self.measured_values(measured);
        let outcome = match preflight_result.reasons().iter().map(|reason| reason.severity).min() {
            None => "good",
            Some(ReasonSeverity::InvalidClient) => "invalid_client",
            Some(_) => "warning",
        };
        Ok(PreflightResult { outcome: outcome.to_owned(), ..preflight_result })
    }

    fn measured_values(&self, measured: &Measured) -> PreflightResult {
        let result = &measured.result;
        let is_open = self.spec.scenario.is_open_loop();
        let ttft = result.latency.ttft_sent.p50.unwrap_or(0.0);
        let client = &result.client;
        let cpu_share_planned = self
            .planned_tokens_per_s
            .zip(client.cpu_ms_per_1000_chunks)
            // One chunk is one token at the null server.
            .map(|(tokens, ms)| tokens / 1e3 * ms / 1e3 / client.workers.max(1) as f64);
        let (rate, users) = match &self.spec.scenario {
            LoadPattern::Server { rate } => (Some(rate.highest()), None),
            LoadPattern::Concurrency { users } => (None, Some(users.highest())),
            _ => (None, None),
        };
        PreflightResult {
            server: "a server that does no work, in a process of its own on this machine, over KServe's gRPC"
                .to_owned(),
            outcome: String::new(),
            tries: 1,
            seconds: result.rates.window_s,
            requests: result.counts.issued,
            rate,
            users,
            connections: self.connections as u64,
            tokens_per_answer: match self.spec.output_len {
                Length::Fixed(tokens) => tokens,
                _ => 0,
            },
            in_flight_max: result.load.in_flight_max,
            lag_p99_ms: result.latency.queue_client.p99.filter(|_| is_open),
            lag_max_ms: result.latency.queue_client.max.filter(|_| is_open),
            lag_bound_ms: LAG.request.at(ttft),
            lag_hard_bound_ms: LAG_HARD.request.at(ttft),
            late: if is_open { LateRequests::count(&measured.requests, ttft) } else { LateRequests::default() },
            cpu_share_max: client.cpu_share_max,
            cpu_ms_per_1000_chunks: client.cpu_ms_per_1000_chunks,
            workers: client.workers,
            planned_tokens_per_s: self.planned_tokens_per_s,
            cpu_share_planned,
            headroom: cpu_share_planned.filter(|share| *share > 0.0).map(|share| CPU / share),
        }
    }
}

/// Arrivals of the busiest second.
fn busiest(schedule: &RequestSchedule) -> f64 {
    const SECOND: u64 = 1_000_000_000;
    let mut at: Vec<u64> = schedule.scheduled().collect();
    at.sort_unstable();
    let mut first = 0;
    let mut most = 1;
    for (last, now) in at.iter().enumerate() {
        while now - at[first] >= SECOND {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    most as f64
}

impl PreflightResult {
    /// The better of two: the second try is there because a machine may have been busy for a moment.
    #[must_use]
    pub fn better(self, other: Self) -> Self {
        let bad = |result: &Self| result.reasons().iter().map(|reason| reason.severity).min();
        // Severities go from worst to least; none at all is best.
        let rank = |result: &Self| bad(result).map_or(u8::MAX, |severity| severity as u8);
        let tries = self.tries + other.tries;
        let lag = |result: &Self| result.lag_p99_ms.unwrap_or(0.0);
        let is_other = (rank(&other), lag(&self)) > (rank(&self), lag(&other));
        Self { tries, ..if is_other { other } else { self } }
    }

    /// What speaks against the measurement to come.
    pub fn reasons(&self) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let mut add = |severity, text: String| {
            reasons.push(Reason { check: VerdictCheck::Preflight, severity, text });
        };
        let load = match (self.rate, self.users) {
            (Some(rate), _) => format!("{rate} req/s"),
            (_, Some(users)) => format!("{users} users"),
            _ => "the planned load".to_owned(),
        };
        let before = format!("before the measurement, at {load} against a server that does no work,");
        let late = [
            (ReasonSeverity::InvalidClient, self.late.very_late, self.lag_hard_bound_ms),
            (ReasonSeverity::Warning, self.late.late, self.lag_bound_ms),
        ];
        let text = |(severity, late, bound)| Some((severity, count_text(late, self.requests, bound)?));
        if let Some((severity, text)) = late.into_iter().find_map(text) {
            add(severity, format!("{before} {text}"));
        }
        if self.cpu_share_max > CPU {
            // A closed loop sends as fast as it can, also against a real server.
            let severity = if self.users.is_some() { ReasonSeverity::Warning } else { ReasonSeverity::InvalidClient };
            add(
                severity,
                format!(
                    "{before} a load worker used {:.0} % of a core (bound {:.0} %)",
                    self.cpu_share_max * 100.0,
                    CPU * 100.0
                ),
            );
        } else if let Some((share, tokens)) = self.cpu_share_planned.zip(self.planned_tokens_per_s) {
            let needs = format!(
                "{before} 1,000 tokens took {:.2} ms of CPU: the planned {tokens:.0} tokens/s need {:.0} % of a core \
                 of each of {} load workers",
                self.cpu_ms_per_1000_chunks.unwrap_or_default(),
                share * 100.0,
                self.workers
            );
            if share > CPU {
                add(ReasonSeverity::InvalidClient, format!("{needs} (bound {:.0} %)", CPU * 100.0));
            } else if share * HEADROOM > CPU {
                add(
                    ReasonSeverity::Warning,
                    format!("{needs}, which leaves no room for twice as many (bound {:.0} %)", CPU * 100.0),
                );
            }
        }
        reasons
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::plan;

    fn spec(scenario: LoadPattern, requests: Option<u64>, seconds: Option<u64>) -> BenchSpec {
        BenchSpec {
            endpoints: vec![
                Endpoint { host: "gpu-host".to_owned(), grpc: 8001, http: None, metrics: None, name: None };
                2
            ],
            protocol: Transport::Kserve,
            model: "ensemble".to_owned(),
            scenario,
            arrivals: Arrivals::Constant,
            stop: StopAfter { requests, duration: seconds.map(|seconds| Duration::from_secs(seconds).into()) },
            input_len: Length::Uniform { min: 100, max: 300 },
            output_len: Length::Fixed(100),
            seed: 3,
            warmup: 7,
            pace: SendingSpec::default(),
            content: PromptSource::default(),
            frontends: 2,
            clients: 3,
            stall_timeout: Duration::from_mins(1),
            limits: Limits { ttft_p99: Some(Duration::from_secs(1).into()), ..Limits::default() },
            slo: Slo::default(),
            timelines: true,
            vocab_size: 1_000,
            end_id: 2,
            request: Request::default(),
        }
    }

    #[test]
    fn preflight_sends_the_same_load_to_a_local_server() {
        let spec = spec(LoadPattern::Server { rate: 50.0.into() }, Some(3_000), None);
        assert_eq!(expected(&spec), Some(Duration::from_mins(1)));
        let trial = PreflightTrial::new(&spec, &plan(&spec).unwrap()).unwrap();
        assert_eq!(trial.planned_tokens_per_s, Some(5_000.0));
        // 100 tokens within half a second.
        assert_eq!(trial.gap_ms, (2.5, 7.5));
        let local = Endpoint { host: "127.0.0.1".to_owned(), grpc: 9, http: None, metrics: None, name: None };
        let tried = trial.at(local.clone());
        assert_eq!((&tried.endpoints, tried.connections()), (&vec![local], spec.connections()));
        assert_eq!(tried.scenario, spec.scenario);
        assert_eq!((tried.seed, tried.arrivals, tried.output_len.clone()), (3, spec.arrivals, Length::Fixed(100)));
        let Length::Fixed(input) = tried.input_len else { panic!("{:?}", tried.input_len) };
        assert!((180..220).contains(&input), "{input}");
        assert!(plan(&tried).unwrap().requests.len() <= 60, "little more than a second of them");
    }

    #[test]
    fn scaled_arrivals_are_tried_as_poissons() {
        let scaled = BenchSpec {
            arrivals: Arrivals::PoissonScaled,
            ..spec(LoadPattern::Server { rate: 50.0.into() }, Some(3_000), None)
        };
        let trial = PreflightTrial::new(&scaled, &plan(&scaled).unwrap()).unwrap();
        let local = Endpoint { host: "127.0.0.1".to_owned(), grpc: 9, http: None, metrics: None, name: None };
        assert!(plan(&trial.at(local)).unwrap().requests.len() > 20, "a second of them");
    }

    #[test]
    fn of_a_ramp_the_highest_level_is_tried_and_of_users_all() {
        let ramp = crate::LoadLevel::Ramp(vec![crate::LoadSegment { from: 1.0, to: 80.0, seconds: 60.0 }]);
        let spec_of = |scenario| spec(scenario, None, Some(60));
        let ramped = spec_of(LoadPattern::Server { rate: ramp });
        let trial = PreflightTrial::new(&ramped, &plan(&ramped).unwrap()).unwrap();
        assert_eq!(trial.spec.scenario, LoadPattern::Server { rate: 80.0.into() });
        let users = spec_of(LoadPattern::Concurrency { users: 64.0.into() });
        let trial = PreflightTrial::new(&users, &plan(&users).unwrap()).unwrap();
        assert_eq!((trial.spec.scenario.clone(), trial.planned_tokens_per_s), (users.scenario.clone(), None));
        let offline = spec(LoadPattern::Offline, Some(10), None);
        assert!(PreflightTrial::new(&offline, &plan(&offline).unwrap()).is_none(), "it has no schedule to be late for");
        assert_eq!((expected(&offline), expected(&users)), (None, Some(Duration::from_mins(1))));
    }

    #[test]
    fn the_busiest_second_of_a_trace_counts() {
        let spec = spec(LoadPattern::Server { rate: 1.0.into() }, Some(3), None);
        let mut schedule = plan(&spec).unwrap();
        let ms = [0, 400, 900, 1_000, 1_100, 5_000];
        let template = schedule.requests.to_vec()[0].clone();
        let at = |ms: u64| crate::PlannedRequest { at_ns: ms * 1_000_000, ..template.clone() };
        schedule.requests = crate::PlannedRequests::kept(ms.map(at).to_vec());
        // From 400 ms on: 400, 900, 1000, 1100; what comes a whole second later is the next second's.
        assert!((busiest(&schedule) - 4.0).abs() < f64::EPSILON);
    }

    fn preflight_result(lag_p99_ms: f64, cpu_share_max: f64, cpu_share_planned: f64) -> PreflightResult {
        // A twentieth of the requests is as late as that.
        let late = |bound: f64| if lag_p99_ms > bound { 12 } else { 0 };
        PreflightResult {
            tries: 1,
            requests: 240,
            rate: Some(200.0),
            lag_p99_ms: Some(lag_p99_ms),
            lag_bound_ms: 1.0,
            lag_hard_bound_ms: 5.0,
            late: LateRequests { late: late(1.0), very_late: late(5.0) },
            cpu_share_max,
            cpu_ms_per_1000_chunks: Some(0.5),
            workers: 2,
            planned_tokens_per_s: Some(40_000.0),
            cpu_share_planned: Some(cpu_share_planned),
            ..PreflightResult::default()
        }
    }

    fn found(preflight_result: &PreflightResult) -> Vec<(ReasonSeverity, String)> {
        preflight_result.reasons().into_iter().map(|reason| (reason.severity, reason.text)).collect()
    }

    #[test]
    fn machine_findings_include_numbers() {
        assert_eq!(found(&preflight_result(0.9, 0.4, 0.4)), []);
        let late = "before the measurement, at 200 req/s against a server that does no work,";
        assert_eq!(
            found(&preflight_result(1.5, 0.4, 0.4)),
            [(ReasonSeverity::Warning, format!("{late} 12 of 240 requests were sent more than 1.00 ms late"))]
        );
        assert_eq!(
            found(&preflight_result(6.0, 0.4, 0.4)),
            [(ReasonSeverity::InvalidClient, format!("{late} 12 of 240 requests were sent more than 5.00 ms late"))]
        );
        let once = LateRequests { late: 1, very_late: 1 };
        let few = PreflightResult { requests: 15, late: once, ..preflight_result(9.0, 0.4, 0.4) };
        assert_eq!(found(&few), [], "one late request of 15 is chance");
        let [(severity, text)] = &found(&preflight_result(0.1, 0.4, 0.6))[..] else { panic!("one") };
        assert_eq!(*severity, ReasonSeverity::Warning);
        assert!(
            text.ends_with(
                "1,000 tokens took 0.50 ms of CPU: the planned 40000 tokens/s need 60 % of a core of each of 2 load \
                 workers, which leaves no room for twice as many (bound 85 %)"
            ),
            "{text}"
        );
        assert_eq!(found(&preflight_result(0.1, 0.4, 0.9))[0].0, ReasonSeverity::InvalidClient);
        assert_eq!(found(&preflight_result(0.1, 0.9, 0.9))[0].0, ReasonSeverity::InvalidClient);
        let users = PreflightResult {
            rate: None,
            users: Some(64.0),
            lag_p99_ms: None,
            late: LateRequests::default(),
            cpu_share_planned: None,
            ..preflight_result(0.0, 0.9, 0.0)
        };
        assert_eq!(found(&users)[0].0, ReasonSeverity::Warning, "a closed loop may be as busy as it likes");
    }

    #[test]
    fn of_two_tries_the_better_one_counts() {
        let (good, slow, late) =
            (preflight_result(0.1, 0.1, 0.1), preflight_result(2.0, 0.1, 0.1), preflight_result(9.0, 0.1, 0.1));
        let lag = |result: PreflightResult| (result.lag_p99_ms, result.tries);
        assert_eq!(lag(late.clone().better(slow.clone())), (Some(2.0), 2));
        assert_eq!(lag(slow.clone().better(late)), (Some(2.0), 2));
        assert_eq!(lag(slow.clone().better(good)), (Some(0.1), 2));
        assert_eq!(lag(slow.better(preflight_result(3.0, 0.1, 0.1))), (Some(2.0), 2));
    }
}
