//! Results of MLPerf Endpoints, the newer path beside LoadGen's, are recognized by their files and not judged here.

use std::path::{Path, PathBuf};

use walkdir::WalkDir;

/// The message for such a folder.
pub const NOT_SUPPORTED: &str = "results of MLPerf Endpoints are not supported: only MLPerf Inference's results with \
    LoadGen's logs are checked, compared and assembled";

/// Where their own checker is.
pub const OWN_CHECKER: &str = "`submission-checker check FOLDER` of the package endpoints-submission-cli checks them";

/// Files that only the client of MLPerf Endpoints and its submission tools write.
const FILES: [&str; 4] =
    ["performance/result_summary.json", "accuracy/accuracy_results.json", "point.yaml", "points/point_1.yaml"];

/// Whether a folder is the result of such a run: its own files, and no log of LoadGen.
pub fn is_endpoints_result(folder: &Path) -> bool {
    FILES.iter().any(|file| folder.join(file).is_file())
        && !folder.join("performance/run_1").join(rules::log::DETAIL_FILE).is_file()
}

/// The first such result at or below a folder.
pub fn endpoints_result(root: &Path) -> Option<PathBuf> {
    let walk = WalkDir::new(root).sort_by_file_name().into_iter().flatten();
    walk.filter(|item| item.file_type().is_dir())
        .map(walkdir::DirEntry::into_path)
        .find(|path| is_endpoints_result(path))
}
