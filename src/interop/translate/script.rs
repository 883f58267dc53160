//! A text of several commands → one translation: its stages become one manifest, in which what one command wrote is
//! what the next one reads. It is read from the top, nothing of it is run; loops and conditions are followed where it
//! has their values.

mod control_flow;
mod joined;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Map, Value, json};

use super::command::{NOT_RUN, Surroundings, translate};
use super::loops::{Wait, array, array_tasks, function, waiting_loop};
use super::unknown_values::{with_every_value, with_variables_named};
use crate::command_line::{
    ProblemKind, ScriptBench, StartedServer, TargetMatch, TranslatedScript, Translation, TranslationBuilder,
    TranslationError, TranslationKind, TranslationResult, UntranslatedOption, Variables, WrittenCommand, as_typed,
    as_written, assignment, base, commands_of_page, idle, match_target, on_the_host, program, put_container,
    read_outputs, split, tools, without_prompts,
};
use crate::nvidia_smi;
use crate::slurm::{array_option, directives, job_options};
use crate::triton_backend::fill_template::{self, FilledFile};

use control_flow::{Leaving, OpenHead};
pub(super) use joined::called_script;
use joined::{WrittenFile, echoed, plain, unique, with_unique_names};

const TOOL: &str = "a script";
/// The number of a task in a job's array.
const ARRAY_TASK: &str = "SLURM_ARRAY_TASK_ID";
/// The limit of commands in one text; documentation pages stay far below it.
const MOST_COMMANDS: usize = 10_000;

/// What scripts mean here, of which the first names others, or which follow each other; on error everything that is
/// wrong with them. Each is its name and its text.
pub fn read_scripts(files: &[(String, String)]) -> TranslationResult {
    let mut script = Script::default();
    for (path, text) in files {
        script.surroundings.written.insert(base(path).to_owned(), text.clone());
    }
    let is_named = |path: &str| files.iter().any(|(other, text)| other != path && text.contains(base(path)));
    let mut builder = TranslationBuilder::default();
    for (at, (path, text)) in files.iter().enumerate() {
        if at == 0 || !is_named(path) {
            script.surroundings.job = job_options(text);
            script.name = Some(path.clone());
            script.variables.set_positional(path, &[]);
            let array = array_option(text).filter(|_| text.contains(ARRAY_TASK));
            script.array = array.and_then(|array| array_tasks(&array));
            let is_array = script.array.is_some();
            script.file(path, text)?;
            script.left = None;
            directives(text, is_array, &mut builder);
        }
    }
    let mut translation = script.into_translation()?;
    translation.notes.splice(0..0, builder.notes);
    translation.untranslated.extend(builder.untranslated);
    on_the_host(&mut translation);
    Ok(translation)
}

/// What a pasted text of commands means here.
pub(super) fn read_commands(text: &str, surroundings: &Surroundings) -> TranslationResult {
    let mut script = Script { surroundings: surroundings.clone(), ..Script::default() };
    script.text(text)?;
    script.into_translation()
}

