//! The parts of minijinja that let a short expression take gigabytes, or panic, with limits.
//!
//! minijinja itself bounds repetition, ranges, recursion and steps. `replace` was not bounded, `divisibleby` divided by 0
//! (minijinja 2.12 to 3.0), and `format` pads to any width (3.0).

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::value::MAX_TEXT;

/// Replaces them in an environment.
pub(super) fn bound(env: &mut Environment<'static>) {
    env.add_filter("replace", replace);
    env.add_filter("format", format);
    env.add_test("divisibleby", is_divisible);
}

/// Replaces every occurrence of a text by another.
fn replace(text: &str, from: &str, to: &str) -> Result<String, Error> {
    let grown = text.matches(from).count().saturating_mul(to.len());
    if grown > MAX_TEXT {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("it would become {grown} bytes")));
    }
    Ok(text.replace(from, to))
}

/// `'%5.2f' | format(x)`. All numbers in the text together are at least what widths and precisions add. A width that is an argument
/// (`%*d`) is refused.
fn format(state: &mut State, text: &Value, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let written = text.as_str().unwrap_or_default();
    let numbers = written.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let padded =
        numbers.fold(0, |sum: usize, digits| sum.saturating_add(digits.parse::<usize>().unwrap_or(usize::MAX)));
    if padded > MAX_TEXT {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("it would become {padded} bytes")));
    }
    let is_width = |specification: &str| {
        specification.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.".contains(c)).starts_with('*')
    };
    if written.split('%').skip(1).any(is_width) {
        return Err(Error::new(ErrorKind::InvalidOperation, "`*` in a format is not supported: write the number"));
    }
    minijinja::filters::format(state, text, values)
}

/// Nothing is divisible by 0.
fn is_divisible(value: i128, divisor: i128) -> bool {
    value.checked_rem(divisor) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluate(text: &str) -> Result<String, Error> {
        let mut env = Environment::new();
        bound(&mut env);
        env.render_str(text, ())
    }

    #[test]
    fn a_text_does_not_grow_without_limit() {
        assert_eq!(evaluate("{{ 'a-b' | replace('-', '+') }}").unwrap(), "a+b");
        let error = evaluate("{{ ('x' * 100000) | replace('x', 'y' * 100000) | length }}").unwrap_err();
        assert!(error.to_string().contains("it would become 10000000000 bytes"), "{error}");
        assert!(evaluate("{{ ('x' * 100000) | replace('', 'y' * 100000) | length }}").is_err());
    }

    #[test]
    fn a_format_does_not_pad_without_limit() {
        assert_eq!(evaluate("{{ '%5.1f|%-4s|%%' | format(2.25, 'a') }}").unwrap(), "  2.2|a   |%");
        for wide in ["%99999999d", "%.99999999f", "%600000d%600000d", "%99999999999999999999999d", "%*d", "%-08.*f"] {
            let error = evaluate(&format!("{{{{ '{wide}' | format(99999999, 1, 1) }}}}")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("it would become") || text.contains("write the number"), "{wide}: {text}");
        }
    }

    #[test]
    fn nothing_is_divisible_by_zero() {
        let of = |value: i64, divisor: i64| {
            evaluate(&format!("{{{{ 'yes' if {value} is divisibleby({divisor}) else 'no' }}}}"))
        };
        assert_eq!([of(6, 3).unwrap(), of(5, 3).unwrap(), of(5, 0).unwrap()], ["yes", "no", "no"]);
    }
}
