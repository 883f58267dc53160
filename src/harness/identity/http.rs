//! `GET`, with limits: one connection for each query, an answer of a few seconds and a few megabytes at most.

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

use super::bounded_text::bounded;
use crate::event::host_port;
use crate::harness::Http;
use crate::harness::transport::http::{Connector, api_key, description_without_key, take_key_out};

/// Bytes of a body. vLLM's and Triton's `/metrics` have some hundred thousand.
const MOST_BODY_BYTES: usize = 4 << 20;

/// Queries one server over HTTP/1.1.
pub(super) struct IdentityClient {
    pub host: String,
    pub port: u16,
    /// A prefix of every path, as a proxy may require it.
    pub prefix: String,
    tls: Option<Connector>,
    key: Option<String>,
    limit: Duration,
}

/// A successful answer.
pub(super) struct IdentityReply {
    /// The `server:` header.
    pub server: Option<String>,
    pub body: Bytes,
    /// The key that was sent; nothing that is read of the answer has it.
    key: Option<String>,
}

impl IdentityReply {
    pub fn json(&self) -> Option<Value> {
        let mut value = serde_json::from_slice(&self.body).ok()?;
        take_key_out(&mut value, self.key.as_deref());
        Some(value)
    }
}

impl IdentityClient {
    /// Without TLS and without a key, for `/metrics` on a port of its own.
    pub fn plain(host: &str, port: u16, limit: Duration) -> Self {
        let host = host.trim_matches(['[', ']']).to_owned();
        Self { host, port, prefix: String::new(), tls: None, key: None, limit }
    }

    /// As the requests of the measurement are sent. `None`: it cannot be queried like this, which the measurement reports.
    pub fn new(host: &str, port: u16, http: &Http, limit: Duration) -> Option<Self> {
        let tls = match &http.tls {
            None => None,
            Some(tls) => Some(Connector::new(tls).ok()?),
        };
        let key = api_key(http).ok()?;
        let prefix =
            http.path.as_deref().and_then(|path| path.find("/v1/").or_else(|| path.find("/v2/")).map(|at| &path[..at]));
        Some(Self { prefix: prefix.unwrap_or_default().to_owned(), tls, key, ..Self::plain(host, port, limit) })
    }

    /// The body of a 200; None for every other answer, for one that is too large or too late, and without an answer.
    pub async fn get(&self, path: &str) -> Option<IdentityReply> {
        timeout(self.limit, self.exchange(path)).await.ok()?
    }

    async fn exchange(&self, path: &str) -> Option<IdentityReply> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await.ok()?;
        match &self.tls {
            None => self.over(TokioIo::new(stream), path).await,
            Some(tls) => self.over(TokioIo::new(tls.handshake(stream, &self.host).await.ok()?), path).await,
        }
    }

    async fn over(&self, stream: impl Read + Write + Send + Unpin + 'static, path: &str) -> Option<IdentityReply> {
        let (mut sender, connection) = handshake(stream).await.ok()?;
        let question = async {
            let authority = host_port(&self.host, self.port);
            let mut request = Request::get(format!("{}{path}", self.prefix)).header("host", authority);
            request = request.header("connection", "close").header("accept", "*/*");
            if let Some(key) = &self.key {
                request = request.header("authorization", format!("Bearer {key}"));
            }
            let answer = sender.send_request(request.body(Empty::<Bytes>::new()).ok()?).await.ok()?;
            if answer.status() != hyper::StatusCode::OK {
                return None;
            }
            let server = answer
                .headers()
                .get("server")
                .and_then(|value| value.to_str().ok())
                .and_then(|value| bounded(&description_without_key(value.to_owned(), self.key.as_deref())));
            let body = Limited::new(answer.into_body(), MOST_BODY_BYTES).collect().await.ok()?.to_bytes();
            Some(IdentityReply { server, body, key: self.key.clone() })
        };
        // Both on this task: nothing is left behind after the timeout.
        let mut connection = std::pin::pin!(connection);
        let mut question = std::pin::pin!(question);
        tokio::select! {
            biased;
            reply = &mut question => reply,
            // The connection may end when the answer is complete and not yet read to its end.
            _ = &mut connection => question.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_a_server_repeats_is_not_read_however_it_is_written() {
        let body = r#"{"version": "0.9 sk-61f/0a", "data": [{"root": "sk-61f\/0a", "n": 1}, "sk-\u0036\u0031f/0a"], "cut": "x sk-61…"}"#;
        let expected = r#"{"version":"0.9 ***","data":[{"root":"***","n":1},"***"],"cut":"x ***…"}"#;
        assert_eq!(read(body, "sk-61f/0a"), expected);
    }

    fn read(body: &'static str, key: &str) -> String {
        let reply =
            IdentityReply { server: None, body: Bytes::from_static(body.as_bytes()), key: Some(key.to_owned()) };
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
