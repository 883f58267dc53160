//! The page that `src/lib.rs` opens with is true: the code is held against its table of rooms.
//!
//! Text only, no compiler: comments and string literals are blanked, then `crate::…` paths are read token by token.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pretty_assertions::assert_eq;
use walkdir::WalkDir;

const LONGEST: usize = 600;
const MAY_PRINT: [&str; 3] = ["app", "cli", "report"];

/// What the page says.
struct Page {
    /// Room → the rooms that it may use, in the order of the table.
    rooms: BTreeMap<String, BTreeSet<String>>,
    /// Parts of rooms that others may enter, as `room::part`.
    inner_doors: BTreeSet<String>,
}

/// A source file: its path below `src`, with `/`, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

/// A path that starts at `crate`, without it: `["event", "Done"]`.
type Use = Vec<String>;

#[test]
fn the_code_keeps_to_the_page_that_it_opens_with() {
    let files = sources();
    let found = violations(&Page::read(), &files);
    assert!(found.is_empty(), "{} places break what src/lib.rs promises:\n{}", found.len(), found.join("\n"));
}

#[test]
fn every_folder_has_a_row_and_every_row_a_folder() {
    let rows: Vec<String> = Page::read().rooms.into_keys().collect();
    let folders: BTreeSet<String> =
        sources().iter().filter_map(|file| file.path.split_once('/')).map(|(room, _)| room.to_owned()).collect();
    assert_eq!(rows, folders.into_iter().collect::<Vec<_>>());
}

#[test]
fn one_file_may_be_unsafe_and_says_why_at_each_place() {
    const DOOR: &str = "mlperf/loadgen/ffi.rs";
    let mut blocks = 0;
    for file in sources() {
        let found = sequence(&tokens(&file.text), &["unsafe"]);
        assert!(found.is_empty() || file.path == DOOR, "{} has `unsafe`, and only {DOOR} may", file.path);
        let lifts =
            ["allow", "expect"].iter().flat_map(|word| sequence(&tokens(&file.text), &[word, "(", "unsafe_code"]));
        assert_eq!(lifts.count(), usize::from(file.path == DOOR), "{}", file.path);
        let lines: Vec<&str> = file.text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.contains("unsafe {") && !line.contains("//")) {
            blocks += 1;
            let above = lines[..at].iter().rev().take(4);
            assert!(above.clone().any(|line| line.contains("SAFETY:")), "{}:{}: no SAFETY comment", file.path, at + 1);
        }
    }
    assert!(blocks > 5, "only {blocks} blocks found");
}

/// A reader of one name finds one type. Stand-ins for what is behind one of Cargo's features have its names.
#[test]
fn no_two_exported_types_share_a_name() {
    const KINDS: [&str; 5] = ["struct", "enum", "trait", "type", "union"];
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources().into_iter().filter(|file| !file.path.ends_with("left_out.rs")) {
        for line in file.text.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kind = words.iter().position(|word| KINDS.contains(word)).filter(|at| *at <= 2);
            let name = kind
                .and_then(|at| words.get(at + 1))
                .map(|name| name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>());
            if let Some(name) = name {
                places.entry(name).or_default().push(file.path.clone());
            }
        }
    }
    assert!(places.len() > 500, "types are found: {}", places.len());
    let shared: Vec<_> = places.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "{shared:#?}");
}

#[test]
fn the_table_has_no_circle() {
    assert_eq!(circle(&Page::read().rooms), None);
    let round = |a: &str, b: &str| (a.to_owned(), BTreeSet::from([b.to_owned()]));
    let found = circle(&BTreeMap::from([round("a", "b"), round("b", "c"), round("c", "a")]));
    assert_eq!(found, Some(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]));
}

