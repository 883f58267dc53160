//! Texts of the project: their spelling is American, and names in the diagrams of module docs are those of the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use walkdir::WalkDir;

use crate::sources::sources;

/// Parts of words of British spelling. `cancelled` and `judgement` are right in both, and the former is in results.
const BRITISH: [&str; 26] = [
    "behaviour",
    "colour",
    "favour",
    "honour",
    "labelled",
    "learnt",
    "licence",
    "modelled",
    "neighbour",
    "analyse",
    "finalis",
    "generalis",
    "initialis",
    "maximis",
    "minimis",
    "normalis",
    "optimisation",
    "optimise",
    "organis",
    "recognis",
    "serialis",
    "specialis",
    "summaris",
    "synchronis",
    "tokenis",
    "utilis",
];
/// Keys of results: one that is kept for those who read it, and an earlier one that is still read.
const KEPT: [&str; 2] = ["modelled_ms", "\"retokenised\""];
const TEXTS: [&str; 7] = ["README.md", "CHANGELOG.md", "src", "tests/manual", "templates", "manifests", "schemas"];

#[test]
fn the_spelling_is_american() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let files =
        TEXTS.iter().flat_map(|text| WalkDir::new(root.join(text))).map(|item| item.expect("texts can be read"));
    for file in files.filter(|item| item.file_type().is_file()) {
        // A picture is no text.
        let Ok(text) = fs::read_to_string(file.path()) else { continue };
        let without_kept = |line: &str| KEPT.iter().fold(line.to_lowercase(), |line, kept| line.replace(kept, ""));
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, without_kept(line)));
        for (line, lower) in lines {
            let british = BRITISH.iter().filter(|part| lower.contains(**part));
            found.extend(british.map(|part| format!("{}:{line}: {part}", file.path().display())));
        }
    }
    assert!(found.is_empty(), "British spelling:\n{}", found.join("\n"));
}

/// Programs and projects, which no code defines.
const PROPER_NAMES: [&str; 2] = ["LoadGen", "Regatta"];

#[test]
fn the_diagrams_of_module_docs_name_types_that_exist() {
    let files = sources();
    let mut known: BTreeSet<&str> = PROPER_NAMES.into();
    for file in &files {
        let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
        known.extend(code.flat_map(words));
    }
    let mut unknown = Vec::new();
    for file in &files {
        let mut is_diagram = false;
        let docs = file.text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, line.strip_prefix("//!")?)));
        for (line, text) in docs {
            if text.contains("```") {
                is_diagram = !is_diagram && text.contains("```text");
            } else if is_diagram {
                let missing = words(text).filter(|word| is_type_name(word) && !known.contains(word));
                unknown.extend(missing.map(|word| format!("src/{}:{line}: {word}", file.path)));
            }
        }
    }
    assert!(unknown.is_empty(), "no code has these names:\n{}", unknown.join("\n"));
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// `Plan`, `RunState`; not `JSON`, `GPU` or `plan`.
fn is_type_name(word: &str) -> bool {
    let mut letters = word.chars();
    letters.next().is_some_and(char::is_uppercase) && letters.next().is_some_and(char::is_lowercase)
}
