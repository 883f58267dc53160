//! A server that its own command line starts → a `serve` stage, for programs with OpenAI's interface: the typed action of the program,
//! or `serve: { command: … }`.

use serde_json::{Map, Value, json};

use super::command_line::options::{Opt, one, read_known};
use super::command_line::program::Env;
use super::command_line::translation::{Translation, TranslationBuilder, manifest};
use super::command_line::translation_error::TranslationError;
use super::command_line::visible_gpus::visible;
use super::typed_server::TypedServer;
use base::spec::Quantity;

/// A program that serves a model.
pub(crate) struct ServerProgram {
    /// `vllm serve`.
    pub tool: &'static str,
    /// The options that are not passed on as they are; `--port` is one.
    pub own: &'static [Opt],
    /// Options whose numbers, multiplied, are how many GPUs it takes.
    pub ranks: &'static [Opt],
    pub port: &'static str,
    /// Where it listens if no port is given.
    pub usual_port: u16,
    /// The variable that the program reads its key from; none where it has only an option.
    pub key_variable: Option<&'static str>,
    /// The action for it, where there is one.
    pub typed: Option<&'static TypedServer>,
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
    pub fn translate(&self, start: &[&str], env: &Env, arguments: &[String]) -> Result<Translation, TranslationError> {
        let mut builder = TranslationBuilder::default();
        let mut server = self.command(start, arguments, &mut builder);
        server.port = server.port.or((!server.has_free_port).then_some(self.usual_port));
        visible(env, &mut builder);
        let stages = Map::from_iter([("server".to_owned(), server.stage(env))]);
        builder.finish(self.tool, manifest("server", self.tool, stages))
    }

    /// The program with its arguments; what has a place elsewhere is there.
    pub fn command(&self, start: &[&str], arguments: &[String], builder: &mut TranslationBuilder) -> CommandStage {
        let (line, others) = read_known(self.tool, self.own, arguments, builder);
        // They stay in the line, too.
        let (ranks, _) = read_known(self.tool, self.ranks, &others, &mut TranslationBuilder::default());
        let mut server = CommandStage {
            words: start.iter().map(|word| (*word).to_owned()).chain(others).collect(),
            typed: None,
            port: None,
            has_free_port: false,
            inputs: Map::new(),
            secrets: Vec::new(),
            gpus: ranks.product(&self.ranks.iter().map(|option| option.names[0]).collect::<Vec<_>>()),
        };
        for given in &line.given {
            match given.name {
                name if name == self.port && given.value().starts_with("{{") => {
                    server.has_free_port = true;
                    builder.note(format!(
                        "the server listens on a free port: `{}` has no value in the text",
                        given.value()
                    ));
                }
                name if name == self.port => match given.value().parse() {
                    Ok(port) => server.port = Some(port),
                    Err(_) => builder.push_error(format!("`{}` is no port", given.as_written())),
                },
                "--api-key" => match self.key_variable {
                    Some(name) => {
                        server.secrets.push(name.to_owned());
                        builder.note(format!(
                            "the key of --api-key is read from the environment variable {name}; it is not written down"
                        ));
                    }
                    None => builder.push_untranslated(
                        "--api-key …",
                        "a key is not written down, and this program reads it from no variable: here the server takes every request",
                    ),
                },
                "--hf-token" => {
                    server.secrets.push("HF_TOKEN".to_owned());
                    builder.note("the token of --hf-token is read from the environment variable HF_TOKEN; it is not written down");
                }
                "--uds" => builder.push_untranslated(given.as_written(), "requests go to a port, which it has here"),
                "--chat-template" if given.value().contains("{%") => {
                    builder.push_untranslated("--chat-template …", "save the template as a file and give its path");
                }
                // A relative path has no meaning where the server is started.
                name => {
                    let key = name.trim_start_matches('-').replace('-', "_");
                    server.words.extend([given.written.clone(), format!("{{{{ inputs.{key} }}}}")]);
                    server.inputs.insert(key, json!(given.value()));
                }
            }
        }
        self.doubt(&server.words[start.len()..], builder);
        let typed = self.typed.and_then(|typed| Some((typed.action, typed.keys(start, &server.words[start.len()..])?)));
        server.typed = typed;
        server.words.extend([self.port.to_owned(), "{port}".to_owned()]);
        server
    }
}

impl ServerProgram {
    /// Arguments are passed on as they are, also those that are not known here. One that is nearly a known option is named.
    fn doubt(&self, words: &[String], builder: &mut TranslationBuilder) {
        let typed = self.typed.map_or([&[] as &[Opt]; 3], |typed| [typed.texts, typed.numbers, typed.switches]);
        let tables = [self.own, self.ranks].into_iter().chain(typed);
        let known: Vec<&str> = tables.flatten().flat_map(|option| option.names).copied().collect();
        for word in words.iter().filter(|word| word.starts_with("--")) {
            let name = word.split('=').next().unwrap_or(word).replace('_', "-");
            // Two letters of a long name, and no other name that begins alike.
            let is_near = |other: &&str| other.len() > 8 && strsim::damerau_levenshtein(&name, other) <= 2;
            let near = known
                .iter()
                .copied()
                .find(is_near)
                .filter(|near| !known.contains(&name.as_str()) && !name.starts_with(near));
            if let Some(near) = near {
                builder.push_untranslated(word.clone(), format!("it is passed on as it is; did you mean `{near}`?"));
            }
        }
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
        let mut stage = Map::from_iter([("gpus".to_owned(), json!(self.gpus))]);
        if !self.inputs.is_empty() {
            stage.insert("inputs".to_owned(), Value::Object(self.inputs));
        }
        env.put_into(&mut stage);
        for name in self.secrets {
            match stage.entry("secrets").or_insert_with(|| json!([])).as_array_mut() {
                Some(names) if !names.contains(&json!(name)) => names.push(json!(name)),
                _ => {}
            }
        }
        stage.insert("serve".to_owned(), json!({ action: server }));
        Value::Object(stage)
    }
}

/// Engines without parallelism over several hosts.
static LLAMA_SERVER: ServerProgram = ServerProgram {
    tool: "llama-server",
    own: &[one(&["--port"]), one(&["--api-key"]), one(&["--api-key-file"]), one(&["--chat-template-file"])],
    ranks: &[],
    port: "--port",
    usual_port: 8080,
    key_variable: Some("LLAMA_API_KEY"),
    typed: None,
};

static TEXT_GENERATION_LAUNCHER: ServerProgram = ServerProgram {
    tool: "text-generation-launcher",
    own: &[one(&["--port", "-p"]), one(&["--api-key"])],
    ranks: &[one(&["--num-shard"])],
    port: "--port",
    usual_port: 3000,
    key_variable: Some("API_KEY"),
    typed: None,
};

/// llama.cpp's server.
pub(crate) fn llama_server(path: &str, env: &Env, arguments: &[String]) -> Result<Translation, TranslationError> {
    LLAMA_SERVER.translate(&[path], env, arguments)
}

/// Text Generation Inference's server.
pub(crate) fn text_generation_launcher(env: &Env, arguments: &[String]) -> Result<Translation, TranslationError> {
    TEXT_GENERATION_LAUNCHER.translate(&["text-generation-launcher"], env, arguments)
}
