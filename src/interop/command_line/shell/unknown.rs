//! Values that a text does not have: variables that it does not set, and placeholders of a page.

use serde_json::{Map, Value, json};

/// A value that must come from the user. In the words of a command it is `{{name}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// Of the manifest's parameter.
    pub name: String,
    /// As it stands in the text: `${MODEL_DIR}`, `<model dir>`.
    pub written: String,
    /// The environment variable that it is, if it is one.
    pub env: Option<String>,
    /// The kind of number that it must be; none: any text.
    pub number: Option<UnknownNumber>,
}

/// Which numbers an unknown value may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownNumber {
    Whole,
    Any,
}

impl UnknownNumber {
    /// Where both are requested.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Any, Self::Any) => Self::Any,
            _ => Self::Whole,
        }
    }
}

impl UnknownValue {
    pub(super) fn of_variable(variable: &str) -> Self {
        let name = variable.to_lowercase();
        Self { name, written: format!("${{{variable}}}"), env: Some(variable.to_owned()), number: None }
    }

    /// `option` is the word in front of it, which names one that is empty: `--tokenizer_dir <>`.
    pub(super) fn of_placeholder(written: &str, option: &str) -> Self {
        let inner = written.trim_matches(['<', '>']);
        Self::named(if inner.is_empty() { option } else { inner }, written)
    }

    /// `$(( … ))` over values that the text does not have.
    pub(super) fn of_expression(written: &str) -> Self {
        Self::named(written, written)
    }

    /// A path whose file or folder is somewhere else than the text has it.
    pub(in crate::interop) fn of_path(written: &str) -> Self {
        let last = written.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        // So that it is taken for a path.
        Self::named(&format!("{last}_path"), written)
    }

    /// With the letters and digits at the beginning of `text` as the name. A name goes into the words of the command, where a
    /// placeholder behind it is named after it again: without a limit each would double the next.
    fn named(text: &str, written: &str) -> Self {
        const LONGEST: usize = 80;
        let mut name = String::new();
        for c in text.chars().take(LONGEST) {
            match c {
                c if c.is_ascii_alphanumeric() => name.push(c.to_ascii_lowercase()),
                _ if name.is_empty() || name.ends_with('_') => {}
                _ => name.push('_'),
            }
        }
        let name = name.trim_end_matches('_');
        let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { "value" };
        Self { name: name.to_owned(), written: written.to_owned(), env: None, number: None }
    }

    fn is_path(&self) -> bool {
        self.written.starts_with("</")
            || ["path", "folder", "repo"].iter().any(|word| self.name.split('_').any(|part| part == *word))
    }

    /// What stands for it in arguments and keys.
    pub fn marker(&self) -> String {
        format!("{{{{{}}}}}", self.name)
    }
}

/// A text with its unknown values as they were written.
pub(in crate::interop) fn as_written(text: &str, unknown: &[UnknownValue]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        // Of more braces the innermost are the marker's.
        let at = at + rest[at..].bytes().take_while(|byte| *byte == b'{').count() - 2;
        let inner = &rest[at + 2..];
        let marked = inner.find("}}").and_then(|end| {
            let value = unknown.iter().find(|value| value.name == inner[..end])?;
            Some((value, &inner[end + 2..]))
        });
        out.push_str(&rest[..at]);
        rest = if let Some((value, behind)) = marked {
            out.push_str(&value.written);
            behind
        } else {
            out.push_str("{{");
            inner
        };
    }
    out + rest
}

/// Parameters for the unknown values that a manifest's stages use, and the stages with their expressions as people write
/// them.
pub(in crate::interop) fn parameters(stages: &mut Value, unknown: &[UnknownValue]) -> Map<String, Value> {
    let mut params = Map::new();
    for value in unknown {
        if replace(stages, &value.marker(), &format!("{{{{ {} }}}}", value.name)) {
            let about = format!("In place of {}", value.written);
            let mut param = Map::from_iter([("about".to_owned(), json!(about))]);
            let (kind, of) = match value.number {
                Some(UnknownNumber::Whole) => ("int", json!({})),
                Some(UnknownNumber::Any) => ("number", json!({})),
                None if value.is_path() => ("path", json!("required")),
                None => ("text", json!({})),
            };
            param.insert(kind.to_owned(), of);
            if let Some(env) = &value.env {
                param.insert("env".to_owned(), json!(env));
            }
            params.insert(value.name.clone(), Value::Object(param));
        }
    }
    params
}

/// Whether the marker was anywhere in it.
fn replace(value: &mut Value, marker: &str, with: &str) -> bool {
    match value {
        Value::String(text) if text.contains(marker) => {
            *text = text.replace(marker, with);
            true
        }
        Value::Array(all) => all.iter_mut().fold(false, |found, one| replace(one, marker, with) | found),
        Value::Object(all) => all.values_mut().fold(false, |found, one| replace(one, marker, with) | found),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_become_what_was_written_once() {
        let unknown = [UnknownValue::of_variable("A"), UnknownValue::of_placeholder("<model dir>", "")];
        for (text, expected) in [
            ("{{model_dir}}/x {{a}}", "<model dir>/x ${A}"),
            ("{{{a}}}", "{${A}}"),
            ("{{other}} {{a", "{{other}} {{a"),
            ("{{x {{a}}", "{{x ${A}"),
            ("", ""),
        ] {
            assert_eq!(as_written(text, &unknown), expected, "{text}");
        }
    }
}
