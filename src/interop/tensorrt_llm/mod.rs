//! TensorRT-LLM's own programs that make a checkpoint and an engine: each line is a `shell` stage with its exact arguments,
//! whose output folder takes the place of the one that the line names.

pub(super) mod convert_checkpoint;
pub(super) mod trtllm_build;

use serde_json::{Map, Value, json};

use super::command_line::program::Env;
use super::command_line::translation::TranslationBuilder;
use base::spec::Quantity;

/// A program's line as a `shell` stage. What it reads are inputs, so that the stage runs again when they change; the folder
/// that it writes is the stage's. All other options are the program's own, and stay as they are.
struct ProgramLine<'a> {
    program: Vec<String>,
    arguments: &'a [String],
    /// Options with a file or folder that is read, and the input's name.
    reads: &'a [(&'a str, &'a str)],
    writes: &'a str,
}

impl ProgramLine<'_> {
    /// `--x v` and `--x=v`; the last one counts.
    fn value(&self, option: &str) -> Option<&str> {
        let mut found = None;
        for (at, word) in self.arguments.iter().enumerate() {
            match word.split_once('=') {
                Some((name, value)) if name == option => found = Some(value),
                _ if word == option => found = self.arguments.get(at + 1).map(String::as_str),
                _ => {}
            }
        }
        found
    }

    /// The product of numbers that options give, 1 for each that is not given.
    fn product(&self, options: &[&str]) -> Quantity<u64> {
        let numbers = options.iter().filter_map(|option| self.value(option)?.parse::<Quantity<u64>>().ok());
        numbers.fold(Quantity::Known(1), |product, number| product.times(number.map(|number| number.max(1))))
    }

    /// `path` makes a path absolute that is relative to the folder of the line.
    fn stage(
        &self,
        name: &str,
        gpus: &Quantity<u64>,
        env: &Env,
        path: &dyn Fn(&str) -> String,
        builder: &mut TranslationBuilder,
    ) -> Value {
        let mut words = self.program.clone();
        let mut inputs = Map::new();
        let mut arguments = self.arguments.iter();
        let mut written = None;
        while let Some(word) = arguments.next() {
            let (option, attached) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let read = self.reads.iter().find(|(known, _)| *known == option);
            if option != self.writes && read.is_none() {
                words.push(word.clone());
                continue;
            }
            let Some(value) = attached.or_else(|| arguments.next().cloned()) else {
                builder.push_error(format!("`{option}` needs a value"));
                continue;
            };
            words.push(option.to_owned());
            if let Some((_, input)) = read {
                inputs.insert((*input).to_owned(), json!(path(&value)));
                words.push(format!("{{{{ inputs.{input} }}}}"));
            } else {
                written = Some(path(&value));
                // A stage runs in its output folder.
                words.push(".".to_owned());
            }
        }
        match written {
            Some(folder) => builder.produces(&folder, format!("{{{{ stages.{name}.out }}}}")),
            None => words.extend([self.writes.to_owned(), ".".to_owned()]),
        }
        let mut stage = Map::new();
        if *gpus != Quantity::Known(0) {
            stage.insert("gpus".to_owned(), json!(gpus));
        }
        if !inputs.is_empty() {
            stage.insert("inputs".to_owned(), Value::Object(inputs));
        }
        env.put_into(&mut stage);
        stage.insert("shell".to_owned(), json!(words));
        Value::Object(stage)
    }
}
