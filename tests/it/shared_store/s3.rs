//! A real S3-compatible server on loopback, whose bucket is a folder.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::world::World;

pub const KEY: &str = "regatta-test-key";
pub const SECRET: &str = "regatta-test-secret-4711";

/// It serves until it is dropped.
pub struct S3 {
    root: TempDir,
    pub address: SocketAddr,
    _runtime: Runtime,
}

impl S3 {
    pub fn start() -> Self {
        let root = tempfile::Builder::new().prefix("regatta-s3").tempdir().expect("a folder");
        fs::create_dir(root.path().join("bucket")).expect("a bucket");
        let mut service = S3ServiceBuilder::new(FileSystem::new(root.path()).expect("its folder"));
        service.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        runtime.spawn(serve(listener, service.build()));
        Self { root, address, _runtime: runtime }
    }

    /// The bucket's folder.
    pub fn bucket(&self) -> PathBuf {
        self.root.path().join("bucket")
    }
}

async fn serve(listener: TcpListener, service: S3Service) {
    while let Ok((socket, _)) = listener.accept().await {
        let service = service.clone();
        tokio::spawn(async move {
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

/// A machine's environment names the server, with keys.
pub fn credentials(world: &mut World, address: SocketAddr) {
    world.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("AWS_REGION", "us-east-1");
    world.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).env("NO_PROXY", "127.0.0.1");
}
