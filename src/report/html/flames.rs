//! Flame graphs of functions, drawn without a script: boxes as wide as their samples, callers above.
//!
//! Names are hostile: text is escaped, and neither the depth nor the number of boxes depends on it alone. A box has the
//! colour of its difference, if there is something to compare with.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use osprofiler::functions::model::FunctionProfile;
use results::functions::Functions;
use results::model::ComparedFunctions;

use super::text;

/// The width of the drawing, in pixels.
const WIDTH: f64 = 1_200.0;
const ROW: usize = 18;
/// Narrower boxes are left out.
const BOX_MIN: f64 = 1.0;
/// About the width of a character.
const CHAR: f64 = 6.6;
const DEPTH_MAX: usize = 80;
const BOXES_MAX: usize = 3_000;
const NAME_CHARS_MAX: usize = 200;

/// A function where it is called from one place, with the samples in or below it.
#[derive(Default)]
struct FlameNode {
    samples: f64,
    /// The same on the other side of a comparison.
    other: f64,
    children: BTreeMap<String, FlameNode>,
}

impl FlameNode {
    /// Adds the stacks of a profile.
    fn add(&mut self, profile: &FunctionProfile) {
        for stack in &profile.stacks {
            let samples = stack.samples as f64;
            self.samples += samples;
            let mut node = &mut *self;
            for &frame in stack.frames.iter().take(DEPTH_MAX) {
                let label = profile.functions.get(frame as usize).map_or("?", |f| f.name.as_str());
                let label = text::shortened(label, NAME_CHARS_MAX).into_owned();
                node = node.children.entry(label).or_default();
                node.samples += samples;
            }
        }
    }
}

/// The functions of a trace; empty without any.
pub(super) fn of_trace(functions: &Functions) -> String {
    let mut root = FlameNode::default();
    let mut hz = 0;
    for profile in &functions.profiles {
        hz = profile.hz;
        let mut one = FlameNode::default();
        one.add(profile);
        root.samples += one.samples;
        let label = format!("{} ({} samples a second)", profile.operation, profile.hz);
        let node = root.children.entry(label).or_default();
        merge(node, one);
    }
    if hz == 0 || root.samples <= 0.0 {
        return String::new();
    }
    draw(&root, |node, whole| {
        let share = node.samples / whole * 100.0;
        (format!("{:.0} samples, {share:.1} %", node.samples), "same")
    })
}

/// The functions of slow iterations, as wide as they take processor time, coloured by the difference to typical ones.
/// Empty without any.
pub(super) fn of_difference(compared: &ComparedFunctions) -> String {
    let mut root =
        FlameNode { samples: compared.slow_ms, other: compared.typical_ms, ..FlameNode::default() };
    // The names from the root to the last node: the list is depth first.
    let mut path: Vec<&str> = Vec::new();
    for node in &compared.tree {
        let depth = (node.depth as usize).min(path.len()).min(DEPTH_MAX);
        path.truncate(depth);
        path.push(&node.name);
        let place =
            path.iter().fold(&mut root, |at, name| at.children.entry((*name).to_owned()).or_default());
        place.samples += node.slow_ms;
        place.other += node.typical_ms;
    }
    let difference = root.samples - root.other;
    if root.samples <= 0.0 || difference <= 0.0 {
        return String::new();
    }
    draw(&root, |node, _| {
        let share = (node.samples - node.other) / difference;
        let class = match share {
            share if share > 0.02 => "hot",
            share if share < -0.02 => "cold",
            _ => "same",
        };
        let said = format!(
            "slow {:.2} ms, typical {:.2} ms, {:.0} % of the difference",
            node.samples,
            node.other,
            share * 100.0
        );
        (said, class)
    })
}

fn merge(into: &mut FlameNode, from: FlameNode) {
    into.samples += from.samples;
    // As deep as stacks are kept, which is bounded.
    for (name, child) in from.children {
        merge(into.children.entry(name).or_default(), child);
    }
}

