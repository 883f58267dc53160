//! The facts of a Linux machine in `/proc` and `/sys`. No program is started.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::Accelerator;
use base::files::read_text;
use base::units::os_release_field;

/// Facts by the names of the system's JSON. What cannot be read is left out.
pub fn machine(root: &Path, gpus: &[Accelerator]) -> Map<String, Value> {
    let mut facts = Map::new();
    let mut insert = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            facts.insert(name.to_owned(), value);
        }
    };
    let read = |path: &str| read_text(root.join(path)).ok();
    insert("number_of_nodes", Some(1.into()));
    if let Some(text) = read("proc/cpuinfo") {
        let cpu = Processors::parse(&text);
        insert("host_processor_model_name", cpu.model.map(Value::from));
        insert("host_processors_per_node", Some(cpu.sockets.into()));
        insert("host_processor_core_count", Some(cpu.cores_of_one.into()));
    }
    let frequency = read("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    let ghz = frequency.and_then(|text| text.trim().parse::<f64>().ok()).map(|khz| format!("{:.2} GHz", khz / 1e6));
    insert("host_processor_frequency", ghz.map(Value::from));
    insert("host_processor_caches", caches(root).map(Value::from));
    insert("host_memory_capacity", read("proc/meminfo").and_then(|text| memory(&text)).map(Value::from));
    if let Some((capacity, kind)) = storage(root) {
        insert("host_storage_capacity", Some(capacity.into()));
        insert("host_storage_type", Some(kind.into()));
    }
    insert("host_network_card_count", cards(root).map(Value::from));
    insert("operating_system", system(read("etc/os-release"), read("proc/sys/kernel/osrelease")).map(Value::from));
    if let Some(gpu) = gpus.first() {
        insert("accelerators_per_node", Some(gpus.len().into()));
        insert("accelerator_model_name", Some(gpu.name.clone().into()));
        insert("accelerator_memory_capacity", Some(format!("{:.0} GB", gpu.memory_mib as f64 / 1024.0).into()));
        insert("accelerator_host_interconnect", pcie(root).map(Value::from));
    }
    facts
}

struct Processors {
    model: Option<String>,
    sockets: usize,
    cores_of_one: usize,
}

impl Processors {
    fn parse(cpuinfo: &str) -> Self {
        let (mut sockets, mut cores, mut threads) = (BTreeSet::new(), BTreeSet::new(), 0);
        let (mut model, mut socket) = (None, String::new());
        for line in cpuinfo.lines() {
            let Some((name, value)) = line.split_once(':').map(|(name, value)| (name.trim(), value.trim())) else {
                continue;
            };
            match name {
                "processor" => threads += 1,
                "model name" => model = model.or_else(|| Some(value.to_owned())),
                "physical id" => {
                    value.clone_into(&mut socket);
                    sockets.insert(socket.clone());
                }
                "core id" => {
                    cores.insert((socket.clone(), value.to_owned()));
                }
                _ => {}
            }
        }
        // Some architectures do not report sockets and cores.
        let count = sockets.len().max(1);
        let cores = if cores.is_empty() { threads } else { cores.len() };
        Self { model, sockets: count, cores_of_one: cores / count }
    }
}

fn caches(root: &Path) -> Option<String> {
    let folder = root.join("sys/devices/system/cpu/cpu0/cache");
    let mut cache_sizes = Vec::new();
    for index in 0..8 {
        let read = |name: &str| read_text(folder.join(format!("index{index}/{name}"))).ok();
        let (Some(level), Some(kind), Some(size)) = (read("level"), read("type"), read("size")) else { continue };
        let letter = match kind.trim() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        cache_sizes.push(format!("L{}{letter} {}", level.trim(), size.trim()));
    }
    (!cache_sizes.is_empty()).then(|| cache_sizes.join(", "))
}

fn memory(meminfo: &str) -> Option<String> {
    let kib: f64 =
        meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()?;
    Some(format!("{:.0} GB", kib / 1024.0 / 1024.0))
}

/// Real disks: not loops, RAM disks, optical drives or what is made of others.
fn storage(root: &Path) -> Option<(String, String)> {
    let (mut bytes, mut kinds) = (0_u64, BTreeSet::new());
    for item in fs::read_dir(root.join("sys/block")).ok()?.flatten() {
        let name = item.file_name().to_string_lossy().into_owned();
        if ["loop", "ram", "zram", "dm-", "md", "sr", "fd"].iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let read = |file: &str| read_text(item.path().join(file)).ok();
        let sectors: u64 = read("size")?.trim().parse().ok()?;
        bytes += sectors * 512;
        let spins = read("queue/rotational").is_some_and(|text| text.trim() == "1");
        kinds.insert(match (name.starts_with("nvme"), spins) {
            (true, _) => "NVMe SSD",
            (_, true) => "HDD",
            _ => "SSD",
        });
    }
    (bytes > 0).then(|| (format!("{:.1} TB", bytes as f64 / 1e12), kinds.into_iter().collect::<Vec<_>>().join(", ")))
}

