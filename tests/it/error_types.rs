//! An error in `src` is a type and not a text: a caller decides by what it is, and a user reads its `Display`.

use crate::sources::{Token, sources, tokens};

#[test]
fn errors_are_types() {
    let mut wrong = Vec::new();
    for file in sources() {
        let lines = text_errors(&tokens(&file.text));
        wrong.extend(lines.into_iter().map(|line| format!("{}:{line}", file.path)));
    }
    assert!(wrong.is_empty(), "errors that are texts; make them enums (thiserror):\n{}", wrong.join("\n"));
}

#[test]
fn a_text_for_an_error_is_found() {
    let found = |text: &str| text_errors(&tokens(text));
    for text in [
        "fn f() -> Result<(), String> {}",
        "fn f() -> Result<\n    Vec<(u8, String)>,\n    String,\n> {}",
        "fn f(g: impl Fn(u8) -> Result<u8, String>) {}",
        "fn f() -> Result<(), Vec<String>> {}",
        "fn f() -> Result<\n    Self,\n    Vec<String>,\n> {}",
        "impl FromStr for X { type Err = String; }",
        "impl FromStr for X { type Err = Vec<String>; }",
        "impl TryFrom<u8> for X { type Error = String; }",
    ] {
        assert_eq!(found(text).len(), 1, "{text}");
    }
    for text in [
        "fn f() -> Result<String, Failure> {}",
        "fn f() -> Result<BTreeMap<String, String>, Failure> {}",
        "fn f() -> Result<BTreeMap<String, Vec<String>>, Failure> {}",
        "fn f() -> Result<Vec<Vec<String>>, Failure> {}",
        "fn f() -> io::Result<String> {}",
        "// Result<(), String>",
        "const S: &str = \"Result<(), String>\";",
    ] {
        assert_eq!(found(text).len(), 0, "{text}");
    }
}

/// The lines of `Result<…, String>`, `type Err = String` and `type Error = String`, each with `Vec<String>` in its place, too.
fn text_errors(tokens: &[Token]) -> Vec<usize> {
    let is = |at: usize, word: &str| tokens.get(at).is_some_and(|token| token.text == word);
    let is_text_or_texts = |at: usize| is(at, "String") || is(at, "Vec") && is(at + 1, "<") && is(at + 2, "String");
    let is_text = |at: usize| match tokens[at].text.as_str() {
        "Result" if is(at + 1, "<") => last_argument(tokens, at + 2).is_some_and(is_text_or_texts),
        "Err" | "Error" => at > 0 && is(at - 1, "type") && is(at + 1, "=") && is_text_or_texts(at + 2),
        _ => false,
    };
    (0..tokens.len()).filter(|at| is_text(*at)).map(|at| tokens[at].line).collect()
}

/// Where the last of several generic arguments begins, if it is one word or one type with arguments of its own. `at` is behind the `<`.
fn last_argument(tokens: &[Token], at: usize) -> Option<usize> {
    let (mut depth, mut begin) = (0_u32, None::<usize>);
    for here in at..tokens.len() {
        match tokens[here].text.as_str() {
            "<" | "(" | "[" => depth += 1,
            // Of an arrow.
            ">" if tokens[here - 1].text == "-" => {}
            ">" if depth == 0 => {
                return begin.filter(|begin| begin + 1 == here || matches!(tokens[begin + 1].text.as_str(), "," | "<"));
            }
            ">" | ")" | "]" => depth -= 1,
            "," if depth == 0 && tokens[here + 1].text != ">" => begin = Some(here + 1),
            _ => {}
        }
    }
    None
}
