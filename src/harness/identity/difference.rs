//! The differences between the identities of two results.

use serde::Serialize;

use super::RunIdentity;
use super::describe::short;

/// One value in which two results differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdentityDifference {
    /// As in [`RunIdentity::entries`].
    pub name: String,
    /// Absent: unknown for the first.
    pub a: Option<String>,
    pub b: Option<String>,
}

impl IdentityDifference {
    /// `server version: 2.54.0 / 2.55.0`; digests in short.
    pub fn describe(&self) -> String {
        let value = |value: &Option<String>| match value {
            None => "not known".to_owned(),
            Some(value) if is_digest(value) => short(value).to_owned(),
            Some(value) => value.clone(),
        };
        format!("{}: {} / {}", self.name, value(&self.a), value(&self.b))
    }
}

fn is_digest(text: &str) -> bool {
    text.len() >= 40 && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// Fields that change from run to run of the same thing and do not affect what was measured.
const PASSING: [&str; 2] = ["server started", "task"];

/// Everything in which they differ, in the order of the entries. A result without an identity differs in nothing that is
/// known: the caller reports that it has none.
pub fn identity_differences(a: &RunIdentity, b: &RunIdentity) -> Vec<IdentityDifference> {
    let (a, b) = (a.entries(), b.entries());
    // A name may be there more than once: GPUs of two models.
    let all = |entries: &[(String, String)], name: &str| {
        let values: Vec<&str> =
            entries.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        (!values.is_empty()).then(|| values.join("; "))
    };
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in a.iter().chain(&b) {
        if !names.contains(&name) && !PASSING.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let difference = |name: &String| IdentityDifference { name: name.clone(), a: all(&a, name), b: all(&b, name) };
    names.into_iter().map(difference).filter(|it| it.a != it.b).collect()
}
