//! Points over two numbers: curves of sweeps, with intervals, limits, a front, and a value to read at every point.

use super::color;
use super::frame::{Anchor, AxisScale, CHARACTER, Frame, SvgCanvas, WIDE};

/// More points of a curve than this have no labels.
const LABELED: usize = 24;

/// What is drawn.
#[derive(Default)]
pub(crate) struct Chart<'a> {
    pub title: &'a str,
    /// Below the picture, with its unit.
    pub across: &'a str,
    /// Beside the upright axis.
    pub upright: &'a str,
    pub series: Vec<ChartSeries>,
    /// Heights that must not be exceeded, and what to write there.
    pub limits: Vec<(f64, String)>,
    /// From where to where on the axis across a search found its result.
    pub found: Option<(f64, f64)>,
    /// Begin the axis across below the lowest value instead of at 0.
    pub is_close: bool,
}

/// One curve.
#[derive(Default)]
pub(crate) struct ChartSeries {
    /// Which color and dashes.
    pub place: usize,
    pub name: String,
    pub points: Vec<ChartPoint>,
    /// Draw a line through the points of the front instead of through all of them.
    pub is_front: bool,
}

/// One point.
#[derive(Default)]
pub(crate) struct ChartPoint {
    pub x: f64,
    pub y: f64,
    /// Ends of its interval.
    pub interval: Option<(f64, f64)>,
    pub label: String,
    /// The text that shows when the pointer rests on it.
    pub hint: String,
    pub kind: PointKind,
    pub is_knee: bool,
    pub on_front: bool,
}

/// What a point counts for.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PointKind {
    #[default]
    Valid,
    /// Above a limit, and measured well; or with a queue that grew.
    OverLimit,
    /// Not a measurement of the server: on no curve.
    Invalid,
}

impl Chart<'_> {
    /// `None` without points.
    pub fn draw(&self) -> Option<String> {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let xs: Vec<f64> = points().map(|point| point.x).filter(|x| x.is_finite()).collect();
        let mut ys: Vec<f64> = points().map(|point| point.y).filter(|y| y.is_finite()).collect();
        if xs.is_empty() || ys.is_empty() {
            return None;
        }
        ys.extend(points().filter_map(|point| point.interval.map(|ends| ends.1)));
        // A limit far above all points is in the legend alone rather than pressing them flat.
        let highest = ys.iter().copied().fold(0.0, f64::max);
        ys.extend(self.limits.iter().map(|limit| limit.0).filter(|limit| *limit <= highest * 3.0));
        let across = if self.is_close { AxisScale::close(&xs, 6) } else { AxisScale::fitting(&xs, 6) };
        let upright = AxisScale::fitting(&ys, 4);
        let frame = Frame { room: WIDE, across, upright };
        let mut picture = frame.draw(self.title, self.across, self.upright);
        if let Some((from, to)) = self.found.map(|(from, to)| (frame.x(from), frame.x(to))) {
            picture.rect((from, WIDE.top), ((to - from).max(1.5), WIDE.floor() - WIDE.top), "found", "found");
        }
        // A single curve needs no name.
        let named = self.series.iter().filter(|_| self.series.len() > 1);
        let curves = named.map(|series| (format!("curve {}", color(series.place)), series.name.clone()));
        let limits = self.limits.iter().map(|(at, text)| ("limit".to_owned(), frame.upright.label(*at, text)));
        picture.legend(curves.chain(limits));
        for (at, _) in self.limits.iter().filter(|(at, _)| frame.upright.contains(*at)) {
            picture.line((WIDE.left, frame.y(*at)), (WIDE.end(), frame.y(*at)), "limit");
        }
        for series in &self.series {
            draw_series(&frame, series, &mut picture);
        }
        // Labels are on top, on no point, and on no line where there is room, whichever curve that is of. With many
        // points they are rare.
        let labeled = || self.series.iter().filter(|series| series.points.len() <= LABELED);
        let is_drawn = |point: &&ChartPoint| point.x.is_finite() && point.y.is_finite();
        let dot = |point: &ChartPoint| {
            let (x, y, reach) = (frame.x(point.x), frame.y(point.y), if point.is_knee { 9.0 } else { 4.0 });
            (x - reach, x + reach, y + 4.0)
        };
        let points = labeled().flat_map(|series| &series.points).filter(is_drawn).map(dot);
        let mut drawn = DrawnMarks {
            texts: points.collect(),
            lines: self.series.iter().flat_map(|series| lines(&frame, series)).collect(),
        };
        for series in &self.series {
            for point in series.points.iter().filter(is_drawn) {
                let is_labeled = series.points.len() <= LABELED || point.is_knee;
                if is_labeled && !point.label.is_empty() {
                    let knee = if point.is_knee { " knee" } else { "" };
                    let label = format!("{}{knee}", point.label);
                    drawn.place_label(&mut picture, (frame.x(point.x), frame.y(point.y)), &label);
                }
            }
        }
        Some(picture.finish())
    }
}

