//! `mlc-r2-downloader.sh` → a stage that runs it.

use serde_json::json;

use crate::command_line::{Opt, Translation, TranslationBuilder, TranslationError, flag, one, read};
use base::units::shell_word;

/// MLCommons' program that downloads models and data sets.
pub(crate) const PROGRAM: &str = "mlc-r2-downloader.sh";

/// `mlc-r2-downloader.sh [-d FOLDER] URI`, into the stage's own folder.
pub(crate) fn translate(arguments: &[String], path: &dyn Fn(&str) -> String) -> Result<Translation, TranslationError> {
    const OPTIONS: [Opt; 2] = [one(&["-d"]), flag(&["-s"])];
    const SCRIPT: &str =
        "https://raw.githubusercontent.com/mlcommons/r2-downloader/refs/heads/main/mlc-r2-downloader.sh";
    let mut builder = TranslationBuilder::default();
    let line = read(PROGRAM, &OPTIONS, arguments, &mut builder, false);
    let [uri] = line.plain.as_slice() else {
        return Err(TranslationError::new(format!("`{PROGRAM}` needs one address, which ends in `.uri`")));
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
    builder.finish_manifest(PROGRAM, "download", [(&name, stage)])
}
