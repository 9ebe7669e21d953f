//! Traces that lack spans, in one sentence with what helps.
//!
//! A service that makes spans faster than it can send them drops what its queue has no room for, mostly without a word.
//! The environment variables are from OpenTelemetry's specification, "Batch Span Processor".

use results::model::ReceivedSpans;

/// How many traces lack spans, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanLoss {
    /// Traces that were asked for; some of them came.
    pub traces: usize,
    /// Traces without any span.
    pub absent: usize,
    /// Those with spans whose parents did not come.
    pub partial: usize,
    /// Those without spans that most others have.
    pub lacking: usize,
    /// When the first and the last of their iterations began, in seconds from the start of the run, warm-up included.
    pub began_s: (f64, f64),
    /// Whether services speak OpenTelemetry.
    pub is_otel: bool,
    /// Where spans came steadily while the load made more of them.
    pub ceiling: Option<Ceiling>,
}

/// How many spans came a second, and about how many were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceiling {
    /// In half of the seconds no more came.
    pub usual_per_s: f64,
    /// The most that came in a second.
    pub most_per_s: f64,
    /// What the load made.
    pub made_per_s: f64,
}

/// What is missing, when, and what helps.
#[must_use]
pub fn sentence(lost: &SpanLoss) -> String {
    let SpanLoss { traces, absent, partial, lacking, began_s: (from_s, to_s), is_otel, ceiling } = lost;
    let lack = |number: &usize| if *number == 1 { "lacks" } else { "lack" };
    let each = [
        (*absent > 0).then(|| format!("of {absent} no span came")),
        (*partial > 0).then(|| format!("{partial} {} spans above those that came", lack(partial))),
        (*lacking > 0).then(|| format!("{lacking} {} spans that most others have", lack(lacking))),
    ];
    let each: Vec<String> = each.into_iter().flatten().collect();
    let parts = format!("of {traces} traces: {}", each.join(", "));
    let when = match absent + partial + lacking {
        1 => format!("{from_s:.1} s"),
        _ => format!("{from_s:.1} to {to_s:.1} s"),
    };
    let queue = "raise OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BSP_MAX_EXPORT_BATCH_SIZE in its environment, or profile a part of \
                 the iterations (`profile: { control: 90% }`)";
    let came = ceiling.map_or_else(String::new, |Ceiling { usual_per_s, most_per_s, made_per_s }| {
        format!(
            "about {usual_per_s:.0} spans a second came, never more than {most_per_s:.0}, while the load made about \
             {made_per_s:.0}; "
        )
    });
    let why = match () {
        () if !is_otel => {
            "either a service that answers some of them does not report, something in front of it answers them, such as a \
             cache, or its log says what it could not send"
                .to_owned()
        }
        // A service that does not report lacks all of its spans.
        () if *partial > 0 && *absent == 0 => format!(
            "{came}some spans of a service came and others did not, as of a queue of spans that was full: {queue}"
        ),
        () => format!(
            "{came}either a service that answers some of them does not report, something in front of it answers them, such as \
             a cache, or its queue of spans was full: then {queue}"
        ),
    };
    format!("{parts} (their iterations began {when} after the run's start); {why}")
}

/// Spans that come steadily are in no second more than this many times the median.
const STEADY: f64 = 2.0;
/// The load made at least this many times as many as ever came.
const MADE_MIN: f64 = 1.3;

/// How many spans came and were made a second, if they came steadily and the load made more.
#[must_use]
pub fn ceiling(received: &ReceivedSpans, made_per_s: f64) -> Option<Ceiling> {
    let (usual_per_s, most_per_s) = (received.spans_per_s as f64, received.most_spans_per_s as f64);
    let is_steady = usual_per_s > 0.0 && most_per_s <= STEADY * usual_per_s;
    let is_less = made_per_s >= MADE_MIN * most_per_s;
    (is_steady && is_less).then_some(Ceiling { usual_per_s, most_per_s, made_per_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_its_time() {
        let lost = SpanLoss {
            traces: 40,
            absent: 3,
            partial: 0,
            lacking: 0,
            began_s: (1.0, 2.54),
            is_otel: true,
            ceiling: None,
        };
        for (lost, begins) in [
            (
                SpanLoss {
                    ceiling: Some(Ceiling { usual_per_s: 900.0, most_per_s: 1_024.0, made_per_s: 4_100.0 }),
                    ..lost
                },
                "of 40 traces: of 3 no span came (their iterations began 1.0 to 2.5 s after the run's start); about 900 \
                 spans a second came, never more than 1024, while the load made about 4100; either a service",
            ),
            (
                lost,
                "of 40 traces: of 3 no span came (their iterations began 1.0 to 2.5 s after the run's start); either",
            ),
            (
                SpanLoss { partial: 2, lacking: 1, is_otel: false, ..lost },
                "of 40 traces: of 3 no span came, 2 lack spans above those that came, 1 lacks spans that most others have \
                 (their iterations began 1.0 to 2.5 s after the run's start); either a service that answers some of them does \
                 not report, something in front of it answers them, such as a cache, or its log",
            ),
            (
                SpanLoss { absent: 0, partial: 1, ..lost },
                "of 40 traces: 1 lacks spans above those that came (their iterations began 1.0 s after the run's start); some \
                 spans of a service came and others did not",
            ),
        ] {
            assert!(sentence(&lost).starts_with(begins), "{}", sentence(&lost));
        }
    }

    #[test]
    fn a_ceiling_is_steady_and_below_what_is_made() {
        for (usual, most, made_per_s, expected) in [
            (1_000, 1_050, 4_000.0, true),
            // As many as were made, or in bursts, or in too few seconds.
            (1_000, 1_050, 1_100.0, false),
            (1_000, 3_000, 9_000.0, false),
            (0, 0, 4_000.0, false),
        ] {
            let received =
                ReceivedSpans { spans_per_s: usual, most_spans_per_s: most, ..ReceivedSpans::default() };
            assert_eq!(ceiling(&received, made_per_s).is_some(), expected, "{usual}, {most}, {made_per_s}");
        }
    }
}
