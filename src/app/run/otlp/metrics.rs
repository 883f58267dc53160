//! The numbers of a run's results as gauges: `regatta.ttft` with `statistic=p99`, `regatta.output_tokens`, …

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use harness::RunResult;
use report::{RunState, TaskPhase};

/// Records the results of tasks that ran, not of cached ones, and returns how many values there are.
pub(super) fn record(state: &RunState, provider: &SdkMeterProvider) -> usize {
    let meter = provider.meter("regatta");
    let ran = state.tasks.iter().filter(|(_, task)| task.state == TaskPhase::Ran);
    ran.filter_map(|(id, task)| {
        let result = harness::read_result(&task.out.as_ref()?.join(harness::RESULT)).ok()?;
        let mut of_task = vec![
            KeyValue::new("regatta.run", state.run.as_ref().map_or("", |run| run.as_str()).to_owned()),
            KeyValue::new("regatta.manifest", state.manifest.clone()),
            KeyValue::new("regatta.task", id.to_string()),
            KeyValue::new("regatta.verdict", result.verdict().as_str()),
            KeyValue::new("regatta.simulated", result.is_simulated()),
        ];
        if result.runs() > 1 {
            of_task.push(KeyValue::new("regatta.runs", result.runs() as i64));
        }
        Some(record_result(&meter, &result, &of_task))
    })
    .sum()
}

/// One number of a result.
struct GaugeValue {
    name: &'static str,
    unit: &'static str,
    statistic: Option<&'static str>,
    value: f64,
}

fn record_result(meter: &Meter, result: &RunResult, of_task: &[KeyValue]) -> usize {
    let values = values(result);
    for GaugeValue { name, unit, statistic, value } in &values {
        let mut attributes = of_task.to_vec();
        attributes.extend(statistic.map(|statistic| KeyValue::new("statistic", statistic)));
        meter.f64_gauge(format!("regatta.{name}")).with_unit(*unit).build().record(*value, &attributes);
    }
    values.len()
}

/// Of a measurement of several runs, the means over them, and their counts together.
fn values(result: &RunResult) -> Vec<GaugeValue> {
    let mut values = Vec::new();
    let mut gauge = |name, unit, value: Option<f64>, statistic| {
        values.extend(value.filter(|value| value.is_finite()).map(|value| GaugeValue { name, unit, statistic, value }));
    };
    for (key, metric) in result.latency.each() {
        for (statistic, value) in result.statistics(key, metric) {
            gauge(key, "ms", value, Some(statistic));
        }
    }
    let (rates, counts, goodput) = (&result.rates, &result.counts, result.goodput.as_ref());
    gauge("requests", "{request}/s", result.number("requests_full", rates.requests_full), None);
    gauge("output_tokens", "{token}/s", result.number("output_tokens", rates.output_tokens), None);
    let count = |name: &str, of_run: u64| result.count(name, of_run).map(|count| count as f64);
    gauge("requests_ok", "{request}", count("requests_ok", counts.ok), None);
    gauge("requests_failed", "{request}", count("requests_failed", counts.failed), None);
    let attainment = goodput.and_then(|goodput| goodput.attainment);
    gauge("slo_attainment", "1", result.number("attainment", attainment), None);
    gauge("goodput", "{request}/s", result.number("goodput", goodput.and_then(|goodput| goodput.requests)), None);
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::result_of_repeats;

    #[test]
    fn a_measurement_of_several_runs_has_their_means_and_all_failures() {
        let text = include_str!("../../../../tests/golden/results/benchmark/result.json");
        let one: RunResult = serde_json::from_str(text).unwrap();
        let runs = [(200.0, 0), (300.0, 2), (400.0, 1)].map(|(p99, failed)| {
            let mut run = one.clone();
            (run.latency.ttft.p99, run.counts.failed) = (Some(p99), failed);
            run
        });
        let of = |result: &RunResult, name: &str, statistic: Option<&str>| {
            let all = values(result);
            all.iter().find(|one| one.name == name && one.statistic == statistic).map(|one| one.value)
        };
        let whole = result_of_repeats(&runs).unwrap();
        assert_eq!((of(&whole, "ttft", Some("p99")), of(&whole, "requests_failed", None)), (Some(300.0), Some(3.0)));
        assert_eq!(of(&whole, "requests_ok", None), Some(3.0 * one.counts.ok as f64));
        assert_eq!(
            (of(&runs[1], "ttft", Some("p99")), of(&runs[1], "requests_failed", None)),
            (Some(300.0), Some(2.0))
        );
    }
}
