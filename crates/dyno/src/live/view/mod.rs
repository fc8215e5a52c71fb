//! Draws a [`LiveModel`]. The same model on the same area always gives the same screen.
//!
//! This file has the layout. `charts` draws the charts over time and the histogram, on the axes of
//! `scale`. `side` draws connections, generator and errors. `numbers` formats numbers.

mod charts;
mod numbers;
mod scale;
mod side;

use dyno_report::format::or_dash;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Constraint::{Fill, Length};
use ratatui::layout::{Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::model::{LiveModel, LivePhase};
use numbers::{finite, rate, response_time_text, seconds, time_text, whole_number};

/// Minimum columns for panels. A narrower screen has one line instead.
const MIN_COLUMNS: u16 = 80;

/// Minimum rows for panels. A lower screen has one line instead.
const MIN_ROWS: u16 = 24;

/// Minimum rows of the body for gaps between panels.
const MIN_ROWS_FOR_GAPS: u16 = 24;

/// Rows that the histogram's panel needs.
const HISTOGRAM_ROWS: u16 = 9;

/// Widths of the columns in the table of numbers, after the column of names.
const TABLE: [usize; 6] = [11, 19, 9, 9, 9, 10];

/// The colours of Okabe and Ito, which colour-blind readers can distinguish, as the nearest of a
/// terminal's 256 colours. Colour is never the only sign: lines have names, and warnings have
/// marks.
#[derive(Clone, Copy, Debug)]
pub struct Palette {
    rate: Style,
    warmup: Style,
    attention: Style,
    /// Colours of `charts::PERCENTILES`, in that order.
    times: [Color; 3],
}

impl Palette {
    pub const COLOUR: Palette = Palette {
        rate: Style::new().fg(Color::Indexed(74)),
        warmup: Style::new().fg(Color::Indexed(245)),
        attention: BOLD.fg(Color::Indexed(202)),
        times: [Color::Indexed(175), Color::Indexed(214), Color::Indexed(36)],
    };

    /// Palette for `NO_COLOR`, with bold and dim text.
    pub const PLAIN: Palette =
        Palette { rate: Style::new(), warmup: FAINT, attention: BOLD, times: [Color::Reset; 3] };
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, model: &LiveModel, palette: &Palette) {
    let area = frame.area();
    let mut view = View { buffer: frame.buffer_mut(), model, palette };
    if area.width < MIN_COLUMNS || area.height < MIN_ROWS {
        view.summary(area);
    } else {
        view.screen(area.inner(Margin::new(1, 0)));
    }
}

struct View<'a> {
    buffer: &'a mut Buffer,
    model: &'a LiveModel,
    palette: &'a Palette,
}

