//! Where a server listens.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One server process: its host and ports. `http` and `metrics` are absent where it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    pub host: String,
    pub grpc: u16,
    pub http: Option<u16>,
    pub metrics: Option<u16>,
    /// What its machine is called, where a manifest names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Why a text names no endpoints.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    #[error("it names no server")]
    NoServer,
    #[error("an address holds no user, password or token; `--api-key-env NAME` sends a key, which is never shown")]
    Credentials,
    /// With the piece that is wrong.
    #[error("{0}")]
    Grammar(String),
}

impl Endpoint {
    /// Of its other ports nothing is known.
    pub fn new(host: &str, grpc: u16) -> Self {
        Self { host: host.to_owned(), grpc, http: None, metrics: None, name: None }
    }

    /// The port for HTTP, of servers that have it only, too.
    pub fn http_port(&self) -> u16 {
        self.http.unwrap_or(self.grpc)
    }

    /// As other machines reach it: names that mean the machine itself become `host`, the name that it has there.
    #[must_use]
    pub fn at_host(self, host: &str) -> Self {
        let local =
            matches!(self.host.as_str(), "localhost" | "0.0.0.0" | "::1" | "::") || self.host.starts_with("127.");
        if local { Self { host: host.to_owned(), ..self } } else { self }
    }

    /// Reads NVIDIA's `triton_grpc_ports` grammar: hosts separated by `|`, each with a comma list of gRPC ports. An
    /// IPv6 address stands in brackets. The error names the piece.
    pub fn list(text: &str) -> Result<Vec<Self>, EndpointError> {
        let mut endpoints: Vec<Self> = Vec::new();
        for piece in text.split('|') {
            let piece = piece.trim();
            let (host, ports) = host_and_rest(piece, text)?;
            for port in ports.split(',') {
                let endpoint = Self::new(host, port_of(port.trim(), piece)?);
                if endpoints.iter().any(|other| other.host == endpoint.host && other.grpc == endpoint.grpc) {
                    return Err(EndpointError::Grammar(format!("{endpoint} is given twice")));
                }
                endpoints.push(endpoint);
            }
        }
        Ok(endpoints)
    }

    /// The inverse of [`Self::list`]: `host:8001,8004|other:8001`.
    pub fn list_text(endpoints: &[Self]) -> String {
        let mut hosts: Vec<(&str, Vec<String>)> = Vec::new();
        for endpoint in endpoints {
            match hosts.iter_mut().find(|(host, _)| *host == endpoint.host) {
                Some((_, ports)) => ports.push(endpoint.grpc.to_string()),
                None => hosts.push((&endpoint.host, vec![endpoint.grpc.to_string()])),
            }
        }
        hosts.iter().map(|(host, ports)| host_port(host, ports.join(","))).collect::<Vec<_>>().join("|")
    }

    /// `host:port` for another of its ports.
    pub fn at_port(&self, port: u16) -> String {
        host_port(&self.host, port)
    }
}

