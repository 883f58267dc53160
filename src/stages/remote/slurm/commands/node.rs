//! Where a node can be reached.

use std::ffi::OsString;
use std::time::Duration;

use super::query::{Environment, QueryResult, run_query};

const QUERY_TIMEOUT: Duration = Duration::from_secs(20);

/// Names and addresses that the controller has for a node beside its name, the likeliest first. Not every cluster has its nodes in a
/// name service.
pub async fn addresses(node: &str, env: &Environment) -> Vec<String> {
    let words = ["show", "node", "-o", node].map(OsString::from).to_vec();
    let mut found = match run_query("scontrol", words, env.clone(), QUERY_TIMEOUT).await {
        QueryResult::Answered { code: 0, stdout, .. } => parse_addresses(&stdout),
        _ => Vec::new(),
    };
    let mut seen = std::collections::BTreeSet::from([node.to_owned()]);
    found.retain(|one| seen.insert(one.clone()));
    found
}

fn parse_addresses(text: &str) -> Vec<String> {
    let value = |key: &str| text.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
    ["NodeAddr=", "NodeHostName="].iter().filter_map(|key| value(key)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_comes_before_the_host_name() {
        let text =
            "NodeName=n1 Arch=x86_64 CoresPerSocket=1 NodeAddr=127.0.0.1 NodeHostName=lab Port=17610 Version=22.05.8";
        assert_eq!(parse_addresses(text), ["127.0.0.1", "lab"]);
        assert_eq!(parse_addresses("no such node"), [""; 0]);
    }
}
