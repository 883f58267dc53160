//! Variables that a text sets, and their values in its commands.

use std::collections::{BTreeMap, BTreeSet};

use super::arithmetic;
use super::split::placeholder;
use super::unknown::UnknownValue;

/// A text with more values than this in one of its variables is cut: a variable that doubles itself grows without bound.
const LONGEST_VALUE: usize = 64 * 1024;

/// The variables of a text, while it is read from the top.
#[derive(Debug, Default)]
pub(in crate::interop) struct Variables {
    values: BTreeMap<String, String>,
    exported: BTreeSet<String>,
    used: BTreeSet<String>,
    /// In the order in which they were met.
    pub unknown: Vec<UnknownValue>,
    /// Their names.
    known: BTreeSet<String>,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: &str) {
        let end = value.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_VALUE).last();
        self.values.insert(name.to_owned(), value[..end.unwrap_or(0)].to_owned());
    }

    pub fn export(&mut self, name: &str) {
        self.exported.insert(name.to_owned());
    }

    /// Exported variables that the text itself does not use: they are for its programs.
    pub fn for_programs(&self) -> impl Iterator<Item = (&str, &str)> {
        let exported = self.exported.iter().filter(|name| !self.used.contains(*name));
        exported.filter_map(|name| Some((name.as_str(), self.values.get(name)?.as_str())))
    }

    /// Names of variables that are set and neither used nor exported.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        let unused = self.values.keys().filter(|name| !self.used.contains(*name) && !self.exported.contains(*name));
        unused.map(String::as_str)
    }

    /// The text of a command with its variables' values; what has none becomes `{{name}}`.
    pub fn expand(&mut self, text: &str) -> String {
        // Both print what the variable has.
        let text = text.replace("$(pwd)", "${PWD}").replace("`pwd`", "${PWD}");
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::with_capacity(text.len());
        let mut quote = None;
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            match (quote, c) {
                (_, '<') if placeholder(&chars[at..]).is_some() => {
                    let length = placeholder(&chars[at..]).unwrap_or(1);
                    let written: String = chars[at..at + length].iter().collect();
                    let value = UnknownValue::of_placeholder(&written, last_word(&out));
                    out.push_str(&value.marker());
                    self.know(value);
                    at += length;
                    continue;
                }
                (Some(open), c) if open == c => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => {
                    out.push(c);
                    at += 1;
                    if let Some(&next) = chars.get(at) {
                        out.push(next);
                        at += 1;
                    }
                    continue;
                }
                (None, '\'' | '"') => quote = Some(c),
                // `$'…'` is a text as it stands, but for its escapes.
                (None, '$') if chars.get(at + 1) == Some(&'\'') => {
                    at += 1;
                    continue;
                }
                (_, '$') if let Some(length) = arithmetic(&chars[at..]) => {
                    let written: String = chars[at..at + length].iter().collect();
                    out.push_str(&self.result(&written));
                    at += length;
                    continue;
                }
                (_, '$') => {
                    if let Some((reference, length)) = Reference::read(&chars[at..]) {
                        let is_array = reference.is_array;
                        let value = self.value(reference);
                        if is_array {
                            push_values(&mut out, &value, quote.is_some());
                        } else {
                            push_value(&mut out, &value, quote.is_some());
                        }
                        at += length;
                        continue;
                    }
                }
                _ => {}
            }
            out.push(c);
            at += 1;
        }
        out
    }

    fn value(&mut self, reference: Reference) -> String {
        self.used.insert(reference.name.clone());
        if let Some(value) = self.values.get(&reference.name) {
            return value.clone();
        }
        if let Some(default) = reference.default {
            return default;
        }
        let value = UnknownValue::of_variable(&reference.name);
        let marker = value.marker();
        self.know(value);
        marker
    }

    /// Of `$(( … ))`. What has no value in the text becomes `{{name}}`.
    fn result(&mut self, written: &str) -> String {
        let inner = &written[3..written.len() - 2];
        let names = inner.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        self.used.extend(names.filter(|name| self.values.contains_key(*name)).map(str::to_owned));
        if let Some(result) = arithmetic::evaluate(inner, &|name| self.values.get(name).cloned()) {
            return result.to_string();
        }
        let value = UnknownValue::of_expression(written);
        let marker = value.marker();
        self.know(value);
        marker
    }

    fn know(&mut self, value: UnknownValue) {
        if self.known.insert(value.name.clone()) {
            self.unknown.push(value);
        }
    }
}

/// The last word of a text, or its end where that is longer than the name of any option: each placeholder looks at it.
fn last_word(text: &str) -> &str {
    const LONGEST: usize = 256;
    let start = text.char_indices().rev().nth(LONGEST).map_or(0, |(at, _)| at);
    text[start..].split_whitespace().next_back().unwrap_or_default()
}

