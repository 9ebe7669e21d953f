//! The name of a run. What is made in a service during the run has a name that begins with it, so that what is left can
//! be found later, and nothing else is ever touched.

use uuid::Uuid;

use text::times::rfc3339;

/// How many characters of the run's id.
const ID_CHARS: usize = 8;

/// The name of a run: `bench-20261123T131500Z-1a2b3c4d`. The run's directory has the same time and id.
pub(super) fn of_run(began_unix_ns: u64, run_id: Uuid) -> String {
    let time: String = rfc3339(began_unix_ns).chars().take(19).filter(|c| !matches!(c, '-' | ':')).collect();
    format!("bench-{time}Z-{}", &run_id.simple().to_string()[..ID_CHARS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_after_its_time_and_id() {
        let name = of_run(1_795_439_700_123_000_000, Uuid::from_u128(0x1a2b_3c4d << 96));
        assert_eq!(name, "bench-20261123T131500Z-1a2b3c4d");
    }
}
