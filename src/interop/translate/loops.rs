//! Loops of a shell: over values that the text has, and those that only wait; arrays of such values.

use crate::command_line::{WrittenCommand, sequence};
use base::units::is_identifier;

/// The variable and the values of `for NAME in VALUE…`, where they are all in the text.
pub(super) fn for_loop(text: &str) -> Option<(String, Vec<String>)> {
    /// A loop over more values is not written out.
    const MOST_VALUES: usize = 64;
    let words = shlex::split(text)?;
    let [first, name, between, values @ ..] = words.as_slice() else { return None };
    if first != "for" || between != "in" || values.is_empty() {
        return None;
    }
    let joined = values.join(" ");
    let values = match braces(values) {
        Some(numbers) => numbers,
        None if joined.contains(['$', '`', '*', '{']) => return None,
        None => values.to_vec(),
    };
    (values.len() <= MOST_VALUES).then(|| (name.clone(), values))
}

/// `{1..8}`, `{1..9..2}` and `{1,8,64}`.
fn braces(values: &[String]) -> Option<Vec<String>> {
    let [value] = values else { return None };
    let inner = value.strip_prefix('{')?.strip_suffix('}')?;
    if inner.contains(['{', '}', '$']) {
        return None;
    }
    match inner.split("..").collect::<Vec<_>>().as_slice() {
        [first, last] => sequence(&format!("{first} {last}")),
        [first, last, step] => sequence(&format!("{first} {step} {last}")),
        [list] if list.contains(',') => Some(list.split(',').map(str::to_owned).collect()),
        _ => None,
    }
}

/// How many commands after the first one a loop ends that only waits: `until curl …/ready; do sleep 1; done`.
pub(super) fn waiting_loop(commands: &[WrittenCommand]) -> Option<usize> {
    const WAITS: [&str; 10] = ["curl", "wget", "nc", "grep", "sleep", "echo", "true", "[", "[[", "test"];
    let first = &commands.first()?.text;
    if !first.starts_with("until ") && !first.starts_with("while ") {
        return None;
    }
    let length = end_of_loop(commands)?;
    let mut programs = commands[..length].iter().filter_map(|command| {
        command.text.split_whitespace().find(|word| !["until", "while", "do", "!"].contains(word))
    });
    programs.all(|program| WAITS.contains(&program)).then_some(length)
}

/// How many commands after the first one its `done` is.
pub(super) fn end_of_loop(commands: &[WrittenCommand]) -> Option<usize> {
    let mut open = 0_usize;
    for (at, command) in commands.iter().enumerate() {
        let words = command.text.split_whitespace().find(|word| !["do", "then", "else"].contains(word));
        match words {
            Some("for" | "while" | "until" | "select") => open += 1,
            Some("done") => open = open.checked_sub(1)?,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
    }
    None
}

/// `NAME=(VALUE …)`, with its values behind each other.
pub(super) fn array(text: &str) -> Option<(&str, String)> {
    let text = ["export ", "declare -a ", "local -a ", "readonly "]
        .iter()
        .find_map(|word| text.strip_prefix(word))
        .unwrap_or(text);
    let (name, rest) = text.split_once("=(")?;
    let is_name = is_identifier(name.trim_end_matches('+'));
    let values = shlex::split(rest.strip_suffix(')')?)?;
    // A value with a blank in it would become two.
    (is_name && !values.iter().any(|value| value.contains(char::is_whitespace))).then(|| (name, values.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_loop_are_those_that_the_shell_would_count() {
        let values = |text: &str| for_loop(text).map(|(_, values)| values.join(" "));
        for (text, expected) in [
            ("for c in 1 8 64", Some("1 8 64")),
            ("for c in {1..3}", Some("1 2 3")),
            ("for c in {1..7..3}", Some("1 4 7")),
            ("for c in {1,8}", Some("1 8")),
            ("for c in {{list}}", None),
            ("for f in *.json", None),
        ] {
            assert_eq!(values(text).as_deref(), expected, "{text}");
        }
    }
}