impl View<'_> {
    /// Draws all panels.
    fn screen(&mut self, area: Rect) {
        let head_rows = if self.title_width() <= area.width { 1 } else { 2 };
        // The gap above the last row is only for screens with rows to spare.
        let gap = u16::from(area.height >= MIN_ROWS + 10);
        let rows = [
            Length(head_rows),
            Length(1),
            Length(1),
            Length(3),
            Length(1),
            Fill(1),
            Length(gap),
            Length(1),
        ];
        let [head, progress, _, table, _, body, _, footer] = Layout::vertical(rows).areas(area);
        self.head(head);
        self.progress(progress);
        self.table(table);
        self.body(body);
        Line::styled("q: end early, show the result", FAINT).render(footer, self.buffer);
    }

    /// Draws the charts, with the column of connections, generator and errors next to them.
    fn body(&mut self, area: Rect) {
        let side = (area.width * 36 / 100).clamp(27, 72);
        let gap = u16::from(area.height >= MIN_ROWS_FOR_GAPS);
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

    /// Returns the columns of URL and shape in one row.
    fn title_width(&self) -> u16 {
        // `dyno load  ` before the URL, and a gap between URL and shape, have 14 columns.
        let text = self.model.title.chars().count() + self.model.subtitle.chars().count();
        u16::try_from(text + 14).unwrap_or(u16::MAX)
    }

    /// Draws the URL and the shape of the load.
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

    /// Draws the phase, a bar of the elapsed time, and the time left.
    fn progress(&mut self, area: Rect) {
        let mut spans = vec![Span::styled(format!("{:<11}", self.model.phase.name()), BOLD)];
        if let Some(planned) = self.planned_s() {
            let share = finite(self.model.elapsed_s).unwrap_or(0.0) / planned;
            // 44 columns are for the phase and the times.
            spans.extend(strip(area.width.saturating_sub(44).min(60), share, self.palette.rate));
            spans.push(Span::raw("  "));
        }
        spans.push(Span::raw(self.elapsed_text()));
        Line::from(spans).render(area, self.buffer);
    }

    fn planned_s(&self) -> Option<f64> {
        finite(self.model.planned_s?).filter(|s| *s > 0.0)
    }

    fn elapsed_text(&self) -> String {
        let elapsed_s = finite(self.model.elapsed_s).unwrap_or(0.0);
        let elapsed = seconds(elapsed_s.floor());
        match (self.model.phase, self.planned_s()) {
            (LivePhase::Drain, _) => "waiting for the last responses".into(),
            (_, None) => elapsed,
            (_, Some(planned)) => {
                // Rounded up, so that `0 s left` means the end.
                let left = seconds((planned - elapsed_s).ceil());
                format!("{elapsed} of {}   {left} left", seconds(planned))
            }
        }
    }

    /// Draws the table of numbers: the last interval, and the measured window so far.
    fn table(&mut self, area: Rect) {
        let model = self.model;
        let heads =
            ["requests/s", "response time p50", "p90", "p99", "max", "failed"].map(String::from);
        let current = model.points.last().map(|p| {
            let times = [p.p50_us, p.p90_us, p.p99_us, p.max_us];
            let [p50, p90, p99, max] =
                std::array::from_fn(|i| time_text(times[i], p.are_lower_bounds[i]));
            [rate(Some(p.rps)), p50, p90, p99, max, whole_number(p.failed)]
        });
        let [p50, p90, p99, max] =
            [0.5, 0.9, 0.99, 1.0].map(|share| response_time_text(model.response(share)));
        let measuring = matches!(model.phase, LivePhase::Measured | LivePhase::Drain);
        let failed = or_dash(measuring.then(|| self.failed_count()), whole_number);
        let measured = [rate(model.measured_rps()), p50, p90, p99, max, failed];
        let current = current.unwrap_or_else(|| ["–"; 6].map(String::from));
        let lines =
            [("", heads, FAINT), ("now", current, Style::new()), ("measured", measured, BOLD)];
        for (y, (name, cells, style)) in lines.into_iter().enumerate() {
            let cells = cells.iter().zip(TABLE).map(|(cell, w)| format!("{cell:>w$}"));
            let text = format!("{name:<9}{}", cells.collect::<String>());
            self.text(row(area, y as u16), &text, style);
        }
    }

    fn failed_count(&self) -> u64 {
        self.model.outcomes.iter().fold(0, |sum, (_, n)| sum.saturating_add(*n))
    }

    /// Draws one line with the facts that fit, the most important first.
    fn summary(&mut self, area: Rect) {
        let model = self.model;
        let Some(last) = model.points.last() else {
            let (open, requested) =
                (whole_number(model.connections_open), whole_number(model.connections_requested));
            let text = format!("{}: {open} of {requested} connections open", model.phase.name());
            return Line::raw(text).render(row(area, 0), self.buffer);
        };
        let p99 = match model.response(0.99) {
            None => time_text(last.p99_us, last.are_lower_bounds[2]),
            known => response_time_text(known),
        };
        let facts = [
            format!("{}/s", rate(model.measured_rps().or(Some(last.rps)))),
            format!("p99 {p99}"),
            format!("{} failed", whole_number(self.failed_count())),
            self.elapsed_text(),
            "q: end early, show the result".into(),
        ];
        // As many facts as fit, but at least the first one.
        let texts = (1..=facts.len()).map(|n| facts[..n].join(" · "));
        let fits = |text: &String| text.chars().count() <= usize::from(area.width);
        let text = texts.take_while(fits).last().unwrap_or_else(|| facts[0].clone());
        Line::raw(text).render(row(area, 0), self.buffer);
    }

    fn text(&mut self, area: Rect, text: &str, style: Style) {
        Line::styled(text, style).render(area, self.buffer);
    }
}

