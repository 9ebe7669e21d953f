//! Screens as text: whole pages, kept in `tests/pages`, and every size.

use std::fmt::Write as _;

use proptest::prelude::*;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;
use uuid::Uuid;

use measure::errors::{Failure, FailureClass, NumberedFailure};
use measure::ids::RunIds;
use measure::recorder::{Batch, Live};
use measure::rows::Rows;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use terms::control::ControlShare;
use verdict::standing::{CriterionStanding, StandingState};

use super::*;
use crate::figures::{LoadBounds, LoadFigures, LoadProgress, WatchedPart};
use crate::snapshot::{AskedLoad, CauseSnapshot, ReceptionSnapshot};

const SECOND: u64 = 1_000_000_000;

/// Numbers that look random, and are always the same.
fn noise(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xd6e8_feb8_6659_fd93) >> 40
}

fn sample(number: u64, failing: bool) -> IterationSample {
    let start_ns = number * 10_000_000;
    let slow = noise(number).is_multiple_of(97);
    let first_ns = 5_000_000 + noise(number) % 3_000_000;
    let second_ns = if slow { 80_000_000 } else { 4_000_000 } + noise(number + 1) % 2_000_000;
    let failed = failing && number.is_multiple_of(9);
    let action = |action, duration_ns| ActionSample {
        action,
        duration_ns,
        requests: 1,
        ended: if failed && action == 1 { CompletionStatus::Failed } else { CompletionStatus::Ok },
        ..ActionSample::default()
    };
    IterationSample {
        number,
        due_ns: start_ns,
        start_ns,
        duration_ns: first_ns + second_ns,
        ended: if failed { CompletionStatus::Failed } else { CompletionStatus::Ok },
        error: if failed { 1 + (number / 9 % 2) as u32 } else { 0 },
        actions: vec![action(0, first_ns), action(1, second_ns)],
        ..IterationSample::default()
    }
}

/// A load at 100 a second, after this many seconds.
fn figures(seconds: u64, failing: bool) -> LoadFigures {
    let ids = RunIds::new(Uuid::from_u128(7), ControlShare::NONE);
    let workload =
        ("Log in, then look a user up".to_owned(), vec!["log in".to_owned(), "look up".to_owned()]);
    let mut figures = LoadFigures::new([workload], ids);
    let duration_ns = Some(60 * SECOND);
    figures.begin(0, LoadBounds { origin_ns: 0, times: None, duration_ns });
    let failure = |class, message: &str| Failure {
        class,
        action: Some("look up".into()),
        message: message.to_owned(),
        seen: None,
    };
    let faults = [
        failure(FailureClass::Status, "the status is 503, and 200 is expected"),
        failure(FailureClass::Timeout, "no answer within 2 s"),
    ];
    for tenth in 0..seconds * 10 {
        let mut samples = Rows::default();
        (tenth * 10..tenth * 10 + 10).for_each(|number| samples.push(&sample(number, failing)));
        let numbered = (1..).zip(&faults).filter(|_| tenth == 0);
        let failures =
            numbered.map(|(number, failure)| NumberedFailure { number, failure: failure.clone() }).collect();
        figures.add(&Batch { workload: 0, failures, samples, users: Rows::default(), live: Live::new() });
        let progress = LoadProgress {
            elapsed_ns: (tenth + 1) * SECOND / 10,
            ended: (tenth + 1) * 10,
            under_way: 1 + noise(tenth) % 5,
            queued: if failing { tenth / 20 } else { 0 },
            asked: AskedLoad::PerSecond(if failing { 120.0 } else { 100.0 }),
            ..LoadProgress::default()
        };
        figures.progress(0, progress);
    }
    figures
}

fn criterion(
    condition: &str,
    state: StandingState,
    observed: &str,
    clear_in_s: Option<f64>,
) -> CriterionStanding {
    CriterionStanding { condition: condition.to_owned(), state, observed: observed.to_owned(), clear_in_s }
}

fn snapshot(seconds: u64, failing: bool, part: WatchedPart) -> LiveSnapshot {
    let mut snapshot = figures(seconds, failing).snapshot(part);
    snapshot.title = "Log in, then look a user up".to_owned();
    snapshot.deployment = "demo".to_owned();
    let state = |bad| if failing { bad } else { StandingState::Holding };
    snapshot.loads[0].criteria = match seconds {
        0 => vec![criterion("p99 < 250ms", StandingState::Unmeasured, "", None)],
        _ => vec![
            criterion("failure rate at most 0 %", state(StandingState::Broken), "0 %", None),
            criterion("p99 < 250ms", state(StandingState::Breaking), "p99 86.1 ms (at most 87 ms)", None),
            criterion("p99.9 < 250ms", StandingState::Unclear, "p99.9 86.4 ms", Some(42.0)),
            criterion("count(trace \"db\") <= 12", StandingState::Later, "", None),
        ],
    };
    snapshot
}

