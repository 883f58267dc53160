//! A manifest's arrivals and data, in the harness's own types.

use std::path::{Path, PathBuf};

use crate::harness::{self, CallSource, DataKind, LoadLevel, Pause, PromptSource, Scenario, SendingSpec};
use crate::manifest::model::{self, Bench, Data};
use crate::spec::TimeSpan;

pub fn scenario(bench: &Bench) -> Result<Scenario, String> {
    let level = |fixed: Option<f64>, what: &str| match (&bench.ramp, fixed) {
        (Some(ramp), None) => Ok(LoadLevel::from(ramp)),
        (None, Some(level)) => Ok(LoadLevel::Fixed(level)),
        (Some(_), Some(_)) => Err(format!("`ramp` replaces `{what}`, and both are given")),
        (None, None) => Err(format!("this scenario needs a `{what}` or a `ramp`")),
    };
    if bench.loadgen.is_some() {
        return Ok(Scenario::Outside(match bench.scenario {
            model::Scenario::Offline => CallSource::AllAtOnce,
            model::Scenario::Server | model::Scenario::Interactive => CallSource::AtTimes,
            model::Scenario::SingleStream => CallSource::OneByOne,
            model::Scenario::Trace | model::Scenario::Concurrency => {
                return Err("LoadGen's scenarios are offline, server, interactive and single_stream".to_owned());
            }
        }));
    }
    Ok(match bench.scenario {
        model::Scenario::Offline => Scenario::Offline,
        // Each probe of a search sets its own.
        model::Scenario::Server if bench.search.is_some() => Scenario::Server { rate: LoadLevel::Fixed(1.0) },
        model::Scenario::Server => Scenario::Server { rate: level(bench.rate, "rate")? },
        model::Scenario::Trace => Scenario::Trace { speed: bench.speed.unwrap_or(1.0) },
        model::Scenario::Interactive | model::Scenario::SingleStream => {
            return Err("`interactive` and `single_stream` are scenarios of LoadGen: add `loadgen`".to_owned());
        }
        model::Scenario::Concurrency => {
            Scenario::Concurrency { users: level(bench.concurrency.map(f64::from), "concurrency")? }
        }
    })
}

pub fn pace(bench: &Bench) -> SendingSpec {
    SendingSpec {
        think: bench.think_time.as_ref().map(Pause::from).unwrap_or_default(),
        max_in_flight: bench.max_in_flight,
        warmup_for: bench.warmup_time.as_ref().map(TimeSpan::time),
        stream: bench.stream,
        retries: bench.retries.clone(),
    }
}

/// Paths are relative to `project`.
pub fn content(bench: &Bench, project: &Path) -> PromptSource {
    PromptSource {
        data: bench.data.as_ref().and_then(|given| data(given, project)),
        prefixes: bench.prefixes,
        distinct: bench.distinct_prompts,
        tokenizer: bench.tokenizer.as_ref().map(|file| project.join(file)),
        sessions: bench.sessions.clone(),
    }
}

fn data(given: &Data, project: &Path) -> Option<harness::PromptFile> {
    let (key, file) = given.files().next()?;
    let kind = match key {
        "jsonl" => DataKind::Jsonl,
        "sharegpt" => DataKind::Sharegpt,
        "mooncake" => DataKind::Mooncake,
        "input_ids" => DataKind::InputIds,
        _ => DataKind::Plan,
    };
    let path = |file: &Option<String>| file.as_ref().map(|file| -> PathBuf { project.join(file) });
    Some(harness::PromptFile {
        kind,
        file: project.join(file),
        lengths: path(&given.lengths),
        output_lengths: path(&given.output_lengths),
        first: given.first,
        order: given.order,
        repeat: given.repeat,
        block_tokens: given.block_tokens,
    })
}
