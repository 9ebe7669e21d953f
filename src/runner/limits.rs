//! The limits of the system: descriptors, ports, memory. They are checked before the load, so that an
//! impossible load is refused, and a load without a limit gets one.

use std::collections::BTreeMap;
use std::net::IpAddr;

use client::options::Connections;
use client::url::Origin;
use plan::shard::Shard;
use plan::step::{actions, lanes};
use plan::{Plan, WorkloadPlan};
use terms::runner::Model;

/// Descriptors reserved for everything except the load's connections: files, pipes, timers, the collector.
const DESCRIPTORS_KEPT: u64 = 100;
/// The least memory of a virtual user.
const USER_BYTES: u64 = 4096;
const USERS_MAX: u64 = 100_000;

/// The limits for a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// The most virtual users if the scenario sets no limit.
    pub users_max: u32,
    /// Possible problems.
    pub warnings: Vec<String>,
}

/// The resources of the system.
#[derive(Clone, Copy, Debug)]
struct System {
    /// Descriptors; `None` for no limit.
    descriptors: Option<u64>,
    /// Ports for connections to one address; `None` if unknown.
    ports: Option<u64>,
    /// Memory; `None` if unknown.
    free_bytes: Option<u64>,
}

/// Raises the limit of descriptors to its maximum and checks the plan against all limits. Each
/// connection takes `ends` descriptors of this process: two if the process also serves the target. If
/// the users of a worker share connections, the number of `workers` limits the connections.
///
/// # Errors
/// Fails if the load is impossible; the message names a remedy.
pub fn prepare(plan: &Plan, ends: u64, workers: u32) -> Result<LoadLimits, String> {
    raise_descriptors();
    let system =
        System { descriptors: descriptors().map(|(soft, _)| soft), ports: ports(), free_bytes: free_bytes() };
    let groups: Vec<Vec<&WorkloadPlan>> = if plan.parallel {
        vec![plan.workloads.iter().collect()]
    } else {
        plan.workloads.iter().map(|workload| vec![workload]).collect()
    };
    let shared = (plan.http.connections == Connections::Shared)
        .then(|| plan.http.connections_max.0 as u64 * u64::from(workers));
    let needs: Vec<ResourceNeed> =
        groups.iter().map(|group| ResourceNeed::of(group, plan.shard, ends, shared)).collect();
    let mut limits = check(&needs, &system)?;
    limits.warnings.extend(short_of_processors(super::cgroup::Groups::of_this_process().quota(), workers));
    Ok(limits)
}

/// That a quota of processor time is too small for the workers, if it is.
fn short_of_processors(quota: Option<(f64, String)>, workers: u32) -> Option<String> {
    let (cpus, directory) = quota.filter(|(cpus, _)| *cpus < f64::from(workers))?;
    let workers = if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") };
    Some(format!(
        "{workers} may use {} of a processor's time together (the quota in {directory}): when it is used up, bench stops \
         until the next period, and a run that was stopped for a tenth of its load is INVALID; allow a processor for each \
         worker (cpu.max, a container's cpus), or lower --workers",
        (cpus * 1e3).round() / 1e3
    ))
}

/// The largest need of workloads that run at the same time.
#[derive(Clone, Debug, Default)]
struct ResourceNeed {
    /// Virtual users of closed models.
    users: u64,
    /// Their connections by origin, and whether the origin has a single address.
    connections: BTreeMap<String, (u64, bool)>,
    /// Descriptors per connection.
    ends: u64,
    /// Connections per virtual user, the most of any workload.
    connections_each: u64,
    /// Additional virtual users that the scenario allows in open models.
    users_allowed: u64,
}

impl ResourceNeed {
    fn of(group: &[&WorkloadPlan], shard: Shard, ends: u64, shared: Option<u64>) -> Self {
        let mut need = Self { ends, connections_each: 1, ..Self::default() };
        for workload in group {
            let (lanes, mut origins) = (lanes(&workload.steps), Vec::<&Origin>::new());
            for action in actions(&workload.steps) {
                let origin = &action.call.base().origin;
                if !origins.contains(&origin) {
                    origins.push(origin);
                }
            }
            need.connections_each = need.connections_each.max(origins.len() as u64 * lanes);
            let users =
                u64::from(workload.runner.concurrency().map_or(1, |users| shard.part_of_users(users)));
            if matches!(workload.runner.model, Model::Open(_)) {
                need.users_allowed += users;
                continue;
            }
            need.users += users;
            for origin in origins {
                let one_address = origin.host == "localhost" || origin.host.parse::<IpAddr>().is_ok();
                let entry = need.connections.entry(format!("{}:{}", origin.host, origin.port));
                entry.or_insert((0, one_address)).0 += (users * lanes).min(shared.unwrap_or(users * lanes));
            }
        }
        need
    }

    fn descriptors(&self) -> u64 {
        self.connections.values().map(|(count, _)| count).sum::<u64>() * self.ends + DESCRIPTORS_KEPT
    }
}

