//! `regatta what-if --day`: a day of a fleet whose replicas are the servers of a benchmark.
//!
//! With `--disaggregated`: copies of a server as context servers and generation servers, and what measures them.

use anyhow::Context as _;

use super::question::Question;
use crate::cli::{CliExit, Global, RouterWord, WhatIfRequest};
use crate::console::print_as;
use crate::error::CommandError;
use base::files::{cores, read_text};
use base::spec::{LatencyLimit, Length, Prefixes};
use base::units::parse_duration;
use report::{FleetRow, WhatIfProblem, fleet_json};
use sim::{Balancer, Disaggregation, Failures, Fleet, RateOverTime, VirtualWorkload};

pub(super) fn answer(
    global: &Global,
    request: &WhatIfRequest,
    day: &str,
    questions: &[Question],
    goal: Option<&[LatencyLimit]>,
) -> Result<CliExit, CommandError> {
    let asked = &request.fleet;
    let rate = rate_of_day(day)?;
    let failures = asked.failures.as_deref().map(failures).transpose()?;
    let prefixes = asked.prefixes.as_deref().map(prefixes).transpose()?;
    let balancers = asked.balancers as usize;
    let simulated = asked.sample.map_or(balancers, |sample| sample as usize).clamp(1, balancers);
    let threads = cores();
    let mut rows = Vec::new();
    for question in questions {
        let router = question.split.map(|split| vec![split.router]);
        for policy in router.unwrap_or_else(|| asked.balancer.clone()) {
            let split = question.split.map(|split| split.context_servers + split.generation_servers);
            // With context and generation servers apart, a replica is all that the split names.
            let copies = if split.is_some() { 1 } else { question.row.servers };
            let replicas = asked.replicas.map_or(copies, |replicas| replicas as usize);
            let servers = (balancers * replicas * split.unwrap_or(1)) as u64;
            let result = server(question).and_then(|server| {
                let fleet = Fleet {
                    server,
                    policy,
                    balancers,
                    replicas,
                    simulated,
                    rate: rate.clone(),
                    workload: question.workload.clone(),
                    prefixes,
                    failures,
                    disaggregation: question.split,
                };
                sim::run_fleet(&fleet, threads).map_err(|error| WhatIfProblem(error.to_string()))
            });
            let gpus_of_one = u64::from(question.row.gpus) / question.row.servers.max(1) as u64;
            rows.push(FleetRow {
                settings: question.row.settings.clone(),
                task: question.row.task.clone(),
                balancer: policy.as_str(),
                balancers: balancers as u64,
                replicas: servers,
                gpus: servers * gpus_of_one,
                seconds: rate.seconds(),
                limits: goal.map_or_else(|| question.limits.clone(), <[LatencyLimit]>::to_vec),
                result,
            });
        }
    }
    print_as(global.styler(), request.json, || fleet_json(&rows), |styler| report::fleet(&rows).terminal(styler));
    Ok(CliExit::Done)
}

fn server(question: &Question) -> Result<sim::EngineLimits, WhatIfProblem> {
    let problem =
        || question.row.outcome.clone().err().unwrap_or_else(|| WhatIfProblem("it has no simulated engine".to_owned()));
    let (spec, serving) = question.twin.as_ref().ok_or_else(problem)?;
    sim::served_limits(spec, serving).map_err(|error| WhatIfProblem(error.to_string()))
}

/// `100..500` or a file
fn rate_of_day(text: &str) -> Result<RateOverTime, CommandError> {
    if let Some((low, high)) = text.split_once("..") {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|rate| rate.is_finite() && *rate >= 0.0);
        if let (Some(low), Some(high)) = (number(low), number(high)) {
            if high <= 0.0 || high < low {
                return Err(CommandError::usage(format!("--day: `{text}`: the second rate is the higher one")));
            }
            return Ok(RateOverTime::day(low, high));
        }
    }
    let lines = read_text(text).with_context(|| format!("--day: cannot read {text}"))?;
    RateOverTime::parse(&lines).map_err(|error| CommandError::usage(format!("{text}: {error}")))
}

/// `30d,10m`
fn failures(text: &str) -> Result<Failures, CommandError> {
    let wrong = || CommandError::usage(format!("--failures: `{text}` is not TIME,REPAIR, as in `30d,10m`"));
    let (between, repair) = text.split_once(',').ok_or_else(wrong)?;
    let seconds = |text: &str| parse_duration(text.trim()).map(|time| time.as_secs_f64()).map_err(|_| wrong());
    let failures = Failures { mean_time_between: seconds(between)?, repair: seconds(repair)? };
    if failures.mean_time_between < 1.0 || failures.repair <= 0.0 { Err(wrong()) } else { Ok(failures) }
}

/// `100,2000` or `100,2000,1.1`
fn prefixes(text: &str) -> Result<Prefixes, CommandError> {
    let wrong = || CommandError::usage(format!("--prefixes: `{text}` is not COUNT,TOKENS or COUNT,TOKENS,ZIPF"));
    let mut words = text.split(',').map(str::trim);
    let mut number = || words.next().and_then(|word| word.parse::<u32>().ok()).filter(|number| *number > 0);
    let (count, tokens) = number().zip(number()).ok_or_else(wrong)?;
    let zipf = words.next().map(str::parse::<f64>).transpose().map_err(|_| wrong())?;
    if words.next().is_some() || zipf.is_some_and(|zipf| !zipf.is_finite() || zipf < 0.0) {
        return Err(wrong());
    }
    Ok(Prefixes { count, tokens, zipf })
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
    use super::{servers, *};

    #[test]
    fn what_is_typed_is_read_or_refused() {
        assert!(rate_of_day("100..300").is_ok_and(|day| (day.mean() - 200.0).abs() < 1.0));
        assert!(rate_of_day("300..100").is_err() && rate_of_day("/no/such/file").is_err());
        let monthly = Failures { mean_time_between: 2_592_000.0, repair: 600.0 };
        assert!(failures("30d,10m").is_ok_and(|read| read == monthly));
        assert!(failures("30d").is_err() && failures("0s,1m").is_err());
        let evenly = Prefixes { count: 100, tokens: 2000, zipf: None };
        assert!(prefixes("100,2000").is_ok_and(|read| read == evenly));
        assert!(prefixes("100,2000,1.1").is_ok_and(|read| read.zipf == Some(1.1)));
        assert!(prefixes("100").is_err() && prefixes("0,5").is_err() && prefixes("1,2,3,4").is_err());
    }

    #[test]
    fn servers_are_two_numbers() {
        assert!(servers("1:3").is_ok_and(|read| read == (1, 3)) && servers("0:4").is_ok());
        for wrong in ["3", "1:0", "a:b", "1:2:3", "1:99999"] {
            assert!(servers(wrong).is_err(), "{wrong}");
        }
    }
}
