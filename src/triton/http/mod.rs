//! Triton over HTTP: KServe v2 in JSON, and the `generate` endpoints.
//!
//! One connection that is kept and opened again when it broke; a deadline for every call. Not for load.

mod sse_parser;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::LOCATION;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::{ClientError, ClientErrorKind};
use crate::client::{ConnectCause, TritonClient};
use base::event::{Endpoint, host_port};
use base::units::url_path_part;
pub use sse_parser::{SseEvent, SseParser};

const DEADLINE: Duration = Duration::from_secs(10);
/// Bytes of what a server reports of itself: metadata, configurations, metrics. The largest have a few megabytes.
const LONGEST_REPORT: usize = 16 << 20;
/// Bytes of the answer to an inference, as of one message over gRPC.
const LONGEST_INFERENCE: usize = 256 << 20;

/// Where a server listens for HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    pub host: String,
    pub port: u16,
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&host_port(&self.host, self.port))
    }
}

/// This host reaches an address of its own from that address. Where it could bind to it shows nothing:
/// `ip_nonlocal_bind` lets it bind to any. No other machine is queried.
pub fn is_own_address(ip: IpAddr) -> bool {
    ip.is_loopback() || ip.is_unspecified() || source_to(ip).is_ok_and(|source| source == ip)
}

/// The address that packets to this one come from. Nothing is sent.
fn source_to(ip: IpAddr) -> std::io::Result<IpAddr> {
    /// Any will do.
    const PORT: u16 = 9;
    let unspecified: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.connect((ip, PORT))?;
    Ok(socket.local_addr()?.ip())
}

/// One connection to one server.
#[derive(Debug)]
pub struct HttpClient {
    address: HttpAddress,
    deadline: Duration,
    /// Of every request.
    headers: HeaderMap,
    open: Option<SendRequest<Full<Bytes>>>,
}

impl HttpClient {
    /// Connects at the first call.
    pub fn new(address: HttpAddress) -> Self {
        Self { address, deadline: DEADLINE, headers: HeaderMap::new(), open: None }
    }

