//! Options as argparse, click and `getopt_long` read them, from a table for each tool.
//!
//! `--x v`, `--x=v`, `-x v` and `-xv`; a beginning that only one option has stands for it. `_` and `-` are the same
//! in a name: NVIDIA's pages write both. An option that is not in the table is an error, with the nearest that is.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};

use super::load_options::share;
use super::tool_table::ToolTable;
use super::translation::TranslationBuilder;
use base::diag::did_you_mean;
use base::spec::{Numeric, Quantity};
use base::units::unquoted;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Nothing,
    One,
    /// All arguments up to the next option.
    Many,
}

/// One option: its names with their dashes, the first of which is the one it is known by here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt {
    pub names: &'static [&'static str],
    pub takes: Takes,
}

pub(crate) const fn flag(names: &'static [&'static str]) -> Opt {
    Opt { names, takes: Takes::Nothing }
}

pub(crate) const fn one(names: &'static [&'static str]) -> Opt {
    Opt { names, takes: Takes::One }
}

/// An option as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenOption {
    /// The first name in the table.
    pub name: &'static str,
    /// The name as it was written.
    pub written: String,
    pub values: Vec<String>,
}

impl GivenOption {
    /// The value of an option that takes one.
    pub fn value(&self) -> &str {
        self.values.first().map_or("", String::as_str)
    }

    /// The value as a number; `None` if it is not one.
    pub fn number<T: Numeric + FromStr>(&self) -> Option<Quantity<T>> {
        self.value().trim().parse().ok()
    }
}

/// As it was written.
impl fmt::Display for GivenOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)?;
        self.values.iter().try_for_each(|value| write!(f, " {value}"))
    }
}

impl From<&GivenOption> for String {
    fn from(given: &GivenOption) -> Self {
        given.to_string()
    }
}

/// A line, read.
#[derive(Debug, Default)]
pub(crate) struct ParsedLine {
    /// The options that the program has, where a file has them.
    pub table: Option<&'static ToolTable>,
    pub given: Vec<GivenOption>,
    /// Arguments that belong to no option.
    pub plain: Vec<String>,
    /// Arguments behind `--`.
    pub behind: Vec<String>,
}

impl ParsedLine {
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|given| given.name == name)
    }

    /// The value of an option as a number; `None` if the option is not given or its value is not a number.
    pub fn number<T: Numeric + FromStr>(&self, name: &str) -> Option<Quantity<T>> {
        self.value(name)?.trim().parse().ok()
    }

    /// The product of the numbers of these options, at least 1. Where one of them is not known, it is a formula.
    pub fn product(&self, names: &[&str]) -> Quantity<u64> {
        let numbers = names.iter().filter_map(|name| self.number::<u64>(name));
        numbers.fold(Quantity::Known(1), |product, number| product.times(number.map(|number| number.max(1))))
    }

    /// Reports arguments that belong to no option.
    pub fn has_options_only(&self, tool: &str, builder: &mut TranslationBuilder) {
        for word in self.plain.iter().chain(&self.behind) {
            builder.push_error(format!("`{word}`: {tool} takes options only"));
        }
    }

    /// The last of the options of this name.
    pub fn last(&self, name: &str) -> Option<&GivenOption> {
        self.given.iter().rev().find(|given| given.name == name)
    }

    /// The value of an option, or the tool's own default for it.
    pub fn setting(&self, name: &str) -> &str {
        let default = || self.table.and_then(|table| table.row(name)?.default.as_deref());
        self.value(name).or_else(default).unwrap_or_default()
    }

    /// An option with all its values, which may be given one by one; with the tool's own where it is not given.
    pub fn all(&self, name: &'static str) -> GivenOption {
        let given = self.given.iter().filter(|given| given.name == name);
        let mut values: Vec<String> = given.flat_map(|given| given.values.clone()).collect();
        if values.is_empty() {
            values.push(self.setting(name).to_owned());
        }
        GivenOption { name, written: name.to_owned(), values }
    }

    /// The number of the first of these options that has one; where none has, the default of the tool for them.
    pub fn first_number<T: Numeric + FromStr + Default>(&self, names: &[&str]) -> Quantity<T> {
        let of_tool = |name: &&str| self.table?.row(name)?.default.as_ref()?.parse().ok();
        let given = names.iter().find_map(|name| self.number(name));
        given.or_else(|| names.iter().find_map(of_tool)).unwrap_or(Quantity::Known(T::default()))
    }

    /// A ratio from 0 to 1, or the tool's own default for it.
    pub fn share(&self, name: &str) -> Quantity<f64> {
        let default = || self.table.and_then(|table| table.row(name)?.default.as_ref()?.parse().ok());
        self.last(name).and_then(|given| share(given, "")).or_else(default).unwrap_or(Quantity::Known(0.0))
    }

    /// The last one counts, as it does there.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.last(name).map(GivenOption::value)
    }
}

