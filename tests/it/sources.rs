//! What the compiler does not hold of the sources.
//!
//! Text only: comments and string literals are blanked, then words are read token by token.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use walkdir::WalkDir;

const LONGEST: usize = 600;
const MAY_PRINT: [&str; 3] = ["app", "cli", "report"];

/// A source file: its path below `src`, with `/`, and its text.
pub struct File {
    pub path: String,
    pub text: String,
}

#[test]
fn every_file_keeps_to_the_rules() {
    let found: Vec<String> = sources().iter().flat_map(violations).collect();
    assert!(found.is_empty(), "{} places:\n{}", found.len(), found.join("\n"));
}

#[test]
fn a_file_that_breaks_a_rule_is_found() {
    let breaches = |path: &str, text: &str| violations(&File { path: path.to_owned(), text: text.to_owned() });
    for text in [
        "//! A.\n// println!(\"\")\n/* println! */ const S: &str = \"println!() // \\\" \";\n",
        "//! A.\nconst S: &str = r#\"\"println!\"#;\nfn f<'a>(c: &'a str) { let _ = ('\"', '\\'', c); }\n",
    ] {
        assert_eq!(breaches("high/lib.rs", text), Vec::<String>::new(), "{text}");
    }
    for (text, expected) in [
        ("use low::X;\n", "does not open with `//!`"),
        ("//! A.\nfn f() { println!(\"x\") }\n", "prints"),
        ("//! A.\nfn f() { todo!() }\n", "unfinished"),
        ("//! A.\n// FIXME: later\n", "unfinished"),
        ("//! A.\nfn f() { fs::read(\"x\") }\n", "takes pipes"),
        (&*format!("//! A.\n{}", "// on and on\n".repeat(LONGEST)), "lines"),
    ] {
        let found = breaches("high/lib.rs", text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text:?} gave {found:?}, not {expected:?}");
    }
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
    for file in sources().into_iter().filter(|file| !file.path.ends_with("_stub.rs")) {
        for line in file.text.lines().map(str::trim_start).filter(|line| line.starts_with("pub")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let kind = words.iter().position(|word| KINDS.contains(word)).filter(|at| *at <= 2);
            let name = kind
                .and_then(|at| words.get(at + 1))
                .map(|name| name.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>());
            // The name of a type that a macro makes is a variable.
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                places.entry(name).or_default().push(file.path.clone());
            }
        }
    }
    assert!(places.len() > 500, "types are found: {}", places.len());
    let shared: Vec<_> = places.into_iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(shared.is_empty(), "{shared:#?}");
}

/// What the language of the project rules out, by pattern, and how often the sources still have it. A ceiling only falls: whoever
/// comes below it writes the new number here.
const CEILINGS: [(&str, &str, usize); 7] = [
    ("a function `of`: parse, read, new or a noun says what it does", r"\bfn of\b", 5),
    ("a local name that names nothing", r"\blet (mut )?(of|what|found|why|one|all|known|own|put)\b *[:=]", 33),
    (
        "a comment that riddles",
        r"^\s*//.*\b([Nn]obody|[Ss]omebody|[Ww]hoever|is none|is no |are none|[Tt]heirs|stands? there|comes? in|behind the|beside it)\b",
        16,
    ),
    ("a hint inside a message: it is a field of the diagnostic", r"\\n  hint: ", 0),
    ("a line of more than 120 characters", r"^.{121,}$", 0),
    ("`rustfmt::skip`", r"rustfmt::skip", 0),
    (
        "`matches!` on the kind of an action: a property of the action cannot be forgotten",
        r"matches!\(.*ActionKind::",
        0,
    ),
];

#[test]
fn what_the_language_rules_out_does_not_come_back() {
    let sources = sources();
    for (rule, pattern, ceiling) in CEILINGS {
        let pattern = regex::Regex::new(pattern).expect("a pattern");
        let lines = |file: &File| file.text.lines().filter(|line| pattern.is_match(line)).count();
        let places: usize = sources.iter().map(lines).sum();
        assert!(places <= ceiling, "{rule}: {places} lines, and the ceiling is {ceiling}");
        assert!(places == ceiling, "{rule}: {places} lines now; write this number as the ceiling, which is {ceiling}");
    }
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

/// Everything in a file that is against the rules, as `file:line: what`.
fn violations(file: &File) -> Vec<String> {
    let mut found = Vec::new();
    let room = file.path.split('/').next().unwrap_or_default();
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
    let tokens = tokens(&file.text);
    // Tests read what they wrote.
    let is_test_module = |at: &usize| tokens[at + 1].text.ends_with("tests") && tokens[at + 2].text == "{";
    let modules = sequence(&tokens, &["mod"]).into_iter().filter(|at| at + 2 < tokens.len());
    let first_test = modules.filter(is_test_module).min().unwrap_or(tokens.len());
    let is_test = file.path.ends_with("tests.rs") || file.path.contains("/tests/");
    for read in ["read", "read_to_string"] {
        let reads = sequence(&tokens[..first_test], &["fs", ":", ":", read, "("]);
        for at in reads.into_iter().filter(|_| !is_test && !file.path.starts_with("base/files/")) {
            report(tokens[at].line, format!("`fs::{read}` takes pipes and any size: `files` reads whole files"));
        }
    }
    for print in ["println", "eprintln", "print", "eprint"] {
        // A build script prints for cargo.
        if !MAY_PRINT.contains(&room) && !Path::new(&file.path).ends_with("build.rs") {
            for at in sequence(&tokens, &[print, "!"]) {
                report(tokens[at].line, format!("`{room}` prints"));
            }
        }
    }
    found
}