#[derive(Default)]
struct Script {
    name: Option<String>,
    variables: Variables,
    /// Exported variables that a translation has.
    placed: BTreeSet<String>,
    surroundings: Surroundings,
    folders: Vec<Option<String>>,
    /// Of `docker run` without a command: commands behind it run in it.
    container: Option<Map<String, Value>>,
    /// Of `nvidia-smi -lgc`.
    gpu_clocks: Option<Value>,
    filled: Vec<FilledFile>,
    /// `cp -r FROM/* TO`
    copied: Vec<(String, String)>,
    whole: TranslatedScript,
    /// Its stages, and the place of the command that each is of.
    places: Vec<(String, String)>,
    /// Functions that it defines and that are not being read, with their commands.
    functions: BTreeMap<String, Vec<WrittenCommand>>,
    /// Those that a command called.
    called: BTreeSet<String>,
    /// Those of files that it sourced.
    sourced: BTreeSet<String>,
    /// The numbers of the tasks that run the text, where it uses them.
    array: Option<Vec<String>>,
    wait: Wait,
    open: Vec<OpenHead>,
    /// The test in front of a command that is not followed, among what is not.
    guard: Option<usize>,
    /// A command runs only after another one.
    is_chained: bool,
    /// How many followed loops a command is in.
    turns: usize,
    left: Option<Leaving>,
    /// The values of variables that a condition sets.
    alternatives: BTreeMap<String, BTreeSet<String>>,
    /// Files that it writes and no translation has yet.
    files: Vec<WrittenFile>,
    /// Servers that it started, in its order.
    servers: Vec<StartedServer>,
    /// Sentences on commands without a meaning here, with their places and what the programs are for.
    without: Vec<(String, String, &'static str)>,
    /// Lines that a page shows as a pattern.
    patterns: Vec<(String, TranslationError)>,
    /// Loops and conditions.
    not_followed: Vec<UntranslatedOption>,
    /// The translations of commands, if it is only one.
    only: Option<Translation>,
    count: usize,
    /// All commands of the text.
    total: usize,
    /// Commands that were read, those of a loop once for each of its values.
    read: usize,
    tools: BTreeSet<&'static str>,
    /// Programs that are not known here.
    unknown_programs: Vec<String>,
    builder: TranslationBuilder,
}

impl Script {
    /// Reads the commands of a text.
    fn text(&mut self, text: &str) -> Result<(), TranslationError> {
        let is_markdown = |name: &str| Path::new(name).extension().is_some_and(|suffix| suffix == "md");
        let is_page = self.name.as_deref().is_some_and(|name| name == "standard input" || is_markdown(name));
        let text = &*if is_page { commands_of_page(text) } else { text.into() };
        let typed = as_typed(text);
        if typed != text {
            self.builder.note("typographic dashes and quotes are read as `--`, `\"` and `'`");
        }
        let text = &*without_prompts(&typed, &|name| tools().any(|tool| tool == name));
        let commands = split(text).map_err(|line| {
            let error = TranslationError::new(ProblemKind::OpenQuote);
            match &self.name {
                Some(name) => error.within(&format!("{name}:{line}")),
                None => error,
            }
        })?;
        if commands.len() > MOST_COMMANDS {
            let (commands, most) = (commands.len(), MOST_COMMANDS);
            return Err(TranslationError::new(ProblemKind::TooManyCommands { commands, most }));
        }
        self.total += commands.len();
        match self.array.take() {
            Some(tasks) => {
                self.note_repeated("job's array", &[ARRAY_TASK.to_owned()], tasks.len());
                let before = self.variables.values.clone();
                for task in tasks {
                    self.variables.values.clone_from(&before);
                    self.variables.set(ARRAY_TASK, &task);
                    self.all(&commands, 0);
                    self.left = None;
                }
            }
            None => self.all(&commands, 0),
        }
        Ok(())
    }

    /// Reads commands in their order; those of a loop over values that the text has, once for each value.
    fn all(&mut self, commands: &[WrittenCommand], depth: usize) {
        let mut at = 0;
        while let Some(command) = commands.get(at).filter(|_| self.left.is_none()) {
            self.read += 1;
            if self.read > MOST_COMMANDS {
                return self.builder.push_error(ProblemKind::TooManyInLoops { most: MOST_COMMANDS });
            }
            if let Some((name, body, length)) = function(&commands[at..]) {
                self.functions.insert(name, body);
                at += length + 1;
                continue;
            }
            let text = self.variables.expand(&command.text);
            if let Some(length) = self.followed(&text, &commands[at..], depth) {
                at += length;
                continue;
            }
            if let Some(length) = waiting_loop(&commands[at..]) {
                self.count += 1;
                self.nothing(&self.place(command), if command.text.starts_with("while") { "while" } else { "until" });
                self.wait.lengthen(None, self.whole.benches.is_empty());
                at += length + 1;
                continue;
            }
            at += 1;
            self.guard = self.guard.filter(|_| !command.behind.is_empty());
            let was_chained = self.is_chained;
            self.is_chained |= ["&&", "||"].contains(&command.behind);
            self.command(command, depth);
            self.is_chained = was_chained;
        }
    }

    fn place(&self, command: &WrittenCommand) -> String {
        if let Some(name) = &self.name {
            return format!("{name}:{}", command.line);
        }
        let words = command.text.split_whitespace().skip_while(|word| assignment(word).is_some());
        words.take(2).collect::<Vec<_>>().join(" ")
    }

