//! A manifest's arrivals and data, in the harness's own types.

use std::path::{Path, PathBuf};

use super::setting_error::BenchSettingError;
use base::spec::TimeSpan;
use harness::{CallSource, DataKind, LoadLevel, LoadPattern, Pause, PromptSource, SendingSpec};
use plan::manifest::model::{Bench, Data};

pub fn scenario(bench: &Bench) -> Result<LoadPattern, BenchSettingError> {
    let level = |fixed: Option<f64>, what: &'static str| match (&bench.ramp, fixed) {
        (Some(ramp), None) => Ok(LoadLevel::from(ramp)),
        (None, Some(level)) => Ok(LoadLevel::Fixed(level)),
        (Some(_), Some(_)) => Err(BenchSettingError::RampAndLevel(what)),
        (None, None) => Err(BenchSettingError::NoLevel(what)),
    };
    if bench.loadgen.is_some() {
        return Ok(LoadPattern::External(match bench.scenario {
            base::spec::Scenario::Offline => CallSource::AllAtOnce,
            base::spec::Scenario::Server | base::spec::Scenario::Interactive => CallSource::AtTimes,
            base::spec::Scenario::SingleStream => CallSource::OneByOne,
            base::spec::Scenario::Trace | base::spec::Scenario::Concurrency => {
                return Err(BenchSettingError::NotOfLoadgen);
            }
        }));
    }
    Ok(match bench.scenario {
        base::spec::Scenario::Offline => LoadPattern::Offline,
        // Each probe of a search sets its own.
        base::spec::Scenario::Server if bench.search.is_some() => LoadPattern::Server { rate: LoadLevel::Fixed(1.0) },
        base::spec::Scenario::Server => LoadPattern::Server { rate: level(bench.rate, "rate")? },
        base::spec::Scenario::Trace => LoadPattern::Trace { speed: bench.speed.unwrap_or(1.0) },
        base::spec::Scenario::Interactive | base::spec::Scenario::SingleStream => {
            return Err(BenchSettingError::OnlyOfLoadgen);
        }
        base::spec::Scenario::Concurrency => {
            LoadPattern::Concurrency { users: level(bench.concurrency.map(f64::from), "concurrency")? }
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
        answer_time_out: None,
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
        max_input_tokens: given.max_input_tokens,
        order: given.order,
        repeat: given.repeat,
        block_tokens: given.block_tokens,
        delay: given.delay,
    })
}
