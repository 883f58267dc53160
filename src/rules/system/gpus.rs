//! Accelerators, as `nvidia-smi` prints them to a file.

/// One accelerator as `nvidia-smi` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    pub name: String,
    /// MiB.
    pub memory_mib: u64,
    pub driver: String,
}

/// Lines of `nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader,nounits`.
pub fn gpus_of_table(text: &str) -> Vec<Accelerator> {
    text.lines()
        .filter_map(|line| {
            let mut cells = line.split(',').map(str::trim);
            let name = cells.next()?.to_owned();
            let memory_mib = cells.next()?.parse().ok()?;
            Some(Accelerator { name, memory_mib, driver: cells.next()?.to_owned() })
        })
        .collect()
}