    /// Another deadline for each later call than 10 s.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Further headers of every request.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    pub fn address(&self) -> &HttpAddress {
        &self.address
    }

    pub async fn is_live(&mut self) -> Result<bool, ClientError> {
        self.get_ok("/v2/health/live").await
    }

    pub async fn is_ready(&mut self) -> Result<bool, ClientError> {
        self.get_ok("/v2/health/ready").await
    }

    pub async fn is_model_ready(&mut self, name: &str, version: &str) -> Result<bool, ClientError> {
        self.get_ok(&format!("{}/ready", model(name, version))).await
    }

    pub async fn server_metadata(&mut self) -> Result<Value, ClientError> {
        self.get("/v2").await
    }

    pub async fn model_metadata(&mut self, name: &str, version: &str) -> Result<Value, ClientError> {
        self.get(&model(name, version)).await
    }

    /// The config as it is in effect, in JSON.
    pub async fn model_config(&mut self, name: &str, version: &str) -> Result<Value, ClientError> {
        self.get(&format!("{}/config", model(name, version))).await
    }

    /// Every model in the server's repositories.
    pub async fn repository_index(&mut self) -> Result<Value, ClientError> {
        self.post("/v2/repository/index", &Value::Object(serde_json::Map::new()), LONGEST_REPORT).await
    }

    /// `{"inputs": [{"name", "datatype", "shape", "data"}, …]}`. Decoupled models refuse.
    pub async fn infer(&mut self, name: &str, body: &Value) -> Result<Value, ClientError> {
        self.post(&format!("{}/infer", model(name, "")), body, LONGEST_INFERENCE).await
    }

    /// Exactly one answer. A model that gives another number of them is answered with 200 and an `error` in the body:
    /// that is an error here.
    pub async fn generate(&mut self, name: &str, body: &Value) -> Result<Value, ClientError> {
        self.post(&format!("{}/generate", model(name, "")), body, LONGEST_INFERENCE).await
    }

    /// Answers as they come. The status is that of the first one; later errors come as events, with status 200.
    pub async fn generate_stream(&mut self, name: &str, body: &Value) -> Result<SseEvents, ClientError> {
        let path = format!("{}/generate_stream", model(name, ""));
        let request = format!("POST {path}");
        let response = self.send(Method::POST, &path, Bytes::from(body.to_string())).await?;
        if response.status().is_success() {
            return Ok(SseEvents::new(response.into_body(), request, self.address.to_string(), self.deadline));
        }
        let status = response.status();
        let text = self.body(&request, response, LONGEST_REPORT).await?;
        Err(self.refusal_error(request, status, &text))
    }

    /// The body of a GET, in any format.
    pub async fn text(&mut self, path: &str) -> Result<String, ClientError> {
        let (status, text) = self.reply(path).await?;
        if status.is_success() { Ok(text) } else { Err(self.refusal_error(format!("GET {path}"), status, &text)) }
    }

    /// The status and the body of a GET.
    async fn reply(&mut self, path: &str) -> Result<(StatusCode, String), ClientError> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        Ok((response.status(), self.body(&format!("GET {path}"), response, LONGEST_REPORT).await?))
    }

    /// The body of a GET that may be redirected on the server itself, as `/metrics` is to `/metrics/`.
    pub async fn page(&mut self, path: &str) -> Result<String, ClientError> {
        let request = format!("GET {path}");
        let mut path = path.to_owned();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.send(Method::GET, &path, Bytes::new()).await?;
            let (status, redirect) = (response.status(), Redirect::parse(response.status(), response.headers()));
            let text = self.body(&request, response, LONGEST_REPORT).await?;
            match redirect {
                None if status.is_success() => return Ok(text),
                None => return Err(self.refusal_error(request, status, &text)),
                Some(redirect) => match redirect.path_on(&self.address.to_string()) {
                    Some(next) => path = next,
                    None => return Err(self.refusal_error(request, status, &redirect.to_string())),
                },
            }
        }
        Err(self
            .error(&request, ClientErrorKind::Malformed(format!("it is redirected more than {MOST_REDIRECTS} times"))))
    }

    /// A query that is answered by the status alone.
    async fn get_ok(&mut self, path: &str) -> Result<bool, ClientError> {
        match self.reply(path).await? {
            (StatusCode::OK, _) => Ok(true),
            // Triton's negative answer.
            (StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE, _) => Ok(false),
            (status, text) => Err(self.refusal_error(format!("GET {path}"), status, &text)),
        }
    }

    async fn get(&mut self, path: &str) -> Result<Value, ClientError> {
        let (status, text) = self.reply(path).await?;
        self.json(format!("GET {path}"), status, &text)
    }

    async fn post(&mut self, path: &str, body: &Value, longest: usize) -> Result<Value, ClientError> {
        let request = format!("POST {path}");
        let response = self.send(Method::POST, path, Bytes::from(body.to_string())).await?;
        let status = response.status();
        let text = self.body(&request, response, longest).await?;
        self.json(request, status, &text)
    }

    fn json(&self, request: String, status: StatusCode, text: &str) -> Result<Value, ClientError> {
        match serde_json::from_str::<Value>(text) {
            Ok(value) if status.is_success() && value.get("error").is_none() => Ok(value),
            Err(error) if status.is_success() => {
                Err(self.error(&request, ClientErrorKind::Malformed(format!("it is not JSON: {error}"))))
            }
            _ => Err(self.refusal_error(request, status, text)),
        }
    }

    async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>, ClientError> {
        let text = format!("{method} {path}");
        let limit = self.deadline;
        let kept = self.open.is_some();
        let mut answer = timeout(limit, self.send_once(&method, path, body.clone())).await;
        if kept && matches!(answer, Ok(Err(ClientErrorKind::Connect { .. }))) {
            // The server closed the connection that was kept; that is unrelated to this call.
            self.open = None;
            answer = timeout(limit, self.send_once(&method, path, body)).await;
        }
        let reason = match answer {
            Ok(Ok(response)) => return Ok(response),
            Ok(Err(reason)) => reason,
            Err(_) => ClientErrorKind::Timeout(limit),
        };
        self.open = None;
        Err(self.error(&text, reason))
    }

    async fn send_once(
        &mut self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientErrorKind> {
        let sender = if let Some(sender) = self.open.take().filter(|sender| !sender.is_closed()) {
            self.open.insert(sender)
        } else {
            let host = self.address.host.trim_matches(['[', ']']);
            let stream = TcpStream::connect((host, self.address.port))
                .await
                .map_err(|error| ClientErrorKind::connect(&error))?;
            let _ = stream.set_nodelay(true);
            let (sender, connection) =
                handshake(TokioIo::new(stream)).await.map_err(|error| ClientErrorKind::connect(&error))?;
            // It ends when the sender and the last body are gone; its errors are those of the calls on it.
            tokio::spawn(async move { drop(connection.await) });
            self.open.insert(sender)
        };
        sender.ready().await.map_err(|error| ClientErrorKind::connect(&error))?;
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body))
            .map_err(|error| ClientErrorKind::Address(error.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        sender.send_request(request).await.map_err(|error| {
            if error.is_parse() {
                ClientErrorKind::Protocol("something answers there that does not speak HTTP/1.1".to_owned())
            } else {
                ClientErrorKind::connect(&error)
            }
        })
    }

    /// All of a body; one beyond `longest` bytes is not read to its end.
    async fn body(&mut self, text: &str, response: Response<Incoming>, longest: usize) -> Result<String, ClientError> {
        let reason = match timeout(self.deadline, Limited::new(response.into_body(), longest).collect()).await {
            Ok(Ok(body)) => return Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => ClientErrorKind::TooLong { limit: longest },
            Ok(Err(error)) => ClientErrorKind::connect(&*error),
            Err(_) => ClientErrorKind::Timeout(self.deadline),
        };
        self.open = None;
        Err(self.error(text, reason))
    }

    fn error(&self, text: &str, why: ClientErrorKind) -> ClientError {
        ClientError::new(text, self.address.to_string(), why)
    }

    fn refusal_error(&self, request: String, status: StatusCode, text: &str) -> ClientError {
        ClientError::new(request, self.address.to_string(), refusal(status, text))
    }
}

