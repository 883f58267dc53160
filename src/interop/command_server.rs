//! A server that its own command line starts → a `serve` stage, for programs with OpenAI's interface: the typed
//! action of the program (a `vllm serve` line becomes `serve: { vllm: … }`), or `serve: { command: … }`.
//!
//! Rows of its file with `computes` are not passed on as they are; `multiplies_gpus` says how many GPUs it takes;
//! those with `sets` are keys of the action. Everything else stays in the line.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::command_line::{Env, GivenOption, OptionRow, ToolTable, TranslationBuilder, TranslationResult, tool_table};
use base::spec::Quantity;

/// A program that serves a model.
pub(crate) struct ServerProgram {
    pub table: &'static LazyLock<ToolTable>,
    /// It has an action of its own, not `serve: { command: … }`.
    pub is_typed: bool,
}

/// The stage in the making.
pub(crate) struct CommandStage {
    words: Vec<String>,
    /// The action with its keys, if the program has one.
    typed: Option<(&'static str, Map<String, Value>)>,
    port: Option<u16>,
    /// The line's port is a value that the text does not have.
    has_free_port: bool,
    inputs: Map<String, Value>,
    secrets: Vec<String>,
    gpus: Quantity<u64>,
}

impl ServerProgram {
    /// A manifest of the one stage. `start` is the program and what stands in front of its arguments.
    pub fn translate(&self, start: &[&str], env: &Env, arguments: &[String]) -> TranslationResult {
        let mut builder = TranslationBuilder::default();
        let mut server = self.command(start, arguments, &mut builder);
        let usual_port = || self.table.row("--port")?.default.as_ref()?.parse().ok();
        server.port = server.port.or_else(|| if server.has_free_port { None } else { usual_port() });
        env.report_visible_gpus(&mut builder);
        builder.finish_manifest(self.table.program, "server", [("server", server.stage(env))])
    }

    /// The program with its arguments; what has a place elsewhere is there.
    pub fn command(&self, start: &[&str], arguments: &[String], builder: &mut TranslationBuilder) -> CommandStage {
        let (line, others) = self.table.read_rows(|row| row.computes.is_some(), arguments, builder);
        // They stay in the line, too.
        let (passed, _) = self.table.read_known(&others, &mut TranslationBuilder::default());
        let is_rank =
            |name: &&str| self.table.row(name).is_some_and(|row| row.multiplies_gpus && row.applies_to(&passed));
        let ranks: Vec<&str> = self.table.options.iter().map(|option| option.names[0]).filter(is_rank).collect();
        let mut server = CommandStage {
            words: start.iter().map(|word| (*word).to_owned()).chain(others).collect(),
            typed: None,
            port: None,
            has_free_port: false,
            inputs: Map::new(),
            secrets: Vec::new(),
            gpus: passed.product(&ranks),
        };
        for given in &line.given {
            if let Some(row) = self.table.row(given.name) {
                self.put(&mut server, given, row, builder);
            }
        }
        let passed = &server.words[start.len()..];
        self.doubt(passed, builder);
        server.typed = self.typed_keys(start, passed);
        server.words.extend(["--port", "{port}"].map(str::to_owned));
        server
    }

    /// An option that is not passed on as it is.
    fn put(&self, server: &mut CommandStage, given: &GivenOption, row: &OptionRow, builder: &mut TranslationBuilder) {
        match row.computes.as_deref() {
            Some("port") if given.value().starts_with("{{") => {
                server.has_free_port = true;
                builder
                    .note(format!("the server listens on a free port: `{}` has no value in the text", given.value()));
            }
            Some("port") => match given.value().parse() {
                Ok(port) => server.port = Some(port),
                Err(_) => builder.push_error(format!("`{given}` is not a port")),
            },
            Some("key") => match self.table.key_variable {
                Some(name) => {
                    server.secrets.push(name.to_owned());
                    builder.note(format!(
                        "the key of --api-key is read from the environment variable {name}; it is not written down"
                    ));
                }
                None => builder.push_untranslated(
                    "--api-key …",
                    "a key is not written down, and this program reads it from no variable: the server accepts \
                    every request",
                ),
            },
            Some("hub_token") => {
                server.secrets.push("HF_TOKEN".to_owned());
                builder.note(
                    "the token of --hf-token is read from the environment variable HF_TOKEN; it is not written down",
                );
            }
            Some("socket") => builder.push_untranslated(given, row.reason()),
            Some("template") if given.value().contains("{%") => {
                builder.push_untranslated("--chat-template …", "save the template as a file and give its path");
            }
            // A relative path has no meaning where the server is started.
            _ => {
                let key = given.name.trim_start_matches('-').replace('-', "_");
                if key == "config" {
                    builder.note(format!("`gpus` are those of the line's own options: set it to what {given} needs"));
                }
                server.words.extend([given.written.clone(), format!("{{{{ inputs.{key} }}}}")]);
                server.inputs.insert(key, json!(given.value()));
            }
        }
    }

