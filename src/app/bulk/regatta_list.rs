//! Regatta's own list: manifests, parameters, repeats.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::bulk::BulkRun;
use crate::cli::{KeyValueArg, Subject};
use base::diag::ErrorText;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// For all runs.
    #[serde(default)]
    params: IndexMap<String, Value>,
    repeats: Option<u32>,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    /// A manifest's name or its path.
    run: String,
    #[serde(default)]
    params: IndexMap<String, Value>,
    /// Variables that its parameters read.
    #[serde(default)]
    env: IndexMap<String, Value>,
    repeats: Option<u32>,
}

pub fn read(text: &str) -> Result<Vec<BulkRun>, ErrorText> {
    let list: List = base::files::parse_yaml(text).map_err(ErrorText::new)?;
    let mut items = Vec::new();
    for run in list.runs {
        let mut params = list.params.clone();
        let list_keys = params.keys().filter(|key| !run.params.contains_key(*key)).cloned().collect();
        params.extend(run.params);
        let plain = |name: &str, value: &Value| {
            command_line_value(value)
                .ok_or_else(|| ErrorText::new(format_args!("`{name}` of `{}` is not a plain value", run.run)))
        };
        let settings = params.into_iter().map(|(key, value)| Ok(KeyValueArg { value: plain(&key, &value)?, key }));
        let env = run.env.iter().map(|(name, value)| Ok((name.clone(), plain(name, value)?)));
        let item = BulkRun {
            list_keys,
            env: env.collect::<Result<BTreeMap<_, _>, ErrorText>>()?,
            subject: Subject { settings: settings.collect::<Result<_, ErrorText>>()?, manifest: run.run },
            repeat: 1,
        };
        items.extend(item.repeated(run.repeats.or(list.repeats).unwrap_or(1)));
    }
    Ok(items)
}

/// A value as it would be typed; a list with commas.
pub fn command_line_value(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(items) => Some(items.iter().map(command_line_value).collect::<Option<Vec<_>>>()?.join(",")),
        Value::Null | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_commands() {
        let items = read(
            "params: { system: sim-gb200-x1 }\nruns:\n- run: llama3.3-70b\n  params: { use_cases: [chat:128/128, \
             mine:8/8], streaming: false }\n  env: { TP: 1 }\n  repeats: 2\n- { run: a b.yaml, params: { system: x } \
             }\n",
        )
        .unwrap();
        let commands: Vec<String> = items.iter().map(ToString::to_string).collect();
        assert_eq!(
            commands,
            [
                "TP=1 regatta run llama3.3-70b system=sim-gb200-x1 use_cases=chat:128/128,mine:8/8 streaming=false",
                "TP=1 regatta run llama3.3-70b system=sim-gb200-x1 use_cases=chat:128/128,mine:8/8 streaming=false \
                 --repeat-number 2",
                "regatta run 'a b.yaml' system=x",
            ]
        );
        assert!(read("runs:\n- { rum: x }\n").unwrap_err().to_string().contains("rum"));
        assert!(read("runs:\n- { run: x }\n- x\n").unwrap_err().to_string().contains("runs[1]"));
        assert!(
            read("runs:\n- { run: x, params: { y: { z: 1 } } }\n")
                .unwrap_err()
                .to_string()
                .contains("not a plain value")
        );
    }
}
