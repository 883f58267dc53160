//! A fit of the simulator's step time, as text, as JSON and as a preset.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::styler::{Styler, TextRole, signed_percent, table};
use base::spec::SimCalibration;
use sim::StepTimeFit;

/// The coefficients with what they mean, and the errors by what the steps compute.
pub fn calibration_text(fit: &StepTimeFit, paint: Styler) -> String {
    let mut out = format!("{} steps in {} loads give {} usable times\n\n", fit.logged_steps, fit.loads, fit.rows.len());
    out.push_str("Coefficients\n");
    let rows: Vec<_> = coefficients(&fit.calibration)
        .into_iter()
        .map(|(name, value, meaning)| {
            vec![(TextRole::Name, name.to_owned()), (TextRole::Plain, value), (TextRole::Quiet, meaning.to_owned())]
        })
        .collect();
    out.push_str(&table(paint, "  ", &rows));
    out.push_str("\nErrors, (modeled − measured) / measured\n");
    let heads = ["steps", "times", "mean", "mean, absolute", "largest"];
    let mut rows = vec![heads.map(|head| (TextRole::Quiet, head.to_owned())).to_vec()];
    rows.extend(fit.regions.iter().map(|region| {
        vec![
            (TextRole::Name, region.region.to_owned()),
            (TextRole::Plain, region.count.to_string()),
            (TextRole::Plain, signed_percent(100.0 * region.bias)),
            (TextRole::Plain, percent(region.mean)),
            (TextRole::Plain, percent(region.largest)),
        ]
    }));
    out.push_str(&table(paint, "  ", &rows));
    let held_out = fit.held_out_error.map_or_else(
        || "too few loads to hold some out".to_owned(),
        |error| format!("on every second load, with a fit to the others, {}", percent(error)),
    );
    let _ = writeln!(out, "\nR² {:.5}, mean absolute error {}; {held_out}", fit.r_squared, percent(fit.mean_error));
    for assumed in &fit.assumed {
        let _ = writeln!(out, "assumed: {assumed}");
    }
    out
}

/// All of it.
pub fn calibration_json(fit: &StepTimeFit) -> String {
    let regions: Vec<_> = fit
        .regions
        .iter()
        .map(|region| {
            json!({"region": region.region, "count": region.count, "mean_error": region.bias,
                "mean_absolute_error": region.mean, "largest_error": region.largest})
        })
        .collect();
    let rows: Vec<_> = fit
        .rows
        .iter()
        .map(|row| {
            json!({"step": row.step, "steps": row.steps, "batch": row.batch, "prompt_tokens": row.prompt_tokens,
                "measured_ms": row.measured * 1e3, "modelled_ms": row.modeled * 1e3})
        })
        .collect();
    format!(
        "{:#}\n",
        json!({"calibration": fit.calibration, "r_squared": fit.r_squared, "mean_absolute_error": fit.mean_error,
            "held_out_mean_absolute_error": fit.held_out_error, "loads": fit.loads, "logged_steps": fit.logged_steps,
            "assumed": fit.assumed, "regions": regions, "times": rows})
    )
}

/// A manifest to include: `vars: { calibration: … }`.
pub fn calibration_preset(fit: &StepTimeFit) -> String {
    let mut out = String::from("# yaml-language-server: $schema=../../schemas/manifest.json\n");
    let _ = write!(
        out,
        "# The simulator's step time, fitted with `regatta sim calibrate` to {} steps: R² {:.5}, mean error of a \
            step {}",
        fit.logged_steps,
        fit.r_squared,
        percent(fit.mean_error)
    );
    if let Some(error) = fit.held_out_error {
        let _ = write!(out, ",\n# {} on loads that were held out", percent(error));
    }
    out.push_str(".\n");
    for assumed in &fit.assumed {
        let _ = writeln!(out, "# Assumed: {assumed}.");
    }
    out.push_str("regatta: 1\nvars:\n  calibration:\n");
    let _ = writeln!(out, "    source: {}", json!(fit.calibration.source));
    for (name, value, _) in coefficients(&fit.calibration) {
        let _ = writeln!(out, "    {name}: {value}");
    }
    out
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What each setting means.
const MEANINGS: [(&str, &str); 18] = [
    ("scheduler", "whose scheduler and KV cache rules"),
    ("weights_bandwidth", "of the memory bandwidth, reading weights"),
    ("kv_bandwidth", "of the memory bandwidth, reading the KV cache"),
    ("compute", "of the peak at 16 and 8 bits, linear layers"),
    ("compute_fp4", "of the peak at 4 bits, linear layers"),
    ("attention", "of the peak, attention over a prompt"),
    ("experts", "of that, linear layers of experts"),
    ("link", "of the links' bandwidth, all-reduces"),
    ("pipeline", "of the time, stages of a pipeline work"),
    ("overlap", "of the linear layers' work hides behind reading weights"),
    ("step_ms", "each step"),
    ("layer_us", "each layer in a step without a CUDA graph"),
    ("cuda_graph_tokens", "the largest step with a CUDA graph"),
    ("context_ms", "each step with prompts"),
    ("request_us", "each request that generates in a step"),
    ("prompt_us", "each prompt in a step"),
    ("all_reduce_us", "each all-reduce of tensor parallelism"),
    ("frontend_ms", "between a request's arrival and the scheduler"),
];

/// Name, value and meaning of each setting.
fn coefficients(calibration: &SimCalibration) -> Vec<(&'static str, String, &'static str)> {
    let settings = json!(calibration);
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        value => value.as_f64().map_or_else(|| value.to_string(), |number| number.to_string()),
    };
    MEANINGS.into_iter().map(|(name, meaning)| (name, text(&settings[name]), meaning)).collect()
}
