//! With `--disaggregated`: copies of a server as context servers and generation servers, and what measures them.

use crate::cli::{RouterWord, WhatIfRequest};
use crate::error::CommandError;
use base::spec::Length;
use sim::{Balancer, Disaggregation, VirtualWorkload};

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
    use super::servers;

    #[test]
    fn servers_are_two_numbers() {
        assert!(servers("1:3").is_ok_and(|read| read == (1, 3)) && servers("0:4").is_ok());
        for wrong in ["3", "1:0", "a:b", "1:2:3", "1:99999"] {
            assert!(servers(wrong).is_err(), "{wrong}");
        }
    }
}
