//! Values that a text does not have: variables that it does not set, and placeholders of a page.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::command_line::each_text;
use base::spec::{BLANK, NumberKind};
use base::units::is_identifier;

/// A value that must come from the user. In the words of a command it is `{{name}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownValue {
    /// Of the manifest's parameter.
    pub name: String,
    /// As it stands in the text: `${MODEL_DIR}`, `<model dir>`.
    pub written: String,
    /// The environment variable that it is, if it is one.
    pub env: Option<String>,
}

impl UnknownValue {
    /// Also of an argument of the script, `$1`, and of what the shell itself sets.
    pub(super) fn of_variable(variable: &str) -> Self {
        let of_shell = match variable {
            "@" | "*" => Some("arguments".to_owned()),
            "#" => Some("argument_count".to_owned()),
            "?" => Some("exit_status".to_owned()),
            "$" | "!" => Some("process_id".to_owned()),
            digits => digits.parse::<u32>().ok().map(|number| format!("argument_{number}")),
        };
        match of_shell {
            Some(name) => Self { name, written: format!("${variable}"), env: None },
            None => Self {
                name: variable.to_lowercase(),
                written: format!("${{{variable}}}"),
                env: Some(variable.to_owned()),
            },
        }
    }

    /// All values of an array that the text does not set.
    pub(super) fn of_list(variable: &str) -> Self {
        Self { name: variable.to_lowercase(), written: format!("${{{variable}[@]}}"), env: None }
    }

    /// What a command would print. `before` is the word in front of it: the variable that is set, or the option that
    /// is given.
    pub(super) fn of_command(written: &str, before: &str) -> Self {
        const LONGEST: usize = 40;
        let word = before.trim_start_matches(['"', '\'']).trim_end_matches(['"', '(']);
        let name = word.strip_suffix('=').filter(|name| is_identifier(name.trim_start_matches('-')));
        let option = Some(word).filter(|word| word.starts_with('-') && !word.contains('='));
        let short: String = written.chars().take(LONGEST).collect();
        Self::named(name.or(option).unwrap_or(&short), written)
    }

    /// `option` is the word in front of it, which names one that is empty: `--tokenizer_dir <>`.
    pub(super) fn of_placeholder(written: &str, option: &str) -> Self {
        let inner = written.trim_matches(['<', '>', '[', ']']);
        Self::named(if inner.is_empty() { option } else { inner }, written)
    }

    /// A substitution that is not read.
    pub(super) fn of_expression(written: &str) -> Self {
        Self::named(written, written)
    }

    /// A path whose file or folder is somewhere else than the text has it.
    pub(crate) fn of_path(written: &str) -> Self {
        let last = written.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        // So that it is taken for a path.
        Self::named(&format!("{last}_path"), written)
    }

    /// With the letters and digits at the beginning of `text` as the name. A name goes into the words of the command,
    /// where a placeholder behind it is named after it again: without a limit each would double the next.
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
        Self { name: name.to_owned(), written: written.to_owned(), env: None }
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

/// A text with `replace` in place of each `{{…}}` that stands for unknown values; it is given what is between the
/// braces.
fn with_formulas(text: &str, mut replace: impl FnMut(&str) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        // Of more braces the innermost are the marker's.
        let at = at + rest[at..].bytes().take_while(|byte| *byte == b'{').count() - 2;
        let inner = &rest[at + 2..];
        // A manifest's own expressions have a blank there.
        let end = inner.find("}}").filter(|_| !inner.starts_with(' '));
        out.push_str(&rest[..at]);
        rest = if let Some((replaced, after)) = end.and_then(|end| Some((replace(&inner[..end])?, &inner[end + 2..]))) {
            out.push_str(&replaced);
            after
        } else {
            out.push_str("{{");
            inner
        };
    }
    out + rest
}

