//! Likely causes: what the last lines of a log usually mean.

use super::command::How;

/// What a message in a log usually means, and what to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Diagnosis {
    pub cause: &'static str,
    pub hint: &'static str,
}

/// How a row of the table is recognised.
enum Sign {
    /// Any of these texts in the last lines, lower case.
    Text(&'static [&'static str]),
    Code(i32),
    Signal(i32),
}

/// From the special to the general: the first match counts.
const TABLE: &[(Sign, Diagnosis)] = &[
    (
        Sign::Text(&[
            "cuda out of memory",
            "cudaerrormemoryallocation",
            "cuda error: out of memory",
            "cuda runtime error: out of memory",
            "outofmemoryerror",
            "failed to allocate device memory",
            "out of memory in function allocate",
        ]),
        Diagnosis {
            cause: "the GPU has too little memory for this",
            hint: "lower max_batch_size, max_num_tokens or kvcache_free_gpu_mem_frac, raise tensor_parallelism, or look at `nvidia-smi` for another process on the GPU",
        },
    ),
    (
        Sign::Text(&["no space left on device", "disk quota exceeded"]),
        Diagnosis {
            cause: "the disk is full",
            hint: "free some space (`regatta clean` removes what no run needs) and run again",
        },
    ),
    (
        Sign::Text(&["address already in use", "unavailable socket", "failed to bind"]),
        Diagnosis {
            cause: "another program listens on that port",
            hint: "`ss -ltnp` names it; end it or choose another port",
        },
    ),
    (
        Sign::Text(&["could not resolve host", "name or service not known", "temporary failure in name resolution"]),
        Diagnosis {
            cause: "a host name could not be resolved",
            hint: "look at the network, the proxy variables and the spelling of the host",
        },
    ),
    (
        Sign::Text(&[
            "could not read username",
            "authentication failed",
            "permission denied (publickey",
            "could not read password",
            "terminal prompts disabled",
        ]),
        Diagnosis {
            cause: "the git server wants credentials",
            hint: "set up a credential helper or an ssh key for this user; nothing is asked for while a run goes on",
        },
    ),
    (
        Sign::Text(&["connection refused", "connection timed out", "network is unreachable"]),
        Diagnosis {
            cause: "the other side cannot be reached",
            hint: "is the server up, and is there a network path to it?",
        },
    ),
    (
        Sign::Text(&["error while loading shared libraries", "cannot open shared object file", "undefined symbol:"]),
        Diagnosis {
            cause: "a shared library is missing or of another version",
            hint: "run inside the container that has it, or add its folder to LD_LIBRARY_PATH under `env:`",
        },
    ),
    (
        Sign::Text(&[
            "mpirun: not found",
            "mpirun: command not found",
            "mpiexec: not found",
            "there are not enough slots available",
            "mpirun was unable to",
            "orte_init failed",
            "pmix",
        ]),
        Diagnosis {
            cause: "MPI is missing or could not start its processes",
            hint: "`mpirun -n 2 hostname` must work on this machine; as root it needs --allow-run-as-root",
        },
    ),
    (
        Sign::Text(&["modulenotfounderror", "no module named", "importerror"]),
        Diagnosis {
            cause: "a Python module is missing",
            hint: "install it in the environment that the stage uses, or run inside the container that has it",
        },
    ),
    (
        Sign::Text(&[
            "driver version is insufficient",
            "no cuda-capable device",
            "cuda driver version",
            "nvidia-smi has failed",
        ]),
        Diagnosis {
            cause: "there is no usable NVIDIA driver or GPU",
            hint: "`nvidia-smi` must work here; in a container it needs `--gpus`",
        },
    ),
    (
        Sign::Code(127),
        Diagnosis {
            cause: "a command was not found",
            hint: "is it installed, and is its folder in PATH? A script of yours must be declared under `inputs:` and called by `{{ inputs.NAME }}`",
        },
    ),
    (
        Sign::Code(126),
        Diagnosis { cause: "a file is not executable", hint: "`chmod +x` it, or call it through its interpreter" },
    ),
    (
        Sign::Text(&["permission denied", "operation not permitted"]),
        Diagnosis {
            cause: "something is not allowed for this user",
            hint: "look at the owner and the mode of the file that is named above",
        },
    ),
    (
        Sign::Text(&[
            "no such file or directory",
            "can't open",
            "cannot access",
            "filenotfounderror",
            "does not exist",
        ]),
        Diagnosis {
            cause: "a file is not there",
            hint: "declare it under `inputs:` and use `{{ inputs.NAME }}`: the stage runs in its own empty folder",
        },
    ),
    (
        Sign::Text(&["killed", "out of memory"]),
        Diagnosis {
            cause: "the machine has too little memory for this",
            hint: "`dmesg` names whom the kernel killed; lower `-j`, or the size of the job",
        },
    ),
    (
        Sign::Signal(9),
        Diagnosis {
            cause: "somebody killed it, most often the kernel for want of memory",
            hint: "`dmesg` names whom the kernel killed; lower `-j`, or the size of the job",
        },
    ),
    (
        Sign::Signal(11),
        Diagnosis {
            cause: "it crashed (segmentation fault)",
            hint: "often a library of another version, or a GPU architecture that the binary was not built for",
        },
    ),
    (Sign::Signal(6), Diagnosis { cause: "it gave up by itself (abort)", hint: "its last lines say why" }),
];

/// The likely cause of an end, from how it ended and its last lines. `None` for a success and for what nobody knows.
pub fn diagnose(tail: &[String], how: How) -> Option<Diagnosis> {
    if matches!(how, How::Code(0) | How::Stopped) {
        return None;
    }
    let text = tail.join("\n").to_lowercase();
    TABLE.iter().find_map(|(sign, diagnosis)| {
        let applies = match sign {
            Sign::Text(texts) => texts.iter().any(|&sign| text.contains(sign)),
            Sign::Code(code) => how == How::Code(*code),
            Sign::Signal(signal) => how == How::Signal(*signal),
        };
        applies.then_some(*diagnosis)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(line: &str, how: How) -> Option<&'static str> {
        diagnose(&[line.to_owned()], how).map(|diagnosis| diagnosis.cause)
    }

    #[test]
    fn the_special_goes_before_the_general() {
        assert_eq!(
            cause("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", How::Code(1)),
            Some("the GPU has too little memory for this")
        );
        assert_eq!(
            cause("git@host: Permission denied (publickey).", How::Code(128)),
            Some("the git server wants credentials")
        );
        assert_eq!(cause("sh: 1: foo: not found", How::Code(127)), Some("a command was not found"));
        assert_eq!(cause("cat: data.txt: No such file or directory", How::Code(1)), Some("a file is not there"));
    }

    #[test]
    fn a_stop_that_was_asked_for_needs_no_cause() {
        assert_eq!(cause("Permission denied", How::Stopped), None);
        assert_eq!(cause("anything", How::Code(0)), None);
        assert_eq!(cause("it just failed", How::Code(1)), None);
    }

    #[test]
    fn signs_are_lower_case() {
        for (sign, _) in TABLE {
            if let Sign::Text(texts) = sign {
                for text in *texts {
                    assert_eq!(*text, text.to_lowercase());
                }
            }
        }
    }
}
