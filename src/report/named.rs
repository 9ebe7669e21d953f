//! What a kind of point is called, in sentences and tables: its name, its service, and the point around it.

use super::document::StyledLine;
use super::texts::{point_name, statement_in_short};
use analysis::explanation::{OUTSIDE, QUEUE_TIME};
use results::client_points::{ACTION, ITERATION, QUEUE_TIME_POINT, REPORTER};
use results::model::{ComparedKind, Explanation, Finding, Place};

/// Sentences shorten code; tables show all of it.
const CODE_CHARS_MAX: usize = 100;

pub(super) fn in_short(code: &str) -> String {
    let cut = code.char_indices().nth(CODE_CHARS_MAX).map(|(at, _)| format!("{}…", code[..at].trim_end()));
    cut.unwrap_or_else(|| code.to_owned())
}

/// What a kind of point is called, from its four texts.
#[derive(Clone, Copy, Debug)]
pub struct PointLabel<'a> {
    /// Where the time was spent.
    pub place: Place,
    /// The service that reported it.
    pub service: &'a str,
    /// The point's name.
    pub name: &'a str,
    /// What it did.
    pub detail: &'a str,
    /// Name and detail of the point around it.
    pub parent: &'a str,
}

pub(super) fn name_of(kind: &ComparedKind) -> PointLabel<'_> {
    let place = match () {
        () if kind.outside => Place::Outside,
        () if kind.service == REPORTER && kind.name == QUEUE_TIME_POINT => Place::QueueTime,
        () => Place::Point,
    };
    let ComparedKind { service, name, detail, parent, .. } = kind;
    PointLabel { place, service, name, detail, parent }
}

impl<'a> From<&'a Explanation> for PointLabel<'a> {
    fn from(seen: &'a Explanation) -> Self {
        let Explanation { place, service, name, detail, parent, .. } = seen;
        Self { place: *place, service, name, detail, parent }
    }
}

impl<'a> From<&'a Finding> for PointLabel<'a> {
    fn from(seen: &'a Finding) -> Self {
        let Finding { place, service, name, detail, parent, .. } = seen;
        let place = match (*place, name.as_str()) {
            // Of earlier builds.
            (Place::Point, OUTSIDE) => Place::Outside,
            (place, _) => place,
        };
        Self { place, service, name, detail, parent }
    }
}

impl PointLabel<'_> {
    /// With its service and its parent.
    #[must_use]
    pub fn whole(&self) -> StyledLine {
        let mut line = self.in_service();
        let is_below = self.place == Place::Point && !self.parent.is_empty();
        if let Some(action) = self.parent.strip_prefix(ACTION).filter(|_| is_below) {
            line.text(", action ").code(in_short(action.trim_start()));
        } else if is_below && !self.parent.starts_with(ITERATION) {
            line.text(" under ").code(in_short(&kind_of_point(self.parent)));
        }
        line.done()
    }

    /// With its service.
    #[must_use]
    pub fn in_service(&self) -> StyledLine {
        let mut line = self.in_short();
        match self.place {
            Place::Outside if self.detail.starts_with('(') => line.text(format!(" {}", self.detail)),
            Place::Outside if !self.detail.is_empty() => line.text(" in action ").code(in_short(self.detail)),
            Place::Point if !self.service.is_empty() && self.service != REPORTER => {
                line.text(format!(" in {}", self.service))
            }
            _ => &mut line,
        };
        line.done()
    }

    /// The name alone.
    #[must_use]
    pub fn in_short(&self) -> StyledLine {
        match self.place {
            Place::QueueTime => QUEUE_TIME.into(),
            Place::Outside => format!("time {OUTSIDE}").into(),
            Place::Point if self.service == REPORTER && self.name == ITERATION => {
                "time between requests".into()
            }
            Place::Point => StyledLine::default().code(in_short(&point_name(self.name, self.detail))).done(),
        }
    }
}

/// A kind of point in short, of its name and its kind of call in one text.
pub(super) fn kind_of_point(parent: &str) -> String {
    // OpenTelemetry's names often say the same as the request: a method and a route, and a method and a path.
    let method = parent.split(' ').next().unwrap_or_default();
    if let Some((route, path)) = parent.split_once(&format!(" {method} ")) {
        let name = point_name(route, &format!("{method} {path}"));
        if name == route {
            return name;
        }
    }
    let (name, detail) = parent.split_once(' ').unwrap_or((parent, ""));
    // A request is named by its method and path, as usual.
    statement_in_short(detail).map_or_else(|| parent.to_owned(), |short| format!("{name} · {short}"))
}

/// The name of a kind of point alone.
#[must_use]
pub fn kind_in_short(kind: &ComparedKind) -> StyledLine {
    name_of(kind).in_short()
}

/// The kind of point, with its service and its parent.
#[must_use]
pub fn kind_name(kind: &ComparedKind) -> StyledLine {
    name_of(kind).whole()
}

/// `79 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share.clamp(0.0, 1.0) * 100.0)
}

pub(super) fn share_with_bound(kind: &ComparedKind) -> String {
    format!("{}, at least {}", percent(kind.share), percent(kind.share_low))
}
