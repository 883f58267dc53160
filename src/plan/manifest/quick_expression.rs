//! Expressions that need no compiler: plain paths, and texts in which there is nothing else. Most of those of a large plan are.

use minijinja::Value;
use minijinja::value::ValueKind;

use super::expression::Scope;
use super::value::MAX_TEXT;

/// A plain dotted path. `None`: let minijinja do it, and complain if it must.
pub(super) fn quick(path: &str, scope: &Scope) -> Option<Value> {
    let mut value: Option<Value> = None;
    for step in path.split('.') {
        let mut bytes = step.bytes();
        let head = bytes.next()?;
        if !(head.is_ascii_alphabetic() || head == b'_') || !bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return None;
        }
        let next = match value {
            None => scope.get(step)?,
            Some(value) => value.get_attr(step).ok()?,
        };
        if next.is_undefined() || next.kind() == ValueKind::Invalid {
            return None;
        }
        value = Some(next);
    }
    value
}

/// A text whose expressions are all plain paths to texts. `None`: let minijinja do it, which also reports what becomes too long.
pub(super) fn quick_text(text: &str, scope: &Scope) -> Option<String> {
    let mut rendered = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        rendered.push_str(before);
        if rendered.len() > MAX_TEXT {
            return None;
        }
        match after.as_bytes().first() {
            Some(b'{') => {
                let (path, tail) = after[1..].split_once("}}")?;
                rendered.push_str(quick(path.trim(), scope)?.as_str()?);
                rest = tail;
            }
            // A statement or a comment.
            Some(b'%' | b'#') => return None,
            _ => {
                rendered.push('{');
                rest = after;
            }
        }
    }
    rendered.push_str(rest);
    // A line break at the end is left out, as minijinja does.
    let line = rest.strip_suffix('\n').unwrap_or(rest);
    let line = line.strip_suffix('\r').unwrap_or(line);
    rendered.truncate(rendered.len() - (rest.len() - line.len()));
    (rendered.len() <= MAX_TEXT).then_some(rendered)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::expression::Expressions;
    use super::*;
    use base::diag::SourceText;

    fn scope() -> Scope {
        let map = Value::from_pairs([("c", Value::from("⟦x⟧")), ("n", Value::from(7))]);
        let globals = [("a".to_owned(), Value::from("A")), ("b".to_owned(), map), ("none".to_owned(), Value::from(()))];
        Scope { globals: Arc::new(globals.into_iter().collect()), local: Vec::new() }
    }

    /// As minijinja renders it: a statement in front keeps the quick way out.
    fn compiled(text: &str) -> Option<String> {
        let span = SourceText::new("x", text).start();
        let node = Expressions::new().text(&format!("{{% if true %}}{{% endif %}}{text}"), &Arc::new(scope()), &span);
        node.ok()?.text().map(str::to_owned)
    }

    #[test]
    fn a_quick_text_is_what_minijinja_makes_of_it() {
        let texts = [
            "x {{ a }} y",
            "{{a}}{{ b.c }}",
            "{ {{ a }} } $( ${b:-0} ) {{ a }}",
            "{{ a }}\n",
            "{{ a }} \r\n",
            "a\r",
            "{{ a }}\n\n",
            "\n{{ a }}",
            "no expression {",
            "{{ a }}}}",
            "é {{ a }} }} 日本",
            "",
        ];
        for text in texts {
            let quick = quick_text(text, &scope());
            assert!(quick.is_some(), "{text:?}");
            assert_eq!(quick, compiled(text), "{text:?}");
        }
    }

    #[test]
    fn what_becomes_too_long_is_given_up_before_it_takes_memory() {
        let globals = [("a".to_owned(), Value::from("x".repeat(MAX_TEXT)))].into_iter().collect();
        let scope = Scope { globals: Arc::new(globals), local: Vec::new() };
        assert_eq!(quick_text("{{ a }}", &scope).map(|text| text.len()), Some(MAX_TEXT));
        // 100 GB, if it were made first.
        assert_eq!(quick_text(&"{{ a }}".repeat(100_000), &scope), None);
    }

    #[test]
    fn what_is_not_plain_is_left_to_minijinja() {
        let texts = [
            "{{ b.n }}",
            "{{ b }}",
            "{{ missing }}",
            "{{ none }}",
            "{{- a }}",
            "x {{ a -}} y",
            "{{ a|upper }}",
            "{{ 'a' }}",
            "{# a #}",
            "{% if a %}{% endif %}",
            "{{ a",
            "{{{ a }}}",
            "{{ a.b }}",
        ];
        for text in texts {
            assert_eq!(quick_text(text, &scope()), None, "{text:?}");
        }
    }
}
