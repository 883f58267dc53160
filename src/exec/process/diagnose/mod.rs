//! Likely causes: what the last lines of a log usually mean.

mod engine_server;
mod server;
mod shortage;

#[cfg(test)]
mod tests;

use self::CauseMatcher::{Code, Signal, Text};
use super::command::ExitKind;
pub use shortage::{Shortage, shortage};

/// How a row of the table is recognized.
enum CauseMatcher {
    /// Any of these texts in the last lines, lower case.
    Text(&'static [&'static str]),
    Code(i32),
    Signal(i32),
}

/// How an end is recognized, its cause and a hint, from the special to the general: the first match counts.
const TABLE: &[(CauseMatcher, &str, &str)] = &[
    (
        Text(shortage::GPU),
        "the GPU has too little memory for this",
        "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac, raise tensor_parallelism, or \
                check `nvidia-smi` for another process on the GPU",
    ),
    (
        Text(shortage::KILLED),
        "it was ended because it took too much of the host's memory",
        "request more (`--mem` under Slurm, the limit of the container or pod), or lower `workers`, `-j` or \
                the size of the job; `dmesg` shows which process the kernel killed",
    ),
    (
        Text(&["no space left on device", "disk quota exceeded"]),
        "the disk is full",
        "free some space (`regatta gc --yes` removes what no run needs) and run again",
    ),
    (
        Text(&["address already in use", "unavailable socket", "failed to bind"]),
        "another program listens on that port",
        "`ss -ltnp` names it; end it or choose another port",
    ),
    (
        Text(&["could not resolve host", "name or service not known", "temporary failure in name resolution"]),
        "a host name could not be resolved",
        "check the network, the proxy variables and the spelling of the host",
    ),
    (
        Text(&[
            "could not read username",
            "authentication failed",
            "permission denied (publickey",
            "could not read password",
            "terminal prompts disabled",
        ]),
        "the git server wants credentials",
        "set up a credential helper or an ssh key for this user; a run never prompts for credentials",
    ),
    (
        Text(&["connection refused", "connection timed out", "network is unreachable"]),
        "the other side cannot be reached",
        "is the server up, and is there a network path to it?",
    ),
    (
        Text(&["error while loading shared libraries", "cannot open shared object file", "undefined symbol:"]),
        "a shared library is missing or of another version",
        "run inside the container that has it, or add its folder to LD_LIBRARY_PATH under `env:`",
    ),
    (
        Text(&[
            "mpirun: not found",
            "mpirun: command not found",
            "mpiexec: not found",
            "there are not enough slots available",
            "mpirun was unable to",
            "orte_init failed",
            "pmix",
        ]),
        "MPI is missing or could not start its processes",
        "`mpirun -n 2 hostname` must work on this machine; as root it needs --allow-run-as-root",
    ),
    (
        Text(&["modulenotfounderror", "no module named", "importerror"]),
        "a Python module is missing",
        "install it in the environment that the stage uses, or run inside the container that has it",
    ),
    (
        Text(&[
            "driver version is insufficient",
            "no cuda-capable device",
            "cuda driver version",
            "nvidia-smi has failed",
        ]),
        "there is no usable NVIDIA driver or GPU",
        "`nvidia-smi` must work here; in a container it needs `--gpus`",
    ),
    (
        Code(127),
        "a command was not found",
        "is it installed, and is its folder in PATH? A script of yours must be declared under `inputs:` and \
                called by `{{ inputs.NAME }}`",
    ),
    (Code(126), "a file is not executable", "`chmod +x` it, or call it through its interpreter"),
    (
        Text(&["permission denied", "operation not permitted"]),
        "something is not allowed for this user",
        "check the owner and the mode of the file above",
    ),
    (
        Text(&["no such file or directory", "can't open", "cannot access", "filenotfounderror", "does not exist"]),
        "a file is not there",
        "declare it under `inputs:` and use `\"{{ inputs.NAME }}\"`: the stage runs in its own empty \
                folder, and a path with spaces needs the quotes",
    ),
    (
        Text(&["killed", "out of memory"]),
        "the machine has too little memory for this",
        "`dmesg` shows which process the kernel killed; lower `-j`, or the size of the job",
    ),
    (
        Signal(9),
        "it was killed, most often by the kernel's out-of-memory killer",
        "`dmesg` shows which process the kernel killed; lower `-j`, or the size of the job",
    ),
    (
        Signal(11),
        "it crashed (segmentation fault)",
        "often a library of another version, or a GPU architecture that the binary was not built for",
    ),
    (Signal(6), "it aborted (SIGABRT)", "its last lines have the reason"),
];

