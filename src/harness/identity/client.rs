//! `GET`, with limits: one connection for each query, an answer of a few seconds and a few megabytes at most; and texts
//! from servers made short, printable and free of credentials.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::Request;
use hyper::client::conn::http1::handshake;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::transport::http::Connector;
use crate::{SentHeaders, Transport};
use base::diag::error_chain;
use base::event::host_port;
use base::spec::RequestHeaders;
use base::units::UrlParts;
use triton::{MOST_REDIRECTS, Redirect};

/// Bytes of a body. vLLM's and Triton's `/metrics` have some hundred thousand.
const MOST_BODY_BYTES: usize = 4 << 20;

/// Queries one server over HTTP/1.1.
pub(super) struct IdentityClient {
    pub host: String,
    pub port: u16,
    /// A prefix of every path, as a proxy may require it.
    pub prefix: String,
    tls: Option<Connector>,
    sent: SentHeaders,
    limit: Duration,
}

/// A successful answer.
pub(super) struct IdentityReply {
    /// The `server:` header.
    pub server: Option<String>,
    pub body: Bytes,
    /// The keys that were sent; nothing that is read of the answer has them.
    sent: SentHeaders,
}

/// Why a query did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum NoReply {
    #[error("no connection: {0}")]
    Connect(String),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    #[error("HTTP status {0}")]
    Status(u16),
    #[error("{0}")]
    Redirected(Redirect),
    #[error("more than {MOST_REDIRECTS} redirects")]
    Redirects,
    /// It broke off, is not HTTP, or is too long.
    #[error("an answer that cannot be read: {0}")]
    Unreadable(String),
}

impl IdentityReply {
    pub fn json(&self) -> Option<Value> {
        let mut value = base::files::json_report(&self.body)?;
        self.sent.hide_in_value(&mut value);
        Some(value)
    }
}

impl IdentityClient {
    /// Without TLS and without a key, for `/metrics` on a port of its own.
    pub fn plain(host: &str, port: u16, limit: Duration) -> Self {
        let host = host.trim_matches(['[', ']']).to_owned();
        Self { host, port, prefix: String::new(), tls: None, sent: SentHeaders::default(), limit }
    }

    /// As the requests of the measurement are sent. `None`: it cannot be queried like this, which the measurement
    /// reports.
    pub fn new(
        host: &str,
        port: u16,
        transport: &Transport,
        headers: &RequestHeaders,
        limit: Duration,
    ) -> Option<Self> {
        let sent = SentHeaders::new(transport, headers).ok()?;
        let Transport::Http(http) = transport else { return None };
        let tls = match &http.tls {
            None => None,
            Some(tls) => Some(Connector::new(tls).ok()?),
        };
        let prefix =
            http.path.as_deref().and_then(|path| path.find("/v1/").or_else(|| path.find("/v2/")).map(|at| &path[..at]));
        Some(Self { prefix: prefix.unwrap_or_default().to_owned(), tls, sent, ..Self::plain(host, port, limit) })
    }

    pub const fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// The body of a 200; None for every other answer, for one that is too large or too late, and without an answer.
    pub async fn get(&self, path: &str) -> Option<IdentityReply> {
        self.query(path).await.ok()
    }

    /// Like `get`, with the reason. Redirects on the server itself are followed.
    pub async fn query(&self, path: &str) -> Result<IdentityReply, NoReply> {
        let mut path = format!("{}{path}", self.prefix);
        let follow = async {
            for _ in 0..=MOST_REDIRECTS {
                match self.exchange(&path).await {
                    Err(NoReply::Redirected(redirect)) => {
                        let Some(next) = redirect.path_on(&self.authority()) else {
                            return Err(NoReply::Redirected(redirect));
                        };
                        path = next;
                    }
                    replied => return replied,
                }
            }
            Err(NoReply::Redirects)
        };
        timeout(self.limit, follow).await.unwrap_or(Err(NoReply::Late(self.limit)))
    }

    fn authority(&self) -> String {
        host_port(&self.host, self.port)
    }

    async fn exchange(&self, path: &str) -> Result<IdentityReply, NoReply> {
        let connected = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = connected.map_err(|error| NoReply::Connect(error.to_string()))?;
        let Some(tls) = &self.tls else { return self.over(TokioIo::new(stream), path).await };
        let secured = tls.handshake(stream, &self.host).await;
        self.over(TokioIo::new(secured.map_err(|error| NoReply::Connect(error.to_string()))?), path).await
    }

