//! A result for 99.9 % of the reference's accuracy is one for 99 %, too: rounds that have both let it be submitted twice.

use std::path::PathBuf;

use super::packages::result_folders;
use super::tree::SubmissionTree;

/// Copies each result for 99.9 % to 99 %, where the round has both and the system has none of its own for 99 %.
pub(super) fn copy(tree: &mut SubmissionTree) {
    let folders = result_folders(tree.layout);
    let mut copies = Vec::new();
    for (path, source) in &tree.files {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        // Until v5.1 the source has a folder for each benchmark.
        if let [division, submitter, "code", benchmark, below @ ..] = &parts[..]
            && let Some(low) = tree.round.lower_accuracy(benchmark)
        {
            let to: PathBuf = [division, submitter, "code", low.as_str()].iter().chain(below).collect();
            if !tree.files.contains_key(&to) {
                copies.push((to, source.clone()));
            }
            continue;
        }
        // closed/Example/results/<system>/<benchmark>/<scenario>/…
        let [division, submitter, folder, system, benchmark, scenario, below @ ..] = &parts[..] else { continue };
        let Some(low) = tree.round.lower_accuracy(benchmark).filter(|_| folders.contains(folder)) else { continue };
        let above: PathBuf = [division, submitter, "results", system, low.as_str(), scenario].iter().collect();
        if !tree.has_below(&above) {
            let to: PathBuf =
                [division, submitter, folder, system, low.as_str(), scenario].iter().chain(below).collect();
            copies.push((to, source.clone()));
        }
    }
    for (key, lock) in tree.locks.clone() {
        for result in lock.results {
            let Some(low) = tree.round.lower_accuracy(&result.benchmark) else { continue };
            if let Some(lock) = tree.locks.get_mut(&key).filter(|lock| lock.result(&low, result.scenario).is_none()) {
                lock.results.push(crate::LockedResult { benchmark: low, ..result });
            }
        }
    }
    tree.files.extend(copies);
}
