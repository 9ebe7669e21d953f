//! Checks the tags of a step, and gives a group's tags to the actions within it.

use config::step;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use terms::tags::Tags;

/// The most tags of an action, with those of the groups around it.
const TAGS_MAX: usize = 10;
/// The longest name and the longest value of a tag, in characters.
const CHARS_MAX: usize = 100;

/// The tags of a step, with the tags `outer` of the groups around it. Its own value of a tag takes the place of a
/// group's.
pub(super) fn tags(outer: &Tags, step: &step::Step, node: &YamlNode, faults: &mut Vec<Fault>) -> Tags {
    let mut tags = outer.clone();
    let Some(written) = &step.tags else { return tags };
    let place = at(node, &["tags"]);
    for (tag, value) in written {
        faults.extend(faulty_name(tag).map(|fault| Fault { span: Some(key_span(place, tag)), ..fault }));
        let span = &at(place, &[tag]).span;
        faults.extend(faulty_value(value).map(|fault| Fault { span: Some(span.clone()), ..fault }));
    }
    if written.is_empty() {
        let fault = Fault::error(key_span(node, "tags"), "`tags` is empty");
        faults.push(fault.help("add a tag, such as `team: identity`, or remove the key"));
    }
    tags.extend(written.clone());
    if tags.len() > TAGS_MAX {
        let fault = Fault::error(key_span(node, "tags"), format!("an action with more than {TAGS_MAX} tags"));
        faults.push(fault.help("remove some of them; the tags of the groups around it count, too"));
    }
    tags
}

fn faulty_name(tag: &str) -> Option<Fault> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if !tag.is_empty() && tag.len() <= CHARS_MAX && tag.chars().all(known) {
        return None;
    }
    let fault = Fault::file(format!("`{tag}` is not a name for a tag"));
    Some(fault.help(format!("write letters, digits, `_`, `.` and `-`, at most {CHARS_MAX}")))
}

fn faulty_value(value: &str) -> Option<Fault> {
    let (message, help) = if value.contains("{{") {
        ("a tag cannot contain a template", "write a plain text: results are grouped by it")
    } else if value.trim().is_empty() {
        ("a tag without a value", "write one, such as `team: identity`")
    } else if value.chars().count() > CHARS_MAX || value.chars().any(char::is_control) {
        ("a tag's value is not a short text", "write one line of at most 100 characters")
    } else {
        return None;
    };
    Some(Fault::file(message).help(help))
}
