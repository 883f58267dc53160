//! What goes wrong with Triton, TensorRT-LLM, MPI and NCCL, by their messages. From the special to the general.

use super::{Diagnosis, Log, Row, after, leading_token, number, shortage};
use crate::process::listener;

pub const TABLE: &[Row] = &[
    (&["maxtokensinpagedkvcache"], shortage::cache_too_small),
    (&["unable to initialize shared memory key", "/dev/shm/nccl-", "bus error"], shortage::shared_memory),
    (shortage::GPU, shortage::gpu),
    (shortage::KILLED, shortage::host),
    (&["expecting library version"], engine_version),
    (&["serialized engine version:"], serialization_version),
    (&["incompatible device, expecting compute"], engine_device),
    (&["expected to be equal to tp*pp", "mpisize == tp * pp", "unexpected number of ranks"], world_size),
    (&["both encoder and decoder model paths are empty"], |_, _| {
        Diagnosis::new("the server found no engine: gpt_model_path names no folder that is there").hint(
            "set `gpt_model_path` of tensorrt_llm/config.pbtxt to the engine's folder as the server sees it (in a \
                container: the path of the mount); an unfilled ${engine_dir} reads the same",
        )
    }),
    (&["invalid gpt_model_type"], |_, _| {
        Diagnosis::new("`gpt_model_type` is none that the backend knows")
            .hint("use inflight_fused_batching (or V1), `batching_strategy` in the templates")
    }),
    (&["${", "expected integer, got: $", "got: \"$\""], placeholder),
    (&["at least one version must be available", "no model version was found"], no_version),
    (&["orte_init failed", "getting local rank failed"], |_, _| {
        Diagnosis::new(
            "a process below mpirun started MPI a second time, most often a Python model that imports torch or \
                tensorrt_llm",
        )
        .hint(
            "start its stub without OMPI_* and PMIX_* variables, move that model to a server of its own, or use \
                orchestrator mode",
        )
    }),
    (&["not enough slots available"], |_, _| {
        Diagnosis::new("mpirun was given more ranks than this machine has cores")
            .hint("`--oversubscribe`, or set the number of slots: `-H HOST:SLOTS`")
    }),
    (&["attempt to run as root", "run as root is strongly discouraged"], |_, _| {
        Diagnosis::new("mpirun refuses to run as root").hint("`--allow-run-as-root`, as in NVIDIA's launcher")
    }),
    (&["orte was unable to reliably start", "ssh: could not resolve", "host key verification failed"], |_, _| {
        Diagnosis::new("mpirun could not start its daemon on another host")
            .hint("`ssh HOST true` must work without a question, with the same MPI on both sides")
    }),
    (&["nccl error", "nccl warn", "unhandled system error", "unhandled cuda error"], nccl),
    (&["already in use", "unavailable socket", "socket is not available"], port),
    (&["error while loading shared libraries: libpython", "libpython3"], libpython),
    (&["libcuda.so.1: cannot open", "libnvidia-ml.so.1: cannot open"], |_, _| {
        Diagnosis::new("there is no NVIDIA driver where the server runs").hint(
            "`nvidia-smi` must work there; a container needs `--gpus all` (docker) or the CDI device \
                nvidia.com/gpu=all (podman)",
        )
    }),
    (&["version `glibc_", "version `glibcxx_"], glibc),
    (&["no module named"], module),
    (&["failed to initialize python stub:"], python),
    (&["is not healthy"], |_, _| {
        Diagnosis::new("the process of a Python model died while it was loaded").hint(
            "its own error message is further up in the log; `python3` on PATH must have what model.py imports, \
                because PYTHONPATH is ignored",
        )
    }),
];

/// TensorRT names its own version first: `expecting library version 10.3.0 got 10.4.0`.
fn engine_version(_: &Log<'_>, line: &str) -> Diagnosis {
    let rest = after(line, "expecting library version ").unwrap_or_default();
    let (runtime, engine) = (leading_token(rest), leading_token(after(rest, "got ").unwrap_or_default()));
    Diagnosis::new(format!("the engine was built with TensorRT {engine}, and the server has {runtime}")).hint(format!(
        "build it again in the server's own container, or serve it with the container that has TensorRT {engine}"
    ))
}

