//! The parts of minijinja that let a short expression take gigabytes, or panic, with limits.
//!
//! minijinja itself bounds repetition, ranges, recursion and steps. `replace` was not bounded, `divisibleby` divided by 0
//! (minijinja 2.12 to 3.0); `format` pads to any width, and panics at a name in `%(…)` that is not ASCII; `join` after `join` makes a text
//! many times as long each; `indent`, `tojson`, `batch` and `slice` take any number (3.0).

use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};

use base::diag::catch_panic;

/// Replaces them in an environment. None of them makes a text of more than `MOST` bytes, or a list of more than `MOST` items.
pub fn bound<const MOST: usize>(env: &mut Environment<'_>) {
    env.add_filter("replace", replace::<MOST>);
    env.add_filter("format", format::<MOST>);
    env.add_filter("join", join::<MOST>);
    env.add_filter("indent", indent::<MOST>);
    env.add_filter("tojson", tojson);
    env.add_filter("batch", batch::<MOST>);
    env.add_filter("slice", slice::<MOST>);
    env.add_test("divisibleby", is_divisible);
}

/// An error for what would become larger.
fn fits<const MOST: usize>(grown: usize, unit: &str) -> Result<(), Error> {
    if grown > MOST {
        return Err(Error::new(ErrorKind::InvalidOperation, format!("it would become {grown} {unit}")));
    }
    Ok(())
}

/// Replaces every occurrence of a text by another.
fn replace<const MOST: usize>(text: &str, from: &str, to: &str) -> Result<String, Error> {
    fits::<MOST>(text.matches(from).count().saturating_mul(to.len()), "bytes")?;
    Ok(text.replace(from, to))
}

/// `'%5.2f' | format(x)`. All numbers in the text together are at least what widths and precisions add. A width that is an argument
/// (`%*d`) is refused.
fn format<const MOST: usize>(state: &mut State, text: &Value, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let written = text.as_str().unwrap_or_default();
    let numbers = written.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let padded =
        numbers.fold(0, |sum: usize, digits| sum.saturating_add(digits.parse::<usize>().unwrap_or(usize::MAX)));
    fits::<MOST>(padded, "bytes")?;
    let is_width = |specification: &str| {
        specification.trim_start_matches(|c: char| c.is_ascii_digit() || "-+ #.".contains(c)).starts_with('*')
    };
    if written.split('%').skip(1).any(is_width) {
        return Err(Error::new(ErrorKind::InvalidOperation, "`*` in a format is not supported: write the number"));
    }
    // It panics at some names that are not ASCII.
    catch_panic(|| filters::format(state, text, values))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::InvalidOperation, "a name in `%(…)` is made of ASCII letters")))
}

/// Items are counted where they are texts, as they are joined.
fn join<const MOST: usize>(
    state: &mut State,
    value: &Value,
    joiner: Option<StringInput<'_>>,
    attribute: Option<&str>,
    named: Kwargs,
) -> Result<Value, Error> {
    let between = match &joiner {
        Some(joiner) => joiner.as_str().len(),
        None => named.peek::<Option<&str>>("d")?.map_or(0, str::len),
    };
    let of = attribute.map_or_else(|| named.peek::<Option<&str>>("attribute"), |name| Ok(Some(name)))?;
    let length = |item: Value| {
        let item = of.and_then(|name| item.get_attr(name).ok()).unwrap_or(item);
        item.as_str().map_or(0, str::len)
    };
    if let Ok(items) = value.try_iter() {
        let mut grown = 0_usize;
        for item in items {
            grown = grown.saturating_add(length(item)).saturating_add(between);
            fits::<MOST>(grown.saturating_sub(between), "bytes and more")?;
        }
    }
    filters::join(state, value, joiner, attribute, named)
}