/// The server's own message: `error` of the body, or all of it.
fn refusal(status: StatusCode, text: &str) -> ClientErrorKind {
    // `generate_stream` puts even its refusals into an event.
    let text = text.trim();
    let text = text.strip_prefix("data:").unwrap_or(text);
    let json: Option<Value> = serde_json::from_str(text).ok();
    let error = json.as_ref().and_then(|json| json.get("error")?.as_str());
    let message = error.unwrap_or(text).trim();
    let message = if message.is_empty() { status.canonical_reason().unwrap_or("refused") } else { message };
    ClientErrorKind::Http { status: status.as_u16(), message: message.to_owned() }
}

fn model(name: &str, version: &str) -> String {
    // Names of models are names of folders.
    let name = url_path_part(name);
    if version.is_empty() { format!("/v2/models/{name}") } else { format!("/v2/models/{name}/versions/{version}") }
}

// Detects what listens on a port, for the error message about a wrong port.

const QUERY_TIMEOUT: Duration = Duration::from_secs(3);

/// Which of Triton's ports, or none of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListeningService {
    /// Connections are refused, or the host is unreachable.
    Nothing,
    Grpc,
    Http,
    Metrics,
    /// HTTP, but not Triton's.
    OtherHttp,
    /// Something else, or something that does not answer.
    Other,
}

/// Tries each protocol in turn.
pub async fn probe(host: &str, port: u16) -> ListeningService {
    let address = HttpAddress { host: host.to_owned(), port };
    let mut http = HttpClient::new(address).deadline(QUERY_TIMEOUT);
    // The metrics port answers 200 to every path: only the body shows what it is.
    match http.text("/v2").await {
        Ok(text) if text.contains("\"extensions\"") => return ListeningService::Http,
        Ok(_) => return metrics_or_not(&mut http).await,
        Err(error) => match error.why {
            // A server that is loading or shutting down answers too.
            ClientErrorKind::Http { status: 400 | 503, .. } => return ListeningService::Http,
            ClientErrorKind::Http { .. } => return metrics_or_not(&mut http).await,
            ClientErrorKind::Connect { cause: ConnectCause::Refused | ConnectCause::UnknownHost, .. } => {
                return ListeningService::Nothing;
            }
            _ => {}
        },
    }
    let endpoint = Endpoint { host: host.to_owned(), grpc: port, http: None, metrics: None, name: None };
    let Ok(client) = TritonClient::connect(&endpoint).await else { return ListeningService::Other };
    if client.deadline(QUERY_TIMEOUT).is_live().await.is_ok() {
        ListeningService::Grpc
    } else {
        ListeningService::Other
    }
}

