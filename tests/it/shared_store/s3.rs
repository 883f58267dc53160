//! A real S3-compatible server on loopback, whose bucket is a folder.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::kept_part::script;
use crate::ports::free_port;
use crate::world::{World, until};

pub const KEY: &str = "regatta-test-key";
pub const SECRET: &str = "regatta-test-secret-4711";

/// It serves as long as the test lives.
pub struct S3 {
    child: Child,
    root: TempDir,
    pub address: SocketAddr,
}

impl S3 {
    pub fn start() -> Self {
        let root = tempfile::Builder::new().prefix("regatta-s3").tempdir().expect("a folder");
        fs::create_dir(root.path().join("bucket")).expect("a bucket");
        for _ in 0..20 {
            let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
            let mut child = Command::new(program())
                .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
                .args(["--access-key", KEY, "--secret-key", SECRET])
                .arg(root.path())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("s3s-fs");
            let mut ended = false;
            until("the S3 server to listen", || {
                ended = child.try_wait().expect("its state").is_some();
                ended || TcpStream::connect(address).is_ok()
            });
            if !ended {
                return Self { child, root, address };
            }
        }
        panic!("no port for the S3 server");
    }

    /// The bucket's folder.
    pub fn bucket(&self) -> PathBuf {
        self.root.path().join("bucket")
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let ended = script("s3.sh").stdin(Stdio::null()).output().expect("tests/parts/s3.sh");
        let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "the S3 server could not be installed:\n{stderr}");
        PathBuf::from(String::from_utf8_lossy(&ended.stdout).trim())
    })
}

/// A machine's environment names the server, with keys.
pub fn credentials(world: &mut World, address: SocketAddr) {
    world.env("AWS_ENDPOINT_URL", format!("http://{address}")).env("AWS_REGION", "us-east-1");
    world.env("AWS_ACCESS_KEY_ID", KEY).env("AWS_SECRET_ACCESS_KEY", SECRET).env("NO_PROXY", "127.0.0.1");
}
