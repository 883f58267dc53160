//! What every picture is made of: SVG elements, axes with their ticks, and a frame with a title. Own SVG, because a
//! picture must be readable on paper, in a mail and without JavaScript: the libraries that draw on a page need a
//! script of several hundred kilobytes, and those that draw SVG are larger than the few elements that a chart has.

use crate::document::escape;
use base::units::grouped;
use std::fmt::Write as _;

/// A picture being drawn. Colors come from the page's classes, so that dark and print need no second drawing.
pub(crate) struct SvgCanvas {
    body: String,
    /// `None`: as wide as the page gives it room, and numbers across are in percent of that.
    width: Option<f64>,
    height: f64,
    title: String,
    /// HTML above the picture, where letters have the size of the page's: the title, and what each curve is.
    caption: Option<String>,
}

/// The position of a text relative to its point.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl SvgCanvas {
    /// `title` is for screen readers.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self { body: String::new(), width: Some(width), height, title: title.to_owned(), caption: None }
    }

    /// As wide as there is room, with letters that are never scaled. Only straight elements fit in: a path knows no
    /// percent.
    pub fn fluid(height: f64, title: &str) -> Self {
        Self { width: None, ..Self::new(0.0, height, title) }
    }

    /// The name of each line with a piece of it, below the title: the class and the name.
    pub fn legend(&mut self, lines: impl IntoIterator<Item = (String, String)>) {
        let Some(caption) = &mut self.caption else { return };
        caption.push_str(r#"<span class="legend">"#);
        for (class, name) in lines {
            let line = format!(r#"<line y1="4" x2="20" y2="4" class="{class}"/>"#);
            let name = escape(&name);
            let _ = write!(caption, r#"<span><svg viewBox="0 0 20 8" class="key">{line}</svg>{name}</span>"#);
        }
        caption.push_str("</span>");
    }

    const fn unit(&self) -> &'static str {
        if self.width.is_none() { "%" } else { "" }
    }

    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let (text, unit) = (escape(text), self.unit());
        let place = format!(r#"x="{x:.1}{unit}" y="{y:.1}""#);
        let _ = write!(self.body, r#"<text {place} class="{class}" text-anchor="{anchor}">{text}</text>"#);
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2), unit) = (from, to, self.unit());
        let ends = format!(r#"x1="{x1:.1}{unit}" y1="{y1:.1}" x2="{x2:.1}{unit}" y2="{y2:.1}""#);
        let _ = write!(self.body, r#"<line {ends} class="{class}"/>"#);
    }

    /// A box with a text that shows when the pointer rests on it.
    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, hint: &str) {
        let unit = self.unit();
        let place = format!(r#"x="{x:.1}{unit}" y="{y:.1}" width="{width:.1}{unit}" height="{height:.1}" rx="3""#);
        self.hinted("rect", &place, class, hint);
    }

    /// A circle with such a text.
    pub fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, hint: &str) {
        self.hinted("circle", &format!(r#"cx="{x:.1}" cy="{y:.1}" r="{radius:.1}""#), class, hint);
    }

    /// A cross with such a text.
    pub fn cross(&mut self, (x, y): (f64, f64), reach: f64, class: &str, hint: &str) {
        let (left, right, top, bottom) = (x - reach, x + reach, y - reach, y + reach);
        let lines = format!("M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}");
        self.hinted("path", &format!(r#"d="{lines}""#), class, hint);
    }

    fn hinted(&mut self, element: &str, place: &str, class: &str, hint: &str) {
        let hint = escape(hint);
        let _ = write!(self.body, r#"<{element} {place} class="{class}"><title>{hint}</title></{element}>"#);
    }

    /// A text from bottom to top.
    pub fn upright_text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let (text, place) = (escape(text), format!("translate({x:.1} {y:.1}) rotate(-90)"));
        let _ = write!(self.body, r#"<text transform="{place}" class="{class}" text-anchor="middle">{text}</text>"#);
    }

    /// A path of straight lines through the points.
    pub fn curve(&mut self, points: impl IntoIterator<Item = (f64, f64)>, class: &str) {
        let mut d = String::new();
        for (at, (x, y)) in points.into_iter().enumerate() {
            let _ = write!(d, "{}{x:.1} {y:.1}", if at == 0 { "M" } else { "L" });
        }
        self.path(&d, class);
    }

    /// A path with a `d` that this crate made.
    pub fn path(&mut self, d: &str, class: &str) {
        let _ = write!(self.body, r#"<path d="{d}" class="{class}"/>"#);
    }

    pub fn finish(self) -> String {
        let Self { body, width, height, title, caption } = self;
        let title = escape(&title);
        let size = match width {
            Some(width) => format!(r#"width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}""#),
            None => format!(r#"height="{height:.0}""#),
        };
        let svg = format!(r#"<svg {size} role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg">{body}"#);
        match caption {
            Some(caption) => format!("<figure><figcaption>{caption}</figcaption>{svg}</svg></figure>"),
            None => format!("{svg}</svg>"),
        }
    }
}

/// No larger number is drawn to scale: the next round one may be infinite.
pub(crate) const LARGEST: f64 = 1e300;

/// Round steps from 0 to at least `most`: at most `count` of them.
pub(crate) fn steps(most: f64, count: usize) -> Vec<f64> {
    // A step of a smaller number may be 0.
    if !(f64::MIN_POSITIVE..=LARGEST).contains(&most) {
        return vec![0.0, 1.0];
    }
    let raw = most / count as f64;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * unit).into_iter().find(|step| *step >= raw * 0.999_999);
    let step = step.unwrap_or(10.0 * unit);
    let last = (most / step - 1e-9).ceil().max(1.0) as usize;
    (0..=last).map(|n| n as f64 * step).collect()
}

/// A number in its shortest form: `0`, `0.05`, `12`, `1,204`.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() {
        return "n/a".to_owned();
    }
    let size = x.abs();
    let decimals = match size {
        _ if size >= 100.0 || x.fract() == 0.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    };
    let text = grouped(x, decimals);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Numbers further apart than this, the largest against the smallest, are drawn on a logarithmic axis.
const FAR_APART: f64 = 25.0;

/// Numbers closer to each other than this have no power of ten between them, and the ticks of a linear axis.
const NARROW: f64 = 4.0;

/// The scale of an axis, from its first to its last number.
pub(crate) enum AxisScale {
    Linear { least: f64, most: f64, ticks: Vec<f64> },
    Log { low: f64, high: f64, ticks: Vec<f64> },
}

impl AxisScale {
    /// From 0 on, ending on a round number.
    pub fn linear(most: f64, count: usize) -> Self {
        let ticks = steps(most, count);
        Self::Linear { least: 0.0, most: ticks.last().copied().unwrap_or(1.0), ticks }
    }

    /// From 0 to exactly the largest value.
    pub fn filled(most: f64) -> Self {
        let most = if most > 0.0 { most } else { 1.0 };
        Self::Linear { least: 0.0, most, ticks: steps(most, 6).into_iter().filter(|tick| *tick <= most).collect() }
    }

    /// Places from 1 on, each in the middle of its part of the axis.
    pub fn places(count: usize) -> Self {
        let ticks = (1..=count).step_by((count / 10).max(1)).map(|place| place as f64);
        Self::Linear { least: 0.5, most: count as f64 + 0.5, ticks: ticks.collect() }
    }

    /// Linear between round numbers around the values, for points whose distance from each other is what matters.
    pub fn close(values: &[f64], count: usize) -> Self {
        let most = drawn(values).fold(0.0, f64::max);
        let least = drawn(values).fold(f64::INFINITY, f64::min).min(most);
        if most - least > LARGEST {
            return Self::linear(most, count);
        }
        let width = steps((most - least).max(most * 0.05), count);
        let step = width.get(1).copied().unwrap_or(1.0);
        let (from, to) = ((least / step).floor() as i64, (most / step).ceil() as i64);
        let ticks: Vec<f64> = (from..=to.max(from + 1)).map(|at| at as f64 * step).collect();
        Self::Linear { least: from as f64 * step, most: to.max(from + 1) as f64 * step, ticks }
    }

    /// Linear from 0, or logarithmic where the values are far apart.
    pub fn fitting(values: &[f64], count: usize) -> Self {
        let most = drawn(values).fold(0.0, f64::max);
        let least = drawn(values).filter(|value| *value >= f64::MIN_POSITIVE).fold(f64::INFINITY, f64::min);
        let is_wide =
            least.is_finite() && most > least * FAR_APART && values.iter().all(|value| *value >= f64::MIN_POSITIVE);
        if is_wide { Self::log(least, most) } else { Self::linear(most, count) }
    }

    /// Logarithmic from the least value to the largest, if they can be on one.
    pub fn log_fitting(least: f64, most: f64) -> Self {
        if least >= f64::MIN_POSITIVE && most <= LARGEST { Self::log(least, most) } else { Self::filled(most) }
    }

    fn log(least: f64, most: f64) -> Self {
        if most < least * NARROW
            && let Self::Linear { least: low, most: high, ticks } = Self::close(&[least, most], 5)
            && low > 0.0
        {
            return Self::Log { low, high, ticks };
        }
        let round = |value: f64, up: bool| {
            let decade = 10f64.powf(value.log10().floor());
            let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
            let near = if up {
                steps.into_iter().find(|step| *step >= value * 0.999_999)
            } else {
                steps.into_iter().rev().find(|step| *step <= value * 1.000_001)
            };
            near.unwrap_or(value)
        };
        let (low, high) = (round(least, false), round(most, true));
        let decades = (high / low).log10();
        let within = |value: &f64| *value >= low * 0.999_999 && *value <= high * 1.000_001;
        let marks: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let from = low.log10().floor() as i32;
        let to = high.log10().ceil() as i32;
        let ticks = (from..=to).flat_map(|power| marks.iter().map(move |mark| mark * 10f64.powi(power)));
        Self::Log { low, high, ticks: ticks.filter(within).collect() }
    }

    pub fn ticks(&self) -> &[f64] {
        match self {
            Self::Linear { ticks, .. } | Self::Log { ticks, .. } => ticks,
        }
    }

    pub const fn is_log(&self) -> bool {
        matches!(self, Self::Log { .. })
    }

    /// Where the axis begins instead of at 0. Places and logarithms have no 0.
    fn cut(&self) -> Option<f64> {
        let Self::Linear { least, ticks, .. } = self else { return None };
        ticks.first().copied().filter(|first| *least > 0.0 && first <= least)
    }

    /// The name of a number for a legend, which says where it is beyond the ends.
    pub fn label(&self, value: f64, name: &str) -> String {
        if self.contains(value) { name.to_owned() } else { format!("{name} (beyond this picture)") }
    }

    /// Whether it reaches as far as this number.
    pub fn contains(&self, value: f64) -> bool {
        let (Self::Linear { least: low, most: high, .. } | Self::Log { low, high, .. }) = self;
        (low * 0.999_999..=high * 1.000_001).contains(&value)
    }

    /// Its place, from 0 to 1; values beyond the ends are at the ends.
    pub fn share(&self, value: f64) -> f64 {
        let share = match self {
            Self::Linear { least, most, .. } => (value - least) / (most - least),
            Self::Log { low, high, .. } => (value.max(*low).ln() - low.ln()) / (high.ln() - low.ln()),
        };
        share.clamp(0.0, 1.0)
    }
}

/// Those that an axis can reach: a number in a result, or a quotient of two, may be as large as any.
fn drawn(values: &[f64]) -> impl Iterator<Item = f64> {
    values.iter().copied().filter(|value| value.abs() <= LARGEST)
}

/// The size of a picture and the room around its plot.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    pub size: (f64, f64),
    pub left: f64,
    pub right: f64,
    pub top: f64,
    pub bottom: f64,
}

/// For curves: distributions, and what happened over time.
pub(crate) const SMALL: Room = Room { size: (400.0, 226.0), left: 54.0, right: 20.0, top: 26.0, bottom: 42.0 };
/// For points with labels.
pub(crate) const WIDE: Room = Room { size: (400.0, 280.0), left: 74.0, right: 20.0, top: 30.0, bottom: 44.0 };
/// About the width of a letter: a picture is hardly scaled on a phone, so that it has the same room everywhere.
pub(crate) const CHARACTER: f64 = 7.4;

impl Room {
    /// Where the axis across ends.
    pub const fn end(&self) -> f64 {
        self.size.0 - self.right
    }

    /// Where the upright axis begins.
    pub const fn floor(&self) -> f64 {
        self.size.1 - self.bottom
    }
}

/// Where numbers are in a picture.
pub(crate) struct Frame {
    pub room: Room,
    pub across: AxisScale,
    pub upright: AxisScale,
}

impl Frame {
    /// Curves from 0 on: they fill the picture across, and only the upright axis ends on a round number.
    pub fn of_curves(widest: f64, highest: f64) -> Self {
        Self { room: SMALL, across: AxisScale::filled(widest), upright: AxisScale::linear(highest, 4) }
    }

    pub fn x(&self, value: f64) -> f64 {
        self.room.left + self.across.share(value) * (self.room.end() - self.room.left)
    }

    pub fn y(&self, value: f64) -> f64 {
        self.room.floor() - self.upright.share(value) * (self.room.floor() - self.room.top)
    }

    /// The picture with its title and axes; `across` and `upright` are their labels with units.
    pub fn draw(&self, title: &str, across: &str, upright: &str) -> SvgCanvas {
        let Room { size, left, top, .. } = self.room;
        let (end, floor) = (self.room.end(), self.room.floor());
        let mut picture = SvgCanvas::new(size.0, size.1, title);
        picture.caption = Some(escape(title));
        for value in self.upright.ticks() {
            picture.line((left, self.y(*value)), (end, self.y(*value)), "grid");
            picture.text(left - 7.0, self.y(*value) + 4.0, "tick", Anchor::End, &number(*value));
        }
        for value in self.across.ticks() {
            picture.line((self.x(*value), floor), (self.x(*value), floor + 4.0), "axis");
        }
        self.numbers_across(&mut picture);
        picture.line((left, floor), (end, floor), "axis");
        self.breaks(&mut picture);
        let label = |text: &str, axis: &AxisScale| match axis.cut() {
            _ if axis.is_log() => format!("{text} (log scale)"),
            Some(first) => format!("{text} (axis begins at {})", number(first)),
            None => text.to_owned(),
        };
        picture.text(left.midpoint(end), size.1 - 6.0, "tick", Anchor::Middle, &label(across, &self.across));
        let upright = label(upright, &self.upright);
        if !upright.is_empty() {
            picture.upright_text(12.0, top.midpoint(floor), "tick", upright.trim_start());
        }
        picture
    }

    /// Of ticks too close to each other, the later ones have no number.
    fn numbers_across(&self, picture: &mut SvgCanvas) {
        let mut free = 0.0;
        for value in self.across.ticks() {
            let text = number(*value);
            let half = text.chars().count() as f64 * CHARACTER / 2.0;
            let middle = self.x(*value).min(self.room.size.0 - half);
            if middle - half >= free {
                picture.text(middle, self.room.floor() + 18.0, "tick", Anchor::Middle, &text);
                free = middle + half + 4.0;
            }
        }
    }

    /// A zigzag at the corner of an axis that does not begin at 0.
    fn breaks(&self, picture: &mut SvgCanvas) {
        let (left, floor) = (self.room.left, self.room.floor());
        let steps = [(0.0, -4.0), (3.0, 4.0), (6.0, -4.0), (9.0, 4.0)];
        if self.across.cut().is_some() {
            picture.curve(steps.map(|(along, off)| (left + along, floor + off)), "axis-break");
        }
        if self.upright.cut().is_some() {
            picture.curve(steps.map(|(along, off)| (left + off, floor - along)), "axis-break");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_far_apart_are_on_a_logarithmic_axis() {
        let near = AxisScale::fitting(&[10.0, 40.0], 4);
        assert_eq!((near.is_log(), near.ticks()), (false, &[0.0, 10.0, 20.0, 30.0, 40.0][..]));
        let far = AxisScale::fitting(&[21.0, 900.0], 4);
        assert_eq!((far.is_log(), far.ticks()), (true, &[20.0, 50.0, 100.0, 200.0, 500.0, 1000.0][..]));
        assert!((far.share(20.0)).abs() < 1e-9 && (far.share(1000.0) - 1.0).abs() < 1e-9);
        let close = AxisScale::close(&[36.9, 52.7], 4);
        assert_eq!(close.ticks(), [35.0, 40.0, 45.0, 50.0, 55.0]);
        assert!(close.share(35.0).abs() < 1e-9 && (close.share(55.0) - 1.0).abs() < 1e-9);
        assert_eq!(AxisScale::close(&[50.0], 4).ticks().len(), 2, "one value has an axis, too");
        assert!(!AxisScale::fitting(&[0.0, 900.0], 4).is_log(), "0 is on no logarithmic axis");
        let odd =
            [f64::NAN, f64::INFINITY, f64::MIN, f64::MAX, 1.7e308, 1e300, -1e300, -1e299, 5e-324, -5e-324, 0.0, 3.0];
        for values in odd.iter().flat_map(|one| odd.map(|other| [*one, other])) {
            for axis in [AxisScale::fitting(&values, 4), AxisScale::close(&values, 4), AxisScale::linear(values[1], 4)]
            {
                assert!((2..1000).contains(&axis.ticks().len()), "{values:?}: {:?}", axis.ticks());
            }
        }
        let decades = AxisScale::fitting(&[3.0, 40_000.0], 4);
        assert_eq!(decades.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
    }

    #[test]
    fn numbers_are_short() {
        let shown = [0.0, 0.05, 0.1234, 1.5, 12.34, 212.0, 1204.4, -1_234_567.0].map(number);
        assert_eq!(shown.join(" "), "0 0.05 0.123 1.5 12.3 212 1,204 -1,234,567");
    }

    proptest! {
        #[test]
        fn steps_are_few_and_reach_the_end(most in 1e-9..1e12f64, count in 2..10usize) {
            let steps = steps(most, count);
            prop_assert!(steps.len() <= count + 2 && steps.len() >= 2);
            prop_assert!(*steps.last().expect("steps") >= most * 0.999_999);
        }

        #[test]
        fn nothing_gets_out_of_an_attribute(text in ".*") {
            let safe = escape(&text);
            prop_assert!(!safe.contains(['<', '>', '"', '\'']));
        }
    }
}
