//! Draws the charts: throughput and response times over time, and a histogram of response times.

use dyno_report::format::percent;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;
use ratatui::widgets::canvas::{self, Canvas};

use super::numbers::{finite, positive, rate, rate_label, time_label, whole_number};
use super::scale::{ROUND_S, Scale, nice_step, time_ticks};
use super::{BOLD, FAINT, View, row};
use crate::live::model::{Bins, LiveModel, LivePoint, larger};

/// Columns left of a chart, for its axis with labels.
const GUTTER: u16 = 10;

/// Columns right of a chart, for the names of its lines.
const MARGIN: u16 = 4;

/// Maximum length of a plan that the time axis shows completely, seconds. For a longer plan the
/// axis grows in steps, so that the chart is not nearly empty for minutes.
const MAX_FULL_PLAN_S: f64 = 120.0;

const NOTHING_YET: &str = "   no responses yet";

/// Symbols that fill a cell from below, in eighths.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The percentiles in the chart of response times, from the top line down.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

impl View<'_> {
    /// Draws throughput over time.
    pub(super) fn rate(&mut self, area: Rect) {
        let offered = positive(self.model.offered_rps);
        let mut notes: Vec<_> = offered
            .iter()
            .map(|rps| Span::raw(format!("   ╌ {} offered", rate(Some(*rps)))))
            .collect();
        if self.model.points.iter().any(|p| p.failed > 0) {
            notes.push(Span::styled("   × failures", self.palette.attention));
        }
        self.title(area, ("Throughput", "  requests/s"), notes);
        let cells = plot(area, 1);
        let columns = columns(self.model, self.span_s(), cells.width);
        let height = f64::from(cells.height);
        let highest = columns.iter().filter_map(Column::rps).chain(offered).fold(1.0, f64::max);
        // At most one label per three rows.
        let step = nice_step(highest / (height / 3.0).floor().max(1.0));
        let top = (highest / step).ceil() * step;
        let ticks = (0..=(top / step).round() as u16).map(|i| f64::from(i) * step);
        let ticks: Vec<_> =
            ticks.map(|v| (((1.0 - v / top) * height).round() as u16, rate_label(v))).collect();
        self.axes(cells, &ticks, &[]);
        for (i, column) in columns.iter().enumerate() {
            let style = if column.warmup { self.palette.warmup } else { self.palette.rate };
            self.bar(cells, i as u16, column.rps().unwrap_or(0.0) / top, style);
        }
        if let Some(offered) = offered {
            // The line replaces the cells of bars that it crosses.
            let line = "╌".repeat(usize::from(cells.width));
            let y = (((1.0 - offered / top) * height) as u16).min(cells.height - 1);
            self.text(row(cells, y), &line, BOLD.fg(Color::Reset));
        }
        self.time_axis_marks(cells, &columns);
    }

    /// Marks the warm-up and failures on the time axis.
    fn time_axis_marks(&mut self, cells: Rect, columns: &[Column]) {
        let warmup_width = columns.iter().rposition(|c| c.warmup).map_or(0, |i| i as u16 + 1);
        let axis = row(cells, cells.height);
        let name = " warm-up ";
        if warmup_width > name.len() as u16 {
            let x = axis.x + (warmup_width - name.len() as u16) / 2;
            self.text(Rect { x, width: warmup_width, ..axis }, name, FAINT);
        }
        for (i, _) in columns.iter().enumerate().filter(|(_, c)| c.failed) {
            let x = axis.x + i as u16;
            self.text(Rect { x, width: 1, ..axis }, "×", self.palette.attention);
        }
    }

    /// Draws percentiles of the response time over time.
    pub(super) fn times(&mut self, area: Rect) {
        let cells = plot(area, 2);
        let time_ticks = time_ticks(self.span_s(), cells.width);
        let columns = columns(self.model, self.span_s(), cells.width);
        let scale = Scale::from_values(columns.iter().flat_map(|column| column.times).flatten());
        let note = if scale.is_some() { "" } else { NOTHING_YET };
        self.title(
            area,
            ("Response time", "  per interval, log scale"),
            vec![Span::styled(note, FAINT)],
        );
        let Some(scale) = scale else { return self.axes(cells, &[], &time_ticks) };
        let ticks = scale.ticks(cells.height, 2).into_iter();
        let ticks: Vec<_> =
            ticks.map(|(cell, us)| (cells.height - 1 - cell, time_label(us))).collect();
        self.axes(cells, &ticks, &time_ticks);
        self.lines(cells, &scale, &columns);
        self.arrows(cells, &scale, &columns);
        self.line_names(cells, &scale, &columns);
    }

    /// Draws step-shaped lines in Braille dots, two by four per cell.
    fn lines(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        let colours = self.palette.times;
        let (right, top) =
            (f64::from(cells.width) * 2.0 - 1.0, f64::from(cells.height) * 4.0 - 1.0);
        let paint = |context: &mut canvas::Context<'_>| {
            for (i, color) in colours.into_iter().enumerate() {
                let mut previous = None;
                for (cell, column) in columns.iter().enumerate() {
                    let x1 = cell as f64 * 2.0;
                    let y = column.times[i].map(|us| scale.share(us) * top);
                    let rise =
                        previous.zip(y).map(|(y1, y2)| canvas::Line { x1, y1, x2: x1, y2, color });
                    let step = y.map(|y| canvas::Line { x1, y1: y, x2: x1 + 1.0, y2: y, color });
                    rise.iter().chain(&step).for_each(|line| context.draw(line));
                    previous = y;
                }
            }
        };
        let canvas =
            Canvas::default().marker(Marker::Braille).x_bounds([0.0, right]).y_bounds([0.0, top]);
        canvas.paint(paint).render(cells, self.buffer);
    }

    /// Draws arrows where p99 lies among requests without a correct response. There the line shows
    /// the longest known wait of these requests, and the true p99 is above the line.
    fn arrows(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        for (i, column) in columns.iter().enumerate().filter(|(_, c)| c.p99_is_lower_bound) {
            let [Some(p99_us), ..] = column.times else { continue };
            let down = ((1.0 - scale.share(p99_us)) * f64::from(cells.height)) as u16;
            let area =
                Rect { x: cells.x + i as u16, width: 1, ..row(cells, down.min(cells.height - 1)) };
            self.text(area, "↑", self.palette.attention);
        }
    }

    /// Writes the name of each line, right of its end. A name moves up if the names below would not
    /// fit, and down if the name above is in its row.
    fn line_names(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        let Some(end) = columns.iter().rposition(|column| column.seconds > 0.0) else { return };
        let mut first_free_row = 0;
        for (i, name) in PERCENTILES.into_iter().enumerate() {
            let Some(us) = columns[end].times[i] else { continue };
            let down = ((1.0 - scale.share(us)) * f64::from(cells.height)) as u16;
            let names_from_here = 3 - i as u16;
            let y = down.min(cells.height.saturating_sub(names_from_here)).max(first_free_row);
            first_free_row = y + 1;
            let area = Rect { x: cells.x + end as u16 + 2, width: MARGIN - 1, ..row(cells, y) };
            self.text(area, name, Style::new().fg(self.palette.times[i]));
        }
    }

    /// Draws the histogram of response times in the measured window.
    pub(super) fn histogram(&mut self, area: Rect) {
        let total = self.model.histogram.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        // The row above is reserved for the names of the marks.
        let cells = plot(Rect { y: area.y + 1, height: area.height - 1, ..area }, 2);
        let bins = Bins::from_histogram(&self.model.histogram, usize::from(cells.width));
        let note = if bins.is_some() {
            format!("   {} responses", whole_number(total))
        } else {
            NOTHING_YET.into()
        };
        self.title(area, ("Response times", "  measured so far"), vec![Span::styled(note, FAINT)]);
        let Some(bins) = bins else { return self.axes(cells, &[], &[]) };
        let max = bins.counts.iter().copied().max().unwrap_or(1).max(1);
        let scale = Scale { low: bins.low_ns / 1e3, high: bins.high_ns / 1e3 };
        let ticks = scale.ticks(cells.width, 7);
        let ticks: Vec<_> = ticks.into_iter().map(|(cell, us)| (cell, time_label(us))).collect();
        let share = percent(max as f64 / total.max(1) as f64);
        self.axes(cells, &[(0, share), (cells.height, "0".into())], &ticks);
        for (i, n) in bins.counts.iter().enumerate() {
            self.bar(cells, i as u16, *n as f64 / max as f64, self.palette.rate);
        }
        self.markers(cells, &bins);
    }

    /// Marks p50 and p99 above the histogram. The name of p50 is left of its mark and the name of
    /// p99 right of it, so that they never collide. Gutter and margin have room for a name at
    /// either end.
    fn markers(&mut self, cells: Rect, bins: &Bins) {
        let [p99, _, p50] = self.palette.times;
        for (share, text, left, colour) in [(0.99, "▾ p99", 0, p99), (0.5, "p50 ▾", 4, p50)] {
            if let Some(us) = self.model.response_us(share) {
                let x = cells.x + bins.bin(us * 1e3) as u16 - left;
                let area = Rect { x, y: cells.y - 1, width: MARGIN + 1, height: 1 };
                self.text(area, text, Style::new().fg(colour));
            }
        }
    }

    /// Length of the time axis, seconds.
    fn span_s(&self) -> f64 {
        let elapsed = self.model.points.last().and_then(|p| finite(p.end_s)).unwrap_or(0.0);
        let planned = self.planned_s().unwrap_or(f64::INFINITY);
        if planned <= MAX_FULL_PLAN_S {
            return planned.max(elapsed);
        }
        let length = ROUND_S.into_iter().find(|s| *s >= elapsed.max(10.0)).unwrap_or(elapsed);
        length.min(planned).max(elapsed)
    }

    /// Writes the name of a panel, its description, and as many notes as fit.
    fn title(
        &mut self,
        area: Rect,
        (name, description): (&'static str, &'static str),
        notes: Vec<Span<'_>>,
    ) {
        let mut line = Line::from(vec![Span::styled(name, BOLD), Span::styled(description, FAINT)]);
        for span in notes {
            if line.width() + span.width() <= usize::from(area.width) {
                line.push_span(span);
            }
        }
        line.render(row(area, 0), self.buffer);
    }

    /// Draws the two axes with their labels. Positions of rows and columns begin at the upper left
    /// of the plot.
    fn axes(&mut self, cells: Rect, rows: &[(u16, String)], columns: &[(u16, String)]) {
        let left = Rect { x: cells.x - 1, width: 1, ..cells };
        for y in 0..cells.height {
            self.text(row(left, y), "│", FAINT);
        }
        let line = "─".repeat(usize::from(cells.width));
        let axis = row(cells, cells.height);
        self.text(
            Rect { x: cells.x - 1, width: axis.width + 1, ..axis },
            &format!("└{line}"),
            FAINT,
        );
        for (y, label) in rows {
            let area =
                Rect { x: cells.x + 1 - GUTTER, y: cells.y + y, width: GUTTER - 1, height: 1 };
            let mark = if *y < cells.height { "┤" } else { "└" };
            let text = format!("{label:>width$} {mark}", width = usize::from(GUTTER) - 3);
            self.text(area, &text, FAINT);
        }
        for (x, label) in columns {
            self.text(Rect { x: cells.x + x, width: 1, ..axis }, "┬", FAINT);
            let width = label.chars().count() as u16;
            let x = (cells.x + x).saturating_sub(width / 2);
            self.text(Rect { x, width, ..row(cells, cells.height + 1) }, label, FAINT);
        }
    }

    /// Draws a bar in one column of a plot, with `share` (0 to 1) of its height. Any share above 0
    /// is visible.
    fn bar(&mut self, cells: Rect, column: u16, share: f64, style: Style) {
        let eighths = (share * f64::from(cells.height) * 8.0).round() as u16;
        let mut left = if share > 0.0 { eighths.max(1) } else { 0 };
        for y in (0..cells.height).rev() {
            let symbol = EIGHTHS[usize::from(left.min(8))];
            self.text(Rect { x: cells.x + column, width: 1, ..row(cells, y) }, symbol, style);
            left = left.saturating_sub(8);
        }
    }
}

