//! Commands of a script that become one thing here: files that are filled are one repository, and runs of one manifest
//! are one run.
//!
//! What a script names: `source FILE` goes on in that file, `bash FILE` starts it with what is exported, and a function
//! is read with its arguments. A variable without a value in the place of a program is the tool that it is named after,
//! or nothing.
//!
//! Files that a script writes with a here-document, which a stage writes if another one reads it.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::control_flow::Leaving;
use super::{Script, read_commands};
use crate::command_line::{
    Env, RunLine, RunSetting, Translation, TranslationError, TranslationKind, TranslationResult, UnknownValue,
    UntranslatedOption, WrittenCommand, as_written, base, each_text, is_in_container, mounts, positional, read_outputs,
    replace_path, split, tools,
};
use crate::translate::command::{Surroundings, translate};
use crate::triton_backend::fill_template;
use base::units::unquoted;

impl Script {
    /// The stage of the repository goes in front of the server's.
    pub(super) fn repository(&mut self) {
        let tree = self.filled.first().map(|file| file.tree.trim_end_matches('/').to_owned());
        let mut repository = fill_template::repository(&self.filled, &mut self.builder);
        if let (Some(Value::Object(stage)), Some(tree)) = (&mut repository, &tree) {
            if let Some(at) = self.copied.iter().position(|(_, to)| to == tree) {
                let from = self.copied.remove(at).0;
                stage.insert("files".to_owned(), json!(self.on_the_host(from)));
            }
        } else if tree.is_some() {
            self.builder.push_error("no line of fill_template.py sets `engine_dir`: there is no engine to serve");
        }
        for (from, to) in std::mem::take(&mut self.copied) {
            self.count += 1;
            let reason = "files of a checkpoint or a repository are inputs of their stage, by path; other copying is a \
                `shell` stage";
            self.without.push((format!("cp {from} {to}"), format!("cannot translate `cp`: {reason}"), "files"));
        }
        if let (Some(repository), Some(tree)) = (repository, tree) {
            const NAME: &str = "generate_triton_config";
            let stages = std::mem::take(&mut self.whole.stages);
            let at = stages.values().position(|stage| stage.get("serve").is_some()).unwrap_or(stages.len());
            for (index, (name, stage)) in stages.into_iter().enumerate() {
                if index == at {
                    self.whole.stages.insert(NAME.to_owned(), json!({"repository": repository}));
                }
                self.whole.stages.insert(name, stage);
            }
            self.whole.stages.entry(NAME).or_insert_with(|| json!({"repository": repository}));
            self.builder.produces(&tree, format!("{{{{ stages.{NAME}.out }}}}"));
        }
    }

    /// A path of the container that later commands run in, as it is on the host, or a parameter for it.
    fn on_the_host(&mut self, path: String) -> String {
        let Some(container) = self.container.as_ref().filter(|_| path.starts_with('/')) else { return path };
        let mut mounted = json!(path);
        for (host, inside) in mounts(container) {
            replace_path(&mut mounted, &inside, &host);
        }
        if mounted != json!(path) {
            return unquoted(&mounted);
        }
        let value = UnknownValue::of_path(&path);
        self.builder.note(is_in_container(&value));
        let marker = value.marker();
        self.variables.unknown.push(value);
        marker
    }

    /// A run of the same manifest goes on with the one before it.
    pub(super) fn run(&mut self, run: RunLine) {
        let Some(last) = self.whole.runs.last_mut().filter(|last| last.manifests == run.manifests) else {
            return self.whole.runs.push(run);
        };
        let is_same = |one: &RunSetting, other: &RunSetting| one.names == other.names;
        let contradicts = run
            .settings
            .iter()
            .any(|one| last.settings.iter().any(|other| is_same(one, other) && one.value != other.value));
        // All but what is joined.
        let beside = |run: &RunLine| RunLine {
            settings: Vec::new(),
            tool_defaults: Vec::new(),
            until: Vec::new(),
            serves: false,
            ..run.clone()
        };
        if contradicts || beside(&run) != beside(last) {
            return self.whole.runs.push(run);
        }
        for setting in run.settings {
            if !last.settings.iter().any(|other| is_same(&setting, other)) {
                last.settings.push(setting);
            }
        }
        for default in run.tool_defaults {
            if !last.tool_defaults.contains(&default) {
                last.tool_defaults.push(default);
            }
        }
        last.serves |= run.serves;
        if run.until.is_empty() || last.until.is_empty() {
            last.until.clear();
        } else {
            last.until.extend(run.until);
        }
    }
}

