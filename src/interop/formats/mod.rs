//! Result files: which tool wrote a file and what is in it ([`import_runs`]), and a run in the formats of other tools
//! ([`export()`]).
//!
//! `formats.toml` is the table of the formats that are read; a format whose numbers stand at places of a JSON object is
//! a row of it. Code is for texts that were printed (`printed`), and for requests one by one (`records`).
//! `other-files.toml` has the files that are recognized and not read, with what to do instead.
//!
//! ```text
//!  files ─ located_runs ─→ printed · JSON ─ file_format (formats.toml) · records ─ read ─→ Imported ─ a sweep
//!  MeasuredRun ─ export ─→ export_genai_perf ─→ files
//! ```

mod export;
mod export_genai_perf;
mod file_format;
mod import_identity;
mod imported_sweep;
mod located_runs;
mod printed;
mod read;
mod records;

pub use export::{ExportFile, ExportFormat, Exported, export};
pub use file_format::OtherFile;
pub use import_identity::ImportIdentity;
pub use imported_sweep::{ImportedSweep, import_sweep};
pub use located_runs::{LocatedRun, LocatedRuns, loadgen_run, locate_runs};
pub use read::{ImportError, ImportSource, Imported, import_runs};
