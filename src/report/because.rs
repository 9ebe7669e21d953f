//! In what way a kind of point takes longer, in words: by more calls, by all of its calls or by a few of them, and where in
//! them the time lies. Nothing here may compute a statistic.

use super::named::name_of;
use super::texts::{calls, duration, signed};
use analysis::late_work::{WAITING_AGAIN, WAITING_IN_QUEUE, WAITING_TO_BEGIN};
use analysis::levels::is_all_points;
use results::model::{CallSpread, ComparedKind, OwnTime, Place};

/// What comes after "because".
pub(super) fn because(kind: &ComparedKind) -> String {
    if name_of(kind).place == Place::QueueTime {
        return format!("they start {} later after they were due", duration(kind.delta_ms));
    }
    if let Some(waiting) = waiting(kind) {
        return waiting;
    }
    let known = calls(kind.slow_calls) != calls(kind.typical_calls);
    let is_more_calls = kind.more_calls_ms > kind.slower_calls_ms && known;
    if is_all_points(&kind.name) {
        let (slow, typical) = (calls(kind.slow_calls), calls(kind.typical_calls));
        return match is_more_calls {
            true => format!("there are {slow} of them instead of {typical}"),
            false => of_calls(kind, &format!("the {slow}")),
        };
    }
    if is_more_calls {
        return more_calls(kind);
    }
    let aside = match (&kind.called_service, name_of(kind).place) {
        (Some(service), _) if kind.own_time == Some(OwnTime::After) => {
            let caller = &kind.service;
            format!(
                ", apart from the work of {service}: the network, or {caller} was busy when the answer came"
            )
        }
        (Some(service), _) => {
            format!(", apart from the work of {service}: the network, or {service} was busy")
        }
        (None, Place::Outside) => format!(": {}", outside(kind.own_time)),
        _ => String::new(),
    };
    let own = by_itself(kind.own_time, name_of(kind).place);
    if kind.slow_calls <= 1.05 {
        return format!("it takes {} longer{own}{aside}", duration(mean_longer_ms(kind)));
    }
    let (slow, typical) = (calls(kind.slow_calls), calls(kind.typical_calls));
    let instead = match kind.typical_calls > 0.05 && slow != typical {
        true => format!(" (typical iterations call it {})", times(kind.typical_calls)),
        false => String::new(),
    };
    format!("{}{own}{instead}{aside}", of_calls(kind, &format!("its {slow} calls")))
}

/// Why work waits to begin.
fn waiting(kind: &ComparedKind) -> Option<String> {
    let delta = duration(kind.delta_ms);
    let (slow, typical) = (calls(kind.slow_calls), calls(kind.typical_calls));
    let is_more_calls = kind.more_calls_ms > kind.slower_calls_ms && slow != typical;
    match kind.name.as_str() {
        WAITING_IN_QUEUE if is_more_calls => {
            Some(format!("{slow} messages wait one after another instead of {typical}"))
        }
        WAITING_IN_QUEUE => Some(format!(
            "messages wait {delta} longer: no worker was free, none asked for them, or they were to be delivered later"
        )),
        WAITING_AGAIN if kind.typical_calls < 0.05 => Some(format!(
            "the work had run before and waited {delta} to run again, which typical work does not"
        )),
        WAITING_AGAIN => Some(format!("work that had run before waits {delta} longer to run again")),
        WAITING_TO_BEGIN => Some(format!("it waits {delta} longer to begin")),
        _ => None,
    }
}

fn times(number: f64) -> String {
    match calls(number).as_str() {
        "0" => "never".to_owned(),
        "1" => "once".to_owned(),
        number => format!("{number} times"),
    }
}

fn more_calls(kind: &ComparedKind) -> String {
    if kind.typical_calls < 0.05 && kind.slow_calls < 0.95 {
        let in_100 = kind.slow_calls * 100.0;
        return format!("{in_100:.0} in 100 slow iterations call it and typical ones do not");
    }
    let (slow, typical) = (times(kind.slow_calls), times(kind.typical_calls));
    if typical == "never" {
        return format!("slow iterations call it {slow}, typical ones never");
    }
    // "40 times instead of 2"
    let typical = if slow.ends_with(" times") { typical.trim_end_matches(" times") } else { &typical };
    format!("it is called {slow} instead of {typical}")
}

/// How much longer a call takes on average; slower calls count for as many as both sides have on average.
fn mean_longer_ms(kind: &ComparedKind) -> f64 {
    let number = f64::midpoint(kind.slow_calls, kind.typical_calls);
    if number > 0.0 { kind.slower_calls_ms / number } else { 0.0 }
}

/// How several calls take longer: all alike, a few of them, or more or less.
fn of_calls(kind: &ComparedKind, which: &str) -> String {
    let Some(spread) = &kind.spread else {
        let number = f64::midpoint(kind.slow_calls, kind.typical_calls).max(1.0);
        return format!("{which} take {} longer on average", duration(kind.slower_calls_ms / number));
    };
    let CallSpread { of, longest, each_alike, longer_ms, most_longer_ms, others_longer_ms } = spread;
    if *each_alike {
        return format!("each of {which} takes {} longer", duration(*longer_ms));
    }
    let others = match others_longer_ms {
        Some(ms) if duration(ms.abs()) == "0 ms" => ", the median of the others no longer".to_owned(),
        Some(ms) if *ms < 0.0 => format!(", the median of the others {} shorter", duration(-ms)),
        Some(ms) => format!(", the median of the others {}", duration(*ms)),
        None => String::new(),
    };
    match longest {
        1 => format!("the longest of {which} takes {} longer{others}", duration(*longer_ms)),
        number if (*number as f64) < of / 2.0 => {
            format!("the {number} longest of {which} take {} longer on average{others}", duration(*longer_ms))
        }
        _ => format!("{which} take longer by different times, the longest by {}", signed(*most_longer_ms)),
    }
}

/// Where own time lies, if it is not a duration.
pub(super) fn by_itself(own_time: Option<OwnTime>, place: Place) -> &'static str {
    match (own_time, place) {
        (None | Some(OwnTime::Alone), _) | (_, Place::QueueTime) => "",
        (Some(OwnTime::Before), Place::Outside) => " before the first point of a service",
        (Some(OwnTime::Between), Place::Outside) => " between the points of services",
        (Some(OwnTime::After), Place::Outside) => " after the last point of a service",
        (Some(OwnTime::Around), Place::Outside) => " around the points of services",
        (Some(OwnTime::Before), Place::Point) => " by itself, before the first point below it",
        (Some(OwnTime::Between), Place::Point) => " by itself, between the points below it",
        (Some(OwnTime::After), Place::Point) => " by itself, after the last point below it",
        (Some(OwnTime::Around), Place::Point) => " by itself, without the points below it",
    }
}

/// What time outside of all points of services can be.
pub(super) fn outside(own_time: Option<OwnTime>) -> &'static str {
    match own_time {
        Some(OwnTime::Before) => {
            "the network, a proxy, a queue of the service before its first point, or this machine"
        }
        Some(OwnTime::After) => {
            "the network, a proxy, what the service does after its last point, or this machine"
        }
        Some(OwnTime::Alone | OwnTime::Between) => {
            "the network, a proxy, a service that is not traced, or this machine"
        }
        Some(OwnTime::Around) | None => {
            "the network, a proxy, a queue of the service before its first point, a service that is not traced, or this \
             machine"
        }
    }
}

#[cfg(test)]
mod tests;
