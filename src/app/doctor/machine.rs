//! What this machine has: GPUs, driver and CUDA, memory, disk and limits; and the facts of it that records and lock
//! files name.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};

use crate::doctor::needs::Needs;
use crate::doctor::programs;
use base::diag::ErrorText;
use base::files::{cores, metadata_if_there, read_bytes, read_text};
use base::units;
use exec::process::{ProbeOutput, ProbeResult, probe};
use report::{DoctorFinding, FindingLevel};
use stages::weights_size;

/// How long Python may take to look into the list of what is installed.
const VERSION_TIMEOUT: Duration = Duration::from_secs(20);
/// Programs of TensorRT-LLM's package: they are scripts of the Python that has it.
const OF_TRTLLM: [&str; 4] = ["trtllm-build", "trtllm-serve", "trtllm-bench", "trtllm-llmapi-launch"];

/// Name → the version that the program, or a file next to it, reports. Programs without a version are left out.
pub fn versions(needs: &Needs, project: &Path) -> BTreeMap<String, String> {
    let programs = needs.programs.keys().chain(needs.containers.keys());
    programs.filter_map(|program| Some((name(program).to_owned(), version(program, project)?))).collect()
}

/// `arch`; where GPUs are leased here also `GPUs`, `driver` and `CUDA`.
pub fn machine(needs: &Needs) -> BTreeMap<String, String> {
    let mut properties = BTreeMap::from([("arch".to_owned(), std::env::consts::ARCH.to_owned())]);
    if needs.gpus > 0 {
        properties.extend(facts());
    }
    properties
}

fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn version(program: &str, project: &Path) -> Option<String> {
    let path = found(program, project)?;
    if OF_TRTLLM.contains(&name(program)) {
        return of_package(&path, "tensorrt_llm");
    }
    if name(program) == "vllm" {
        return of_package(&path, "vllm");
    }
    if name(program) == "tritonserver" {
        // bin/tritonserver, and beside bin its version.
        let folder = fs::canonicalize(&path).ok()?.parent()?.parent()?.to_owned();
        let text = read_text(folder.join("TRITON_VERSION")).ok()?;
        return Some(text.trim().to_owned());
    }
    let line = programs::version_of(&path.display().to_string(), name(program))?;
    // `pip 24.0 from /usr/lib/…`: the path is specific to the machine.
    let words = line.split_whitespace().take_while(|word| !word.starts_with('/')).collect::<Vec<_>>().join(" ");
    Some(words.trim_end_matches(" from").to_owned())
}

/// The path of a program by its name.
fn found(program: &str, project: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(project.join(program)).filter(|path| path.is_file());
    }
    which::which(program).ok()
}

/// The version of the package, of the Python that a script names in its first line. The package is not imported.
fn of_package(script: &Path, package: &str) -> Option<String> {
    let text = read_bytes(script).ok()?;
    let first = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(first).ok()?.strip_prefix("#!")?.trim();
    let python: Vec<&str> = line.split_whitespace().collect();
    python.last()?.contains("python").then(|| installed(&python, package)).flatten()
}

/// The version of the package behind a program: a Python that runs a module, or a script of it.
pub fn package_version(program: &[String], package: &str, project: &Path) -> Option<String> {
    let path = found(program.first()?, project)?;
    if name(&path.to_string_lossy()).starts_with("python") {
        return installed(&[&path.to_string_lossy()], package);
    }
    of_package(&path, package)
}