impl Script {
    /// Reads a script of the user's, in whose errors its name is.
    pub(super) fn file(&mut self, path: &str, text: &str) -> Result<(), TranslationError> {
        let inner = self.surroundings.of_script(path);
        let name = self.name.replace(path.to_owned());
        let home = std::mem::replace(&mut self.surroundings.home, inner.home);
        let open_scripts = std::mem::replace(&mut self.surroundings.open_scripts, inner.open_scripts);
        let outcome = self.text(text);
        self.name = name;
        self.surroundings.home = home;
        self.surroundings.open_scripts = open_scripts;
        outcome
    }

    /// A command that is not translated.
    pub(super) fn refused(&mut self, place: &str, command: &WrittenCommand, error: TranslationError) {
        if error.is_pattern() {
            self.patterns.push((place.to_owned(), error));
        } else if self.name.is_none() {
            self.builder.problems.extend(error.problems);
        } else if error.unknown_programs().next().is_some() {
            self.unknown_programs.extend(error.unknown_programs().map(str::to_owned));
            let text = command.text.split_whitespace().take(4).collect::<Vec<_>>().join(" ");
            self.builder.push_untranslated(format!("{place}: {text} …"), "a `shell` stage runs it");
        } else {
            self.problems(place, error);
        }
    }

    /// Goes on in a sourced file that can be read; whether it did.
    pub(super) fn source(&mut self, place: &str, words: &[String]) -> bool {
        let [name, file, ..] = words else { return false };
        let text = if name == "source" || name == "." { self.surroundings.script(file) } else { None };
        let Some(text) = text else { return false };
        let before: BTreeSet<String> = self.functions.keys().cloned().collect();
        if let Err(error) = self.file(file, &text) {
            self.problems(place, error);
        }
        self.sourced.extend(self.functions.keys().filter(|name| !before.contains(*name)).cloned());
        self.left.take_if(|left| *left == Leaving::Function);
        true
    }

    /// Reads the commands of a function with these arguments, or with those of the text. A function that calls itself
    /// is read once.
    pub(super) fn call(&mut self, name: &str, arguments: Option<&[String]>, depth: usize) {
        /// Functions in functions of more than these are not followed.
        const DEEPEST: usize = 32;
        let Some(commands) = (depth < DEEPEST).then(|| self.functions.remove(name)).flatten() else { return };
        self.called.insert(name.to_owned());
        let before = arguments.map(|arguments| self.variables.swap_positional(positional(arguments)));
        self.all(&commands, depth);
        self.left.take_if(|left| *left == Leaving::Function);
        let _arguments = before.map(|before| self.variables.swap_positional(before));
        self.functions.insert(name.to_owned(), commands);
    }

    /// Reads the commands of functions that no command called, but for those of a library.
    pub(super) fn call_others(&mut self) {
        let functions: Vec<String> = self.functions.keys().cloned().collect();
        for name in functions {
            self.left = None;
            if !self.called.contains(&name) && !self.sourced.contains(&name) {
                self.builder.note(format!("no command calls the function `{name}`: its commands are read once"));
                self.call(&name, None, 0);
            }
        }
    }

    /// Names the variables that a condition sets to one of several values.
    pub(super) fn report_alternatives(&mut self) {
        for (name, values) in std::mem::take(&mut self.alternatives) {
            if values.len() > 1 && self.variables.used.contains(&name) {
                let list = values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ");
                let reason = format!(
                    "a condition, which is not followed, sets it to one of {list}: the last is taken; set the right \
                    one in front of the commands, and leave the condition out"
                );
                let last = self.variables.values.get(&name).map_or("", String::as_str);
                let option = UntranslatedOption::new(format!("{name}={last}"), reason);
                self.not_followed.push(UntranslatedOption { is_workload: true, ..option });
            }
        }
    }
}

/// The translation of a script or a text that a shell is started with, or of a script that is started by its own name;
/// `None` where the command is another one, or the script is not here.
pub(in crate::translate) fn called_script(
    path: &str,
    env: &Env,
    words: &[String],
    surroundings: &Surroundings,
) -> Option<TranslationResult> {
    let is_shell = ["bash", "sh", "zsh"].contains(&base(path));
    let words = if is_shell { words } else { &[&[path.to_owned()], words].concat() };
    // `bash -lc "…"` is a text of its own.
    if let [flags, text, ..] = words
        && is_shell
        && flags.starts_with('-')
        && flags.ends_with('c')
    {
        return Some(read_commands(text, surroundings));
    }
    let flags = words.iter().take_while(|word| is_shell && word.starts_with('-')).count();
    let (file, arguments) = words[flags..].split_first()?;
    let is_path = is_shell || file.contains('/') || Path::new(file).extension().is_some_and(|suffix| suffix == "sh");
    let text = if is_path { surroundings.script(file) } else { None };
    let text = text.filter(|text| is_shell || is_script(file, text))?;
    let mut script = Script { surroundings: surroundings.of_script(file), ..Script::default() };
    script.name = Some(file.clone());
    for (name, value) in &env.0 {
        script.variables.set(name, value);
        script.variables.export(name);
    }
    script.variables.set_positional(file, arguments);
    Some(script.text(&text).and_then(|()| script.into_translation()))
}

