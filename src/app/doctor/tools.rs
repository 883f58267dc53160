//! Programs: whether they exist, which version, and what installs them.

use std::time::Duration;

use exec::process::{ProbeOutput, ProbeResult, ProcessCommand, probe};
use report::{DoctorFinding, FindingLevel};

/// How long a program may take to print its version.
const LIMIT: Duration = Duration::from_secs(20);

/// What gets a program onto a machine.
enum InstallSource {
    /// Packages of Debian and of Red Hat.
    Package(&'static str, &'static str),
    Pip(&'static str),
    Words(&'static str),
}

struct Tool {
    name: &'static str,
    /// Arguments that make it print its version; empty: there are none.
    version: &'static [&'static str],
    from: InstallSource,
}

const VERSION: &[&str] = &["--version"];
const TRITON: &str =
    "run the stage in an image that has it: `container: { image: …/tritonserver:<release>-trtllm-python-py3 }`";

const TOOLS: [Tool; 32] = [
    Tool { name: "git", version: VERSION, from: InstallSource::Package("git", "git") },
    Tool { name: "git-lfs", version: VERSION, from: InstallSource::Package("git-lfs", "git-lfs") },
    Tool { name: "cmake", version: VERSION, from: InstallSource::Package("cmake", "cmake") },
    Tool { name: "ninja", version: VERSION, from: InstallSource::Package("ninja-build", "ninja-build") },
    Tool { name: "make", version: VERSION, from: InstallSource::Package("make", "make") },
    Tool { name: "gcc", version: VERSION, from: InstallSource::Package("gcc", "gcc") },
    Tool { name: "g++", version: VERSION, from: InstallSource::Package("g++", "gcc-c++") },
    Tool { name: "nvcc", version: VERSION, from: InstallSource::Package("nvidia-cuda-toolkit", "cuda-toolkit") },
    Tool {
        name: "nvidia-smi",
        version: &[],
        from: InstallSource::Words("install NVIDIA's driver: Debian `nvidia-driver`, Ubuntu `ubuntu-drivers install`"),
    },
    Tool { name: "python3", version: VERSION, from: InstallSource::Package("python3", "python3") },
    Tool { name: "pip", version: VERSION, from: InstallSource::Package("python3-pip", "python3-pip") },
    Tool { name: "pip3", version: VERSION, from: InstallSource::Package("python3-pip", "python3-pip") },
    Tool { name: "mpirun", version: VERSION, from: InstallSource::Package("openmpi-bin", "openmpi") },
    Tool { name: "srun", version: VERSION, from: InstallSource::Package("slurm-client", "slurm") },
    Tool { name: "sbatch", version: VERSION, from: InstallSource::Package("slurm-client", "slurm") },
    Tool { name: "docker", version: VERSION, from: InstallSource::Package("docker.io", "docker-ce") },
    Tool { name: "podman", version: VERSION, from: InstallSource::Package("podman", "podman") },
    Tool {
        name: "enroot",
        version: &["version"],
        from: InstallSource::Words("install enroot's package from its releases"),
    },
    Tool {
        name: "apptainer",
        version: VERSION,
        from: InstallSource::Words("install apptainer's package from its releases"),
    },
    Tool { name: "tritonserver", version: &[], from: InstallSource::Words(TRITON) },
    Tool { name: "trtllm-build", version: &[], from: InstallSource::Pip("tensorrt-llm") },
    Tool { name: "trtllm-serve", version: &[], from: InstallSource::Pip("tensorrt-llm") },
    Tool { name: "trtllm-bench", version: &[], from: InstallSource::Pip("tensorrt-llm") },
    Tool { name: "trtllm-llmapi-launch", version: &[], from: InstallSource::Pip("tensorrt-llm") },
    Tool { name: "vllm", version: &[], from: InstallSource::Pip("vllm") },
    Tool { name: "hf", version: &["version"], from: InstallSource::Pip("huggingface_hub") },
    Tool { name: "huggingface-cli", version: &["version"], from: InstallSource::Pip("huggingface_hub") },
    Tool { name: "curl", version: VERSION, from: InstallSource::Package("curl", "curl") },
    Tool { name: "wget", version: VERSION, from: InstallSource::Package("wget", "wget") },
    Tool { name: "jq", version: VERSION, from: InstallSource::Package("jq", "jq") },
    Tool { name: "numactl", version: &[], from: InstallSource::Package("numactl", "numactl") },
    Tool { name: "ssh", version: &["-V"], from: InstallSource::Package("openssh-client", "openssh-clients") },
];

/// The programs to check when there is no manifest.
pub const USUAL: [&str; 8] = ["git", "git-lfs", "cmake", "g++", "python3", "mpirun", "srun", "tritonserver"];

pub fn is_known(program: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == program)
}