/// The time span of one column of a chart.
#[derive(Clone, Copy, Default)]
struct Column {
    seconds: f64,
    responses: f64,
    warmup: bool,
    failed: bool,
    /// The largest value of each of [`PERCENTILES`], in microseconds.
    times: [Option<f64>; 3],
    /// Whether p99 is only a lower bound.
    p99_is_lower_bound: bool,
}

impl Column {
    fn rps(&self) -> Option<f64> {
        positive(Some(self.responses / self.seconds))
    }
}

/// Distributes points over `width` columns of equal time, weighted by their lengths.
fn columns(model: &LiveModel, span_s: f64, width: u16) -> Vec<Column> {
    // A point that ends at the edge of a column must not reach the next column by rounding.
    const ROUNDING: f64 = 1e-6;
    let mut columns = vec![Column::default(); usize::from(width)];
    let columns_per_s = f64::from(width) / span_s;
    for (start, point) in model.spans() {
        let (from, to) = (start * columns_per_s, point.end_s * columns_per_s);
        // The columns that the point covers, at least in part.
        for (i, column) in
            columns.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize)
        {
            let overlap = to.min(i as f64 + 1.0) - from.max(i as f64);
            if overlap < ROUNDING {
                continue;
            }
            let overlap_s = overlap / columns_per_s;
            column.seconds += overlap_s;
            column.responses += overlap_s * point.rps;
            column.warmup = point.warmup;
            column.failed |= point.failed > 0;
            let [_p50, _p90, is_p99_lower_bound, _max] = point.are_lower_bounds;
            column.p99_is_lower_bound |= is_p99_lower_bound;
            for (time, us) in column.times.iter_mut().zip(percentiles(point)) {
                *time = larger(*time, us);
            }
        }
    }
    columns
}

fn percentiles(point: &LivePoint) -> [Option<f64>; 3] {
    [point.p99_us, point.p90_us, point.p50_us].map(positive)
}

/// Returns the plot area of a panel: below the title, between gutter and margin, above `below` rows
/// for the axis.
fn plot(area: Rect, below: u16) -> Rect {
    Rect {
        x: area.x + GUTTER,
        y: area.y + 1,
        width: area.width.saturating_sub(GUTTER + MARGIN),
        height: area.height.saturating_sub(1 + below),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::point;
    use super::*;

    #[test]
    fn columns_weight_points_by_time() {
        let points =
            vec![LivePoint { rps: 100.0, ..point(1) }, LivePoint { rps: 40.0, ..point(3) }];
        let columns = columns(&LiveModel { points, ..LiveModel::default() }, 4.0, 2);
        assert_eq!(columns.iter().map(Column::rps).collect::<Vec<_>>(), [Some(70.0), Some(40.0)]);
    }
}
