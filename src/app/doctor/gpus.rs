//! GPUs, driver and CUDA, as `nvidia-smi` reports them.

use base::units;
use std::time::Duration;

use super::needs::Needs;
use exec::process::{ProbeOutput, ProbeResult, probe};
use report::{DoctorFinding, FindingLevel};

/// A machine that starts its driver for the query takes several seconds for each GPU.
const LIMIT: Duration = Duration::from_mins(1);
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
pub fn examine(needs: &Needs) -> Vec<DoctorFinding> {
    let (gpus, fault) = query_gpus();
    findings(&gpus, fault, needs)
}

/// `GPUs`, `driver` and `CUDA`, as far as they are known.
pub fn facts() -> Vec<(String, String)> {
    let (gpus, _) = query_gpus();
    let list = Some(summary(&gpus.list)).filter(|_| !gpus.list.is_empty());
    let all = [("GPUs", list), ("driver", gpus.driver), ("CUDA", gpus.cuda)];
    all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The names of the machine's GPUs, as `nvidia-smi` prints them; none where it does not answer.
pub fn names() -> Vec<String> {
    query_gpus().0.list.into_iter().map(|gpu| gpu.name).collect()
}

/// What there is, or why that is not known.
fn query_gpus() -> (Gpus, Option<String>) {
    let (gpus, fault) = match probe(["nvidia-smi", QUERY, "--format=csv,noheader,nounits"], LIMIT) {
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => (read(&out), None),
        ProbeResult::Answered(ProbeOutput { out, err, .. }) => {
            let text = out.lines().chain(err.lines()).find(|line| !line.trim().is_empty());
            (Gpus::default(), Some(format!("nvidia-smi: {}", text.unwrap_or("no answer").trim())))
        }
        ProbeResult::Missing => (Gpus::default(), Some("no nvidia-smi".to_owned())),
        ProbeResult::TimedOut => {
            (Gpus::default(), Some(format!("nvidia-smi has not answered for {} s", LIMIT.as_secs())))
        }
        ProbeResult::Failed(why) => (Gpus::default(), Some(format!("nvidia-smi: {why}"))),
    };
    let cuda = gpus.driver.as_ref().and_then(|_| cuda(&probe(["nvidia-smi"], LIMIT).successful_output()?));
    (Gpus { cuda, ..gpus }, fault)
}

fn findings(gpus: &Gpus, fault: Option<String>, needs: &Needs) -> Vec<DoctorFinding> {
    let count = gpus.list.len() as u32;
    let found = fault.unwrap_or_else(|| summary(&gpus.list));
    let mut first = DoctorFinding::fact("GPUs", found);
    if needs.gpus > 0 {
        let memory = needs.gpu_memory.as_ref();
        let what = match memory {
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
            "install NVIDIA's driver (Debian `sudo apt-get install nvidia-driver`, Ubuntu `sudo ubuntu-drivers install`), or choose a simulated system: `system=sim-…`"
        } else if level == FindingLevel::Missing {
            "choose a smaller system, or fewer tensor × pipeline ranks"
        } else {
            "these are not the GPUs that the manifest's numbers are for: choose the system that this machine is"
        };
        first = first.needed(what, &needs.gpus_by, level).fix(fix);
    }
    let mut all = vec![first];
    all.extend(weights(gpus, needs));
    if let Some(driver) = &gpus.driver {
        let major = driver.split('.').next().and_then(|major| major.parse::<u32>().ok());
        let mut finding = DoctorFinding::fact("driver", driver.clone());
        if needs.gpus > 0 {
            let level = FindingLevel::of(major.is_none_or(|major| major >= OLDEST));
            finding = finding
                .needed(format!("{OLDEST} or newer"), &needs.gpus_by, level)
                .fix("install a newer driver of NVIDIA's");
        }
        all.push(finding);
    }
    if let Some(cuda) = &gpus.cuda {
        all.push(DoctorFinding::fact("CUDA", format!("up to {cuda} with this driver")));
    }
    all
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

#[cfg(test)]
mod tests {
    use super::*;

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
