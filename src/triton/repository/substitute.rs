//! `${name}` and `$name` replaced as Python's `string.Template.safe_substitute` does it, which `fill_template.py` uses.

use std::ops::Range;

/// A pair of `key:value,key:value` without exactly one colon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{pair}` has {colons} colons where one belongs (`key:value`; in a value, `\\\\:`)")]
pub struct PairError {
    pair: String,
    colons: usize,
}

/// A placeholder as written in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placeholder {
    pub name: String,
    pub bytes: Range<usize>,
    /// Whether there was a value.
    pub is_filled: bool,
}

/// The text with every known name replaced. `$$` becomes `$`; a `$` before anything else, and an unknown name, stay.
pub fn substitute(text: &str, value: &dyn Fn(&str) -> Option<String>) -> (String, Vec<Placeholder>) {
    let mut out = String::with_capacity(text.len());
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find('$').map(|at| from + at) {
        out.push_str(&text[from..at]);
        let rest = &text[at + 1..];
        let (name, length) = match rest.strip_prefix('{') {
            Some(inner) => {
                let name = identifier(inner);
                if inner[name.len()..].starts_with('}') { (name, name.len() + 3) } else { ("", 1) }
            }
            None => (identifier(rest), identifier(rest).len() + 1),
        };
        let end = at + length;
        if rest.starts_with('$') {
            out.push('$');
            from = at + 2;
            continue;
        }
        let value = if name.is_empty() { None } else { value(name) };
        if !name.is_empty() {
            found.push(Placeholder { name: name.to_owned(), bytes: at..end, is_filled: value.is_some() });
        }
        match value {
            Some(value) => out.push_str(&value),
            None => out.push_str(&text[at..end]),
        }
        from = end;
    }
    out.push_str(&text[from..]);
    (out, found)
}

/// A letter or `_`, then digits too; ASCII only.
fn identifier(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|(at, c)| !(c.is_ascii_alphabetic() || *c == '_' || *at > 0 && c.is_ascii_digit()))
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// The pairs of `key:value,key:value` as `fill_template.py` splits them: a backslash takes the next character as it is,
/// once for the commas and once more for the colons.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, PairError> {
    let mut pairs = Vec::new();
    for pair in split(text, ',') {
        match split(&pair, ':').as_slice() {
            [key, value] => pairs.push((key.clone(), value.clone())),
            parts => {
                let colons = parts.len() - 1;
                return Err(PairError { pair, colons });
            }
        }
    }
    Ok(pairs)
}

fn split(text: &str, delimiter: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        if c == delimiter {
            parts.push(String::new());
        } else if c == '\\' {
            parts[last].extend(chars.next());
        } else {
            parts[last].push(c);
        }
    }
    parts
}
