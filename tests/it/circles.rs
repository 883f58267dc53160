//! No circle of imports among the files of a room is larger than two, and the folders of `harness` and of `interop` use each other as their
//! pages draw them.
//!
//! A path counts as an import of the file that defines its last known name, whatever re-exports lie between: `use super::Name`
//! is an import of the file where `Name` is, and a `pub use` in a `mod.rs` is none. Tests inside the files are left out.

use std::collections::{BTreeMap, BTreeSet};

use pretty_assertions::assert_eq;

use crate::architecture::{File, Token, sources, tokens};

const LARGEST: usize = 2;
/// How many re-exports a name is followed through.
const DEEPEST: usize = 12;

/// A module's place below `crate`: `["harness", "drive"]`.
type Place = Vec<String>;

/// One `use`: the written path, the name that it gives to the last part, and whether it is a re-export.
struct Import {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// What a file says about names.
struct Module {
    file: String,
    /// Items that are defined at its top.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in its code, outside of `use`.
    paths: Vec<Vec<String>>,
}

#[test]
fn no_circle_of_files_is_larger_than_two() {
    let found = circles(&sources());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_circle_of_files_is_found_through_doors_and_use() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let through_a_door = [
        file("lib.rs", "pub mod room;"),
        file("room/mod.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\nuse c::C;\n"),
        file("room/a.rs", "use super::b;\npub struct A(b::B);\n"),
        file("room/b.rs", "use super::C;\npub struct B(C);\n"),
        file("room/c.rs", "pub struct C;\nimpl C { fn f(_: crate::room::A) {} }\n"),
    ];
    assert_eq!(circles(&through_a_door), [["room/a.rs", "room/b.rs", "room/c.rs"]]);
    let of_two_and_in_tests = [
        file("lib.rs", "pub mod room;"),
        file("room/mod.rs", "mod a;\nmod b;\nmod c;\n"),
        file("room/a.rs", "use super::b::B;\npub struct A(B);\n"),
        file("room/b.rs", "use super::a::A;\npub struct B(A);\n"),
        file("room/c.rs", "pub struct C;\n#[cfg(test)]\nmod tests { use crate::room::a::A; }\n"),
    ];
    assert_eq!(circles(&of_two_and_in_tests), Vec::<Vec<String>>::new());
}

#[test]
fn the_folders_of_a_room_with_a_drawing_use_those_to_the_left_only() {
    for room in ["harness", "interop"] {
        assert_eq!(uses_to_the_right(room, &sources()), Vec::<String>::new(), "{room}");
    }
}

#[test]
fn a_use_to_the_right_is_found() {
    let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
    let files = [
        file("lib.rs", "pub mod room;"),
        file("room/mod.rs", "//! ```text\n//!  a  b ← c\n//! ```\nmod a;\nmod b;\nmod c;\npub use b::B;\nmod d;\n"),
        file("room/a/mod.rs", "mod part;\n"),
        file("room/a/part.rs", "use crate::room::B;\n"),
        file("room/b.rs", "pub struct B;\nfn f() { super::c::f() }\n"),
        file("room/c.rs", "use crate::room::B;\npub fn f() {}\n"),
        file("room/d.rs", ""),
    ];
    assert_eq!(uses_to_the_right("room", &files), ["room/a/part.rs: b", "room/b.rs: c", "room/d.rs is not drawn"]);
}

/// Files of a room that use a folder which the drawing of its page, `a  b ← c`, does not have to the left of their own.
fn uses_to_the_right(room: &str, files: &[File]) -> Vec<String> {
    let page = files.iter().find(|file| file.path == format!("{room}/mod.rs")).expect("a page");
    let lines = page.text.lines().filter_map(|line| line.strip_prefix("//!"));
    let drawing: Vec<&str> =
        lines.skip_while(|line| !line.contains(" ← ")).take_while(|line| !line.trim().starts_with("```")).collect();
    assert!(!drawing.is_empty(), "{room}/mod.rs has no drawing");
    let drawing = drawing.join(" ");
    let mut levels: BTreeMap<&str, usize> = BTreeMap::new();
    for (level, folders) in drawing.split('←').enumerate() {
        levels.extend(folders.split_whitespace().map(|folder| (folder, level)));
    }
    let modules = modules(files);
    let inside = |place: &Place| (place.len() > 1 && place[0] == room).then(|| place[1].clone());
    let mut found = BTreeSet::new();
    for (place, used) in imports(&modules) {
        let (Some(own), file) = (inside(place), &modules[place].file) else { continue };
        let Some(level) = levels.get(own.as_str()) else {
            found.insert(format!("{file} is not drawn"));
            continue;
        };
        let others = used.iter().filter_map(inside).filter(|other| *other != own);
        found.extend(
            others
                .filter(|other| levels.get(other.as_str()).is_none_or(|other| other >= level))
                .map(|other| format!("{file}: {other}")),
        );
    }
    found.into_iter().collect()
}

/// Of each module, the others in which the items are defined that it uses.
fn imports(modules: &BTreeMap<Place, Module>) -> BTreeMap<&Place, BTreeSet<Place>> {
    let mut imports: BTreeMap<&Place, BTreeSet<Place>> = BTreeMap::new();
    for (place, module) in modules {
        let written = module.imports.iter().filter(|import| !import.is_public).map(|import| &import.path);
        let found = written.chain(&module.paths).filter_map(|path| definer(modules, path, place));
        imports.insert(place, found.filter(|other| other != place).collect());
    }
    imports
}

/// The files of each circle that is too large.
fn circles(files: &[File]) -> Vec<Vec<String>> {
    let modules = modules(files);
    let imports = imports(&modules);
    let reach: BTreeMap<&Place, BTreeSet<&Place>> =
        modules.keys().map(|place| (place, reachable(place, &imports))).collect();
    let mut circles: BTreeSet<Vec<String>> = BTreeSet::new();
    for place in modules.keys() {
        let members = reach[place].iter().filter(|other| reach[*other].contains(place));
        circles.insert(members.map(|member| modules[*member].file.clone()).collect());
    }
    circles.into_iter().filter(|circle| circle.len() > LARGEST).collect()
}

fn reachable<'a>(from: &'a Place, imports: &'a BTreeMap<&Place, BTreeSet<Place>>) -> BTreeSet<&'a Place> {
    let (mut found, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(place) = open.pop() {
        for next in imports.get(place).into_iter().flatten() {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

/// The module with the item that a path leads to, as written in `at`. `None`: another crate's, or a local name.
fn definer(modules: &BTreeMap<Place, Module>, path: &[String], at: &Place) -> Option<Place> {
    // A path in code may go on behind the item: `Type::new`.
    (1..=path.len()).rev().find_map(|length| resolve(modules, &path[..length], at, 0))
}

fn resolve(modules: &BTreeMap<Place, Module>, path: &[String], at: &Place, depth: usize) -> Option<Place> {
    if depth > DEEPEST {
        return None;
    }
    let mut place = if path[0] == "crate" { Vec::new() } else { at.clone() };
    let mut rest = path;
    while let Some((first, behind)) = rest.split_first().filter(|(first, _)| is_upwards(first)) {
        if first == "super" {
            place.pop();
        }
        rest = behind;
    }
    while let Some((name, behind)) = rest.split_first() {
        let child: Place = place.iter().cloned().chain([name.clone()]).collect();
        if modules.contains_key(&child) {
            (place, rest) = (child, behind);
            continue;
        }
        let module = modules.get(&place)?;
        if module.items.contains(name) {
            return Some(place);
        }
        let named = module.imports.iter().filter(|import| import.name == *name && import.path[..] != [name.clone()]);
        let every = module.imports.iter().filter(|import| import.name == "*");
        let named = named.map(|import| [&import.path[..], behind].concat());
        let every = every.map(|import| [&import.path[..import.path.len() - 1], rest].concat());
        return named.chain(every).find_map(|path| resolve(modules, &path, &place, depth + 1));
    }
    Some(place)
}

fn is_upwards(part: &str) -> bool {
    matches!(part, "crate" | "self" | "super")
}

/// All modules that are declared outside of tests.
fn modules(files: &[File]) -> BTreeMap<Place, Module> {
    let mut all = BTreeMap::new();
    let mut declared: BTreeSet<Place> = BTreeSet::from([Place::new()]);
    for file in files.iter().filter(|file| file.path != "main.rs") {
        let mut place: Place = file.path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        if matches!(place.last().map(String::as_str), Some("mod" | "lib")) {
            place.pop();
        }
        let tokens = without_tests(&tokens(&file.text));
        for at in 0..tokens.len().saturating_sub(2) {
            if tokens[at] == "mod" && tokens[at + 2] == ";" {
                declared.insert(place.iter().cloned().chain([tokens[at + 1].clone()]).collect());
            }
        }
        all.insert(place, module(file, &tokens));
    }
    all.retain(|place: &Place, _| (0..=place.len()).all(|length| declared.contains(&place[..length])));
    all
}

fn module(file: &File, tokens: &[String]) -> Module {
    const KINDS: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
    let mut module = Module { file: file.path.clone(), items: BTreeSet::new(), imports: Vec::new(), paths: Vec::new() };
    let text = |at: usize| tokens.get(at).map_or("", String::as_str);
    let (mut at, mut depth) = (0, 0_i32);
    while at < tokens.len() {
        match text(at) {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            "use" if at == 0 || matches!(text(at - 1), ";" | "}" | "{" | "pub" | ")" | "]") => {
                let is_public = at > 0 && matches!(text(at - 1), "pub" | ")");
                at = import(tokens, at + 1, &[], is_public, &mut module.imports);
                continue;
            }
            "macro_rules" if depth == 0 => drop(module.items.insert(text(at + 2).to_owned())),
            kind if depth == 0 && KINDS.contains(&kind) => drop(module.items.insert(text(at + 1).to_owned())),
            first if is_name(first) && (text(at + 1), text(at + 2)) == (":", ":") => {
                let mut path = vec![first.to_owned()];
                while (text(at + 1), text(at + 2)) == (":", ":") && is_name(text(at + 3)) {
                    path.push(text(at + 3).to_owned());
                    at += 3;
                }
                module.paths.push(path);
            }
            _ => {}
        }
        at += 1;
    }
    module
}

/// Reads one branch of a `use`, and returns the place behind it.
fn import(tokens: &[String], mut at: usize, stem: &[String], is_public: bool, found: &mut Vec<Import>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", String::as_str);
    let mut path = stem.to_vec();
    loop {
        if text(at) == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                at = import(tokens, at, &path, is_public, found);
                at += usize::from(text(at) == ",");
            }
            return at + 1;
        }
        path.push(text(at).to_owned());
        at += 1;
        if (text(at), text(at + 1)) == (":", ":") {
            at += 2;
            continue;
        }
        let mut name = None;
        if text(at) == "as" {
            name = Some(text(at + 1).to_owned());
            at += 2;
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned()).unwrap_or_default();
        found.push(Import { path, name, is_public });
        return at;
    }
}

fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Leaves out every item under `#[cfg(test)]`.
fn without_tests(tokens: &[Token]) -> Vec<String> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_mark = tokens[at..].iter().zip(MARK).filter(|(token, mark)| token.text == *mark).count() == MARK.len();
        if !is_mark {
            kept.push(tokens[at].text.clone());
            at += 1;
            continue;
        }
        at += MARK.len();
        let mut depth = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token.text.as_str() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text.as_str(), ";" | "}") {
                break;
            }
        }
    }
    kept
}
