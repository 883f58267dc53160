//! What h2 itself costs: a client that sends the same requests over one connection and drops what comes, unread. What
//! the load generator takes beyond it is its own.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use http::{Method, Request, Version};
use rustix::time::{ClockId, clock_gettime};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet, spawn_local};

use crate::server::Server;

type Failed = Box<dyn std::error::Error>;

/// So many users, each with its next request when its last one has ended, until so many of so many bytes were sent.
/// CPU of this thread per 1,000 DATA frames, ms.
pub fn cost(server: &Server, users: u64, requests: u64, bytes: usize) -> Result<f64, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, async {
        let socket = TcpStream::connect(server.address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = Builder::new()
            .initial_window_size(2 << 20)
            .initial_connection_window_size(1 << 30)
            .data_frame_budget(usize::MAX)
            .enable_push(false)
            .handshake::<_, Bytes>(socket)
            .await?;
        spawn_local(async move { drop(connection.await) });
        let (left, frames) = (Rc::new(Cell::new(requests)), Rc::new(Cell::new(0u64)));
        let before = thread_cpu();
        let mut all = JoinSet::new();
        for _ in 0..users {
            all.spawn_local(user(sender.clone(), Rc::clone(&left), Rc::clone(&frames), Bytes::from(vec![0; bytes])));
        }
        while let Some(ended) = all.join_next().await {
            ended??;
        }
        Ok(thread_cpu().saturating_sub(before).as_secs_f64() * 1e6 / frames.get() as f64)
    })
}

async fn user(
    mut sender: SendRequest<Bytes>,
    left: Rc<Cell<u64>>,
    frames: Rc<Cell<u64>>,
    body: Bytes,
) -> Result<(), h2::Error> {
    let uri = http::Uri::from_static("http://127.0.0.1/inference.GRPCInferenceService/ModelStreamInfer");
    while left.get() > 0 {
        left.set(left.get() - 1);
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = uri.clone();
        let (response, mut out) = sender.send_request(request, false)?;
        out.send_data(body.clone(), true)?;
        let mut answer = response.await?.into_body();
        while let Some(data) = answer.data().await {
            data?;
            frames.set(frames.get() + 1);
        }
        answer.trailers().await?;
    }
    Ok(())
}

pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
