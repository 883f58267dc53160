//! Waiting until every server is ready, within one limit for all.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::died;
use super::plan::{By, Planned};
use crate::event::{Endpoint, Failure};
use crate::process::{self, How};
use crate::stage::errand::Errand;
use crate::triton::{AwaitError, await_ready};

/// How often a log or a port is looked at again.
const PAUSE: Duration = Duration::from_millis(20);

/// The endpoints of all servers, in order, once the last one is ready.
pub async fn all(errand: &Errand, planned: &[Planned], limit: Duration) -> Result<Vec<Endpoint>, Failure> {
    let begun = Instant::now();
    let mut endpoints = Vec::new();
    for server in planned {
        errand.lease.say(format!("starting {}", server.name), endpoints.len() as u64, Some(planned.len() as u64));
        let left = limit.saturating_sub(begun.elapsed());
        let late = |waited_for: String| {
            let what = format!("{} was not ready within {limit:?}: {waited_for}", server.name);
            let failure = died(errand, server, what, How::Code(1));
            if failure.hint.is_some() {
                failure
            } else {
                failure.hint("`ready.timeout` may be longer; its log says how far it got")
            }
        };
        let endpoint = match &server.endpoint {
            Some(endpoint) => endpoint.clone(),
            None => match tokio::time::timeout(left, announced(errand, server, begun)).await {
                Ok(endpoint) => endpoint,
                Err(_) => return Err(late("waited for the line `ready grpc=PORT` in its log".to_owned())),
            },
        };
        let left = limit.saturating_sub(begun.elapsed());
        match server.by {
            By::Kserve => {
                let progress = |_: Duration, _: &str| loading(errand, server, begun);
                match await_ready(&endpoint, left, progress, errand.lease.stop.asked()).await {
                    Ok(()) => {}
                    Err(AwaitError::Timeout { endpoint, last, .. }) => {
                        return Err(late(format!("waited for ServerReady at {endpoint}, last answer: {last}")));
                    }
                    Err(error) => return Err(died(errand, server, error.to_string(), How::Stopped)),
                }
            }
            By::Port => {
                if tokio::time::timeout(left, connected(errand, server, &endpoint, begun)).await.is_err() {
                    return Err(late(format!("waited for a connection to {endpoint}")));
                }
            }
        }
        endpoints.push(endpoint);
    }
    Ok(endpoints)
}

fn loading(errand: &Errand, server: &Planned, begun: Instant) {
    let seconds = begun.elapsed().as_secs();
    errand.lease.say(format!("{}: loading, {seconds} s", server.name), 0, None);
}

/// The ports that a server chose: the line `ready grpc=PORT http=PORT metrics=PORT` of its log.
async fn announced(errand: &Errand, server: &Planned, begun: Instant) -> Endpoint {
    loop {
        if let Some(endpoint) = process::tail(&server.log, 50).iter().find_map(|line| ports(line)) {
            return endpoint;
        }
        loading(errand, server, begun);
        tokio::time::sleep(PAUSE).await;
    }
}

fn ports(line: &str) -> Option<Endpoint> {
    let words = line.strip_prefix("ready ")?;
    let port =
        |name: &str| words.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok());
    Some(Endpoint { host: "127.0.0.1".to_owned(), grpc: port("grpc")?, http: port("http"), metrics: port("metrics") })
}

async fn connected(errand: &Errand, server: &Planned, endpoint: &Endpoint, begun: Instant) {
    while TcpStream::connect((endpoint.host.as_str(), endpoint.grpc)).await.is_err() {
        loading(errand, server, begun);
        tokio::time::sleep(PAUSE).await;
    }
}
