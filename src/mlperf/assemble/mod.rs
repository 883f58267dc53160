//! One submission of several parts: packages of other runs and machines, and logs that another harness made, as one tree.
//!
//! ```text
//!  package ─┐
//!  package ─┼→ SubmissionTree: path → where its bytes are from ─→ copies for 99 % ─→ written ─→ the submission check
//!  logs    ─┘       two parts that disagree about a path are an error
//! ```

mod foreign_logs;
mod lower_accuracy;
mod packages;
mod request;
mod tree;

use std::path::{Path, PathBuf};

pub use request::{AssembleError, AssembleRequest, ForeignResult};
use tree::SubmissionTree;

use rules::Round;

/// Writes the submission into `out`, a folder that is new or empty. Gives its round.
///
/// # Errors
/// Parts of different rounds, and all places that two parts disagree about.
pub fn assemble(request: &AssembleRequest, out: &Path) -> Result<Round, AssembleError> {
    if std::fs::read_dir(out).is_ok_and(|mut items| items.next().is_some()) {
        return Err(AssembleError::NotEmpty(out.to_owned()));
    }
    let roots = request.packages.iter().map(|part| packages::root(part)).collect::<Result<Vec<_>, _>>()?;
    let round = round(request, &roots)?;
    let mut tree = SubmissionTree::new(&round);
    for root in &roots {
        packages::add(&mut tree, root, request)?;
    }
    for logs in &request.logs {
        foreign_logs::add(&mut tree, logs)?;
    }
    if request.copy_to_99 {
        lower_accuracy::copy(&mut tree);
    }
    if let Some(folder) = &request.documentation {
        packages::documentation(&mut tree, folder)?;
    }
    tree.write(out)?;
    Ok(round)
}

/// Of all parts; the first names it unless it is given.
fn round(request: &AssembleRequest, roots: &[PathBuf]) -> Result<Round, AssembleError> {
    let mut first: Option<(&Path, Round)> = None;
    for folder in roots.iter().chain(request.logs.iter().map(|logs| &logs.folder)) {
        let Some(found) = super::round_of(folder) else {
            if request.round.is_some() {
                continue;
            }
            return Err(AssembleError::NoRound(folder.clone()));
        };
        match &first {
            Some((above, round)) if round.name != found.name => {
                return Err(AssembleError::Rounds {
                    first: (*above).to_owned(),
                    one: round.name.clone(),
                    second: folder.clone(),
                    other: found.name,
                });
            }
            Some(_) => {}
            None => first = Some((folder, found)),
        }
    }
    let found = first.map(|(_, round)| round);
    request.round.clone().or(found).ok_or_else(|| AssembleError::Parts(vec!["there is no part".to_owned()]))
}
