//! A foreign program's options: a data file for each program, `tools/NAME.toml`, and what its rows do to a
//! translation.
//!
//! A row says of each of its options what it affects, and one of these:
//!
//! - `sets`: the key of `bench:` (or of the file's `action`) that has its value here;
//! - `computes`: a function of the tool that reads it, for what is more than a copy;
//! - `reason`: why it has no place here. It is reported with the option.
//!
//! A row may apply only to some lines (`with`, `without`, `data_sets`); on the others its `reason` counts.
//!
//! What the program does on every line is below `[always]`. A new option is a row, a new program a file and its row in
//! `crate::tools`. A program whose lines mean more than its file can say has a function in `translate::command`, too.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::load::TranslatedLoad;
use super::options::{GivenOption, Opt, ParsedLine, Takes, read, read_known};
use super::program::Env;
use super::translation::{TranslationBuilder, TranslationResult};
use base::spec::Quantity;

/// A function that rows name with `computes`. False: the option has no place on this line, and the row's `reason`
/// says why.
pub(crate) type Compute = fn(&mut TranslatedLoad, &ParsedLine, &GivenOption) -> bool;

/// What `computes` says of options that the tool's translator reads itself: together with others, or for a server's
/// stage.
const READ_BY_TRANSLATOR: [&str; 8] =
    ["together", "options", "port", "key", "hub_token", "socket", "template", "input"];

/// A program's options.
#[derive(Debug)]
pub(crate) struct ToolTable {
    /// The program, as messages name it.
    pub program: &'static str,
    /// Where `sets` keys are in a manifest: `bench`, `serve.vllm`; `tensor`: they are those of a single request.
    pub action: String,
    /// The variable that the program reads its key from.
    pub key_variable: Option<&'static str>,
    /// The variable that a client reads the address of its server from.
    pub address_variable: Option<&'static str>,
    /// Keys of `bench:` that every line sets.
    always: Vec<(&'static str, &'static str)>,
    pub options: Vec<Opt>,
    /// The row of each option, by its place.
    rows: Vec<&'static OptionRow>,
    functions: &'static [(&'static str, Compute)],
}

/// A data file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFile {
    program: String,
    /// The versions whose options these are.
    #[expect(dead_code, reason = "for readers of the file")]
    versions: Option<String>,
    #[serde(default)]
    action: String,
    key_variable: Option<String>,
    address_variable: Option<String>,
    #[serde(default)]
    always: IndexMap<String, String>,
    #[serde(default, rename = "option")]
    rows: Vec<OptionRow>,
    #[serde(default, rename = "launcher")]
    launchers: Vec<LauncherRow>,
}

/// Programs in front of a command.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LauncherRow {
    pub names: Vec<String>,
    #[serde(default)]
    options: Vec<String>,
    /// It has an argument of its own after its options: a time, a container.
    #[serde(default)]
    pub has_operand: bool,
}

/// What the options of a row do.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionRow {
    /// `--name|--other-name VALUE`: without a value it is a switch, with `VALUE...` it takes all up to the next
    /// option.
    names: Vec<String>,
    /// Where it has no place here.
    affects: Affects,
    /// The tool's own, where the line does not have the option.
    pub default: Option<String>,
    pub sets: Option<String>,
    #[serde(default)]
    value: ValueKind,
    /// What a switch sets.
    pub to: Option<String>,
    pub computes: Option<String>,
    pub reason: Option<String>,
    /// It applies only to lines with this option.
    with: Option<String>,
    /// It applies only to lines without this option.
    without: Option<String>,
    /// It is read for these data sets only.
    #[serde(default)]
    data_sets: Vec<String>,
    /// Of an option without which the line is not measured: what the tool would do, or what to give.
    required: Option<String>,
    /// A server takes as many GPUs as the product of these.
    #[serde(default)]
    pub multiplies_gpus: bool,
    /// Values that change nothing.
    #[serde(default)]
    neutral: Vec<String>,
}

