//! The parameter files of `vllm bench sweep`: combinations of options, each a change of a command line.

use std::path::Path;

use base::files::read_text;
use serde_json::{Map, Value};

/// Options of one combination, by their names without dashes in front.
pub(super) type Combination = Map<String, Value>;

/// The name of a combination, which is no option.
const NAME: &str = "_benchmark_name";

/// Why a file has no combinations.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParamsError {
    #[error("cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("is neither a list of objects nor an object of objects")]
    Form,
}

/// The combinations of a file: a list of objects, or objects by name.
pub(super) fn read(path: &Path) -> Result<Vec<Combination>, ParamsError> {
    let all: Vec<Value> = match serde_json::from_str(&read_text(path)?)? {
        Value::Array(all) => all,
        Value::Object(named) => named.into_iter().map(|(_, one)| one).collect(),
        _ => return Err(ParamsError::Form),
    };
    let combinations: Option<Vec<Combination>> = all
        .into_iter()
        .map(|one| match one {
            Value::Object(mut one) => {
                one.shift_remove(NAME);
                Some(one)
            }
            _ => None,
        })
        .collect();
    combinations.filter(|all| !all.is_empty()).ok_or(ParamsError::Form)
}

/// The command with these options: those that it has already get another value.
pub(super) fn apply(command: &[String], combination: &Combination) -> Vec<String> {
    let mut command = command.to_vec();
    for (key, value) in combination {
        let mut option = match (value, key.contains('.')) {
            (Value::Bool(is_on), true) => vec![format!("--{}={is_on}", dashed(key))],
            (Value::Bool(true), false) => vec![format!("--{}", dashed(key))],
            (Value::Bool(false), false) => vec![format!("--no-{}", dashed(key))],
            (Value::String(text), _) => vec![format!("--{}", dashed(key)), text.clone()],
            (other, _) => vec![format!("--{}", dashed(key)), other.to_string()],
        };
        let at = command.iter().position(|word| {
            let name = word.split('=').next().unwrap_or_default();
            name.strip_prefix("--").is_some_and(|name| dashed(name) == dashed(key))
        });
        match at {
            Some(at) => {
                let is_joined = command[at].contains('=');
                let length = if option.len() == 2 && !is_joined { 2 } else { 1 };
                let end = (at + length).min(command.len());
                command.splice(at..end, option);
            }
            None => command.append(&mut option),
        }
    }
    command
}

/// `max_num_seqs` as an option has it. What stands behind a point is a key of a JSON value and stays as it is.
fn dashed(key: &str) -> String {
    match key.split_once('.') {
        Some((before, behind)) => format!("{}.{behind}", before.replace('_', "-")),
        None => key.replace('_', "-"),
    }
}

/// `max_num_seqs=max_concurrency,…`: whether the two combinations have equal values of each pair.
pub(super) fn are_linked(links: &str, serve: &Combination, bench: &Combination) -> bool {
    let pairs = links.split(',').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().all(|(server, benchmark)| {
        let value = serve.get(server.trim());
        value.is_some() && value == bench.get(benchmark.trim())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(command: &str, combination: &Value) -> String {
        let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        apply(&command, combination.as_object().unwrap()).join(" ")
    }

    #[test]
    fn a_combination_changes_options_that_are_there_and_adds_the_others() {
        assert_eq!(applied("vllm serve m", &json!({"max_num_seqs": 32})), "vllm serve m --max-num-seqs 32");
        assert_eq!(
            applied("vllm serve m --max-num-seqs 8 -x", &json!({"max_num_seqs": 32})),
            "vllm serve m --max-num-seqs 32 -x"
        );
        assert_eq!(
            applied("b --max_concurrency=8 --seed 1", &json!({"max_concurrency": 4, "seed": 2})),
            "b --max-concurrency 4 --seed 2"
        );
        assert_eq!(applied("b", &json!({"eager": true, "chunked": false})), "b --eager --no-chunked");
        assert_eq!(
            applied("b", &json!({"compilation_config.use_inductor": true})),
            "b --compilation-config.use_inductor=true"
        );
    }

    #[test]
    fn linked_values_are_equal() {
        let (serve, bench) = (json!({"max_num_seqs": 4}), json!({"max_concurrency": 4}));
        let linked = |links, bench: &Value| are_linked(links, serve.as_object().unwrap(), bench.as_object().unwrap());
        assert!(linked("", &bench) && linked("max_num_seqs=max_concurrency", &bench));
        assert!(!linked("max_num_seqs=max_concurrency", &json!({"max_concurrency": 5})));
        assert!(!linked("max_num_seqs=max_concurrency", &json!({})));
    }
}
