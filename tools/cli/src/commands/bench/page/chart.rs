//! One chart: lines over two axes as SVG, its title and its legend.
//!
//! Owns how it is drawn: no more points than can be seen, gaps where nothing was measured, a dot where there is one point only.

use super::axis::Axis;
use super::markup::Markup;

/// The drawing, in its own units; the page scales it.
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 46.0;
/// Points of a line: about one for every unit of the width.
pub(super) const POINTS_MAX: usize = 560;

/// A chart.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) title: &'static str,
    /// What the vertical axis counts, behind the title.
    pub(super) unit: &'static str,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) lines: Vec<Line>,
    /// What a reader should know, or nothing.
    pub(super) note: &'static str,
}

/// A line of a chart.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    /// Which colour.
    pub(super) series: usize,
    pub(super) stroke: Stroke,
    pub(super) points: Vec<Point>,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stroke {
    Solid,
    Thin,
    Dotted,
}

impl Stroke {
    const fn class(self) -> &'static str {
        match self {
            Self::Solid => "solid",
            Self::Thin => "thin",
            Self::Dotted => "dotted",
        }
    }
}

/// A point, or a gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: Option<f64>,
}

/// What stands for several points where there are too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thin {
    /// Their mean.
    Mean,
    /// The worst of them: a stall must not vanish.
    Largest,
}

impl Thin {
    /// At most [`POINTS_MAX`] points for all of `points`.
    pub(super) fn apply(self, points: &[Point]) -> Vec<Point> {
        let size = points.len().div_ceil(POINTS_MAX).max(1);
        points.chunks(size).map(|chunk| self.one(chunk)).collect()
    }

    #[expect(clippy::cast_precision_loss, reason = "a place on paper")]
    fn one(self, chunk: &[Point]) -> Point {
        let values: Vec<f64> = chunk.iter().filter_map(|point| point.y).collect();
        let x = chunk.iter().map(|point| point.x).sum::<f64>() / chunk.len() as f64;
        let y = match self {
            Self::Mean => values.iter().sum::<f64>() / values.len() as f64,
            Self::Largest => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        };
        Point { x, y: (!values.is_empty()).then_some(y) }
    }
}

impl Chart {
    /// Draws it.
    pub(super) fn draw(&self, markup: &mut Markup) {
        markup.element("figure", &[], |markup| {
            markup.element("figcaption", &[], |markup| {
                markup.leaf("strong", &[], self.title);
                markup.leaf("span", &[("class", "unit")], self.unit);
            });
            if self.lines.len() > 1 {
                self.draw_legend(markup);
            }
            self.draw_plot(markup);
            if !self.note.is_empty() {
                markup.leaf("p", &[("class", "note")], self.note);
            }
        });
    }

    fn draw_legend(&self, markup: &mut Markup) {
        markup.element("ul", &[("class", "legend")], |markup| {
            for line in &self.lines {
                markup.element("li", &[], |markup| {
                    let sample = [("class", "sample"), ("viewBox", "0 0 26 8")];
                    markup.element("svg", &sample, |markup| {
                        markup.void("path", &[("class", &line.class()), ("d", "M1 4H25")]);
                    });
                    markup.text(&line.name);
                });
            }
        });
    }

    fn draw_plot(&self, markup: &mut Markup) {
        let view = format!("0 0 {WIDTH} {HEIGHT}");
        let label = format!("{}, {}", self.title, self.unit);
        let plot = [
            ("class", "plot"),
            ("viewBox", view.as_str()),
            ("role", "img"),
            ("aria-label", &label),
        ];
        markup.element("svg", &plot, |markup| {
            self.draw_axes(markup);
            for line in &self.lines {
                line.draw(&self.x, &self.y, markup);
            }
            if self.lines.iter().all(|line| line.points.iter().all(|point| point.y.is_none())) {
                let (x, y) = (across(0.5), down(0.5));
                let middle = [("class", "empty"), ("x", x.as_str()), ("y", y.as_str())];
                markup.leaf("text", &middle, "nothing was measured");
            }
        });
    }

