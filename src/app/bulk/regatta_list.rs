//! Regatta's own list: manifests, parameters, repeats; or each run as it would be typed.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use crate::bulk::{BulkFileError, BulkRun, RunEntryError};
use crate::cli::KeyValueArg;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// For all runs.
    #[serde(default)]
    params: IndexMap<String, Value>,
    repeats: Option<u32>,
    /// A map, or the text that a user would type behind `regatta run`.
    runs: Vec<Value>,
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
    /// One of the repeats, of a line with `--repeat-number`.
    #[serde(skip)]
    repeat: Option<u32>,
}

pub fn read(text: &str) -> Result<Vec<BulkRun>, BulkFileError> {
    let list: List = base::files::parse_yaml(text)?;
    let mut items = Vec::new();
    for (index, run) in list.runs.into_iter().enumerate() {
        let run = match run {
            Value::String(line) => typed_line(&line),
            map => serde_json::from_value::<Run>(map).map_err(RunEntryError::from),
        };
        let run = run.map_err(|error| BulkFileError::Run { index, error })?;
        let mut params = list.params.clone();
        let list_keys = params.keys().filter(|key| !run.params.contains_key(*key)).cloned().collect();
        params.extend(run.params);
        let plain = |name: &str, value: &Value| {
            command_line_value(value)
                .ok_or_else(|| BulkFileError::RunValue { name: name.to_owned(), run: run.run.clone() })
        };
        let settings = params.into_iter().map(|(key, value)| Ok(KeyValueArg { value: plain(&key, &value)?, key }));
        let env = run.env.iter().map(|(name, value)| Ok((name.clone(), plain(name, value)?)));
        let item = BulkRun {
            settings: settings.collect::<Result<_, BulkFileError>>()?,
            list_keys,
            env: env.collect::<Result<BTreeMap<_, _>, BulkFileError>>()?,
            manifest: run.run,
            repeat: 1,
        };
        match run.repeat {
            Some(repeat) => items.push(BulkRun { repeat, ..item }),
            None => items.extend(item.repeated(run.repeats.or(list.repeats).unwrap_or(1))),
        }
    }
    Ok(items)
}

/// `NAME=VALUE… [regatta run] MANIFEST KEY=VALUE… [--repeat N | --repeat-number N]`, as [`BulkRun`] prints it.
fn typed_line(line: &str) -> Result<Run, RunEntryError> {
    let words = shlex::split(line).ok_or(RunEntryError::OpenQuote)?;
    let mut run =
        Run { run: String::new(), params: IndexMap::new(), env: IndexMap::new(), repeats: None, repeat: None };
    let mut words = words.into_iter().peekable();
    while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
        run.env.insert(name.to_owned(), value.into());
        words.next();
    }
    if words.next_if(|word| word == "regatta").is_some() {
        words.next_if(|word| word == "run").ok_or(RunEntryError::NotRun)?;
    }
    run.run = words.next().ok_or(RunEntryError::NoManifest)?;
    while let Some(word) = words.next() {
        if word == "--repeat" {
            let count = words.next().and_then(|count| count.parse().ok());
            run.repeats = Some(count.ok_or(RunEntryError::Repeat)?);
        } else if word == "--repeat-number" {
            let number = words.next().and_then(|number| number.parse().ok()).filter(|number| *number > 0);
            run.repeat = Some(number.ok_or(RunEntryError::RepeatNumber)?);
        } else {
            let (key, value) = word.split_once('=').ok_or_else(|| RunEntryError::NotSetting(word.clone()))?;
            run.params.insert(key.to_owned(), value.into());
        }
    }
    if run.repeats.is_some() && run.repeat.is_some() {
        return Err(RunEntryError::RepeatOfRepeats);
    }
    Ok(run)
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
    fn a_run_may_be_written_as_it_is_typed() {
        let lines =
            ["TP=1 regatta run llama3.3-70b use_cases=chat:128/128,mine:8/8", "regatta run 'a b.yaml' system=x"];
        let read =
            read(&format!("runs:\n- \"{}\"\n- \"{}\"\n- quickstart\n", lines[0], &lines[1]["regatta run ".len()..]));
        let commands: Vec<String> = read.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(commands, [lines[0], lines[1], "regatta run quickstart"]);
    }

    /// What `--dry-run` prints can be a list again.
    #[test]
    fn a_printed_repeat_is_read_as_that_repeat() {
        let read = |line: &str| read(&format!("repeats: 3\nruns:\n- {line}\n"));
        let commands: Vec<String> =
            read("regatta run m a=1 --repeat-number 2").unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(commands, ["regatta run m a=1 --repeat-number 2"]);
        for (line, why) in [
            ("m --repeat-number", "`--repeat-number` is which measurement it is, a number from 1"),
            ("m --repeat-number 0", "`--repeat-number` is which measurement it is, a number from 1"),
            ("m --repeat 2 --repeat-number 2", "`--repeat` makes all measurements, `--repeat-number` makes one"),
        ] {
            assert!(read(line).unwrap_err().to_string().contains(why), "{line}");
        }
    }

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
        assert!(read("runs:\n- x\n- x y\n").unwrap_err().to_string().starts_with("runs[1]: `y` is not KEY=VALUE"));
        assert!(
            read("runs:\n- { run: x, params: { y: { z: 1 } } }\n")
                .unwrap_err()
                .to_string()
                .contains("not a plain value")
        );
    }
}
