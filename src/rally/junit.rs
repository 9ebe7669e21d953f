//! A run as JUnit XML in the shape of Rally's `junit-xml`: a suite for the task, a case for each workload.

use super::report::{TaskPart, TaskReport, detail, holds, time};
use measure::log::{Header, HookRun};
use results::model::Results;

/// The XML.
#[must_use]
pub fn render(header: &Header, results: &Results, hooks: &[HookRun]) -> String {
    let task = TaskReport::new(header, results, hooks);
    let (began, ended) = task.span_s();
    let (mut cases, mut tests, mut failures) = (String::new(), 0, 0);
    for (first, subtask) in task.subtasks() {
        for (offset, workload) in subtask.workloads.iter().enumerate() {
            let Some(figures) = results.workloads.get(first + offset) else { continue };
            tests += 1;
            let (class, name) = workload.scenario.split_once('.').unwrap_or(("", &workload.scenario));
            let broken: Vec<String> =
                task.criteria(&figures.name).into_iter().filter(|c| !holds(c)).map(detail).collect();
            let attributes = format!(
                "classname=\"{}\" id=\"{}\" name=\"{}\" time=\"{:.2}\" timestamp=\"{}\"",
                escaped(class),
                task.id(TaskPart::Workload, first + offset),
                escaped(name),
                figures.duration_s,
                time(task.span_of(figures).0)
            );
            if broken.is_empty() {
                cases.extend([format!("    <testcase {attributes} />\n")]);
            } else {
                failures += 1;
                let text = escaped(&broken.join("\n"));
                let failure = format!("      <failure>{text}</failure>\n");
                cases.extend([
                    format!("    <testcase {attributes}>\n"),
                    failure,
                    "    </testcase>\n".to_owned(),
                ]);
            }
        }
    }
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite errors=\"0\" failures=\"{failures}\" \
         id=\"{}\" skipped=\"0\" tests=\"{tests}\" time=\"{:.2}\" timestamp=\"{}\">\n{cases}  </testsuite>\n</testsuites>\n",
        header.run_id,
        ended.saturating_sub(began) as f64,
        time(began)
    )
}

/// For XML's texts and attributes; without characters that XML cannot have.
fn escaped(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => output.push_str("&amp;"),
            '<' => output.push_str("&lt;"),
            '>' => output.push_str("&gt;"),
            '"' => output.push_str("&quot;"),
            '\n' | '\t' => output.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => output.push('\u{fffd}'),
            c => output.push(c),
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        assert_eq!(escaped("<a> & \"b\"\u{1b}\n"), "&lt;a&gt; &amp; &quot;b&quot;\u{fffd}\n");
    }
}
