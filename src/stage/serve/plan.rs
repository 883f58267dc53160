//! Which server processes there will be: commands, ports, GPUs.

use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use super::{log_of, words};
use crate::event::{Endpoint, Failure, FailureKind};
use crate::manifest::model::{CommandServer, Serve, SimServer, TritonServer};
use crate::process::{self, Command};
use crate::stage::errand::{Errand, devices};

const HOST: &str = "127.0.0.1";

/// One server process to be.
pub struct Planned {
    /// For people: `server 0`.
    pub name: String,
    pub argv: Vec<OsString>,
    pub log: PathBuf,
    /// `None`: the server chooses its port and says so in its log.
    pub endpoint: Option<Endpoint>,
    pub gpus: Vec<u32>,
    /// What its environment has beyond the stage's own.
    pub env: Vec<(String, OsString)>,
    pub world: World,
    pub by: By,
}

/// What there is to stop when a server is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the launch plans make them")]
pub enum World {
    /// One process group.
    Process,
    /// `mpirun` with so many ranks below it, each a process group of its own.
    Mpi { ranks: u32 },
    /// A container, which outlives the program that started it: `PROGRAM stop NAME`.
    Container { program: String, name: String },
    /// A step of so many ranks in a Slurm allocation; `srun` forwards signals.
    Slurm { ranks: u32 },
}

/// How readiness is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// ServerReady over gRPC.
    Kserve,
    /// A TCP connection.
    Port,
}

impl Planned {
    pub fn command(&self, errand: &Errand) -> Command {
        let mut command = errand.command(self.argv.clone());
        command.log.clone_from(&self.log);
        for (name, value) in &self.env {
            command = command.set(name, value);
        }
        if self.gpus.is_empty() { command } else { command.set("CUDA_VISIBLE_DEVICES", devices(&self.gpus)) }
    }
}

pub fn plan(errand: &Errand, serve: &Serve, program: Option<&Path>) -> Result<Vec<Planned>, Failure> {
    match serve {
        Serve::Simulator(server) => simulators(errand, server, program),
        Serve::Triton(server) => tritons(errand, server),
        Serve::Command(server) => command(errand, server).map(|planned| vec![planned]),
    }
}

fn simulators(errand: &Errand, server: &SimServer, program: Option<&Path>) -> Result<Vec<Planned>, Failure> {
    let program = program
        .map_or_else(std::env::current_exe, |program| Ok(program.to_owned()))
        .map_err(|error| Failure::new(FailureKind::System, format!("our own program cannot be found: {error}")))?;
    let repositories = repositories(&errand.path(&server.repository))?;
    let count = repositories.len();
    let planned = repositories.into_iter().enumerate().map(|(index, repository)| {
        let mut argv: Vec<OsString> = vec![program.clone().into()];
        argv.extend(words(["sim", "serve", "--repository"]));
        argv.push(repository.into());
        argv.extend(words(["--grpc-port", "0", "--http-port", "0", "--metrics-port", "0"]));
        argv.extend(words(["--speed", &server.speed.to_string()]));
        argv.extend(words(["--load-seconds", &server.load_seconds.to_string()]));
        Planned {
            name: format!("server {index}"),
            argv,
            log: log_of(errand, index, count),
            endpoint: None,
            gpus: Vec::new(),
            env: Vec::new(),
            world: World::Process,
            by: By::Kserve,
        }
    });
    Ok(planned.collect())
}

fn tritons(errand: &Errand, server: &TritonServer) -> Result<Vec<Planned>, Failure> {
    let repositories = repositories(&errand.path(&server.repository))?;
    let count = repositories.len();
    let ports = free_ports(3 * count)?;
    let planned =
        repositories.into_iter().zip(ports.chunks_exact(3)).enumerate().map(|(index, (repository, ports))| Planned {
            name: format!("server {index}"),
            argv: triton_words(server, &repository, ports, index),
            log: log_of(errand, index, count),
            endpoint: Some(Endpoint {
                host: HOST.to_owned(),
                grpc: ports[0],
                http: Some(ports[1]),
                metrics: Some(ports[2]),
            }),
            gpus: share(&errand.lease.gpus, index, count),
            env: Vec::new(),
            world: World::Process,
            by: By::Kserve,
        });
    Ok(planned.collect())
}

