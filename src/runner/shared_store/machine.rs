//! What ties an output to a kind of machine, beside its key.

use std::collections::{BTreeMap, BTreeSet};

use base::files::{Digest, Hasher, read_text};
use base::units::os_release_field;
use plan::Task;

/// The GPUs of a machine, as far as they decide what an engine is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineGpus {
    /// Names with compute capabilities, each once; empty where the machine has no GPU.
    Known(BTreeSet<String>),
    /// There is a driver, and the query failed: the error message.
    Unknown(String),
}

/// Why it is not known what machine an output is for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it depends on the GPUs of this machine, and they are not known: {why}")]
pub struct UnknownGpus {
    /// Of the query.
    pub why: String,
}

/// This machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// `x86_64`, `aarch64`.
    pub arch: String,
    /// Distribution and its version: what a program that was compiled here runs on.
    pub system: String,
    pub gpus: MachineGpus,
}

impl Machine {
    pub fn new(gpus: MachineGpus) -> Self {
        let text = read_text("/etc/os-release").unwrap_or_default();
        Self { arch: std::env::consts::ARCH.to_owned(), system: system(&text), gpus }
    }

    /// The machine properties that a task's output depends on, as names and values; `Err`: why they are unknown.
    pub fn facts_for(&self, task: &Task) -> Result<BTreeMap<String, String>, UnknownGpus> {
        let mut facts = BTreeMap::new();
        let runs_programs = task.kind.facts().runs_programs || task.is_loadgen_library();
        if runs_programs {
            facts.insert("arch".to_owned(), self.arch.clone());
            // A container contains its own system, and its image is part of the key.
            if task.container.is_none() {
                facts.insert("system".to_owned(), self.system.clone());
            }
        }
        if task.gpus > 0 {
            match &self.gpus {
                MachineGpus::Known(gpus) => {
                    let list = gpus.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
                    facts.insert("gpu".to_owned(), if list.is_empty() { "none".to_owned() } else { list });
                }
                MachineGpus::Unknown(why) => {
                    return Err(UnknownGpus { why: why.clone() });
                }
            }
        }
        Ok(facts)
    }
}

/// What the record of an output is called in a store.
pub(super) fn name(key: &Digest, facts: &BTreeMap<String, String>) -> Digest {
    let mut h = Hasher::new();
    h.field(b"regatta shared output 1").field(key.bytes());
    for (name, value) in facts {
        h.field(name.as_bytes()).field(value.as_bytes());
    }
    h.finish()
}

fn system(os_release: &str) -> String {
    format!("{} {}", os_release_field(os_release, "ID"), os_release_field(os_release, "VERSION_ID")).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_is_its_distribution_and_version() {
        assert_eq!(system("NAME=\"Ubuntu\"\nVERSION_ID=\"24.04\"\nID=ubuntu\nID_LIKE=debian\n"), "ubuntu 24.04");
        assert_eq!(system("ID=arch\n"), "arch");
    }

    #[test]
    fn names_differ_when_any_fact_does() {
        let key = Digest::hash(b"key");
        let facts = |pairs: &[(&str, &str)]| {
            name(&key, &pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        let machines = [
            facts(&[]),
            facts(&[("arch", "x86_64")]),
            facts(&[("arch", "aarch64")]),
            facts(&[("arch", "x86_64"), ("gpu", "none")]),
            facts(&[("arch", "x86_64"), ("gpu", "NVIDIA H200 9.0")]),
        ];
        assert_eq!(machines.iter().collect::<BTreeSet<_>>().len(), machines.len());
    }
}
