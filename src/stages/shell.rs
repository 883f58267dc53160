//! `shell:` — a command in its own empty output folder.

use std::ffi::OsString;
use std::sync::OnceLock;
use std::time::Duration;

use crate::task_context::{TaskContext, out_of_memory};
use crate::{Run, task_context};
use base::event::{Done, Failure};
use exec::process::probe;
use plan::manifest::model::ShellScript;

/// A failure in the middle of a pipe counts, too. On the line of the text, so that the line numbers of messages stay
/// true.
const PIPEFAIL: &str = "set -o pipefail; ";
/// POSIX has this since 2024 only, and a shell without it ends at an unknown option, so a subshell tries it first.
const TRIED_PIPEFAIL: &str = "(set -o pipefail) 2>/dev/null && set -o pipefail; ";

/// What comes before a strict text. The shell of this machine is tried once; that of a container is not known.
fn pipefail(context: &TaskContext) -> &'static str {
    static OF_THIS_MACHINE: OnceLock<&str> = OnceLock::new();
    if context.place.is_some() || context.slurm_container.is_some() {
        return TRIED_PIPEFAIL;
    }
    OF_THIS_MACHINE.get_or_init(|| {
        let tried = ["/bin/sh", "-c", "(set -o pipefail) 2>/dev/null && echo has || echo lacks"];
        match probe(tried, Duration::from_secs(5)).successful_output().as_deref().map(str::trim) {
            Some("has") => PIPEFAIL,
            Some("lacks") => "",
            _ => TRIED_PIPEFAIL,
        }
    })
}

impl Run for ShellScript {
    // 2: strict by default.
    const FORMAT: Option<u32> = Some(2);

    async fn run(&self, context: TaskContext) -> Result<Done, Failure> {
        let context = &context;
        let argv: Vec<OsString> = match self {
            Self::Text(text) if context.lease.task.strict => {
                vec!["/bin/sh".into(), "-eu".into(), "-c".into(), format!("{}{text}", pipefail(context)).into()]
            }
            Self::Text(text) => vec!["/bin/sh".into(), "-c".into(), text.into()],
            Self::Words(words) => {
                let mut words = words.clone();
                if let Some(lowered) = &context.lease.lowered {
                    out_of_memory::lower_option(&mut words, lowered);
                }
                words.into_iter().map(OsString::from).collect()
            }
        };
        let source = context.undeclared_source(&argv);
        if context.lease.task.confine {
            task_context::run_confined(context, context.command(argv)).await?;
        } else {
            context.run(context.command(argv)).await?;
        }
        Ok(Done { source, ..Done::default() })
    }
}
