//! Result files: which tool wrote a file and what is in it ([`import_runs`]), and a run in the formats of other tools ([`export`]).
//!
//! Each tool reads and writes its own files with the means of `results`; here is what knows all of them.

mod export_error;
mod imported_sweep;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "parquet_left_out.rs"]
mod parquet;
mod read;
mod request_columns;
mod write;

pub use export_error::ExportError;
pub use imported_sweep::{ImportedSweep, LocatedRun, import_sweep};
pub use read::{ImportError, ImportSource, Imported, import_runs};
pub use request_columns::{COLUMNS, Column, schema as requests_schema};
pub use write::{ExportFormat, export};