/// The likely cause of an end, from how it ended and its last lines. `None` for a success and for unknown causes.
pub fn diagnose(tail: &[String], how: ExitKind) -> Option<Diagnosis> {
    if matches!(how, ExitKind::Code(0) | ExitKind::Stopped) {
        return None;
    }
    let telling: Vec<&str> = tail.iter().map(String::as_str).filter(|line| !is_chatter(line)).collect();
    let text = telling.join("\n").to_lowercase();
    TABLE.iter().find_map(|(sign, cause, hint)| {
        let applies = match sign {
            Text(texts) => texts.iter().any(|&sign| text.contains(sign)),
            Code(code) => how == ExitKind::Code(*code),
            Signal(signal) => how == ExitKind::Signal(*signal),
        };
        applies.then(|| Diagnosis::new(*cause).hint(*hint))
    })
}

/// The likely cause of a server's end, from the last hundreds of lines of its log: it prints the cause, and then
/// tables.
pub fn diagnose_server(lines: &[String]) -> Option<Diagnosis> {
    let log = Log::new(lines);
    engine_server::TABLE
        .iter()
        .chain(server::TABLE)
        .find_map(|(signs, read)| log.find_line(signs).map(|line| read(&log, line)))
}

// What a diagnosis gives the user: a likely cause and a hint.

/// Signs, lower case, and what to make of the line that contains one.
type Row = (&'static [&'static str], fn(&Log<'_>, &str) -> Diagnosis);

/// What a message in a log usually means, and what to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub cause: String,
    pub hint: String,
}

impl Diagnosis {
    fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), hint: String::new() }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: hint.into(), ..self }
    }
}

// The last lines of a server's log, ready to be searched.

/// Lines as they are, and those that can be a reason, lower case.
struct Log<'a> {
    lines: &'a [String],
    telling: Vec<(&'a str, String)>,
}

impl<'a> Log<'a> {
    pub fn new(lines: &'a [String]) -> Self {
        let telling = lines.iter().filter(|line| !is_chatter(line)).map(|line| (line.as_str(), line.to_lowercase()));
        Self { lines, telling: telling.collect() }
    }

    /// The first line that contains one of these (lower case).
    pub fn find_line(&self, signs: &[&str]) -> Option<&'a str> {
        self.telling.iter().find(|(_, lower)| signs.iter().any(|sign| lower.contains(sign))).map(|(line, _)| *line)
    }

    /// What follows a text in any line, the last one first.
    pub fn after(&self, marker: &str) -> Option<&'a str> {
        self.lines.iter().rev().find_map(|line| after(line, marker))
    }
}

/// What glog marks as information or a warning is not why a server gave up: a Triton without a GPU warns of the missing
/// driver each time, and goes on.
fn is_chatter(line: &str) -> bool {
    line.starts_with(['I', 'W']) && line.get(1..5).is_some_and(|day| day.bytes().all(|b| b.is_ascii_digit()))
}

/// What follows a text.
fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    Some(line.split_once(marker)?.1)
}

/// The text up to a space, a comma, a quote or a bracket.
fn leading_token(text: &str) -> &str {
    text.trim_start().split([' ', ',', '\'', '"', ')', '(', '}', ';']).next().unwrap_or_default().trim_end_matches('.')
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_start().trim_start_matches('(');
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.').parse().ok()
}

/// A size in GiB, from `2.00 GiB`, `512.00 MiB` or `17179869184 bytes`.
fn gib(text: &str) -> Option<f64> {
    let size = number(text)?;
    let unit = text.trim_start().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '(').trim_start();
    Some(match unit {
        _ if unit.starts_with("GiB") || unit.starts_with("GB") => size,
        _ if unit.starts_with("MiB") || unit.starts_with("MB") => size / 1024.0,
        _ if unit.starts_with("KiB") => size / 1024.0 / 1024.0,
        _ => size / 1024.0 / 1024.0 / 1024.0,
    })
}
