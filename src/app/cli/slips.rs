//! Options that people type because another tool has them, and what they are here: an argument that clap does not know
//! gets its cure instead of the option that happens to be spelled alike.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use base::diag::ErrorText;

/// Arguments that `regatta bench` does not have, and what to write.
const BENCH: [(&[&str], &str); 14] = [
    (&["--host", "--port", "--hostname"], "the server is TARGET: `http://HOST:PORT`"),
    (
        &["--api-key", "--token"],
        "`--api-key-env VARIABLE` names the environment variable that has the key, so that no history shows it",
    ),
    (&["--max-seconds", "--time", "-d", "--test-time"], "`--duration 30s`"),
    (&["-r"], "`--rate N`: requests per second"),
    (&["--slo"], "`--goodput ttft:200` (in ms) for each request, `--limit ttft_p99=200ms` for the whole run"),
    (&["--n", "--num"], "`-n N`: how many requests"),
    (&["--rate-type", "--profile"], "the load is `--rate N`, `--concurrency N`, `--offline` or `--sweep`"),
    (
        &["--dataset-name"],
        "`--data FILE` has prompts of your own; without it they are made up, `--input-tokens N` long",
    ),
    (
        &["--prompt", "--prompts"],
        "write prompts to a file, `{\"prompt\": \"…\"}` a line, and give it with `--data FILE`",
    ),
    (
        &["--csv", "--format", "--output-format", "--output", "--save-result", "--result-dir", "--export"],
        "`--json` prints the result as JSON, `--out DIR` keeps all files, and `regatta runs --csv` prints the \
               results of all runs as CSV",
    ),
    (&["--timeout", "--request-timeout"], "`--stall-timeout 60s`: a pause between two tokens"),
    (
        &["--threads", "--workers", "--processes"],
        "leave it out: the client uses as many cores as its load needs. `--concurrency N` sets the users",
    ),
    (&["true", "false"], "switches take no value: `--streaming` or `--no-streaming`"),
    (
        &["--system", "--system-prompt"],
        "a system prompt is part of the records of `--data FILE`; a system to simulate is named in TARGET: \
               `sim:h100`",
    ),
];

/// Commands that take parameters of a manifest.
const OF_MANIFESTS: [&str; 7] = ["run", "serve", "plan", "show", "lock", "what-if", "doctor"];

/// What to write in place of `argument` at a command.
fn cure(command: &str, argument: &str) -> Option<String> {
    if command == "bench" {
        let (_, cure) = BENCH.iter().find(|(arguments, _)| arguments.contains(&argument))?;
        return Some((*cure).to_owned());
    }
    let name = argument.strip_prefix("--").filter(|_| OF_MANIFESTS.contains(&command))?;
    let name = name.replace('-', "_");
    Some(format!(
        "if it is a parameter of the manifest, write `{name}=VALUE` after the manifest's name; `regatta show \
         MANIFEST` lists them"
    ))
}

/// An unknown argument with its cure; and never the advice to pass it on as a value.
pub(super) fn explain(mut error: clap::Error, format: &mut clap::Command) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let argument = argument.split('=').next().unwrap_or_default();
    match cure(format.get_name(), argument) {
        Some(cure) => {
            let text = ErrorText::new(format!("`regatta {}` has no `{argument}`", format.get_name())).hint(cure);
            format.error(ErrorKind::UnknownArgument, text)
        }
        None => error,
    }
}
