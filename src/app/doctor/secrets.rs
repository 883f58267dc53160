//! Secrets: whether they are set. Their values are not read.

use std::env;
use std::path::Path;

use super::needs::Needs;
use report::{DoctorFinding, FindingLevel};

const TOKEN: &str = "HF_TOKEN";
/// Below the home folder, where `hf auth login` leaves it.
const TOKEN_FILE: &str = ".cache/huggingface/token";

/// Lines on every secret that is needed, and on the token for Hugging Face in any case.
pub fn examine(needs: &Needs) -> Vec<DoctorFinding> {
    let mut all: Vec<DoctorFinding> = needs
        .secrets
        .iter()
        .map(|(name, by)| {
            let is_set = is_set(name);
            let found = if is_set { "set" } else { "not set" };
            let fix = if name == TOKEN && has_file() {
                format!("export {TOKEN}=\"$(cat ~/{TOKEN_FILE})\"")
            } else {
                format!("export {name}=…")
            };
            DoctorFinding::fact(name, found).needed("in the environment", by, FindingLevel::of(is_set)).fix(fix)
        })
        .collect();
    if !needs.secrets.contains_key(TOKEN) {
        let found = match (is_set(TOKEN), has_file()) {
            (true, _) => "set".to_owned(),
            (false, true) => format!("not set; ~/{TOKEN_FILE} has one"),
            (false, false) => "not set".to_owned(),
        };
        all.push(DoctorFinding::fact(TOKEN, found));
    }
    all
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn has_file() -> bool {
    env::var_os("HOME").is_some_and(|home| Path::new(&home).join(TOKEN_FILE).is_file())
}
