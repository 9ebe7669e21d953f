//! The kinds of points that explain slow iterations: which traces each of them explains, which points are of such a
//! kind, and how long these typically take. Every view of a trace marks them. Nothing here may judge: the analysis has.

use serde::Serialize;

use crate::document::{StyledLine, StyledSpan};
use crate::explanation::PointLabel;
use analysis::statement;
use osprofiler::report::Point;
use results::model::{Basis, Explanation, Place, Results};
use results::trace::StoredTrace;

/// Kinds with a mark: as many as there are colours for them.
const MARKS_MAX: usize = 4;

/// A kind of point that explains slow iterations.
#[derive(Serialize)]
pub(super) struct Mark<'a> {
    /// Its name in short.
    name: String,
    /// How long a typical call takes, in µs; 0 if typical iterations do not call it.
    typical_us: f64,
    #[serde(skip)]
    of: &'a Explanation,
    #[serde(skip)]
    iterations: usize,
}

/// What explains a trace.
#[derive(Serialize)]
pub(super) struct CauseData<'a> {
    /// The id of its longest point.
    pub(super) id: &'a str,
    name: String,
    /// How long a typical call takes; absent if nothing was compared.
    typical_us: Option<f64>,
    /// Whether it explains the iteration; otherwise it is only the largest of several parts.
    explains: bool,
}

/// The marks of a run: the cause that the first sentence names, then the causes of the most iterations.
pub(super) struct Marks<'a> {
    pub(super) all: Vec<Mark<'a>>,
    results: &'a Results,
}

impl<'a> Marks<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let mut all: Vec<Mark<'a>> = Vec::new();
        for of in results.explanations.iter().filter(|one| is_cause(one)) {
            match all.iter_mut().find(|mark| is_same(mark.of, of)) {
                Some(mark) => mark.iterations += 1,
                None => {
                    all.push(Mark { name: plain(&short(of)), typical_us: typical_us(of), of, iterations: 1 })
                }
            }
        }
        all.sort_by_key(|mark| std::cmp::Reverse((mark.of.is_headline, mark.iterations)));
        all.truncate(MARKS_MAX);
        Self { all, results }
    }

    /// The mark of a point.
    pub(super) fn at(&self, point: &Point) -> Option<usize> {
        self.all.iter().position(|mark| {
            mark.of.place != Place::Outside && mark.of.name == point.name && is_of_kind(point, mark.of)
        })
    }

    /// The mark that explains a trace.
    pub(super) fn cause(&self, trace: &StoredTrace) -> Option<usize> {
        let seen = self.results.explanation(trace.trace_id).filter(|seen| is_cause(seen))?;
        self.all.iter().position(|mark| is_same(mark.of, seen))
    }

    /// What explains a trace, if a point does.
    pub(super) fn named_cause(&self, trace: &StoredTrace) -> Option<CauseData<'a>> {
        self.results.explanation(trace.trace_id).and_then(cause)
    }
}

/// The name of a cause in a legend: time outside the traced services is told apart by its action.
fn short(of: &Explanation) -> StyledLine {
    match (of.place, of.detail.as_str()) {
        (Place::Outside, detail) if !detail.is_empty() => format!("outside services: {detail}").into(),
        _ => PointLabel::from(of).in_short(),
    }
}

/// The point of an explanation, if it is one.
pub(super) fn cause(seen: &Explanation) -> Option<CauseData<'_>> {
    Some(CauseData {
        id: seen.point_id.as_deref()?,
        name: plain(&PointLabel::from(seen).in_service()),
        typical_us: seen.typical_ms.map(|_| typical_us(seen)),
        explains: seen.explains,
    })
}

/// By difference: what merely took most time by itself is no cause.
fn is_cause(seen: &Explanation) -> bool {
    seen.explains && seen.basis == Basis::Difference
}

/// The typical length of one call, in µs.
fn typical_us(seen: &Explanation) -> f64 {
    seen.typical_ms.unwrap_or(0.0) * 1e3 / seen.typical_calls.unwrap_or(1.0).max(1.0)
}

fn is_same(one: &Explanation, other: &Explanation) -> bool {
    (one.place, &one.service, &one.name, &one.detail, &one.parent)
        == (other.place, &other.service, &other.name, &other.detail, &other.parent)
}

fn is_of_kind(point: &Point, of: &Explanation) -> bool {
    (of.place == Place::QueueTime || point.reporter() == of.service) && statement::kind(point) == of.detail
}

/// A line without its marks.
pub(super) fn plain(line: &StyledLine) -> String {
    let text = |span: &StyledSpan| match span {
        StyledSpan::Text(text) | StyledSpan::Code(text) => text.clone(),
        StyledSpan::Badge(badge) => badge.word.to_owned(),
    };
    line.spans.iter().map(text).collect()
}
