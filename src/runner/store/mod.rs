//! The only module that writes durable state: keys, output folders, records, journal, digests.
//!
//! # What is on disk
//!
//! ```text
//! .regatta/
//!   lock                 held (flock) by the run that may write; contains which run and which process
//!   binding              shows that a run of this user on this machine made the folder (`state_folder`)
//!   records              one sealed line for each finished task: key, fields, folder, digest, files
//!   replaced             outputs that newer ones replaced, and that `records` does not name any more
//!   stats                path → (size, times, inode) → digest, so that unchanged inputs are not read again
//!   out/<key>-<n>/       the outputs, each written once, in place; never moved
//!   jobs/<key>-<n>/      messages to and from a job on another machine, until its end was seen (`jobs`)
//!   allocations/<run>/   a whole run that is submitted as one job: its lock and what it prints
//!   shipped/             copies of input files that the program has in it
//!   clients/             another state folder, of benchmarks beside `regatta serve`
//!   arrays/              scripts of job arrays, and what the batch system prints for their elements
//!   failed/<task>        → the output folder of the last failed attempt
//!   lowered/<key>.json   what a retry lowered for a task of that key, because memory ran out
//!   bench/<digest>/      the manifest of a `regatta bench` line; the newest 100
//!   plans/<id>.plan      a manifest compiled to a plan; `.from`: its digest, and what it was compiled from
//!   plans/<id>.rest      what to look at to know that nothing at all has to run
//!   runs/<run>/          journal (sealed JSON lines), one log for each task, report.html, `tags`;
//!                        `progress.jsonl` while it is under way
//!   by-manifest/<name>/  <task id> → the output folder of each task
//! latest                 → the folder in `.regatta/by-manifest` of the manifest that last finished a stage;
//!                          `report.html` in it is that of the last run, or of the run that it repeats if everything
//!                          was cached
//! ```
//!
//! # When is an output accepted?
//!
//! When a *record* names it: a sealed line appended to `records` by one write, after the folder was hashed. A
//! half-written folder has no record, so it cannot be taken for a whole one. The folder is not renamed: builds
//! bake the path of their output folder into their files (CMake trees, virtual environments), and a rename would
//! break them. Its name ends in a number that is new for every attempt, because a run counts on from the time at which
//! it began: a writer that outlived its run writes beside, never into, what a later run accepts. A stage with `resume`
//! goes on in the folder that its last attempt left, until that is accepted: then the next attempt has a new one.
//!
//! Before an output is used, its files are compared with the record (size, times, inode; content when those
//! differ). What was changed or deleted is made again.
//!
//! # What survives what
//!
//! `kill -9`: everything that was recorded, because a write that returned is in the page cache. A power cut:
//! everything before the last `synced` line in `records`; what was recorded after it is read and hashed again
//! before it is trusted (it carries another boot id).

mod digests;
mod durable;
mod earlier_attempts;
mod folder_digest;
mod gc;
mod jobs;
mod journal;
mod key;
mod latest;
mod lock;
mod named_file;
mod output_cache;
mod plan_cache;
mod portable_output;
mod record;
mod sealed;
mod state_folder;

pub use digests::{Digests, InputError, InputState, PathStamps, path_stamps, replaced_path};
pub use durable::{LineFile, PathError, WithPath, discard, is_there, items_in, move_items, point, replace};
pub use folder_digest::{
    ContentChange, EntryKind, FileStamp, HashedFolder, ListedFolder, RESULT_FILES, has_result, list_folder,
};
pub use gc::{Garbage, bytes_in, garbage, remove, unfinished, unfinished_plans};
pub use jobs::{JobFolder, JobOwner, abandoned, left_running, superseded, unplanned};
pub use journal::{
    Journal, ProgressFile, ReadJournal, ended_well, fold_journal, fold_run, last_run, name_run, read_journal,
    read_progress, readable_runs, remove_tag, runs, set_tag, tagged_run, tags_of,
};
pub use key::{KEY_VERSION, TaskKey, explain};
pub use latest::{Latest, latest_hint};
pub use lock::{LockAttempt, LockHolder, ProjectLock, has_no_locks};
pub use named_file::{append_named, copy_named, write_named};
pub use output_cache::{FinishedOutput, Lookup, OutputCache, Resumes};
pub use plan_cache::{CachedSource, CompilerId, NoOpConditions, PlanSources, WatchedOutput, WatchedPaths, WatchedTask};
pub use portable_output::{
    IncomingOutput, PartialFile, PortableItem, digest_of, free_bytes, leads_out, link_escape, unfit,
};
pub use record::TaskRecord;
pub use state_folder::{ArrayFiles, OutputPlace, StateFolder, StateItems, is_full, place_of_output};
