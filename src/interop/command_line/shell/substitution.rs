//! Where a quoted text and a substitution end: `"…"`, `` `…` ``, `$( … )`, `${ … }`.

/// Substitutions inside each other, more than these, are not read.
const DEEPEST: usize = 32;

/// How many characters the substitution at the beginning of a text has; `None` if the text does not begin with one, or
/// it is not closed.
pub(super) fn substitution(text: &[char]) -> Option<usize> {
    nested(text, 0)
}

/// How many characters a quoted text has, with its quotes; none where the quote is not closed.
pub(super) fn quoted(text: &[char]) -> Option<usize> {
    quoted_at(text, 0)
}

fn nested(text: &[char], depth: usize) -> Option<usize> {
    let (close, mut at) = match text {
        ['$', '(', ..] => (')', 2),
        ['$', '{', ..] => ('}', 2),
        ['`', ..] => ('`', 1),
        _ => return None,
    };
    let mut open = 0_usize;
    while let Some(&c) = text.get(at).filter(|_| depth <= DEEPEST) {
        at += match c {
            '\\' => 2,
            _ if c == close && open == 0 => return Some(at + 1),
            // Everything up to the next backquote is the command.
            _ if close == '`' => 1,
            '$' if !is_opening(text, at) => 1,
            '$' | '`' => nested(&text[at..], depth + 1)?,
            '"' => quoted_at(&text[at..], depth + 1)?,
            '\'' if close == ')' => quoted_at(&text[at..], depth + 1)?,
            _ => {
                open += usize::from(close == ')' && c == '(');
                open -= usize::from(c == close);
                1
            }
        };
    }
    None
}

/// Whether the `$` at this place begins a substitution. One that is not closed makes the whole text unreadable:
/// trying again behind each of them would take longer with every level.
fn is_opening(text: &[char], at: usize) -> bool {
    matches!(text.get(at + 1), Some('(' | '{'))
}

fn quoted_at(text: &[char], depth: usize) -> Option<usize> {
    let quote = *text.first()?;
    if quote == '`' {
        return nested(text, depth);
    }
    let mut at = 1;
    while let Some(&c) = text.get(at) {
        at += match c {
            _ if c == quote => return Some(at + 1),
            '\\' if quote == '"' => 2,
            '$' if quote == '"' && is_opening(text, at) => nested(&text[at..], depth + 1)?,
            '`' if quote == '"' => nested(&text[at..], depth + 1)?,
            _ => 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_substitution_ends_behind_what_is_nested_in_it() {
        for (text, expected) in [
            ("$(a b | c) d", "$(a b | c)"),
            ("$(a $(b \")\") `c )`) d", "$(a $(b \")\") `c )`)"),
            ("$((A*(B+1))) d", "$((A*(B+1)))"),
            ("${A:-$(b \"}\")} d", "${A:-$(b \"}\")}"),
            ("${A:-don't} d", "${A:-don't}"),
            ("`a 'b` c", "`a 'b`"),
            ("$(cd \"$(dirname \"$0\")\" && pwd)/x", "$(cd \"$(dirname \"$0\")\" && pwd)"),
        ] {
            let chars: Vec<char> = text.chars().collect();
            let length = substitution(&chars).expect(text);
            assert_eq!(chars[..length].iter().collect::<String>(), expected);
        }
        for open in ["$(a", "${a", "`a", "a", "$a", "$(a 'b)"] {
            assert_eq!(substitution(&open.chars().collect::<Vec<_>>()), None, "{open}");
        }
    }

    #[test]
    fn substitutions_in_each_other_stay_bounded() {
        let deep: Vec<char> = "\"$(".repeat(50_000).chars().collect();
        assert_eq!(quoted(&deep), None);
    }
}
