//! Draws the column next to the charts: connections, generator utilisation and errors.

use dyno_analysis::verdict::GENERATOR_BUSY;
use dyno_report::format::percent;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget as _;

use super::numbers::{finite, time, whole_number, whole_percent};
use super::{BOLD, FAINT, View, row, strip};
use crate::live::model::LivePhase;

/// The line of connections, and the empty lines above and below the generator.
const FIXED_LINES: usize = 3;

/// Number of lines that are kept free for errors. With fewer errors, fewer lines are kept free.
const MIN_ERROR_LINES: usize = 3;

impl View<'_> {
    /// Draws connections, generator and errors. If not all lines fit, the last lines of the
    /// generator are omitted first.
    pub(super) fn side(&mut self, area: Rect) {
        let errors = self.error_lines(area.width);
        let mut generator = self.generator_lines(area);
        let other_lines = FIXED_LINES + errors.len().min(MIN_ERROR_LINES);
        generator.truncate(usize::from(area.height).saturating_sub(other_lines));
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

    fn connections_line(&self) -> Line<'static> {
        let (open, requested) = (self.model.connections_open, self.model.connections_requested);
        let missing =
            open < requested && matches!(self.model.phase, LivePhase::Warmup | LivePhase::Measured);
        let (mark, style) =
            if missing { (" !", self.palette.attention) } else { ("", Style::new()) };
        let text = format!("{} of {} open{mark}", whole_number(open), whole_number(requested));
        Line::from(vec![Span::styled("Connections  ", BOLD), Span::styled(text, style)])
    }

    fn generator_lines(&self, area: Rect) -> Vec<Line<'static>> {
        let mut lines = vec![Line::styled("Generator", BOLD)];
        lines.extend(self.gauges(area.width.min(60), usize::from((area.height / 5).max(2))));
        if self.model.threads.iter().any(|busy| *busy > GENERATOR_BUSY) {
            let threads = format!("  use --threads {}", self.model.threads.len() + 1);
            let text = ["! The generator is busy:".to_string(), threads];
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

    /// Returns a gauge per thread. If there are more threads than `rows`, only the busiest threads
    /// have a gauge.
    fn gauges(&self, width: u16, rows: usize) -> Vec<Line<'static>> {
        let mut threads: Vec<_> =
            self.model.threads.iter().map(|u| finite(*u).unwrap_or(0.0)).enumerate().collect();
        let count = threads.len();
        if count > rows {
            threads.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        }
        let hidden_threads = if count > rows { threads.split_off(rows - 1) } else { Vec::new() };
        let mut lines: Vec<_> =
            threads.into_iter().map(|(i, busy)| self.gauge(width, i, busy)).collect();
        if let Some((_, busiest)) = hidden_threads.first() {
            let text =
                format!("and {} more, at most {}", hidden_threads.len(), whole_percent(*busiest));
            lines.push(Line::styled(text, FAINT));
        }
        lines
    }

    fn gauge(&self, width: u16, thread: usize, busy: f64) -> Line<'static> {
        let style = if busy > GENERATOR_BUSY { self.palette.attention } else { self.palette.rate };
        let mark = if busy > GENERATOR_BUSY { " !" } else { "" };
        let mut spans =
            vec![Span::styled(format!("{:<11}", format!("thread {}", thread + 1)), FAINT)];
        spans.extend(strip(width.saturating_sub(19), busy, style));
        spans.push(Span::raw(format!(" {:>5}", whole_percent(busy))));
        spans.push(Span::styled(mark, style));
        Line::from(spans)
    }

    /// Returns the counts of failed requests by outcome.
    fn error_lines(&self, width: u16) -> Vec<Line<'static>> {
        let points = &self.model.points;
        let dropped = points.iter().fold(0u64, |sum, p| sum.saturating_add(p.dropped));
        let warmup_points = points.iter().filter(|p| p.warmup);
        let failed_in_warmup = match self.model.phase {
            // During the warm-up, the other lines already count these failures.
            LivePhase::Warmup => 0,
            _ => warmup_points
                .fold(self.model.late_warmup_failures, |sum, p| sum.saturating_add(p.failed)),
        };
        let attention = self.palette.attention;
        let mut classes: Vec<_> = self
            .model
            .outcomes
            .iter()
            .map(|(name, n)| (name.replace('_', " "), *n, attention))
            .collect();
        classes.sort_by_key(|(_, n, _)| std::cmp::Reverse(*n));
        let unanswered = self.model.unanswered_share();
        let summary = match (classes.is_empty(), unanswered > 0.0) {
            (true, _) => "  no errors".into(),
            (false, true) => format!("  {} not ok", percent(unanswered)),
            (false, false) => String::new(),
        };
        classes.push(("dropped unsent".into(), dropped, attention));
        classes.push(("during warm-up".into(), failed_in_warmup, FAINT));
        let room = usize::from(width.min(40)).saturating_sub(18);
        let mut lines = vec![Line::from(vec![Span::styled("Errors", BOLD), Span::raw(summary)])];
        lines.extend(classes.into_iter().filter(|(_, n, _)| *n > 0).map(|(name, n, style)| {
            Line::styled(format!("{name:<17} {:>room$}", whole_number(n)), style)
        }));
        lines
    }
}