fn row(area: Rect, y: u16) -> Rect {
    Rect { y: area.y + y, height: 1, ..area }
}

/// Returns a bar of `width` columns, with `share` of it filled.
fn strip(width: u16, share: f64, style: Style) -> [Span<'static>; 2] {
    let filled = (share.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let unfilled = usize::from(width) - filled;
    [Span::styled("━".repeat(filled), style), Span::styled("─".repeat(unfilled), FAINT)]
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;

    use super::*;
    use crate::live::model::LivePoint;

    fn screen(width: u16, height: u16, model: &LiveModel) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model, &Palette::COLOUR)).unwrap();
        let cells = terminal.backend().buffer().content();
        let lines = cells
            .chunks(usize::from(width))
            .map(|row| row.iter().map(Cell::symbol).collect::<String>());
        lines.collect::<Vec<_>>().join("\n")
    }

    pub(super) fn point(second: u32) -> LivePoint {
        LivePoint {
            end_s: f64::from(second),
            warmup: second <= 10,
            rps: 181_204.0,
            p50_us: Some(312.0),
            p90_us: Some(498.0),
            p99_us: Some(1_210.0),
            max_us: Some(9_800.0),
            are_lower_bounds: [false; 4],
            failed: u64::from(second == 12),
            send_lag_p99_us: Some(9.0),
            loop_lag_p99_us: Some(38.0),
            wake_lag_p99_us: Some(52.0),
            dropped: 0,
        }
    }

    fn model() -> LiveModel {
        LiveModel {
            title: "http://127.0.0.1:8080/plaintext".into(),
            subtitle: "h1 · 64 connections · closed loop · io_uring × 1".into(),
            phase: LivePhase::Measured,
            elapsed_s: 20.4,
            planned_s: Some(30.0),
            points: (1..=20).map(point).collect(),
            histogram: vec![
                (300_000, 40),
                (312_000, 50),
                (700_000, 8),
                (1_440_000, 1),
                (9_800_000, 1),
            ],
            unanswered: 0,
            longest_wait_us: None,
            late_warmup_failures: 0,
            outcomes: vec![("timeout", 12), ("connect_refused", 1_204)],
            connections_open: 63,
            connections_requested: 64,
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
    fn screen_with_panels_has_key_facts_at_any_size() {
        for (width, height) in [(200, 60), (120, 40), (80, 24)] {
            let screen = screen(width, height, &model());
            assert_shows(&screen, &["http://127.0.0.1:8080/plaintext", "io_uring × 1", "measured"]);
            assert_shows(
                &screen,
                &["20 s of 30 s   10 s left", "181,204", "1.44 ms", "63 of 64 open !"],
            );
            assert_shows(
                &screen,
                &["connect refused", "1,204", "76 %", "91 % !", "--threads 3", "52.0 µs"],
            );
            assert_shows(
                &screen,
                &["╌ 190,000 offered", "p90", "30 s", "q: end early, show the result"],
            );
            assert_eq!(screen.contains("▾ p99"), height > 24, "the histogram is omitted first");
            let sorted = screen.find("connect refused") < screen.find("timeout");
            assert!(sorted, "the most frequent class comes first");
        }
        assert_shows(
            &screen(200, 60, &model()),
            &[" warm-up ", "× failures", "╌╌╌", "100 responses"],
        );
    }

    #[test]
    fn unanswered_requests_show_in_every_number() {
        let last = LivePoint {
            p99_us: Some(1.2e6),
            are_lower_bounds: [false, false, true, true],
            ..point(21)
        };
        let points = (1..=20).map(point).chain([last]).collect();
        let model = LiveModel { unanswered: 10, longest_wait_us: Some(1.2e6), points, ..model() };
        let screen = screen(120, 40, &model);
        assert_shows(&screen, &["> 1.20 s", "9.09 % not ok", "↑"]);
        let line = self::screen(40, 10, &model);
        assert!(line.contains("p99 > 1.20 s"), "{line}");
    }

    #[test]
    fn late_failures_of_warm_up_are_shown_as_such() {
        let model = LiveModel { late_warmup_failures: 1_234, ..model() };
        let screen = screen(120, 40, &model);
        let line = screen.lines().find(|line| line.contains("during warm-up")).unwrap();
        assert!(line.contains("1,234"), "{line}");
        assert_shows(&screen, &["1,216"]);
    }

    #[test]
    fn small_screen_has_one_line() {
        let line = screen(40, 10, &model());
        assert_eq!(line.trim_end(), "181,204/s · p99 1.44 ms · 1,216 failed");
        let all = screen(100, 3, &model());
        assert_shows(&all, &["20 s of 30 s   10 s left", "q: end early, show the result"]);
        let connecting = LiveModel { connections_requested: 64, ..LiveModel::default() };
        assert_shows(&screen(40, 10, &connecting), &["connecting: 0 of 64 connections open"]);
    }

    #[test]
    fn screen_before_first_response_says_so() {
        let screen = screen(120, 40, &LiveModel::default());
        assert_shows(&screen, &["connecting", "–", "no responses yet", "no errors", "0 of 0 open"]);
        let warmup = LiveModel { phase: LivePhase::Warmup, outcomes: Vec::new(), ..model() };
        assert_shows(&self::screen(120, 40, &warmup), &["warm-up", "no errors"]);
    }

    #[test]
    fn extreme_sizes_and_numbers_are_drawn() {
        let bad = LivePoint {
            end_s: f64::NAN,
            rps: f64::NAN,
            p50_us: Some(f64::NAN),
            p90_us: Some(0.0),
            p99_us: Some(-1.0),
            max_us: Some(f64::INFINITY),
            ..point(1)
        };
        let huge = LivePoint {
            end_s: 1e12,
            rps: 1e300,
            p99_us: Some(1e300),
            failed: u64::MAX,
            ..point(1)
        };
        let nothing_planned = LiveModel { planned_s: None, ..model() };
        let nans = LiveModel {
            elapsed_s: f64::NAN,
            planned_s: Some(f64::NAN),
            points: vec![bad],
            threads: vec![f64::NAN; 40],
            offered_rps: Some(f64::NAN),
            ..model()
        };
        let overflowing = LiveModel {
            elapsed_s: 1e300,
            points: vec![huge.clone(), LivePoint { warmup: false, ..huge }],
            histogram: vec![(1, u64::MAX), (u64::MAX, u64::MAX)],
            outcomes: vec![("timeout", u64::MAX); 30],
            connections_requested: u64::MAX,
            threads: vec![1e300; 40],
            offered_rps: Some(1e-300),
            ..model()
        };
        let one = LiveModel { points: vec![point(1)], histogram: vec![(5, 1)], ..model() };
        for model in [LiveModel::default(), one, nothing_planned, nans, overflowing] {
            for (width, height) in
                (1..210).step_by(26).flat_map(|w| (1..70).step_by(7).map(move |h| (w, h)))
            {
                let screen = screen(width, height, &model);
                assert!(!screen.contains("NaN") && !screen.contains("inf"), "{screen}");
            }
        }
    }

    #[test]
    fn plain_palette_has_no_colours() {
        let mut terminal = Terminal::new(TestBackend::new(120, 40)).unwrap();
        terminal.draw(|frame| draw(frame, &model(), &Palette::PLAIN)).unwrap();
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| (cell.fg, cell.bg) == (Color::Reset, Color::Reset)));
    }
}
