//! Times as arguments: points in time, durations, and a window between two points.

use crate::summary::{Stamp, record};
use arguments::show::interval;
use arguments::units::FromArg;
use arguments::{Args, Names};
use std::time::Duration;

/// A moment: nanoseconds since the Unix epoch, or after another moment. Written as a span that is not negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub i64);

/// A span of time in nanoseconds, perhaps negative. Written with a unit, or as seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub i64);

/// A time as text, with six digits behind the point, or nine where these are needed.
pub fn show(nanos: i64) -> String {
    let mut out = Vec::new();
    record::push_time(nanos, Stamp::Exact, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

impl Span {
    /// The span as handlers of times show it: `-1.500000s`.
    pub fn as_interval(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        format!(
            "{sign}{}",
            interval(Duration::from_nanos(self.0.unsigned_abs()))
        )
    }
}

impl FromArg for Moment {
    const KIND: &'static str = "a time such as 996033261.451094, 1.5s, 20ms or 3 min";

    fn from_arg(raw: &str, names: &Names) -> Result<Moment, String> {
        // Underscores group digits, as in other numbers; Click's times may have them at ends, too.
        let text = raw.strip_prefix('+').unwrap_or(raw).replace('_', "");
        let span = Some(text).filter(|text| !text.starts_with('-'));
        let span = span.and_then(|text| Span::from_arg(&text, names).ok());
        span.map(|span| Moment(span.0))
            .ok_or_else(|| format!("must be {}, not `{raw}`", Self::KIND))
    }

    fn stand_in() -> Moment {
        Moment(0)
    }

    fn unparse(&self) -> String {
        show(self.0)
    }
}

impl FromArg for Span {
    const KIND: &'static str = "a time such as 10, -1.5s, 20ms or 3 min";

    fn from_arg(raw: &str, names: &Names) -> Result<Span, String> {
        // Plain seconds are exact; a unit is scaled as in other times.
        if let Some(nanos) = record::time(raw) {
            return Ok(Span(nanos));
        }
        let (sign, text) = match raw.strip_prefix('-') {
            Some(text) => (-1, text),
            None => (1, raw),
        };
        let time = Duration::from_arg(text, names)
            .map_err(|_| format!("must be {}, not `{raw}`", Self::KIND))?;
        Ok(Span(
            sign * i64::try_from(time.as_nanos()).unwrap_or(i64::MAX),
        ))
    }

    fn stand_in() -> Span {
        Span(0)
    }

    fn unparse(&self) -> String {
        show(self.0)
    }
}

/// An end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    Open,
    At(i64),
    /// Nanoseconds after the first packet.
    AfterFirst(i64),
    /// Nanoseconds after the start of the router.
    AfterStart(i64),
    /// Nanoseconds after the start of the window.
    Interval(i64),
}

/// A window of timestamps: from its start on, up to but not with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    start: Edge,
    end: Edge,
    /// True for FromDump: the window opens once, `INTERVAL` counts from the first packet inside, and the end is reached
    /// once.
    pub from_first_inside: bool,
    /// True if FromDump's window has opened.
    opened: bool,
    /// True if the end was reached and no longer counts.
    passed: bool,
}

/// Position relative to the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowPosition {
    /// Before the start.
    Before,
    /// From the start on, before the end.
    Inside,
    /// From the end on.
    Behind,
}

impl Window {
    /// True if the window has an end.
    pub fn has_end(&self) -> bool {
        self.end != Edge::Open
    }

    /// Reads `START`, `START_AFTER`, `END`, `END_AFTER` and `INTERVAL`; with `filter`, `START` and
    /// `END` by place too, `START_DELAY` and `END_DELAY`.
    pub fn configure(args: &mut Args, filter: bool) -> Window {
        let mut moment = |name, doc| -> Option<Moment> {
            if filter {
                args.maybe(name, doc)
            } else {
                args.key_maybe(name, doc)
            }
        };
        let start = moment("START", "first timestamp in the window");
        let end = moment("END", "first timestamp after the window");
        let mut span = |name, doc| -> Option<Moment> { args.key_maybe(name, doc) };
        let start_after = span("START_AFTER", "the same, from the first timestamp on");
        let end_after = span("END_AFTER", "the same, from the first timestamp on");
        let interval = span("INTERVAL", "the same, from the start on");
        let (mut start_delay, mut end_delay) = (None, None);
        if filter {
            start_delay = span("START_DELAY", "the same, from the router's start on");
            end_delay = span("END_DELAY", "the same, from the router's start on");
        }
        let starts = [
            start.map(|t| Edge::At(t.0)),
            start_after.map(|t| Edge::AfterFirst(t.0)),
            start_delay.map(|t| Edge::AfterStart(t.0)),
        ];
        let ends = [
            end.map(|t| Edge::At(t.0)),
            end_after.map(|t| Edge::AfterFirst(t.0)),
            end_delay.map(|t| Edge::AfterStart(t.0)),
            interval.map(|t| Edge::Interval(t.0)),
        ];
        let several = |edges: &[Option<Edge>]| edges.iter().flatten().count() > 1;
        if several(&starts) {
            let wrong = match filter {
                true => "too many START options",
                false => "'START' and 'START_AFTER' are mutually exclusive",
            };
            args.error_in_whole(wrong, "give one of them");
        }
        if several(&ends) {
            let wrong = match filter {
                true => "too many END options",
                false => "'END', 'END_AFTER', and 'INTERVAL' are mutually exclusive",
            };
            args.error_in_whole(wrong, "give one of them");
        }
        Window {
            start: starts.into_iter().flatten().next().unwrap_or(Edge::Open),
            end: ends.into_iter().flatten().next().unwrap_or(Edge::Open),
            from_first_inside: !filter,
            opened: false,
            passed: false,
        }
    }

