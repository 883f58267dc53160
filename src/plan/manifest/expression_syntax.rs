//! What to write in place of what is no expression: operators of other languages, and braces of other programs.

/// Operators that people know from elsewhere, and what stands for them here.
const OPERATORS: [(&str, &str); 7] = [
    ("?", "a choice is written {{ a if condition else b }}"),
    ("&&", "both is written {{ a and b }}"),
    ("||", "either is written {{ a or b }}"),
    ("===", "equality is written {{ a == b }}"),
    ("!==", "a difference is written {{ a != b }}"),
    ("!", "a negation is written {{ not a }}"),
    ("$", "names stand in an expression as they are: {{ name }}"),
];

/// A hint for the parser's `message` about the byte `at` of a text.
pub fn hint(message: &str, text: &str, at: usize) -> Option<String> {
    // `{{.Names}}` of Docker, `${#list}` of a shell.
    if message.contains("`.`") || message.contains("comment") {
        return Some("braces that belong to the text itself stand between {% raw %} and {% endraw %}".to_owned());
    }
    let is_here = |operator: &&(&str, &str)| {
        // The parser may have taken the first characters of one.
        (0..operator.0.len()).any(|taken| {
            let begin = at.checked_sub(taken).and_then(|begin| text.get(begin..));
            begin.is_some_and(|rest| rest.starts_with(operator.0))
        })
    };
    // `!=` is an operator here, too.
    let is_unequal = text.get(at..).is_some_and(|rest| rest.starts_with("!="));
    let found = OPERATORS.iter().find(is_here).filter(|(operator, _)| *operator != "!" || !is_unequal);
    found.map(|(_, hint)| (*hint).to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::manifest::read::read;
    use crate::manifest::{Expressions, Scope};
    use base::diag::SourceText;

    #[test]
    fn operators_of_other_languages_have_a_hint() {
        let cases = [
            ("a ? 1 : 2", Some("a choice is written {{ a if condition else b }}")),
            ("a && b", Some("both is written {{ a and b }}")),
            ("a || b", Some("either is written {{ a or b }}")),
            ("a === b", Some("equality is written {{ a == b }}")),
            ("a !== b", Some("a difference is written {{ a != b }}")),
            ("!a", Some("a negation is written {{ not a }}")),
            ("$a", Some("names stand in an expression as they are: {{ name }}")),
            (".Names", Some("braces that belong to the text itself stand between {% raw %} and {% endraw %}")),
            ("a +", None),
            ("a != ", None),
        ];
        for (code, hint) in cases {
            let source = SourceText::new("x", format!("\"{{{{ {code} }}}}\""));
            let node = read(&source).unwrap();
            let scope = Scope { globals: Arc::default(), local: Vec::new() };
            let faults = Expressions::new().text(node.text().unwrap(), &Arc::new(scope), &node.span).unwrap_err();
            let hints: Vec<&str> = faults[0].hints.iter().map(String::as_str).collect();
            assert_eq!(hints, Vec::from_iter(hint), "{code}: {}", faults[0].message);
        }
    }
}
