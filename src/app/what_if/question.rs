//! One benchmark of one point: the twin of its server, its load, and what the twin answers.
//! With `--disaggregated` its copies are context servers and generation servers.

use std::fmt::Display;

use crate::cli::{RouterWord, WhatIfRequest};
use crate::error::CommandError;
use base::spec::{LatencyLimit, Length, LimitedMetric, Statistic};
use report::{WhatIfNumbers, WhatIfProblem, WhatIfRow};
use sim::{
    Balancer, Disaggregation, EngineLimits, EngineServing, ServerArrangement, VirtualBenchmark, VirtualResult,
    VirtualWorkload,
};

/// Rates of a curve, as shares of the highest one.
const CURVE: [f64; 9] = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 1.0, 1.05];

/// One benchmark of one point.
#[derive(Clone)]
pub(super) struct Question {
    pub row: WhatIfRow,
    pub twin: Option<(sim::EngineSpec, EngineServing)>,
    /// Context servers and generation servers in place of servers that do both.
    pub split: Option<Disaggregation>,
    pub workload: VirtualWorkload,
    pub is_offline: bool,
    /// Empty: measure at the rate.
    pub limits: Vec<LatencyLimit>,
    pub rate: Option<f64>,
    /// The command's words without the rate, and the key of the rate.
    pub rate_key: String,
}

impl Question {
    /// The same for this many copies of its server. No manifest starts them apart: the command is that of the load
    /// alone.
    pub fn split_over(&self, split: &ServerSplit, requests: u32) -> Self {
        let mut question = self.clone();
        if split.setup.is_some() || split.servers != self.row.servers {
            let load = bench_command(&self.workload, self.is_offline, requests as usize);
            question.row.command = load.unwrap_or_default();
            BENCH_RATE.clone_into(&mut question.rate_key);
        }
        let row = &mut question.row;
        row.gpus = row.gpus / row.servers.max(1) as u32 * split.servers as u32;
        row.servers = split.servers;
        row.settings.push(("disaggregated".to_owned(), split.text.clone()));
        question.split = split.setup;
        question
    }

    pub fn answer(&self, requests: usize, has_curve: bool) -> WhatIfRow {
        let mut row = self.row.clone();
        if let Some((spec, serving)) = &self.twin {
            let server = sim::served_limits(spec, serving).map_err(problem);
            row.outcome = server.clone().and_then(|server| self.numbers(&server, requests));
            if let (Ok(server), Ok(WhatIfNumbers { rate: Some(highest), .. }), true) =
                (&server, &row.outcome, has_curve)
            {
                row.curve = self.curve(server, requests, *highest);
            }
        }
        if let Ok(WhatIfNumbers { rate: Some(rate), .. }) = row.outcome
            && !row.command.is_empty()
        {
            // A rate that was given is that one; one that was found is not rounded up, where the limits may not hold.
            let rate = if self.limits.is_empty() { rate } else { rounded_down(rate) };
            row.command = with_rate(&row.command, &self.rate_key, rate);
        }
        row
    }

    fn numbers(&self, server: &EngineLimits, requests: usize) -> Result<WhatIfNumbers, WhatIfProblem> {
        let (benchmark, count) = (self.benchmark(server), self.count(server, requests));
        if self.is_offline || self.limits.is_empty() {
            let rate = if self.is_offline { None } else { self.rate };
            return Ok(numbers_of(rate, &benchmark.served(count, rate).map_err(problem)?));
        }
        let capacity = benchmark.capacity(count, &self.limits).map_err(problem)?;
        if capacity.rate == 0.0 {
            return Err(WhatIfProblem("the limits do not hold at any rate".to_owned()));
        }
        Ok(numbers_of(Some(capacity.rate), &capacity.result))
    }

    fn benchmark<'a>(&'a self, server: &'a EngineLimits) -> VirtualBenchmark<'a> {
        let replicas = ServerArrangement::Replicas(self.row.servers);
        let arrangement = self.split.map_or(replicas, ServerArrangement::Disaggregated);
        VirtualBenchmark { server, arrangement, workload: &self.workload }
    }

    /// Each server has enough requests to fill it several times; at once, until its beginning and its end are a small
    /// part of the time.
    fn count(&self, server: &EngineLimits, requests: usize) -> usize {
        let fillings = if self.is_offline { 20 } else { 4 };
        requests.max(self.row.servers * server.max_batch_size * fillings)
    }

    /// The same load at rates up to a little more than the highest one.
    fn curve(&self, server: &EngineLimits, requests: usize, highest: f64) -> Vec<WhatIfNumbers> {
        let (benchmark, count) = (self.benchmark(server), self.count(server, requests));
        let at = |share: f64| {
            let rate = share * highest;
            Some(numbers_of(Some(rate), &benchmark.judged_at(count, &self.limits, rate).ok()?))
        };
        CURVE.into_iter().filter_map(at).collect()
    }
}

fn problem(error: impl Display) -> WhatIfProblem {
    WhatIfProblem(error.to_string())
}

/// A command with its rate, in place of one that was given.
fn with_rate(command: &str, key: &str, rate: f64) -> String {
    let is_given = |word: &str| word.strip_prefix(key).is_some_and(|rest| rest.starts_with('='));
    let words: Vec<&str> = command.split(' ').filter(|word| !is_given(word)).collect();
    format!("{} {key}={rate}", words.join(" "))
}