    fn draw_axes(&self, markup: &mut Markup) {
        for tick in &self.y.ticks {
            let y = down(self.y.place(tick.value));
            let line = format!("M{} {y}H{}", across(0.0), across(1.0));
            let class = if tick.label.is_empty() { "grid faint" } else { "grid" };
            markup.void("path", &[("class", class), ("d", &line)]);
            let x = shown(LEFT - 8.0);
            markup.leaf("text", &[("class", "y"), ("x", &x), ("y", &y)], &tick.label);
        }
        for tick in &self.x.ticks {
            let x = across(self.x.place(tick.value));
            let line = format!("M{x} {}V{}", down(1.0), down(0.0));
            markup.void("path", &[("class", "grid faint"), ("d", &line)]);
            let y = shown(HEIGHT - BOTTOM + 18.0);
            markup.leaf("text", &[("class", "x"), ("x", &x), ("y", &y)], &tick.label);
        }
        let (x, y) = (across(0.5), shown(HEIGHT - 6.0));
        let below = [("class", "x caption"), ("x", x.as_str()), ("y", y.as_str())];
        markup.leaf("text", &below, self.x.caption);
    }
}

impl Line {
    fn class(&self) -> String {
        format!("line s{} {}", self.series, self.stroke.class())
    }

    fn draw(&self, x_axis: &Axis, y_axis: &Axis, markup: &mut Markup) {
        let (mut path, mut dots) = (String::new(), Vec::new());
        for piece in self.points.split(|point| point.y.is_none()) {
            let places: Vec<(String, String)> = piece
                .iter()
                .filter_map(|point| {
                    Some((across(x_axis.place(point.x)), down(y_axis.place(point.y?))))
                })
                .collect();
            match places.as_slice() {
                [] => {}
                [only] => dots.push(only.clone()),
                [first, rest @ ..] => {
                    path.push_str(&format!("M{} {}", first.0, first.1));
                    for (x, y) in rest {
                        path.push_str(&format!("L{x} {y}"));
                    }
                }
            }
        }
        let titled = |markup: &mut Markup| markup.leaf("title", &[], &self.name);
        if !path.is_empty() {
            markup.element("path", &[("class", &self.class()), ("d", &path)], titled);
        }
        for (x, y) in dots {
            let class = format!("dot s{}", self.series);
            let dot = [("class", class.as_str()), ("cx", &x), ("cy", &y), ("r", "3")];
            markup.element("circle", &dot, titled);
        }
    }
}

fn across(place: f64) -> String {
    shown(LEFT + place * (WIDTH - LEFT - RIGHT))
}

fn down(place: f64) -> String {
    shown(TOP + (1.0 - place) * (HEIGHT - TOP - BOTTOM))
}

fn shown(units: f64) -> String {
    format!("{units:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64) -> Point {
        Point { x, y: Some(y) }
    }

    fn drawn(points: Vec<Point>) -> String {
        let line = Line { name: "a<b".to_owned(), series: 0, stroke: Stroke::Solid, points };
        let chart = Chart {
            title: "Throughput",
            unit: "MB/s",
            x: Axis::seconds(10.0),
            y: Axis::from_zero(100.0, ""),
            lines: vec![line],
            note: "",
        };
        let mut markup = Markup::default();
        chart.draw(&mut markup);
        markup.finish()
    }

    #[test]
    fn a_line_goes_through_its_points_and_stops_at_gaps() {
        let gap = Point { x: 5.0, y: None };
        let text = drawn(vec![
            point(0.0, 0.0),
            point(2.0, 50.0),
            gap,
            point(7.5, 100.0),
            point(10.0, 200.0),
        ]);
        let path = "M62.0 244.0L167.6 128.0M458.0 12.0L590.0 12.0";
        assert!(text.contains(path), "{text}");
        assert!(text.contains("<title>a&lt;b</title>") && !text.contains("circle"), "{text}");
    }

    #[test]
    fn one_point_is_a_dot_and_none_is_told() {
        assert!(drawn(vec![point(5.0, 50.0)]).contains("<circle class=\"dot s0\" cx=\"326.0\""));
        for points in [vec![], vec![Point { x: 1.0, y: None }]] {
            let text = drawn(points);
            assert!(
                text.contains("nothing was measured") && !text.contains("class=\"line"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_run_is_thinned_without_losing_its_worst_second() {
        let mut points: Vec<Point> =
            (0..600_000).map(|second| point(f64::from(second), 1.0)).collect();
        points[123_456].y = Some(900.0);
        points[7].y = None;
        let thinned = Thin::Largest.apply(&points);
        assert!(thinned.len() <= POINTS_MAX);
        assert_eq!(thinned.iter().filter(|point| point.y == Some(900.0)).count(), 1);
        let means = Thin::Mean.apply(&points);
        assert!(means.iter().all(|point| point.y.is_some_and(|y| (1.0..2.0).contains(&y))));
        let few = [point(1.0, 2.0), Point { x: 2.0, y: None }];
        assert_eq!(Thin::Mean.apply(&few), few);
    }
}