    /// Passes the end: later packets are inside, until the window is extended.
    pub fn pass_end(&mut self) {
        self.passed = true;
    }

    /// Fixes bounds that are relative to the router's start.
    pub fn fix_bounds(&mut self, now: i64) {
        for edge in [&mut self.start, &mut self.end] {
            if let Edge::AfterStart(span) = *edge {
                *edge = Edge::At(now.saturating_add(span));
            }
        }
    }

    /// Position of a timestamp. The first one fixes the bounds relative to it.
    pub fn position(&mut self, stamp: i64) -> WindowPosition {
        for edge in [&mut self.start, &mut self.end] {
            if let Edge::AfterFirst(span) = *edge {
                *edge = Edge::At(stamp.saturating_add(span));
            }
        }
        if let Edge::At(start) = self.start
            && stamp < start
            && !self.opened
        {
            return WindowPosition::Before;
        }
        self.opened = self.from_first_inside;
        if let Edge::Interval(span) = self.end {
            let start = match self.start {
                Edge::At(start) if !self.from_first_inside => start,
                _ => stamp,
            };
            self.end = Edge::At(start.saturating_add(span));
        }
        match self.end {
            Edge::At(end) if stamp >= end && !self.passed => WindowPosition::Behind,
            _ => WindowPosition::Inside,
        }
    }

    /// Start of the window; 0 while it is open.
    pub fn start(&self) -> i64 {
        match self.start {
            Edge::At(start) => start,
            _ => 0,
        }
    }

    /// The end of the window. If there is none, this is the last time of a 32-bit clock, as in Click; 0 while it is
    /// unknown.
    pub fn end(&self) -> i64 {
        match self.end {
            Edge::At(end) => end,
            Edge::Open => i64::from(i32::MAX) * 1_000_000_000,
            _ => 0,
        }
    }

    /// Sets the start.
    pub fn set_start(&mut self, start: i64) {
        self.start = Edge::At(start);
    }

    /// Sets the end.
    pub fn set_end(&mut self, end: i64) {
        self.end = Edge::At(end);
    }

    /// Moves the end. If there is none, FromDump's is a time since the epoch then, as in Click.
    pub fn extend(&mut self, by: i64) {
        self.passed = false;
        match &mut self.end {
            Edge::Open if self.from_first_inside => self.end = Edge::At(by),
            Edge::Open => {}
            Edge::At(t) | Edge::AfterFirst(t) | Edge::AfterStart(t) | Edge::Interval(t) => {
                *t = t.saturating_add(by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: Edge, end: Edge, from_first_inside: bool) -> Window {
        Window {
            start,
            end,
            from_first_inside,
            opened: false,
            passed: false,
        }
    }

    #[test]
    fn windows_open_and_close_where_they_should() {
        let places = |mut w: Window| [10, 12, 15, 19, 20].map(|t| w.position(t));
        use WindowPosition::{Before, Behind, Inside};
        assert_eq!(places(window(Edge::Open, Edge::Open, true)), [Inside; 5]);
        assert_eq!(
            places(window(Edge::At(12), Edge::At(19), true)),
            [Before, Inside, Inside, Behind, Behind]
        );
        assert_eq!(
            places(window(Edge::AfterFirst(3), Edge::AfterFirst(10), true)),
            [Before, Before, Inside, Inside, Behind]
        );
        // From 11 on: the first packet inside is at 12.
        let interval = |inside| places(window(Edge::At(11), Edge::Interval(8), inside));
        assert_eq!(interval(true), [Before, Inside, Inside, Inside, Behind]);
        assert_eq!(interval(false), [Before, Inside, Inside, Behind, Behind]);
        let mut extended = window(Edge::Open, Edge::At(12), true);
        extended.extend(4);
        assert_eq!(places(extended), [Inside, Inside, Inside, Behind, Behind]);
        extended.pass_end();
        assert_eq!(places(extended), [Inside; 5]);
        extended.extend(1);
        assert_eq!(places(extended), [Inside, Inside, Inside, Behind, Behind]);
    }

    #[test]
    fn a_dump_window_opens_once() {
        use WindowPosition::{Before, Inside};
        let mut dump = window(Edge::AfterFirst(2), Edge::Open, true);
        assert_eq!(
            [10, 12, 11].map(|t| dump.position(t)),
            [Before, Inside, Inside]
        );
        let mut filter = window(Edge::AfterFirst(2), Edge::Open, false);
        assert_eq!(
            [10, 12, 11].map(|t| filter.position(t)),
            [Before, Inside, Before]
        );
    }

    #[test]
    fn spans_have_units_and_signs() {
        let span = |text: &str| Span::from_arg(text, &Names::default());
        assert_eq!(span("-1.5"), Ok(Span(-1_500_000_000)));
        assert_eq!(span("20ms"), Ok(Span(20_000_000)));
        assert_eq!(span("-2min"), Ok(Span(-120_000_000_000)));
        assert!(span("soon").is_err());
        let moment = |text: &str| Moment::from_arg(text, &Names::default());
        assert_eq!(moment("1_000.5"), Ok(Moment(1_000_500_000_000)));
        assert_eq!(moment("+1e3"), Ok(Moment(1_000_000_000_000)));
        assert_eq!(moment("1.5 min"), Ok(Moment(90_000_000_000)));
        for wrong in ["_", "-1", "-1e1", "+-1", "--1", "x", "1 2"] {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
        assert_eq!(show(1_500_000_000), "1.500000");
    }
}
