//! Draws a [`Model`]. Pure: the same model on the same area is the same screen.

use std::time::Duration;

use dyno_analysis::verdict::GENERATOR_BUSY;
use dyno_report::format::{count, micros, number, or_dash, percent};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;
use ratatui::widgets::canvas::{self, Canvas};

use super::model::{Bins, Model, Phase, Point, Wait, larger, widened};
use crate::clock::clock;

/// Columns and rows below which there is one line instead of panels.
const LEAST: (u16, u16) = (80, 24);

/// Rows of the body from which there is room for gaps, and rows that a histogram needs.
const ROOMY: u16 = 24;
const HISTOGRAM_ROWS: u16 = 9;

/// Columns left of a chart for the labels of its axis and the axis, and right of it for what is told at its end.
const GUTTER: u16 = 10;
const MARGIN: u16 = 4;

/// Widths of the columns of the table of numbers, after that of the names.
const TABLE: [usize; 6] = [11, 19, 9, 9, 9, 10];

/// The least ratio between the ends of the axis of response times, so that noise does not fill it.
const LEAST_RATIO: f64 = 4.0;

/// A plan up to this long has its whole length as the time axis. The axis of a longer one grows in steps: a chart that is
/// nearly empty for minutes shows nothing.
const SHOWN_WHOLE_S: f64 = 120.0;

/// Round times in seconds, between ticks and for the length of an axis.
const ROUND_S: [f64; 20] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0, 7200.0,
    14_400.0, 28_800.0, 86_400.0, 604_800.0,
];

const NOTHING_YET: &str = "   no answers yet";

/// Bars that fill a cell from below, by eighths.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The colours of Okabe and Ito as near as the 256 of a terminal come, so that the colour-blind tell them apart. None
/// is the only bearer of a fact: lines are named at their ends, warnings have a mark.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    rate: Style,
    warmup: Style,
    attention: Style,
    /// Of [`PERCENTILES`].
    times: [Color; 3],
}

impl Palette {
    pub const COLOUR: Palette = Palette {
        rate: Style::new().fg(Color::Indexed(74)),
        warmup: Style::new().fg(Color::Indexed(245)),
        attention: BOLD.fg(Color::Indexed(202)),
        times: [Color::Indexed(175), Color::Indexed(214), Color::Indexed(36)],
    };

    /// For `NO_COLOR`: bold and dim remain.
    pub const PLAIN: Palette =
        Palette { rate: Style::new(), warmup: FAINT, attention: BOLD, times: [Color::Reset; 3] };
}

/// From the top down, as their lines lie.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

fn percentiles(point: &Point) -> [Option<f64>; 3] {
    [point.p99_us, point.p90_us, point.p50_us].map(positive)
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, model: &Model, palette: &Palette) {
    let area = frame.area();
    let mut view = View { buffer: frame.buffer_mut(), model, palette };
    if area.width < LEAST.0 || area.height < LEAST.1 {
        view.summary(area);
    } else {
        view.screen(area.inner(Margin::new(1, 0)));
    }
}

struct View<'a> {
    buffer: &'a mut Buffer,
    model: &'a Model,
    palette: &'a Palette,
}

