//! Result files: which tool wrote a file and what is in it ([`import`]), and a run in the formats of other tools ([`export`]).

pub(super) mod exported;
pub(super) mod identity;
pub(super) mod imported;
mod imported_sweep;
mod parquet;
mod read;
mod timeslices;
mod write;

pub use exported::{ExportFile, Exported};
pub use imported_sweep::{ImportedSweep, LocatedRun, import_sweep};
pub use parquet::{COLUMNS, Column, schema as requests_schema};
pub use read::{FORMATS, ImportError, ImportSource, Imported, import, import_runs};
pub use write::{ExportFormat, export};
