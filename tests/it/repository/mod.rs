//! Model repositories: what `regatta repository` says of them, beside what the real server does with them.

mod checking;
mod filling;
mod generated;
mod mutated;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};

/// A file of this chapter.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/repository").join(name)
}

/// Holds a text against its golden file; `UPDATE=1` writes the file.
#[track_caller]
fn same_as_golden(name: &str, text: &str) {
    let path = golden(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).expect("the golden file is written");
    }
    let expected = fs::read_to_string(&path).expect("the golden file is there");
    pretty_assertions::assert_eq!(text, expected, "{}", path.display());
}

/// A Python model that answers nothing, in the place of a real one.
fn program() -> String {
    fs::read_to_string(golden("base/model.py")).expect("the program")
}
