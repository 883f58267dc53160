//! What earlier runs of the same plan left to look at, so that `run` and `plan` look only at what may have changed since.

use std::path::Path;

use super::project::Project;
use crate::cli::{KeyValueArg, LOCK_FILE, Select};
use base::files::Digest;
use runner::store::NoOpConditions;

/// The last one of its selection and lock file.
pub(super) struct EarlierRun {
    pub conditions: NoOpConditions,
    /// It had the same selection; otherwise all stages, so that each stage of the selection was a part of it.
    pub has_same_selection: bool,
    /// It wrote the same lock file, or, where none is asked for, none.
    pub has_same_lock: bool,
}

/// The nearest first: of the same selection with this lock file, with another one or none; then of all stages. They are read one
/// by one, because one of 10,000 tasks takes a while. `plan`: the digest of the compiled plan; another one counts for nothing.
pub(super) fn earlier_runs<'a>(
    project: &'a Project,
    manifest: &'a str,
    settings: &'a [KeyValueArg],
    select: &'a Select,
    lock: Option<&'a Path>,
    plan: Digest,
) -> impl Iterator<Item = EarlierRun> + 'a {
    let usual = Some(Path::new(LOCK_FILE));
    let locks = std::iter::once(lock).chain([usual, None].into_iter().filter(move |other| *other != lock));
    let all_stages = Select { until: Vec::new(), only: Vec::new(), ..select.clone() };
    let has_selection = *select != all_stages;
    let selections = [Some((select.clone(), true)), has_selection.then_some((all_stages, false))];
    selections.into_iter().flatten().flat_map(move |(select, has_same_selection)| {
        locks.clone().filter_map(move |of| {
            let compiler = project.compiler_of_run(manifest, settings, &select, of);
            let conditions = compiler.no_op_conditions(plan)?;
            Some(EarlierRun { conditions, has_same_selection, has_same_lock: of == lock })
        })
    })
}
