//! A fit of the simulator's step time, as text, as JSON and as a preset.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::document::{Block, Cell, Document, Section, Table};
use crate::styler::signed_percent;
use base::spec::SimCalibration;
use sim::{FittedStep, RegionError, StepTimeFit};

/// The coefficients with what they mean, and the errors by what the steps compute.
pub fn calibration(fit: &StepTimeFit) -> Document {
    let coefficients = coefficients(&fit.calibration)
        .map(|(name, value, meaning)| [Cell::name(name), value.into(), Cell::quiet(meaning)]);
    let regions = fit.regions.iter().map(|region| {
        let errors = [signed_percent(100.0 * region.bias), percent(region.mean), percent(region.largest)];
        [Cell::name(region.region), region.count.to_string().into()].into_iter().chain(errors.map(Cell::from))
    });
    let heads = ["steps", "times", "mean", "mean, absolute", "largest"];
    let held_out = fit.held_out_error.map_or_else(
        || "too few loads to hold some out".to_owned(),
        |error| format!("on every second load, fitted to the others, {}", percent(error)),
    );
    let mean_error = percent(fit.mean_error);
    let fitted = format!("R² {:.5}, mean absolute error {mean_error}; {held_out}", fit.r_squared);
    let assumed = fit.assumed.iter().map(|assumed| Block::plain(format!("assumed: {assumed}")));
    let steps = format!("{} steps in {} loads give {} usable times", fit.logged_steps, fit.loads, fit.rows.len());
    Document {
        head: vec![Block::plain(steps)],
        sections: vec![
            Section::new("Coefficients").with([Block::list(coefficients)]),
            Section::new("Errors, (modeled − measured) / measured").with([Block::table(Table::list(heads, regions))]),
            Section::new("The fit").with([Block::plain(fitted)]).with(assumed),
        ],
        ..Document::default()
    }
}

/// All of it.
pub fn calibration_json(fit: &StepTimeFit) -> Value {
    let region = |region: &RegionError| {
        json!({"region": region.region, "count": region.count, "mean_error": region.bias,
            "mean_absolute_error": region.mean, "largest_error": region.largest})
    };
    let row = |row: &FittedStep| {
        json!({"step": row.step, "steps": row.steps, "batch": row.batch, "prompt_tokens": row.prompt_tokens,
            "measured_ms": row.measured * 1e3, "modelled_ms": row.modeled * 1e3})
    };
    let regions: Vec<Value> = fit.regions.iter().map(region).collect();
    let rows: Vec<Value> = fit.rows.iter().map(row).collect();
    json!({"calibration": fit.calibration, "r_squared": fit.r_squared, "mean_absolute_error": fit.mean_error,
        "held_out_mean_absolute_error": fit.held_out_error, "loads": fit.loads, "logged_steps": fit.logged_steps,
        "assumed": fit.assumed, "regions": regions, "times": rows})
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

/// Name, value and meaning of each setting.
fn coefficients(calibration: &SimCalibration) -> impl Iterator<Item = (String, String, String)> {
    let text = |value: Value| match value {
        Value::String(text) => text,
        value => value.as_f64().map_or_else(|| value.to_string(), |number| number.to_string()),
    };
    calibration.settings().into_iter().map(move |(name, value, meaning)| (name, text(value), meaning))
}
