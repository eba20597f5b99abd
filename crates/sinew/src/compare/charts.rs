//! Charts as inline SVG: text in the page's own colour, so that they read in light and dark, and no scripts.

use std::fmt::Write;

/// The drawing's size in its own units; the page scales it to the column. Small enough that text stays readable on a
/// phone.
const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// Colours by position in the table: told apart by colour-blind eyes in the order given (after Okabe and Ito, "Color
/// universal design", 2008), then again in a darker tone.
const SERIES: [&str; 14] = [
    "#8a8f98", "#e69f00", "#56b4e9", "#009e73", "#d55e00", "#cc79a7", "#0072b2", "#b8a500", "#a6611a", "#2f8f8f",
    "#7a5195", "#c0392b", "#4d7c0f", "#1f4e8c",
];

/// The colour of the method at `index` in the table.
pub fn series_colour(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}

/// An axis: what it says, whether it is logarithmic, and its range.
pub struct Axis<'a> {
    /// The words beside it.
    pub label: &'a str,
    /// Logarithmic (positive values only).
    pub log: bool,
    /// From the least to the largest value shown.
    pub range: (f64, f64),
}

impl Axis<'_> {
    /// An axis from zero, or over the decades, that holds `values`.
    pub fn over<'a>(label: &'a str, log: bool, values: impl Iterator<Item = f64>) -> Axis<'a> {
        let start = (f64::INFINITY, f64::NEG_INFINITY);
        let finite = values.filter(|v| v.is_finite() && (!log || *v > 0.0));
        let (low, high) = finite.fold(start, |(low, high), v| (low.min(v), high.max(v)));
        if low > high {
            return Axis { label, log, range: (1.0, 10.0) };
        }
        let range = if log { (low / 1.6, high * 2.2) } else { (0.0_f64.min(low), 1.08 * high.max(1e-12)) };
        Axis { label, log, range }
    }

    /// 0 to 1 along the axis.
    fn place(&self, value: f64) -> f64 {
        let (low, high) = self.range;
        let place = if self.log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) };
        if place.is_finite() { place.clamp(-0.05, 1.05) } else { 0.0 }
    }

    /// Round values to mark.
    fn ticks(&self) -> Vec<f64> {
        let (low, high) = self.range;
        if self.log {
            let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
            let within = |v: &f64| *v >= low && *v <= high;
            let whole: Vec<f64> = decades.clone().map(|d| 10_f64.powi(d)).filter(within).collect();
            if whole.len() >= 3 {
                return whole;
            }
            return decades.flat_map(|d| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(d))).filter(within).collect();
        }
        let rough = (high - low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough).unwrap_or(rough);
        let first = (low / step).ceil() as i64;
        (first..).map(|k| k as f64 * step).take_while(|v| *v <= high * 1.000_001).take(20).collect()
    }
}

/// A number for an axis or a table: three digits, thousands as k and M, tiny ones as powers.
pub fn short(value: f64) -> String {
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.0e}");
    }
    let (scaled, unit) = match value.abs() {
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let mut text = format!("{scaled:.digits$}");
    if text.contains('.') {
        text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
    }
    text + unit
}

/// A named line or set of points.
pub struct Series<'a> {
    /// Its name in the tooltip.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// (x, y) in order.
    pub points: Vec<(f64, f64)>,
    /// Thicker than the others.
    pub strong: bool,
}

/// A chart under construction.
struct Chart<'a> {
    svg: String,
    x: &'a Axis<'a>,
    y: &'a Axis<'a>,
}