/// Reads the arguments behind a tool's name. What cannot be read goes to the builder's problems. `ends_at_plain`: only
/// up to the first plain argument, as `docker run` and `srun` do; that one and all behind it are `behind`.
pub(crate) fn read(
    tool: &str,
    table: &[Opt],
    words: &[String],
    builder: &mut TranslationBuilder,
    ends_at_plain: bool,
) -> ParsedLine {
    let mut line = ParsedLine::default();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        if word == "--" {
            line.behind = words.get(at..).unwrap_or_default().to_vec();
            break;
        }
        if !is_option(word) {
            if ends_at_plain {
                line.behind = words.get(at - 1..).unwrap_or_default().to_vec();
                break;
            }
            line.plain.push(word.clone());
            continue;
        }
        let Some((option, written, attached)) = find(table, word) else {
            if ends_at_plain && word.contains('=') {
                builder.push_untranslated(word, format!("unknown option of {tool}"));
                continue;
            }
            let name = word.split('=').next().unwrap_or(word);
            let names = table.iter().flat_map(|option| option.names.iter().copied());
            let hint = did_you_mean(name, names).unwrap_or_default();
            builder.push_error(format!("`{name}` is not a known option of {tool}; {hint}"));
            // Whether the next argument is its value or the command cannot be known.
            if ends_at_plain {
                line.plain = words[at..].to_vec();
                break;
            }
            while words.get(at).is_some_and(|word| !is_option(word)) {
                at += 1;
            }
            continue;
        };
        let Some(values) = values(tool, option, &written, attached, words, &mut at, builder) else { continue };
        line.given.push(GivenOption { name: option.names[0], written, values });
    }
    line
}

/// The values of an option; if a required value is missing, none and an error. `at` is the position after the option.
fn values(
    tool: &str,
    option: &Opt,
    written: &str,
    attached: Option<String>,
    words: &[String],
    at: &mut usize,
    builder: &mut TranslationBuilder,
) -> Option<Vec<String>> {
    let most = match option.takes {
        Takes::Nothing => 0,
        Takes::One => 1,
        Takes::Many => usize::MAX,
    };
    let mut values: Vec<String> = attached.into_iter().collect();
    let further = words[*at..].iter().take_while(|word| !is_option(word)).take(most.saturating_sub(values.len()));
    let further: Vec<String> = further.cloned().collect();
    *at += further.len();
    values.extend(further);
    if option.takes == Takes::One && values.is_empty() {
        builder.push_error(format!("`{written}` of {tool} needs a value"));
        return None;
    }
    Some(values)
}

/// Takes the options of the table out of a line, for programs with far more options than have a meaning here. Every
/// other argument is returned as it was written, in its order.
pub(crate) fn read_known(
    tool: &str,
    table: &[Opt],
    words: &[String],
    builder: &mut TranslationBuilder,
) -> (ParsedLine, Vec<String>) {
    let (mut line, mut others) = (ParsedLine::default(), Vec::new());
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        let (name, attached) = name_and_value(word);
        let Some(option) = exact(table, name).filter(|_| is_option(word)) else {
            others.push(word.clone());
            continue;
        };
        if let Some(values) = values(tool, option, name, attached, words, &mut at, builder) {
            line.given.push(GivenOption { name: option.names[0], written: name.to_owned(), values });
        }
    }
    (line, others)
}

/// A dash, and no negative number.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with('-') && word.parse::<f64>().is_err()
}

/// `_` and `-` are the same in a name.
fn with_dashes(name: &str) -> String {
    let dashes = name.len() - name.trim_start_matches('-').len();
    format!("{}{}", &name[..dashes], name[dashes..].replace('_', "-"))
}

fn name_and_value(word: &str) -> (&str, Option<String>) {
    word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value.to_owned())))
}

/// The option of this name, not abbreviated.
fn exact<'a>(table: &'a [Opt], name: &str) -> Option<&'a Opt> {
    let wanted = with_dashes(name);
    table.iter().find(|option| option.names.iter().any(|name| with_dashes(name) == wanted))
}

/// The option, the name as it was written, and a value that hangs on it.
fn find<'a>(table: &'a [Opt], word: &str) -> Option<(&'a Opt, String, Option<String>)> {
    let (name, value) = name_and_value(word);
    let wanted = with_dashes(name);
    if let Some(option) = exact(table, name) {
        return Some((option, name.to_owned(), value));
    }
    if wanted.starts_with("--") {
        let begins = |option: &&Opt| option.names.iter().any(|name| with_dashes(name).starts_with(&wanted));
        let mut begun = table.iter().filter(begins);
        let option = begun.next()?;
        return begun.next().is_none().then(|| (option, name.to_owned(), value));
    }
    // `-m4`
    let mut chars = word.char_indices().skip(2);
    let (end, _) = chars.next()?;
    let (short, rest) = word.split_at(end);
    let option = table.iter().find(|option| option.takes != Takes::Nothing && option.names.contains(&short))?;
    Some((option, short.to_owned(), Some(rest.trim_start_matches('=').to_owned())))
}

