//! Where the screen is drawn: a buffer, with texts that stay inside their places, and colours if there are any.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};
use unicode_width::UnicodeWidthStr as _;

/// What a text or a mark means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    /// A heading.
    Strong,
    /// What is less important.
    Faint,
    Good,
    Doubtful,
    Bad,
    Median,
    Upper,
    Top,
    /// How many samples there are, from 0 to 5.
    Heat(u8),
    /// The chosen row.
    Chosen,
}

/// From few to many samples, in the palette of 256 colours: violet, blue, green, yellow.
const HEAT: [u8; 6] = [60, 61, 31, 36, 113, 226];

/// A buffer to draw to.
pub(super) struct Canvas<'a> {
    buffer: &'a mut Buffer,
    colours: bool,
}

impl<'a> Canvas<'a> {
    pub(super) fn new(buffer: &'a mut Buffer, colours: bool) -> Self {
        Self { buffer, colours }
    }

    fn style(&self, tone: Tone) -> Style {
        let style = Style::default();
        let style = match tone {
            Tone::Strong => style.add_modifier(Modifier::BOLD),
            Tone::Faint => style.add_modifier(Modifier::DIM),
            Tone::Bad => style.add_modifier(Modifier::BOLD),
            Tone::Chosen => style.add_modifier(Modifier::REVERSED),
            _ => style,
        };
        if !self.colours {
            return style;
        }
        match tone {
            Tone::Good | Tone::Median => style.fg(Color::Green),
            Tone::Doubtful | Tone::Upper => style.fg(Color::Yellow),
            Tone::Bad | Tone::Top => style.fg(Color::Red),
            Tone::Heat(level) => style.fg(Color::Indexed(HEAT[usize::from(level).min(HEAT.len() - 1)])),
            Tone::Plain | Tone::Strong | Tone::Faint | Tone::Chosen => style,
        }
    }

    /// Writes a text from this column of a row of the area on, cut at its end. Returns the column behind it.
    pub(super) fn text(&mut self, area: Rect, (x, y): (u16, u16), text: &str, tone: Tone) -> u16 {
        if x >= area.width || y >= area.height {
            return x;
        }
        let room = usize::from(area.width - x);
        let text = cut(text, room);
        let style = self.style(tone);
        self.buffer.set_stringn(area.x + x, area.y + y, &text, room, style);
        x + u16::try_from(text.width()).unwrap_or(u16::MAX)
    }

    /// Writes parts of a line, one after the other.
    pub(super) fn line(&mut self, area: Rect, y: u16, parts: &[(String, Tone)]) -> u16 {
        parts.iter().fold(0, |x, (text, tone)| self.text(area, (x, y), text, *tone))
    }

    /// Writes a text that ends at this column of a row of the area.
    pub(super) fn text_to(&mut self, area: Rect, (end, y): (u16, u16), text: &str, tone: Tone) {
        let width = u16::try_from(text.width()).unwrap_or(u16::MAX);
        if width <= end {
            self.text(area, (end - width, y), text, tone);
        }
    }

    /// Draws a single character.
    pub(super) fn mark(&mut self, area: Rect, (x, y): (u16, u16), mark: char, tone: Tone) {
        if x < area.width && y < area.height {
            let style = self.style(tone);
            if let Some(cell) = self.buffer.cell_mut((area.x + x, area.y + y)) {
                cell.set_char(mark).set_style(style);
            }
        }
    }

    /// Marks a whole row of the area as the chosen one.
    pub(super) fn choose(&mut self, area: Rect, y: u16) {
        if y < area.height {
            self.buffer.set_style(Rect::new(area.x, area.y + y, area.width, 1), self.style(Tone::Chosen));
        }
    }
}

/// The text in this many columns, with an ellipsis if it was longer.
pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        let mut room = [0; 4];
        if kept.width() + c.encode_utf8(&mut room).width() + 1 > columns {
            break;
        }
        kept.push(c);
    }
    if columns > 0 {
        kept.push('…');
    }
    kept
}

/// The text with spaces up to this many columns.
pub(super) fn filled(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let missing = columns.saturating_sub(text.width());
    text + &" ".repeat(missing)
}

/// The same with the spaces before it.
pub(super) fn filled_before(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    " ".repeat(columns.saturating_sub(text.width())) + &text
}