    fn command(&mut self, command: &WrittenCommand, depth: usize) {
        let place = self.place(command);
        let text = self.variables.expand(&command.text);
        if let Some((name, values)) = array(&text) {
            return self.set(name, &values, " ");
        }
        let Some(mut words) = shlex::split(&text) else {
            return self.problems(&place, TranslationError::new(ProblemKind::OpenQuote));
        };
        self.keywords(&place, &mut words);
        if self.shell_word(&place, command, &words) || self.is_unknown_command(&words) {
            return;
        }
        if let Some((name, arguments)) = words.split_first()
            && self.functions.contains_key(name)
        {
            let has_all = ["$@", "$*"].iter().any(|all| command.text.contains(all));
            return self.call(name, Some(arguments).filter(|_| !has_all), depth + 1);
        }
        let is_setting =
            words.first().is_some_and(|word| ["export", "declare", "local", "readonly"].contains(&word.as_str()));
        let is_exported = words.first().is_some_and(|word| word == "export");
        let set = &words[usize::from(is_setting)..];
        if set.iter().all(|word| is_setting || assignment(word).is_some()) && !is_run_args(&words) {
            self.kept_output(command, depth);
            for word in set.iter().filter(|word| !word.starts_with('-')) {
                let name = assignment(word).map_or(word.as_str(), |(name, value)| {
                    self.set(name, value, "");
                    name.trim_end_matches('+')
                });
                if is_exported {
                    self.variables.export(name);
                }
            }
            return;
        }
        if self.source(&place, &words) {
            return;
        }
        self.count += 1;
        if self.folder(&words) {
            return self.nothing(&place, &words[0]);
        }
        self.program(&place, command, words);
    }

    /// Sets a variable; `NAME+` gets more, with `between` in front.
    fn set(&mut self, name: &str, value: &str, between: &str) {
        if let Some(name) = name.strip_suffix('+') {
            return self.variables.append(name, between, value);
        }
        // A value that the script is given: without it the one from before stays.
        let is_argument = ["{{optarg}}", "{{argument_"].iter().any(|argument| value.starts_with(argument));
        if is_argument && self.is_reading_arguments() {
            return self.variables.values.retain(|other, value| other != name || !value.is_empty());
        }
        if self.is_chained || self.open.iter().any(|head| !head.is_loop && !head.is_certain) {
            let values = self.alternatives.entry(name.to_owned()).or_default();
            values.extend(self.variables.values.get(name).cloned());
            values.insert(value.to_owned());
        }
        self.variables.set(name, value);
    }

    /// Follows `cd`; whether it was one.
    fn folder(&mut self, words: &[String]) -> bool {
        let before = self.surroundings.folder.clone();
        match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["cd", to] => self.surroundings.folder = Some(self.surroundings.path(to)),
            ["pushd", to] => {
                self.folders.push(before);
                self.surroundings.folder = Some(self.surroundings.path(to));
            }
            ["popd"] => self.surroundings.folder = self.folders.pop().unwrap_or_default(),
            _ => return false,
        }
        true
    }

    fn nothing(&mut self, place: &str, name: &str) {
        if let Some(Ok(translation)) = idle(name, "") {
            self.take(place, translation);
        }
    }