/// To two decimals, and below 1 to three digits that count.
fn rounded_down(rate: f64) -> f64 {
    let decimals = 2 - (rate.log10().floor() as i32).min(0);
    let scale = 10f64.powi(decimals);
    // The rounding error of the multiplication must not push the result a step lower.
    (rate * scale * (1.0 + f64::EPSILON)).floor() / scale
}

fn numbers_of(rate: Option<f64>, result: &VirtualResult) -> WhatIfNumbers {
    // TTFT and TPOT are kept in virtual time.
    let value = |metric, statistic| result.statistic(metric, statistic).ok().flatten();
    WhatIfNumbers {
        rate,
        tokens_per_second: VirtualResult::tokens_per_second(result),
        ttft_p50: value(LimitedMetric::Ttft, Statistic::P50),
        ttft_p99: value(LimitedMetric::Ttft, Statistic::P99),
        tpot_p50: value(LimitedMetric::Tpot, Statistic::P50),
        tpot_p99: value(LimitedMetric::Tpot, Statistic::P99),
        pauses: result.pauses,
    }
}

/// A NIC of 400 Gbit/s for each GPU.
const LINK_GBS: f64 = 50.0;
const MOST_SERVERS: usize = 10_000;

/// Copies of a server, as `--disaggregated` names them.
pub(super) struct ServerSplit {
    /// As typed.
    pub text: String,
    pub servers: usize,
    /// `None`: all of them compute prompts and make answers.
    pub setup: Option<Disaggregation>,
}

/// The splits that are to be tried.
pub(super) fn splits(request: &WhatIfRequest) -> Result<Vec<ServerSplit>, CommandError> {
    let kv_link_gbs = request.kv_link.unwrap_or(LINK_GBS);
    if !kv_link_gbs.is_finite() || kv_link_gbs <= 0.0 {
        return Err(CommandError::usage(format!("--kv-link: {kv_link_gbs} is not a positive number of GB/s")));
    }
    let router = match request.router {
        Some(RouterWord::RoundRobin) => Balancer::RoundRobin,
        Some(RouterWord::KvCacheAware) => Balancer::PrefixAware,
        Some(RouterWord::LoadBalancing) | None => Balancer::LeastLoad,
    };
    let split = |text: &String| {
        let (context_servers, generation_servers) = servers(text)?;
        let setup = Disaggregation { context_servers, generation_servers, router, kv_link_gbs };
        Ok(ServerSplit {
            text: text.clone(),
            servers: context_servers + generation_servers,
            setup: (context_servers > 0).then_some(setup),
        })
    };
    request.disaggregated.iter().map(split).collect()
}

/// Note printed under the commands that measure each point.
pub(super) const HOW_TO_MEASURE: &str = "\
No stage starts context and generation servers apart. Start them and their router by hand (`trtllm-serve
disaggregated`, or vLLM with a KV connector and its proxy); the commands send the load to the router, ROUTER:8000.
A point whose lengths `regatta bench` has no options for has none.
";

/// Sends the load to a router that was started by hand, without its rate. `None`: `regatta bench` has no options for
/// such lengths.
pub(super) fn bench_command(workload: &VirtualWorkload, is_offline: bool, requests: usize) -> Option<String> {
    let load = if is_offline { format!("--offline -n {requests}") } else { "--duration 60s".to_owned() };
    let input = length_options("input", &workload.input_tokens)?;
    let output = length_options("output", &workload.output_tokens)?;
    Some(format!("regatta bench openai://ROUTER:8000 --ignore-eos {input} {output} {load}"))
}

/// The key of the rate in such a command.
pub(super) const BENCH_RATE: &str = "--rate";

fn length_options(what: &str, length: &Length) -> Option<String> {
    match *length {
        Length::Fixed(tokens) => Some(format!("--{what}-tokens {tokens}")),
        Length::Normal { mean, stddev, .. } => {
            Some(format!("--{what}-tokens {} --{what}-tokens-stddev {stddev}", mean.round()))
        }
        Length::Given | Length::Uniform { .. } | Length::Lognormal { .. } | Length::Empirical(_) => None,
    }
}

/// `1:3`
fn servers(text: &str) -> Result<(usize, usize), CommandError> {
    let read = text.split_once(':').and_then(|(context, generation)| {
        let number = |text: &str| text.trim().parse::<usize>().ok().filter(|servers| *servers <= MOST_SERVERS);
        number(context).zip(number(generation).filter(|servers| *servers > 0))
    });
    read.ok_or_else(|| {
        CommandError::usage(format!("--disaggregated: `{text}` is not CONTEXT:GENERATION servers, as in `1:3`"))
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::{servers, *};

    #[test]
    fn a_rate_takes_the_place_of_the_given_one() {
        let command = with_rate("regatta run quickstart scenarios=server rate=5 rates=[1, 2]", "rate", 32.37);
        assert_eq!(command, "regatta run quickstart scenarios=server rates=[1, 2] rate=32.37");
    }

    #[test]
    fn a_low_rate_is_not_rounded_to_another_one() {
        let rounded =
            [0.008, 0.019, 0.012_345_6, 0.29, 4.119, 57.125, 1234.567].map(|rate| rounded_down(rate).to_string());
        assert_eq!(rounded, ["0.008", "0.019", "0.0123", "0.29", "4.11", "57.12", "1234.56"]);
    }

    #[test]
    fn servers_are_two_numbers() {
        assert!(servers("1:3").is_ok_and(|read| read == (1, 3)) && servers("0:4").is_ok());
        for wrong in ["3", "1:0", "a:b", "1:2:3", "1:99999"] {
            assert!(servers(wrong).is_err(), "{wrong}");
        }
    }
}
