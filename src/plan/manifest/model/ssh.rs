//! `host: { ssh: … }` — machines that are reached over ssh.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine: its name alone, as `ssh` and its config know it, or with more.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum SshHost {
    Name(String),
    Machine(SshMachine),
}

/// A machine that is reached over ssh. `~/.ssh/config` applies; ssh never prompts, so a key must be available, and the
/// host's own key must be known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SshMachine {
    /// What it is called in messages, logs and results. No other host of the stage has this name.
    pub name: String,
    /// Where `ssh` finds it: `user@host`, or a name of its config. [default: `name`]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// [default: ssh's config, else 22]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// Further arguments for `ssh`, before all others: `[-i, keys/bench]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The address of its servers, for example in another network than ssh's. [default: the host name that ssh connects to]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The path of this program on it, if it differs. [default: the one that is running]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
}

impl SshHost {
    /// A name alone is a machine without further settings.
    pub fn machine(&self) -> SshMachine {
        match self {
            Self::Machine(machine) => machine.clone(),
            Self::Name(name) => SshMachine {
                // Of `user@host` the host is what it is called.
                name: name.rsplit('@').next().unwrap_or(name).to_owned(),
                ssh: Some(name.clone()),
                port: None,
                args: Vec::new(),
                address: None,
                program: None,
            },
        }
    }
}

impl SshMachine {
    /// What stands on ssh's command line.
    pub fn destination(&self) -> &str {
        self.ssh.as_deref().unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::model::{Host, HostOn};

    #[test]
    fn a_name_alone_is_enough() {
        let text = "{ ssh: [node-a, bench@10.0.0.2, { name: node-c, ssh: bench@c, port: 2222, args: [-v] }] }";
        let Some(HostOn::Ssh(hosts)) = serde_yaml::from_str::<Host>(text).unwrap().remote() else { panic!("not ssh") };
        let machines: Vec<(String, String, Option<u16>)> = hosts
            .iter()
            .map(SshHost::machine)
            .map(|one| (one.name.clone(), one.destination().to_owned(), one.port))
            .collect();
        let own = str::to_owned;
        assert_eq!(
            machines,
            [
                (own("node-a"), own("node-a"), None),
                (own("10.0.0.2"), own("bench@10.0.0.2"), None),
                (own("node-c"), own("bench@c"), Some(2222))
            ]
        );
    }
}
