//! Work of a service that takes processor time: to be found by its functions.

use std::fmt::Write as _;
use std::hint::black_box;
use std::str::FromStr;
use std::time::Duration;

/// Why every tenth report is slow.
#[derive(Clone, Copy)]
pub(crate) enum SlowReportKind {
    /// A function takes longer.
    Busy,
    /// It waits.
    Idle,
}

impl FromStr for SlowReportKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "busy" => Ok(Self::Busy),
            "idle" => Ok(Self::Idle),
            _ => Err(()),
        }
    }
}

/// Lines of a report; in a debug build, a line takes about 30 µs.
const LINES: u64 = 200;
/// How much longer a slow report is.
const LONGER: u64 = 15;
/// What a line takes.
const ROUNDS: u64 = 4_000;
const MIX: u64 = 6_364_136_223_846_793_005;

pub(crate) async fn render(kind: SlowReportKind, id: u64) -> String {
    let is_slow = id.is_multiple_of(10);
    let mut body = table(id, LINES);
    body.push_str(&escape_cells(id, LINES / 4));
    match kind {
        SlowReportKind::Busy if is_slow => body.push_str(&escape_cells(id, LINES * LONGER)),
        SlowReportKind::Idle if is_slow => tokio::time::sleep(Duration::from_millis(100)).await,
        SlowReportKind::Busy | SlowReportKind::Idle => {}
    }
    format!("{} bytes", body.len())
}

#[inline(never)]
fn table(id: u64, lines: u64) -> String {
    let mut text = String::new();
    for line in 0..lines {
        let mut sum = id ^ line;
        for round in 0..ROUNDS {
            sum = black_box(sum).wrapping_mul(MIX).wrapping_add(round);
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, "{line} {sum}");
    }
    black_box(text)
}

/// What makes slow reports slow: nothing else calls it so often.
#[inline(never)]
fn escape_cells(id: u64, cells: u64) -> String {
    let mut text = String::new();
    for cell in 0..cells {
        let mut sum = id.wrapping_add(cell);
        for round in 0..ROUNDS {
            sum = black_box(sum).wrapping_mul(MIX).wrapping_sub(round);
        }
        let _ = write!(text, "&#{};", sum % 1_000);
    }
    black_box(text)
}
