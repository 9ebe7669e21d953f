//! What a viewer has chosen, and what keys change.

use std::collections::VecDeque;

use uuid::Uuid;

use crate::figures::{WatchedPart, shown};
use crate::snapshot::LiveSnapshot;

/// So many of the last messages are kept for the screen.
const MESSAGES_MAX: usize = 50;
/// How far a page is.
const PAGE: usize = 10;

/// A key that somebody pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKey {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Tab,
    BackTab,
}

/// What the program is to do because of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Stop the load gracefully.
    Stop,
    /// Leave the screen and show lines, or the other way round.
    Hide,
    /// Show this trace.
    OpenTrace(Uuid),
}

/// A table of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveTable {
    #[default]
    Steps,
    Errors,
    Criteria,
    Slowest,
}

impl LiveTable {
    pub(super) const EVERY: [Self; 4] = [Self::Steps, Self::Errors, Self::Criteria, Self::Slowest];

    fn moved(self, by: usize) -> Self {
        let at = Self::EVERY.iter().position(|table| *table == self).unwrap_or(0);
        Self::EVERY[(at + by) % Self::EVERY.len()]
    }
}

/// A trace that covers the screen.
#[derive(Clone, Debug)]
pub struct OpenedTrace {
    trace_id: Uuid,
    lines: Vec<String>,
    /// How many lines are above the screen.
    offset: usize,
}

/// What a viewer has chosen.
#[derive(Clone, Debug, Default)]
pub struct ScreenView {
    /// Whether colours may be used.
    pub colours: bool,
    /// True once the load is being stopped.
    pub is_stopping: bool,
    load: usize,
    table: LiveTable,
    /// The chosen row of each table.
    rows: [usize; LiveTable::EVERY.len()],
    is_helping: bool,
    opened: Option<OpenedTrace>,
    messages: VecDeque<String>,
}

impl ScreenView {
    /// Nothing is chosen yet.
    #[must_use]
    pub fn new(colours: bool) -> Self {
        Self { colours, ..Self::default() }
    }

    /// What the snapshot has to have.
    #[must_use]
    pub fn part(&self) -> WatchedPart {
        // The first row of the steps stands for the iterations.
        let step = self.rows[LiveTable::Steps as usize].checked_sub(1);
        WatchedPart::One { load: self.load, step }
    }

    /// A message that came while the screen is shown.
    pub fn say(&mut self, text: &str) {
        if self.messages.len() >= MESSAGES_MAX {
            self.messages.pop_front();
        }
        self.messages.push_back(shown(text));
    }

    /// Shows a trace as text, over everything else.
    pub fn open(&mut self, trace_id: Uuid, text: &str) {
        let lines = text.lines().map(shown).collect();
        self.opened = Some(OpenedTrace { trace_id, lines, offset: 0 });
    }

    /// A workload begins: it is the one to look at, unless the one that is looked at still runs.
    pub fn follow(&mut self, snapshot: &LiveSnapshot) {
        use crate::snapshot::LoadState::Running;
        let runs = |load: usize| snapshot.loads.get(load).is_some_and(|one| one.state == Running);
        if !runs(self.load)
            && let Some(load) = (0..snapshot.loads.len()).find(|load| runs(*load))
        {
            self.choose_load(load);
        }
    }

    fn choose_load(&mut self, load: usize) {
        if load != self.load {
            self.load = load;
            self.rows = Default::default();
        }
    }

    /// A key was pressed while this was shown.
    pub fn press(&mut self, key: ScreenKey, snapshot: &LiveSnapshot) -> Option<KeyEffect> {
        if self.is_helping {
            self.is_helping = false;
            return None;
        }
        if let Some(opened) = &mut self.opened {
            let last = opened.lines.len().saturating_sub(1);
            match key {
                ScreenKey::Up => opened.offset = opened.offset.saturating_sub(1),
                ScreenKey::Down => opened.offset = (opened.offset + 1).min(last),
                ScreenKey::PageUp => opened.offset = opened.offset.saturating_sub(PAGE),
                ScreenKey::PageDown => opened.offset = (opened.offset + PAGE).min(last),
                ScreenKey::Escape | ScreenKey::Enter | ScreenKey::Char('q') => self.opened = None,
                _ => {}
            }
            return None;
        }
        let loads = snapshot.loads.len().max(1);
        match key {
            ScreenKey::Char('q') => return Some(KeyEffect::Stop),
            ScreenKey::Char('p') => return Some(KeyEffect::Hide),
            ScreenKey::Char('?' | 'h') => self.is_helping = true,
            ScreenKey::Left => self.choose_load((self.load + loads - 1) % loads),
            ScreenKey::Right => self.choose_load((self.load + 1) % loads),
            ScreenKey::Tab => self.table = self.table.moved(1),
            ScreenKey::BackTab => self.table = self.table.moved(LiveTable::EVERY.len() - 1),
            ScreenKey::Up => self.move_row(snapshot, |row| row.saturating_sub(1)),
            ScreenKey::Down => self.move_row(snapshot, |row| row + 1),
            ScreenKey::PageUp => self.move_row(snapshot, |row| row.saturating_sub(PAGE)),
            ScreenKey::PageDown => self.move_row(snapshot, |row| row + PAGE),
            ScreenKey::Enter => return self.chosen_trace(snapshot).map(KeyEffect::OpenTrace),
            ScreenKey::Escape | ScreenKey::Char(_) => {}
        }
        None
    }

    fn move_row(&mut self, snapshot: &LiveSnapshot, moved: impl Fn(usize) -> usize) {
        let rows = self.row_count(self.table, snapshot);
        let row = &mut self.rows[self.table as usize];
        *row = moved(*row).min(rows.saturating_sub(1));
    }

    fn row_count(&self, table: LiveTable, snapshot: &LiveSnapshot) -> usize {
        let Some(load) = snapshot.loads.get(self.load) else { return 0 };
        match table {
            LiveTable::Steps => load.steps.len() + 1,
            LiveTable::Errors => load.errors.len(),
            LiveTable::Criteria => load.criteria.len(),
            LiveTable::Slowest => load.slowest.len(),
        }
    }

    fn chosen_trace(&self, snapshot: &LiveSnapshot) -> Option<Uuid> {
        let (load, row) = (snapshot.loads.get(self.load)?, self.row(self.table));
        match self.table {
            LiveTable::Slowest => load.slowest.get(row).map(|slow| slow.trace_id),
            LiveTable::Errors => load.errors.get(row).map(|error| error.trace_id),
            LiveTable::Steps | LiveTable::Criteria => None,
        }
    }

    pub(super) fn load(&self) -> usize {
        self.load
    }

    pub(super) fn table(&self) -> LiveTable {
        self.table
    }

    pub(super) fn row(&self, table: LiveTable) -> usize {
        self.rows[table as usize]
    }

    pub(super) fn is_helping(&self) -> bool {
        self.is_helping
    }

    pub(super) fn last_message(&self) -> Option<&str> {
        self.messages.back().map(String::as_str)
    }

    pub(super) fn opened(&self) -> Option<(Uuid, &[String])> {
        self.opened
            .as_ref()
            .map(|opened| (opened.trace_id, &opened.lines[opened.offset.min(opened.lines.len())..]))
    }
}