fn iterations() -> WatchedPart {
    ScreenView::default().part()
}

pub(super) fn drawn(snapshot: &LiveSnapshot, view: &ScreenView, (columns, rows): (u16, u16)) -> Buffer {
    let area = Rect::new(0, 0, columns, rows);
    let mut buffer = Buffer::empty(area);
    draw(snapshot, view, area, &mut buffer);
    buffer
}

fn text(buffer: &Buffer) -> String {
    let mut page = String::new();
    for y in 0..buffer.area.height {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        page.push_str(cells.collect::<String>().trim_end());
        page.push('\n');
    }
    page
}

fn pressed(keys: &[ScreenKey], snapshot: &LiveSnapshot) -> ScreenView {
    let mut view = ScreenView::default();
    for key in keys {
        let _ = view.press(*key, snapshot);
    }
    view
}

/// A load that is well, whose spans are received.
pub(super) fn explained() -> LiveSnapshot {
    let mut spans = snapshot(20, false, iterations());
    spans.receiving = Some(ReceptionSnapshot { kept_traces: 24, kept_spans: 312 });
    spans.cause = Some(CauseSnapshot {
        headline: "Slow iterations wait for SELECT orders".to_owned(),
        sentence: "The slowest 1 % take 78 ms longer than typical ones; SELECT orders explains all of it."
            .to_owned(),
        is_named: true,
        ..CauseSnapshot::default()
    });
    spans.loads[0].slowest.iter_mut().for_each(|slow| slow.spans = Some(17));
    spans
}

/// Every kind of screen in the sizes that matter: what is written stands where it should.
#[test]
fn screens_are_drawn_as_they_were() {
    let (empty, good, bad) = (
        snapshot(0, false, iterations()),
        snapshot(20, false, iterations()),
        snapshot(20, true, iterations()),
    );
    let plain = ScreenView::default();
    let mut spans = explained();
    spans.part = "all 3 shards".to_owned();
    spans.loads[0].slowest[1].spans = Some(0);
    let mut warned = pressed(&[ScreenKey::Tab], &bad);
    warned.say("warning: the \u{1b}[31mload generator\nis late");
    warned.is_stopping = true;
    let mut opened = ScreenView::default();
    opened.open(
        spans.loads[0].slowest[0].trace_id,
        "17 points over 87.1 ms, complete\n\n█░░  87.1 ms  iteration",
    );
    let step = pressed(&[ScreenKey::Down, ScreenKey::Down], &good);
    let of_step = snapshot(20, false, step.part());
    let slowest = pressed(&[ScreenKey::BackTab, ScreenKey::Down], &spans);
    let criteria = pressed(&[ScreenKey::Tab, ScreenKey::Tab], &good);
    let help = pressed(&[ScreenKey::Char('?')], &good);
    let mut page = String::new();
    for (name, snapshot, view, size) in [
        ("nothing has ended", &empty, &plain, (80, 24)),
        ("a load that is well", &good, &plain, (80, 24)),
        ("a step of it", &of_step, &step, (80, 24)),
        ("its criteria", &good, &criteria, (80, 24)),
        ("its slowest iterations, with spans", &spans, &slowest, (80, 24)),
        ("a load with errors, being stopped", &bad, &warned, (80, 24)),
        ("all tables", &bad, &plain, (120, 40)),
        ("a trace", &spans, &opened, (80, 24)),
        ("help", &good, &help, (100, 24)),
        ("little room", &bad, &plain, (50, 14)),
        ("hardly any", &bad, &plain, (12, 3)),
    ] {
        let (columns, rows) = size;
        writeln!(page, "{name}, {columns}x{rows}\n{}", "═".repeat(usize::from(columns))).unwrap();
        page.push_str(&text(&drawn(snapshot, view, size)));
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(text::page::FOLDER);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("screens", page));
}

/// Colours are only used where they may be.
#[test]
fn without_colours_there_are_none() {
    let bad = snapshot(20, true, iterations());
    let colours = |colours| {
        let buffer = drawn(&bad, &ScreenView::new(colours), (120, 40));
        let used: std::collections::BTreeSet<String> =
            buffer.content.iter().map(|cell| format!("{:?} {:?}", cell.fg, cell.bg)).collect();
        used
    };
    let none = format!("{:?} {:?}", Color::Reset, Color::Reset);
    assert_eq!(colours(false).into_iter().collect::<Vec<_>>(), [none]);
    assert!(colours(true).len() > 5, "{:?}", colours(true));
}