/// Draws the boxes; `say` gives the text and the class of each.
fn draw(root: &FlameNode, say: impl Fn(&FlameNode, f64) -> (String, &'static str)) -> String {
    let whole = root.samples;
    let (mut boxes, mut drawn, mut rows) = (String::new(), 0, 1);
    // Name, node, left edge, depth.
    let mut open: Vec<(&str, &FlameNode, f64, usize)> = Vec::new();
    open_children(&mut open, root, 0.0, 0, whole);
    while let Some((name, node, left, depth)) = open.pop() {
        let width = node.samples / whole * WIDTH;
        if width < BOX_MIN || drawn >= BOXES_MAX {
            continue;
        }
        drawn += 1;
        rows = rows.max(depth + 1);
        let (said, class) = say(node, whole);
        let y = depth * ROW;
        // Writing to a string does not fail.
        let _ = write!(
            boxes,
            "<g class=\"cell\"><title>{}: {said}</title><rect x=\"{left:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" class=\"{class}\"/>",
            escaped(name),
            (width - 0.5).max(0.5),
            ROW - 1
        );
        let room = ((width - 6.0) / CHAR).max(0.0) as usize;
        if room > 3 {
            let shown = escaped(&short(name, room));
            let _ = write!(boxes, "<text x=\"{:.1}\" y=\"{}\">{shown}</text>", left + 3.0, y + 13);
        }
        boxes.push_str("</g>");
        open_children(&mut open, node, left, depth + 1, whole);
    }
    let height = rows * ROW;
    format!(
        "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Flame graph of functions\">{boxes}</svg>"
    )
}

/// Puts a node's children side by side, from this edge on.
fn open_children<'n>(
    open: &mut Vec<(&'n str, &'n FlameNode, f64, usize)>,
    node: &'n FlameNode,
    left: f64,
    depth: usize,
    whole: f64,
) {
    let mut at = left;
    for (name, child) in &node.children {
        open.push((name, child, at, depth));
        at += child.samples / whole * WIDTH;
    }
}

/// The end of a path says more than its beginning.
fn short(name: &str, chars: usize) -> String {
    let count = name.chars().count();
    if count <= chars {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(count - (chars - 1)).collect();
    format!("…{kept}")
}

/// Text for markup, with deceptive characters written out.
fn escaped(name: &str) -> String {
    let mut safe = String::new();
    for c in base::visible::on_one_line(name).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use osprofiler::functions::model::{Builder, Function};

    fn profile(stacks: &[(&[&str], u64)]) -> FunctionProfile {
        let mut builder = Builder::new("wsgi", 100);
        for (names, samples) in stacks {
            let frames: Vec<Function> = names.iter().map(|name| Function::named(name)).collect();
            builder.add(None, &frames, *samples);
        }
        builder.finish()
    }

    #[test]
    fn boxes_are_as_wide_as_their_samples_and_names_are_escaped() {
        let one = profile(&[(&["main", "<script>alert(1)</script>"], 75), (&["main"], 25)]);
        let svg = of_trace(&Functions { profiles: vec![one], unreadable: 0 });
        assert!(!svg.contains("<script") && svg.contains("&lt;script&gt;"), "{svg}");
        assert!(svg.contains("width=\"1199.5\"") && svg.contains("width=\"899.5\""), "{svg}");
        assert!(svg.contains("75 samples, 75.0 %"), "{svg}");
        assert_eq!(of_trace(&Functions::default()), "");
    }

    #[test]
    fn differences_are_of_milliseconds_of_an_iteration() {
        let node = |depth, name: &str, slow_ms, typical_ms| results::model::FunctionNode {
            depth,
            name: name.into(),
            slow_ms,
            typical_ms,
        };
        let tree =
            vec![node(0, "render", 100.0, 40.0), node(1, "format", 60.0, 0.0), node(9, "deep", 5.0, 0.0)];
        let compared =
            ComparedFunctions { slow_ms: 100.0, typical_ms: 40.0, tree, ..ComparedFunctions::default() };
        let svg = of_difference(&compared);
        assert!(svg.contains("format: slow 60.00 ms, typical 0.00 ms, 100 % of the difference"), "{svg}");
        assert!(svg.contains("class=\"hot\"") && svg.contains("deep"));
        assert_eq!(of_difference(&ComparedFunctions::default()), "");
    }

    #[test]
    fn a_hostile_profile_is_bounded() {
        let deep: Vec<String> = (0..500).map(|number| format!("f{number}")).collect();
        let deep: Vec<&str> = deep.iter().map(String::as_str).collect();
        let wide: Vec<String> = (0..10_000).map(|number| format!("w{number}")).collect();
        let mut stacks: Vec<(&[&str], u64)> = vec![(&deep, u64::MAX / 2)];
        let wide: Vec<[&str; 1]> = wide.iter().map(|name| [name.as_str()]).collect();
        stacks.extend(wide.iter().map(|names| (&names[..], u64::MAX / 20_000)));
        let svg = of_trace(&Functions { profiles: vec![profile(&stacks)], unreadable: 0 });
        assert!(svg.matches("<rect").count() <= BOXES_MAX);
        assert!(svg.len() < 1 << 20, "{}", svg.len());
    }
}