/// Whether a shell runs a file, by its name or its first line.
fn is_script(file: &str, text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    [".sh", ".bash"].iter().any(|end| file.ends_with(end)) || first.starts_with("#!") && first.ends_with("sh")
}

/// A file that the text writes.
#[derive(Clone, Debug)]
pub(super) struct WrittenFile {
    /// Without `./` in front.
    pub path: String,
    content: String,
    /// Of the command that writes it.
    place: String,
    /// `echo` writes logs, too, which need no word where no stage reads them.
    is_printed: bool,
}

/// What `echo` prints with these arguments.
pub(super) fn echoed(arguments: &[String]) -> String {
    let is_option = |word: &&String| word.strip_prefix('-').is_some_and(|rest| rest.chars().all(|c| "neE".contains(c)));
    let count = arguments.iter().take_while(is_option).count();
    let (options, words) = (arguments[..count].concat(), arguments[count..].join(" "));
    let text = if options.contains('e') { words.replace("\\n", "\n").replace("\\t", "\t") } else { words };
    if options.contains('n') { text } else { text + "\n" }
}

/// A path without `./` in front.
pub(super) fn plain(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

impl Script {
    /// `cat > FILE << EOF` and `echo … > FILE`.
    pub(super) fn write(&mut self, place: &str, path: &str, content: &str, command: &WrittenCommand) {
        let path = plain(path).to_owned();
        let before = self.surroundings.written.get(&path).filter(|_| command.is_appended);
        let content = before.map_or_else(String::new, Clone::clone) + content;
        self.surroundings.written.insert(path.clone(), content.clone());
        self.files.retain(|file| file.path != path);
        let is_printed = !command.has_here_document;
        self.files.push(WrittenFile { path, content, place: place.to_owned(), is_printed });
    }

    /// Reads a measurement whose output a variable keeps: `RESULT=$(vllm bench serve …)`.
    pub(super) fn kept_output(&mut self, command: &WrittenCommand, depth: usize) {
        let Some((_, value)) = command.text.split_once('=') else { return };
        let value = value.trim_matches('"');
        let inner = value.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')'));
        let inner = inner.or_else(|| value.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')));
        for inner in inner.and_then(|text| split(text).ok()).unwrap_or_default() {
            let words = shlex::split(&self.variables.expand(&inner.text)).unwrap_or_default();
            let translation = translate(&words, &self.surroundings);
            if translation.is_ok_and(|it| matches!(it.kind, TranslationKind::Bench(_))) {
                self.command(&WrittenCommand { line: command.line, ..inner }, depth + 1);
            }
        }
    }

    /// A stage for each file that a stage reads; the others are named.
    pub(super) fn place_files(&mut self) {
        for file in std::mem::take(&mut self.files).into_iter().rev() {
            let name = base(&file.path);
            let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let stage = unique(&format!("write_{stem}"), &[], &self.whole.stages);
            let mut stages = self.whole.stages.clone();
            let expression = format!("{{{{ stages.{stage}.out }}}}/{name}");
            read_outputs(stages.values_mut(), &[(file.path.clone(), expression)]);
            // A template's own braces would be read as the manifest's.
            let is_template = ["{{ ", "{%", "{#"].iter().any(|begin| file.content.contains(begin));
            if stages == self.whole.stages && file.is_printed {
                continue;
            }
            if stages == self.whole.stages || is_template {
                let path = as_written(&file.path, &self.variables.unknown);
                let reason = format!("the text writes `{path}`, which Regatta does not: write the file before the run");
                self.builder.push_untranslated(format!("{}: cat > {path}", file.place), reason);
                continue;
            }
            let text = format!("cat > '{name}' <<'END_OF_FILE'\n{}END_OF_FILE\n", file.content);
            let write = json!({"shell": text, "outputs": [name]});
            self.places.push((stage.clone(), file.place));
            self.whole.stages = std::iter::once((stage, write)).chain(stages).collect::<Map<_, _>>();
        }
    }

    /// Whether a line is only a variable without a value, `$PROLOGUE`: nothing is read.
    pub(super) fn is_unknown_command(&mut self, words: &[String]) -> bool {
        let [word] = words else { return false };
        let is_unknown = self.total > 1 && word.starts_with("{{") && word.ends_with("}}");
        if is_unknown {
            self.builder.note(format!("`{word}`: a line that is only a variable without a value is read as nothing"));
        }
        is_unknown
    }

    /// A program that is named only by a variable, `python3 ${FILL_TEMPLATE_SCRIPT}`, is the tool that the variable is
    /// named after.
    pub(super) fn with_its_name(&mut self, mut words: Vec<String>) -> Vec<String> {
        let shell = |text: &str| ["bash", "-c", text].map(str::to_owned).to_vec();
        let started = match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            // It reads its words once more.
            ["eval", _, ..] => Some(shell(&words[1..].join(" "))),
            ["tmux", "new-session" | "new", .., text] | ["tmux", "send-keys", .., text, "C-m" | "Enter"]
                if text.contains(' ') =>
            {
                Some(shell(text))
            }
            ["screen", "-dmS", _, _, ..] => Some(words[3..].to_vec()),
            _ => None,
        };
        words = started.unwrap_or(words);
        let unknown = &self.variables.unknown;
        let is_marker = |word: &String| unknown.iter().any(|value| value.marker() == *word);
        // `$PROFILER vllm bench serve …`: nothing, or a program in front of the one that is known.
        if words.len() > 1 && is_marker(&words[0]) && tools().any(|tool| tool == base(&words[1])) {
            let written = as_written(&words.remove(0), unknown);
            self.builder
                .note(format!("`{written}` in front of `{}` has no value in the text: none is taken", words[0]));
        }
        let of_script = |written: &str| ["$@", "$*", "${@", "${*"].iter().any(|first| written.starts_with(first));
        let count = words.len();
        let is_argument = |word: &String| unknown.iter().any(|it| it.marker() == *word && of_script(&it.written));
        words.retain(|word| !is_argument(word));
        if words.len() < count {
            self.builder.note("the script's own arguments, `$@`, are not in the text: the line is read without any");
        }
        let scripts = || tools().filter_map(|tool| Some((tool, tool.strip_suffix(".py")?)));
        for word in words.iter_mut().take(2) {
            let value = unknown.iter().find(|value| value.env.is_some() && *word == value.marker());
            if let Some((tool, _)) = value.and_then(|value| scripts().find(|(_, stem)| value.name.contains(stem))) {
                *word = tool.to_owned();
            }
        }
        words
    }
}