async fn metrics_or_not(http: &mut HttpClient) -> ListeningService {
    match http.text("/metrics").await {
        Ok(text) if text.starts_with('#') => ListeningService::Metrics,
        _ => ListeningService::OtherHttp,
    }
}

// Where a server sends a query instead of an answer.

/// Redirects of one query that are followed.
pub const MOST_REDIRECTS: usize = 3;

/// Characters of a location that are shown.
const LONGEST: usize = 200;

/// A redirect, with its location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect(pub String);

impl Redirect {
    /// `None`: the answer is not a redirect.
    pub fn parse(status: StatusCode, headers: &HeaderMap) -> Option<Self> {
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

// Server-sent events, as `generate_stream` sends them: `data: {…}`, an empty line after each.

/// Bytes of one event. One has some hundreds.
const LONGEST_EVENT: usize = 16 << 20;

/// The answers of one `generate_stream`. Dropping it closes the connection, which cancels the request.
#[derive(Debug)]
pub struct SseEvents {
    body: Incoming,
    parser: SseParser,
    /// Those that were read and not yet taken.
    ready: VecDeque<String>,
    request: String,
    address: String,
    deadline: Duration,
    is_finished: bool,
    /// When the last bytes were read.
    at: Instant,
}

impl SseEvents {
    fn new(body: Incoming, text: String, address: String, deadline: Duration) -> Self {
        Self {
            body,
            parser: SseParser::default(),
            ready: VecDeque::new(),
            request: text,
            address,
            deadline,
            is_finished: false,
            at: Instant::now(),
        }
    }

    /// The next event and when it was read; `None` when the stream has ended. An event with an `error` is one, and
    /// others may follow it.
    pub async fn next(&mut self) -> Option<Result<(Value, Instant), ClientError>> {
        loop {
            if let Some(data) = self.ready.pop_front() {
                let event = match serde_json::from_str::<Value>(&data) {
                    Ok(value) if value.get("error").is_some() => Err(refusal(StatusCode::OK, &data)),
                    Ok(value) => Ok((value, self.at)),
                    Err(error) => Err(ClientErrorKind::Malformed(format!("an event is not JSON: {error}"))),
                };
                return Some(event.map_err(|why| self.error(why)));
            }
            if self.is_finished {
                return None;
            }
            let cause = match timeout(self.deadline, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    self.at = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        self.read(&data);
                    }
                    if self.parser.held() <= LONGEST_EVENT {
                        continue;
                    }
                    ClientErrorKind::TooLong { limit: LONGEST_EVENT }
                }
                Ok(None) => {
                    self.is_finished = true;
                    self.read(b"\n\n");
                    continue;
                }
                Ok(Some(Err(error))) => ClientErrorKind::connect(&error),
                Err(_) => ClientErrorKind::Timeout(self.deadline),
            };
            self.is_finished = true;
            return Some(Err(self.error(cause)));
        }
    }

    /// Empty events are skipped.
    fn read(&mut self, bytes: &[u8]) {
        let Self { parser, ready, .. } = self;
        let Ok(()) = parser.feed(bytes, |event| {
            ready.extend((!event.data.is_empty()).then(|| String::from_utf8_lossy(event.data).into_owned()));
            Ok::<_, Infallible>(())
        });
    }

    fn error(&self, why: ClientErrorKind) -> ClientError {
        ClientError::new(self.request.clone(), self.address.clone(), why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces_are_this_machines() {
        assert!(is_own_address(IpAddr::from([127, 0, 0, 1])) && is_own_address(Ipv6Addr::UNSPECIFIED.into()));
        // A documentation address (RFC 5737) belongs to no host; without a route to it there may be no other interface.
        let documentation = IpAddr::from([192, 0, 2, 7]);
        assert!(!is_own_address(documentation));
        if let Ok(own) = source_to(documentation) {
            assert!(is_own_address(own), "the address of an interface");
        }
    }

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