/// What an option changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Affects {
    /// Which requests are sent, and when: what is printed without it is another measurement.
    Workload,
    Measurement,
    Output,
    Client,
    Server,
}

/// How a value becomes that of its key.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ValueKind {
    /// As it is.
    #[default]
    Text,
    Number,
    /// A whole number from 1 on, of a key without an option in `regatta bench`.
    Count,
    /// The mean or the deviation of a length.
    Length,
    Seconds,
    /// A field of each request.
    Field,
    /// Fields of each request: `NAME:VALUE`, or JSON.
    Fields,
    Headers,
    /// `METRIC:MS`.
    Slo,
    /// A base URL, with the protocol's path behind it.
    Address,
    /// Seconds for a server that is still loading.
    Wait,
    /// A tokenizer, which is a file here.
    Tokenizer,
}

/// A program's table: its files in `tools/`, and the functions that their rows name.
macro_rules! tool_table {
    ([$($file:literal),+]) => {{
        tool_table!(TABLE, [$($file),+], []);
        &TABLE
    }};
    ($name:ident, [$($file:literal),+], $functions:expr) => {
        pub(crate) static $name: std::sync::LazyLock<$crate::command_line::ToolTable> =
            std::sync::LazyLock::new(|| {
                let functions: &[(&str, $crate::command_line::Compute)] = &$functions;
                let files = [$(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tools/", $file, ".toml"))),+];
                $crate::command_line::ToolTable::new(&files, functions)
            });
    };
}
pub(crate) use tool_table;

impl ToolTable {
    /// Reads a tool's file, and those that it shares with other programs. A file that cannot be read has no options;
    /// a test reads all.
    pub fn new(files: &[&'static str], functions: &'static [(&'static str, Compute)]) -> Self {
        let files = files.iter().map(|text| &*Box::leak(Box::new(toml::from_str(text).unwrap_or_default())));
        let files: Vec<&'static ToolFile> = files.collect();
        let rows = files.iter().flat_map(|file| &file.rows);
        let (options, rows) = rows.flat_map(|row| row.names.iter().map(move |written| (option(written), row))).unzip();
        Self {
            program: &files[0].program,
            action: files[0].action.clone(),
            key_variable: files[0].key_variable.as_deref(),
            address_variable: files[0].address_variable.as_deref(),
            always: files.iter().flat_map(|file| &file.always).map(|(key, value)| (&**key, &**value)).collect(),
            options,
            rows,
            functions,
        }
    }

    /// The row of an option, by its first name.
    pub fn row(&self, name: &str) -> Option<&'static OptionRow> {
        let at = self.options.iter().position(|option| option.names[0] == name)?;
        self.rows.get(at).copied()
    }

    /// Reads the arguments of a program that takes options only.
    pub fn read(&'static self, words: &[String], builder: &mut TranslationBuilder) -> ParsedLine {
        let line = self.read_as(self.program, words, builder);
        line.has_options_only(self.program, builder);
        line
    }

    /// A line of a program that its file says all of.
    pub fn translate(&'static self, env: &Env, words: &[String]) -> TranslationResult {
        self.measurement(words, |_, load| {
            if let Some(variable) = self.address_variable {
                let path = load.usual_path();
                match env.0.iter().find(|(name, _)| name == variable) {
                    Some((_, base)) => load.overlapping_address(&[base], path.trim_start_matches("/v1"), path),
                    None => {
                        load.builder.push_error(format!("{variable}=http://HOST:PORT/v1 is missing before the line"));
                    }
                }
            }
            if let Some(variable) = self.key_variable.filter(|variable| env.has(variable)) {
                load.put("api_key_env", variable);
            }
        })
    }

    /// A line that is one measurement: what every line does, what options set `together`, and then what the rows say.
    pub fn measurement(
        &'static self,
        words: &[String],
        together: impl FnOnce(&ParsedLine, &mut TranslatedLoad),
    ) -> TranslationResult {
        let mut load = TranslatedLoad::default();
        let line = self.read(words, &mut load.builder);
        self.always.iter().for_each(|(key, value)| load.put(key, *value));
        for (option, row) in self.options.iter().zip(&self.rows).filter(|(option, _)| !line.has(option.names[0])) {
            let name = option.names[0];
            if let Some(reason) = row.required.as_ref().filter(|_| row.applies_to(&line)) {
                load.builder.push_error(format!("{} needs {name}: {reason}", self.program));
            }
            if let (Some(key), Some(default)) = (&row.sets, &row.default) {
                row.set(key, &GivenOption { name, written: name.to_owned(), values: vec![default.clone()] }, &mut load);
            }
        }
        together(&line, &mut load);
        self.apply(&line, &mut load);
        load.default_tokenizer(None);
        load.finish(self.program)
    }

    /// Reads the arguments of a program, which may have these options under another name.
    pub fn read_as(&'static self, program: &str, words: &[String], builder: &mut TranslationBuilder) -> ParsedLine {
        ParsedLine { table: Some(self), ..read(program, &self.options, words, builder, false) }
    }

    /// Reads the arguments of a launcher up to the command that it starts, which is `behind`.
    pub fn read_front(&'static self, program: &str, words: &[String], builder: &mut TranslationBuilder) -> ParsedLine {
        ParsedLine { table: Some(self), ..read(program, &self.options, words, builder, true) }
    }

    /// Takes the program's own options out of a line. All other arguments are returned as they are.
    pub fn read_known(&'static self, words: &[String], builder: &mut TranslationBuilder) -> (ParsedLine, Vec<String>) {
        let (line, others) = read_known(self.program, &self.options, words, builder);
        (ParsedLine { table: Some(self), ..line }, others)
    }

    /// Like `read_known`, of some of the rows.
    pub fn read_rows(
        &'static self,
        is_read: impl Fn(&OptionRow) -> bool,
        words: &[String],
        builder: &mut TranslationBuilder,
    ) -> (ParsedLine, Vec<String>) {
        let rows = self.options.iter().zip(&self.rows).filter(|(_, row)| is_read(row));
        let options: Vec<Opt> = rows.map(|(option, _)| *option).collect();
        read_known(self.program, &options, words, builder)
    }

    /// Does what the rows of the line's options say, in the line's order.
    pub fn apply(&self, line: &ParsedLine, load: &mut TranslatedLoad) {
        for given in &line.given {
            self.apply_option(line, given, load);
        }
    }

    /// Does what the row of an option says.
    pub fn apply_option(&self, line: &ParsedLine, given: &GivenOption, load: &mut TranslatedLoad) {
        let Some(row) = self.row(given.name) else { return };
        if row.is_neutral(given) {
            return;
        }
        if row.is_of_data_set() && !row.data_sets.contains(&load.data_set) {
            // The tool does not use it either.
            let reason = format!("it is for another data set than `{}`", load.data_set);
            return load.builder.push_untranslated(given, reason);
        }
        let is_done = row.applies_to(line)
            && match (&row.sets, &row.computes) {
                (Some(key), _) => {
                    row.set(key, given, load);
                    true
                }
                (None, Some(name)) if READ_BY_TRANSLATOR.contains(&name.as_str()) => true,
                (None, Some(name)) => self.function(name).is_some_and(|compute| compute(load, line, given)),
                (None, None) => false,
            };
        if !is_done {
            row.push_untranslated(given, &mut load.builder);
        }
    }

    /// Reports an option whose row has a reason, or nothing else.
    pub fn push_untranslated(&self, given: &GivenOption, builder: &mut TranslationBuilder) {
        let has_no_place = |row: &&OptionRow| row.computes.is_none() && (row.sets.is_none() || row.reason.is_some());
        if let Some(row) = self.row(given.name).filter(has_no_place) {
            row.push_untranslated(given, builder);
        }
    }

    /// Puts the options with a key into those of a server: numbers, the tool's defaults, and switches.
    pub fn put_keys(&self, line: &ParsedLine, keys: &mut Map<String, Value>, builder: &mut TranslationBuilder) {
        for (option, row) in self.options.iter().zip(&self.rows) {
            let (name, Some(key)) = (option.names[0], &row.sets) else { continue };
            let value = match line.setting(name) {
                "" if line.has(name) => json!(true),
                "" => continue,
                text => {
                    let Ok(number) = text.parse::<Quantity<u64>>() else {
                        builder.push_error(format!("`{name} {text}` is not a whole number"));
                        continue;
                    };
                    json!(number)
                }
            };
            keys.insert(key.clone(), value);
        }
    }

    fn function(&self, name: &str) -> Option<Compute> {
        self.functions.iter().find(|(other, _)| *other == name).map(|(_, compute)| *compute)
    }
}

impl OptionRow {
    /// Why it has no place.
    pub fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or("Regatta has no equivalent")
    }

    fn is_neutral(&self, given: &GivenOption) -> bool {
        self.neutral.iter().any(|value| value == given.value())
    }

    /// Reports its option, which has no place, unless its value changes nothing.
    pub fn push_untranslated(&self, given: &GivenOption, builder: &mut TranslationBuilder) {
        if self.is_neutral(given) {
            return;
        }
        let is_secret = given.name.ends_with("token");
        let shown = if is_secret { format!("{} …", given.written) } else { given.to_string() };
        match self.affects {
            Affects::Workload => builder.push_untranslated_load(shown, self.reason()),
            _ => builder.push_untranslated(shown, self.reason()),
        }
    }

    /// Whether it affects the server that the line starts.
    pub fn is_of_server(&self) -> bool {
        self.affects == Affects::Server
    }

    /// Whether it is for some data sets only.
    pub fn is_of_data_set(&self) -> bool {
        !self.data_sets.is_empty()
    }

    pub fn is_number(&self) -> bool {
        matches!(self.value, ValueKind::Number)
    }

    /// Whether its option counts on this line.
    pub fn applies_to(&self, line: &ParsedLine) -> bool {
        self.with.as_ref().is_none_or(|name| line.has(name)) && self.without.as_ref().is_none_or(|name| !line.has(name))
    }

    fn set(&'static self, key: &'static str, given: &GivenOption, load: &mut TranslatedLoad) {
        let value = given.value();
        match (self.value, &self.to) {
            (_, Some(value)) => load.put(key, value),
            (ValueKind::Count, _) => load.whole(key, given),
            (ValueKind::Length, _) => load.length(key, value),
            (ValueKind::Seconds, _) => load.assign(key, format!("{value}s")),
            (ValueKind::Field, _) => {
                let name = key.rsplit('.').next().unwrap_or(key);
                load.extra(&format!("{name}:{value}"), true);
            }
            (ValueKind::Fields, _) => {
                let is_http = load.get("protocol") != Some("kserve");
                given.values.iter().for_each(|word| load.extra(word, is_http));
            }
            (ValueKind::Headers, _) => load.headers(given),
            (ValueKind::Slo, _) => load.goodput(given),
            (ValueKind::Address, _) => load.address(value, load.usual_path(), load.usual_path()),
            (ValueKind::Wait, _) => load.ready_timeout(given),
            (ValueKind::Tokenizer, _) => load.tokenizer(value, given),
            (ValueKind::Text | ValueKind::Number, None) if given.values.is_empty() => load.flag(key),
            (ValueKind::Text | ValueKind::Number, None) => load.put(key, value),
        }
    }
}

/// An option as a row writes it. Tables are made once and live as long as the program.
fn option(written: &'static str) -> Opt {
    let (names, value) = written.split_once(' ').unwrap_or((written, ""));
    let takes = match value {
        "" => Takes::Nothing,
        value if value.ends_with("...") => Takes::Many,
        _ => Takes::One,
    };
    Opt { names: Box::leak(names.split('|').collect()), takes }
}

/// A program in front of commands, and its options.
pub(crate) type LauncherOptions = (&'static LauncherRow, Vec<Opt>);

/// Reads the file of launchers.
pub(crate) fn launchers(text: &'static str) -> Vec<LauncherOptions> {
    let file: &'static ToolFile = Box::leak(Box::new(toml::from_str(text).unwrap_or_default()));
    let launcher = |row: &'static LauncherRow| (row, row.options.iter().map(|row| option(row)).collect());
    file.launchers.iter().map(launcher).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tools;
    use std::collections::BTreeSet;

    /// Every table.
    fn tables() -> impl Iterator<Item = &'static ToolTable> {
        tools().flat_map(|(_, tables)| tables.iter().map(|table| &***table))
    }

    fn manifest_schema() -> Value {
        serde_json::from_str(include_str!("../../../schemas/manifest.json")).expect("the schema")
    }

    /// Whether a value of this schema has the key, through references and alternatives.
    fn has_key(root: &Value, schema: &Value, path: &[&str]) -> bool {
        let Some((key, rest)) = path.split_first() else { return true };
        if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
            return has_key(root, &root["$defs"][name], path);
        }
        let alternatives = ["anyOf", "oneOf", "allOf"].iter().filter_map(|name| schema[name].as_array()).flatten();
        schema["additionalProperties"] == true
            || schema["properties"].get(key).is_some_and(|inner| has_key(root, inner, rest))
            || alternatives.into_iter().any(|inner| has_key(root, inner, path))
    }

    #[test]
    fn every_file_is_read_and_registered() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tools");
        let mut programs = BTreeSet::new();
        for entry in std::fs::read_dir(folder).expect("the folder of tools").map(|entry| entry.expect("a file").path())
        {
            let text = std::fs::read_to_string(&entry).expect("a text");
            let file: ToolFile = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", entry.display()));
            programs.insert(file.program);
        }
        let registered: BTreeSet<String> = tables().map(|table| table.program.to_owned()).collect();
        assert!(programs.difference(&registered).all(|program| program.ends_with("(shared)")), "{programs:?}");
        assert!(registered.is_subset(&programs), "{registered:?}");
    }

    #[test]
    fn a_line_calls_a_program_by_the_name_that_messages_have() {
        for (name, tables) in tools() {
            assert!(tables.iter().all(|table| table.program.split(' ').next() == Some(*name)), "{name}");
        }
    }

    #[test]
    fn no_option_of_a_tool_has_two_rows() {
        for table in tables() {
            let mut names = BTreeSet::new();
            for name in table.options.iter().flat_map(|option| option.names) {
                assert!(names.insert(*name), "{}: {name} twice", table.program);
                assert!(name.starts_with('-'), "{}: {name}", table.program);
            }
        }
    }

    #[test]
    fn every_key_that_a_row_sets_is_one_of_the_manifest() {
        let schema = manifest_schema();
        assert!(!has_key(&schema, &schema["$defs"]["Stage"], &["bench", "stop", "no_such_key"]));
        // Those of a single request are its tensors.
        for table in tables().filter(|table| table.action != "tensor") {
            let action = if table.action.is_empty() { "bench" } else { &table.action };
            for key in table.rows.iter().filter_map(|row| row.sets.as_ref()) {
                let path: Vec<&str> = action.split('.').chain(key.split('.')).collect();
                assert!(has_key(&schema, &schema["$defs"]["Stage"], &path), "{}: {path:?}", table.program);
            }
        }
    }

    #[test]
    fn every_function_is_registered_and_every_row_says_something() {
        for table in tables() {
            let computed = table.rows.iter().filter_map(|row| row.computes.as_deref());
            let named: BTreeSet<&str> = computed.filter(|name| !READ_BY_TRANSLATOR.contains(name)).collect();
            let registered: BTreeSet<&str> = table.functions.iter().map(|(name, _)| *name).collect();
            assert_eq!(named, registered, "{}", table.program);
            for row in &table.rows {
                assert!(row.sets.is_none() || row.computes.is_none(), "{}: {:?}", table.program, row.names);
                for name in row.with.iter().chain(&row.without) {
                    assert!(table.row(name).is_some(), "{}: {name}", table.program);
                }
            }
        }
    }
}
