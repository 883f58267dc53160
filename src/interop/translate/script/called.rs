//! What a script names: `source FILE` goes on in that file, `bash FILE` starts it with what is exported, and a function is
//! read with its arguments. Conditions are not followed, and are reported.

use std::path::Path;

use super::{Script, read_commands};
use crate::command_line::{Env, Translation, TranslationError, UntranslatedOption, base, positional};
use crate::translate::command::Surroundings;

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

    /// Goes on in a sourced file that can be read; whether it did.
    pub(super) fn source(&mut self, place: &str, words: &[String]) -> bool {
        let [name, file, ..] = words else { return false };
        let text = if name == "source" || name == "." { self.surroundings.script(file) } else { None };
        let Some(text) = text else { return false };
        if let Err(error) = self.file(file, &text) {
            self.problems(place, error);
        }
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
        let _arguments = before.map(|before| self.variables.swap_positional(before));
        self.functions.insert(name.to_owned(), commands);
    }

    /// Reads the commands of functions that no command called.
    pub(super) fn call_others(&mut self) {
        let functions: Vec<String> = self.functions.keys().cloned().collect();
        for name in functions {
            if !self.called.contains(&name) {
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
                self.not_followed.push(UntranslatedOption::new(format!("{name}={last}"), reason));
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
) -> Option<Result<Translation, TranslationError>> {
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