fn indent<const MOST: usize>(
    text: StringInput<'_>,
    width: Option<usize>,
    first: Option<bool>,
    blank: Option<bool>,
    named: Kwargs,
) -> Result<Value, Error> {
    let spaces = width.map_or_else(|| named.peek::<Option<usize>>("width"), |width| Ok(Some(width)))?.unwrap_or(4);
    let lines = text.as_str().matches('\n').count().saturating_add(1);
    fits::<MOST>(spaces.saturating_mul(lines), "bytes")?;
    filters::indent(text, width, first, blank, named)
}

/// A line of it may begin with many times the spaces.
fn tojson(value: &Value, indent: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    /// Spaces.
    const WIDEST: usize = 64;
    let spaces = indent.clone().map_or_else(|| named.peek::<Option<Value>>("indent"), |spaces| Ok(Some(spaces)))?;
    if spaces.and_then(|spaces| spaces.as_usize()).is_some_and(|spaces| spaces > WIDEST) {
        let why = format!("an indent has at most {WIDEST} spaces");
        return Err(Error::new(ErrorKind::InvalidOperation, why));
    }
    filters::tojson(value, indent, named)
}

fn batch<const MOST: usize>(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    if fill.is_some() {
        fits::<MOST>(count, "items")?;
    }
    filters::batch(state, value, count, fill)
}

fn slice<const MOST: usize>(state: &State, value: Value, count: usize, fill: Option<Value>) -> Result<Value, Error> {
    fits::<MOST>(count, "lists")?;
    filters::slice(state, value, count, fill)
}

/// Nothing is divisible by 0.
fn is_divisible(value: i128, divisor: i128) -> bool {
    value.checked_rem(divisor) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::value::MAX_TEXT;

    fn evaluate(text: &str) -> Result<String, Error> {
        let mut env = Environment::new();
        bound::<MAX_TEXT>(&mut env);
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
    fn joins_and_indents_do_not_grow_without_limit() {
        assert_eq!(evaluate("{{ [1, 'a', 2] | join(', ') }}").unwrap(), "1, a, 2");
        assert_eq!(evaluate("{{ [{'n': 'a'}, {'n': 'b'}] | join('-', attribute='n') }}").unwrap(), "a-b");
        assert_eq!(evaluate("{{ 'a\nb' | indent(2) }}").unwrap(), "a\n  b");
        assert_eq!(evaluate("{{ [1] | tojson(indent=1) }}").unwrap(), "[\n 1\n]");
        assert_eq!(
            evaluate("{{ [1, 2, 3] | batch(2, 0) }} {{ [1, 2] | slice(2) }}").unwrap(),
            "[[1, 2], [3, 0]] [[1], [2]]"
        );
        let joins = " | join('------------------------------')".repeat(6);
        for grows in [
            format!("'0123456789' {joins}"),
            "(['x' * 100000] * 20) | join".to_owned(),
            "([{'n': 'x' * 100000}] * 20) | join(attribute='n')".to_owned(),
            "([1] * 100000) | join(d='y' * 100)".to_owned(),
            "'a\nb' | indent(4000000000)".to_owned(),
            "'a\nb' | indent(width=4000000000)".to_owned(),
            "[1] | tojson(4000000000)".to_owned(),
            "[1] | tojson(indent=65)".to_owned(),
            "[1] | batch(2000000000, 0)".to_owned(),
            "[1] | slice(2000000000)".to_owned(),
        ] {
            let error = evaluate(&format!("{{{{ ({grows}) | length }}}}")).unwrap_err().to_string();
            assert!(error.contains("it would become") || error.contains("at most 64 spaces"), "{grows}: {error}");
        }
    }

    #[test]
    fn a_name_of_wide_letters_in_a_format_is_an_error() {
        assert_eq!(evaluate("{{ '%(a)s ä%%(ä)' | format(a=1) }}").unwrap(), "1 ä%(ä)");
        for text in ["%(ˣ", "%(ä)s", "%%%(aä)s"] {
            let error = evaluate(&format!("{{{{ '{text}' | format(a=1) }}}}")).unwrap_err().to_string();
            assert!(error.contains("ASCII"), "{text}: {error}");
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
