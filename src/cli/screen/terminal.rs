//! The terminal as a screen: its other buffer, without a cursor and without an echo of keys; and as it was, at every end.
//!
//! Ctrl-C stays a signal, so that it works as without a screen, however busy the program is.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::queue;
use crossterm::style::{Attribute, Color as TerminalColor, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

use crate::output;
use keys::SavedKeys;

/// How long a terminal that takes nothing may hold up the end.
const PATIENCE: Duration = Duration::from_millis(300);
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// What is changed of the terminal, and has to be made as it was.
static CHANGED: Mutex<TerminalChange> = Mutex::new(TerminalChange { keys: None, is_shown: false });

struct TerminalChange {
    keys: Option<SavedKeys>,
    is_shown: bool,
}

fn changed() -> MutexGuard<'static, TerminalChange> {
    CHANGED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the other buffer, which is empty then. Messages wait.
pub(super) fn show() -> io::Result<()> {
    output::hold(restore);
    let mut changed = changed();
    if changed.keys.is_none() {
        changed.keys = SavedKeys::take();
    }
    keys::suspend_by_key(false);
    changed.is_shown = true;
    let mut terminal = output::terminal();
    queue!(terminal, EnterAlternateScreen, Hide, Clear(ClearType::All))?;
    terminal.flush()
}

/// Shows what was there before. Keys are still read.
pub(super) fn hide() {
    restore_screen();
    keys::suspend_by_key(true);
}

/// Makes the terminal as it was; without effect if it is.
pub(super) fn restore() {
    restore_screen();
    let keys = within_patience().and_then(|mut changed| changed.keys.take());
    if let Some(keys) = keys {
        keys.restore();
    }
}

fn restore_screen() {
    if let Some(mut changed) = within_patience()
        && std::mem::take(&mut changed.is_shown)
    {
        let mut terminal = output::terminal();
        // A terminal that is gone needs nothing.
        let _ = queue!(terminal, SetAttribute(Attribute::Reset), Show, LeaveAlternateScreen);
        let _ = terminal.flush();
    }
    output::release();
}

/// Whoever draws on a terminal that takes nothing keeps the lock.
fn within_patience() -> Option<MutexGuard<'static, TerminalChange>> {
    let began = Instant::now();
    loop {
        match CHANGED.try_lock() {
            Ok(changed) => return Some(changed),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if began.elapsed() < PATIENCE => std::thread::sleep(AGAIN_AFTER),
            Err(TryLockError::WouldBlock) => return None,
        }
    }
}

/// Draws what differs from the frame before, if the screen is shown.
pub(super) fn draw(before: &Buffer, now: &Buffer) -> io::Result<()> {
    let mut bytes = Vec::new();
    write_difference(before, now, &mut bytes)?;
    let changed = changed();
    if changed.is_shown {
        let mut terminal = output::terminal();
        terminal.write_all(&bytes)?;
        terminal.flush()?;
    }
    Ok(())
}

fn write_difference(before: &Buffer, now: &Buffer, terminal: &mut Vec<u8>) -> io::Result<()> {
    let mut style = CellStyle::default();
    let mut behind = None;
    if before.area != now.area {
        queue!(terminal, Clear(ClearType::All))?;
    }
    let blank = Buffer::empty(now.area);
    let before = if before.area == now.area { before } else { &blank };
    for (x, y, cell) in before.diff(now) {
        if behind != Some((x, y)) {
            queue!(terminal, MoveTo(x, y))?;
        }
        behind = Some((x + 1, y));
        style.change(CellStyle::of(cell), terminal)?;
        queue!(terminal, Print(cell.symbol()))?;
    }
    style.change(CellStyle::default(), terminal)
}

/// How a cell looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CellStyle {
    colour: Color,
    modifier: Modifier,
}

impl Default for CellStyle {
    fn default() -> Self {
        Self { colour: Color::Reset, modifier: Modifier::empty() }
    }
}

impl CellStyle {
    fn of(cell: &Cell) -> Self {
        Self { colour: cell.fg, modifier: cell.modifier }
    }

    fn change(&mut self, wanted: Self, terminal: &mut impl Write) -> io::Result<()> {
        if *self == wanted {
            return Ok(());
        }
        // Bold and faint have a common end, so everything begins anew.
        queue!(terminal, SetAttribute(Attribute::Reset))?;
        for (modifier, attribute) in [
            (Modifier::BOLD, Attribute::Bold),
            (Modifier::DIM, Attribute::Dim),
            (Modifier::REVERSED, Attribute::Reverse),
        ] {
            if wanted.modifier.contains(modifier) {
                queue!(terminal, SetAttribute(attribute))?;
            }
        }
        let colour = match wanted.colour {
            Color::Red => Some(TerminalColor::DarkRed),
            Color::Green => Some(TerminalColor::DarkGreen),
            Color::Yellow => Some(TerminalColor::DarkYellow),
            Color::Indexed(number) => Some(TerminalColor::AnsiValue(number)),
            _ => None,
        };
        if let Some(colour) = colour {
            queue!(terminal, SetForegroundColor(colour))?;
        }
        *self = wanted;
        Ok(())
    }
}

#[cfg(unix)]
mod keys {
    //! Keys come one by one and are not echoed. Signals and line ends stay as they are.

    use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};

    /// The value of a key that does nothing.
    const DISABLED: u8 = 0;

    pub(super) struct SavedKeys(Termios);

    impl SavedKeys {
        pub(super) fn take() -> Option<Self> {
            let saved = tcgetattr(std::io::stdin()).ok()?;
            let mut changed = saved.clone();
            changed.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            changed.special_codes[SpecialCodeIndex::VMIN] = 1;
            changed.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(std::io::stdin(), OptionalActions::Now, &changed).ok()?;
            Some(Self(saved))
        }

        pub(super) fn restore(self) {
            // A terminal that is gone needs nothing. What was typed for the screen is nothing for a shell.
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Flush, &self.0);
        }
    }

    /// Whether Ctrl-Z and Ctrl-\ have their usual effects: while the screen is shown, they would leave it behind.
    pub(super) fn suspend_by_key(enabled: bool) {
        let Ok(mut termios) = tcgetattr(std::io::stdin()) else { return };
        for (index, usual) in [(SpecialCodeIndex::VSUSP, 0x1a), (SpecialCodeIndex::VQUIT, 0x1c)] {
            termios.special_codes[index] = if enabled { usual } else { DISABLED };
        }
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &termios);
    }
}

#[cfg(not(unix))]
mod keys {
    //! The library knows how.

    pub(super) struct SavedKeys;

    impl SavedKeys {
        pub(super) fn take() -> Option<Self> {
            crossterm::terminal::enable_raw_mode().ok().map(|()| Self)
        }

        pub(super) fn restore(self) {
            let _ = crossterm::terminal::disable_raw_mode();
        }
    }

    pub(super) fn suspend_by_key(_enabled: bool) {}
}
