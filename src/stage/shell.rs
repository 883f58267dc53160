//! `shell:` — a command in its own empty output folder.

use std::ffi::OsString;

use super::errand::Errand;
use super::options;
use crate::event::{Done, Failure};
use crate::manifest::model::Script;

pub async fn perform(errand: &Errand, script: &Script) -> Result<Done, Failure> {
    let argv: Vec<OsString> = match script {
        Script::Text(text) => vec!["/bin/sh".into(), "-c".into(), text.into()],
        Script::Words(words) => {
            let mut words = words.clone();
            if let Some(lowered) = &errand.lease.lowered {
                options::lower(&mut words, lowered);
            }
            words.into_iter().map(OsString::from).collect()
        }
    };
    errand.warn_of_undeclared(&argv);
    errand.run(errand.command(argv)).await?;
    Ok(Done::default())
}
