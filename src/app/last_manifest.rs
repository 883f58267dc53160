//! The manifest of the last run, for commands that are about it.

use super::project::{Project, hint_of_runs_above};
use crate::cli::KeyValueArg;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::Event;
use runner::store::{last_run, read_journal};

/// With its parameters, as they were given. `hint`: the command that names a manifest.
pub(super) fn last_manifest(project: &Project, hint: &str) -> Result<(String, Vec<KeyValueArg>), CommandError> {
    let run = last_run(&project.home)?;
    let journal = run.map(|run| read_journal(&project.home.run(&run).join("journal.jsonl"))).transpose()?;
    let started = journal.and_then(|journal| {
        journal.events.into_iter().find_map(|event| match event {
            Event::RunStarted { manifest, settings, .. } => Some((manifest, settings)),
            _ => None,
        })
    });
    let Some((manifest, settings)) = started else {
        let hint = hint_of_runs_above(&project.home).unwrap_or_else(|| format!("name a manifest: {hint}"));
        return Err(CommandError::usage(ErrorText::new("nothing has run in this folder yet").hint(hint)));
    };
    let settings = settings.iter().map(|argument| argument.parse()).collect::<Result<_, _>>();
    Ok((manifest, settings.map_err(CommandError::usage)?))
}
