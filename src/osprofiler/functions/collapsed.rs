//! Collapsed (or folded) stacks: a line for each stack, functions separated by semicolons, then the samples.
//!
//! The format has no header and no escapes: what would break a line in a name is replaced. The outermost frame is the
//! operation with the rate, so that a flame graph shows them.

use std::fmt::Write as _;

use super::model::{Builder, Function, FunctionProfile};

/// Longer texts are not read.
pub const TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The text.
#[must_use]
pub fn encode(profile: &FunctionProfile) -> String {
    let mut text = String::new();
    let root = format!("{} ({} samples a second)", name(&profile.operation), profile.hz);
    for stack in &profile.stacks {
        text.push_str(&root);
        for &frame in &stack.frames {
            text.push(';');
            text.push_str(&profile.functions.get(frame as usize).map_or_else(String::new, |f| name(&f.name)));
        }
        // Writing to a string does not fail.
        let _ = writeln!(text, " {}", stack.samples);
    }
    text
}

/// Reads a text; lines that are no stack are counted and left out. The outermost frame may say the operation and the rate,
/// as [`encode`] writes it; else they are as given.
#[must_use]
pub fn decode(operation: &str, hz: u32, text: &str) -> (FunctionProfile, u64) {
    let said = said(text);
    let (operation, hz) = said.unwrap_or((operation, hz));
    let mut builder = Builder::new(operation, hz);
    builder.set_operations(1);
    let mut unreadable = 0;
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let parsed = line.trim_end().rsplit_once(' ').and_then(|(stack, samples)| {
            let samples: u64 = samples.parse().ok()?;
            Some((stack, samples))
        });
        let Some((stack, samples)) = parsed else {
            unreadable += 1;
            continue;
        };
        let frames = stack.split(';').skip(usize::from(said.is_some()));
        let frames: Vec<Function> = frames.map(|frame| Function::named(frame.trim())).collect();
        builder.add(None, &frames, samples);
    }
    (builder.finish(), unreadable)
}

/// The operation and the rate, if every stack's outermost frame says the same.
fn said(text: &str) -> Option<(&str, u32)> {
    let outermost = |line: &'_ str| line.split(';').next().unwrap_or_default().len();
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let root = &first[..outermost(first)];
    let (operation, rate) = root.strip_suffix(" samples a second)")?.rsplit_once(" (")?;
    let hz = rate.parse().ok()?;
    let alike = |line: &str| line.split(';').next() == Some(root) && line.len() > root.len();
    text.lines().filter(|line| !line.trim().is_empty()).all(alike).then_some((operation, hz))
}

fn name(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}