/// Network interfaces with a device behind them.
fn cards(root: &Path) -> Option<u64> {
    let items = fs::read_dir(root.join("sys/class/net")).ok()?;
    let count = items.flatten().filter(|item| item.path().join("device").exists()).count() as u64;
    (count > 0).then_some(count)
}

fn system(release: Option<String>, kernel: Option<String>) -> Option<String> {
    let release = release?;
    let name = Some(os_release_field(&release, "PRETTY_NAME")).filter(|name| !name.is_empty())?;
    Some(match kernel {
        Some(kernel) => format!("{name}, Linux {}", kernel.trim()),
        None => name.to_owned(),
    })
}

/// The link of the first NVIDIA device.
fn pcie(root: &Path) -> Option<String> {
    let mut devices: Vec<_> =
        fs::read_dir(root.join("sys/bus/pci/devices")).ok()?.flatten().map(|item| item.path()).collect();
    devices.sort();
    devices.into_iter().find_map(|device| {
        let read = |name: &str| Some(read_text(device.join(name)).ok()?.trim().to_owned());
        let display = read("class")?.starts_with("0x03");
        if read("vendor")? != "0x10de" || !display {
            return None;
        }
        let speed = read("max_link_speed")?;
        let generation = match speed.split_whitespace().next()? {
            "8.0" => "Gen3",
            "16.0" => "Gen4",
            "32.0" => "Gen5",
            "64.0" => "Gen6",
            _ => speed.as_str(),
        };
        Some(format!("PCIe {generation} x{}", read("max_link_width")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpus_of_table;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_machine_tells_what_it_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let thread = |(processor, socket, core): (u32, u32, u32)| {
            format!(
                "processor\t: {processor}\nmodel name\t: Some CPU @ 2 GHz\nphysical id\t: {socket}\ncore id\t\t: \
                 {core}\n"
            )
        };
        let cpuinfo = [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1), (4, 0, 0), (5, 0, 1)].map(thread).join("\n");
        write(root, "proc/cpuinfo", &cpuinfo);
        write(root, "proc/meminfo", "MemTotal:       2113536000 kB\nMemFree: 1 kB\n");
        write(root, "etc/os-release", "NAME=X\nPRETTY_NAME=\"Ubuntu 24.04.2 LTS\"\n");
        write(root, "proc/sys/kernel/osrelease", "6.8.0\n");
        for (index, level, kind, size) in
            [(0, "1", "Data", "48K"), (1, "1", "Instruction", "32K"), (2, "2", "Unified", "2M")]
        {
            let at = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
            write(root, &format!("{at}/level"), level);
            write(root, &format!("{at}/type"), kind);
            write(root, &format!("{at}/size"), size);
        }
        write(root, "sys/block/nvme0n1/size", "7501476528\n");
        write(root, "sys/block/nvme0n1/queue/rotational", "0\n");
        write(root, "sys/block/loop0/size", "100\n");
        write(root, "sys/class/net/eth0/device/vendor", "0x15b3");
        write(root, "sys/class/net/lo/mtu", "65536");
        let gpu = "sys/bus/pci/devices/0000:18:00.0";
        for (name, text) in [
            ("vendor", "0x10de"),
            ("class", "0x030200"),
            ("max_link_speed", "32.0 GT/s PCIe"),
            ("max_link_width", "16"),
        ] {
            write(root, &format!("{gpu}/{name}"), text);
        }
        let gpus = gpus_of_table("NVIDIA H200, 143771, 575.57.08\nNVIDIA H200, 143771, 575.57.08\n");
        assert_eq!(
            Value::Object(machine(root, &gpus)),
            serde_json::json!({
                "number_of_nodes": 1,
                "host_processor_model_name": "Some CPU @ 2 GHz",
                "host_processors_per_node": 2,
                "host_processor_core_count": 2,
                "host_processor_caches": "L1d 48K, L1i 32K, L2 2M",
                "host_memory_capacity": "2016 GB",
                "host_storage_capacity": "3.8 TB",
                "host_storage_type": "NVMe SSD",
                "host_network_card_count": 1,
                "operating_system": "Ubuntu 24.04.2 LTS, Linux 6.8.0",
                "accelerators_per_node": 2,
                "accelerator_model_name": "NVIDIA H200",
                "accelerator_memory_capacity": "140 GB",
                "accelerator_host_interconnect": "PCIe Gen5 x16",
            })
        );
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Value::Object(machine(root.path(), &[])), serde_json::json!({"number_of_nodes": 1}));
    }
}
