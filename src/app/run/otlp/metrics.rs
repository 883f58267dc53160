//! The numbers of a run's results as gauges: `regatta.ttft` with `statistic=p99`, `regatta.output_tokens`, …

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use crate::harness::{self, RunResult};
use crate::report::{RunState, TaskPhase};

/// Records the results of tasks that ran, not of cached ones, and returns how many values there are.
pub(super) fn record(state: &RunState, provider: &SdkMeterProvider) -> usize {
    let meter = provider.meter("regatta");
    let ran = state.tasks.iter().filter(|(_, task)| task.state == TaskPhase::Ran);
    ran.filter_map(|(id, task)| {
        let result = harness::read_result(&task.out.as_ref()?.join("result.json")).ok()?;
        let of_task = [
            KeyValue::new("regatta.run", state.run.as_ref().map_or("", |run| run.as_str()).to_owned()),
            KeyValue::new("regatta.manifest", state.manifest.clone()),
            KeyValue::new("regatta.task", id.to_string()),
            KeyValue::new("regatta.verdict", result.verdict().as_str()),
            KeyValue::new("regatta.simulated", result.is_simulated()),
        ];
        Some(record_result(&meter, &result, &of_task))
    })
    .sum()
}

fn record_result(meter: &Meter, result: &RunResult, of_task: &[KeyValue]) -> usize {
    let mut values = 0;
    let mut gauge = |name: &str, unit: &'static str, value: Option<f64>, statistic: Option<&'static str>| {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        let mut attributes = of_task.to_vec();
        attributes.extend(statistic.map(|statistic| KeyValue::new("statistic", statistic)));
        meter.f64_gauge(format!("regatta.{name}")).with_unit(unit).build().record(value, &attributes);
        values += 1;
    };
    for (key, metric) in result.latency.each() {
        let statistics =
            [("mean", metric.mean), ("p50", metric.p50), ("p90", metric.p90), ("p95", metric.p95), ("p99", metric.p99)];
        for (statistic, value) in statistics {
            gauge(key, "ms", value, Some(statistic));
        }
    }
    gauge("requests", "{request}/s", result.rates.requests_full, None);
    gauge("output_tokens", "{token}/s", result.rates.output_tokens, None);
    gauge("requests_ok", "{request}", Some(result.counts.ok as f64), None);
    gauge("requests_failed", "{request}", Some(result.counts.failed as f64), None);
    gauge("slo_attainment", "1", result.goodput.as_ref().and_then(|goodput| goodput.attainment), None);
    gauge("goodput", "{request}/s", result.goodput.as_ref().and_then(|goodput| goodput.requests), None);
    values
}