impl<'a> Chart<'a> {
    fn new(title: &str, x: &'a Axis<'a>, y: &'a Axis<'a>) -> Self {
        let svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\"><g class=\"axes\">",
            escape(title)
        );
        let mut chart = Self { svg, x, y };
        chart.axes();
        chart
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = LEFT + (WIDTH - LEFT - RIGHT) * self.x.place(x);
        (across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * self.y.place(y))
    }

    fn axes(&mut self) {
        for value in self.y.ticks() {
            let (_, y) = self.at(self.x.range.0, value);
            let _ = write!(
                self.svg,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 5.0,
                y + 4.0,
                short(value)
            );
        }
        for value in self.x.ticks() {
            let (x, _) = self.at(value, self.y.range.0);
            let _ = write!(
                self.svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM,
                HEIGHT - BOTTOM + 15.0,
                short(value)
            );
        }
        let _ = write!(
            self.svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text></g>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(self.x.label),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(self.y.label)
        );
    }

    fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64, extra: &str, title: &str) {
        let path: Vec<String> = points
            .iter()
            .map(|&(x, y)| {
                let (x, y) = self.at(x, y);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = write!(
            self.svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" {extra}><title>{}</title></polyline>",
            path.join(" "),
            escape(title)
        );
    }

    fn finish(mut self) -> String {
        self.svg.push_str("</svg>");
        self.svg
    }
}

/// Points with names, and a stepped line through the frontier.
pub fn scatter(title: &str, x: &Axis, y: &Axis, series: &[Series], frontier: &[(f64, f64)]) -> String {
    let mut chart = Chart::new(title, x, y);
    let mut steps = Vec::new();
    for (k, &(px, py)) in frontier.iter().enumerate() {
        if let Some(&(_, before)) = k.checked_sub(1).and_then(|k| frontier.get(k)) {
            steps.push((px, before));
        }
        steps.push((px, py));
    }
    if let Some(&(_, last)) = frontier.last() {
        steps.push((x.range.1, last));
    }
    chart.line(
        &steps,
        "currentColor",
        1.2,
        "stroke-dasharray=\"5 4\" opacity=\"0.6\"",
        "the frontier: none is better at less cost",
    );
    let points: Vec<(f64, f64)> =
        series.iter().flat_map(|s| s.points.iter().map(|&(px, py)| chart.at(px, py))).collect();
    let mut labels: Vec<Rectangle> = Vec::new();
    for series in series {
        for &(px, py) in &series.points {
            let (cx, cy) = chart.at(px, py);
            let label = free_label((cx, cy), series.name, &points, &labels);
            let (middle_x, middle_y) = ((label.left + label.right) / 2.0, (label.top + label.bottom) / 2.0);
            let _ = write!(
                chart.svg,
                "<circle cx=\"{cx:.1}\" cy=\"{cy:.1}\" r=\"4.5\" fill=\"{}\"><title>{}: {} {}, {} {}</title></circle>",
                series.colour,
                escape(series.name),
                short(px),
                escape(x.label),
                short(py),
                escape(y.label),
            );
            // A label that had to go elsewhere is tied to its point.
            let (tie_x, tie_y) = (cx.clamp(label.left, label.right), cy.clamp(label.top, label.bottom));
            if (tie_x - cx).hypot(tie_y - cy) > 9.0 {
                let _ = write!(
                    chart.svg,
                    "<line x1=\"{cx:.1}\" y1=\"{cy:.1}\" x2=\"{tie_x:.1}\" y2=\"{tie_y:.1}\" stroke=\"{}\" stroke-width=\"0.8\"/>",
                    series.colour
                );
            }
            let _ = write!(
                chart.svg,
                "<text x=\"{middle_x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                middle_y + 3.5,
                escape(series.name)
            );
            labels.push(label);
        }
    }
    chart.finish()
}

/// A place on the chart, in its units.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Rectangle {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
}

impl Rectangle {
    fn overlaps(&self, other: &Self) -> bool {
        self.left < other.right && other.left < self.right && self.top < other.bottom && other.top < self.bottom
    }

    /// The square of a point's mark.
    fn mark((x, y): (f64, f64)) -> Self {
        Self { left: x - 5.0, right: x + 5.0, top: y - 5.0, bottom: y + 5.0 }
    }
}

/// Where a point's label goes: right, left, above, below or askew of it, as near as is free of other labels and of all
/// points; to the right if nothing is.
fn free_label(point: (f64, f64), name: &str, points: &[(f64, f64)], labels: &[Rectangle]) -> Rectangle {
    // Of the font at its size: about 6 a letter, 11 high.
    let (half_width, half_height) = (3.1 * name.chars().count() as f64 + 1.5, 5.5);
    let at = |(dx, dy): (f64, f64), gap: f64| {
        let x = point.0 + dx * (half_width + gap);
        let y = point.1 + dy * (half_height + gap);
        Rectangle { left: x - half_width, right: x + half_width, top: y - half_height, bottom: y + half_height }
    };
    const SIDES: [(f64, f64); 8] =
        [(1.0, -0.3), (1.0, -1.0), (-1.0, -0.3), (0.0, -1.0), (0.0, 1.0), (1.0, 1.0), (-1.0, -1.0), (-1.0, 1.0)];
    let inside = |r: &Rectangle| r.left > LEFT && r.right < WIDTH - 2.0 && r.top > 2.0 && r.bottom < HEIGHT - BOTTOM;
    let free = |r: &Rectangle| {
        inside(r) && !labels.iter().any(|l| l.overlaps(r)) && !points.iter().any(|&p| Rectangle::mark(p).overlaps(r))
    };
    let tries = [6.0, 14.0, 24.0, 36.0].into_iter().flat_map(|gap| SIDES.map(|side| at(side, gap)));
    tries.into_iter().find(free).unwrap_or_else(|| at(SIDES[0], 6.0))
}

