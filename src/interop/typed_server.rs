//! Options of a server program that its typed `serve` action has keys for: a `vllm serve` line becomes `serve: { vllm: … }`.

use serde_json::{Map, Value, json};

use super::command_line::options::{GivenOption, Opt, read_known};
use super::command_line::translation::TranslationBuilder;

/// The action for one program. Its keys are the options' first names, with `_`.
pub(crate) struct TypedServer {
    /// `vllm`.
    pub action: &'static str,
    /// What starts it where the manifest does not say.
    pub program: &'static [&'static str],
    /// The key of the model. Its option is among the texts; the model may also stand alone, as the first argument.
    pub model: &'static str,
    pub texts: &'static [Opt],
    pub numbers: &'static [Opt],
    /// Without a value: true, or false for `--no-…`.
    pub switches: &'static [Opt],
}

impl TypedServer {
    /// The keys of the action; none where no model can be found. `start` is the program and what stands in front of its arguments.
    pub fn keys(&self, start: &[&str], arguments: &[String]) -> Option<Map<String, Value>> {
        let mut keys = Map::new();
        let mut others = arguments.to_vec();
        let mut unreadable = Vec::new();
        for (table, kind) in [(self.texts, Kind::Text), (self.numbers, Kind::Number), (self.switches, Kind::Switch)] {
            let (line, rest) = read_known(self.action, table, &others, &mut TranslationBuilder::default());
            others = rest;
            for given in &line.given {
                match kind.value(given) {
                    Some(value) => drop(keys.insert(key(given), value)),
                    // `--max-model-len auto`.
                    None => unreadable.push(given.clone()),
                }
            }
        }
        if others.first().is_some_and(|word| !word.starts_with('-')) {
            keys.insert(self.model.to_owned(), json!(others.remove(0)));
        }
        for given in unreadable {
            others.push(given.written);
            others.extend(given.values);
        }
        let model = keys.remove(self.model)?;
        let mut keys: Map<String, Value> = std::iter::once((self.model.to_owned(), model)).chain(keys).collect();
        if start != self.program {
            keys.insert("program".to_owned(), json!(start));
        }
        if !others.is_empty() {
            keys.insert("args".to_owned(), json!(others));
        }
        Some(keys)
    }
}

fn key(given: &GivenOption) -> String {
    let name = given.name.trim_start_matches('-');
    name.strip_prefix("no-").unwrap_or(name).replace('-', "_")
}

/// A number from 0 to 1.
fn is_share(option: &str) -> bool {
    option.ends_with("-utilization")
}

/// What the value of an option is.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Number,
    Switch,
}

impl Kind {
    /// None: the key cannot have it.
    fn value(self, given: &GivenOption) -> Option<Value> {
        match self {
            // One name; of several the program serves under each.
            Self::Text => (given.values.len() == 1).then(|| json!(given.value())),
            Self::Number => {
                let whole = given.number::<u32>().filter(|number| number.known().is_some() || !is_share(given.name));
                whole.map(|number| json!(number)).or_else(|| given.number::<f64>().map(|number| json!(number)))
            }
            Self::Switch => Some(json!(!given.name.starts_with("--no-"))),
        }
    }
}
