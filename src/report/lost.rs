//! Traces of which spans never came, in one sentence with what helps.
//!
//! A service that makes spans faster than it can send them drops what its queue has no room for, mostly without a word.
//! The environment variables are from OpenTelemetry's specification, "Batch Span Processor".

/// How many traces lack spans, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lost {
    /// Traces that were asked for, of which some came.
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
}

/// What is missing, when, and what helps.
#[must_use]
pub fn sentence(lost: &Lost) -> String {
    let Lost { traces, absent, partial, lacking, began_s: (from_s, to_s), is_otel } = lost;
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
    let why = match is_otel {
        true => {
            "either a service that answers some of them does not report, or its queue of spans was full: then raise \
             OTEL_BSP_MAX_QUEUE_SIZE and OTEL_BSP_MAX_EXPORT_BATCH_SIZE in its environment, or profile a part of the \
             iterations (`profile: { control: 90% }`)"
        }
        false => {
            "either a service that answers some of them does not report, or its log says what it could not send"
        }
    };
    format!("{parts} (their iterations began {when} after the run's start); {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_with_its_time() {
        let lost =
            Lost { traces: 40, absent: 3, partial: 0, lacking: 0, began_s: (1.0, 2.54), is_otel: true };
        for (lost, begins) in [
            (
                lost,
                "of 40 traces: of 3 no span came (their iterations began 1.0 to 2.5 s after the run's start); either",
            ),
            (
                Lost { partial: 2, lacking: 1, is_otel: false, ..lost },
                "of 40 traces: of 3 no span came, 2 lack spans above those that came, 1 lacks spans that most others have \
                 (their iterations began 1.0 to 2.5 s after the run's start); either a service that answers some of them does \
                 not report, or its log",
            ),
            (
                Lost { absent: 0, partial: 1, ..lost },
                "of 40 traces: 1 lacks spans above those that came (their iterations began 1.0 s after",
            ),
        ] {
            assert!(sentence(&lost).starts_with(begins), "{}", sentence(&lost));
        }
    }
}