/// `Note: Current Version: 239, Serialized Engine Version: 236`
fn serialization_version(_: &Log<'_>, line: &str) -> Diagnosis {
    let token_after = |marker: &str| leading_token(after(line, marker).unwrap_or_default());
    let (runtime, engine) = (token_after("Current Version: "), token_after("Serialized Engine Version: "));
    let cause = format!("the engine was written in TensorRT's format {engine}, and the server reads format {runtime}");
    Diagnosis::new(cause)
        .hint("build it again in the server's own container, or serve it with the container that it was built in")
}

/// `expecting compute 9.0 got compute 8.9`
fn engine_device(_: &Log<'_>, line: &str) -> Diagnosis {
    let rest = after(line, "expecting compute ").unwrap_or_default();
    let (gpu, engine) = (leading_token(rest), leading_token(after(rest, "got compute ").unwrap_or_default()));
    Diagnosis::new(format!("the engine was built for a GPU of compute capability {engine}, and this one has {gpu}"))
        .hint("an engine runs on the kind of GPU that it was built on: build it here, or run where it was built")
}

fn world_size(log: &Log<'_>, _: &str) -> Diagnosis {
    // `[TensorRT-LLM][INFO] MPI size: 1, rank: 0`
    let have = log.after("MPI size: ").and_then(number);
    let have = have.map_or_else(|| "another number".to_owned(), |ranks| ranks.to_string());
    let cause = format!("the engine wants tensor_parallelism × pipeline_parallelism ranks, and {have} were started");
    Diagnosis::new(cause).hint(
        "start as many ranks as `mapping.world_size` in the engine's config.json; without MPI a server has one rank",
    )
}

fn placeholder(_: &Log<'_>, line: &str) -> Diagnosis {
    let name = after(line, "${").and_then(|rest| rest.split('}').next()).filter(|name| !name.contains(' '));
    let name = name.map_or_else(|| "a ${…}".to_owned(), |name| format!("${{{name}}}"));
    Diagnosis::new(format!("{name} was never filled in")).hint(
        "`regatta repository check DIR` names every place; fill it with a `repository:` stage or with fill_template",
    )
}

fn no_version(_: &Log<'_>, line: &str) -> Diagnosis {
    let model = after(line, "model '").map_or("a model", leading_token);
    Diagnosis::new(format!("{model} has no version folder"))
        .hint(format!("make the folder {model}/1, even if it is empty (git does not keep empty folders)"))
}

fn nccl(_: &Log<'_>, line: &str) -> Diagnosis {
    Diagnosis::new(format!("the GPUs could not be joined (NCCL): {}", short(line))).hint(
        "run again with NCCL_DEBUG=INFO under `env:`; usual reasons are /dev/shm (`--shm-size=2g`), two ranks on one \
            GPU (CUDA_VISIBLE_DEVICES), and a network interface that is not the right one (NCCL_SOCKET_IFNAME)",
    )
}

/// `failed to start GRPC service: Unavailable - Socket '0.0.0.0:8001' already in use`
fn port(_: &Log<'_>, line: &str) -> Diagnosis {
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
fn libpython(_: &Log<'_>, line: &str) -> Diagnosis {
    let version = after(line, "libpython").map(leading_token).unwrap_or_default();
    let version = version.split(".so").next().unwrap_or_default();
    Diagnosis::new(format!(
        "the process of Python models needs libpython{version}, which is not there; the server waits for it for \
                ever"
    ))
    .hint(format!("`apt-get install libpython{version}`, or add its folder to LD_LIBRARY_PATH under `env:`"))
}

fn glibc(_: &Log<'_>, line: &str) -> Diagnosis {
    let wanted = after(line, "version `").and_then(|rest| rest.split('\'').next()).unwrap_or("GLIBC");
    Diagnosis::new(format!("this machine's C library is too old for the server: it wants {wanted}"))
        .hint("run it inside its container, or on a newer distribution")
}

fn module(_: &Log<'_>, line: &str) -> Diagnosis {
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

fn python(_: &Log<'_>, line: &str) -> Diagnosis {
    let reason = after(line, "Failed to initialize Python stub: ").unwrap_or(line);
    Diagnosis::new(format!("a Python model failed while it was loaded: {}", short(reason)))
        .hint("it is the model's own code (`initialize` in model.py); its traceback is in the log")
}

fn short(line: &str) -> String {
    const ROOM: usize = 120;
    let line = line.trim();
    if line.chars().count() <= ROOM { line.to_owned() } else { line.chars().take(ROOM).chain(['…']).collect() }
}