/// A formula with each parameter as `replace` has it; it is given the name, and the kind of number that it must be.
/// None where a name is that of no parameter.
fn with_parameters(
    formula: &str,
    unknown: &[UnknownValue],
    mut replace: impl FnMut(&UnknownValue, Option<NumberKind>) -> String,
) -> Option<String> {
    let mut parameter = |name: &str, kind| Some(replace(unknown.iter().find(|value| value.name == name)?, kind));
    if is_identifier(formula) {
        return parameter(formula, None);
    }
    let mut out = String::new();
    let mut rest = formula;
    while let Some(at) = rest.find(':') {
        let kind =
            [NumberKind::Whole, NumberKind::Any].into_iter().find(|kind| rest[at..].starts_with(kind.suffix()))?;
        let name = rest[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        let begin = at - name.len();
        out.push_str(&rest[..begin]);
        out.push_str(&parameter(name, Some(kind))?);
        rest = &rest[at + kind.suffix().len()..];
    }
    (!out.is_empty()).then(|| (out + rest).replace(BLANK, " "))
}

/// A text with its unknown values as they were written.
pub(crate) fn as_written(text: &str, unknown: &[UnknownValue]) -> String {
    with_formulas(text, |formula| {
        let written = with_parameters(formula, unknown, |value, _| value.written.clone())?;
        let is_alone = formula.split(':').next().is_some_and(is_identifier) && !formula.contains(BLANK);
        Some(match (is_alone, formula.contains('|')) {
            (true, _) => written,
            (false, false) => format!("$(({}))", written.replace("//", "/")),
            // A shell does not compute it.
            (false, true) => format!("<{written}>"),
        })
    })
}

/// Those of the unknown values in `words` that are nowhere in `translated`.
pub(crate) fn unmentioned<'a>(
    words: &[String],
    translated: &str,
    unknown: &'a [UnknownValue],
) -> Vec<&'a UnknownValue> {
    let names = |text: &str| {
        let mut names = BTreeSet::new();
        with_formulas(text, |formula| {
            with_parameters(formula, unknown, |value, _| {
                names.insert(value.name.clone());
                String::new()
            })
        });
        names
    };
    let mentioned = names(translated);
    let given: BTreeSet<String> = words.iter().flat_map(|word| names(word)).collect();
    unknown.iter().filter(|value| given.contains(&value.name) && !mentioned.contains(&value.name)).collect()
}

/// Parameters for the unknown values that a manifest's stages use, and the stages with their expressions as people
/// write them.
pub(crate) fn parameters(stages: &mut Value, unknown: &[UnknownValue]) -> Map<String, Value> {
    let mut used = BTreeMap::new();
    write_expressions(stages, unknown, &mut used);
    let params = unknown.iter().filter_map(|value| {
        // The first one of a name counts.
        let number = used.remove(&value.name)?;
        let about = format!("In place of {}", as_written(&value.written, unknown));
        let mut param = Map::from_iter([("about".to_owned(), json!(about))]);
        let (kind, rule) = match number {
            Some(NumberKind::Whole) => ("int", json!({})),
            Some(NumberKind::Any) => ("number", json!({})),
            None if value.is_path() => ("path", json!("required")),
            None => ("text", json!({})),
        };
        param.insert(kind.to_owned(), rule);
        if let Some(env) = &value.env {
            param.insert("env".to_owned(), json!(env));
        }
        Some((value.name.clone(), Value::Object(param)))
    });
    params.collect()
}

/// Each formula as an expression. `used` gets the parameters, and the kind of number that each must be.
fn write_expressions(value: &mut Value, unknown: &[UnknownValue], used: &mut BTreeMap<String, Option<NumberKind>>) {
    each_text(value, &mut |text| {
        *text = with_formulas(text, |formula| {
            let expression = with_parameters(formula, unknown, |value, kind| {
                let strictest = used.entry(value.name.clone()).or_default();
                *strictest = (*strictest).max(kind);
                value.name.clone()
            })?;
            Some(format!("{{{{ {expression} }}}}"))
        });
    });
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
            ("--n={{a:int}} {{a:int·*·2·//·3}}", "--n=${A} $((${A} * 2 / 3))"),
            ("{{[a:int·*·2,·10]·|·max}}", "<[${A} * 2, 10] | max>"),
            ("", ""),
        ] {
            assert_eq!(as_written(text, &unknown), expected, "{text}");
        }
    }

    #[test]
    fn a_parameter_is_the_strictest_number_that_its_places_need() {
        let unknown = ["A", "B", "C", "D"].map(UnknownValue::of_variable);
        let mut stages =
            json!({"x": ["{{a:float}}", "{{b}}/{{ stages.c }}"], "y": "{{a:int·*·b:float}}", "z": "{{d}}"});
        let params = parameters(&mut stages, &unknown);
        assert_eq!(stages, json!({"x": ["{{ a }}", "{{ b }}/{{ stages.c }}"], "y": "{{ a * b }}", "z": "{{ d }}"}));
        let kind = |name: &str| params.get(name).map(|param| param.as_object().unwrap().keys().nth(1).unwrap().clone());
        assert_eq!(
            ["a", "b", "c", "d"].map(kind),
            ["int", "number", "", "text"].map(|kind| (!kind.is_empty()).then(|| kind.to_owned()))
        );
    }
}
