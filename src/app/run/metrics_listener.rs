//! `--metrics-listen`: a run under way, for Prometheus to scrape.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpListener;

use report::{OPEN_METRICS_TYPE, RunState, open_metrics};

/// A client that has not sent its request by then is closed.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// After a connection that could not be accepted: what the system lacks may be there again.
const PAUSE: Duration = Duration::from_millis(100);

/// Binds the `HOST:PORT`, and answers for as long as the runtime lives. Returns the address with its port.
pub(super) async fn listen(address: &str, state: Arc<Mutex<RunState>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let state = Arc::clone(&state);
            let service = service_fn(move |request| {
                let answer = answer(&request, &state);
                async move { Ok::<_, Infallible>(answer) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).keep_alive(false);
            let connection = server.serve_connection(TokioIo::new(socket), service);
            // A client that breaks off harms only itself.
            tokio::spawn(async move { drop(connection.await) });
        }
    });
    Ok(bound)
}

fn answer<B>(request: &hyper::Request<B>, state: &Mutex<RunState>) -> Response<Full<Bytes>> {
    let (status, content_type, body) = if request.method() == Method::GET && request.uri().path() == "/metrics" {
        (StatusCode::OK, OPEN_METRICS_TYPE, Full::from(open_metrics(&state.lock())))
    } else {
        (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", Full::from("GET /metrics\n"))
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_metrics_have_the_type_of_metrics() {
        let state = Mutex::new(RunState::new());
        let of = |path: &str| {
            let response = answer(&hyper::Request::get(path).body(()).unwrap(), &state);
            (response.status().as_u16(), response.headers()[CONTENT_TYPE].to_str().unwrap().to_owned())
        };
        assert_eq!(of("/metrics"), (200, OPEN_METRICS_TYPE.to_owned()));
        assert_eq!(of("/"), (404, "text/plain; charset=utf-8".to_owned()));
    }
}
