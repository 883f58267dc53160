//! Pictures in SVG: points with labels, curves, and the frame and axes that all have.

mod curves;
mod frame;
mod points;
pub(crate) mod run;

pub(crate) use curves::{OverlayCurve, SecondValue, StepPlot, TrendPlot, course, cumulative, held, spread};
pub(crate) use frame::{SvgCanvas, number};
pub(crate) use points::{Chart, ChartPoint, ChartSeries, PointKind};

/// As many have a color of their own; more begin again.
const COLORS: usize = 8;

/// The class that gives the curve of a result, and its sample in a legend, their color.
pub(crate) fn color(place: usize) -> String {
    format!("c{}", place % COLORS)
}
