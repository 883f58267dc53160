//! Options in a YAML file that a command line names.

use serde_json::{Map, Value};

use base::units::unquoted;

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
