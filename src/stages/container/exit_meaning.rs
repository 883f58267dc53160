//! What the exit code of a container program means: whether it belongs to the command inside, or to the program itself.

use exec::process::ExitKind;

/// Signals as a shell counts them.
const SIGNALLED: i32 = 128;
const LAST_SIGNAL: i32 = 31;

/// Message for the user about the end, where it is not simply the end of the command.
pub struct ExitMeaning {
    pub what: &'static str,
    pub cause: Option<String>,
    pub hint: &'static str,
}

/// docker-run(1), podman-run(1): 125 is its own failure, 126 and 127 the program inside that cannot be started.
pub fn meaning(how: ExitKind, tail: &[String]) -> Option<ExitMeaning> {
    let cause = || tail.last().cloned();
    Some(match how {
        ExitKind::Code(125) if tail.iter().any(|line| no_gpu_hook(line)) => ExitMeaning {
            what: "the container could not be given its GPUs",
            cause: Some("the container program has no hook for NVIDIA's GPUs".to_owned()),
            hint: "install nvidia-container-toolkit; then docker: `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`; podman: `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`",
        },
        ExitKind::Code(125 | 126) if tail.iter().any(|line| line.contains("rlimit")) => ExitMeaning {
            what: "the container could not be given its limits",
            cause: Some("this user may not raise its limits to those of `container.ulimits`".to_owned()),
            hint: "`ulimits: {}` leaves them unchanged, `ulimits: { memlock: 8388608 }` requests less; or raise the limit in /etc/security/limits.conf",
        },
        ExitKind::Code(125) => ExitMeaning {
            what: "the container could not be started",
            cause: cause(),
            hint: "`regatta doctor` checks the container program; try the command above by hand",
        },
        ExitKind::Code(126) => ExitMeaning {
            what: "the program cannot be run in the container",
            cause: cause(),
            hint: "is it executable, and made for this processor?",
        },
        ExitKind::Code(127) => ExitMeaning {
            what: "the program is not in the container",
            cause: cause(),
            hint: "is it in the image? A file of yours must be declared under `inputs:` and called by `{{ inputs.NAME }}`",
        },
        _ => return None,
    })
}

/// The end of the command inside: 137 is a KILL, which most often comes from the kernel when memory runs out.
pub fn inner_exit(how: ExitKind) -> ExitKind {
    match how {
        ExitKind::Code(code) if (SIGNALLED + 1..=SIGNALLED + LAST_SIGNAL).contains(&code) => {
            ExitKind::Signal(code - SIGNALLED)
        }
        how => how,
    }
}

fn no_gpu_hook(line: &str) -> bool {
    ["could not select device driver", "nvidia-container-cli", "unresolvable CDI devices", "nvidia.com/gpu"]
        .iter()
        .any(|sign| line.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(code: i32, line: &str) -> Option<&'static str> {
        meaning(ExitKind::Code(code), &[line.to_owned()]).map(|meaning| meaning.what)
    }

    #[test]
    fn the_programs_own_codes_are_distinguished_from_those_of_the_command() {
        let docker =
            "docker: Error response from daemon: could not select device driver \"\" with capabilities: [[gpu]].";
        assert_eq!(what(125, docker), Some("the container could not be given its GPUs"));
        let podman = "Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=0";
        assert_eq!(what(125, podman), Some("the container could not be given its GPUs"));
        assert_eq!(
            what(125, "Error: statfs /x: no such file or directory"),
            Some("the container could not be started")
        );
        let limit = "Error: runc: … error setting rlimit type 8: operation not permitted: OCI permission denied";
        assert_eq!(what(126, limit), Some("the container could not be given its limits"));
        assert_eq!(what(127, "sh: trtllm-build: not found"), Some("the program is not in the container"));
        assert_eq!(what(1, docker), None, "the command's own");
        assert_eq!(inner_exit(ExitKind::Code(137)), ExitKind::Signal(9));
        assert_eq!(inner_exit(ExitKind::Code(3)), ExitKind::Code(3));
    }
}