fn installed(python: &[&str], package: &str) -> Option<String> {
    let script = format!("import importlib.metadata as m; print(m.version('{package}'))");
    let output = probe(python.iter().copied().chain(["-c", &script]), VERSION_TIMEOUT).successful_output()?;
    Some(output.trim().to_owned()).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

/// A machine that starts its driver for the query takes several seconds for each GPU.
const NVIDIA_SMI_TIMEOUT: Duration = Duration::from_mins(1);
const QUERY: &str = "--query-gpu=index,name,memory.total,driver_version,compute_cap";
/// A data sheet's 141 GB are 143771 MiB here, and 80 GB are 81559 MiB.
const MIB: u64 = 1 << 20;
/// The oldest driver that NVIDIA's own harness takes.
const OLDEST: u32 = 515;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Gpus {
    list: Vec<Gpu>,
    driver: Option<String>,
    cuda: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gpu {
    name: String,
    memory: u64,
    compute: String,
}

/// Lines on GPUs, driver and CUDA.
pub fn gpu_findings(needs: &Needs) -> Vec<DoctorFinding> {
    let (gpus, fault) = query_gpus();
    findings(&gpus, fault, needs)
}

/// `GPUs`, `driver` and `CUDA`, as far as they are known.
pub fn facts() -> Vec<(String, String)> {
    let (gpus, _) = query_gpus();
    let list = Some(summary(&gpus.list)).filter(|_| !gpus.list.is_empty());
    let rows = [("GPUs", list), ("driver", gpus.driver), ("CUDA", gpus.cuda)];
    rows.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The names of the machine's GPUs, as `nvidia-smi` prints them; none where it does not answer.
pub fn names() -> Vec<String> {
    query_gpus().0.list.into_iter().map(|gpu| gpu.name).collect()
}

/// What `nvidia-smi` prints. `None`: this machine has no such program.
///
/// # Errors
/// It cannot ask the driver, or does not answer.
pub fn nvidia_smi(query: &str, format: &str) -> Result<Option<String>, ErrorText> {
    let failed = |reason: &str| Err(ErrorText::new(format_args!("nvidia-smi: {reason}")));
    match probe(["nvidia-smi", query, format], NVIDIA_SMI_TIMEOUT) {
        ProbeResult::Missing => Ok(None),
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => Ok(Some(out)),
        ProbeResult::Answered(ProbeOutput { out, err, .. }) => {
            let text = out.lines().chain(err.lines()).find(|line| !line.trim().is_empty());
            failed(text.unwrap_or("no answer").trim())
        }
        ProbeResult::TimedOut => {
            let seconds = NVIDIA_SMI_TIMEOUT.as_secs();
            Err(ErrorText::new(format_args!("nvidia-smi has not answered for {seconds} s")))
        }
        ProbeResult::Failed(reason) => failed(&reason),
    }
}

/// What there is, or why that is not known.
fn query_gpus() -> (Gpus, Option<String>) {
    let (gpus, fault) = match nvidia_smi(QUERY, "--format=csv,noheader,nounits") {
        Ok(Some(text)) => (read(&text), None),
        Ok(None) => (Gpus::default(), Some("no nvidia-smi".to_owned())),
        Err(problem) => (Gpus::default(), Some(problem.to_string())),
    };
    let cuda = gpus.driver.as_ref().and_then(|_| cuda(&probe(["nvidia-smi"], NVIDIA_SMI_TIMEOUT).successful_output()?));
    (Gpus { cuda, ..gpus }, fault)
}

fn findings(gpus: &Gpus, fault: Option<String>, needs: &Needs) -> Vec<DoctorFinding> {
    let count = gpus.list.len() as u32;
    let listed = fault.unwrap_or_else(|| summary(&gpus.list));
    let mut first = DoctorFinding::fact("GPUs", listed);
    if needs.gpus > 0 {
        let memory = needs.gpu_memory.as_ref();
        let needed = match memory {
            Some((gigabytes, system)) => format!("{} with {gigabytes} GB ({system})", needs.gpus),
            None => needs.gpus.to_string(),
        };
        let least = gpus.list.iter().map(|gpu| gpu.memory).min().unwrap_or(0);
        // A tenth is less than the distance between two kinds of GPU, and more than what ECC and the driver keep.
        let is_small = memory.is_some_and(|(gigabytes, _)| (least as f64) < 0.9 * gigabytes * 1e9);
        let level = match count < needs.gpus {
            true => FindingLevel::Missing,
            false if is_small => FindingLevel::Doubtful,
            false => FindingLevel::Good,
        };
        let fix = if count == 0 {
            "install NVIDIA's driver (Debian `sudo apt-get install nvidia-driver`, Ubuntu `sudo ubuntu-drivers \
             install`), or choose a simulated system: `system=sim-…`"
        } else if level == FindingLevel::Missing {
            "choose a smaller system, or fewer tensor × pipeline ranks"
        } else {
            "the manifest's numbers are for other GPUs: choose the system that matches this machine"
        };
        first = first.needed(needed, &needs.gpus_by, level).fix(fix);
    }
    let mut findings = vec![first];
    findings.extend(weights(gpus, needs));
    if let Some(driver) = &gpus.driver {
        let major = driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let mut finding = DoctorFinding::fact("driver", driver.clone());
        if needs.gpus > 0 {
            let level = FindingLevel::of(major.is_none_or(|major| major >= OLDEST));
            finding = finding
                .needed(format!("{OLDEST} or newer"), &needs.gpus_by, level)
                .fix("install a newer NVIDIA driver");
        }
        findings.push(finding);
    }
    if let Some(cuda) = &gpus.cuda {
        findings.push(DoctorFinding::fact("CUDA", format!("up to {cuda} with this driver")));
    }
    findings
}

/// Whether the weights of each engine fit on each of its GPUs; what is left is for activations and the KV cache.
fn weights(gpus: &Gpus, needs: &Needs) -> Option<DoctorFinding> {
    let least = gpus.list.iter().map(|gpu| gpu.memory).min()?;
    let most = needs.gpu_weights.iter().map(|(_, bytes)| *bytes).max()?;
    let by: Vec<String> =
        needs.gpu_weights.iter().filter(|(_, bytes)| *bytes == most).map(|(task, _)| task.clone()).collect();
    // The driver and the CUDA context need memory, too.
    let level = match most as f64 / least as f64 {
        share if share > 0.95 => FindingLevel::Missing,
        share if share > 0.85 => FindingLevel::Doubtful,
        _ => FindingLevel::Good,
    };
    let finding = DoctorFinding::fact("GPU memory", format!("{} on the smallest", units::size(least)));
    Some(
        finding
            .needed(format!("{} of weights on each", units::size(most)), &by, level)
            .fix("more tensor or pipeline parallelism, or a smaller `precision`"),
    )
}

/// `4 × NVIDIA H200, 151 GB, compute 9.0`; kinds in the order in which they come.
fn summary(list: &[Gpu]) -> String {
    let mut kinds: Vec<(&Gpu, usize)> = Vec::new();
    for gpu in list {
        match kinds.iter_mut().find(|(kind, _)| *kind == gpu) {
            Some((_, count)) => *count += 1,
            None => kinds.push((gpu, 1)),
        }
    }
    if kinds.is_empty() {
        return "none".to_owned();
    }
    let kind = |(gpu, count): &(&Gpu, usize)| {
        format!("{count} × {}, {}, compute {}", gpu.name, units::size(gpu.memory), gpu.compute)
    };
    kinds.iter().map(kind).collect::<Vec<_>>().join("; ")
}

/// `0, NVIDIA H200, 143771, 570.86.15, 9.0`
fn read(out: &str) -> Gpus {
    let mut gpus = Gpus::default();
    for line in out.lines() {
        let fields: Vec<&str> = line.split(", ").map(str::trim).collect();
        let [_, name, memory, driver, compute] = fields[..] else { continue };
        gpus.driver.get_or_insert_with(|| driver.to_owned());
        let memory = memory.parse::<u64>().unwrap_or(0) * MIB;
        gpus.list.push(Gpu { name: name.to_owned(), memory, compute: compute.to_owned() });
    }
    gpus
}

/// From the head of its table: `CUDA Version: 12.8`.
fn cuda(table: &str) -> Option<String> {
    let (_, rest) = table.split_once("CUDA Version:")?;
    rest.split_whitespace()
        .next()
        .filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

/// Python models of Triton take a megabyte each, NCCL some tens of megabytes for each rank.
const SHARED: u64 = 1_000_000_000;
/// Connections, files and pipes of a load generator at full speed.
const FILES: u64 = 4096;

/// Lines on memory, disk and limits. `folder` is where outputs go, or the nearest folder above it that is there.
pub fn limit_findings(needs: &Needs, folder: &Path) -> Vec<DoctorFinding> {
    let mut findings = vec![DoctorFinding::fact("memory", memory())];
    findings.push(disk(needs, folder));
    findings.push(shared(needs));
    findings.push(pinned(needs));
    findings.push(files(needs));
    findings
}

fn memory() -> String {
    let cores = cores();
    let total = read_text("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let total = total.map_or_else(|| "?".to_owned(), |kib| units::size(kib * 1024));
    format!("{total}, {cores} cores")
}

fn disk(needs: &Needs, folder: &Path) -> DoctorFinding {
    // The folder above one that cannot be looked at may be on another disk.
    let there = folder.ancestors().find(|folder| !matches!(metadata_if_there(folder), Ok(None))).unwrap_or(folder);
    let free = free(there);
    let free_space = free.map_or_else(|| "cannot be read".to_owned(), |free| format!("{} free", units::size(free)));
    let finding = DoctorFinding::fact("disk", free_space);
    let wanted: u64 = needs.disk.iter().map(|(_, bytes)| bytes).sum();
    let by: Vec<String> = needs.disk.iter().map(|(how, _)| how.clone()).collect();
    let contents = match needs.weights.len() {
        0 => "engines",
        n if n == needs.disk.len() => "weights",
        _ => "engines and weights",
    };
    let level = FindingLevel::of(free.is_none_or(|free| free >= wanted));
    finding
        .needed(format!("{} for {contents}, at most", units::size(wanted)), &by, level)
        .fix("regatta gc --yes; or `--home DIR` on a larger disk")
}

fn shared(needs: &Needs) -> DoctorFinding {
    let path = Path::new("/dev/shm");
    let free = free(path).unwrap_or(0);
    let finding = DoctorFinding::fact("/dev/shm", format!("{} free", units::size(free)));
    let level = if free >= SHARED { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding
        .needed(format!("{} for Python models and NCCL", units::size(SHARED)), &needs.shared_memory, level)
        .fix("sudo mount -o remount,size=2G /dev/shm; in a container `--shm-size=2g`")
}

fn pinned(needs: &Needs) -> DoctorFinding {
    let limit = getrlimit(Resource::Memlock).current;
    let finding = DoctorFinding::fact("ulimit -l", limit.map_or_else(|| "unlimited".to_owned(), units::size));
    let level = if limit.is_none() { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding
        .needed("unlimited, for several GPUs", &needs.pinned, level)
        .fix("`ulimit -l unlimited`; to keep it, add `* - memlock unlimited` to /etc/security/limits.conf")
}

fn files(needs: &Needs) -> DoctorFinding {
    let limit = getrlimit(Resource::Nofile).current;
    let finding =
        DoctorFinding::fact("ulimit -n", limit.map_or_else(|| "unlimited".to_owned(), |limit| limit.to_string()));
    let level = if limit.is_none_or(|limit| limit >= FILES) { FindingLevel::Good } else { FindingLevel::Doubtful };
    finding.needed(format!("{FILES}, for many connections"), &needs.benchmarks, level).fix("ulimit -n 65536")
}

/// Bytes that this process may still write.
fn free(folder: &Path) -> Option<u64> {
    rustix::fs::statvfs(folder).ok().map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// How long a hub may take for its index.
const HUB_TIMEOUT: Duration = Duration::from_secs(10);

/// Queries the hub for the size of each checkpoint that is not here yet, and adds that to the disk that is needed;
/// `latest` has the outputs that are here. Returns a finding for each checkpoint of unknown size.
pub fn sized(needs: &mut Needs, latest: &Path) -> Vec<DoctorFinding> {
    let mut unknown = Vec::new();
    let mut counted = Vec::new();
    for (task, weights) in std::mem::take(&mut needs.weights) {
        if latest.join(&task).join("weights.json").is_file() {
            continue;
        }
        let name = weights.hf.clone().unwrap_or_default();
        match weights_size(&weights, HUB_TIMEOUT) {
            Ok(Some(size)) => {
                needs.disk.push((format!("{task}: {name}, {}", units::size(size)), size));
                counted.push((task, weights));
            }
            Ok(None) => {}
            Err(failure) => {
                let finding = DoctorFinding::fact(name, "size not known")
                    .needed("room on the disk", &[task], FindingLevel::Doubtful)
                    .fix(format!(
                        "{}{}",
                        failure.what,
                        failure.hint.map_or_else(String::new, |hint| format!("; {hint}"))
                    ));
                unknown.push(finding);
            }
        }
    }
    needs.weights = counted;
    unknown
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_tell_their_versions_in_the_way_each_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        script(&at("tools/cmake"), "#!/bin/sh\necho 'cmake version 3.30.1 from /opt/cmake'\n");
        script(&at("triton/bin/tritonserver"), "");
        fs::write(at("triton/TRITON_VERSION"), "2.51.0\n").unwrap();
        script(&at("python3.12"), "#!/bin/sh\ncase \"$2\" in *importlib*) echo 0.21.0;; esac\n");
        let python = at("python3.12");
        script(&at("venv/trtllm-build"), &format!("#!{}\nimport sys\n", python.display()));
        script(&at("venv/trtllm-serve"), "#!/bin/sh\n");
        let programs = ["tools/cmake", "triton/bin/tritonserver", "venv/trtllm-build", "venv/trtllm-serve", "no/git"];
        let programs = programs.map(|name| (name.to_owned(), vec!["t".to_owned()]));
        let needs = Needs { programs: programs.into_iter().collect(), ..Needs::default() };
        let expected = [("cmake", "cmake version 3.30.1"), ("tritonserver", "2.51.0"), ("trtllm-build", "0.21.0")];
        let expected: BTreeMap<String, String> =
            expected.into_iter().map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
        assert_eq!(versions(&needs, folder.path()), expected);
    }

    const TWO: &str = "0, NVIDIA H200, 143771, 570.86.15, 9.0\n1, NVIDIA H200, 143771, 570.86.15, 9.0\n";

    fn wants(gpus: u32, memory: f64) -> Needs {
        Needs {
            gpus,
            gpus_by: vec!["serve".to_owned()],
            gpu_memory: Some((memory, "H200-SXM-141GBx8".to_owned())),
            ..Needs::default()
        }
    }

    #[test]
    fn nvidia_smi_output_is_parsed() {
        let gpus = read(TWO);
        assert_eq!(summary(&gpus.list), "2 × NVIDIA H200, 151 GB, compute 9.0");
        assert_eq!(
            cuda("| NVIDIA-SMI 570.86  Driver Version: 570.86.15  CUDA Version: 12.8 |").as_deref(),
            Some("12.8")
        );
        assert_eq!(cuda("CUDA Version: N/A"), None);
        let doctor_findings = findings(&gpus, None, &wants(2, 141.0));
        assert_eq!((doctor_findings[0].level, doctor_findings[1].level), (FindingLevel::Good, FindingLevel::Good));
    }

    #[test]
    fn too_few_are_missing_and_too_small_ones_are_doubtful() {
        let gpus = read(TWO);
        assert_eq!(findings(&gpus, None, &wants(8, 141.0))[0].level, FindingLevel::Missing);
        let small = findings(&gpus, None, &wants(2, 192.0));
        assert_eq!(small[0].level, FindingLevel::Doubtful);
        assert!(small[0].fix.as_ref().unwrap().contains("choose the system"));
        let none = findings(&Gpus::default(), Some("no nvidia-smi".to_owned()), &wants(1, 80.0));
        assert!(none[0].level == FindingLevel::Missing && none[0].fix.as_ref().unwrap().contains("sim-"));
        let old = Gpus { driver: Some("470.1".to_owned()), ..gpus };
        assert_eq!(findings(&old, None, &wants(1, 80.0))[1].level, FindingLevel::Missing);
    }
}