    fn program(&mut self, place: &str, command: &WrittenCommand, words: Vec<String>) {
        let words = self.with_its_name(words);
        let (name, arguments) = match program(&words) {
            Ok(program) => (program.name.to_owned(), program.arguments.to_vec()),
            Err(error) => return self.refused(place, command, error),
        };
        match name.as_str() {
            // It is for the stages behind it.
            "nvidia-smi" if self.total > 1 => {
                let is_root = words.first().is_some_and(|word| word == "sudo");
                if let Some(clocks) = nvidia_smi::gpu_clocks(&arguments, is_root) {
                    self.gpu_clocks = Some(clocks);
                    return;
                }
            }
            // Their files become one stage.
            "fill_template.py" if self.name.is_some() || !self.filled.is_empty() => {
                return self.filled.extend(fill_template::filled(&arguments, &mut self.builder));
            }
            "cp" if self.total > 1 && arguments.iter().filter(|word| !word.starts_with('-')).count() == 2 => {
                let plain = |text: &String| text.trim_end_matches(['*', '/']).to_owned();
                let from_to: Vec<String> = arguments.iter().filter(|word| !word.starts_with('-')).map(plain).collect();
                return self.copied.push((from_to[0].clone(), from_to[1].clone()));
            }
            _ => {}
        }
        let exported = self.exported_for(&words);
        let mut command_words: Vec<String> = exported.iter().map(|(name, value)| format!("{name}={value}")).collect();
        // Arguments that pick a manifest or a scenario are read as they were written.
        let is_written = READS_VARIABLES.contains(&name.as_str()) || name.starts_with("--") || is_run_args(&words);
        for word in words {
            command_words.push(if is_written { as_written(&word, &self.variables.unknown) } else { word });
        }
        let written_to = command.written_to.as_deref().map(|file| self.variables.expand(file));
        if let Some(file) = written_to.as_deref().filter(|file| !file.starts_with("/dev/")) {
            if name == "cat" && command.has_here_document {
                let content = self.here_document(command);
                return self.write(place, file, &content, command);
            }
            if name == "echo" {
                return self.write(place, file, &echoed(&arguments), command);
            }
        }
        // `bash << EOF`: the text is its script.
        if command.has_here_document && command_words.last().is_some_and(|word| ["bash", "sh"].contains(&base(word))) {
            command_words.extend(["-c".to_owned(), self.here_document(command)]);
        }
        let translation = translate(&command_words, &self.surroundings.with_output(written_to));
        match translation.and_then(|it| with_every_value(&command_words, it, &self.variables.unknown)) {
            Ok(mut translation) => {
                self.wait.read(&command_words, &mut translation, self.whole.benches.is_empty());
                self.place_exported(&name, &exported, &mut translation);
                // What was read of a file that the text writes is in the stage.
                let read = |file: &WrittenFile| translation.read_files.iter().any(|read| plain(read) == file.path);
                self.files.retain(|file| !read(file));
                self.take(place, translation);
            }
            Err(error) => self.refused(place, command, error),
        }
    }

    fn here_document(&mut self, command: &WrittenCommand) -> String {
        let text = &command.here_document;
        if command.is_literal { text.clone() } else { self.variables.expand_text(text) }
    }