    /// Arguments are passed on as they are, also those that are not known here. One that is nearly a known option is
    /// named.
    fn doubt(&self, words: &[String], builder: &mut TranslationBuilder) {
        // `_` and `-` are the same in a name.
        let with_dashes = |name: &str| name.replace('_', "-");
        let names: Vec<&str> = self.table.options.iter().flat_map(|option| option.names).copied().collect();
        for word in words.iter().filter(|word| word.starts_with("--")) {
            let name = with_dashes(word.split('=').next().unwrap_or(word));
            if names.iter().any(|other| with_dashes(other) == name) {
                continue;
            }
            // Two letters of a long name, and no other name that begins alike.
            let is_near = |other: &&&str| {
                let other = with_dashes(other);
                other.len() > 8 && strsim::damerau_levenshtein(&name, &other) <= 2
            };
            let near = names.iter().find(is_near).filter(|near| !name.starts_with(&with_dashes(near)));
            if let Some(near) = near {
                builder.push_untranslated(word.clone(), format!("it is passed on as it is; did you mean `{near}`?"));
            }
        }
    }

    /// The action of the program and its keys; none where no model can be found. The model has an option, or is the
    /// first argument.
    fn typed_keys(&self, start: &[&str], arguments: &[String]) -> Option<(&'static str, Map<String, Value>)> {
        const MODEL: &str = "model";
        let action = self.table.action.rsplit('.').next().filter(|_| self.is_typed)?;
        let is_key = |row: &OptionRow| row.sets.is_some();
        let (line, mut others) = self.table.read_rows(is_key, arguments, &mut TranslationBuilder::default());
        let mut given: Vec<(&GivenOption, &OptionRow)> =
            line.given.iter().filter_map(|given| Some((given, self.table.row(given.name)?))).collect();
        given.sort_by_key(|(_, row)| (row.to.is_some(), row.is_number()));
        let mut keys = Map::new();
        let mut unreadable = Vec::new();
        for (given, row) in given {
            match (typed_value(given, row), &row.sets) {
                (Some(value), Some(key)) => drop(keys.insert(key.clone(), value)),
                // `--max-model-len auto`.
                _ => unreadable.push(given),
            }
        }
        if others.first().is_some_and(|word| !word.starts_with('-')) {
            keys.insert(MODEL.to_owned(), json!(others.remove(0)));
        }
        for given in unreadable {
            others.push(given.written.clone());
            others.extend(given.values.iter().cloned());
        }
        let model = keys.remove(MODEL)?;
        let mut keys: Map<String, Value> = std::iter::once((MODEL.to_owned(), model)).chain(keys).collect();
        if !start.iter().copied().eq(self.table.program.split(' ')) {
            keys.insert("program".to_owned(), json!(start));
        }
        if !others.is_empty() {
            keys.insert("args".to_owned(), json!(others));
        }
        Some((action, keys))
    }
}

/// The value of a key; none where the key cannot have it.
fn typed_value(given: &GivenOption, row: &OptionRow) -> Option<Value> {
    match &row.to {
        Some(value) => Some(json!(value == "true")),
        None if row.is_number() => {
            let is_share = given.name.ends_with("-utilization");
            let whole = given.number::<u32>().filter(|number| number.known().is_some() || !is_share);
            whole.map(|number| json!(number)).or_else(|| given.number::<f64>().map(|number| json!(number)))
        }
        // One name; of several the program serves under each.
        None => (given.values.len() == 1).then(|| json!(given.value())),
    }
}

impl CommandStage {
    pub fn stage(self, env: &Env) -> Value {
        let by_words = || {
            let ready = json!({"by": "health"});
            ("command", Map::from_iter([("words".to_owned(), json!(self.words)), ("ready".to_owned(), ready)]))
        };
        let (action, mut server) = self.typed.unwrap_or_else(by_words);
        if let Some(port) = self.port {
            server.insert("port".to_owned(), json!(port));
        }
        let mut env = env.clone();
        for name in self.secrets {
            if !env.has(&name) {
                env.0.push((name, String::new()));
            }
        }
        Value::Object(env.stage(Some(self.gpus), self.inputs, "serve", json!({ action: server })))
    }
}

tool_table!(LLAMA_SERVER, ["llama-server"], []);
tool_table!(TEXT_GENERATION_LAUNCHER, ["text-generation-launcher"], []);

/// llama.cpp's server, which has no parallelism over several hosts.
pub(crate) static LLAMA: ServerProgram = ServerProgram { table: &LLAMA_SERVER, is_typed: false };
/// Text Generation Inference's server.
pub(crate) static TGI: ServerProgram = ServerProgram { table: &TEXT_GENERATION_LAUNCHER, is_typed: false };