#[test]
fn nothing_is_allowed_that_no_room_needs() {
    let page = Page::read();
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in sources() {
        let used = used.entry(file.room().to_owned()).or_default();
        used.extend(uses(&tokens(&file.text)).into_iter().filter_map(|path| path.into_iter().next()));
    }
    // Whoever may use all need not.
    let some = page.rooms.iter().filter(|(_, allowed)| allowed.len() + 1 < page.rooms.len());
    let idle: Vec<String> = some
        .flat_map(|(room, allowed)| allowed.difference(&used[room]).map(move |other| format!("`{room}` → `{other}`")))
        .collect();
    assert!(idle.is_empty(), "src/lib.rs allows what nobody does; take it out: {}", idle.join(", "));
}

#[test]
fn a_breach_is_found() {
    let page = Page::parse(
        "//! | room | in one sentence | may use |\n//! |---|---|---|\n\
         //! | `high` | above | low |\n//! | `low` | below | – |\n//!\n//! Doors of their own: `low::words`.\n",
    );
    let breaches = |path: &str, text: &str| violations(&page, &[File { path: path.to_owned(), text: text.to_owned() }]);
    let one = |path: &str, text: &str, expected: &str| {
        let found = breaches(path, text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text:?} gave {found:?}, not {expected:?}");
    };

    // What is allowed, and what only looks like a breach.
    for text in [
        "//! A.\nuse crate::low::{self, Thing};\nuse crate::low::words::Word;\n",
        "//! A.\n// crate::nowhere::X, println!(\"\")\n/* crate::nowhere */ const S: &str = \"crate::nowhere // \\\" \";\n",
        "//! A.\nconst S: &str = r#\"\"crate::nowhere println!\"#;\nfn f<'a>(c: &'a str) { let _ = ('\"', '\\'', c); }\n",
        "//! A.\nuse crate::high::part::Inner;\nuse super::part;\n",
    ] {
        assert_eq!(breaches("high/mod.rs", text), Vec::<String>::new(), "{text}");
    }

    one("low/mod.rs", "//! A.\nuse crate::high::X;\n", "low/mod.rs:2: `low` may not use `high`");
    one("low/a.rs", "//! A.\nfn f() { crate::high::x() }\n", "low/a.rs:2: `low` may not use `high`");
    one("low/a.rs", "//! A.\nuse crate::{\n    low::B,\n    high::{self, X},\n};\n", "`low` may not use `high`");
    one("low/a.rs", "//! A.\nuse super::super::high::X;\n", "leaves its room through `super`");
    one("high/mod.rs", "//! A.\nuse crate::low::part::{X, Y};\n", "`low::part` is not a door");
    one("high/mod.rs", "//! A.\npub mod part;\n", "`high::part` is a door that the page does not name");
    one("high/mod.rs", "use crate::low::X;\n", "does not open with `//!`");
    one("high/mod.rs", "//! A.\nfn f() { println!(\"x\") }\n", "prints");
    one("high/mod.rs", "//! A.\nfn f() { todo!() }\n", "unfinished");
    one("high/mod.rs", "//! A.\n// FIXME: later\n", "unfinished");
    one("high/mod.rs", &format!("//! A.\n{}", "// on and on\n".repeat(LONGEST)), "lines");
    one("other/mod.rs", "//! A.\n", "`other` has no row");
}

pub fn sources() -> Vec<File> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for item in WalkDir::new(&src).sort_by_file_name() {
        let item = item.expect("src can be read");
        if item.path().extension().is_some_and(|end| end == "rs") {
            let path = item.path().strip_prefix(&src).expect("below src").to_str().expect("UTF-8").to_owned();
            files.push(File { path, text: fs::read_to_string(item.path()).expect("src can be read") });
        }
    }
    assert!(files.len() > 50, "only {} files found below {}", files.len(), src.display());
    files
}

