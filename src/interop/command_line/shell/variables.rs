//! Variables that a text sets, and their values in its commands. What a text does not have becomes a parameter.

use std::collections::{BTreeMap, BTreeSet};

use super::parameter::{Operation, ParameterExpansion, evaluate, sequence};
use super::split::{bracketed, placeholder, substitution};
use super::unknown::UnknownValue;
use base::units::is_reserved_name;

/// A text with more values than this in one of its variables is cut: a variable that doubles itself grows without
/// bound.
const LONGEST_VALUE: usize = 64 * 1024;

/// In place of a blank within a value of an array, between whose values blanks are.
pub(crate) const ELEMENT_BLANK: &str = "\u{2420}";

/// The variables of a text, while it is read from the top.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    /// As they are now.
    pub values: BTreeMap<String, String>,
    exported: BTreeSet<String>,
    /// How many unknown arguments of the script are left out.
    shifted: usize,
    /// Names that a command used.
    pub used: BTreeSet<String>,
    /// In the order in which they were met.
    pub unknown: Vec<UnknownValue>,
    /// What stands for each of them, by what was written and the name that was proposed.
    markers: BTreeMap<(String, String), String>,
}

/// How a text is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// A command, whose quotes stay for the one who splits it.
    Command,
    /// The text itself, as in a here-document: quotes are characters of it.
    Text,
}

