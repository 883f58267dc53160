//! `gpu_clocks:` — which stages can lock the clocks of their GPUs.

use super::StageChecker;
use crate::manifest::model::{Host, HostOn, Stage};

impl StageChecker<'_> {
    pub(super) fn gpu_clocks(&mut self, stage: &Stage) {
        let Some(clocks) = &stage.gpu_clocks else { return };
        let [least, greatest] = clocks.graphics;
        if least == 0 || least > greatest {
            let hint = Some("`[1410, 1410]` is one clock".to_owned());
            self.push_error(&["gpu_clocks", "graphics"], "must be the least and the greatest clock", "MHz", hint);
        }
        if stage.gpus == 0 {
            let hint = Some("set `gpus`; or lock them in the stage that starts the servers".to_owned());
            self.push_error(&["gpu_clocks"], "needs GPUs of the stage", "`gpus` is 0", hint);
        }
        let is_elsewhere = match stage.host.as_deref().and_then(Host::remote) {
            Some(HostOn::Ssh(_)) => true,
            Some(HostOn::Slurm(slurm)) => slurm.each_node,
            None => false,
        };
        if is_elsewhere {
            let hint = Some("lock them there before the run: `nvidia-smi -lgc`".to_owned());
            self.push_error(
                &["gpu_clocks"],
                "cannot be combined with several hosts",
                "only one machine's are locked",
                hint,
            );
        }
    }
}
