//! The screen as a picture for the documents: `tests/pages` has what the program draws.

use std::fmt::Write as _;

use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::style::{Color, Modifier};

use super::ScreenView;
use super::tests::{drawn, explained};

/// A cell of the terminal, in units of the picture.
const CELL: (u16, u16) = (8, 17);
const MARGIN: u16 = 12;

fn colour_of(cell: &Cell) -> &'static str {
    match cell.fg {
        Color::Green => "#7ad08a",
        Color::Yellow => "#e3c15c",
        Color::Red => "#f08a84",
        Color::Indexed(60) => "#5f5f87",
        Color::Indexed(61) => "#5f5faf",
        Color::Indexed(31) => "#0087af",
        Color::Indexed(36) => "#00af87",
        Color::Indexed(113) => "#87d75f",
        Color::Indexed(226) => "#ffff00",
        _ if cell.modifier.contains(Modifier::DIM) => "#9198a1",
        _ => "#e6e6e6",
    }
}

/// A text with its own length, so that columns stand below each other in every font.
fn run(svg: &mut String, (x, y): (u16, u16), text: &str, first: &Cell) {
    let columns = u16::try_from(text.chars().count()).unwrap();
    let (left, base) = (MARGIN + x * CELL.0, MARGIN + y * CELL.1 + 13);
    let (colour, length) = (colour_of(first), columns * CELL.0);
    let weight = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"{base}\" fill=\"{colour}\" textLength=\"{length}\"{weight}>{text}</text>"
    )
    .unwrap();
}

fn svg(buffer: &Buffer, title: &str) -> String {
    let (width, height) = (buffer.area.width * CELL.0 + 2 * MARGIN, buffer.area.height * CELL.1 + 2 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"13\" xml:space=\"preserve\">\n\
         <title>{title}</title>\n<rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#16181d\"/>\n"
    );
    for y in 0..buffer.area.height {
        let mut x = 0;
        while x < buffer.area.width {
            let first = &buffer[(x, y)];
            let alike = |at: u16| {
                let cell = &buffer[(at, y)];
                (cell.fg, cell.modifier) == (first.fg, first.modifier)
                    && (cell.symbol() == " ") == (first.symbol() == " ")
            };
            let end = (x..buffer.area.width).take_while(|at| alike(*at)).last().unwrap_or(x) + 1;
            if first.symbol() != " " {
                let text: String = (x..end).map(|at| buffer[(at, y)].symbol()).collect();
                run(&mut svg, (x, y), &text, first);
            }
            x = end;
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[test]
fn the_picture_in_the_documents_is_what_is_drawn() {
    let buffer = drawn(&explained(), &ScreenView::new(true), (110, 34));
    let picture = svg(&buffer, "bench's screen while a load runs").into_bytes();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(text::page::FOLDER);
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_binary_snapshot!("live-screen.svg", picture));
}