    async fn over(
        &self,
        stream: impl Read + Write + Send + Unpin + 'static,
        path: &str,
    ) -> Result<IdentityReply, NoReply> {
        let broken = |error: hyper::Error| NoReply::Unreadable(error_chain(&error));
        let (mut sender, connection) = handshake(stream).await.map_err(broken)?;
        let question = async {
            let mut request = Request::get(path).header("host", self.authority());
            request = request.header("connection", "close").header("accept", "*/*");
            let mut request = request
                .body(Empty::<Bytes>::new())
                .map_err(|error| NoReply::Unreadable(format!("`{path}` is not a path: {error}")))?;
            request.headers_mut().extend(self.sent.map());
            let answer = sender.send_request(request).await.map_err(broken)?;
            if let Some(redirect) = Redirect::parse(answer.status(), answer.headers()) {
                return Err(NoReply::Redirected(redirect));
            }
            if answer.status() != hyper::StatusCode::OK {
                return Err(NoReply::Status(answer.status().as_u16()));
            }
            let server = answer.headers().get("server").and_then(|value| value.to_str().ok());
            let server = server.and_then(|text| bounded(&self.sent.hide_in_description(text.to_owned())));
            let body = Limited::new(answer.into_body(), MOST_BODY_BYTES).collect().await;
            let body = body.map_err(|error| NoReply::Unreadable(error_chain(&*error)))?.to_bytes();
            Ok(IdentityReply { server, body, sent: self.sent.clone() })
        };
        // Both on this task: nothing is left behind after the timeout.
        let mut connection = std::pin::pin!(connection);
        let mut question = std::pin::pin!(question);
        tokio::select! {
            biased;
            reply = &mut question => reply,
            // The connection may close before the whole answer has been read.
            _ = &mut connection => question.await,
        }
    }
}

/// Characters.
const LONGEST: usize = 200;

/// One line of at most 200 characters. The user part of a URL is taken out.
pub(super) fn bounded(text: &str) -> Option<String> {
    let line: String = text.trim().chars().map(|c| if c.is_control() { '·' } else { c }).take(LONGEST).collect();
    let line = address_only(line.trim());
    (!line.is_empty()).then_some(line)
}

/// A text, a number or a boolean of a JSON answer; None for null, objects and arrays.
pub(super) fn bounded_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => bounded(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is) => Some(is.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `https://user:key@host/path?token=x` → `https://host/path`.
fn address_only(text: &str) -> String {
    let Some(UrlParts { scheme, host, rest, .. }) = UrlParts::parse(text) else { return text.to_owned() };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_server_repeats_is_not_read_however_it_is_written() {
        let body = concat!(
            r#"{"version": "0.9 sk-61f/0a", "data": [{"root": "sk-61f\/0a", "n": 1}, "sk-\u0036\u0031f/0a"],"#,
            r#" "cut": "x sk-61…"}"#
        );
        let expected = r#"{"version":"0.9 ***","data":[{"root":"***","n":1},"***"],"cut":"x ***…"}"#;
        assert_eq!(read(body, "sk-61f/0a"), expected);
    }

    fn read(body: &'static str, key: &str) -> String {
        let sent = SentHeaders::of_key(key);
        let reply = IdentityReply { server: None, body: Bytes::from_static(body.as_bytes()), sent };
        reply.json().unwrap().to_string()
    }

    #[test]
    fn a_key_that_is_in_names_by_chance_leaves_them_as_they_are() {
        let body = r#"{"version":"0.11.2","id":"latest","why":"Invalid token"}"#;
        for key in ["1", "test", "token-abc123"] {
            assert_eq!(read(body, key), body, "{key}");
        }
    }
}

#[cfg(test)]
mod bounded_text_tests {
    use super::*;

    #[test]
    fn credentials_and_control_characters_are_taken_out() {
        for (from, to) in [
            ("meta/Llama-3.1-8B", "meta/Llama-3.1-8B"),
            ("https://me:secret@hub.example/a/b?token=t#x", "https://hub.example/a/b"),
            ("s3://key@bucket", "s3://bucket"),
            ("a\u{1b}[31mb\nc", "a·[31mb·c"),
        ] {
            assert_eq!(bounded(from).as_deref(), Some(to));
        }
        assert_eq!(bounded(" \n"), None);
        assert_eq!(bounded(&"x".repeat(10_000)).map(|text| text.len()), Some(LONGEST));
    }
}
