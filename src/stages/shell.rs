//! `shell:` — a command in its own empty output folder.

use std::ffi::OsString;
use std::path::Path;

use crate::task_context::{TaskContext, out_of_memory};
use crate::{Run, task_context};
use base::event::{Done, Failure};
use plan::manifest::model::ShellScript;

/// A failure in the middle of a pipe counts, too. Not every `sh` has `pipefail` (Debian's and Ubuntu's have not), and one
/// without it ends at an unknown option, so a subshell tries it first; bash, where there is one, takes over with the
/// text that `$1` has. On the line of the text, so that the line numbers of messages stay true.
const PIPEFAIL: &str = "(set -o pipefail) 2>/dev/null && set -o pipefail || [ ! -x /bin/bash ] || \
                        exec /bin/bash -eu -o pipefail -c \"$1\" sh; ";

/// A text whose first failing command ends the stage.
fn strict(text: &str) -> Vec<OsString> {
    let has_pipe = text.replace("||", "").contains('|');
    let (prelude, again) = if has_pipe { (PIPEFAIL, &["sh", text][..]) } else { ("", &[][..]) };
    let text = format!("{prelude}{text}");
    ["/bin/sh", "-eu", "-c", &text].iter().chain(again).map(OsString::from).collect()
}

impl Run for ShellScript {
    // 2: strict by default.
    const FORMAT: Option<u32> = Some(2);

    async fn run(&self, context: TaskContext, _: Option<&Path>) -> Result<Done, Failure> {
        let context = &context;
        let argv: Vec<OsString> = match self {
            Self::Text(text) if context.lease.task.strict => strict(text),
            Self::Text(text) => vec!["/bin/sh".into(), "-c".into(), text.into()],
            Self::Words(words) => {
                let mut words = words.clone();
                if let Some(lowered) = &context.lease.lowered {
                    out_of_memory::lower_option(&mut words, lowered);
                }
                words.into_iter().map(OsString::from).collect()
            }
        };
        context.warn_of_undeclared(&argv);
        if context.lease.task.confine {
            task_context::run_confined(context, context.command(argv)).await?;
        } else {
            context.run(context.command(argv)).await?;
        }
        Ok(Done::default())
    }
}
