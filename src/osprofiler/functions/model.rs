//! A profile: which functions were seen on the stack, how often, and below which trace point.
//!
//! Profiles come from other programs, too. Everything is bounded when it is added, and nothing here draws
//! conclusions.

use std::collections::HashMap;

/// Longer names are cut to this many bytes.
pub const NAME_BYTES_MAX: usize = 500;
/// Of a deeper stack, the frames next to the work are kept.
pub const DEPTH_MAX: usize = 512;
/// More different stacks are not kept; their samples are counted.
pub const STACKS_MAX: usize = 20_000;
/// More different functions are not kept.
pub const FUNCTIONS_MAX: usize = 50_000;
/// Of the stacks of a profile, more samples are not counted: every sum of them then is a number that all formats can hold.
pub const SAMPLES_MAX: u64 = 1 << 53;
/// Fewer samples say nothing about a function's share: 10 % of 100 samples are 10 ± 3.
pub const SAMPLES_MIN: u64 = 100;

/// A function of the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// With its path, such as `service::render_reply`.
    pub name: String,
    /// The source file; empty if it is not known.
    pub file: String,
    /// The first line of it that was seen; 0 if it is not known.
    pub line: u32,
}

impl Function {
    /// A function with this name and nothing else known.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), file: String::new(), line: 0 }
    }

    /// `file:line(name)`, as Python's profiles have it; only the name if the file is not known.
    #[must_use]
    pub fn label(&self) -> String {
        if self.file.is_empty() {
            self.name.clone()
        } else {
            format!("{}:{}({})", self.file, self.line, self.name)
        }
    }
}

/// A stack that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The index of the trace point in [`FunctionProfile::points`], if it is known.
    pub point: Option<u32>,
    /// Indices in [`FunctionProfile::functions`], outermost first.
    pub frames: Vec<u32>,
    /// How often it was seen.
    pub samples: u64,
}

/// A place where tasks waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// The source file.
    pub file: String,
    /// The line in it.
    pub line: u32,
    /// How often a task waited there.
    pub count: u64,
    /// How long in all, in nanoseconds.
    pub waited_ns: u64,
}

/// The functions of one operation, or of several operations of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionProfile {
    /// The operation's name.
    pub operation: String,
    /// How often a busy thread was looked at, per second of processor time.
    pub hz: u32,
    /// How many operations were added up.
    pub operations: u64,
    /// Ids of trace points.
    pub points: Vec<String>,
    /// All functions.
    pub functions: Vec<Function>,
    /// All stacks; no two are alike.
    pub stacks: Vec<Stack>,
    /// Where tasks waited, if that was named.
    pub waits: Vec<Wait>,
    /// Samples whose stack was not kept, because there were too many different ones.
    pub left_out: u64,
    /// Samples of the same time that belong to no operation because their stack was too deep to be read to its end:
    /// some may belong to this one.
    pub too_deep: u64,
    /// The program has no names: it was stripped. Functions then are addresses.
    pub nameless: bool,
}

impl FunctionProfile {
    /// How many samples there are, with those left out.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.samples).fold(self.left_out, u64::saturating_add)
    }

    /// Whether there are too few samples to speak of shares.
    #[must_use]
    pub fn is_too_short(&self) -> bool {
        self.samples() < SAMPLES_MIN
    }

    /// Processor time per sample in seconds.
    #[must_use]
    pub fn seconds_per_sample(&self) -> f64 {
        1.0 / f64::from(self.hz.max(1))
    }

    /// What a reader must know before the numbers, in one line.
    #[must_use]
    pub fn header(&self) -> String {
        let short = if self.is_too_short() { "; too short for shares" } else { "" };
        let deep = if self.too_deep > 0 {
            format!("; {} stacks were too deep to say whose they are", self.too_deep)
        } else {
            String::new()
        };
        let left_out =
            if self.left_out > 0 { format!("; {} left out", self.left_out) } else { String::new() };
        let names = if self.nameless { "; the program is stripped: it has no names" } else { "" };
        format!(
            "ncalls are samples ({} per second of processor time), not calls{short}{left_out}{deep}{names}",
            self.hz
        )
    }
}

/// Makes a profile: equal functions, points and stacks become one.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    profile: FunctionProfile,
    functions: HashMap<(String, String), u32>,
    points: HashMap<String, u32>,
    stacks: HashMap<(Option<u32>, Vec<u32>), usize>,
    waits: HashMap<(String, u32), usize>,
    samples: u64,
}

impl Builder {
    /// An empty profile.
    #[must_use]
    pub fn new(operation: &str, hz: u32) -> Self {
        let profile = FunctionProfile { operation: cut(operation), hz, ..FunctionProfile::default() };
        Self { profile, ..Self::default() }
    }

    /// Adds a stack, outermost function first.
    pub fn add(&mut self, point: Option<&str>, frames: &[Function], samples: u64) {
        if samples == 0 {
            return;
        }
        let point = point.and_then(|id| self.point(id));
        let indices: Option<Vec<u32>> = frames.iter().map(|frame| self.function(frame)).collect();
        match indices {
            Some(indices) => self.add_indices(point, indices, samples),
            None => self.leave_out(samples),
        }
    }

    /// Counts samples without a stack.
    pub fn leave_out(&mut self, samples: u64) {
        self.profile.left_out = self.profile.left_out.saturating_add(samples);
    }

