//! How deep the code of an expression can nest, by its length: minijinja compiles a long chain (`a + a + a`, `a|f|f`) by calling itself
//! for each link, and bounds only brackets.

use crate::units::size;

/// Bytes between `{{` and `}}`, or `{%` and `%}`. A link of a chain has at least one, and the shortest chain that overflows a stack
/// of 8 MiB has 20,000; the longest expression of a manifest that is shipped has 500.
const LONGEST_CODE: usize = 8 << 10;
/// `{% elif %}` in one text: each is nested in the one before. The shortest chain that overflows has 7,000.
const MOST_BRANCHES: usize = 1000;

/// Why a text is not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{excess}")]
pub struct LongCode {
    excess: CodeExcess,
    /// Where the code begins, in bytes.
    pub at: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum CodeExcess {
    #[error("it has {}, and at most {} are read", size(*.0 as u64), size(LONGEST_CODE as u64))]
    Length(usize),
    #[error("it has more than {MOST_BRANCHES} `elif`")]
    Branches,
}

/// Looks for code that is too long. Where it cannot be certain of an end, it takes the later one.
pub fn check_nesting(text: &str) -> Result<(), LongCode> {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut branches = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('{')) {
        let begin = at + found + 1;
        at = match bytes.get(begin) {
            Some(b'#') => after(text, begin + 1, "#}"),
            Some(kind @ (b'{' | b'%')) => {
                let end = end_of_code(bytes, begin + 1, if *kind == b'{' { b'}' } else { b'%' });
                let code = text.get(begin + 1..end).unwrap_or_default();
                if code.len() > LONGEST_CODE {
                    return Err(LongCode { excess: CodeExcess::Length(code.len()), at: begin });
                }
                let word = code.trim_start_matches(['-', '+']).trim_start();
                branches += usize::from(word.starts_with("elif"));
                if branches > MOST_BRANCHES {
                    return Err(LongCode { excess: CodeExcess::Branches, at: begin });
                }
                if *kind == b'%' && word.trim_end_matches(['-', '+']).trim_end() == "raw" {
                    after(text, end, "endraw")
                } else {
                    end
                }
            }
            _ => begin,
        };
    }
    Ok(())
}

/// Behind the next `end`; the end of the text, if there is none.
fn after(text: &str, from: usize, end: &str) -> usize {
    text.get(from..).and_then(|rest| rest.find(end)).map_or(text.len(), |at| from + at + end.len())
}

/// The end of what begins at `from`: texts are skipped, and a `}}` that closes two brackets of the code is no end.
fn end_of_code(bytes: &[u8], from: usize, closing: u8) -> usize {
    let mut open = 0_usize;
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match byte {
            quote @ (b'\'' | b'"') => {
                at += 1;
                while let Some(inner) = bytes.get(at).filter(|inner| *inner != quote) {
                    at += if *inner == b'\\' { 2 } else { 1 };
                }
            }
            byte if open == 0 && *byte == closing && bytes.get(at + 1) == Some(&b'}') => return at,
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_is_bounded_however_its_end_is_hidden() {
        let chain = "+a".repeat(5000);
        for begin in [
            "{{ a",
            "{{- a",
            "{% if a",
            "{{ '}}' ~ a",
            "{{ {'a': {'b': 1}} ~ a",
            "{{ \"\\\"}}\" ~ a",
            "{% set x = '%}' ~ a",
        ] {
            let text = format!("x {{ {begin}{chain} }}}} %}}");
            assert!(matches!(check_nesting(&text).unwrap_err().excess, CodeExcess::Length(_)), "{begin}");
        }
        let text = format!("{{# {{{{ #}}{{{{ a{chain} }}}}");
        assert!(check_nesting(&text).is_err(), "a comment ends");
        let text = format!("{{% raw %}}{{{{ {{% endraw %}}{{{{ a{chain} }}}}");
        assert!(check_nesting(&text).is_err(), "a raw text ends");
        let error = check_nesting(&"{% elif a %}x".repeat(1001)).unwrap_err();
        assert_eq!(error, LongCode { excess: CodeExcess::Branches, at: 13_001 });
    }

    #[test]
    fn a_long_text_of_short_expressions_is_fine() {
        let words = "x ".repeat(5000);
        for text in [
            format!("{{{{ a }}}} {words} {{{{ b }}}}").repeat(100),
            format!("{{# {words} #}}"),
            format!("{{% raw %}} {{{{ {words} {{% endraw %}} {{{{ a }}}}"),
            format!("awk '{{ {words} }}' ${{x}}"),
            "{% elif a %}".repeat(1000),
        ] {
            assert_eq!(check_nesting(&text), Ok(()));
        }
    }
}
