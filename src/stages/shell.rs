//! `shell:` — a command in its own empty output folder.

use std::ffi::OsString;

use super::task_context::{TaskContext, confinement, options};
use crate::event::{Done, Failure};
use crate::manifest::model::ShellScript;

/// A failure in the middle of a pipe counts, too. POSIX has this since 2024 only, and a shell without it ends at an unknown
/// option, so a subshell tries it first. On the line of the text, so that the line numbers of messages stay true.
const PIPEFAIL: &str = "(set -o pipefail) 2>/dev/null && set -o pipefail; ";

pub async fn perform(context: &TaskContext, script: &ShellScript) -> Result<Done, Failure> {
    let argv: Vec<OsString> = match script {
        ShellScript::Text(text) if context.lease.task.strict => {
            vec!["/bin/sh".into(), "-eu".into(), "-c".into(), format!("{PIPEFAIL}{text}").into()]
        }
        ShellScript::Text(text) => vec!["/bin/sh".into(), "-c".into(), text.into()],
        ShellScript::Words(words) => {
            let mut words = words.clone();
            if let Some(lowered) = &context.lease.lowered {
                options::lower(&mut words, lowered);
            }
            words.into_iter().map(OsString::from).collect()
        }
    };
    context.warn_of_undeclared(&argv);
    if context.lease.task.confine {
        confinement::run_confined(context, context.command(argv)).await?;
    } else {
        context.run(context.command(argv)).await?;
    }
    Ok(Done::default())
}
