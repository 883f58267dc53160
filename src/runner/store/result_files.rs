//! What a measurement leaves in its output folder.

use std::path::Path;

use base::files::is_whole_json;

pub const RESULT_FILES: [&str; 2] = ["result.json", "sweep.json"];

/// Whether a folder has a result that was written to its end, whatever its verdict.
pub fn has_result(folder: &Path) -> bool {
    RESULT_FILES.iter().any(|file| is_whole_json(&folder.join(file)))
}
