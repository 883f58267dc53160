//! How deep the code of an expression can nest, by its length: minijinja compiles a long chain (`a + a + a`, `a|f|f`) by calling itself
//! for each link, and bounds only brackets.

use super::expression_code::code_blocks;
use base::units::size;

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

/// Looks for code that is too long.
pub fn check_nesting(text: &str) -> Result<(), LongCode> {
    let mut branches = 0;
    for block in code_blocks(text) {
        if block.code.len() > LONGEST_CODE {
            return Err(LongCode { excess: CodeExcess::Length(block.code.len()), at: block.at });
        }
        branches += usize::from(block.statement().starts_with("elif"));
        if branches > MOST_BRANCHES {
            return Err(LongCode { excess: CodeExcess::Branches, at: block.at });
        }
    }
    Ok(())
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
