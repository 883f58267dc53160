//! What is wrong with given fields of the system's JSON.

use serde_json::{Map, Value};

use super::{FIELDS, is_meaningful};
use base::diag::nearest;

const STATUS: [&str; 3] = ["available", "preview", "rdi"];
const TYPES: [&str; 4] = ["datacenter", "edge", "datacenter,edge", "edge,datacenter"];

/// A value that its field cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    pub field: &'static str,
    pub what: String,
    pub why: &'static str,
    pub fix: &'static str,
}

/// All values that their fields cannot have. What is missing or empty is not among them.
pub fn wrong_values(fields: &Map<String, Value>) -> Vec<WrongValue> {
    let mut wrong = Vec::new();
    // The official checker takes a status in any case, and ends at a type that is not written so.
    for (field, known, is_exact) in [("status", &STATUS[..], false), ("system_type", &TYPES[..], true)] {
        let text = fields.get(field).and_then(Value::as_str).unwrap_or_default();
        let is_known = known.iter().any(|one| *one == text || !is_exact && one.eq_ignore_ascii_case(text));
        if !text.is_empty() && !is_known {
            let what = format!("`{field}` is {text:?}, not one of {}", known.join(" | "));
            let (why, fix) = ("the table of results is sorted by it", "take one of them");
            wrong.push(WrongValue { field, what, why, fix });
        }
    }
    for field in ["number_of_nodes", "accelerators_per_node", "host_processors_per_node"] {
        let value = fields.get(field);
        let number = match value {
            Some(Value::String(text)) => text.trim().parse::<u64>().ok(),
            other => other.and_then(Value::as_u64),
        };
        if is_meaningful(value) && number.is_none() {
            let what = format!("`{field}` is no whole number: {}", fields[field]);
            wrong.push(WrongValue { field, what, why: "results are divided by it", fix: "write a whole number" });
        }
    }
    wrong
}

/// Fields that the rules do not have, each with the one that it may be. Others are of power or of network submissions, or of a later
/// round.
pub fn misspelt_fields(given: &Map<String, Value>) -> Vec<(&str, &'static str)> {
    let names = || FIELDS.iter().map(|field| field.name);
    given
        .keys()
        .filter(|name| names().all(|known| known != name.as_str()))
        .filter_map(|name| Some((name.as_str(), nearest(name, names())?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_a_field_cannot_have_and_names_near_a_field_are_found() {
        let given = serde_json::json!({
            "system_type": "cloud", "status": "Available", "number_of_nodes": "1", "accelerators_per_node": 7.5, "coolin": "air",
            "is_network": "false", "cooling": "",
        });
        let given = given.as_object().unwrap();
        let wrong: Vec<String> = wrong_values(given).into_iter().map(|wrong| wrong.what).collect();
        assert_eq!(
            wrong,
            [
                "`system_type` is \"cloud\", not one of datacenter | edge | datacenter,edge | edge,datacenter",
                "`accelerators_per_node` is no whole number: 7.5",
            ]
        );
        assert_eq!(misspelt_fields(given), [("coolin", "cooling")]);
    }
}