/// The points that the curve of a series goes through.
fn curve(frame: &Frame, series: &ChartSeries) -> Vec<(f64, f64)> {
    let on_curve = |point: &&ChartPoint| {
        point.x.is_finite()
            && point.y.is_finite()
            && if series.is_front { point.on_front } else { point.kind != PointKind::Invalid }
    };
    let mut line: Vec<(f64, f64)> =
        series.points.iter().filter(on_curve).map(|point| (frame.x(point.x), frame.y(point.y))).collect();
    if series.is_front {
        line.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    line
}

/// What a label should not lie on: the pieces of the curve, and the whiskers.
fn lines(frame: &Frame, series: &ChartSeries) -> Vec<[(f64, f64); 2]> {
    let curve = curve(frame, series);
    let whisker = |point: &ChartPoint| {
        let ((low, high), x) = (point.interval?, frame.x(point.x));
        Some([(x, frame.y(low)), (x, frame.y(high))])
    };
    let whiskers = series.points.iter().filter_map(whisker);
    curve.windows(2).map(|ends| [ends[0], ends[1]]).chain(whiskers).collect()
}

fn draw_series(frame: &Frame, series: &ChartSeries, picture: &mut SvgCanvas) {
    let class = color(series.place);
    let points = curve(frame, series);
    if points.len() > 1 {
        picture.curve(points, &format!("curve {class}"));
    }
    for point in series.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite()) {
        let (x, y) = (frame.x(point.x), frame.y(point.y));
        if let Some((low, high)) = point.interval {
            picture.line((x, frame.y(low)), (x, frame.y(high)), &format!("whisker {class}"));
        }
        match point.kind {
            PointKind::Invalid => picture.cross((x, y), 4.5, "invalid", &point.hint),
            PointKind::OverLimit => picture.circle((x, y), 4.0, &format!("dot over-limit {class}"), &point.hint),
            PointKind::Valid => picture.circle((x, y), 4.0, &format!("dot {class}"), &point.hint),
        }
        if point.is_knee {
            picture.circle((x, y), 8.5, "knee", &point.hint);
        }
    }
}

/// What is in the picture already.
struct DrawnMarks {
    /// Left end, right end and baseline of each text, and of each point as if it were one.
    texts: Vec<(f64, f64, f64)>,
    lines: Vec<[(f64, f64); 2]>,
}

impl DrawnMarks {
    /// Around the point where no other label and no line is, else where no other label is; nowhere if all places are
    /// taken.
    fn place_label(&mut self, picture: &mut SvgCanvas, (x, y): (f64, f64), label: &str) {
        let width = label.chars().count() as f64 * CHARACTER;
        let places = [
            (x, y - 11.0, Anchor::Middle, x - width / 2.0),
            (x + 8.0, y + 4.0, Anchor::Start, x + 8.0),
            (x, y + 17.0, Anchor::Middle, x - width / 2.0),
            (x - 8.0, y + 4.0, Anchor::End, x - 8.0 - width),
            (x - 6.0, y - 9.0, Anchor::End, x - 6.0 - width),
            (x + 6.0, y + 17.0, Anchor::Start, x + 6.0),
            (x + 6.0, y - 9.0, Anchor::Start, x + 6.0),
            (x - 6.0, y + 17.0, Anchor::End, x - 6.0 - width),
        ];
        let free: Vec<_> = places.into_iter().filter(|(_, at, _, left)| self.is_free(*left, width, *at)).collect();
        let best = free.iter().find(|(_, at, _, left)| !self.is_crossed(*left, width, *at)).or_else(|| free.first());
        if let Some(&(at_x, at_y, anchor, left)) = best {
            self.texts.push((left, left + width, at_y));
            picture.text(at_x, at_y, "tick halo", anchor, label);
        }
    }

