//! A real `tritonserver` on the CPU, for the chapters that need one.
//!
//! It comes from the stage that users install it with (`manifests/triton-cpu.yaml`), once, into the build folder.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use regatta::event::Endpoint;
use regatta::triton::await_ready;

use crate::ports::free_ports;
use crate::world::alive_with;

/// The program, installed if it is not there yet. Fails with what the installation said.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let project = Path::new(env!("CARGO_TARGET_TMPDIR")).join("real-triton");
        fs::create_dir_all(&project).expect("a folder for the installation");
        let ended = Command::new(env!("CARGO_BIN_EXE_regatta"))
            .args(["run", "triton-cpu", "--only", "install_tritonserver"])
            .current_dir(&project)
            .env_remove("REGATTA_HOME")
            .stdin(Stdio::null())
            .output()
            .expect("regatta");
        assert!(
            ended.status.success(),
            "the real tritonserver could not be installed:\n{}{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
        let installed = fs::canonicalize(project.join("latest/install_tritonserver")).expect("what was installed");
        installed.join("bin/tritonserver")
    })
}

/// The Python models of `manifests/triton-cpu`, as they are copied into a repository.
pub fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/triton-cpu/models")
}

/// A real server on a repository. Gone, with its stubs, when this is dropped.
pub struct RealTriton {
    child: Child,
    pub endpoint: Endpoint,
    /// What it writes.
    pub log: PathBuf,
    /// Marks its processes' environment.
    mark: String,
}

impl RealTriton {
    /// Starts one with further words, and does not wait. The log is beside the repository.
    pub fn start(repository: &Path, words: &[&str]) -> Self {
        let [grpc, http, metrics] = free_ports();
        let log = repository.with_extension(format!("{grpc}.log"));
        let mark = format!("{}-{grpc}", repository.display());
        let file = fs::File::create(&log).expect("a log");
        let child = Command::new(program())
            .arg(format!("--model-repository={}", repository.display()))
            .args([format!("--grpc-port={grpc}"), format!("--http-port={http}"), format!("--metrics-port={metrics}")])
            .args(["--disable-auto-complete-config", "--allow-metrics=true"])
            .arg(format!("--backend-config=python,shm-region-prefix-name=test{grpc}_"))
            .args(words)
            .env("REAL_TRITON", &mark)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a log"))
            .stderr(file)
            .process_group(0)
            .spawn()
            .expect("tritonserver");
        let endpoint =
            Endpoint { host: "127.0.0.1".to_owned(), grpc, http: Some(http), metrics: Some(metrics), name: None };
        Self { child, endpoint, log, mark }
    }

    /// Starts one and waits until it is ready.
    pub async fn ready(repository: &Path, words: &[&str]) -> Self {
        let server = Self::start(repository, words);
        let limit = Duration::from_mins(1);
        if let Err(error) = await_ready(&server.endpoint, limit, |_, _| {}, std::future::pending()).await {
            panic!("{error}\n{}", server.log_text());
        }
        server
    }

    /// Everything it has written.
    pub fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Pids of the stubs in which its Python models run.
    pub fn stubs(&self) -> Vec<i32> {
        let stubs = alive_with(&self.mark).into_iter().filter(|(_, command)| command.contains("backend_stub"));
        stubs.map(|(pid, _)| pid).collect()
    }
}

impl Drop for RealTriton {
    fn drop(&mut self) {
        // A killed server leaves its stubs alive, and their shared memory.
        let everybody = alive_with(&self.mark);
        let _ = self.child.kill();
        for (pid, _) in everybody {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
        let _ = self.child.wait();
        let prefix = format!("test{}_", self.endpoint.grpc);
        for region in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if region.file_name().to_string_lossy().starts_with(&prefix) {
                let _ = fs::remove_file(region.path());
            }
        }
    }
}