/// Lines over a common axis.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let mut chart = Chart::new(title, x, y);
    for strong in [false, true] {
        for series in series.iter().filter(|s| s.strong == strong) {
            let (width, extra) = if strong { (2.4, "") } else { (1.2, "opacity=\"0.75\"") };
            chart.line(&series.points, series.colour, width, extra, series.name);
        }
    }
    chart.finish()
}

/// A method's bar: its error on training poses and on unseen ones, and the spread of the latter over the vertices.
pub struct Bar<'a> {
    /// The method's name.
    pub name: &'a str,
    /// Its colour.
    pub colour: &'a str,
    /// Error on the training poses.
    pub train: f64,
    /// Error on unseen poses.
    pub test: f64,
    /// Standard deviation over the vertices.
    pub spread: f64,
}

/// Horizontal bars with error bars and a mark for the training error.
pub fn bars(title: &str, unit: &str, bars: &[Bar]) -> String {
    let row = 22.0;
    let name_width = 8.0 + 6.2 * bars.iter().map(|b| b.name.chars().count()).max().unwrap_or(0) as f64;
    let height = row * bars.len() as f64 + 34.0;
    let end = bars.iter().flat_map(|b| [b.test + b.spread, b.train]).filter(|v| v.is_finite()).fold(1.0, f64::max);
    let axis = Axis { label: unit, log: false, range: (0.0, 1.04 * end) };
    let place = |v: f64| name_width + (WIDTH - name_width - RIGHT) * axis.place(v);
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\"><g class=\"axes\">",
        escape(title)
    );
    for value in axis.ticks() {
        let x = place(value);
        let _ = write!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"2\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            height - 30.0,
            height - 17.0,
            short(value)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
        (name_width + WIDTH) / 2.0,
        height - 3.0,
        escape(unit)
    );
    for (k, bar) in bars.iter().enumerate() {
        let y = row * k as f64 + 4.0;
        let (zero, end, low, high, train) = (
            place(0.0),
            place(bar.test),
            place((bar.test - bar.spread).max(0.0)),
            place(bar.test + bar.spread),
            place(bar.train),
        );
        let middle = y + 7.0;
        let _ = write!(
            svg,
            "<g><title>{name}: {test:.1} on unseen poses, {train_value:.1} on training poses, spread {spread:.1}</title>\
             <text x=\"{text_x:.1}\" y=\"{text_y:.1}\" text-anchor=\"end\">{name}</text>\
             <rect x=\"{zero:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"14\" fill=\"{colour}\"/>\
             <path d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {up:.1}v6M{high:.1} {up:.1}v6\" stroke=\"currentColor\" fill=\"none\"/>\
             <path d=\"M{train:.1} {y:.1}v14\" stroke=\"currentColor\" stroke-width=\"2\" stroke-dasharray=\"2 2\"/></g>",
            name = escape(bar.name),
            test = bar.test,
            train_value = bar.train,
            spread = bar.spread,
            text_x = name_width - 5.0,
            text_y = y + 11.0,
            width = (end - zero).max(0.5),
            colour = bar.colour,
            up = middle - 3.0,
        );
    }
    svg.push_str("</svg>");
    svg
}

