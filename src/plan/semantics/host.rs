//! What the types cannot say about `host:`.

use super::Look;
use crate::manifest::model::{HostOn, Serve, Slurm, Stage};

impl Look<'_> {
    /// A stage that runs on another machine.
    pub(super) fn elsewhere(&mut self, stage: &Stage, host: &HostOn) {
        if stage.resume {
            let label = "an attempt that was cut off may still write into the folder that the next one goes on with";
            self.say(&["resume"], "cannot be true with `host`", label, Some("take one of them away".to_owned()));
        }
        if matches!(stage.serve, Some(Serve::Attach(_))) {
            let hint = Some("take `host` away".to_owned());
            self.say(&["host"], "cannot be beside `serve.attach`", "nothing is started", hint);
        }
        match host {
            HostOn::Slurm(slurm) => {
                if slurm.container.is_some() && stage.container.is_some() {
                    let hint = Some("keep this one, or that of `host.slurm`".to_owned());
                    self.say(&["container"], "is there twice", "`host.slurm` has one, too", hint);
                }
                self.slurm(slurm);
            }
        }
    }

    fn slurm(&mut self, slurm: &Slurm) {
        const AT: [&str; 2] = ["host", "slurm"];
        let at = |key: &'static str| [AT[0], AT[1], key];
        if let Some(Err(why)) = slurm.limit() {
            let hint = Some("for example `90m`, `2h`, or as Slurm writes it, `1-12:00:00`".to_owned());
            self.say(&at("time"), "must be a time limit", &why, hint);
        }
        self.duration(&at("warn"), &slurm.warn);
        self.duration(&at("poll"), &slurm.poll);
        self.duration(&at("silence"), &slurm.silence);
        if let Some(text) = &slurm.queue_timeout {
            self.duration(&at("queue_timeout"), text);
        }
        if slurm.gres.as_ref().is_some_and(|gres| gres.starts_with("gpu")) && slurm.gpus_per_node.is_some() {
            let hint = Some("take one of them away".to_owned());
            self.say(&at("gres"), "cannot be beside `gpus_per_node`", "both ask for GPUs", hint);
        }
        for (index, word) in slurm.args.iter().enumerate() {
            let flag = word.strip_prefix("--").map(|flag| flag.split('=').next().unwrap_or(flag));
            let owner = Slurm::OWN.iter().find(|(own, _)| flag == Some(own));
            let index = index.to_string();
            let place = ["host", "slurm", "args", &index];
            if let Some((flag, owner)) = owner {
                self.say(&place, &format!("may not hold `--{flag}`"), &format!("decided by {owner}"), None);
            } else if !word.starts_with("--") {
                let hint = Some("write `--flag=value`".to_owned());
                self.say(&place, "must be a long flag", "short ones cannot be told from values", hint);
            }
        }
        for (index, name) in slurm.export.iter().flatten().enumerate() {
            self.variable(&["host", "slurm", "export", &index.to_string()], name);
        }
    }
}
