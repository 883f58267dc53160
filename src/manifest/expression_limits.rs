//! The parts of minijinja that let a short expression take gigabytes, or panic, with limits.
//!
//! minijinja itself bounds repetition, ranges, recursion and steps. `replace` was not bounded, and `divisibleby` divided by 0
//! (minijinja 2.12 to 3.0).

use minijinja::{Environment, Error, ErrorKind};

use super::value::MAX_TEXT;

/// Replaces them in an environment.
pub(super) fn bound(env: &mut Environment<'static>) {
    env.add_filter("replace", replace);
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
    fn nothing_is_divisible_by_zero() {
        let of = |value: i64, divisor: i64| {
            evaluate(&format!("{{{{ 'yes' if {value} is divisibleby({divisor}) else 'no' }}}}"))
        };
        assert_eq!([of(6, 3).unwrap(), of(5, 3).unwrap(), of(5, 0).unwrap()], ["yes", "no", "no"]);
    }
}
