//! The parts of minijinja that let a short expression take gigabytes, or panic, with limits.
//!
//! minijinja itself bounds repetition, ranges, recursion and steps. `replace` was not bounded, `divisibleby` divided by
//! 0 (minijinja 2.12 to 3.0); `format` pads to any width, and panics at a name in `%(…)` that is not ASCII; `join`
//! after `join` makes a text many times as long each; `indent`, `tojson`, `batch` and `slice` take any number (3.0).
//!
//! How deep the code of an expression can nest, by its length: minijinja compiles a long chain (`a + a + a`,
//! `a|f|f`) by calling itself for each link, and bounds only brackets.
//!
//! The expression that is being computed, for a watcher that can name it.
//!
//! minijinja bounds steps, not memory: a text can double in every step of a loop, and `sort`, `list` or `==` may take
//! long in one step. Neither can be interrupted from within, so another thread looks.
//!
//! A thread with a stack for deeply nested values.
//!
//! minijinja prints, compares and frees a value by calling itself for each level, none of which can be interrupted or
//! replaced: a loop can put a value into a list, and that into a list, for as many levels as it may take steps. An
//! overflow would end the program without a message.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use std::{io, thread};

use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters};
use parking_lot::{Condvar, Mutex};

use super::expression_source::code_blocks;
use base::diag::{Span, catch_panic};
use base::units::size;

/// Replaces them in an environment. None of them makes a text of more than `MOST` bytes, or a list of more than `MOST`
/// items.
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

/// `'%5.2f' | format(x)`. All numbers in the text together are at least what widths and precisions add. A width that is
/// an argument (`%*d`) is refused.
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
    let item_attribute = attribute.map_or_else(|| named.peek::<Option<&str>>("attribute"), |name| Ok(Some(name)))?;
    let length = |item: Value| {
        let item = item_attribute.and_then(|name| item.get_attr(name).ok()).unwrap_or(item);
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
        let reason = format!("an indent has at most {WIDEST} spaces");
        return Err(Error::new(ErrorKind::InvalidOperation, reason));
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

/// Bytes between `{{` and `}}`, or `{%` and `%}`. Each link of a chain takes at
/// least one, and 20,000 links overflow a stack of 8 MiB. The longest shipped expression has 500 bytes.
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
    #[error("it has {}; the maximum is {}", size(*.0 as u64), size(LONGEST_CODE as u64))]
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

/// By number; with several threads there are several.
static CURRENT: Mutex<BTreeMap<u64, (Span, Instant)>> = Mutex::new(BTreeMap::new());
static BEGUN: Condvar = Condvar::new();
static NEXT: AtomicU64 = AtomicU64::new(0);

/// An expression is being computed while this exists.
#[derive(Debug)]
pub struct ExpressionProgress(u64);

impl ExpressionProgress {
    pub fn begin(span: &Span) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        CURRENT.lock().insert(number, (span.clone(), Instant::now()));
        BEGUN.notify_all();
        Self(number)
    }
}

impl Drop for ExpressionProgress {
    fn drop(&mut self) {
        CURRENT.lock().remove(&self.0);
    }
}

/// Where the expression is written that is being computed now, and when that began. Of several, the one that began
/// first.
pub fn expression_in_progress() -> Option<(Span, Instant)> {
    CURRENT.lock().first_key_value().map(|(_, current)| current.clone())
}

/// Waits until one is being computed.
pub fn wait_for_expression() {
    BEGUN.wait_while(&mut CURRENT.lock(), |current| current.is_empty());
}

/// Bytes: one level takes up to 450 bytes, and an expression reaches at most as many levels as it may take steps
/// (200,000). Only what is used of it becomes memory.
pub const EXPRESSION_STACK: usize = 128 << 20;

/// Does work that computes expressions, where these cannot overflow the stack. Where no more threads can be had, this
/// one does it.
pub fn on_expression_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // Taken by whichever thread does it.
    let work = parking_lot::Mutex::new(Some(work));
    let perform = || work.lock().take().map(|work| work());
    let done = on_stack(EXPRESSION_STACK, perform).ok().flatten();
    done.or_else(perform).expect("the work is taken once")
}

/// Does work on a thread with a stack of this many bytes.
///
/// # Errors
/// No such thread can be had.
pub fn on_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("manifest".to_owned()).stack_size(bytes);
        let started = builder.spawn_scoped(scope, work)?;
        Ok(started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

#[cfg(test)]
mod expression_limits_tests {
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
        let divisible = |value: i64, divisor: i64| {
            evaluate(&format!("{{{{ 'yes' if {value} is divisibleby({divisor}) else 'no' }}}}"))
        };
        assert_eq!([divisible(6, 3).unwrap(), divisible(5, 3).unwrap(), divisible(5, 0).unwrap()], ["yes", "no", "no"]);
    }
}

#[cfg(test)]
mod expression_nesting_tests {
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
