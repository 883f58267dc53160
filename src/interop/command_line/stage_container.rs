//! The container that a text starts around commands → `container:` of the stages whose programs can run in one.

use serde_json::{Map, Value, json};

/// Actions whose programs can run in a container.
const RUN_IN_CONTAINERS: [&str; 5] = ["shell", "engine", "serve", "trtllm_bench", "mlperf"];

/// A stage that only calls Regatta.
fn is_ours(stage: &Map<String, Value>) -> bool {
    stage.get("shell").and_then(|words| words.get(0)).and_then(Value::as_str) == Some("regatta")
}

/// The container of a stage, unless it has one of its own; whether the stage can run in one.
pub(crate) fn put_container(stage: &mut Map<String, Value>, container: &Map<String, Value>) -> bool {
    let can = RUN_IN_CONTAINERS.iter().any(|action| stage.contains_key(*action)) && !is_ours(stage);
    if can {
        stage.entry("container").or_insert_with(|| Value::Object(container.clone()));
    }
    can
}

/// A variable that the stage's programs get from the environment of the run.
pub(crate) fn put_secret(stage: &mut Map<String, Value>, name: &str) {
    if let Some(names) = stage.entry("secrets").or_insert_with(|| json!([])).as_array_mut()
        && !names.contains(&json!(name))
    {
        names.push(json!(name));
    }
}
