//! The curve of a search: response times and the rate served, over the rate asked for.
//!
//! Only positions are computed here.

use serde::Serialize;

use super::{CapacityDocument, LevelInfo, text};
use crate::texts::duration;
use ::capacity::search::LevelOutcome;

/// The drawing's size, and the room around it for labels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 16.0;
const RIGHT: f64 = 16.0;
/// Round numbers for ticks, in each decade.
const ROUND: [f64; 3] = [1.0, 2.0, 5.0];

/// The drawing.
#[derive(Serialize)]
pub(crate) struct LevelPicture {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    bottom: f64,
    curves: Vec<LevelCurve>,
    rates: Vec<LevelTick>,
    times: Vec<LevelTick>,
    /// From the highest rate that holds to the lowest that breaks.
    knee: Option<[String; 2]>,
    described: String,
}

/// One percentile over the rate.
#[derive(Serialize)]
pub(crate) struct LevelCurve {
    name: &'static str,
    class: &'static str,
    points: String,
    marks: Vec<LevelMark>,
}

#[derive(Serialize)]
struct LevelMark {
    x: String,
    y: String,
    class: &'static str,
    described: String,
}

#[derive(Serialize)]
struct LevelTick {
    at: String,
    text: String,
}

/// A logarithmic scale.
struct LogScale {
    from: f64,
    until: f64,
    start: f64,
    end: f64,
}

impl LogScale {
    fn new(values: impl Iterator<Item = f64>, (start, end): (f64, f64)) -> Option<Self> {
        let (low, high) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        (high > 0.0).then(|| Self { from: (low / 1.15).ln(), until: (high * 1.15).ln(), start, end })
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.max(1e-9).ln() - self.from) / (self.until - self.from);
        self.start + share * (self.end - self.start)
    }

    fn ticks(&self, shown: impl Fn(f64) -> String) -> Vec<LevelTick> {
        let decades = (self.from.exp().log10().floor() as i32)..=(self.until.exp().log10().ceil() as i32);
        let round = decades.flat_map(|decade| ROUND.map(|one| one * 10_f64.powi(decade)));
        let inside = round.filter(|value| (self.from..=self.until).contains(&value.ln()));
        inside.map(|value| LevelTick { at: format!("{:.1}", self.at(value)), text: shown(value) }).collect()
    }
}

impl LevelPicture {
    /// The picture of the levels with a rate; `None` with fewer than two.
    pub(crate) fn of(found: &CapacityDocument) -> Option<Self> {
        let mut levels: Vec<(f64, &LevelInfo)> =
            found.levels.iter().filter_map(|level| Some((level.rate_per_s?, level))).collect();
        levels.sort_by(|one, other| one.0.total_cmp(&other.0));
        if levels.len() < 2 {
            return None;
        }
        let rates = LogScale::new(levels.iter().map(|(rate, _)| *rate), (LEFT, WIDTH - RIGHT))?;
        let all = levels.iter().flat_map(|(_, level)| [level.p50_ms, level.p95_ms, level.p99_ms]).flatten();
        let times = LogScale::new(all, (HEIGHT - BOTTOM, TOP))?;
        let curve = |name, class, of: fn(&LevelInfo) -> Option<f64>| {
            let marks: Vec<LevelMark> = levels
                .iter()
                .filter_map(|(rate, level)| {
                    let ms = of(level)?;
                    Some(LevelMark {
                        x: format!("{:.1}", rates.at(*rate)),
                        y: format!("{:.1}", times.at(ms)),
                        class: match level.outcome {
                            Some(LevelOutcome::Holds) => "good",
                            Some(LevelOutcome::Breaks) => "bad",
                            _ => "unsure",
                        },
                        described: format!("{name} at {}: {}", text::rate(*rate), duration(ms)),
                    })
                })
                .collect();
            LevelCurve { name, class, points: line(&marks), marks }
        };
        let bounds = &found.bounds;
        let knee = bounds.holds_per_s.zip(bounds.breaks_per_s).map(|(holds, breaks)| {
            let (from, until) = (rates.at(holds), rates.at(breaks));
            [format!("{from:.1}"), format!("{:.1}", (until - from).max(1.0))]
        });
        Some(Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: WIDTH - RIGHT,
            bottom: HEIGHT - BOTTOM,
            curves: vec![
                curve("p50", "p50", |level| level.p50_ms),
                curve("p95", "p95", |level| level.p95_ms),
                curve("p99", "p99", |level| level.p99_ms),
            ],
            rates: rates.ticks(text::rate),
            times: times.ticks(duration),
            knee,
            described: format!(
                "Response times over the arrival rate of {} levels: {}.",
                levels.len(),
                text::answer(found)
            ),
        })
    }
}

/// A line through the marks; of a rate that was tried several times, through the last.
fn line(marks: &[LevelMark]) -> String {
    let is_last = |at: &usize| marks.get(at + 1).is_none_or(|next| next.x != marks[*at].x);
    let points = (0..marks.len()).filter(is_last).map(|at| format!("{},{}", marks[at].x, marks[at].y));
    points.collect::<Vec<_>>().join(" ")
}
