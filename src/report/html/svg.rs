//! The few SVG elements that the pictures need.

use crate::escape::escape;
use base::units::grouped;
use std::fmt::Write as _;

/// A picture being drawn. Colors come from the page's classes, so that dark and print need no second drawing.
pub(super) struct SvgCanvas {
    body: String,
    width: f64,
    height: f64,
    title: String,
}

/// The position of a text relative to its point.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl SvgCanvas {
    /// `title` is for screen readers.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        Self { body: String::new(), width, height, title: title.to_owned() }
    }

    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        let _ =
            write!(self.body, r#"<text x="{x:.1}" y="{y:.1}" class="{class}" text-anchor="{anchor}">{text}</text>"#);
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        let _ = write!(self.body, r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#);
    }

    /// A box with a text that shows when the pointer rests on it.
    pub fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str, hint: &str) {
        let ((x, y), (width, height), hint) = (at, size, escape(hint));
        let _ = write!(
            self.body,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="3" class="{class}"><title>{hint}</title></rect>"#
        );
    }

    /// A circle with a text that shows when the pointer rests on it.
    pub fn circle(&mut self, at: (f64, f64), radius: f64, class: &str, hint: &str) {
        let ((x, y), hint) = (at, escape(hint));
        let _ = write!(
            self.body,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius:.1}" class="{class}"><title>{hint}</title></circle>"#
        );
    }

    /// A cross with a text that shows when the pointer rests on it.
    pub fn cross(&mut self, at: (f64, f64), reach: f64, class: &str, hint: &str) {
        let ((x, y), hint) = (at, escape(hint));
        let (left, right, top, bottom) = (x - reach, x + reach, y - reach, y + reach);
        let _ = write!(
            self.body,
            r#"<path d="M{left:.1} {top:.1}L{right:.1} {bottom:.1}M{left:.1} {bottom:.1}L{right:.1} {top:.1}" class="{class}"><title>{hint}</title></path>"#
        );
    }

    /// A text from bottom to top.
    pub fn upright_text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        let _ = write!(
            self.body,
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" class="{class}" text-anchor="middle">{text}</text>"#
        );
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
        let Self { body, width, height, title } = self;
        let title = escape(&title);
        format!(
            r#"<svg viewBox="0 0 {width:.0} {height:.0}" role="img" aria-label="{title}" xmlns="http://www.w3.org/2000/svg">{body}</svg>"#
        )
    }
}

/// No larger number is drawn to scale: the next round one may be infinite.
pub(super) const LARGEST: f64 = 1e300;

/// Round steps from 0 to at least `most`: at most `count` of them.
pub(super) fn steps(most: f64, count: usize) -> Vec<f64> {
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
pub(super) fn number(x: f64) -> String {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
