//! A shell script that brings a server of the TensorRT-LLM backend up and measures it: its known commands become the stages
//! of one manifest. It is read line by line, nothing of it is run; of its variables those are known that it sets itself.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::line::read_line;
use super::program::{assignment, parts};
use super::translation::{TranslatedBench, Translation, TranslationBuilder, TranslationKind, manifest};
use crate::interop::triton_backend::fill_template::{self, FilledFile};
use crate::interop::triton_backend::launch_triton_server;
use crate::triton::repository::substitute;

const TOOL: &str = "a script";

#[derive(Default)]
struct Script {
    vars: BTreeMap<String, String>,
    filled: Vec<FilledFile>,
    /// `cp -r FROM/* TO`
    copied: Vec<(String, String)>,
    server: Option<Value>,
    load: Option<TranslatedBench>,
    sheet: TranslationBuilder,
}

/// What a script means here.
pub fn read_script(name: &str, text: &str) -> Result<Translation, Vec<String>> {
    let mut script = Script::default();
    let mut begun = 0;
    let mut whole = String::new();
    for (at, line) in text.lines().enumerate() {
        if whole.is_empty() {
            begun = at + 1;
        }
        if let Some(more) = line.strip_suffix('\\') {
            whole.push_str(more);
            whole.push(' ');
            continue;
        }
        whole.push_str(line);
        script.line(&format!("{name}:{begun}"), &std::mem::take(&mut whole));
    }
    script.line(&format!("{name}:{begun}"), &whole);
    script.into_translation()
}

impl Script {
    fn line(&mut self, place: &str, line: &str) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        let (line, _) = substitute(line, &|name| self.vars.get(name).cloned());
        let Some(words) = shlex::split(&line) else {
            return self.sheet.push_untranslated(place, "a quote in the line is not closed");
        };
        for words in words.split(|word| matches!(word.as_str(), "&&" | ";" | "&" | "||")) {
            self.command(place, words);
        }
    }

    fn command(&mut self, place: &str, words: &[String]) {
        let words = match words.split_first() {
            Some((first, rest)) if first == "export" => rest,
            _ => words,
        };
        if words.iter().all(|word| assignment(word).is_some()) {
            let set = words.iter().filter_map(|word| assignment(word));
            return self.vars.extend(set.map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let Ok((env, _, name, rest)) = parts(words) else {
            return self.sheet.push_untranslated(place, "no command is to be seen in it");
        };
        match name {
            "fill_template.py" => self.filled.extend(fill_template::filled(rest, &mut self.sheet)),
            "launch_triton_server.py" if self.server.is_none() => {
                self.server = Some(launch_triton_server::stage(&env, rest, &mut self.sheet));
            }
            "genai-perf" | "aiperf" | "perf_analyzer" | "benchmark_core_model.py" if self.load.is_none() => {
                match read_line(words) {
                    Err(faults) => self.sheet.faults.extend(faults),
                    Ok(Translation { kind: TranslationKind::Bench(load), notes, untranslated: left, .. }) => {
                        self.load = Some(load);
                        self.sheet.notes.extend(notes);
                        self.sheet.untranslated.extend(left);
                    }
                    Ok(told) => self.sheet.push_untranslated(place, format!("`{}` is a separate line", told.tool)),
                }
            }
            "launch_triton_server.py" | "genai-perf" | "aiperf" | "perf_analyzer" | "benchmark_core_model.py" => {
                self.sheet.push_untranslated(
                    place,
                    format!("a second `{name}`: one server and one measurement are imported"),
                );
            }
            "trtllm-serve" | "trtllm-bench" | "llmb-run" | "make" | "triton" => {
                self.sheet.push_untranslated(place, format!("`{name}`: import that line separately"));
            }
            "cp" if rest.len() >= 2 => {
                let plain = |text: &String| text.trim_end_matches(['*', '/']).to_owned();
                let from_to: Vec<String> = rest.iter().filter(|word| !word.starts_with('-')).map(plain).collect();
                match from_to.as_slice() {
                    [from, to] => self.copied.push((from.clone(), to.clone())),
                    _ => self.sheet.push_untranslated(place, "`cp` of several files: a `shell` stage runs it"),
                }
            }
            "cd" | "pushd" | "popd" | "mkdir" | "sleep" | "wait" | "pkill" | "echo" | "set" => {
                self.sheet.push_untranslated(
                    place,
                    format!("`{name}`: stages have folders of their own, and wait for each other"),
                );
            }
            _ => self.sheet.push_untranslated(place, format!("`{name}` …: a `shell` stage runs it")),
        }
    }

    fn into_translation(mut self) -> Result<Translation, Vec<String>> {
        let mut stages = Map::new();
        let tree = self.filled.first().map(|file| file.tree.trim_end_matches('/').to_owned());
        let mut repository = fill_template::repository(&self.filled, &mut self.sheet);
        if let (Some(Value::Object(stage)), Some(tree)) = (&mut repository, &tree) {
            if let Some(at) = self.copied.iter().position(|(_, to)| to == tree) {
                stage.insert("files".to_owned(), json!(self.copied.remove(at).0));
            }
        } else if tree.is_some() {
            self.sheet.push_error("no line of fill_template.py sets `engine_dir`: there is no engine to serve");
        }
        for (from, to) in &self.copied {
            self.sheet.push_untranslated(format!("cp {from} {to}"), "a `shell` stage runs it");
        }
        if let Some(repository) = repository {
            stages.insert("generate_triton_config".to_owned(), json!({ "repository": repository }));
        }
        if let Some(mut server) = self.server {
            if let Some(path) = server.pointer_mut("/serve/triton/repository")
                && stages.contains_key("generate_triton_config")
                && path.as_str().map(|path| path.trim_end_matches('/').to_owned()) == tree
            {
                *path = json!("{{ stages.generate_triton_config.out }}");
            }
            stages.insert("triton".to_owned(), server);
        }
        if stages.is_empty() && self.load.is_none() {
            self.sheet.push_error("there is no command in it that is known here");
        }
        let means = match self.load {
            Some(load) => TranslationKind::Pipeline(stages, load),
            None => manifest("script", TOOL, stages),
        };
        self.sheet.finish(TOOL, means)
    }
}