impl Variables {
    pub fn set(&mut self, name: &str, value: &str) {
        let end = value.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST_VALUE).last();
        self.values.insert(name.to_owned(), value[..end.unwrap_or(0)].to_owned());
    }

    /// What the script at a path is started with. A script of the user's own may be started with any arguments.
    pub fn set_positional(&mut self, path: &str, arguments: &[String]) {
        if !arguments.is_empty() {
            self.swap_positional(positional(arguments));
        }
        for name in ["0", "BASH_SOURCE"] {
            self.set(name, path);
            self.used.insert(name.to_owned());
        }
    }

    /// Takes the arguments that a function is called with; returns those of the text around it.
    pub fn swap_positional(&mut self, arguments: BTreeMap<String, String>) -> BTreeMap<String, String> {
        let is_argument = |name: &str| ["@", "*", "#"].contains(&name) || name.parse::<usize>().is_ok_and(|at| at > 0);
        let (before, others) = std::mem::take(&mut self.values).into_iter().partition(|(name, _)| is_argument(name));
        self.values = others;
        self.used.extend(arguments.keys().cloned());
        self.values.extend(arguments);
        before
    }

    /// Leaves out the first arguments. Those that the text does not have keep their numbers.
    pub fn shift(&mut self, count: usize) {
        if !self.values.contains_key("@") {
            const MOST_ARGUMENTS: usize = 1000;
            self.shifted = self.shifted.saturating_add(count).min(MOST_ARGUMENTS);
            return;
        }
        let given = (1_usize..).map_while(|at| self.values.get(&at.to_string()).filter(|value| !value.is_empty()));
        let rest: Vec<String> = given.skip(count).cloned().collect();
        self.swap_positional(positional(&rest));
    }

    pub fn append(&mut self, name: &str, between: &str, more: &str) {
        let value = match self.values.get(name) {
            Some(before) if !before.is_empty() => format!("{before}{between}{more}"),
            _ => more.to_owned(),
        };
        self.set(name, &value);
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
        self.read(text, Reading::Command)
    }

    /// The same for a text in which quotes are nothing special.
    pub fn expand_text(&mut self, text: &str) -> String {
        self.read(text, Reading::Text)
    }

    fn read(&mut self, text: &str, reading: Reading) -> String {
        let chars: Vec<char> = text.chars().collect();
        let mut out = String::with_capacity(text.len());
        let mut quote = None;
        let mut at = 0;
        while let Some(&c) = chars.get(at) {
            let is_command = reading == Reading::Command;
            match (quote, c) {
                (_, '<' | '[')
                    if let Some(length) =
                        placeholder(&chars[at..]).or_else(|| bracketed(&chars[at..], &out).filter(|_| is_command)) =>
                {
                    let written: String = chars[at..at + length].iter().collect();
                    let value = UnknownValue::of_placeholder(&written, last_word(&out));
                    out.push_str(&self.marker(value));
                    at += length;
                    continue;
                }
                (Some(open), c) if open == c => quote = None,
                (Some('\''), _) => {}
                (_, '\\') => {
                    if is_command || !matches!(chars.get(at + 1), Some('$' | '`' | '\\')) {
                        out.push(c);
                    }
                    at += 1;
                    if let Some(&next) = chars.get(at) {
                        out.push(next);
                        at += 1;
                    }
                    continue;
                }
                (None, '\'' | '"') if is_command => quote = Some(c),
                // `$'…'` is a text as it stands, but for its escapes.
                (None, '$') if is_command && chars.get(at + 1) == Some(&'\'') => {
                    at += 1;
                    continue;
                }
                (_, '$' | '`') => {
                    if let Some((value, mut length)) = self.substituted(&chars[at..], &out) {
                        match (is_command, value) {
                            (false, value) => out.push_str(&value.text()),
                            // In quotes `[*]` is one word.
                            (true, Substituted::List(values))
                                if quote.is_some() && chars[..at + length].ends_with(&['[', '*', ']', '}']) =>
                            {
                                push_value(&mut out, &values, true);
                            }
                            // In quotes, too, a list without values has no words.
                            (true, Substituted::List(values))
                                if values.is_empty() && out.ends_with('"') && chars.get(at + length) == Some(&'"') =>
                            {
                                out.pop();
                                quote = None;
                                length += 1;
                            }
                            (true, Substituted::Value(value)) => push_value(&mut out, &value, quote.is_some()),
                            (true, Substituted::List(values)) => push_values(&mut out, &values, quote.is_some()),
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

    /// The value of what begins here with a `$` or a backquote, and how many characters that has; none where it is a
    /// character alone.
    /// `before` is the text in front of it, after which an unknown value is named.
    fn substituted(&mut self, text: &[char], before: &str) -> Option<(Substituted, usize)> {
        let length = substitution(text);
        let inner = |begin: usize, end: usize| text[begin..end].iter().collect::<String>();
        let value = match (text, length) {
            (['$', '(', '(', ..], Some(length)) if text[..length].ends_with(&[')', ')']) => {
                Substituted::Value(self.result(&inner(3, length - 2)))
            }
            (['$', '(', ..], Some(length)) => {
                Substituted::Value(self.output(&inner(2, length - 1), &inner(0, length), before))
            }
            (['`', ..], Some(length)) => {
                Substituted::Value(self.output(&inner(1, length - 1), &inner(0, length), before))
            }
            (['$', '{', ..], Some(length)) => self.parameter(&inner(2, length - 1)),
            (['$', first, ..], None) => {
                let is_name = first.is_ascii_alphabetic() || *first == '_';
                let rest = text[1..].iter().take_while(|c| c.is_ascii_alphanumeric() || **c == '_').count();
                let name_length = if is_name { rest } else { 1 };
                if !is_name && !first.is_ascii_digit() && !"@*#?$!".contains(*first) {
                    return None;
                }
                return Some((self.parameter(&inner(1, 1 + name_length)), 1 + name_length));
            }
            _ => return None,
        };
        Some((value, length?))
    }

    /// What stands between the braces of `${ … }`.
    fn parameter(&mut self, inner: &str) -> Substituted {
        let written = format!("${{{inner}}}");
        let keys = inner.strip_prefix('!').and_then(|rest| rest.strip_suffix("[@]").or(rest.strip_suffix("[*]")));
        if let Some(values) = keys.and_then(|name| self.values.get(name)).filter(|values| !is_one_marker(values)) {
            let keys = values.split_whitespace().enumerate();
            let keys = keys.map(|(at, value)| keyed(value).map_or(at.to_string(), |(key, _)| key.to_owned()));
            return Substituted::List(keys.collect::<Vec<_>>().join(" "));
        }
        let Some(expansion) = ParameterExpansion::read(inner) else { return self.unread(&written) };
        let moved = expansion.name.parse::<usize>().ok().filter(|at| *at > 0 && !self.values.contains_key("@"));
        let moved = moved.map(|at| (at.min(1000) + self.shifted).to_string());
        let name = moved.as_deref().unwrap_or(expansion.name);
        self.used.insert(name.to_owned());
        let value = self.values.get(name).cloned();
        let is_list = expansion.is_list || name == "@" && value.is_some();
        if is_list && matches!(expansion.operation, Operation::Value) {
            let value = value.unwrap_or_else(|| self.marker(UnknownValue::of_list(name)));
            let plain = value.split_whitespace().map(|value| keyed(value).map_or(value, |(_, plain)| plain));
            return Substituted::List(plain.collect::<Vec<_>>().join(" "));
        }
        if let Operation::Slice { first, count } = expansion.operation {
            let value = value.filter(|value| !value.contains("{{") && expansion.index.is_none());
            let Some(value) = value else { return self.unread(&written) };
            if !is_list {
                return Substituted::Value(value.chars().skip(first).take(count).collect());
            }
            // Arguments are counted from 1.
            let skipped = first.saturating_sub(usize::from(name == "@"));
            return Substituted::List(value.split_whitespace().skip(skipped).take(count).collect::<Vec<_>>().join(" "));
        }
        let is_unknown_list = value.as_deref().is_none_or(is_one_marker);
        let value = match (expansion.index, value) {
            (Some(index), Some(values)) if !is_unknown_list => self.element(&values, index),
            (Some(_), _) => None,
            (None, value) => value,
        };
        let plain = expansion.index.is_none() && !expansion.is_list;
        // Elements of one array with different indices are different values.
        let written = match expansion.index.map(|index| self.expand_text(index)).filter(|index| !index.contains("{{")) {
            Some(index) => format!("${{{name}[{index}]}}"),
            None => written,
        };
        let value = match expansion.operation {
            Operation::Default(text) | Operation::Assign(text) if value.as_deref().is_none_or(str::is_empty) => {
                let default = self.expand(text);
                let default = shlex::split(&default).map_or(default, |words| words.join(" "));
                if let Operation::Assign(_) = expansion.operation {
                    self.set(name, &default);
                }
                Some(default)
            }
            Operation::Value | Operation::Default(_) | Operation::Assign(_) | Operation::Slice { .. } => value,
            Operation::Alternative(text) => {
                let is_set = value.is_some_and(|value| !value.is_empty());
                Some(if is_set { self.expand_text(text) } else { String::new() })
            }
            Operation::Changed(ref change) => {
                let value = value.as_deref().filter(|value| !value.contains("{{"));
                let changed = value.and_then(|value| change.apply(value));
                return changed.map_or_else(|| self.unread(&written), Substituted::Value);
            }
            Operation::Count => {
                let count = value.as_deref().filter(|value| !value.contains("{{")).map(|value| {
                    if expansion.is_list { value.split_whitespace().count() } else { value.chars().count() }
                });
                return count.map_or_else(|| self.unread(&written), |count| Substituted::Value(count.to_string()));
            }
        };
        let unknown = || if plain { UnknownValue::of_variable(name) } else { UnknownValue::of_expression(&written) };
        Substituted::Value(value.unwrap_or_else(|| self.marker(unknown())))
    }

    /// What stands for an expansion that is not read.
    fn unread(&mut self, written: &str) -> Substituted {
        Substituted::Value(self.marker(UnknownValue::of_expression(written)))
    }

    /// The element of an array whose index may be a variable.
    fn element(&mut self, values: &str, index: &str) -> Option<String> {
        if values.split_whitespace().any(|value| keyed(value).is_some()) {
            let wanted = self.expand_text(index).trim_matches(['"', '\'']).to_owned();
            let mut pairs = values.split_whitespace().filter_map(keyed);
            let element = || pairs.find(|(key, _)| *key == wanted).map_or(String::new(), |(_, value)| value.to_owned());
            return (!wanted.contains("{{")).then(element);
        }
        let at = self.result(index).parse::<usize>().ok()?;
        Some(values.split_whitespace().nth(at).unwrap_or_default().to_owned())
    }

    /// What a command would print, where that is known without running it. Otherwise it is a parameter, named after
    /// the variable that is set or the option that is given.
    fn output(&mut self, command: &str, written: &str, before: &str) -> String {
        // `cd FOLDER && pwd` is that folder.
        let folder = command.strip_prefix("cd ").and_then(|rest| rest.strip_suffix("pwd")?.trim().strip_suffix("&&"));
        let command = &*folder.map_or_else(|| command.to_owned(), |folder| format!("echo {folder}"));
        if let Some(field) = self.cut(command) {
            return field;
        }
        let is_plain = !command.contains(['|', ';', '&', '<', '>', '\n']);
        let expanded = self.expand(command);
        let words = if is_plain { shlex::split(&expanded) } else { None };
        let printed = words.and_then(|words| match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["pwd"] => Some(self.value("PWD")),
            ["dirname", path] => Some(path.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned()),
            ["basename", path] => path.rsplit('/').next().map(str::to_owned),
            ["seq", numbers @ ..] => Some(sequence(&numbers.join(" "))?.join(" ")),
            ["echo", first, rest @ ..] if !first.starts_with('-') => Some([&[*first], rest].concat().join(" ")),
            _ => None,
        });
        printed.unwrap_or_else(|| {
            // In a loop it prints something else for each value.
            let written = if expanded == command { written } else { &format!("$({expanded})") };
            let value = UnknownValue::of_command(written, last_word(before));
            self.marker(value)
        })
    }

    /// What `echo TEXT | cut -d: -f2` prints, or `cut … <<< TEXT`, where the text is known.
    fn cut(&mut self, command: &str) -> Option<String> {
        let (text, cut) = match command.split_once("<<<") {
            Some((cut, text)) => (text, cut),
            None => command.trim().strip_prefix("echo ")?.split_once('|')?,
        };
        let words = shlex::split(cut).filter(|words| words.first().is_some_and(|word| word == "cut"))?;
        let value = |option: &str| {
            let at = words.iter().position(|word| word.starts_with(option))?;
            Some(&words[at][option.len()..]).filter(|value| !value.is_empty()).or(words.get(at + 1).map(String::as_str))
        };
        let (delimiter, field) = (value("-d")?.chars().next()?, value("-f")?.parse::<usize>().ok()?);
        if cut.contains('|') || text.contains('|') || text.trim_start().starts_with('-') {
            return None;
        }
        let text = shlex::split(&self.expand(text)).filter(|words| !words.iter().any(|word| word.contains("{{")))?;
        text.join(" ").split(delimiter).nth(field.checked_sub(1)?).map(str::to_owned)
    }

    /// Of a variable, or what stands for it.
    fn value(&mut self, name: &str) -> String {
        self.used.insert(name.to_owned());
        let value = self.values.get(name).cloned();
        value.unwrap_or_else(|| self.marker(UnknownValue::of_variable(name)))
    }

    /// The result of `$(( … ))`: a number or a formula. Arithmetic that is not supported becomes a parameter.
    fn result(&mut self, written: &str) -> String {
        let text = self.expand_text(written);
        if let Some(result) = evaluate(&text, &mut |name| self.value(name)) {
            return result.to_string();
        }
        // In a loop it is something else for each value.
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let valued = text.split_inclusive(|c| !is_name(c)).map(|part| {
            let name = part.trim_end_matches(|c| !is_name(c));
            let value = self.values.get(name).filter(|_| !name.is_empty()).map_or(name, String::as_str);
            format!("{value}{}", &part[name.len()..])
        });
        let valued: String = valued.collect();
        self.marker(UnknownValue::of_expression(&format!("$(({valued}))")))
    }

    /// What stands for the value in arguments and keys. Different values have different names.
    fn marker(&mut self, mut value: UnknownValue) -> String {
        let written = (value.written.clone(), value.name.clone());
        if let Some(marker) = self.markers.get(&written) {
            return marker.clone();
        }
        if is_reserved_name(&value.name) {
            value.name.push_str("_value");
        }
        let numbered = (2..).map(|number| format!("{}_{number}", value.name));
        let is_free = |name: &String| self.unknown.iter().all(|other| other.name != *name);
        value.name = std::iter::once(value.name.clone()).chain(numbered).find(is_free).unwrap_or_default();
        let marker = value.marker();
        self.markers.insert(written, marker.clone());
        self.unknown.push(value);
        marker
    }
}

/// `$1`, `$2`, … and all of them, and `$#`. Those that are not given are empty.
pub(crate) fn positional(arguments: &[String]) -> BTreeMap<String, String> {
    let joined = arguments.join(" ");
    let number = |at: usize| ((at + 1).to_string(), arguments.get(at).cloned().unwrap_or_default());
    let count = ("#".to_owned(), arguments.len().to_string());
    let lists = ["@", "*"].map(|name| (name.to_owned(), joined.clone()));
    (0..arguments.len().max(9)).map(number).chain(lists).chain([count]).collect()
}

/// What a substitution becomes.
enum Substituted {
    Value(String),
    /// The values of an array.
    List(String),
}

impl Substituted {
    fn text(self) -> String {
        match self {
            Self::Value(text) | Self::List(text) => text.replace(ELEMENT_BLANK, " "),
        }
    }
}

/// `[KEY]=VALUE` of an array whose elements have names.
fn keyed(value: &str) -> Option<(&str, &str)> {
    value.strip_prefix('[')?.split_once("]=")
}

/// Whether a text is what stands for one unknown value, and nothing else. Of an array that is a list of unknown
/// length.
fn is_one_marker(text: &str) -> bool {
    text.starts_with("{{") && text.ends_with("}}") && text.matches("{{").count() == 1
}

/// The last word of a text, or its end where that is longer than the name of any option: each placeholder looks at
/// it.
fn last_word(text: &str) -> &str {
    const LONGEST: usize = 256;
    let start = text.char_indices().rev().nth(LONGEST).map_or(0, |(at, _)| at);
    text[start..].split_whitespace().next_back().unwrap_or_default()
}

/// So that the value is that one text when the command is split: a blank in it separates only outside quotes.
fn push_value(out: &mut String, value: &str, is_quoted: bool) {
    for c in value.replace(ELEMENT_BLANK, " ").chars() {
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
            variables.expand("a $((N*10)) \"$(( $N + 1 ))\" '$((N))' $((M * 2)) \"$((M * N))\" $((M << 2))"),
            "a 40 \"5\" '$((N))' {{m:int·*·2}} \"{{m:int·*·4}}\" {{m_2}}"
        );
        let written: Vec<&str> = variables.unknown.iter().map(|value| value.written.as_str()).collect();
        assert_eq!(written, ["${M}", "$((M << 2))"]);
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

    #[test]
    fn what_a_command_would_print_is_a_parameter_named_after_what_it_is_for() {
        let mut variables = Variables::default();
        for (text, expected) in [
            ("A=$(scontrol show hostnames $NODES | head -n1)", "A={{a}}"),
            ("B=(`hostname -i | awk '{print $1}'`)", "B=({{b}})"),
            ("p --host $(hostname -s) --name=\"$(id -un)\"", "p --host {{host}} --name=\"{{name}}\""),
            ("p $(cat \"x $(echo y)\")", "p {{cat_x_y}}"),
            ("for i in $(seq 2 2 6)", "for i in 2 4 6"),
            ("p $(pwd)/x $(echo a b) '$(date)'", "p {{pwd}}/x a b '$(date)'"),
            ("A=${TP} p $TP ${tp} $1 \"$@\" $", "A={{tp}} p {{tp}} {{tp_2}} {{argument_1}} \"{{arguments}}\" $"),
            ("p ${IN} \\$X", "p {{in_value}} \\$X"),
        ] {
            assert_eq!(variables.expand(text), expected, "{text}");
        }
        assert_eq!(variables.unknown[1].written, "$(scontrol show hostnames {{nodes}} | head -n1)");
        assert_eq!(variables.expand_text("it's \"$TP\" \\$X"), "it's \"{{tp}}\" $X");
    }

    #[test]
    fn parameters_are_expanded_where_their_values_are_known() {
        let mut variables = Variables::default();
        variables.set("F", "/a/model.tar.gz");
        variables.set("L", "one two three");
        variables.set("H", "{{hosts}}");
        for (text, expected) in [
            ("${F##*/} ${F%.gz} ${F%%.*} ${F#/a/}", "model.tar.gz /a/model.tar /a/model model.tar.gz"),
            ("${F/model/x} ${F//a/b} ${#F} ${L^^}", "/a/x.tar.gz /b/model.tbr.gz 15 ONE TWO THREE"),
            ("${L[1]} ${#L[@]} ${L[$((1+1))]} ${L[9]}", "two 3 three "),
            ("${H[0]} ${H%x}", "{{h_0}} {{h_x}}"),
            ("${U:-a b} ${U-\"$F\"} ${U:-${F%%/*}x} ${U:+x} ${F:+y}", "a b /a/model.tar.gz x  y"),
            ("${V:=7} $V ${W:?why} ${N##*/} ${X[2]}", "7 7 {{w}} {{n}} {{x_2}}"),
        ] {
            assert_eq!(variables.expand(text), expected, "{text}");
        }
    }
}