/// The options of a YAML file. `None`: it cannot be read, or a shell would still expand something in it.
pub(crate) fn yaml_options(content: &str) -> Option<Map<String, Value>> {
    let is_expanded = content.contains(['$', '`']) || content.contains("{{");
    base::files::parse_yaml(content).ok().filter(|_| !is_expanded)
}

/// A line with the options of its YAML file in it, and notes on them.
pub(crate) struct ConfiguredLine {
    pub arguments: Vec<String>,
    pub notes: Vec<String>,
    pub file: String,
}

impl ConfiguredLine {
    /// A line with `--config FILE`, as vLLM and SGLang read it: what the line itself has counts more. None where the
    /// file cannot be read, or a shell would still change it.
    pub fn read(arguments: &[String], content: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let at = arguments.iter().position(|word| word.split('=').next() == Some("--config"))?;
        let (file, end) = match arguments[at].split_once('=') {
            Some((_, file)) => (file, at + 1),
            None => (arguments.get(at + 1)?.as_str(), at + 2),
        };
        let mut notes = vec![format!("the options were copied from {file}; later changes to that file have no effect")];
        let mut options = Vec::new();
        for (name, value) in yaml_options(&content(file)?)? {
            let values = match value {
                Value::Null => continue,
                Value::Bool(true) => Vec::new(),
                Value::Bool(false) => {
                    notes.push(format!(
                        "`{name}: false` in {file} has no effect: the server ignores a switch that is off"
                    ));
                    continue;
                }
                Value::Array(items) => items.iter().map(unquoted).collect(),
                value => vec![unquoted(&value)],
            };
            options.push(format!("--{name}"));
            options.extend(values);
        }
        // The model may come first, without an option.
        let first = arguments.iter().position(|word| word.starts_with('-'))?;
        let arguments = [&arguments[..first], &options, &arguments[first..at], &arguments[end..]].concat();
        Some(Self { arguments, notes, file: file.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TABLE: &[Opt] = &[
        one(&["--model", "-m"]),
        flag(&["--streaming"]),
        Opt { names: &["--goodput"], takes: Takes::Many },
        one(&["--request-rate"]),
    ];

    fn read_line(text: &str) -> (ParsedLine, Vec<String>) {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let mut builder = TranslationBuilder::default();
        let line = read("tool", TABLE, &words, &mut builder, false);
        (line, builder.problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn every_spelling_is_read() {
        let (line, faults) =
            read_line("-mgpt2 --request_rate=-1 --stream --goodput a:1 b:2 word -m last -- --behind 3");
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!((line.value("--model"), line.value("--request-rate")), (Some("last"), Some("-1")));
        assert!(line.has("--streaming"));
        assert_eq!(line.given[3].values, ["a:1", "b:2", "word"]);
        assert_eq!(line.behind, ["--behind", "3"]);
    }

    #[test]
    fn every_unknown_option_is_named_with_the_nearest_and_takes_its_words_along() {
        let (line, faults) = read_line("--modle x --color y z --streaming --request-rate");
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(
            faults[0].contains("`--modle` is not a known option of tool")
                && faults[0].contains("did you mean `--model`?")
        );
        assert!(faults[2].contains("`--request-rate` of tool needs a value"));
        assert!(line.plain.is_empty() && line.has("--streaming"));
    }

    #[test]
    fn options_outside_a_small_table_stay_as_they_are() {
        let words: Vec<String> =
            "m --model-impl a --model=x --max_len 3 --goodput a:1 --y".split_whitespace().map(str::to_owned).collect();
        let mut builder = TranslationBuilder::default();
        let (line, others) = read_known("tool", TABLE, &words, &mut builder);
        assert_eq!((line.value("--model"), line.value("--goodput")), (Some("x"), Some("a:1")));
        assert_eq!(others, ["m", "--model-impl", "a", "--max_len", "3", "--y"]);
        assert!(builder.problems.is_empty(), "{builder:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_arguments_make_the_option_reader_panic(words in proptest::collection::vec(".{0,12}", 0..12)) {
            let mut builder = TranslationBuilder::default();
            let line = read("tool", TABLE, &words, &mut builder, false);
            proptest::prop_assert!(line.given.len() + line.plain.len() + line.behind.len() <= words.len());
        }

        #[test]
        fn no_word_is_lost(
            words in proptest::collection::vec("(--model|--streaming|-m|--x|a|=|--|-1|-|--model=)", 0..12),
        ) {
            let mut builder = TranslationBuilder::default();
            let line = read("tool", TABLE, &words, &mut builder, false);
            let kept: usize = line.given.iter().map(|given| 1 + given.values.len()).sum::<usize>()
                + line.plain.len() + line.behind.len() + usize::from(words.contains(&"--".to_owned()));
            // A value joined to its option is one argument with it.
            let hanging = words.iter().filter(|word| word.contains("l=")).count();
            proptest::prop_assert!(kept + hanging >= words.len() || !builder.problems.is_empty());
        }
    }
}
