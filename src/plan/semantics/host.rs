//! What the types cannot express about `host:`.

use super::StageChecker;
use crate::manifest::model::{HostOn, Serve, Slurm, SshHost, Stage};
use base::spec::Launcher;

impl StageChecker<'_> {
    /// A stage that runs on another machine.
    pub(super) fn check_remote_stage(&mut self, stage: &Stage, host: &HostOn) {
        if stage.resume {
            let label = "an attempt that was cut off may still write into the folder that the next one continues in";
            self.push_error(&["resume"], "cannot be true with `host`", label, Some("take one of them away".to_owned()));
        }
        if matches!(stage.serve.as_deref(), Some(Serve::Attach(_))) {
            let hint = Some("take `host` away".to_owned());
            self.push_error(&["host"], "cannot be combined with `serve.attach`", "nothing is started", hint);
        }
        match host {
            HostOn::Slurm(slurm) => {
                if slurm.container.is_some() && stage.container.is_some() {
                    let hint = Some("keep this one, or that of `host.slurm`".to_owned());
                    self.push_error(&["container"], "is there twice", "`host.slurm` has one, too", hint);
                }
                self.slurm(slurm);
                if let (true, Some(Serve::Triton(server))) = (slurm.each_node, stage.serve.as_deref())
                    && server.launcher == Some(Launcher::Srun)
                {
                    let label = "each node starts its own ranks";
                    let hint = Some("`launcher: mpi` starts them there; or take `each_node` away".to_owned());
                    self.push_error(&["serve", "triton", "launcher"], "cannot be `srun` with `each_node`", label, hint);
                }
                if slurm.each_node {
                    self.many(stage, &["host", "slurm", "each_node"]);
                    if slurm.container.is_some() {
                        let label = "its commands start on one node only";
                        let hint = Some("`container` next to `host` starts them on each".to_owned());
                        self.push_error(
                            &["host", "slurm", "container"],
                            "cannot be combined with `each_node`",
                            label,
                            hint,
                        );
                    }
                }
            }
            HostOn::Ssh(hosts) => {
                self.many(stage, &["host", "ssh"]);
                self.ssh(hosts);
            }
        }
    }

    /// A stage that runs on several machines at once.
    fn many(&mut self, stage: &Stage, at: &[&str]) {
        match stage.serve.as_deref() {
            None => {
                let hint = Some("remove it, or put the stage into a Slurm job: `host: slurm`".to_owned());
                self.push_error(at, "is for `serve`", "this stage would do the same work several times", hint);
            }
            Some(Serve::Triton(server)) => {
                if server.host.is_some() {
                    let hint = Some("set `address` of each host to where requests reach it".to_owned());
                    self.push_error(&["serve", "triton", "host"], "cannot be the same for several hosts", "here", hint);
                }
                if !server.mpi.hosts.is_empty() {
                    let label = "each host starts a whole server of its own";
                    let hint = Some("take one of them away".to_owned());
                    self.push_error(
                        &["serve", "triton", "mpi", "hosts"],
                        "cannot be combined with several hosts",
                        label,
                        hint,
                    );
                }
            }
            Some(_) => {}
        }
    }

    fn ssh(&mut self, hosts: &[SshHost]) {
        let mut names = std::collections::BTreeSet::new();
        if hosts.is_empty() {
            let hint = Some("name the machines: `ssh: [node-a, node-b]`".to_owned());
            self.push_error(&["host", "ssh"], "is empty", "nothing would be started", hint);
        }
        for (index, host) in hosts.iter().enumerate() {
            let machine = host.machine();
            let index = index.to_string();
            let at = match host {
                SshHost::Name(_) => vec!["host", "ssh", &index],
                SshHost::Machine(_) => vec!["host", "ssh", &index, "name"],
            };
            let odd = |c: char| !c.is_ascii_alphanumeric() && !"._-:".contains(c);
            if machine.name.is_empty() || machine.name.starts_with('-') || machine.name.contains(odd) {
                let label = "letters, digits, `.`, `_`, `-`, and no `-` in front";
                self.push_error(&at, "is no name of a host", label, Some("`ssh` takes ssh's destination".to_owned()));
            }
            if machine.destination().starts_with('-') {
                self.push_error(&at, "is no host", "ssh would take it for an option", None);
            }
            if !names.insert(machine.name.clone()) {
                let label = format!("another host is called `{}`, too", machine.name);
                self.push_error(&at, "is there twice", &label, Some("give one of them another `name`".to_owned()));
            }
        }
    }

    fn slurm(&mut self, slurm: &Slurm) {
        const AT: [&str; 2] = ["host", "slurm"];
        let at = |key: &'static str| [AT[0], AT[1], key];
        if slurm.gres.as_ref().is_some_and(|gres| gres.starts_with("gpu")) && slurm.gpus_per_node.is_some() {
            let hint = Some("take one of them away".to_owned());
            self.push_error(&at("gres"), "cannot be combined with `gpus_per_node`", "both request GPUs", hint);
        }
        for (index, word) in slurm.args.iter().enumerate() {
            let flag = word.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag));
            let owner = Slurm::OWN.iter().find(|(own, _)| flag == Some(own));
            let index = index.to_string();
            let place = ["host", "slurm", "args", &index];
            if let Some((flag, owner)) = owner {
                self.push_error(&place, &format!("may not hold `--{flag}`"), &format!("decided by {owner}"), None);
            } else if !word.starts_with("--") {
                let hint = Some("write `--flag=value`".to_owned());
                self.push_error(&place, "must be a long flag", "short ones cannot be distinguished from values", hint);
            }
        }
        for (index, name) in slurm.export.iter().flatten().enumerate() {
            self.variable(&["host", "slurm", "export", &index.to_string()], name);
        }
    }
}
