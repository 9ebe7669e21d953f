//! What waits for its turn, in words. Nothing here computes a statistic.

use super::document::StyledLine;
use super::texts::{duration, percent};
use results::model::{CallQueue, Workload};

/// The most words of a name in a headline.
const NAME_WORDS_MAX: usize = 2;

/// The headline on a queue.
pub(super) fn headline(queue: &CallQueue) -> StyledLine {
    let words: Vec<&str> = queue.name.split_whitespace().collect();
    let name = match words.len() > NAME_WORDS_MAX {
        true => format!("{}…", words[..NAME_WORDS_MAX].join(" ")),
        false => words.join(" "),
    };
    let turns = if queue.servers == 1 { "one".to_owned() } else { queue.servers.to_string() };
    let verb = if queue.enters { "serves" } else { "runs" };
    StyledLine::from("Slow iterations queue: ").code(name).text(format!(" {verb} {turns} at a time")).done()
}

/// A sentence for each kind of calls that wait.
pub(super) fn sentences(workload: &Workload) -> impl Iterator<Item = StyledLine> + '_ {
    workload.queues.iter().map(sentence)
}

pub(super) fn sentence(queue: &CallQueue) -> StyledLine {
    let CallQueue { service, name, enters, servers, busy, waits_ms, works_ms, share, iterations, .. } = queue;
    let turns = if *servers == 1 { "one at a time".to_owned() } else { format!("{servers} at a time") };
    let (what, waits) = match enters {
        true => (" requests enter", "before that"),
        false => (" calls run", "for its turn"),
    };
    let mut line = StyledLine::default();
    line.code(name.as_str()).text(format!(
        "{what} {turns} in {service}, busy {} of the time: an iteration waits {} {waits}, {} of its time, and the work then \
         takes {} (seen in {iterations} iterations in a row).",
        percent(busy * 100.0),
        duration(*waits_ms),
        percent(share * 100.0),
        duration(*works_ms),
    ));
    line.done()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal;

    #[test]
    fn a_queue_is_said_with_its_servers_and_both_times() {
        let queue = CallQueue {
            service: "shop".to_owned(),
            caller: "shop".to_owned(),
            name: "db".to_owned(),
            enters: false,
            servers: 5,
            busy: 0.968,
            waits_ms: 12.34,
            works_ms: 10.1,
            share: 0.412,
            iterations: 600,
        };
        for (queue, expected) in [
            (
                queue.clone(),
                "`db` calls run 5 at a time in shop, busy 97 % of the time: an iteration waits 12.3 ms for its turn, 41 % of \
                 its time, and the work then takes 10.1 ms (seen in 600 iterations in a row).",
            ),
            (
                CallQueue { enters: true, servers: 1, ..queue },
                "`db` requests enter one at a time in shop, busy 97 % of the time: an iteration waits 12.3 ms before that, \
                 41 % of its time, and the work then takes 10.1 ms (seen in 600 iterations in a row).",
            ),
        ] {
            let in_short = match queue.enters {
                true => "Slow iterations queue: `db` serves one at a time",
                false => "Slow iterations queue: `db` runs 5 at a time",
            };
            let style = terminal::TerminalStyle { columns: None, colour: false };
            assert_eq!(terminal::line(&sentence(&queue), style), expected);
            assert_eq!(terminal::line(&headline(&queue), style), in_short);
        }
    }
}