// Names of stages: several commands may have stages of one name.

/// A name that none of the stages has, and none of these.
pub(super) fn unique(name: &str, beside: &[String], stages: &Map<String, Value>) -> String {
    let is_free = |free: &String| !stages.contains_key(free) && (free == name || !beside.contains(free));
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
}

/// Gives stages of a translation whose names are among these already others; what refers to them follows.
pub(super) fn with_unique_names(translation: &mut Translation, stages: &Map<String, Value>) {
    let Some(own) = translation.kind.named_stages() else { return };
    let names: Vec<String> = own.keys().cloned().collect();
    for name in &names {
        let to = unique(name, &names, stages);
        if to == *name {
            continue;
        }
        if let Some(own) = translation.kind.named_stages() {
            *own = std::mem::take(own)
                .into_iter()
                .map(|(key, mut stage)| {
                    each_text(&mut stage, &mut |text| *text = with_stage_renamed(text, name, &to));
                    (if key == *name { to.clone() } else { key }, stage)
                })
                .collect();
        }
        for (_, expression) in &mut translation.produced {
            *expression = with_stage_renamed(expression, name, &to);
        }
        if let TranslationKind::Script(script) = &mut translation.kind {
            let servers = script.benches.iter_mut().filter_map(|bench| bench.server.as_mut());
            servers.filter(|server| *server == name).for_each(|server| server.clone_from(&to));
        }
    }
}

/// `stages.NAME` in a text, as another stage.
fn with_stage_renamed(text: &str, name: &str, to: &str) -> String {
    let reference = format!("stages.{name}");
    let mut parts = text.split(&reference);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `stages.server` must not match inside `stages.server_2`.
        let is_whole = !part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        out.push_str(if is_whole { "stages." } else { &reference });
        if is_whole {
            out.push_str(to);
        }
        out.push_str(part);
    }
    out
}
