//! `repository:` — Triton model repositories, one for each server.

use super::errand::Errand;
use crate::event::{Done, Failure, FailureKind};
use crate::manifest::model::{Repository, RepositoryLayout};
use crate::sim;
use crate::triton::RepositorySpec;
use crate::triton::repository::{Layout, RepositoryError, write};

pub fn perform(errand: &Errand, repository: &Repository) -> Result<Done, Failure> {
    let leased = errand.lease.gpus.len() as u32;
    let spec = RepositorySpec {
        engine: errand.path(&repository.engine),
        triton_num_servers: repository.triton_num_servers,
        gpus: repository.gpus.or((leased > 0).then_some(leased)),
        streaming: repository.streaming,
        tokenizer: repository.tokenizer.as_ref().map(|tokenizer| errand.path(tokenizer)),
        layout: match repository.layout {
            RepositoryLayout::Five => Layout::Five,
            RepositoryLayout::Harness => {
                Layout::Harness { triton_num_models_per_server: repository.triton_num_models_per_server }
            }
        },
        models: repository.models.clone(),
        files: repository.files.as_ref().map(|files| errand.path(files)),
        runtime_flags: repository.runtime_flags.clone(),
        parameters: repository.parameters.clone(),
    };
    let written = write(&spec, &errand.lease.out).map_err(|error| match error {
        RepositoryError::Invalid { problems } => {
            let what = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
            let hints: Vec<String> = problems.into_iter().filter_map(|problem| problem.hint).collect();
            let failure = Failure::new(FailureKind::Refused, what);
            if hints.is_empty() { failure } else { failure.hint(hints.join("; ")) }
        }
        RepositoryError::Write { ref path, ref source } => {
            Failure::new(FailureKind::System, format!("cannot write {}: {source}", path.display()))
        }
        other => Failure::new(FailureKind::Refused, other.to_string()),
    })?;
    // What a real Triton would miss does not concern the simulator.
    if !sim::simulated(&spec.engine) {
        for note in &written.notes {
            errand.lease.notice(note.clone());
        }
    }
    let count = written.repositories.len();
    Ok(Done {
        headline: Some(format!("{count} model repositor{}", if count == 1 { "y" } else { "ies" })),
        ..Done::default()
    })
}