    /// The exported variables that a program gets, where it does not set them itself. Those that the text itself uses
    /// are for the text.
    fn exported_for(&self, words: &[String]) -> Vec<(String, String)> {
        let is_set = |name: &str| words.iter().map_while(|word| assignment(word)).any(|(other, _)| other == name);
        let exported = self.variables.for_programs().filter(|(name, _)| !is_set(name));
        exported.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Notes which exported variables have a place in a translation. Those that its program does not read are for
    /// another program, perhaps: if no later program reads them, they are named at the end.
    fn place_exported(&mut self, program: &str, exported: &[(String, String)], translation: &mut Translation) {
        for (name, _) in exported {
            let written = format!("{name}=…");
            let before = translation.untranslated.len();
            translation.untranslated.retain(|option| option.argument != written || option.why != NOT_RUN);
            let is_unread = translation.untranslated.len() < before;
            let is_read = !is_unread && matches!(translation.kind, TranslationKind::Bench(_));
            let is_named = translation.untranslated.iter().any(|option| option.argument == written);
            if is_named || is_read || READS_VARIABLES.contains(&program) || translation.kind.mentions(name) {
                self.placed.insert(name.clone());
            }
        }
    }

    /// Exported variables that no program of the text was given.
    fn without_a_place(&self) -> Vec<UntranslatedOption> {
        let names = self.variables.for_programs().map(|(name, _)| name).filter(|name| !self.placed.contains(*name));
        names.map(|name| UntranslatedOption::new(format!("{name}=…"), NOT_RUN)).collect()
    }

    fn problems(&mut self, place: &str, error: TranslationError) {
        self.builder.problems.extend(error.within(place).problems);
    }

    fn take(&mut self, place: &str, mut translation: Translation) {
        with_unique_names(&mut translation, &self.whole.stages);
        self.only = (self.count == 1).then(|| translation.clone());
        self.tools.insert(translation.tool);
        if !matches!(translation.kind, TranslationKind::Container(_)) {
            self.builder.absorb(place, &mut translation);
        }
        match translation.kind {
            TranslationKind::Nothing(reason) => self.without.push((place.to_owned(), reason, translation.tool)),
            TranslationKind::Container(container) => self.container = Some(container),
            TranslationKind::Bench(mut bench) => {
                self.mark_uncertain();
                let target = bench.args.first().map(String::as_str).unwrap_or_default();
                let server = self.server_of_target(target);
                // Without a server of a stage it is that of the run that keeps its servers up.
                let is_here = ["localhost", "127.0.0.1", "0.0.0.0", "{{"].iter().any(|part| target.contains(part));
                let run = self.whole.runs.iter().rposition(|run| run.serves).filter(|_| server.is_none() && is_here);
                if server.is_none() && run.is_none() {
                    self.wait.put_into(&mut bench, &mut self.builder);
                }
                self.whole.benches.push(ScriptBench { server, run, bench, place: place.to_owned() });
            }
            TranslationKind::Run(run) => self.run(run),
            TranslationKind::Commands(commands) => {
                for words in commands {
                    self.command_line(place, words);
                }
            }
            TranslationKind::Manifest(mut manifest) => {
                if let Some(Value::Object(stages)) = manifest.remove("stages") {
                    self.stages(place, stages);
                }
            }
            TranslationKind::Script(script) => {
                self.stages(place, script.stages);
                for mut one in script.benches {
                    let target = one.bench.args.first().map_or("", String::as_str);
                    one.server = one.server.or_else(|| self.server_of_target(target));
                    one.run = one.run.map(|at| at + self.whole.runs.len());
                    place.clone_into(&mut one.place);
                    self.whole.benches.push(one);
                }
                self.whole.commands.extend(script.commands);
                script.runs.into_iter().for_each(|run| self.run(run));
            }
        }
    }

    /// The server of the script that a target leads to.
    fn server_of_target(&mut self, target: &str) -> Option<String> {
        let (server, note) = match match_target(&self.servers, target) {
            TargetMatch::Server(server) => (Some(server.to_owned()), None),
            TargetMatch::Presumed(server, note) => (Some(server.to_owned()), Some(note)),
            TargetMatch::Other(note) => (None, note),
        };
        self.builder.notes.extend(note);
        server
    }

    /// A request to a server that the script started is a stage of its own.
    fn command_line(&mut self, place: &str, mut words: Vec<String>) {
        let is_request = words.len() > 3 && words[..2] == ["regatta", "triton"];
        let server = is_request.then(|| words[3].clone()).and_then(|target| self.server_of_target(&target));
        let Some(server) = server else {
            return self.whole.commands.push(words);
        };
        words[3] = format!("{{{{ stages.{server} }}}}");
        let stage = Map::from_iter([("ask".to_owned(), json!({"shell": words}))]);
        self.stages(place, stage);
    }

    fn stages(&mut self, place: &str, stages: Map<String, Value>) {
        for (name, mut stage) in stages {
            let unique = unique(&name, &[], &self.whole.stages);
            if let (Some(container), Some(keys)) = (&self.container, stage.as_object_mut()) {
                put_container(keys, container);
            }
            if let (Some(clocks), Some(keys)) = (&self.gpu_clocks, stage.as_object_mut())
                && keys.contains_key("gpus")
            {
                keys.insert("gpu_clocks".to_owned(), clocks.clone());
            }
            self.servers.extend(StartedServer::of(&unique, &stage));
            self.places.push((unique.clone(), place.to_owned()));
            self.whole.stages.insert(unique, stage);
        }
    }

    fn into_translation(mut self) -> TranslationResult {
        self.call_others();
        self.report_alternatives();
        self.repository();
        self.place_files();
        let mut exported = self.without_a_place();
        let unknown = std::mem::take(&mut self.variables.unknown);
        if self.count == 1
            && let Some(mut only) = self.only.take()
        {
            if !self.builder.problems.is_empty() {
                return Err(with_variables_named(self.builder.problems, &unknown));
            }
            self.builder.notes.retain(|note| !only.notes.contains(note));
            only.notes.append(&mut self.builder.notes);
            only.unknown.extend(unknown);
            only.places = self.places;
            only.untranslated.append(&mut self.not_followed);
            if !matches!(only.kind, TranslationKind::Nothing(_)) {
                only.untranslated.append(&mut exported);
            }
            return Ok(only);
        }
        if self.count == 0 && self.builder.problems.is_empty() {
            let text = "cannot translate the line: it only sets variables; paste it together with the commands that \
                use them";
            return self.builder.finish(TOOL, TranslationKind::Nothing(text.to_owned()));
        }
        let is_locked = |stage: &Value| stage.get("gpu_clocks").is_some();
        if let Some(clocks) = self.gpu_clocks.as_ref().filter(|_| !self.whole.stages.values().any(is_locked)) {
            let reason = format!(
                "cannot translate `nvidia-smi -lgc` alone: `gpu_clocks: {{ graphics: {} }}` of a stage with `gpus` \
                locks their clocks while it runs",
                clocks["graphics"]
            );
            self.without.push(("nvidia-smi -lgc".to_owned(), reason, "nvidia-smi"));
        }
        let whole = &self.whole;
        let is_empty =
            whole.stages.is_empty() && whole.benches.is_empty() && whole.runs.is_empty() && whole.commands.is_empty();
        for (place, error) in std::mem::take(&mut self.patterns) {
            if is_empty {
                let error = if self.name.is_some() { error.within(&place) } else { error };
                self.builder.problems.extend(error.problems);
            } else {
                let sentences: Vec<String> = error.problems.iter().map(|problem| problem.kind.to_string()).collect();
                self.builder.push_untranslated_load(place, sentences.join("; "));
            }
        }
        if is_empty && self.without.is_empty() && self.container.is_none() {
            if self.builder.problems.is_empty() {
                let mut programs = self.unknown_programs;
                programs.retain(|program| !program.is_empty());
                programs.sort_unstable();
                programs.dedup();
                self.builder.push_error(ProblemKind::NoKnownCommand { programs });
            }
            return Err(with_variables_named(self.builder.problems, &unknown));
        }
        let unused: Vec<String> = self.variables.unused().map(str::to_owned).collect();
        for name in unused.into_iter().filter(|_| !is_empty) {
            self.builder.push_untranslated(format!("{name}=…"), "no command of the script uses it");
        }
        self.builder.untranslated.append(&mut self.not_followed);
        if !is_empty {
            self.builder.untranslated.append(&mut exported);
        }
        let kind = match (is_empty, self.container) {
            (true, Some(container)) => TranslationKind::Container(container),
            (true, None) => {
                // What is printed beside a line that has no place is no reason.
                let is_alone = self.without.iter().all(|(.., tool)| *tool == "text");
                let without = std::mem::take(&mut self.without).into_iter();
                let without = without.filter(|(.., tool)| is_alone || *tool != "text");
                let sentences: BTreeSet<String> = without.map(|(_, reason, _)| reason).collect();
                TranslationKind::Nothing(sentences.into_iter().collect::<Vec<_>>().join(". "))
            }
            (false, _) => TranslationKind::Script(self.whole),
        };
        for (place, reason, _) in self.without {
            self.builder.push_untranslated(place, reason);
        }
        // A line of one tool twice is still of that tool.
        let tool = match self.tools.iter().collect::<Vec<_>>().as_slice() {
            [tool] if self.name.is_none() => tool,
            _ => TOOL,
        };
        let mut translation =
            self.builder.finish(tool, kind).map_err(|error| with_variables_named(error.problems, &unknown))?;
        translation.unknown.extend(unknown);
        translation.places = self.places;
        let produced = std::mem::take(&mut translation.produced);
        if let TranslationKind::Script(script) = &mut translation.kind {
            read_outputs(script.stages.values_mut(), &produced);
        }
        Ok(translation)
    }
}

/// Programs whose environment variables select what they do, so they get every exported variable.
const READS_VARIABLES: [&str; 2] = ["make", "llmb-run"];

fn is_run_args(words: &[String]) -> bool {
    words.first().is_some_and(|word| word.starts_with("RUN_ARGS="))
}