impl Page {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs");
        Self::parse(&fs::read_to_string(path).expect("src/lib.rs"))
    }

    /// Rows have three columns, the first in back quotes, the last `all`, `–` or names; the line on inner doors starts with `Doors of their own:`.
    fn parse(text: &str) -> Self {
        let docs = || text.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim);
        let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in docs().filter(|line| line.starts_with("| `")) {
            let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [room, _, allowed] = columns[..] else { panic!("a row needs three columns: {row}") };
            let allowed = allowed.split(',').map(str::trim).filter(|name| *name != "–").map(str::to_owned).collect();
            let before = rooms.insert(room.trim_matches('`').to_owned(), allowed);
            assert!(before.is_none(), "two rows for {room}");
        }
        let all: BTreeSet<String> = rooms.keys().cloned().collect();
        for (room, allowed) in rooms.iter_mut().filter(|(_, allowed)| allowed.contains("all")) {
            *allowed = all.iter().filter(|other| *other != room).cloned().collect();
        }
        let inner =
            docs().skip_while(|line| !line.starts_with("Doors of their own:")).take_while(|line| !line.is_empty());
        let inner: String = inner.collect::<Vec<_>>().join(" ");
        let inner_doors = inner.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        Self { rooms, inner_doors }
    }
}

impl File {
    /// `lib.rs` and `main.rs` are in no room.
    fn room(&self) -> &str {
        self.path.split_once('/').map_or("", |(room, _)| room)
    }
}

/// Everything that is against the page, as `file:line: what`.
fn violations(page: &Page, files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let room = file.room();
        let mut report = |line: usize, what: String| found.push(format!("{}:{line}: {what}", file.path));
        if !file.text.starts_with("//!") {
            report(1, "does not open with `//!`".to_owned());
        }
        let lines = file.text.lines().count();
        if lines > LONGEST {
            report(lines, format!("more than {LONGEST} lines: two concepts?"));
        }
        for (number, line) in file.text.lines().enumerate() {
            if ["TODO", "FIXME", "todo!", "unimplemented!"].iter().any(|word| line.contains(word)) {
                report(number + 1, "unfinished".to_owned());
            }
        }
        if room.is_empty() {
            continue;
        }
        let Some(allowed) = page.rooms.get(room) else {
            report(1, format!("`{room}` has no row in the table"));
            continue;
        };
        let tokens = tokens(&file.text);
        // Tests read what they wrote.
        let first_test = sequence(&tokens, &["mod", "tests", "{"]).first().copied().unwrap_or(tokens.len());
        let is_test = file.path.ends_with("tests.rs") || file.path.contains("/tests/");
        for read in ["read", "read_to_string"] {
            let reads = sequence(&tokens[..first_test], &["fs", ":", ":", read, "("]);
            for at in reads.into_iter().filter(|_| !is_test && room != "files") {
                report(tokens[at].line, format!("`fs::{read}` takes pipes and any size: `files` reads whole files"));
            }
        }
        for print in ["println", "eprintln", "print", "eprint"] {
            if !MAY_PRINT.contains(&room) {
                for at in sequence(&tokens, &[print, "!"]) {
                    report(tokens[at].line, format!("`{room}` prints"));
                }
            }
        }
        let mut reported = BTreeSet::new();
        for (line, path) in placed_uses(&tokens) {
            let Some(other) = path.first().filter(|other| *other != room && page.rooms.contains_key(*other)) else {
                continue;
            };
            let part = path.get(1).filter(|part| part.starts_with(char::is_lowercase));
            let part = part.map(|part| format!("{other}::{part}"));
            // A third word after a name in lower case: that name is a module (or an associated function's type is not).
            let entered = part.filter(|part| path.len() > 2 && !page.inner_doors.contains(part));
            if !allowed.contains(other) {
                if reported.insert(other.clone()) {
                    report(line, format!("`{room}` may not use `{other}`"));
                }
            } else if let Some(part) = entered
                && reported.insert(part.clone())
            {
                report(line, format!("`{part}` is not a door"));
            }
        }
        for at in sequence(&tokens, &["super", ":", ":"]) {
            let ups = tokens[at..].chunks(3).take_while(|chunk| chunk[0].text == "super").count();
            let next = tokens.get(at + 3 * ups).map_or("", |token| &token.text);
            let depth = file.path.split('/').filter(|part| *part != "mod.rs").count();
            if ups >= depth && next != room && page.rooms.contains_key(next) {
                report(tokens[at].line, "leaves its room through `super`".to_owned());
            }
        }
        if file.path == format!("{room}/mod.rs") {
            for at in sequence(&tokens, &["pub", "mod"]) {
                let door = format!("{room}::{}", tokens[at + 2].text);
                if !page.inner_doors.contains(&door) {
                    report(tokens[at].line, format!("`{door}` is a door that the page does not name"));
                }
            }
        }
    }
    found
}

