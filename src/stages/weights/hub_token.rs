//! The hub's token: from the environment, or from the file that `hf auth login` writes.

use std::env;
use std::path::PathBuf;

use base::files::read_text;

/// A token without surrounding space, if there is one.
pub(super) fn find(variable: &str) -> Option<String> {
    let given = env::var(variable).ok().or_else(|| {
        let files = [env::var_os("HF_TOKEN_PATH").map(PathBuf::from), home().map(|home| home.join("token"))];
        files.into_iter().flatten().find_map(|file| read_text(file).ok())
    });
    given.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn home() -> Option<PathBuf> {
    let hf_home = env::var_os("HF_HOME").map(PathBuf::from);
    let cache = || env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let usual = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    hf_home.or_else(|| Some(cache().or_else(usual)?.join("huggingface")))
}
