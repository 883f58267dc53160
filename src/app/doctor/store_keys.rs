//! The keys of shared stores that the environment names: whether they can be used, and who else may read the one that signs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::run_store::{SIGN_KEY, TRUSTED_KEYS, sign_key_of, variable};
use report::{DoctorFinding, FindingLevel};
use runner::{KeyError, PublicKey, TrustedKeys};

/// A line on each key that is named.
pub fn examine() -> Vec<DoctorFinding> {
    [sign_key(), trusted_keys()].into_iter().flatten().collect()
}

fn sign_key() -> Option<DoctorFinding> {
    let value = variable(SIGN_KEY)?;
    let key = match sign_key_of(&value) {
        Ok(key) => key.public().short_id(),
        Err(error) => return Some(unusable(SIGN_KEY, &error)),
    };
    // A text in place of a path is no name of a file.
    let mode = fs::metadata(Path::new(&value)).map_or(0, |file| file.permissions().mode());
    let for_others = mode & 0o077;
    if for_others == 0 {
        return Some(DoctorFinding::fact(SIGN_KEY, format!("signs as {key}")));
    }
    let found = format!("signs as {key}; its file may be read by others (mode {:o})", mode & 0o777);
    let finding = DoctorFinding::fact(SIGN_KEY, found).needed("for its owner alone", &[], FindingLevel::Doubtful);
    Some(finding.fix(format!("chmod 600 {value}")))
}

fn trusted_keys() -> Option<DoctorFinding> {
    let path = variable(TRUSTED_KEYS)?;
    Some(match TrustedKeys::read(Path::new(&path)) {
        Ok(trusted) => {
            let ids: Vec<String> = trusted.keys().iter().map(PublicKey::short_id).collect();
            DoctorFinding::fact(TRUSTED_KEYS, format!("outputs signed by {} are taken", ids.join(", ")))
        }
        Err(error) => unusable(TRUSTED_KEYS, &error),
    })
}

fn unusable(name: &str, error: &KeyError) -> DoctorFinding {
    let finding = DoctorFinding::fact(name, error.to_string()).needed("an Ed25519 key", &[], FindingLevel::Missing);
    finding.fix(error.hint())
}
