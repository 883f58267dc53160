//! Sentences on what goes wrong with Triton and its Python models that need more than words of the log.

use super::{Diagnosis, Log, after, leading_token};
use crate::process::listener;

/// `failed to start GRPC service: Unavailable - Socket '0.0.0.0:8001' already in use`
pub fn port(_: &Log<'_>, line: &str) -> Diagnosis {
    let port = after(line, "Socket '").or_else(|| after(line, "socket '")).map(leading_token);
    let port = port.and_then(|address| address.rsplit_once(':')?.1.parse::<u16>().ok());
    let cause = match (port, port.and_then(listener)) {
        (Some(port), Some(owner)) => format!("port {port} is taken by process {}: {}", owner.pid, owner.command),
        (Some(port), None) => format!("port {port} was taken"),
        _ => "another program listens on its port".to_owned(),
    };
    Diagnosis::new(cause).hint(
        "end it or choose another port; under MPI only rank 0 may open ports. A server reports this only after all \
            its models are loaded",
    )
}

/// `…stub: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file`
pub fn libpython(_: &Log<'_>, line: &str) -> Diagnosis {
    let version = after(line, "libpython").map(leading_token).unwrap_or_default();
    let version = version.split(".so").next().unwrap_or_default();
    Diagnosis::new(format!(
        "the process of Python models needs libpython{version}, which is not there; the server waits for it for \
                ever"
    ))
    .hint(format!("`apt-get install libpython{version}`, or add its folder to LD_LIBRARY_PATH under `env:`"))
}

pub fn module(_: &Log<'_>, line: &str) -> Diagnosis {
    let name =
        after(line, "No module named ").map(|rest| rest.trim_start_matches('\'')).map_or("a module", leading_token);
    // Triton writes what its Python models fail with into lines of its own; any other line is of the program itself.
    if line.contains("failed to load '") || line.contains("Python stub") {
        return Diagnosis::new(format!("the Python model imports {name}, which is not installed for it")).hint(
            format!(
                "install {name} into the environment whose `python3` comes first on PATH: the stub ignores PYTHONPATH"
            ),
        );
    }
    Diagnosis::new(format!("the program's Python does not have {name}"))
        .hint(format!("start it with the Python of the environment that has {name}, or set PYTHONPATH under `env:`"))
}
