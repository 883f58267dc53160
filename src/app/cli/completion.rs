//! What a shell offers for the word that is being typed: commands and options by the table of `args`, and names that
//! only the project has, which the caller finds.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _};
use clap_complete::env::Shells;

use super::commands::CliArgs;

/// A shell sets it to its name, and puts the words of the line behind `--`.
const ASKS: &str = "REGATTA_COMPLETE";

/// Bash splits a word at `=`; this puts it together again, and returns the part after the `=`.
const BASH: &str = include_str!("completion.bash");
/// Without a blank after the `=` of a setting.
const ZSH: &str = include_str!("completion.zsh");

/// A name that may be typed, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub text: String,
    pub about: Option<String>,
}

impl Offer {
    pub fn new(text: impl Into<String>, about: Option<String>) -> Self {
        Self { text: text.into(), about }
    }
}

/// The names of the project in the current folder.
pub trait Offers: Send + Sync {
    fn manifests(&self) -> Vec<Offer>;
    /// `KEY=` for each parameter, or `KEY=VALUE` where `word` has a key; `given` are the settings in front.
    fn settings(&self, manifest: &str, given: &[String], word: &str) -> Vec<Offer>;
    fn stages(&self, manifest: &str, given: &[String]) -> Vec<Offer>;
    /// Stages of the last run.
    fn last_stages(&self) -> Vec<Offer>;
    /// Runs that can be named, and tags.
    fn runs(&self) -> Vec<Offer>;
}

/// The text that a shell reads at its start so that it asks for completions.
pub fn completion_script(shell: Shell) -> String {
    match shell {
        Shell::Bash => BASH.to_owned(),
        Shell::Zsh => ZSH.to_owned(),
        other => {
            let mut script = Vec::new();
            if let Some(completer) = Shells::builtins().completer(&other.to_string()) {
                // Into memory it can be written always.
                let _ = completer.write_registration(ASKS, "regatta", "regatta", "regatta", &mut script);
            }
            String::from_utf8_lossy(&script).into_owned()
        }
    }
}

/// What to print for a shell that asks; none: this is a command to perform. `words` begin with the program's path.
pub fn complete(words: impl IntoIterator<Item = OsString>, offers: impl FnOnce() -> Arc<dyn Offers>) -> Option<String> {
    let shell = std::env::var(ASKS).ok().filter(|shell| !shell.is_empty())?;
    let typed: Vec<OsString> = words.into_iter().skip_while(|word| word != "--").skip(1).collect();
    let mut printed = Vec::new();
    let folder = std::env::current_dir().ok();
    let line = Line::of(&typed);
    let mut command = command(&offers(), &Arc::new(line));
    // A shell that asks amiss is offered nothing.
    let _ = Shells::builtins().completer(&shell)?.write_complete(&mut command, typed, folder.as_deref(), &mut printed);
    Some(String::from_utf8_lossy(&printed).into_owned())
}

/// The words in front of the one that is being typed.
struct Line {
    before: Vec<String>,
}

impl Line {
    fn of(typed: &[OsString]) -> Self {
        let index = std::env::var("_CLAP_COMPLETE_INDEX").ok().and_then(|index| index.parse().ok());
        let end = index.unwrap_or_else(|| typed.len().saturating_sub(1)).min(typed.len());
        Self { before: typed[..end].iter().map(|word| word.to_string_lossy().into_owned()).collect() }
    }

    /// The first word after the command that is one of these names, or a file.
    fn manifest(&self, known: &[Offer]) -> Option<&str> {
        let is_file =
            |word: &str| Path::new(word).extension().is_some_and(|suffix| suffix == "yaml" || suffix == "yml");
        let is_manifest = |word: &&String| known.iter().any(|offer| offer.text == **word) || is_file(word);
        self.before.iter().skip(2).find(is_manifest).map(String::as_str)
    }

    /// `KEY=VALUE` in front.
    fn settings(&self) -> Vec<String> {
        let is_setting = |word: &&String| word.contains('=') && !word.starts_with('-');
        self.before.iter().skip(2).filter(is_setting).cloned().collect()
    }
}

/// The table of commands, in which the arguments that are names of the project offer them.
fn command(offers: &Arc<dyn Offers>, line: &Arc<Line>) -> clap::Command {
    let manifest = || {
        let offers = Arc::clone(offers);
        ArgValueCompleter::new(move |word: &OsStr| {
            let mut candidates = matching(word, offers.manifests());
            candidates.extend(PathCompleter::file().complete(word));
            candidates
        })
    };
    let setting = || {
        let (offers, line) = (Arc::clone(offers), Arc::clone(line));
        ArgValueCompleter::new(move |word: &OsStr| {
            let Some(manifest) = line.manifest(&offers.manifests()).map(str::to_owned) else { return Vec::new() };
            matching(word, offers.settings(&manifest, &line.settings(), &word.to_string_lossy()))
        })
    };
    let stage = || {
        let (offers, line) = (Arc::clone(offers), Arc::clone(line));
        ArgValueCompleter::new(move |word: &OsStr| {
            let stages = match line.manifest(&offers.manifests()) {
                Some(manifest) => offers.stages(manifest, &line.settings()),
                None => offers.last_stages(),
            };
            matching(word, stages)
        })
    };
    let run = || {
        let offers = Arc::clone(offers);
        ArgValueCompleter::new(move |word: &OsStr| matching(word, offers.runs()))
    };
    let mut command = CliArgs::command();
    // The arguments by their names in `args`; each stays in its place among the others.
    let completed = |command: clap::Command, name: &str, argument: &str, completer: ArgValueCompleter| {
        command.mut_subcommand(name, |sub| {
            sub.mut_args(|one| if one.get_id() == argument { one.add(completer.clone()) } else { one })
        })
    };
    for name in ["run", "plan", "serve", "show", "doctor"] {
        command = completed(command, name, "manifest", manifest());
        command = completed(command, name, "settings", setting());
        for argument in ["until", "only", "force", "stage"] {
            command = completed(command, name, argument, stage());
        }
    }
    command = completed(command, "check", "manifests", manifest());
    command = completed(command, "logs", "stage", stage());
    completed(command, "tag", "run", run())
}

fn matching(word: &OsStr, offers: Vec<Offer>) -> Vec<CompletionCandidate> {
    let word = word.to_string_lossy();
    let begins = offers.into_iter().filter(|offer| offer.text.starts_with(&*word));
    begins.map(|offer| CompletionCandidate::new(offer.text).help(offer.about.map(Into::into))).collect()
}
