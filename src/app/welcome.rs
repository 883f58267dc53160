//! `regatta` alone: what to do next on this machine.

use std::fmt::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::doctor::gpu_names;

/// Ports on which servers of this machine are usually found, and the line that measures them.
const USUAL_PORTS: [(u16, &str); 2] = [
    (8001, "regatta bench 127.0.0.1:8001 --rate 5 -n 100"),
    (8000, "regatta bench http://127.0.0.1:8000 --rate 5 -n 100"),
];

/// A server on this machine answers at once, or is not there.
const QUERY_TIMEOUT: Duration = Duration::from_millis(200);

pub(super) fn text() -> String {
    let answers =
        |port: u16| TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], port)), QUERY_TIMEOUT).is_ok();
    let ports: Vec<u16> = USUAL_PORTS.iter().map(|(port, _)| *port).filter(|port| answers(*port)).collect();
    advice(&gpu_names(), &ports, Path::new("manifests").is_dir())
}

/// Lines to try, the most useful first. `ports`: those that something listens on.
fn advice(gpus: &[String], ports: &[u16], has_manifests: bool) -> String {
    let machine = match gpus {
        [] => "no NVIDIA GPU".to_owned(),
        [one] => format!("one {one}"),
        [first, ..] => format!("{} GPUs, {first}", gpus.len()),
    };
    let mut lines: Vec<(&str, &str)> = Vec::new();
    for (port, line) in USUAL_PORTS {
        if ports.contains(&port) {
            lines.push((
                line,
                if port == 8001 {
                    "something listens there: a Triton?"
                } else {
                    "something listens there: Triton or an OpenAI server?"
                },
            ));
        }
    }
    if gpus.is_empty() {
        lines.push(("regatta bench sim:", "measure a simulated server, in seconds"));
        lines.push(("regatta run quickstart", "a whole pipeline, on the simulator"));
    } else {
        lines.push(("regatta bench --serve vllm MODEL --rate 5", "start vLLM here, measure it, stop it"));
        lines.push(("regatta doctor", "what this machine has, and what it lacks"));
        lines.push(("regatta run quickstart", "a whole pipeline, on the simulator"));
    }
    lines.push(if has_manifests {
        ("regatta list", "the manifests of this folder, and those of the program")
    } else {
        ("regatta init", "begin a project here: a manifest and a .gitignore")
    });
    lines.push(("regatta --help", "all commands"));
    let mut out = format!("Regatta runs reproducible LLM-serving benchmarks. This machine: {machine}.\n\nNext:\n");
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    for (line, what) in lines {
        let _ = writeln!(out, "  {line:width$}   {what}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_with_nothing_starts_with_the_simulator() {
        insta::assert_snapshot!(advice(&[], &[], false), @"
        Regatta runs reproducible LLM-serving benchmarks. This machine: no NVIDIA GPU.

        Next:
          regatta bench sim:       measure a simulated server, in seconds
          regatta run quickstart   a whole pipeline, on the simulator
          regatta init             begin a project here: a manifest and a .gitignore
          regatta --help           all commands
        ");
    }

    #[test]
    fn what_is_there_comes_first() {
        insta::assert_snapshot!(advice(&["NVIDIA H100 80GB HBM3".to_owned()], &[8000], true), @"
        Regatta runs reproducible LLM-serving benchmarks. This machine: one NVIDIA H100 80GB HBM3.

        Next:
          regatta bench http://127.0.0.1:8000 --rate 5 -n 100   something listens there: Triton or an OpenAI server?
          regatta bench --serve vllm MODEL --rate 5             start vLLM here, measure it, stop it
          regatta doctor                                        what this machine has, and what it lacks
          regatta run quickstart                                a whole pipeline, on the simulator
          regatta list                                          the manifests of this folder, and those of the program
          regatta --help                                        all commands
        ");
    }
}