/// Whether a program is installed. Where tasks need it, its absence is a finding; otherwise it is only information.
pub fn find(program: &str, by: &[String], os: &str) -> DoctorFinding {
    let is_there = ProcessCommand::new([program], "/", "/dev/null").is_found();
    let known = TOOLS.iter().find(|tool| tool.name == program.rsplit('/').next().unwrap_or(program));
    let found =
        if is_there { version(program, known).unwrap_or_else(|| "there".to_owned()) } else { "not found".to_owned() };
    let finding = DoctorFinding::fact(program, found);
    if by.is_empty() {
        return finding;
    }
    finding.needed("called", by, FindingLevel::of(is_there)).fix(fix(known, os))
}

/// The version of the program at `path`, queried in the way that the tool `name` has.
pub fn version_of(path: &str, name: &str) -> Option<String> {
    version(path, TOOLS.iter().find(|tool| tool.name == name))
}

fn version(program: &str, known: Option<&Tool>) -> Option<String> {
    let words = known?.version;
    if words.is_empty() {
        return None;
    }
    let ProbeResult::Answered(ProbeOutput { out, err, .. }) = probe(std::iter::once(&program).chain(words), LIMIT)
    else {
        return None;
    };
    let line = out.lines().chain(err.lines()).find(|line| line.bytes().any(|byte| byte.is_ascii_digit()))?;
    Some(line.trim().chars().take(60).collect())
}

fn fix(known: Option<&Tool>, os: &str) -> String {
    match known.map(|tool| &tool.from) {
        Some(InstallSource::Package(debian, red_hat)) => install(debian, red_hat, os),
        Some(InstallSource::Pip(package)) => {
            format!("pip install {package}; or run the stage in a `container` that has it")
        }
        Some(InstallSource::Words(words)) => (*words).to_owned(),
        None => "install it, or put its folder into PATH".to_owned(),
    }
}

/// The command of the machine's package manager. `os` is the `ID` and the `ID_LIKE` of os-release(5).
pub fn install(debian: &str, red_hat: &str, os: &str) -> String {
    if os.contains("debian") || os.contains("ubuntu") {
        format!("sudo apt-get install {debian}")
    } else if os.contains("rhel") || os.contains("fedora") || os.contains("centos") {
        format!("sudo dnf install {red_hat}")
    } else {
        format!("install {debian}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installs_a_program_is_the_machines_own_command() {
        let tool = |name: &str| TOOLS.iter().find(|tool| tool.name == name);
        assert_eq!(fix(tool("mpirun"), "debian"), "sudo apt-get install openmpi-bin");
        assert_eq!(fix(tool("g++"), "rocky rhel centos fedora"), "sudo dnf install gcc-c++");
        assert!(fix(tool("tritonserver"), "").contains("container:"));
        assert!(is_known("trtllm-build") && !is_known("echo"));
    }

    #[test]
    fn an_unneeded_program_is_a_fact() {
        let finding = find("no-such-program-here", &[], "");
        assert_eq!((finding.level, finding.fix), (FindingLevel::Fact, None));
        let finding = find("no-such-program-here", &["build".to_owned()], "");
        assert_eq!(finding.level, FindingLevel::Missing);
    }
}
