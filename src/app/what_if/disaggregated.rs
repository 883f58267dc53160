//! `--disaggregated`: copies of a benchmark's server as context servers and generation servers.

use crate::app::error::CommandError;
use crate::cli::{BalancerPolicy, WhatIf};
use crate::sim::{Balancer, Disaggregation};

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
pub(super) fn splits(request: &WhatIf) -> Result<Vec<ServerSplit>, CommandError> {
    let of_fleet = request.fleet.as_ref().filter(|fleet| fleet.failures.is_some() || fleet.replicas.is_some());
    if of_fleet.is_some() && !request.disaggregated.is_empty() {
        let what =
            "--disaggregated has its own numbers of servers, and they do not fail: remove --replicas and --failures";
        return Err(CommandError::usage(what));
    }
    let kv_link_gbs = request.kv_link.unwrap_or(LINK_GBS);
    if !kv_link_gbs.is_finite() || kv_link_gbs <= 0.0 {
        return Err(CommandError::usage(format!("--kv-link: {kv_link_gbs} is not a positive number of GB/s")));
    }
    let router = match request.router {
        Some(BalancerPolicy::RoundRobin) => Balancer::RoundRobin,
        Some(BalancerPolicy::PrefixAware) => Balancer::PrefixAware,
        Some(BalancerPolicy::LeastLoad) | None => Balancer::LeastLoad,
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
