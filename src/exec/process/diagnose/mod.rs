//! Likely causes: what the last lines of a log usually mean.

mod diagnosis;
mod engine_server;
mod log;
mod memory;
mod server;
mod shortage;
#[cfg(test)]
mod tests;

use super::command::ExitKind;
pub use diagnosis::Diagnosis;
use log::Log;
pub use shortage::{Shortage, shortage};

/// Texts of the table.
#[derive(Clone, Copy)]
struct KnownCause {
    cause: &'static str,
    hint: &'static str,
}

/// How a row of the table is recognized.
enum CauseMatcher {
    /// Any of these texts in the last lines, lower case.
    Text(&'static [&'static str]),
    Code(i32),
    Signal(i32),
}

/// From the special to the general: the first match counts.
const TABLE: &[(CauseMatcher, KnownCause)] = &[
    (
        CauseMatcher::Text(shortage::GPU),
        KnownCause {
            cause: "the GPU has too little memory for this",
            hint: "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac, raise tensor_parallelism, or check `nvidia-smi` for another process on the GPU",
        },
    ),
    (
        CauseMatcher::Text(shortage::KILLED),
        KnownCause {
            cause: "it was ended because it took too much of the host's memory",
            hint: "request more (`--mem` under Slurm, the limit of the container or pod), or lower `workers`, `-j` or the size of the job; `dmesg` shows which process the kernel killed",
        },
    ),
    (
        CauseMatcher::Text(&["no space left on device", "disk quota exceeded"]),
        KnownCause {
            cause: "the disk is full",
            hint: "free some space (`regatta gc --yes` removes what no run needs) and run again",
        },
    ),
    (
        CauseMatcher::Text(&["address already in use", "unavailable socket", "failed to bind"]),
        KnownCause {
            cause: "another program listens on that port",
            hint: "`ss -ltnp` names it; end it or choose another port",
        },
    ),
    (
        CauseMatcher::Text(&[
            "could not resolve host",
            "name or service not known",
            "temporary failure in name resolution",
        ]),
        KnownCause {
            cause: "a host name could not be resolved",
            hint: "check the network, the proxy variables and the spelling of the host",
        },
    ),
    (
        CauseMatcher::Text(&[
            "could not read username",
            "authentication failed",
            "permission denied (publickey",
            "could not read password",
            "terminal prompts disabled",
        ]),
        KnownCause {
            cause: "the git server wants credentials",
            hint: "set up a credential helper or an ssh key for this user; a run never prompts for credentials",
        },
    ),
    (
        CauseMatcher::Text(&["connection refused", "connection timed out", "network is unreachable"]),
        KnownCause {
            cause: "the other side cannot be reached",
            hint: "is the server up, and is there a network path to it?",
        },
    ),
    (
        CauseMatcher::Text(&[
            "error while loading shared libraries",
            "cannot open shared object file",
            "undefined symbol:",
        ]),
        KnownCause {
            cause: "a shared library is missing or of another version",
            hint: "run inside the container that has it, or add its folder to LD_LIBRARY_PATH under `env:`",
        },
    ),
    (
        CauseMatcher::Text(&[
            "mpirun: not found",
            "mpirun: command not found",
            "mpiexec: not found",
            "there are not enough slots available",
            "mpirun was unable to",
            "orte_init failed",
            "pmix",
        ]),
        KnownCause {
            cause: "MPI is missing or could not start its processes",
            hint: "`mpirun -n 2 hostname` must work on this machine; as root it needs --allow-run-as-root",
        },
    ),
    (
        CauseMatcher::Text(&["modulenotfounderror", "no module named", "importerror"]),
        KnownCause {
            cause: "a Python module is missing",
            hint: "install it in the environment that the stage uses, or run inside the container that has it",
        },
    ),
    (
        CauseMatcher::Text(&[
            "driver version is insufficient",
            "no cuda-capable device",
            "cuda driver version",
            "nvidia-smi has failed",
        ]),
        KnownCause {
            cause: "there is no usable NVIDIA driver or GPU",
            hint: "`nvidia-smi` must work here; in a container it needs `--gpus`",
        },
    ),
    (
        CauseMatcher::Code(127),
        KnownCause {
            cause: "a command was not found",
            hint: "is it installed, and is its folder in PATH? A script of yours must be declared under `inputs:` and called by `{{ inputs.NAME }}`",
        },
    ),
    (
        CauseMatcher::Code(126),
        KnownCause { cause: "a file is not executable", hint: "`chmod +x` it, or call it through its interpreter" },
    ),
    (
        CauseMatcher::Text(&["permission denied", "operation not permitted"]),
        KnownCause {
            cause: "something is not allowed for this user",
            hint: "check the owner and the mode of the file above",
        },
    ),
    (
        CauseMatcher::Text(&[
            "no such file or directory",
            "can't open",
            "cannot access",
            "filenotfounderror",
            "does not exist",
        ]),
        KnownCause {
            cause: "a file is not there",
            hint: "declare it under `inputs:` and use `\"{{ inputs.NAME }}\"`: the stage runs in its own empty folder, and a path with spaces needs the quotes",
        },
    ),
    (
        CauseMatcher::Text(&["killed", "out of memory"]),
        KnownCause {
            cause: "the machine has too little memory for this",
            hint: "`dmesg` shows which process the kernel killed; lower `-j`, or the size of the job",
        },
    ),
    (
        CauseMatcher::Signal(9),
        KnownCause {
            cause: "it was killed, most often by the kernel's out-of-memory killer",
            hint: "`dmesg` shows which process the kernel killed; lower `-j`, or the size of the job",
        },
    ),
    (
        CauseMatcher::Signal(11),
        KnownCause {
            cause: "it crashed (segmentation fault)",
            hint: "often a library of another version, or a GPU architecture that the binary was not built for",
        },
    ),
    (CauseMatcher::Signal(6), KnownCause { cause: "it aborted (SIGABRT)", hint: "its last lines have the reason" }),
];

/// The likely cause of an end, from how it ended and its last lines. `None` for a success and for unknown causes.
pub fn diagnose(tail: &[String], how: ExitKind) -> Option<Diagnosis> {
    if matches!(how, ExitKind::Code(0) | ExitKind::Stopped) {
        return None;
    }
    let telling: Vec<&str> = tail.iter().map(String::as_str).filter(|line| !log::is_chatter(line)).collect();
    let text = telling.join("\n").to_lowercase();
    TABLE.iter().find_map(|(sign, usual)| {
        let applies = match sign {
            CauseMatcher::Text(texts) => texts.iter().any(|&sign| text.contains(sign)),
            CauseMatcher::Code(code) => how == ExitKind::Code(*code),
            CauseMatcher::Signal(signal) => how == ExitKind::Signal(*signal),
        };
        applies.then(|| Diagnosis::new(usual.cause, usual.hint))
    })
}

/// The likely cause of a server's end, from the last hundreds of lines of its log: it prints the cause, and then tables.
pub fn diagnose_server(lines: &[String]) -> Option<Diagnosis> {
    let log = Log::new(lines);
    engine_server::TABLE
        .iter()
        .chain(server::TABLE)
        .find_map(|(signs, read)| log.find_line(signs).map(|line| read(&log, line)))
}
