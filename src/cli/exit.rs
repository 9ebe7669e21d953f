//! Exit codes: the contract with CI jobs. Only this file maps errors and results to codes.

use harness::{Conclusion, HarnessError, HarnessErrorKind};
use text::files::is_interrupted;

/// How a command ended; documented in `--help` and the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Ran; every gate passed, or there was none.
    Ok = 0,
    /// The run itself failed.
    Failed = 1,
    /// A gate failed.
    Gate = 2,
    /// No valid verdict.
    Invalid = 3,
    /// The data allow no verdict, and `--strict` was given.
    Inconclusive = 4,
    /// Wrong usage.
    Usage = 64,
    /// A bad input file.
    Input = 65,
    /// Target or collector unreachable before the load.
    Unreachable = 69,
    /// Interrupted, after a graceful stop and a report of what ran.
    Interrupted = 105,
}

/// The table for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    ran; every gate passed, or there was none
  1    the run itself failed (setup, disk, time limit)
  2    a gate failed
  3    no valid verdict: no samples, or bench itself was the limit
  4    inconclusive: too little data for a verdict, with --strict (0 without)
  64   wrong usage
  65   a bad input file; all its faults are listed
  69   target or collector unreachable before the load
  105  interrupted (SIGINT, SIGTERM, SIGHUP), after a graceful stop and a report of what ran

If the reader of the output stops or closes it, the exit code does not change: files are written before
anything is printed. Output that is only printed, such as a schema or an export, waits for its reader.
A full disk behind standard output is an error (1).";

impl Exit {
    /// The code of a result; with `--strict`, INCONCLUSIVE has a separate code.
    pub(super) fn of(conclusion: Conclusion, strict: bool) -> Self {
        match conclusion {
            Conclusion::Good => Self::Ok,
            Conclusion::Failed => Self::Failed,
            Conclusion::GateFailed => Self::Gate,
            Conclusion::NoVerdict => Self::Invalid,
            Conclusion::Inconclusive if strict => Self::Inconclusive,
            Conclusion::Inconclusive => Self::Ok,
            Conclusion::Interrupted => Self::Interrupted,
        }
    }

    /// The code of an error.
    pub(super) fn of_error(error: &HarnessError) -> Self {
        match error.kind() {
            // The wait for a file that was yet to be written was interrupted.
            HarnessErrorKind::Usage | HarnessErrorKind::Input if is_interrupted() => Self::Interrupted,
            HarnessErrorKind::Usage => Self::Usage,
            HarnessErrorKind::Input => Self::Input,
            HarnessErrorKind::Unreachable => Self::Unreachable,
            HarnessErrorKind::Failed => Self::Failed,
            HarnessErrorKind::NoVerdict => Self::Invalid,
            HarnessErrorKind::Interrupted => Self::Interrupted,
        }
    }
}

/// The text of an error, as it is printed, in colours if requested.
pub(super) fn words(error: &HarnessError, colour: bool) -> String {
    let interrupted = error.kind() == HarnessErrorKind::Interrupted;
    let mut text = String::new();
    for report in error.reports(colour) {
        if !text.is_empty() {
            text += if report.is_rendered { "\n\n" } else { "\n" };
        }
        text += if report.is_rendered || interrupted { "" } else { "error: " };
        text += &report.text;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CI jobs rely on these codes, and the README lists them.
    #[test]
    fn every_result_and_every_error_has_its_code() {
        for (conclusion, code, strict) in [
            (Conclusion::Good, 0, 0),
            (Conclusion::Failed, 1, 1),
            (Conclusion::GateFailed, 2, 2),
            (Conclusion::NoVerdict, 3, 3),
            (Conclusion::Inconclusive, 0, 4),
            (Conclusion::Interrupted, 105, 105),
        ] {
            let codes = [false, true].map(|strict| Exit::of(conclusion, strict) as u8);
            assert_eq!(codes, [code, strict], "{conclusion:?}");
        }
        for (kind, code) in [
            (HarnessErrorKind::Failed, 1),
            (HarnessErrorKind::NoVerdict, 3),
            (HarnessErrorKind::Usage, 64),
            (HarnessErrorKind::Input, 65),
            (HarnessErrorKind::Unreachable, 69),
            (HarnessErrorKind::Interrupted, 105),
        ] {
            assert_eq!(Exit::of_error(&HarnessError::new(kind, "x")) as u8, code, "{kind:?}");
            let shown =
                words(&HarnessError::new(kind, "what").remedy("how").and(HarnessError::input("more")), false);
            let expected = if code == 105 { "what; how\nmore" } else { "error: what; how\nerror: more" };
            assert_eq!(shown, expected);
        }
    }
}