    /// Adds a place where tasks waited.
    pub fn add_wait(&mut self, wait: Wait) {
        let key = (wait.file.clone(), wait.line);
        if let Some(known) = self.waits.get(&key).and_then(|at| self.profile.waits.get_mut(*at)) {
            known.count = known.count.saturating_add(wait.count);
            known.waited_ns = known.waited_ns.saturating_add(wait.waited_ns);
        } else if self.profile.waits.len() < STACKS_MAX {
            self.waits.insert(key, self.profile.waits.len());
            self.profile.waits.push(Wait { file: cut(&wait.file), ..wait });
        }
    }

    /// Adds another profile. Without `points`, it is not kept which point each stack belongs to: that of several
    /// operations of one name.
    pub fn merge(&mut self, other: &FunctionProfile, points: bool) {
        let mine = &mut self.profile;
        mine.operations = mine.operations.saturating_add(other.operations.max(1));
        mine.too_deep = mine.too_deep.saturating_add(other.too_deep);
        mine.nameless |= other.nameless;
        if mine.hz == 0 {
            mine.hz = other.hz;
        }
        self.leave_out(other.left_out);
        let functions: Vec<Option<u32>> =
            other.functions.iter().map(|function| self.function(function)).collect();
        for stack in &other.stacks {
            let id = stack.point.and_then(|point| other.points.get(point as usize));
            let point = id.filter(|_| points).and_then(|id| self.point(id));
            let frames: Option<Vec<u32>> =
                stack.frames.iter().map(|frame| functions.get(*frame as usize).copied().flatten()).collect();
            match frames {
                Some(frames) => self.add_indices(point, frames, stack.samples),
                None => self.leave_out(stack.samples),
            }
        }
        other.waits.iter().cloned().for_each(|wait| self.add_wait(wait));
    }

    /// Notes how many operations it is made of.
    pub fn set_operations(&mut self, operations: u64) {
        self.profile.operations = operations;
    }

    /// See [`FunctionProfile::too_deep`].
    pub fn set_too_deep(&mut self, samples: u64) {
        self.profile.too_deep = samples;
    }

    /// See [`FunctionProfile::nameless`].
    pub fn set_nameless(&mut self, nameless: bool) {
        self.profile.nameless = nameless;
    }

    /// The profile; stacks with most samples first.
    #[must_use]
    pub fn finish(mut self) -> FunctionProfile {
        let order = |stack: &Stack| (std::cmp::Reverse(stack.samples), stack.point, stack.frames.clone());
        self.profile.stacks.sort_by_cached_key(order);
        self.profile.waits.sort_by_key(|wait| std::cmp::Reverse(wait.waited_ns));
        self.profile
    }

    fn add_indices(&mut self, point: Option<u32>, mut frames: Vec<u32>, samples: u64) {
        let samples = samples.min(SAMPLES_MAX - self.samples);
        if samples == 0 {
            return;
        }
        frames.drain(..frames.len().saturating_sub(DEPTH_MAX));
        let key = (point, frames);
        let stacks = &mut self.profile.stacks;
        let known = self.stacks.get(&key).copied();
        if let Some(stack) = known.and_then(|at| stacks.get_mut(at)) {
            stack.samples += samples;
        } else if stacks.len() < STACKS_MAX {
            stacks.push(Stack { point, frames: key.1.clone(), samples });
            self.stacks.insert(key, stacks.len() - 1);
        } else {
            return self.leave_out(samples);
        }
        self.samples += samples;
    }

    /// A function by its file and name: its lines are one.
    fn function(&mut self, function: &Function) -> Option<u32> {
        let key = (cut(&function.file), cut(&function.name));
        if let Some(&index) = self.functions.get(&key) {
            let known = self.profile.functions.get_mut(index as usize)?;
            if function.line > 0 && (known.line == 0 || function.line < known.line) {
                known.line = function.line;
            }
            return Some(index);
        }
        if self.profile.functions.len() >= FUNCTIONS_MAX {
            return None;
        }
        let index = u32::try_from(self.profile.functions.len()).ok()?;
        let (file, name) = key.clone();
        self.functions.insert(key, index);
        self.profile.functions.push(Function { name, file, line: function.line });
        Some(index)
    }

    fn point(&mut self, id: &str) -> Option<u32> {
        if let Some(&index) = self.points.get(id) {
            return Some(index);
        }
        if self.profile.points.len() >= STACKS_MAX {
            return None;
        }
        let index = u32::try_from(self.profile.points.len()).ok()?;
        self.points.insert(id.to_owned(), index);
        self.profile.points.push(cut(id));
        Some(index)
    }
}

/// A text of at most [`NAME_BYTES_MAX`]; names that differ only after the cut become one.
fn cut(text: &str) -> String {
    if text.len() <= NAME_BYTES_MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(NAME_BYTES_MAX)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_that_no_sampler_reaches_are_bounded_together() {
        for (counts, expected) in [
            (vec![7, 5], vec![7, 5]),
            (vec![u64::MAX, u64::MAX, 3], vec![SAMPLES_MAX]),
            (vec![SAMPLES_MAX - 2, 5, 9], vec![SAMPLES_MAX - 2, 2]),
        ] {
            let mut builder = Builder::new("o", 100);
            for (number, samples) in counts.iter().enumerate() {
                builder.add(None, &[Function::named(&format!("f{number}"))], *samples);
            }
            let profile = builder.finish();
            let samples: Vec<u64> = profile.stacks.iter().map(|stack| stack.samples).collect();
            assert_eq!((samples, profile.samples() <= SAMPLES_MAX), (expected, true), "{counts:?}");
        }
    }
}
