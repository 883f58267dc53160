//! Where a server sends a query instead of an answer.

use std::fmt;

use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};

/// Redirects of one query that are followed.
pub const MOST_REDIRECTS: usize = 3;

/// Characters of a location that are shown.
const LONGEST: usize = 200;

/// A redirect, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect(String);

impl Redirect {
    /// `None`: the answer is no redirect.
    pub fn of(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
        let location = headers.get(LOCATION).filter(|_| status.is_redirection())?;
        Some(Self(String::from_utf8_lossy(location.as_bytes()).into_owned()))
    }

    /// The path that it leads to on the same server, `host:port`. `None`: it leads elsewhere.
    pub fn path_on(&self, server: &str) -> Option<String> {
        let location = self.0.split('#').next().unwrap_or_default();
        if location.starts_with('/') && !location.starts_with("//") {
            return Some(location.to_owned());
        }
        let (scheme, rest) = location.split_once("://")?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let usual = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        let is_same =
            authority.eq_ignore_ascii_case(server) || format!("{authority}{usual}").eq_ignore_ascii_case(server);
        is_same.then(|| if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
    }
}

impl fmt::Display for Redirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        write!(f, "a redirect to {shown}, which is not on the same host and port")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_followed_on_the_same_server_only() {
        let path = |location: &str| Redirect(location.to_owned()).path_on("h:80");
        let followed = |path: &str| Some(path.to_owned());
        assert_eq!(path("/metrics/"), followed("/metrics/"));
        assert_eq!(path("http://h:80/metrics/?a=b#c"), followed("/metrics/?a=b"));
        assert_eq!(path("http://H/metrics/"), followed("/metrics/"));
        assert_eq!(path("http://h"), followed("/"));
        for elsewhere in ["http://h:81/metrics", "https://h/metrics", "//g/metrics", "http://g/metrics", "metrics"] {
            assert_eq!(path(elsewhere), None, "{elsewhere}");
        }
    }
}