/// So that the value is that one text when the command is split: a blank in it separates only outside quotes.
fn push_value(out: &mut String, value: &str, is_quoted: bool) {
    for c in value.chars() {
        let is_special = if is_quoted { "\"\\$`".contains(c) } else { "\"'\\$`#".contains(c) };
        if is_special {
            out.push('\\');
        }
        out.push(c);
    }
}

/// `"${NAME[@]}"` is a text for each of its values, in quotes too.
fn push_values(out: &mut String, values: &str, is_quoted: bool) {
    let between = if is_quoted { "\" \"" } else { " " };
    for (n, value) in values.split_whitespace().enumerate() {
        if n > 0 {
            out.push_str(between);
        }
        push_value(out, value, is_quoted);
    }
}

/// How many characters `$(( … ))` has; none where it is none.
fn arithmetic(text: &[char]) -> Option<usize> {
    if !text.starts_with(&['$', '(', '(']) {
        return None;
    }
    let mut open = 0_usize;
    for (at, c) in text.iter().enumerate() {
        match c {
            '(' => open += 1,
            ')' if open == 1 => return (text.get(at - 1) == Some(&')')).then_some(at + 1),
            ')' => open -= 1,
            _ => {}
        }
    }
    None
}

/// `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME[@]}`
struct Reference {
    name: String,
    /// All values of an array.
    is_array: bool,
    default: Option<String>,
}

impl Reference {
    /// With the number of its characters.
    fn read(text: &[char]) -> Option<(Self, usize)> {
        let is_in_braces = text.get(1) == Some(&'{');
        let begin = if is_in_braces { 2 } else { 1 };
        let is_first = |c: &char| c.is_ascii_alphabetic() || *c == '_';
        text.get(begin).filter(|c| is_first(c))?;
        let rest = &text[begin..];
        let length = rest.iter().position(|c| !is_first(c) && !c.is_ascii_digit()).unwrap_or(rest.len());
        let name: String = rest[..length].iter().collect();
        if !is_in_braces {
            return Some((Self { name, is_array: false, default: None }, begin + length));
        }
        let end = rest.iter().position(|c| *c == '}')?;
        let behind: String = rest[length..end].iter().collect();
        let default = behind.strip_prefix(":-").or_else(|| behind.strip_prefix('-')).map(str::to_owned);
        let is_array = behind == "[@]" || behind == "[*]";
        let is_read = behind.is_empty() || is_array || default.is_some();
        is_read.then_some((Self { name, is_array, default }, begin + end + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn set_variables_have_their_values_and_others_become_parameters() {
        let mut variables = Variables::default();
        variables.set("A", "x y");
        variables.set("Q", "it's");
        let text = variables.expand("p $A \"${A}\" '$A' ${B} ${C:-d} $Q <data set> --dir <>");
        assert_eq!(text, "p x y \"x y\" '$A' {{b}} d it\\'s {{data_set}} --dir {{dir}}");
        let unknown: Vec<_> =
            variables.unknown.iter().map(|value| (value.name.as_str(), value.written.as_str())).collect();
        assert_eq!(unknown, [("b", "${B}"), ("data_set", "<data set>"), ("dir", "<>")]);
        assert_eq!(shlex::split(&text).unwrap()[3..5], ["x y", "$A"]);
    }

    #[test]
    fn arithmetic_over_known_values_is_done_and_other_arithmetic_becomes_a_parameter() {
        let mut variables = Variables::default();
        variables.set("N", "4");
        assert_eq!(
            variables.expand("a $((N*10)) \"$(( $N + 1 ))\" '$((N))' $((M * 2))"),
            "a 40 \"5\" '$((N))' {{m_2}}"
        );
        assert_eq!(variables.unknown[0].written, "$((M * 2))");
        assert_eq!(variables.unused().count(), 0);
    }

    #[test]
    fn exported_variables_that_no_command_uses_are_for_programs() {
        let mut variables = Variables::default();
        for name in ["USED", "HF_HOME"] {
            variables.set(name, "1");
            variables.export(name);
        }
        variables.set("LOST", "1");
        variables.expand("echo $USED");
        assert_eq!(variables.for_programs().collect::<Vec<_>>(), [("HF_HOME", "1")]);
        assert_eq!(variables.unused().collect::<Vec<_>>(), ["LOST"]);
    }

    #[test]
    fn placeholders_named_after_each_other_stay_bounded() {
        let expanded = Variables::default().expand(&format!("]{}", "<>a".repeat(60)));
        assert!(expanded.len() < 60 * 100, "{} bytes", expanded.len());
    }

    #[test]
    fn a_variable_that_doubles_itself_stays_bounded() {
        let mut variables = Variables::default();
        variables.set("A", "aaaaaaaa");
        for _ in 0..40 {
            let value = variables.expand("$A$A");
            variables.set("A", &value);
        }
        assert_eq!(variables.expand("$A").len(), LONGEST_VALUE);
    }
}
