//! `git clone` → a `git` stage, or a `weights` stage for a repository of the Hugging Face hub.

use crate::command_line::{TranslationBuilder, TranslationError, TranslationKind, TranslationResult, tool_table};
use serde_json::{Map, json};

tool_table!(TABLE, ["git-clone"], []);

/// `git clone URL [FOLDER]` is a stage; a checkpoint of the Hugging Face hub is a `weights` stage.
pub(crate) fn translate(arguments: &[String], path: &dyn Fn(&str) -> String) -> TranslationResult {
    let mut builder = TranslationBuilder::default();
    let Some(rest) = arguments.split_first().filter(|(command, _)| *command == "clone").map(|(_, rest)| rest) else {
        let text = "cannot translate `git`: a `git` stage clones a revision with its submodules, and applies \
            patches by `cherry_picks`";
        return builder.finish("git", TranslationKind::Nothing(text.to_owned()));
    };
    let line = TABLE.read_as(TABLE.program, rest, &mut builder);
    let Some(url) = line.plain.first() else {
        return Err(TranslationError::new("`git clone` needs a URL"));
    };
    let name = url.trim_end_matches('/').trim_end_matches(".git").rsplit('/').next().unwrap_or("source");
    let stage: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
    let stage = format!("clone_{stage}");
    let action = match url.strip_prefix("https://huggingface.co/") {
        Some(repository) if !repository.starts_with("datasets/") => {
            builder.note("`weights` takes the files of the revision `main`; name a commit to get the same ones again");
            json!({"weights": {"hf": repository.trim_end_matches('/')}})
        }
        _ => {
            let rev = line.value("--branch").unwrap_or("HEAD");
            if rev == "HEAD" {
                builder.note(format!("`rev: HEAD` of {url} is the newest commit at each run; name a tag or a commit"));
            }
            let mut git = Map::from_iter([("url".to_owned(), json!(url)), ("rev".to_owned(), json!(rev))]);
            if line.has("--recursive") {
                git.insert("submodules".to_owned(), json!(true));
            }
            json!({"git": git})
        }
    };
    builder.produces(&path(line.plain.get(1).map_or(name, String::as_str)), format!("{{{{ stages.{stage}.out }}}}"));
    builder.finish_manifest(TABLE.program, "clone", [(&stage, action)])
}