/// A circle of rooms, should there be one.
fn circle(rooms: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(at: &str, trail: &mut Vec<String>, rooms: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
        if let Some(start) = trail.iter().position(|room| room == at) {
            return Some(trail[start..].to_vec());
        }
        trail.push(at.to_owned());
        let found = rooms.get(at)?.iter().find_map(|next| walk(next, trail, rooms));
        trail.pop();
        found
    }
    rooms.keys().find_map(|room| walk(room, &mut Vec::new(), rooms))
}

/// A word or one sign, and its line.
#[derive(Debug)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// Words and signs of Rust text; comments and literals are left out.
pub fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c));
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < chars.len() {
        let from = at;
        let c = chars[at];
        if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                let (open, close) = (starts(at, "/*"), starts(at, "*/"));
                depth = if open { depth + 1 } else { depth - i32::from(close) };
                at += if open || close { 2 } else { 1 };
                if depth == 0 || at >= chars.len() {
                    break;
                }
            }
        } else if let Some(hashes) = raw_string(&chars, at) {
            let end: String = format!("\"{}", "#".repeat(hashes));
            at += chars[at..].iter().position(|c| *c == '"').unwrap_or(0) + 1;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if c == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if c == '\'' && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')) {
            at += if chars[at + 1] == '\\' { 3 } else { 2 };
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if word(c) {
            while at < chars.len() && word(chars[at]) {
                at += 1;
            }
            found.push(Token { text: chars[from..at].iter().collect(), line });
        } else {
            if !c.is_whitespace() {
                found.push(Token { text: c.to_string(), line });
            }
            at += 1;
        }
        at = at.min(chars.len());
        line += chars[from..at].iter().filter(|c| **c == '\n').count();
    }
    found
}

/// Number of `#` of the raw string that starts here: `r"`, `br##"`.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    let rest = &chars[at..];
    let rest = rest.strip_prefix(&['b']).unwrap_or(rest).strip_prefix(&['r'])?;
    let hashes = rest.iter().take_while(|c| **c == '#').count();
    (!after_word && rest.get(hashes) == Some(&'"')).then_some(hashes)
}

/// Where these tokens follow each other.
fn sequence(tokens: &[Token], texts: &[&str]) -> Vec<usize> {
    let is = |window: &[Token]| window.iter().zip(texts).all(|(token, text)| token.text == *text);
    tokens.windows(texts.len()).enumerate().filter(|(_, window)| is(window)).map(|(at, _)| at).collect()
}

fn uses(tokens: &[Token]) -> Vec<Use> {
    placed_uses(tokens).into_iter().map(|(_, path)| path).collect()
}

/// Every `crate::…` path with its line; braces are multiplied out.
fn placed_uses(tokens: &[Token]) -> Vec<(usize, Use)> {
    let mut found = Vec::new();
    for at in sequence(tokens, &["crate", ":", ":"]) {
        branch(tokens, at + 3, &Vec::new(), &mut found);
    }
    found
}

/// Reads one branch of a path, and returns the place behind it.
fn branch(tokens: &[Token], mut at: usize, stem: &Use, found: &mut Vec<(usize, Use)>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| &token.text);
    let line = tokens.get(at).map_or(0, |token| token.line);
    let mut path = stem.clone();
    loop {
        if text(at) == "{" {
            at += 1;
            while !matches!(text(at), "}" | "") {
                at = branch(tokens, at, &path, found);
                if text(at) == "," {
                    at += 1;
                }
            }
            return at + 1;
        }
        path.push(text(at).to_owned());
        at += 1;
        if (text(at), text(at + 1)) == (":", ":") && text(at + 2) != "<" {
            at += 2;
            continue;
        }
        if text(at) == "as" {
            at += 2;
        }
        found.push((line, path));
        return at;
    }
}
