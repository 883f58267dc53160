//! A manifest's arrivals and data, in the harness's own types.

use std::path::{Path, PathBuf};

use crate::harness::{self};
use crate::harness::{
    CallSource, DataKind, GoodputLimit, LoadLevel, LoadSegment, Pause, PromptSource, Retries, Scenario, SendingSpec,
};
use crate::manifest::model::{self, Bench, Data, Ramp, RetryOn, ThinkTime};
use crate::units::duration;

pub fn scenario(bench: &Bench) -> Result<Scenario, String> {
    let level = |fixed: Option<f64>, what: &str| match (&bench.ramp, fixed) {
        (Some(ramp), None) => ramp_level(ramp),
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

fn ramp_level(ramp: &Ramp) -> Result<LoadLevel, String> {
    let seconds = |text: &str| Ok::<_, String>(duration(text)?.as_secs_f64());
    Ok(LoadLevel::Ramp(match ramp {
        Ramp::Linear { from, to, over } => vec![LoadSegment { from: *from, to: *to, seconds: seconds(over)? }],
        Ramp::Steps(steps) => steps
            .iter()
            .map(|step| Ok(LoadSegment { from: step.level, to: step.level, seconds: seconds(&step.lasts)? }))
            .collect::<Result<_, String>>()?,
    }))
}

pub fn limits(given: Option<&model::Limits>) -> Result<harness::Limits, String> {
    let Some(given) = given else { return Ok(harness::Limits::default()) };
    let time = |text: &Option<String>| text.as_deref().map(duration).transpose();
    let mut latency = Vec::new();
    for (key, text) in given.latencies().filter(|(key, _)| !matches!(*key, "ttft_p99" | "tpot_p99")) {
        let limit = harness::LatencyLimit::of(key, duration(text)?);
        latency.push(limit.ok_or_else(|| format!("`limits.{key}` is no metric and statistic"))?);
    }
    let goodput = given.least_goodput()?.map(|least| match least {
        model::LeastGoodput::Share(share) => GoodputLimit::Share(share),
        model::LeastGoodput::PerSecond(rate) => GoodputLimit::PerSecond(rate),
    });
    Ok(harness::Limits {
        ttft_p99: time(&given.ttft_p99)?,
        tpot_p99: time(&given.tpot_p99)?,
        further: harness::FurtherLimits { latency, failures: given.failure_budget()?, goodput },
    })
}

pub fn pace(bench: &Bench) -> Result<SendingSpec, String> {
    let ms = |text: &str| Ok::<_, String>(duration(text)?.as_secs_f64() * 1e3);
    let think = match &bench.think_time {
        None => Pause::default(),
        Some(ThinkTime::Fixed(time)) => Pause::Fixed(ms(time)?),
        Some(ThinkTime::Exponential(mean)) => Pause::Exponential(ms(mean)?),
        Some(ThinkTime::Uniform { min, max }) => Pause::Uniform { min: ms(min)?, max: ms(max)? },
    };
    let warmup_for = bench.warmup_time.as_deref().map(duration).transpose()?;
    let retries = bench.retries.as_ref().map(retries).transpose()?;
    Ok(SendingSpec { think, max_in_flight: bench.max_in_flight, warmup_for, stream: bench.stream, retries })
}

fn retries(given: &model::Retries) -> Result<Retries, String> {
    Ok(Retries {
        times: given.times,
        connect: given.on.contains(&RetryOn::Connect),
        refused: given.on.contains(&RetryOn::Refused),
        pause_ms: duration(&given.pause)?.as_secs_f64() * 1e3,
    })
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

#[cfg(test)]
mod tests {
    use super::limits;
    use crate::harness::GoodputLimit;
    use crate::manifest::model;

    #[test]
    fn every_key_of_a_manifest_is_a_limit_of_the_harness() {
        let keys: Vec<String> = ["ttft", "tpot", "itl", "icl", "e2e", "max_stall"]
            .iter()
            .flat_map(|metric| {
                ["mean", "p50", "p75", "p90", "p95", "p99", "max"].map(|what| format!("{metric}_{what}"))
            })
            .collect();
        let text = keys.join(": 2s\n") + ": 2s\n";
        let given: model::Limits = serde_yaml::from_str(&format!("{text}failures: 0.5%\ngoodput: 9/s\n")).unwrap();
        let limits = limits(Some(&given)).unwrap();
        let mut found: Vec<String> = limits.latencies().map(|limit| limit.key()).collect();
        found.sort();
        let mut keys = keys;
        keys.sort();
        assert_eq!(found, keys);
        assert!(limits.latencies().all(|limit| (limit.ms - 2e3).abs() < 1e-9));
        assert_eq!(limits.further.failures, Some(0.005));
        assert_eq!(limits.further.goodput, Some(GoodputLimit::PerSecond(9.0)));
    }
}
