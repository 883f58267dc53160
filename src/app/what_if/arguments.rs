//! The settings, limits and lengths of `regatta what-if`, as they are typed.

use serde_json::json;

use crate::cli::KeyValueArg;
use crate::error::CommandError;
use base::spec::{LatencyLimit, Length, Limits};
use sim::{UnknownMetric, is_in_virtual_time};

/// More points than this are an error.
const MOST_POINTS: usize = 10_000;

/// Each value of each setting with each of the others.
pub(super) fn grid(settings: &[KeyValueArg]) -> Result<Vec<Vec<KeyValueArg>>, CommandError> {
    let mut points = vec![Vec::new()];
    for setting in settings {
        // `[1,2]` is one value, a list.
        let values: Vec<&str> = if setting.value.starts_with(['[', '{']) {
            vec![&setting.value]
        } else {
            setting.value.split(',').collect()
        };
        points = points
            .iter()
            .flat_map(|point: &Vec<KeyValueArg>| {
                values.iter().map(|value| {
                    let mut point = point.clone();
                    point.push(KeyValueArg { key: setting.key.clone(), value: (*value).to_owned() });
                    point
                })
            })
            .collect();
        if points.len() > MOST_POINTS {
            return Err(CommandError::usage(format!("the grid has more than {MOST_POINTS} points")));
        }
    }
    Ok(points)
}

/// `ttft_p99<450ms tpot_p99<40ms`
pub(super) fn limits(text: &str) -> Result<Vec<LatencyLimit>, CommandError> {
    let mut goals = Vec::new();
    for word in text.split([' ', ',']).filter(|word| !word.is_empty()) {
        let wrong = |problem: String| {
            let hint = "write it as in `ttft_p99<450ms tpot_p99<40ms`";
            CommandError::hinted(format!("--goal: `{word}`: {problem}"), hint)
        };
        let Some((key, time)) = word.split_once('<') else { return Err(wrong("there is no `<` in it".to_owned())) };
        let time = time.trim_start_matches('=');
        // A text, so that what has no unit is refused as a duration is.
        let limits: Limits = serde_json::from_value(json!({ key: time })).map_err(|error| wrong(error.to_string()))?;
        let limit = limits.latencies().next();
        let limit = limit.ok_or_else(|| wrong(format!("`{key}` is not a latency and statistic")))?;
        if !is_in_virtual_time(limit.metric) {
            return Err(wrong(UnknownMetric.to_string()));
        }
        goals.push(limit);
    }
    Ok(goals)
}

/// `1000`, `1000,500` or `1000,500,4096`
pub(super) fn length(text: &str) -> Result<Length, CommandError> {
    let wrong = || {
        CommandError::usage(format!("`{text}` is not a length: write MEAN, MEAN,STDDEV or MEAN,STDDEV,MAX, in tokens"))
    };
    let numbers: Result<Vec<f64>, _> = text.split(',').map(|number| number.trim().parse::<f64>()).collect();
    let length = match numbers.map_err(|_| wrong())?[..] {
        [mean] | [mean, 0.0] => Length::Fixed(mean.round() as u32),
        [mean, stddev] => Length::Lognormal { mean, stddev, min: 1, max: (mean + 8.0 * stddev) as u32 },
        [mean, stddev, max] => Length::Lognormal { mean, stddev, min: 1, max: max.round() as u32 },
        _ => return Err(wrong()),
    };
    if length.fault().is_some() { Err(wrong()) } else { Ok(length) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_a_unit_is_no_duration() {
        let Err(CommandError::Usage(why)) = limits("ttft_p99<450") else { panic!("it has no unit") };
        assert!(why.contains("`450` is not a duration") && why.contains("hint: write it as in"), "{why}");
        assert!(limits("ttft_p99<=450ms,tpot_p99<40ms").is_ok_and(|limits| limits.len() == 2));
    }
}
