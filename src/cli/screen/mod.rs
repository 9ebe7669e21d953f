//! The live screen of a run: who gets one, its thread, and its keys. What it shows is drawn by [`live::screen`].

mod terminal;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{self, KeyCode, KeyEventKind, KeyModifiers};
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use harness::options::LiveFeed;
use harness::{Event, Events, Interrupt, Sink};
use live::screen::{KeyEffect, ScreenKey, ScreenView, draw};
use live::snapshot::LiveSnapshot;

use super::output::{self, Stream};

/// A load that is over sooner gets no screen, which would only flash.
const SHOW_AFTER: Duration = Duration::from_millis(700);
/// A new frame comes this often.
const FRAME_EVERY: Duration = Duration::from_millis(250);
/// The end of the load is noticed within this time.
const LOOK_EVERY: Duration = Duration::from_millis(125);
/// Without being asked for, there is a screen only where everything has room.
const COLUMNS_MIN: u16 = 80;
const ROWS_MIN: u16 = 24;

/// Why there can be no screen.
pub(super) const NO_TERMINAL: &str = "no live screen: standard input, output and error must be a terminal that obeys \
    commands (TERM is not `dumb`)";

/// Whether a run gets a screen because the terminal has room for one.
pub(super) fn is_usual() -> bool {
    let has_room = output::size().is_some_and(|(columns, rows)| columns >= COLUMNS_MIN && rows >= ROWS_MIN);
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false");
    output::is_interactive() && has_room && !is_ci
}

/// Shows a load while it runs.
pub(super) struct LiveScreen {
    state: Arc<ScreenState>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Where all events go, too.
    others: Sink,
}

struct ScreenState {
    feed: Arc<LiveFeed>,
    interrupt: Interrupt,
    view: Mutex<ScreenView>,
    is_over: AtomicBool,
}

impl LiveScreen {
    /// A screen for this load, which appears when the load has run for a moment.
    pub(super) fn new(feed: Arc<LiveFeed>, interrupt: &Interrupt, others: Sink) -> Arc<Self> {
        let view = ScreenView::new(output::colours(Stream::Error));
        let state = Arc::new(ScreenState {
            feed,
            interrupt: interrupt.clone(),
            view: Mutex::new(view),
            is_over: AtomicBool::new(false),
        });
        Arc::new(Self { state, thread: Mutex::new(None), others })
    }

    fn start(&self) {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.state.is_over.load(Ordering::Acquire) {
            let state = Arc::clone(&self.state);
            let spawned = std::thread::Builder::new().name("screen".to_owned()).spawn(move || state.run());
            // Without a thread there are lines.
            *thread = spawned.ok();
        }
    }

    /// Leaves the screen: the terminal is as it was, and messages that came meanwhile are written.
    pub(super) fn close(&self) {
        if !self.state.is_over.swap(true, Ordering::AcqRel) {
            let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if thread.is_some() {
                terminal::restore();
            }
        }
    }
}

impl Events for LiveScreen {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::WorkloadBegan(_) => self.start(),
            Event::Warning(text) | Event::Logged(text) | Event::ContextsLeft(text) => {
                self.state.view().say(text);
            }
            Event::Stopping { .. } => {
                let mut view = self.state.view();
                view.is_stopping = true;
                view.say("stopping: iterations under way may end; Ctrl-C ends the program at once");
            }
            Event::AwaitingWork { .. } | Event::FetchingBegan { .. } => self.close(),
            _ => {}
        }
        self.others.event(event);
    }
}

impl ScreenState {
    fn view(&self) -> MutexGuard<'_, ScreenView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// The screen's thread: keys and frames, until the load is over or the terminal is gone.
    fn run(&self) {
        let began = Instant::now();
        while began.elapsed() < SHOW_AFTER {
            std::thread::sleep(LOOK_EVERY);
            if self.is_over() {
                return;
            }
        }
        if self.frames().is_err() {
            terminal::restore();
        }
        // The end may have come just before the screen did.
        if self.is_over() {
            terminal::restore();
        }
    }

    fn frames(&self) -> std::io::Result<()> {
        let mut frame = ScreenFrame::default();
        terminal::show()?;
        let mut is_shown = true;
        while !self.is_over() {
            if is_shown && frame.is_due() {
                frame.draw(self)?;
            }
            if !event::poll(LOOK_EVERY)? {
                continue;
            }
            let key = match event::read()? {
                event::Event::Key(key) if key.kind != KeyEventKind::Release => key,
                event::Event::Resize(..) => {
                    frame.is_new = true;
                    continue;
                }
                _ => continue,
            };
            frame.is_new = true;
            let effect = key_of(&key).and_then(|key| match is_shown {
                true => self.view().press(key, &frame.snapshot),
                // Without a screen, only these two have a meaning.
                false if key == ScreenKey::Char('p') => Some(KeyEffect::Hide),
                false if key == ScreenKey::Char('q') => Some(KeyEffect::Stop),
                false => None,
            });
            match effect {
                Some(KeyEffect::Stop) => self.interrupt.interrupt(),
                Some(KeyEffect::Hide) if is_shown => {
                    terminal::hide();
                    is_shown = false;
                }
                Some(KeyEffect::Hide) => {
                    terminal::show()?;
                    frame = ScreenFrame::default();
                    is_shown = true;
                }
                Some(KeyEffect::OpenTrace(trace_id)) => {
                    let columns = usize::from(frame.drawn.area.width);
                    let text = self.feed.trace(trace_id, columns);
                    self.view().open(trace_id, &text);
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// What was drawn last.
struct ScreenFrame {
    drawn: Buffer,
    snapshot: LiveSnapshot,
    at: Option<Instant>,
    /// Something has changed that cannot wait.
    is_new: bool,
}

impl Default for ScreenFrame {
    fn default() -> Self {
        Self { drawn: Buffer::empty(Rect::ZERO), snapshot: LiveSnapshot::default(), at: None, is_new: true }
    }
}

impl ScreenFrame {
    fn is_due(&self) -> bool {
        self.is_new || self.at.is_none_or(|at| at.elapsed() >= FRAME_EVERY)
    }

    fn draw(&mut self, state: &ScreenState) -> std::io::Result<()> {
        let (columns, rows) = output::size().unwrap_or((COLUMNS_MIN, ROWS_MIN));
        let area = Rect::new(0, 0, columns, rows);
        let part = state.view().part();
        if let Some(snapshot) = state.feed.snapshot(part) {
            self.snapshot = snapshot;
        }
        let mut now = Buffer::empty(area);
        {
            let mut view = state.view();
            view.follow(&self.snapshot);
            draw(&self.snapshot, &view, area, &mut now);
        }
        terminal::draw(&self.drawn, &now)?;
        (self.drawn, self.at, self.is_new) = (now, Some(Instant::now()), false);
        Ok(())
    }
}

fn key_of(key: &event::KeyEvent) -> Option<ScreenKey> {
    if key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return None;
    }
    Some(match key.code {
        KeyCode::Char(c) => ScreenKey::Char(c),
        KeyCode::Up => ScreenKey::Up,
        KeyCode::Down => ScreenKey::Down,
        KeyCode::Left => ScreenKey::Left,
        KeyCode::Right => ScreenKey::Right,
        KeyCode::PageUp => ScreenKey::PageUp,
        KeyCode::PageDown => ScreenKey::PageDown,
        KeyCode::Enter => ScreenKey::Enter,
        KeyCode::Esc => ScreenKey::Escape,
        KeyCode::Tab => ScreenKey::Tab,
        KeyCode::BackTab => ScreenKey::BackTab,
        _ => return None,
    })
}