/// Options of Triton's own command line. Without auto-completion a config means what it says, as in NVIDIA's launcher.
fn triton_words(server: &TritonServer, repository: &Path, ports: &[u16], index: usize) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![server.program.clone().into()];
    let mut repository_word = OsString::from("--model-repository=");
    repository_word.push(repository);
    argv.push(repository_word);
    for (option, port) in ["grpc-port", "http-port", "metrics-port"].iter().zip(ports) {
        argv.push(format!("--{option}={port}").into());
    }
    argv.push("--disable-auto-complete-config".into());
    // Servers on one host must not share the shared memory of their Python models.
    argv.push(format!("--backend-config=python,shm-region-prefix-name=prefix{index}_").into());
    argv.extend(server.args.iter().map(OsString::from));
    argv
}

fn command(errand: &Errand, server: &CommandServer) -> Result<Planned, Failure> {
    let port = match server.port {
        Some(port) => {
            check_free(port)?;
            port
        }
        None => free_ports(1)?[0],
    };
    let by = match server.ready.by.as_str() {
        "kserve" => By::Kserve,
        "port" => By::Port,
        other => {
            return Err(Failure::new(FailureKind::Refused, format!("`ready.by: {other}` is none of kserve, port")));
        }
    };
    let port_text = port.to_string();
    Ok(Planned {
        name: "the server".to_owned(),
        argv: server.words.iter().map(|word| word.replace("{port}", &port_text).into()).collect(),
        log: errand.lease.log.clone(),
        endpoint: Some(Endpoint { host: HOST.to_owned(), grpc: port, http: None, metrics: None }),
        gpus: Vec::new(),
        env: Vec::new(),
        world: World::Process,
        by,
    })
}

/// `triton_model_repo_<n>` in a folder, by number.
fn repositories(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder)
        .map_err(|error| Failure::new(FailureKind::Files, format!("{}: {error}", folder.display())))?;
    let mut found: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("triton_model_repo_")?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Failure::new(FailureKind::Files, format!("no triton_model_repo_<n> in {}", folder.display()))
            .hint("`repository` is the output of a `repository:` stage: `{{ stages.NAME.out }}`"));
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Equal shares of the leased GPUs when they can be divided; all of them for everybody when not.
fn share(gpus: &[u32], index: usize, servers: usize) -> Vec<u32> {
    if gpus.len() >= servers && gpus.len().is_multiple_of(servers) {
        let size = gpus.len() / servers;
        gpus[index * size..(index + 1) * size].to_vec()
    } else {
        gpus.to_vec()
    }
}

/// Ports that nobody listens on now, all different.
fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let taken: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind(("0.0.0.0", 0))).collect();
    taken
        .and_then(|taken| taken.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect())
        .map_err(|error| Failure::new(FailureKind::System, format!("no free port: {error}")))
}

fn check_free(port: u16) -> Result<(), Failure> {
    match TcpListener::bind(("0.0.0.0", port)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let failure = Failure::new(FailureKind::Service, format!("port {port} cannot be used: {error}"));
            Err(match process::listener(port) {
                Some(owner) => failure
                    .cause(format!("process {} listens there: {}", owner.pid, owner.command))
                    .hint(format!("end it (`kill {}`), or leave `port` out to get a free one", owner.pid)),
                None => failure.hint("`ss -ltnp` names who listens there; or leave `port` out to get a free one"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_are_shared_evenly_or_not_at_all() {
        assert_eq!(share(&[0, 1, 2, 3], 1, 2), [2, 3]);
        assert_eq!(share(&[0, 1, 2], 1, 2), [0, 1, 2]);
        assert_eq!(share(&[], 0, 2), [0; 0]);
    }

    #[test]
    fn the_triton_command_line_is_known() {
        let server: TritonServer =
            serde_json::from_value(serde_json::json!({"repository": "r", "args": ["--log-verbose=1"]})).unwrap();
        let words = triton_words(&server, Path::new("/r/triton_model_repo_1"), &[8001, 8000, 8002], 1);
        let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        assert_eq!(
            line,
            "tritonserver --model-repository=/r/triton_model_repo_1 --grpc-port=8001 --http-port=8000 --metrics-port=8002 \
             --disable-auto-complete-config --backend-config=python,shm-region-prefix-name=prefix1_ --log-verbose=1"
        );
    }

    #[test]
    fn a_taken_port_is_named_with_its_owner() {
        let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let failure = check_free(port).unwrap_err();
        assert!(failure.cause.unwrap().contains(&std::process::id().to_string()));
    }
}
