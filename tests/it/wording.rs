//! Texts of the project: names in the diagrams of module docs are those of the code.

use std::collections::BTreeSet;

use crate::architecture::sources;

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
