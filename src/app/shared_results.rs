//! Summaries of results in a shared store: put there after a run with a store, and read by `runs` and `history`.

use std::collections::BTreeMap;

use super::run_store;
use crate::cli::StoreSelection;
use crate::console::print_error;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::{Done, Event, RunId, TaskId};
use base::files::read_text;
use base::units::counted;
use harness::RESULT;
use interop::MeasuredResult;
use plan::{Plan, Task};
use runner::shared_store::{
    ResultSummary, SharedSummaries, SignaturePolicy, StoreAddress, share_summaries, shared_summaries,
};
use runner::store::StateFolder;
use runner::{EventEmitter, usable_secret_values};

/// Puts the valid results of a run into the store. A store that is away is a warning.
pub(super) async fn share(
    (address, signatures): (&StoreAddress, &SignaturePolicy),
    home: &StateFolder,
    run: &RunId,
    plan: &Plan,
    done: &[(TaskId, Done, std::path::PathBuf)],
    emit: &EventEmitter,
) {
    let mut summaries = Vec::new();
    let benches: BTreeMap<&TaskId, &Task> =
        plan.tasks.iter().filter(|task| task.bench().is_some()).map(|task| (&task.id, task)).collect();
    for (id, done, out) in done {
        let Some(task) = benches.get(id) else { continue };
        let Ok(text) = read_text(out.join(RESULT)) else { continue };
        let Ok(result) = serde_json::from_str(&text) else { continue };
        let places = [home.state(), home.project()].map(|place| place.display().to_string());
        let hidden: Vec<String> = places.into_iter().chain(usable_secret_values(&task.secrets)).collect();
        let headline = done.headline.clone().unwrap_or_default();
        summaries.push(ResultSummary::here(run.clone(), &plan.name, id.as_str(), &headline, result, &hidden));
    }
    if summaries.is_empty() {
        return;
    }
    if let Err(error) = share_summaries(address, &summaries, signatures).await {
        let text = format!("the results of this run are not in {address}: {error}; {}", error.hint());
        emit(Event::Notice { task: None, text });
    }
}

/// The summaries in the store that an option or the environment names, each with its result. What another version wrote, and what no key
/// signed that the environment trusts, is left out with a warning.
pub(super) fn read(store: &str) -> Result<Vec<(ResultSummary, MeasuredResult)>, CommandError> {
    let Some(address) = run_store::address(Some(store))? else { return Ok(Vec::new()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let signatures = run_store::signatures(&StoreSelection::default())?;
    let SharedSummaries { all, mut unreadable, untrusted } =
        runtime.block_on(shared_summaries(&address, &signatures)).map_err(|error| {
            CommandError::usage(ErrorText::new(format!("{address} cannot be read: {error}")).hint(error.hint()))
        })?;
    let mut read = Vec::new();
    for summary in all {
        match MeasuredResult::read(&summary.result.to_string()) {
            Ok(result) => read.push((summary, result)),
            Err(_) => unreadable += 1,
        }
    }
    if unreadable > 0 {
        print_error(&format!("left out: {} of another version in {address}\n", counted(unreadable, "result")));
    }
    if untrusted > 0 {
        print_error(&format!("left out: {} in {address}, not signed by a trusted key\n", counted(untrusted, "result")));
    }
    Ok(read)
}
