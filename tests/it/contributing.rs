//! CONTRIBUTING.md: the places that its recipes name are there.

use std::fs;
use std::path::Path;

use regex::Regex;

#[test]
fn the_recipes_name_files_and_tables_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let paths = Regex::new(r"`((?:src|tests|schemas)(?:/[\w.-]+)*)`").unwrap();
    let missing: Vec<&str> = paths
        .captures_iter(&text)
        .map(|path| path.get(1).unwrap().as_str())
        .filter(|path| !root.join(path).exists())
        .collect();
    assert!(missing.is_empty(), "no such file: {missing:?}");
    // "`NAME` in `path`": the name is a word of that file.
    let places = Regex::new(r"(?s)`([\w!]+)`(?: with \w+)?\s+in\s+`(src/[\w./-]+\.rs)`").unwrap();
    let mut tables = 0;
    for place in places.captures_iter(&text) {
        let (name, path) = (place[1].trim_end_matches('!'), &place[2]);
        let file = fs::read_to_string(root.join(path)).unwrap();
        assert!(Regex::new(&format!(r"\b{name}\b")).unwrap().is_match(&file), "`{name}` is not in {path}");
        tables += 1;
    }
    assert!(tables >= 8, "only {tables} places are named");
}