    fn is_free(&self, left: f64, width: f64, at: f64) -> bool {
        let is_inside =
            left >= WIDE.left - 4.0 && left + width <= WIDE.size.0 && at > WIDE.top - 14.0 && at < WIDE.floor() - 2.0;
        let is_apart = |other: &(f64, f64, f64)| {
            left + width < other.0 - 3.0 || left > other.1 + 3.0 || (at - other.2).abs() > 12.5
        };
        is_inside && self.texts.iter().all(is_apart)
    }

    /// Whether a line goes through the box of a text.
    fn is_crossed(&self, left: f64, width: f64, at: f64) -> bool {
        let (right, top) = (left + width, at - 10.0);
        let crosses = |[(x0, y0), (x1, y1)]: &[(f64, f64); 2]| {
            if x0.max(*x1) < left || x0.min(*x1) > right {
                return false;
            }
            // The heights of the piece that is above or below the box; of an upright line it is all of it.
            let height = |edge: f64| y0 + ((edge - x0) / (x1 - x0)).clamp(0.0, 1.0) * (y1 - y0);
            let (from, to) = if (x1 - x0).abs() < 1e-9 { (*y0, *y1) } else { (height(left), height(right)) };
            from.max(to) > top && from.min(to) < at + 1.0
        };
        self.lines.iter().any(crosses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64, kind: PointKind) -> ChartPoint {
        let hint = format!("{x} users <b>");
        ChartPoint {
            x,
            y,
            interval: Some((y * 0.9, y * 1.1)),
            label: format!("{x}"),
            hint,
            kind,
            is_knee: false,
            on_front: true,
        }
    }

    fn chart(points: Vec<ChartPoint>) -> Chart<'static> {
        let series = ChartSeries { place: 0, name: "p99".to_owned(), points, is_front: false };
        Chart {
            title: "TTFT",
            across: "req/s",
            upright: "ms",
            series: vec![series],
            limits: vec![(450.0, "limit".to_owned())],
            found: None,
            is_close: false,
        }
    }

    #[test]
    fn an_invalid_point_is_shown_and_on_no_curve() {
        let points = [PointKind::Valid, PointKind::OverLimit, PointKind::Invalid, PointKind::Valid];
        let points = points.into_iter().zip(1..).map(|(kind, at)| point(f64::from(at), 100.0 * f64::from(at), kind));
        let picture = chart(points.collect()).draw().expect("points");
        let curve = picture.split("<path d=\"").find(|part| part.contains("class=\"curve c0\"")).expect("a curve");
        assert_eq!(curve.split('"').next().map(|d| d.matches('L').count()), Some(2), "{curve}");
        assert_eq!((picture.matches("invalid").count(), picture.matches("over-limit").count()), (1, 1));
        assert_eq!(picture.matches("<title>").count(), 4, "a value at every point");
        assert!(picture.contains("users &lt;b&gt;") && picture.contains("</svg>limit</span>"), "{picture}");
    }

    #[test]
    fn a_label_is_beside_the_curve_and_its_whiskers() {
        let points = (1..=3).map(|at| point(f64::from(at), 200.0 + 100.0 * f64::from(at), PointKind::Valid)).collect();
        let picture = chart(points).draw().expect("points");
        assert!(picture.contains(r#"class="tick halo" text-anchor="end">2</text>"#), "{picture}");
    }

    #[test]
    fn labels_do_not_overlap_and_many_points_have_none() {
        let near: Vec<ChartPoint> = (0..10).map(|_| point(5.0, 5.0, PointKind::Valid)).collect();
        let picture = chart(near).draw().expect("points");
        assert!(picture.matches(r#"class="tick halo""#).count() <= 6, "{picture}");
        let many: Vec<ChartPoint> = (1..=200).map(|at| point(f64::from(at) + 0.5, 7.0, PointKind::Valid)).collect();
        assert!(!chart(many).draw().expect("points").contains(">77.5</text>"));
        assert_eq!(chart(Vec::new()).draw(), None);
    }
}