impl View<'_> {
    fn screen(&mut self, area: Rect) {
        let head = if self.title_width() <= area.width { 1 } else { 2 };
        let gap = u16::from(area.height >= LEAST.1 + 10);
        let rows =
            [Length(head), Length(1), Length(1), Length(3), Length(1), Fill(1), Length(gap), Length(1)];
        let [head, progress, _, table, _, body, _, footer] = Layout::vertical(rows).areas(area);
        self.head(head);
        self.progress(progress);
        self.table(table);
        self.body(body);
        Line::styled("q ends early and still reports", FAINT).render(footer, self.buffer);
    }

    fn body(&mut self, area: Rect) {
        let side = (area.width * 36 / 100).clamp(27, 72);
        let gap = u16::from(area.height >= ROOMY);
        let rows = Layout::vertical([Fill(4), Length(gap), Fill(5)]);
        let columns = Layout::horizontal([Fill(1), Length(2), Length(side)]);
        let [charts, _, side] = columns.areas(area);
        let [rate, _, times] = rows.areas(charts);
        self.rate(rate);
        self.times(times);
        if rate.height < HISTOGRAM_ROWS {
            return self.side(side);
        }
        let [histogram, _, side] = rows.areas(side);
        self.histogram(histogram);
        self.side(side);
    }

    /// Where they do not all fit, the generator's lines give way, down to what says that it may be the limit.
    fn side(&mut self, area: Rect) {
        let errors = self.error_lines(area.width);
        let mut generator = self.generator_lines(area);
        generator.truncate(usize::from(area.height).saturating_sub(3 + errors.len().min(3)));
        let mut lines = vec![self.connections_line(), Line::default()];
        lines.extend(generator);
        lines.push(Line::default());
        lines.extend(errors);
        let hidden = lines.len().saturating_sub(usize::from(area.height));
        if hidden > 0 {
            lines.truncate(usize::from(area.height) - 1);
            lines.push(Line::styled(format!("and {} more", hidden + 1), self.palette.attention));
        }
        for (y, line) in lines.iter().enumerate() {
            line.render(row(area, y as u16), self.buffer);
        }
    }

    fn title_width(&self) -> u16 {
        let text = self.model.title.chars().count() + self.model.subtitle.chars().count();
        u16::try_from(text + 14).unwrap_or(u16::MAX)
    }

    fn head(&mut self, area: Rect) {
        let [name, title] =
            [("dyno load  ", FAINT), (&self.model.title, BOLD)].map(|(t, s)| Span::styled(t, s));
        Line::from(vec![name, title]).render(row(area, 0), self.buffer);
        let subtitle = Line::styled(self.model.subtitle.as_str(), FAINT);
        match area.height {
            1 => subtitle.right_aligned().render(area, self.buffer),
            _ => subtitle.render(row(area, 1), self.buffer),
        }
    }

    fn progress(&mut self, area: Rect) {
        let mut spans = vec![Span::styled(format!("{:<11}", self.model.phase.name()), BOLD)];
        if let Some(planned) = self.planned_s() {
            let share = finite(self.model.elapsed_s).unwrap_or(0.0) / planned;
            spans.extend(strip(area.width.saturating_sub(44).min(60), share, self.palette.rate));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::raw(self.time_told()));
        Line::from(spans).render(area, self.buffer);
    }

    fn planned_s(&self) -> Option<f64> {
        finite(self.model.planned_s?).filter(|s| *s > 0.0)
    }

    fn time_told(&self) -> String {
        let elapsed_s = finite(self.model.elapsed_s).unwrap_or(0.0);
        let elapsed = seconds(elapsed_s.floor());
        match (self.model.phase, self.planned_s()) {
            (Phase::Drain, _) => "waiting for the last answers".into(),
            (_, None) => elapsed,
            (_, Some(planned)) => {
                // Rounded up, so that it does not say that nothing is left while something is.
                let left = seconds((planned - elapsed_s).ceil());
                format!("{elapsed} of {}   {left} left", seconds(planned))
            }
        }
    }

    fn table(&mut self, area: Rect) {
        let model = self.model;
        let heads = ["requests/s", "response time p50", "p90", "p99", "max", "failed"].map(String::from);
        let now = model.points.last().map(|p| {
            let times = [p.p50_us, p.p90_us, p.p99_us, p.max_us];
            let [p50, p90, p99, max] = std::array::from_fn(|i| bounded(times[i], p.beyond[i]));
            [rate(Some(p.rps)), p50, p90, p99, max, whole(p.failed)]
        });
        let [p50, p90, p99, max] = [0.5, 0.9, 0.99, 1.0].map(|share| waited(model.response(share)));
        let measuring = matches!(model.phase, Phase::Measured | Phase::Drain);
        let failed = or_dash(measuring.then(|| self.failed()), whole);
        let measured = [rate(model.measured_rps()), p50, p90, p99, max, failed];
        let now = now.unwrap_or_else(|| ["–"; 6].map(String::from));
        let lines = [("", heads, FAINT), ("now", now, Style::new()), ("measured", measured, BOLD)];
        for (y, (name, cells, style)) in lines.into_iter().enumerate() {
            let cells = cells.iter().zip(TABLE).map(|(cell, w)| format!("{cell:>w$}"));
            let text = format!("{name:<9}{}", cells.collect::<String>());
            self.text(row(area, y as u16), &text, style);
        }
    }

    fn failed(&self) -> u64 {
        self.model.outcomes.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    fn rate(&mut self, area: Rect) {
        let offered = positive(self.model.offered_rps);
        let mut more: Vec<_> =
            offered.iter().map(|rps| Span::raw(format!("   ╌ {} offered", rate(Some(*rps))))).collect();
        if self.model.points.iter().any(|p| p.failed > 0) {
            more.push(Span::styled("   × failures", self.palette.attention));
        }
        self.title(area, ("Throughput", "  requests/s"), more);
        let cells = plot(area, 1);
        let columns = columns(self.model, self.span_s(), cells.width);
        let height = f64::from(cells.height);
        let highest = columns.iter().filter_map(Column::rps).chain(offered).fold(1.0, f64::max);
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
            // Over a bar the line is cut out of it.
            let line = "╌".repeat(usize::from(cells.width));
            let y = (((1.0 - offered / top) * height) as u16).min(cells.height - 1);
            self.text(row(cells, y), &line, BOLD.fg(Color::Reset));
        }
        self.below_the_bars(cells, &columns);
    }

    /// On the time axis: where the warm-up was, and where something failed.
    fn below_the_bars(&mut self, cells: Rect, columns: &[Column]) {
        let warmup = columns.iter().rposition(|c| c.warmup).map_or(0, |i| i as u16 + 1);
        let axis = row(cells, cells.height);
        let name = " warm-up ";
        if warmup > name.len() as u16 {
            let x = axis.x + (warmup - name.len() as u16) / 2;
            self.text(Rect { x, width: warmup, ..axis }, name, FAINT);
        }
        for (i, _) in columns.iter().enumerate().filter(|(_, c)| c.failed) {
            let x = axis.x + i as u16;
            self.text(Rect { x, width: 1, ..axis }, "×", self.palette.attention);
        }
    }

    fn times(&mut self, area: Rect) {
        let cells = plot(area, 2);
        let time_ticks = time_ticks(self.span_s(), cells.width);
        let columns = columns(self.model, self.span_s(), cells.width);
        let scale = Scale::of(columns.iter().flat_map(|column| column.times).flatten());
        let more = if scale.is_some() { "" } else { NOTHING_YET };
        self.title(area, ("Response time", "  per interval, log scale"), vec![Span::styled(more, FAINT)]);
        let Some(scale) = scale else { return self.axes(cells, &[], &time_ticks) };
        let ticks = scale.ticks(cells.height, 2).into_iter();
        let ticks: Vec<_> = ticks.map(|(cell, us)| (cells.height - 1 - cell, time_label(us))).collect();
        self.axes(cells, &ticks, &time_ticks);
        self.lines(cells, &scale, &columns);
        self.arrows(cells, &scale, &columns);
        self.line_names(cells, &scale, &columns);
    }

    /// Lines of steps, in the dots of Braille: two by four to a cell.
    fn lines(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        let colours = self.palette.times;
        let (right, top) = (f64::from(cells.width) * 2.0 - 1.0, f64::from(cells.height) * 4.0 - 1.0);
        let paint = |context: &mut canvas::Context<'_>| {
            for (i, color) in colours.into_iter().enumerate() {
                let mut before = None;
                for (x1, column) in columns.iter().enumerate().map(|(i, column)| (i as f64 * 2.0, column)) {
                    let y = column.times[i].map(|us| scale.share(us) * top);
                    let rise = before.zip(y).map(|(y1, y2)| canvas::Line { x1, y1, x2: x1, y2, color });
                    let step = y.map(|y| canvas::Line { x1, y1: y, x2: x1 + 1.0, y2: y, color });
                    rise.iter().chain(&step).for_each(|line| context.draw(line));
                    before = y;
                }
            }
        };
        let canvas = Canvas::default().marker(Marker::Braille).x_bounds([0.0, right]).y_bounds([0.0, top]);
        canvas.paint(paint).render(cells, self.buffer);
    }

    /// Where p99 lies among what was never answered, the line is at the longest wait known, and the truth above it.
    fn arrows(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        for (i, column) in columns.iter().enumerate().filter(|(_, c)| c.beyond) {
            let Some(us) = column.times[0] else { continue };
            let down = ((1.0 - scale.share(us)) * f64::from(cells.height)) as u16;
            let area = Rect { x: cells.x + i as u16, width: 1, ..row(cells, down.min(cells.height - 1)) };
            self.text(area, "↑", self.palette.attention);
        }
    }

    /// Each line's name right of its end: those that would collide move down, or up from the lower end.
    fn line_names(&mut self, cells: Rect, scale: &Scale, columns: &[Column]) {
        let Some(end) = columns.iter().rposition(|column| column.seconds > 0.0) else { return };
        let mut free = 0;
        for (i, name) in PERCENTILES.into_iter().enumerate() {
            let Some(us) = columns[end].times[i] else { continue };
            let down = ((1.0 - scale.share(us)) * f64::from(cells.height)) as u16;
            let y = down.min(cells.height.saturating_sub(3 - i as u16)).max(free);
            free = y + 1;
            let area = Rect { x: cells.x + end as u16 + 2, width: MARGIN - 1, ..row(cells, y) };
            self.text(area, name, Style::new().fg(self.palette.times[i]));
        }
    }

    fn histogram(&mut self, area: Rect) {
        let total = self.model.histogram.iter().fold(0u64, |sum, (_, n)| sum.saturating_add(*n));
        // The row above is for the names of the marks.
        let cells = plot(Rect { y: area.y + 1, height: area.height - 1, ..area }, 2);
        let bins = Bins::of(&self.model.histogram, usize::from(cells.width));
        let more = if bins.is_some() { format!("   {} answers", whole(total)) } else { NOTHING_YET.into() };
        self.title(area, ("Response times", "  measured so far"), vec![Span::styled(more, FAINT)]);
        let Some(bins) = bins else { return self.axes(cells, &[], &[]) };
        let most = bins.counts.iter().copied().max().unwrap_or(1).max(1);
        let scale = Scale { low: bins.low_ns / 1e3, high: bins.high_ns / 1e3 };
        let ticks = scale.ticks(cells.width, 7);
        let ticks: Vec<_> = ticks.into_iter().map(|(cell, us)| (cell, time_label(us))).collect();
        let share = percent(most as f64 / total.max(1) as f64);
        self.axes(cells, &[(0, share), (cells.height, "0".into())], &ticks);
        for (i, n) in bins.counts.iter().enumerate() {
            self.bar(cells, i as u16, *n as f64 / most as f64, self.palette.rate);
        }
        self.markers(cells, &bins);
    }

    /// p50 is named on the left of its mark and p99 on the right, so that they never collide; gutter and margin have
    /// room for a name where its mark is at an end.
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

    fn connections_line(&self) -> Line<'static> {
        let (open, asked) = (self.model.connections_open, self.model.connections_asked);
        let missing = open < asked && matches!(self.model.phase, Phase::Warmup | Phase::Measured);
        let (mark, style) = if missing { (" !", self.palette.attention) } else { ("", Style::new()) };
        let text = format!("{} of {} open{mark}", whole(open), whole(asked));
        Line::from(vec![Span::styled("Connections  ", BOLD), Span::styled(text, style)])
    }

    fn generator_lines(&self, area: Rect) -> Vec<Line<'static>> {
        let mut lines = vec![Line::styled("Generator", BOLD)];
        lines.extend(self.gauges(area.width.min(60), usize::from((area.height / 5).max(2))));
        if self.model.threads.iter().any(|busy| *busy > GENERATOR_BUSY) {
            let threads = format!("  another CPU: --threads {}", self.model.threads.len() + 1);
            let text = ["! It may be the limit: give".to_string(), threads];
            lines.extend(text.map(|text| Line::styled(text, self.palette.attention)));
        }
        let last = self.model.points.last();
        let lags = [
            ("send lag p99", last.and_then(|p| p.send_lag_p99_us)),
            ("loop lag p99", last.and_then(|p| p.loop_lag_p99_us)),
            ("wake lag p99", last.and_then(|p| p.wake_lag_p99_us)),
        ];
        lines.extend(lags.map(|(name, lag)| {
            let lag = Span::raw(format!("{:>8}", time(lag)));
            Line::from(vec![Span::styled(format!("{name:<14}"), FAINT), lag])
        }));
        lines
    }

    /// Of more threads than there are rows, the busiest.
    fn gauges(&self, width: u16, rows: usize) -> Vec<Line<'static>> {
        let mut threads: Vec<_> =
            self.model.threads.iter().map(|u| finite(*u).unwrap_or(0.0)).enumerate().collect();
        let all = threads.len();
        if all > rows {
            threads.sort_by(|a, b| b.1.total_cmp(&a.1));
        }
        let rest = if all > rows { threads.split_off(rows - 1) } else { Vec::new() };
        let mut lines: Vec<_> = threads.into_iter().map(|(i, busy)| self.gauge(width, i, busy)).collect();
        if let Some((_, busiest)) = rest.first() {
            let text = format!("and {} more, at most {}", rest.len(), whole_percent(*busiest));
            lines.push(Line::styled(text, FAINT));
        }
        lines
    }

    fn gauge(&self, width: u16, thread: usize, busy: f64) -> Line<'static> {
        let style = if busy > GENERATOR_BUSY { self.palette.attention } else { self.palette.rate };
        let mark = if busy > GENERATOR_BUSY { " !" } else { "" };
        let mut spans = vec![Span::styled(format!("{:<11}", format!("thread {}", thread + 1)), FAINT)];
        spans.extend(strip(width.saturating_sub(19), busy, style));
        spans.push(Span::raw(format!(" {:>5}", whole_percent(busy))));
        spans.push(Span::styled(mark, style));
        Line::from(spans)
    }

    fn error_lines(&self, width: u16) -> Vec<Line<'static>> {
        let (in_warmup, dropped) = self.model.points.iter().fold((0u64, 0u64), |sum, p| {
            let failed = if p.warmup { p.failed } else { 0 };
            (sum.0.saturating_add(failed), sum.1.saturating_add(p.dropped))
        });
        let in_warmup = if self.model.phase == Phase::Warmup { 0 } else { in_warmup };
        let attention = self.palette.attention;
        let mut classes: Vec<_> =
            self.model.outcomes.iter().map(|(name, n)| (name.replace('_', " "), *n, attention)).collect();
        classes.sort_by_key(|(_, n, _)| std::cmp::Reverse(*n));
        let unanswered = self.model.unanswered_share();
        let said = match (classes.is_empty(), unanswered > 0.0) {
            (true, _) => "  no errors".into(),
            (false, true) => format!("  {} not answered", percent(unanswered)),
            (false, false) => String::new(),
        };
        classes.push(("dropped unsent".into(), dropped, attention));
        classes.push(("during warm-up".into(), in_warmup, FAINT));
        let room = usize::from(width.min(40)).saturating_sub(18);
        let mut lines = vec![Line::from(vec![Span::styled("Errors", BOLD), Span::raw(said)])];
        lines.extend(
            classes
                .into_iter()
                .filter(|(_, n, _)| *n > 0)
                .map(|(name, n, style)| Line::styled(format!("{name:<17} {:>room$}", whole(n)), style)),
        );
        lines
    }

    /// What fits of the facts, the most important first.
    fn summary(&mut self, area: Rect) {
        let model = self.model;
        let Some(last) = model.points.last() else {
            let (open, asked) = (whole(model.connections_open), whole(model.connections_asked));
            let text = format!("{}: {open} of {asked} connections open", model.phase.name());
            return Line::raw(text).render(row(area, 0), self.buffer);
        };
        let p99 = match model.response(0.99) {
            None => bounded(last.p99_us, last.beyond[2]),
            known => waited(known),
        };
        let facts = [
            format!("{}/s", rate(model.measured_rps().or(Some(last.rps)))),
            format!("p99 {p99}"),
            format!("{} failed", whole(self.failed())),
            self.time_told(),
            "q ends early and still reports".into(),
        ];
        // The longest beginning of the list that fits, and its first fact in any case.
        let texts = (1..=facts.len()).map(|n| facts[..n].join(" · "));
        let fits = |text: &String| text.chars().count() <= usize::from(area.width);
        let text = texts.take_while(fits).last().unwrap_or_else(|| facts[0].clone());
        Line::raw(text).render(row(area, 0), self.buffer);
    }

    /// The seconds that the time axis shows.
    fn span_s(&self) -> f64 {
        let seen = self.model.points.last().and_then(|p| finite(p.end_s)).unwrap_or(0.0);
        let planned = self.planned_s().unwrap_or(f64::INFINITY);
        if planned <= SHOWN_WHOLE_S {
            return planned.max(seen);
        }
        let enough = ROUND_S.into_iter().find(|s| *s >= seen.max(10.0)).unwrap_or(seen);
        enough.min(planned).max(seen)
    }

    /// A panel's name, what it shows, and as much more as fits.
    fn title(&mut self, area: Rect, (name, what): (&'static str, &'static str), more: Vec<Span<'_>>) {
        let mut line = Line::from(vec![Span::styled(name, BOLD), Span::styled(what, FAINT)]);
        for span in more {
            if line.width() + span.width() <= usize::from(area.width) {
                line.push_span(span);
            }
        }
        line.render(row(area, 0), self.buffer);
    }

    /// The two axes with their labels: rows and columns count from the plot's upper left.
    fn axes(&mut self, cells: Rect, rows: &[(u16, String)], columns: &[(u16, String)]) {
        let left = Rect { x: cells.x - 1, width: 1, ..cells };
        for y in 0..cells.height {
            self.text(row(left, y), "│", FAINT);
        }
        let line = "─".repeat(usize::from(cells.width));
        let axis = row(cells, cells.height);
        self.text(Rect { x: cells.x - 1, width: axis.width + 1, ..axis }, &format!("└{line}"), FAINT);
        for (y, label) in rows {
            let area = Rect { x: cells.x + 1 - GUTTER, y: cells.y + y, width: GUTTER - 1, height: 1 };
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

    /// A bar in one column of a plot, `share` of its height; whatever is not nothing shows.
    fn bar(&mut self, cells: Rect, column: u16, share: f64, style: Style) {
        let eighths = (share * f64::from(cells.height) * 8.0).round() as u16;
        let mut left = if share > 0.0 { eighths.max(1) } else { 0 };
        for y in (0..cells.height).rev() {
            let symbol = EIGHTHS[usize::from(left.min(8))];
            self.text(Rect { x: cells.x + column, width: 1, ..row(cells, y) }, symbol, style);
            left = left.saturating_sub(8);
        }
    }

    fn text(&mut self, area: Rect, text: &str, style: Style) {
        Line::styled(text, style).render(area, self.buffer);
    }
}

/// Time of a chart that falls into one column of it.
#[derive(Clone, Copy, Default)]
struct Column {
    seconds: f64,
    answers: f64,
    warmup: bool,
    failed: bool,
    /// The largest of [`PERCENTILES`] in it.
    times: [Option<f64>; 3],
    /// The first of them is only a lower bound.
    beyond: bool,
}

impl Column {
    fn rps(&self) -> Option<f64> {
        positive(Some(self.answers / self.seconds))
    }
}

/// The points spread over `width` columns of equal time, each weighed by how long it was.
fn columns(model: &Model, span_s: f64, width: u16) -> Vec<Column> {
    // Where a point ends at the edge of a column, it must not reach into the next.
    const ROUNDING: f64 = 1e-6;
    let mut columns = vec![Column::default(); usize::from(width)];
    let per_s = f64::from(width) / span_s;
    for (start, point) in model.spans() {
        let (from, to) = (start * per_s, point.end_s * per_s);
        for (i, column) in columns.iter_mut().enumerate().take(to.ceil() as usize).skip(from as usize) {
            let overlap = to.min(i as f64 + 1.0) - from.max(i as f64);
            if overlap < ROUNDING {
                continue;
            }
            column.seconds += overlap / per_s;
            column.answers += overlap / per_s * point.rps;
            column.warmup = point.warmup;
            column.failed |= point.failed > 0;
            column.beyond |= point.beyond[2];
            for (time, us) in column.times.iter_mut().zip(percentiles(point)) {
                *time = larger(*time, us);
            }
        }
    }
    columns
}

/// A logarithmic axis of times in microseconds.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// The least scale that holds all values.
    fn of(values: impl Iterator<Item = f64>) -> Option<Scale> {
        let (low, high) = values.fold(None, |range: Option<(f64, f64)>, v| {
            Some(range.map_or((v, v), |(low, high)| (low.min(v), high.max(v))))
        })?;
        let (low, high) = widened(low, high, LEAST_RATIO);
        Some(Scale { low, high })
    }

    /// Where a time lies, from 0 to 1.
    fn share(&self, us: f64) -> f64 {
        ((us / self.low).ln() / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    /// Round times with the cell of each, of `cells`, at least `gap` apart: decades, and between them what fits.
    fn ticks(&self, cells: u16, gap: u16) -> Vec<(u16, f64)> {
        let mut ticks: Vec<(u16, f64)> = Vec::new();
        for digits in [&[1.0][..], &[2.0, 5.0], &[3.0], &[1.5, 7.0]] {
            let more: Vec<_> = self.round(digits).map(|us| (self.cell(us, cells), us)).collect();
            let apart = |a: &(u16, f64), b: &(u16, f64)| a.0.abs_diff(b.0) >= gap;
            let all_fit = more.iter().all(|m| ticks.iter().all(|t| apart(t, m)))
                && more.windows(2).all(|pair| apart(&pair[0], &pair[1]));
            if all_fit {
                ticks.extend(more);
            } else if ticks.is_empty() {
                ticks = more.into_iter().step_by(3).collect();
            }
        }
        ticks
    }

    fn round(&self, digits: &[f64]) -> impl Iterator<Item = f64> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let all = decades.flat_map(|e| digits.iter().map(move |d| d * 10f64.powi(e)));
        all.filter(|us| (self.low..=self.high).contains(us))
    }

    fn cell(&self, us: f64, cells: u16) -> u16 {
        ((self.share(us) * f64::from(cells)) as u16).min(cells.saturating_sub(1))
    }
}

/// Columns of an axis of `width` columns and `span_s` seconds, with their labels.
fn time_ticks(span_s: f64, width: u16) -> Vec<(u16, String)> {
    const APART: f64 = 10.0;
    let per_s = f64::from(width) / span_s;
    let step = ROUND_S.into_iter().find(|s| s * per_s >= APART).unwrap_or(span_s);
    let label = |s: f64| match step {
        _ if s == 0.0 => "0".into(),
        step if step < 60.0 => format!("{} s", trimmed(&number(s))),
        step if step < 3600.0 => format!("{} min", s / 60.0),
        _ => format!("{} h", trimmed(&number(s / 3600.0))),
    };
    let ticks = (0..=(span_s / step + 1e-9) as u16).map(|i| f64::from(i) * step);
    ticks.map(|s| ((s * per_s).round() as u16, label(s))).collect()
}

/// The least of 1, 2 and 5 times a power of ten that is no less than `x`, which is positive.
fn nice_step(x: f64) -> f64 {
    let unit = 10f64.powf(x.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|m| m * unit).find(|step| *step >= x).unwrap_or(10.0 * unit)
}

/// Where a chart below its title draws, with `below` rows left for its time axis.
fn plot(area: Rect, below: u16) -> Rect {
    Rect {
        x: area.x + GUTTER,
        y: area.y + 1,
        width: area.width.saturating_sub(GUTTER + MARGIN),
        height: area.height.saturating_sub(1 + below),
    }
}

fn row(area: Rect, y: u16) -> Rect {
    Rect { y: area.y + y, height: 1, ..area }
}

/// A bar of `width` columns, `share` of it filled.
fn strip(width: u16, share: f64, style: Style) -> [Span<'static>; 2] {
    let filled = (share.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let rest = usize::from(width) - filled;
    [Span::styled("━".repeat(filled), style), Span::styled("─".repeat(rest), FAINT)]
}

fn finite(x: f64) -> Option<f64> {
    Some(x).filter(|x| x.is_finite())
}

fn positive(x: Option<f64>) -> Option<f64> {
    x.filter(|x| x.is_finite() && *x > 0.0)
}

/// A time in microseconds, or a dash.
fn time(us: Option<f64>) -> String {
    or_dash(us.and_then(finite), |us| if us < 1e13 { micros(us) } else { format!("{:.0e} s", us / 1e6) })
}

fn time_label(us: f64) -> String {
    let text = time(Some(us));
    text.split_once(' ').map_or_else(String::new, |(number, unit)| format!("{} {unit}", trimmed(number)))
}

/// A number without the zeros that end its decimals: a round value on an axis.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

fn rate(rps: Option<f64>) -> String {
    or_dash(rps.and_then(finite), |rps| if rps < 100.0 { number(rps) } else { whole(rps.round() as u64) })
}

fn rate_label(rps: f64) -> String {
    match rps {
        r if r < 1e6 => trimmed(&number(r)).into(),
        r if r < 1e12 => format!("{} M", trimmed(&number(r / 1e6))),
        r => format!("{r:.0e}"),
    }
}

/// Exact up to where it would burst a column.
fn whole(n: u64) -> String {
    match n {
        0..10_000_000 => count(n),
        10_000_000..1_000_000_000_000 => format!("{} M", number(n as f64 / 1e6)),
        _ => format!("{:.2e}", n as f64),
    }
}

fn waited(wait: Option<Wait>) -> String {
    match wait {
        Some(Wait::Beyond(us)) => bounded(Some(us), true),
        Some(Wait::At(us)) => time(Some(us)),
        None => time(None),
    }
}

/// A time, or that it is longer than this.
fn bounded(us: Option<f64>, beyond: bool) -> String {
    if beyond && us.is_some() { format!("> {}", time(us)) } else { time(us) }
}

fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn seconds(s: f64) -> String {
    let s = s.clamp(0.0, 1e15);
    if s < 10.0 { format!("{} s", (s * 10.0).round() / 10.0) } else { clock(Duration::from_secs_f64(s)) }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;

    use super::*;

    fn screen(width: u16, height: u16, model: &Model) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model, &Palette::COLOUR)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines =
            cells.chunks(usize::from(width)).map(|row| row.iter().map(Cell::symbol).collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }

    fn point(second: u32) -> Point {
        Point {
            end_s: f64::from(second),
            warmup: second <= 10,
            rps: 181_204.0,
            p50_us: Some(312.0),
            p90_us: Some(498.0),
            p99_us: Some(1_210.0),
            max_us: Some(9_800.0),
            beyond: [false; 4],
            failed: u64::from(second == 12),
            send_lag_p99_us: Some(9.0),
            loop_lag_p99_us: Some(38.0),
            wake_lag_p99_us: Some(52.0),
            dropped: 0,
        }
    }

    fn model() -> Model {
        Model {
            title: "http://127.0.0.1:8080/plaintext".into(),
            subtitle: "h1 · 64 connections · closed loop · io_uring × 1".into(),
            phase: Phase::Measured,
            elapsed_s: 20.4,
            planned_s: Some(30.0),
            points: (1..=20).map(point).collect(),
            histogram: vec![(300_000, 40), (312_000, 50), (700_000, 8), (1_440_000, 1), (9_800_000, 1)],
            unanswered: 0,
            longest_wait_us: None,
            outcomes: vec![("timeout", 12), ("connect_refused", 1_204)],
            connections_open: 63,
            connections_asked: 64,
            threads: vec![0.76, 0.91],
            offered_rps: Some(190_000.0),
        }
    }

    fn assert_shows(screen: &str, facts: &[&str]) {
        for fact in facts {
            assert!(screen.contains(fact), "{fact:?} is missing:\n{screen}");
        }
    }

    #[test]
    fn every_size_with_panels_has_the_key_facts() {
        for (width, height) in [(200, 60), (120, 40), (80, 24)] {
            let screen = screen(width, height, &model());
            assert_shows(&screen, &["http://127.0.0.1:8080/plaintext", "io_uring × 1", "measured"]);
            assert_shows(&screen, &["20 s of 30 s   10 s left", "181,204", "1.44 ms", "63 of 64 open !"]);
            assert_shows(&screen, &["connect refused", "1,204", "76 %", "91 % !", "--threads 3", "52.0 µs"]);
            assert_shows(&screen, &["╌ 190,000 offered", "p90", "30 s", "q ends early and still reports"]);
            assert_eq!(screen.contains("▾ p99"), height > 24, "the histogram gives way first");
            let sorted = screen.find("connect refused") < screen.find("timeout");
            assert!(sorted, "the most frequent class comes first");
        }
        assert_shows(&screen(200, 60, &model()), &[" warm-up ", "× failures", "╌╌╌", "100 answers"]);
    }

    #[test]
    fn what_was_never_answered_shows_in_every_number_it_touches() {
        let last = Point { p99_us: Some(1.2e6), beyond: [false, false, true, true], ..point(21) };
        let points = (1..=20).map(point).chain([last]).collect();
        let model = Model { unanswered: 10, longest_wait_us: Some(1.2e6), points, ..model() };
        let screen = screen(120, 40, &model);
        assert_shows(&screen, &["> 1.20 s", "9.09 % not answered", "↑"]);
        let line = self::screen(40, 10, &model);
        assert!(line.contains("p99 > 1.20 s"), "{line}");
    }

    #[test]
    fn a_small_screen_has_one_line() {
        let line = screen(40, 10, &model());
        assert_eq!(line.trim_end(), "181,204/s · p99 1.44 ms · 1,216 failed");
        let all = screen(100, 3, &model());
        assert_shows(&all, &["20 s of 30 s   10 s left", "q ends early and still reports"]);
        let connecting = Model { connections_asked: 64, ..Model::default() };
        assert_shows(&screen(40, 10, &connecting), &["connecting: 0 of 64 connections open"]);
    }

    #[test]
    fn what_is_not_there_yet_is_said() {
        let screen = screen(120, 40, &Model::default());
        assert_shows(&screen, &["connecting", "–", "no answers yet", "no errors", "0 of 0 open"]);
        let warmup = Model { phase: Phase::Warmup, outcomes: Vec::new(), ..model() };
        assert_shows(&self::screen(120, 40, &warmup), &["warm-up", "no errors"]);
    }

    #[test]
    fn no_size_and_no_number_breaks_it() {
        let bad = Point {
            end_s: f64::NAN,
            rps: f64::NAN,
            p50_us: Some(f64::NAN),
            p90_us: Some(0.0),
            p99_us: Some(-1.0),
            max_us: Some(f64::INFINITY),
            ..point(1)
        };
        let huge = Point { end_s: 1e12, rps: 1e300, p99_us: Some(1e300), failed: u64::MAX, ..point(1) };
        let nothing_planned = Model { planned_s: None, ..model() };
        let nans = Model {
            elapsed_s: f64::NAN,
            planned_s: Some(f64::NAN),
            points: vec![bad],
            threads: vec![f64::NAN; 40],
            offered_rps: Some(f64::NAN),
            ..model()
        };
        let overflowing = Model {
            elapsed_s: 1e300,
            points: vec![huge.clone(), Point { warmup: false, ..huge }],
            histogram: vec![(1, u64::MAX), (u64::MAX, u64::MAX)],
            outcomes: vec![("timeout", u64::MAX); 30],
            connections_asked: u64::MAX,
            threads: vec![1e300; 40],
            offered_rps: Some(1e-300),
            ..model()
        };
        let one = Model { points: vec![point(1)], histogram: vec![(5, 1)], ..model() };
        for model in [Model::default(), one, nothing_planned, nans, overflowing] {
            for (width, height) in (1..210).step_by(26).flat_map(|w| (1..70).step_by(7).map(move |h| (w, h)))
            {
                let screen = screen(width, height, &model);
                assert!(!screen.contains("NaN") && !screen.contains("inf"), "{screen}");
            }
        }
    }

    #[test]
    fn without_colours_no_cell_has_one() {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|frame| draw(frame, &model(), &Palette::PLAIN)).unwrap();
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    }

    #[test]
    fn columns_weigh_points_by_time() {
        let points = vec![Point { rps: 100.0, ..point(1) }, Point { rps: 40.0, ..point(3) }];
        let columns = columns(&Model { points, ..Model::default() }, 4.0, 2);
        assert_eq!(columns.iter().map(Column::rps).collect::<Vec<_>>(), [Some(70.0), Some(40.0)]);
    }

    #[test]
    fn axes_have_round_ticks() {
        let labels = |low, high, cells| {
            let ticks = Scale { low, high }.ticks(cells, 2).into_iter();
            ticks.map(|(cell, us)| format!("{cell} {}", time_label(us))).collect::<Vec<_>>()
        };
        assert_eq!(labels(90.0, 11_000.0, 5), ["0 100 µs", "2 1 ms", "4 10 ms"]);
        assert_eq!(labels(0.5, 2.0, 10), ["5 1 µs", "0 500 ns", "9 2 µs", "2 700 ns", "7 1.5 µs"]);
        let times: Vec<_> = time_ticks(300.0, 60).into_iter().map(|(_, label)| label).collect();
        assert_eq!(times, ["0", "1 min", "2 min", "3 min", "4 min", "5 min"]);
        assert_eq!([0.7, 1.0, 120_000.0, 60_401.0].map(nice_step), [1.0, 1.0, 200_000.0, 100_000.0]);
        assert_eq!([8.0, 250_000.0, 1.2e6, 2e15].map(rate_label), ["8", "250,000", "1.2 M", "2e15"]);
    }
}
