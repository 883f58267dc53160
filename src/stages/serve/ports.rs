//! Ports for servers: free ones, and whether a given one is free.

use std::net::TcpListener;
use std::path::PathBuf;

use base::event::{Failure, FailureKind};
use base::files::read_bytes;
use exec::process;
use runner::store::{ProjectLock, StateFolder};
use triton::launch::{Port, Ports};

pub(super) const HOST: &str = "127.0.0.1";

/// Gives every free port a number; none is one that was given.
pub(super) fn choose(ports: &mut [Ports]) -> Result<(), Failure> {
    let given: Vec<u16> = ports
        .iter()
        .flat_map(Ports::all)
        .filter_map(|(_, port)| if let Port::Known(port) = port { Some(port) } else { None })
        .collect();
    let wanted = 3 * ports.len();
    // So many more that enough are left when some are ports that were given.
    let mut free = free_ports(wanted + given.len())?.into_iter().filter(|port| !given.contains(port));
    for one in ports {
        for port in [&mut one.grpc, &mut one.http, &mut one.metrics] {
            if *port == Port::Free
                && let Some(number) = free.next()
            {
                *port = Port::Known(number);
            }
        }
    }
    Ok(())
}

/// Ports without a listener, all different.
pub(super) fn free_ports(count: usize) -> Result<Vec<u16>, Failure> {
    let taken: Result<Vec<TcpListener>, _> = (0..count).map(|_| TcpListener::bind(("0.0.0.0", 0))).collect();
    taken
        .and_then(|taken| taken.iter().map(|listener| listener.local_addr().map(|address| address.port())).collect())
        .map_err(|error| Failure::new(FailureKind::System, format!("no free port: {error}")))
}

pub(super) fn check_free(port: u16, key: &str) -> Result<(), Failure> {
    match TcpListener::bind(("0.0.0.0", port)) {
        Ok(_) => Ok(()),
        Err(error) => {
            let failure = Failure::new(FailureKind::Service, format!("port {port} cannot be used: {error}"));
            Err(match process::listener(port) {
                Some(owner) => {
                    let failure = failure.cause(format!("process {} listens there: {}", owner.pid, owner.command));
                    // To end it would spoil what that run measures.
                    failure.hint(match run_of(owner.pid) {
                        Some(run) => {
                            format!(
                                "it belongs to {run}: wait for the end of that, or leave `{key}` out to get a free one"
                            )
                        }
                        None => format!("end it (`kill {}`), or leave `{key}` out to get a free one", owner.pid),
                    })
                }
                None => failure.hint(format!(
                    "`ss -ltnp` shows the process that listens there; or leave `{key}` out to get a free one"
                )),
            })
        }
    }
}

/// The run that started a process, and its project, while that run goes on.
fn run_of(pid: i32) -> Option<String> {
    current_run(&read_bytes(format!("/proc/{pid}/environ")).ok()?)
}

/// The run in the environment of a process, if it holds its project's lock: what a killed run left behind ends with no run.
fn current_run(variables: &[u8]) -> Option<String> {
    let value = |name: &str| {
        let mut all = variables.split(|&byte| byte == 0);
        let value = all.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let (run, home) = (value(process::RUN)?, value(process::HOME)?);
    let project = home.strip_suffix("/.regatta").unwrap_or(&home);
    let has_lock = match ProjectLock::holder(&StateFolder::new(PathBuf::from(project), PathBuf::from(&home))) {
        Ok(holder) => holder.is_some_and(|holder| holder.run == run),
        // A lock of another user.
        Err(_) => true,
    };
    has_lock.then(|| format!("run {run} of {project}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::event::RunId;

    #[test]
    fn ports_that_were_given_are_kept_and_no_two_are_the_same() {
        let mut ports = vec![Ports { grpc: Port::Known(18_001), ..Ports::default() }, Ports::default()];
        choose(&mut ports).unwrap();
        assert_eq!(ports[0].grpc, Port::Known(18_001));
        let mut all: Vec<String> = ports.iter().flat_map(Ports::all).map(|(_, port)| port.to_string()).collect();
        all.sort();
        all.dedup();
        assert!(all.len() == 6 && !all.iter().any(|port| port == "<free>"), "{all:?}");
    }

    #[test]
    fn a_taken_port_is_named_with_its_owner() {
        let listener = TcpListener::bind(("0.0.0.0", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let failure = check_free(port, "port").unwrap_err();
        assert!(failure.cause.unwrap().contains(&std::process::id().to_string()));
    }

    #[test]
    fn a_process_belongs_to_a_run_only_while_that_has_the_lock() {
        let project = tempfile::tempdir().unwrap();
        let home = StateFolder::new(project.path().to_owned(), project.path().join(".regatta"));
        let lock = ProjectLock::try_take(&home, || Ok(RunId::new("r1"))).unwrap();
        let variables = |run: &str| format!("A=b\0REGATTA_HOME={}\0REGATTA_RUN={run}\0", home.state().display());
        let named = format!("run r1 of {}", project.path().display());
        assert_eq!(current_run(variables("r1").as_bytes()), Some(named));
        assert_eq!(current_run(variables("r0").as_bytes()), None);
        drop(lock);
        assert_eq!(current_run(variables("r1").as_bytes()), None);
    }
}