#[test]
fn keys_do_what_the_help_says() {
    use ScreenKey::{Char, Down, Enter, Escape, Left, PageDown, Right, Tab, Up};
    let mut snapshot = snapshot(20, true, iterations());
    snapshot.loads.push(snapshot.loads[0].clone());
    let slowest = snapshot.loads[0].slowest[1].trace_id;
    let error = snapshot.loads[0].errors[0].trace_id;
    let (load, step) = (0, None);
    for (keys, effect, part) in [
        (&[Char('q')][..], Some(KeyEffect::Stop), WatchedPart::One { load, step }),
        (&[Char('p')], Some(KeyEffect::Hide), WatchedPart::One { load, step }),
        (&[Char('?'), Char('q')], None, WatchedPart::One { load, step }),
        (&[Char('?'), Char('q'), Char('q')], Some(KeyEffect::Stop), WatchedPart::One { load, step }),
        (&[Char('x')], None, WatchedPart::One { load, step }),
        (&[Right], None, WatchedPart::One { load: 1, step }),
        (&[Right, Right], None, WatchedPart::One { load, step }),
        (&[Left], None, WatchedPart::One { load: 1, step }),
        (&[Down], None, WatchedPart::One { load, step: Some(0) }),
        (&[PageDown], None, WatchedPart::One { load, step: Some(1) }),
        (&[Down, Up, Up], None, WatchedPart::One { load, step }),
        // Another workload has other steps.
        (&[Down, Right], None, WatchedPart::One { load: 1, step }),
        // A step has no trace.
        (&[Down, Enter], None, WatchedPart::One { load, step: Some(0) }),
        (&[Tab, Enter], Some(KeyEffect::OpenTrace(error)), WatchedPart::One { load, step }),
        (&[Tab, Tab, Enter], None, WatchedPart::One { load, step }),
        (&[Tab, Tab, Tab, Down, Enter], Some(KeyEffect::OpenTrace(slowest)), WatchedPart::One { load, step }),
    ] {
        let mut view = ScreenView::default();
        let last = keys.iter().map(|key| view.press(*key, &snapshot)).last().flatten();
        assert_eq!((last, view.part()), (effect, part), "{keys:?}");
    }
    let mut view = ScreenView::default();
    view.open(slowest, "one\ntwo\nthree");
    assert_eq!(view.opened().map(|(_, lines)| lines.len()), Some(3));
    assert_eq!(view.press(Down, &snapshot), None);
    assert_eq!(view.opened().map(|(_, lines)| lines[0].clone()), Some("two".to_owned()));
    // As in a pager, `q` closes the trace and not the program.
    assert_eq!(view.press(Char('q'), &snapshot), None);
    assert!(view.opened().is_none());
    view.open(slowest, "one");
    assert_eq!(view.press(Escape, &snapshot), None);
    assert!(view.opened().is_none());
}

#[test]
fn the_screen_follows_the_workload_that_runs() {
    let mut snapshot = snapshot(1, false, iterations());
    snapshot.loads.push(LoadSnapshot { state: LoadState::Waiting, ..snapshot.loads[0].clone() });
    let mut view = ScreenView::default();
    view.follow(&snapshot);
    assert_eq!(view.load(), 0);
    snapshot.loads[0].state = LoadState::Ended;
    view.follow(&snapshot);
    assert_eq!(view.load(), 0, "none runs");
    snapshot.loads[1].state = LoadState::Running;
    view.follow(&snapshot);
    assert_eq!(view.load(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No size and no key breaks the screen, and nothing is drawn outside of it.
    #[test]
    fn every_size_and_key_works(
        columns in 0_u16..140, rows in 0_u16..50, failing in any::<bool>(), seconds in 0_u64..4,
        keys in prop::collection::vec(0_usize..12, 0..8)
    ) {
        const KEYS: [ScreenKey; 12] = [
            ScreenKey::Char('?'), ScreenKey::Up, ScreenKey::Down, ScreenKey::Left, ScreenKey::Right, ScreenKey::PageUp,
            ScreenKey::PageDown, ScreenKey::Enter, ScreenKey::Escape, ScreenKey::Tab, ScreenKey::BackTab,
            ScreenKey::Char('x'),
        ];
        let mut shown = snapshot(seconds, failing, iterations());
        let keys: Vec<ScreenKey> = keys.iter().map(|key| KEYS[*key]).collect();
        let view = pressed(&keys, &shown);
        shown = snapshot(seconds, failing, view.part());
        let buffer = drawn(&shown, &view, (columns, rows));
        prop_assert_eq!(buffer.content.len(), usize::from(columns) * usize::from(rows));
        let empty = drawn(&LiveSnapshot::default(), &view, (columns, rows));
        prop_assert_eq!(empty.content.len(), usize::from(columns) * usize::from(rows));
    }
}
