//! Commands that download: `git clone` → a `git` stage, or a `weights` stage for a repository of the Hugging Face hub;
//! `mlc-r2-downloader.sh` → a stage that runs it.

use serde_json::{Map, json};

use crate::command_line::{
    Opt, TranslationBuilder, TranslationError, TranslationKind, TranslationResult, flag, one, read, tool_table,
};
use base::units::shell_word;

tool_table!(TABLE, ["git-clone"], []);

/// `git clone URL [FOLDER]` is a stage; a checkpoint of the Hugging Face hub is a `weights` stage.
pub(crate) fn git_clone(arguments: &[String], path: &dyn Fn(&str) -> String) -> TranslationResult {
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

/// MLCommons' program that downloads models and data sets.
pub(crate) const R2_DOWNLOADER: &str = "mlc-r2-downloader.sh";

/// `mlc-r2-downloader.sh [-d FOLDER] URI`, into the stage's own folder.
pub(crate) fn r2_download(arguments: &[String], path: &dyn Fn(&str) -> String) -> TranslationResult {
    const OPTIONS: [Opt; 2] = [one(&["-d"]), flag(&["-s"])];
    const SCRIPT: &str =
        "https://raw.githubusercontent.com/mlcommons/r2-downloader/refs/heads/main/mlc-r2-downloader.sh";
    let mut builder = TranslationBuilder::default();
    let line = read(R2_DOWNLOADER, &OPTIONS, arguments, &mut builder, false);
    let [uri] = line.plain.as_slice() else {
        return Err(TranslationError::new(format!("`{R2_DOWNLOADER}` needs one address, which ends in `.uri`")));
    };
    let stem = uri.rsplit('/').next().unwrap_or_default().trim_end_matches(".uri");
    let name: String = stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let name = format!("download_{name}");
    if let Some(folder) = line.value("-d") {
        builder.produces(&path(folder), format!("{{{{ stages.{name}.out }}}}"));
    }
    builder.note(format!(
        "the stage runs the downloader that is current then; a bucket that needs a login needs `-s` and a service \
        account. For the data set of a workload, `regatta run WORKLOAD loadgen=true dataset_uri={uri}` fetches it"
    ));
    let login = if line.has("-s") { "-s " } else { "" };
    let text = format!(
        "set -e\ncurl --fail --silent --show-error --location --output downloader.sh {SCRIPT}\n\
        bash downloader.sh {login}-d . {}\nrm downloader.sh\n",
        shell_word(uri)
    );
    let mut stage = json!({"shell": text});
    if line.has("-s") {
        stage["secrets"] = json!(["CF_ACCESS_CLIENT_ID", "CF_ACCESS_CLIENT_SECRET"]);
    }
    builder.finish_manifest(R2_DOWNLOADER, "download", [(&name, stage)])
}
