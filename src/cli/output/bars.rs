//! Lines that move at the bottom of a terminal.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line that moves.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Identifies the line.
    pub(crate) key: usize,
    /// The progress.
    pub(crate) position: u64,
    /// The end of the progress.
    pub(crate) length: u64,
    /// The text beside the bar.
    pub(crate) text: String,
}

/// The lines on the terminal.
#[derive(Default)]
pub(super) struct TerminalBars {
    /// Present only while lines move: bars that outlive a load would be drawn over later output.
    all: Option<MultiProgress>,
    bars: Vec<(usize, ProgressBar)>,
}

impl TerminalBars {
    /// Draws these lines instead of the previous ones.
    pub(super) fn show(&mut self, bars: Vec<Bar>) {
        self.bars.retain(|(key, bar)| {
            let stays = bars.iter().any(|wanted| wanted.key == *key);
            if !stays {
                bar.finish_and_clear();
            }
            stays
        });
        for Bar { key, position, length, text } in bars {
            let bar = match self.bars.iter().find(|(known, _)| *known == key) {
                Some((_, bar)) => bar,
                None => {
                    let bar = self.add(length);
                    self.bars.push((key, bar));
                    &self.bars[self.bars.len() - 1].1
                }
            };
            bar.set_position(position.min(length));
            bar.set_message(text);
        }
        if self.bars.is_empty()
            && let Some(all) = self.all.take()
        {
            // A closed terminal needs no cleaning.
            let _ = all.clear();
        }
    }

    fn add(&mut self, length: u64) -> ProgressBar {
        let target = || MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let bar = self.all.get_or_insert_with(target).add(ProgressBar::new(length));
        // The message is cut at the terminal's edge, so that each bar stays on its line.
        if let Ok(style) = ProgressStyle::with_template("{bar:16} {percent:>3}%  {wide_msg}") {
            bar.set_style(style);
        }
        bar
    }

    /// Writes other text, above the lines.
    pub(super) fn aside(&self, write: impl FnOnce()) {
        match &self.all {
            Some(all) => all.suspend(write),
            None => write(),
        }
    }
}
