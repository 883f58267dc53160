//! Programs that tasks start: whether they exist, which version, and what installs them; container programs and their
//! images.

use std::sync::LazyLock;
use std::time::Duration;

use crate::doctor::needs::{ContainerNeed, Needs};
use exec::process::{ProbeOutput, ProbeResult, ProcessCommand, probe};
use report::{DoctorFinding, FindingLevel};
use stages::{engine_problem, image_id};

/// How long a program may take to print its version.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(20);

/// What gets a program onto a machine.
enum InstallSource {
    /// Packages of Debian and of Red Hat.
    Package(&'static str, &'static str),
    Pip(&'static str),
    Words(&'static str),
}

struct Tool {
    name: &'static str,
    /// The argument that makes it print its version, if it can.
    version: Option<&'static str>,
    from: InstallSource,
}

/// A program in each line: its name, the argument that makes it print its version (`-`: it cannot), and how it is
/// installed.
static TOOLS: LazyLock<Vec<Tool>> =
    LazyLock::new(|| include_str!("programs.txt").lines().filter_map(Tool::parse).collect());

impl Tool {
    fn parse(line: &'static str) -> Option<Self> {
        let [name, version, kind, text] = line.splitn(4, ' ').collect::<Vec<_>>().try_into().ok()?;
        let from = match kind {
            "package" => text.split_once(' ').map(|(debian, red_hat)| InstallSource::Package(debian, red_hat))?,
            "pip" => InstallSource::Pip(text),
            _ => InstallSource::Words(text),
        };
        Some(Self { name, version: Some(version).filter(|word| *word != "-"), from })
    }
}

/// The programs to check without a manifest.
pub const USUAL: [&str; 8] = ["git", "git-lfs", "cmake", "g++", "python3", "mpirun", "srun", "tritonserver"];

pub fn is_known(program: &str) -> bool {
    TOOLS.iter().any(|tool| tool.name == program)
}

/// Whether a program is installed. Where tasks need it, its absence is a finding; otherwise it is only information.
pub fn find(program: &str, by: &[String], os: &str) -> DoctorFinding {
    let is_there = ProcessCommand::new([program], "/", "/dev/null").is_found();
    let tool = TOOLS.iter().find(|tool| tool.name == program.rsplit('/').next().unwrap_or(program));
    let state =
        if is_there { version(program, tool).unwrap_or_else(|| "there".to_owned()) } else { "not found".to_owned() };
    DoctorFinding::fact(program, state).needed("called", by, FindingLevel::of(is_there)).fix(fix(tool, os))
}

/// The version of the program at `path`, queried in the way that the tool `name` has.
pub fn version_of(path: &str, name: &str) -> Option<String> {
    version(path, TOOLS.iter().find(|tool| tool.name == name))
}

fn version(program: &str, known: Option<&Tool>) -> Option<String> {
    let word = known?.version?;
    let ProbeResult::Answered(ProbeOutput { out, err, .. }) = probe([program, word], PROGRAM_TIMEOUT) else {
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

const CONTAINER_TIMEOUT: Duration = Duration::from_secs(30);
const TOOLKIT: &str = "install nvidia-container-toolkit";

/// Lines on every container program that is needed; on docker and podman as facts if none is.
pub fn container_findings(needs: &Needs, os: &str) -> Vec<DoctorFinding> {
    if needs.containers.is_empty() {
        return ["docker", "podman", "enroot", "apptainer"].iter().map(|word| find(word, &[], os)).collect();
    }
    needs.containers.iter().flat_map(|(program, contained)| one(program, contained, os)).collect()
}

fn one(program: &str, contained: &ContainerNeed, os: &str) -> Vec<DoctorFinding> {
    let answers = match contained.engine.as_str() {
        "docker" => Some([program, "version", "--format", "{{.Server.Version}}"]),
        "podman" => Some([program, "info", "--format", "{{.Version.Version}}, {{.Host.OCIRuntime.Name}}"]),
        _ => None,
    };
    let Some(question) = answers else {
        let mut findings = vec![find(program, &contained.by, os)];
        findings.extend(hook(contained));
        return findings;
    };
    let (found, fix) = match probe(question, CONTAINER_TIMEOUT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => (out.trim().to_owned(), None),
        ProbeResult::Missing => return vec![find(program, &contained.by, os)],
        ProbeResult::Answered(ProbeOutput { err, .. }) => match engine_problem(program, &err) {
            Some((what, fix)) => (what, Some(fix.to_owned())),
            None => (err.trim().lines().last().unwrap_or("no answer").to_owned(), Some(format!("{program} info"))),
        },
        ProbeResult::TimedOut => {
            (format!("no answer in {} s", CONTAINER_TIMEOUT.as_secs()), Some(format!("{program} info")))
        }
        ProbeResult::Failed(why) => (why, Some(format!("{program} info"))),
    };
    let works = fix.is_none();
    let first = DoctorFinding::fact(program, found).needed("to answer", &contained.by, FindingLevel::of(works));
    let mut findings = vec![first.fix(fix.unwrap_or_default())];
    if works {
        findings.extend(hook(contained));
        findings.extend(contained.images.iter().map(|(image, by)| image_of(program, image, by)));
    }
    findings
}

/// How GPUs get into a container of this kind.
fn hook(contained: &ContainerNeed) -> Option<DoctorFinding> {
    if contained.gpus_by.is_empty() {
        return None;
    }
    let is_found = |word: &str| ProcessCommand::new([word], "/", "/dev/null").is_found();
    let (is_there, found, fix) = match contained.engine.as_str() {
        "docker" => {
            let is_there = is_found("nvidia-container-runtime-hook") || is_found("nvidia-container-runtime");
            let fix = format!(
                "{TOOLKIT}; then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker`"
            );
            (is_there, "nvidia-container-runtime-hook", fix)
        }
        "podman" => {
            let listed =
                probe(["nvidia-ctk", "cdi", "list"], CONTAINER_TIMEOUT).successful_output().unwrap_or_default();
            let fix = format!("{TOOLKIT}; then `sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`");
            (listed.contains("nvidia.com/gpu"), "CDI devices nvidia.com/gpu", fix)
        }
        "enroot" => {
            (is_found("nvidia-container-cli"), "nvidia-container-cli", "install libnvidia-container-tools".to_owned())
        }
        // `--nv` takes the driver's libraries as they are.
        _ => return None,
    };
    let state = if is_there { found.to_owned() } else { format!("no {found}") };
    let about = format!("GPUs in {}", contained.engine);
    Some(DoctorFinding::fact(about, state).needed("a hook", &contained.gpus_by, FindingLevel::of(is_there)).fix(fix))
}

fn image_of(program: &str, image: &str, by: &[String]) -> DoctorFinding {
    let seen = image_id(program, image);
    let image_id = seen.as_ref().map_or("not on this machine", |id| id.get(..19).unwrap_or(id));
    DoctorFinding::fact(image, image_id)
        .needed("the image", by, FindingLevel::of(seen.is_some()))
        .fix(format!("{program} pull {image}"))
}

/// Words before a command that are no command themselves.
const BEFORE: [&str; 14] =
    ["if", "then", "else", "elif", "while", "until", "do", "!", "{", "exec", "time", "sudo", "nohup", "env"];

/// The first words of all commands, in order, each once.
pub fn programs(text: &str) -> Vec<String> {
    let mut programs: Vec<String> = Vec::new();
    let joined = text.replace("\\\n", " ");
    for command in joined.split(['\n', ';', '|', '&', '(', ')', '`']) {
        let mut words = command.split_whitespace().skip_while(|word| BEFORE.contains(word) || is_assignment(word));
        let Some(word) = words.next() else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        if word.chars().all(plain) && !programs.iter().any(|known| known == word) {
            programs.push(word.to_owned());
        }
    }
    programs
}

/// `NAME=value`
fn is_assignment(word: &str) -> bool {
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_installs_a_program_is_the_machines_own_command() {
        assert_eq!(TOOLS.len(), include_str!("programs.txt").lines().count());
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

    #[test]
    fn the_first_word_of_every_command_is_found() {
        let text = "set -e\ncd build && CC=gcc cmake .. \\\n  -G Ninja; if ! nvidia-smi | grep H100; then exec python3 \
            x.py; fi\n\
                    v=$(git describe)\n\"$OUT/tool\" a";
        let names = programs(text);
        for program in ["cmake", "nvidia-smi", "grep", "python3", "git"] {
            assert!(names.iter().any(|one| one == program), "{program} is not in {names:?}");
        }
        assert!(!names.iter().any(|one| one == "Ninja" || one.contains('$')), "{names:?}");
    }
}