/// A small histogram (bars of `step`) with another drawn over it as a line; counts on a logarithmic scale.
pub fn histogram(title: &str, counts: &[u64], over: Option<&[u64]>, step: f64, colour: &str, unit: &str) -> String {
    let (width, height, left, bottom, top) = (230.0, 130.0, 8.0, 28.0, 16.0);
    let shown = counts.len().max(1);
    let most = counts.iter().chain(over.unwrap_or(&[])).copied().max().unwrap_or(1).max(1) as f64;
    let x = |k: usize| left + (width - left - 6.0) * k as f64 / shown as f64;
    let y = |n: u64| {
        let share = if n == 0 { 0.0 } else { (n as f64 + 1.0).ln() / (most + 1.0).ln() };
        height - bottom - (height - bottom - top) * share
    };
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    let _ = write!(svg, "<text x=\"{left}\" y=\"11\">{}</text>", escape(title));
    for (k, &n) in counts.iter().take(shown).enumerate().filter(|&(_, &n)| n > 0) {
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            x(k),
            y(n),
            x(1) - x(0),
            height - bottom - y(n)
        );
    }
    if let Some(over) = over {
        let mut path = String::new();
        for (k, &n) in over.iter().take(shown).enumerate() {
            let _ = write!(path, "{}{:.1} {:.1}H{:.1}", if k == 0 { "M" } else { "L" }, x(k), y(n), x(k + 1));
        }
        let _ = write!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"currentColor\" opacity=\"0.8\"/>");
    }
    let end = shown as f64 * step;
    let _ = write!(
        svg,
        "<g class=\"axes\"><line x1=\"{left}\" x2=\"{:.1}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>\
         <text x=\"{left}\" y=\"{label:.1}\">0</text><text x=\"{:.1}\" y=\"{label:.1}\" text-anchor=\"end\">{} {}</text></g></svg>",
        width - 6.0,
        width - 6.0,
        short(end),
        escape(unit),
        base = height - bottom,
        label = height - bottom + 14.0,
    );
    svg
}

/// A table of values as shaded squares: `values` row by row, darker is larger.
pub fn surface(title: &str, x: (&str, &[f64]), y: (&str, &[f64]), values: &[f64]) -> String {
    let (cell_w, cell_h, left, bottom) = (52.0, 24.0, 62.0, 38.0);
    let (columns, rows) = (x.1.len(), y.1.len());
    let (width, height) = (left + cell_w * columns as f64 + 6.0, 6.0 + cell_h * rows as f64 + bottom);
    let finite = || values.iter().copied().filter(|v| v.is_finite() && *v > 0.0);
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(0.0, f64::max));
    let mut svg = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    for row in 0..rows {
        let top = 6.0 + cell_h * row as f64;
        let _ = write!(
            svg,
            "<g class=\"axes\"><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text></g>",
            left - 5.0,
            top + 16.0,
            short(y.1[row])
        );
        for column in 0..columns {
            let value = values[row * columns + column];
            let level = ((value / low).ln() / (high / low).ln().max(1e-9)).clamp(0.0, 1.0);
            let colour = sinew_draw::error_colour(0.9 * level).map(|c| (255.0 * c).round() as u8);
            let ink = if level > 0.5 { "#fff" } else { "#111" };
            let cell_left = left + cell_w * column as f64;
            let _ = write!(
                svg,
                "<rect x=\"{cell_left:.1}\" y=\"{top:.1}\" width=\"{cell_w}\" height=\"{cell_h}\" fill=\"rgb({},{},{})\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" style=\"fill:{ink}\">{}</text>",
                colour[0],
                colour[1],
                colour[2],
                cell_left + cell_w / 2.0,
                top + 16.0,
                if value.is_finite() { short(value) } else { "–".into() }
            );
        }
    }
    svg.push_str("<g class=\"axes\">");
    for (column, value) in x.1.iter().enumerate() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            left + cell_w * (column as f64 + 0.5),
            height - bottom + 14.0,
            short(*value)
        );
    }
    let _ = write!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text><text transform=\"translate(11 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text></g></svg>",
        left + cell_w * columns as f64 / 2.0,
        height - 6.0,
        escape(x.0),
        6.0 + cell_h * rows as f64 / 2.0,
        escape(y.0)
    );
    svg
}

/// Text for HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (1e-6, "1e-6"),
            (0.05, "0.05"),
            (1.0, "1"),
            (12.34, "12.3"),
            (5234.0, "5234"),
            (29_380.0, "29.4k"),
            (3.35e6, "3.35M"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn ticks_are_round_and_within() {
        let axis = Axis { label: "", log: false, range: (0.0, 93.0) };
        assert_eq!(axis.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0]);
        let log = Axis { label: "", log: true, range: (8.0, 30_000.0) };
        assert_eq!(log.ticks(), [10.0, 100.0, 1000.0, 10_000.0]);
    }

    #[test]
    fn nothing_to_show_is_no_trouble() {
        let axis = Axis::over("x", true, std::iter::empty());
        assert!(scatter("t", &axis, &axis, &[], &[]).ends_with("</svg>"));
        assert!(histogram("t", &[], None, 0.1, "#000", "%").ends_with("</svg>"));
        assert!(bars("t", "%", &[]).ends_with("</svg>"));
    }
}