/// `host:port`; an IPv6 address stands in brackets, as in a URL.
pub fn host_port(host: &str, port: impl fmt::Display) -> String {
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    if is_bare_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn host_and_rest<'a>(piece: &'a str, text: &str) -> Result<(&'a str, &'a str), EndpointError> {
    use EndpointError::{Credentials, Grammar};
    // Reported without the text: it would be the password that is shown. Errors in other pieces show the list.
    if text.contains('@') {
        return Err(Credentials);
    }
    let list = if piece == text { String::new() } else { format!(" in `{text}`") };
    if piece.is_empty() {
        return Err(Grammar(format!("an endpoint is missing next to a `|`{list}")));
    }
    if let Some((scheme, rest)) = piece.split_once("://") {
        return Err(Grammar(format!("`{piece}`{list} begins with a scheme; write `{rest}` without `{scheme}://`")));
    }
    let (host, rest) = if let Some(inner) = piece.strip_prefix('[') {
        let closed = inner.split_once(']');
        let (host, rest) = closed.ok_or_else(|| Grammar(format!("the bracket of `{piece}` is not closed")))?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(Grammar(format!("`{host}` in `{piece}` is not an IPv6 address")));
        }
        (host, rest.strip_prefix(':').ok_or_else(|| Grammar(format!("`{piece}`{list} has no port")))?)
    } else {
        piece.split_once(':').ok_or_else(|| Grammar(format!("`{piece}`{list} is not host:port")))?
    };
    if rest.contains(':') && !piece.starts_with('[') {
        let hint = "an IPv6 address needs brackets: [::1]:8001";
        return Err(Grammar(format!("`{piece}`{list} has more than one `:`; {hint}")));
    }
    if host.is_empty() {
        return Err(Grammar(format!("`{piece}`{list} has no host")));
    }
    match host.chars().find(|c| c.is_whitespace() || matches!(c, '/' | ',')) {
        Some('/') => Err(Grammar(format!("`{host}` is not a host name; write host:port, without a scheme or a path"))),
        Some(character) => Err(Grammar(format!("`{host}` is not a host name: it has {character:?} in it"))),
        None => Ok((host, rest)),
    }
}

fn port_of(port: &str, piece: &str) -> Result<u16, EndpointError> {
    port.parse()
        .ok()
        .filter(|port| *port != 0)
        .ok_or_else(|| EndpointError::Grammar(format!("`{port}` in `{piece}` is not a port (1 to 65535)")))
}

impl fmt::Display for Endpoint {
    /// `host:grpc_port`; an IPv6 address in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.at_port(self.grpc))
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    /// Reads `host:port` (a gRPC port).
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let (host, port) = host_and_rest(s, s)?;
        Ok(Self::new(host, port_of(port, s)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvidias_grammar_is_read_in_order() {
        let listed = Endpoint::list("localhost:8001,8004| node2:8001 |[::1]:9001,9002").unwrap();
        let shown: Vec<String> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["localhost:8001", "localhost:8004", "node2:8001", "[::1]:9001", "[::1]:9002"]);
        let again = Endpoint::list(&shown.join("|")).unwrap();
        assert_eq!(again, listed);
        assert_eq!(Endpoint::list_text(&listed), "localhost:8001,8004|node2:8001|[::1]:9001,9002");
    }

    #[test]
    fn the_piece_that_is_wrong_is_named() {
        for (text, why) in [
            ("", "an endpoint is missing next to a `|`"),
            ("a:1||b:2", "an endpoint is missing next to a `|` in `a:1||b:2`"),
            ("localhost", "`localhost` is not host:port"),
            ("a:1|b", "`b` in `a:1|b` is not host:port"),
            ("a:1,x|b:2", "`x` in `a:1,x` is not a port (1 to 65535)"),
            ("a:0", "`0` in `a:0` is not a port (1 to 65535)"),
            ("a:70000", "`70000` in `a:70000` is not a port (1 to 65535)"),
            ("a:1,", "`` in `a:1,` is not a port (1 to 65535)"),
            ("::1:8001", "`::1:8001` has more than one `:`; an IPv6 address needs brackets: [::1]:8001"),
            ("[::1:8001", "the bracket of `[::1:8001` is not closed"),
            ("[::1]", "`[::1]` has no port"),
            ("[node]:1", "`node` in `[node]:1` is not an IPv6 address"),
            (":8001", "`:8001` has no host"),
            ("http://a:1", "`http://a:1` begins with a scheme; write `a:1` without `http://`"),
            ("a/b:1", "`a/b` is not a host name; write host:port, without a scheme or a path"),
            ("a:1,1", "a:1 is given twice"),
        ] {
            assert_eq!(Endpoint::list(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn a_server_on_another_machine_is_named_by_that_machine() {
        let at = |host: &str| Endpoint { host: host.to_owned(), grpc: 1, http: None, metrics: None, name: None };
        assert_eq!(at("127.0.0.1").at_host("n1"), at("n1"));
        assert_eq!(at("10.1.0.7").at_host("10.0.0.7"), at("10.1.0.7"), "it was bound to that");
    }
}
