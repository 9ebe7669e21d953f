//! Traces of RPC that are mixed with others', in one sentence with what helps.

use super::texts::duration_us;
use analysis::foreign::ForeignPointSummary;

/// At most this many names stand in the sentence.
const NAMES_MAX: usize = 3;
/// What helps.
const REMEDY: &str = "set `concurrency_backend = eventlet` in its configuration, or clear the profiler when a thread's task \
                      ends";

/// What is wrong with the traces, why, and what helps.
#[must_use]
pub fn sentence(mixed: &ForeignPointSummary) -> String {
    let ForeignPointSummary { traces, with_foreign, services, after_us, lacking, unserved, methods } = mixed;
    let called = names(methods.iter().map(String::as_str));
    if *with_foreign == 0 && *lacking == 0 {
        return format!(
            "in {unserved} of {traces} traces nothing follows the RPC {called}, so what a poll waited for is not known: the \
             service is not traced (`enabled` in its [profiler] section), or its threads keep the first trace that they \
             saw; then {REMEDY}"
        );
    }
    let mut found = Vec::new();
    if *with_foreign > 0 {
        let services = names(services.iter().map(String::as_str));
        let after = duration_us(*after_us);
        found.push(format!(
            "{with_foreign} of {traces} traces have points of other requests, reported by {services} up to {after} later \
             and not counted"
        ));
    }
    if *lacking > 0 {
        found.push(format!("{lacking} of {traces} lack what the RPC {called} led to, and are not compared"));
    }
    format!("{}: threads of the service keep the first trace that they saw; {REMEDY}", found.join(", and "))
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<String> =
        all.map(|name| format!("`{}`", name.chars().take(60).collect::<String>())).collect();
    let more = all.len().saturating_sub(NAMES_MAX);
    all.truncate(NAMES_MAX);
    let all = all.join(", ");
    if more > 0 { format!("{all} and {more} more") } else { all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_and_what_helps_are_one_sentence() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mixed = ForeignPointSummary {
            traces: 60,
            with_foreign: 2,
            services: set(&["nova/nova-compute", "nova/nova-conductor"]),
            after_us: 97_000_000,
            lacking: 58,
            unserved: 40,
            methods: set(&["build_and_run_instance"]),
        };
        let beginning = "2 of 60 traces have points of other requests, reported by `nova/nova-compute`, \
                         `nova/nova-conductor` up to 97.0 s later and not counted, and 58 of 60 lack what the RPC \
                         `build_and_run_instance` led to, and are not compared: threads";
        assert!(sentence(&mixed).starts_with(beginning), "{}", sentence(&mixed));
        let unserved = ForeignPointSummary { with_foreign: 0, lacking: 0, ..mixed };
        let beginning = "in 40 of 60 traces nothing follows the RPC `build_and_run_instance`, so what a poll";
        assert!(sentence(&unserved).starts_with(beginning), "{}", sentence(&unserved));
        for one in
            [&sentence(&unserved), &sentence(&ForeignPointSummary { with_foreign: 1, ..unserved.clone() })]
        {
            assert!(one.contains("concurrency_backend") && !one.contains(". "), "{one}");
        }
    }
}
