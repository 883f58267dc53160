//! The proxy that other clients of this machine would use. A benchmark connects directly: through a proxy it would measure that, too.

use std::net::IpAddr;

/// Variables that other HTTP clients take a proxy from.
const PROXY_VARIABLES: [&str; 6] = ["http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

/// What to do about a host that cannot be reached, where a proxy is set that curl would reach it through.
pub(super) fn unused_proxy(host: &str) -> Option<String> {
    hint(host, |name| std::env::var(name).ok().filter(|value| !value.is_empty()))
}

fn hint(host: &str, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = PROXY_VARIABLES.into_iter().find(|name| variable(name).is_some())?;
    let excepted = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
    let is_local =
        host == "localhost" || host.trim_matches(['[', ']']).parse().is_ok_and(|it: IpAddr| it.is_loopback());
    let is_excepted = excepted.split(',').map(|part| part.trim().trim_start_matches('.')).any(|part| {
        let is_below = || host.strip_suffix(part).is_some_and(|rest| rest.ends_with('.'));
        !part.is_empty() && (part == "*" || part == host || is_below())
    });
    (!is_local && !is_excepted).then(|| {
        format!(
            "{name} is set, and is not used: a benchmark connects to its servers directly; run it where {host} can be reached, or forward a port: \
             `ssh -L 8000:{host}:PORT GATEWAY`, and name 127.0.0.1:8000"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_unless_the_host_is_excepted() {
        let with = |host: &str, no_proxy: &str| {
            hint(host, |name| match name {
                "https_proxy" => Some("http://proxy:3128".to_owned()),
                "no_proxy" => Some(no_proxy.to_owned()),
                _ => None,
            })
        };
        assert!(with("gpu1.cluster", "").unwrap().starts_with("https_proxy is set, and is not used"));
        assert!(with("gpu1.cluster", "other, luster").is_some());
        for (host, no_proxy) in
            [("gpu1.cluster", "x, .cluster"), ("gpu1", "gpu1"), ("h", "*"), ("::1", ""), ("localhost", "")]
        {
            assert_eq!(with(host, no_proxy), None, "{host}");
        }
        assert_eq!(hint("h", |_| None), None);
    }
}