fn check(needs: &[ResourceNeed], system: &System) -> Result<LoadLimits, String> {
    let mut warnings = Vec::new();
    let mut users_max = USERS_MAX;
    for need in needs {
        let users = need.users;
        let too_low = |limit: &u64| users > 0 && need.descriptors() > *limit;
        if let Some(limit) = system.descriptors.filter(too_low) {
            let wanted = need.descriptors();
            return Err(format!(
                "{users} virtual users need about {wanted} descriptors, and the limit is {limit}: \
                 raise it with `ulimit -n {wanted}`, or lower the concurrency"
            ));
        }
        for (origin, (count, one_address)) in &need.connections {
            let Some(ports) = system.ports.filter(|ports| count > ports) else { continue };
            let text = format!(
                "{count} connections to {origin}, but there are {ports} local ports for one address: \
                 widen net.ipv4.ip_local_port_range, or lower the concurrency"
            );
            if *one_address {
                return Err(text);
            }
            warnings.push(text);
        }
        if let Some(free) = system.free_bytes.filter(|free| users * USER_BYTES > *free) {
            return Err(format!(
                "{users} virtual users need at least {} MB of memory, and {} MB are free: lower the concurrency",
                (users * USER_BYTES).div_ceil(1_000_000),
                free / 1_000_000
            ));
        }
        let each = need.connections_each * need.ends;
        let left = |limit: u64| (limit.saturating_sub(need.descriptors()) / each).max(1);
        let by_descriptors = system.descriptors.map_or(USERS_MAX, left);
        let by_ports = system.ports.unwrap_or(USERS_MAX);
        let fit = by_descriptors.min(by_ports);
        if need.users_allowed > fit {
            warnings.push(format!(
                "`max_concurrency` allows {} virtual users, but the limits of descriptors (`ulimit -n`) and ports \
                 allow only {fit}: more would fail to connect",
                need.users_allowed
            ));
        }
        users_max = users_max.min(fit);
    }
    Ok(LoadLimits { users_max: u32::try_from(users_max).unwrap_or(u32::MAX), warnings })
}

/// The soft and the hard limit of descriptors; `None` for no limit or an unknown one.
#[cfg(unix)]
pub(super) fn descriptors() -> Option<(u64, Option<u64>)> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.map(|current| (current, limit.maximum))
}

#[cfg(not(unix))]
pub(super) fn descriptors() -> Option<(u64, Option<u64>)> {
    None
}

#[cfg(unix)]
fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    // If this fails, `check` finds a limit that is too low.
    let _ = setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit });
}

#[cfg(not(unix))]
fn raise_descriptors() {}

/// The largest number of connections to one address and port.
fn ports() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut bounds = text.split_whitespace().map(str::parse::<u64>);
    let (low, high) = (bounds.next()?.ok()?, bounds.next()?.ok()?);
    Some(high.saturating_sub(low) + 1)
}

fn free_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(users: u64, host: &str, users_allowed: u64) -> ResourceNeed {
        let one_address = host == "localhost" || host.parse::<IpAddr>().is_ok();
        let connections = BTreeMap::from([(format!("{host}:80"), (users, one_address))]);
        ResourceNeed { users, connections, ends: 1, connections_each: 1, users_allowed }
    }

    #[test]
    fn a_load_that_does_not_fit_is_refused_with_the_limit_and_the_remedy() {
        let system = System { descriptors: Some(50_000), ports: Some(28_000), free_bytes: Some(100_000_000) };
        let rows = [
            (need(1_000, "127.0.0.1", 0), Ok((28_000, 0))),
            (need(30_000, "127.0.0.1", 0), Err("ip_local_port_range")),
            (need(20_000, "127.0.0.1", 0), Ok((28_000, 0))),
            (need(30_000, "service.example", 0), Err("MB of memory")),
            (need(24_000, "service.example", 40_000), Ok((25_900, 1))),
            (need(60_000, "127.0.0.1", 0), Err("ulimit -n 60100")),
        ];
        for (need, expected) in rows {
            let found = check(std::slice::from_ref(&need), &system);
            match expected {
                Ok((users_max, warnings)) => {
                    let found = found.unwrap();
                    assert_eq!((found.users_max, found.warnings.len()), (users_max, warnings), "{need:?}");
                }
                Err(part) => {
                    let error = found.unwrap_err();
                    assert!(error.contains(part), "{need:?}: {error}");
                }
            }
        }
        let boundless = System { descriptors: None, ports: None, free_bytes: None };
        assert_eq!(check(&[need(90_000, "10.0.0.1", 0)], &boundless).unwrap().users_max, 100_000);
    }

    #[test]
    fn a_quota_below_the_workers_is_said_before_the_load() {
        for (cpus, workers, expected) in [
            (None, 4, None),
            (Some(4.0), 4, None),
            (Some(0.015), 1, Some("1 worker may use 0.015 of a processor's time together (the quota in /g)")),
            (Some(1.5), 2, Some("2 workers may use 1.5 of")),
            (Some(1.0), 1, None),
        ] {
            let found = short_of_processors(cpus.map(|cpus| (cpus, "/g".to_owned())), workers);
            assert_eq!(found.is_some(), expected.is_some(), "{cpus:?}: {found:?}");
            assert!(found.is_none_or(|text| text.starts_with(expected.unwrap())), "{cpus:?}");
        }
    }

    #[test]
    fn the_limits_of_this_process_can_be_read() {
        if cfg!(target_os = "linux") {
            assert!(ports().unwrap() > 1_000);
            assert!(free_bytes().unwrap() > 1_000_000);
        }
        raise_descriptors();
        if let Some((soft, hard)) = descriptors() {
            assert_eq!(Some(soft), hard.or(Some(soft)));
        }
    }
}
