//! What the control groups of Linux say of this process: its quota of processor time, and how often it was throttled.
//!
//! Both versions are read, on hosts and in containers. All files are found below a root, so that tests have their own.

use std::path::{Path, PathBuf};

use measure::generator::Quota;

/// A directory of a control group with the files of its version.
#[derive(Clone, Debug, PartialEq)]
struct ControlGroup {
    directory: PathBuf,
    is_first_version: bool,
}

/// The control groups that limit this process, the innermost first.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(Vec<ControlGroup>);

/// What groups have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ThrottlingCounts {
    periods: u64,
    throttled_periods: u64,
    throttled_s: f64,
}

impl Groups {
    /// The groups of this process; none where the system has none.
    pub(super) fn of_this_process() -> Self {
        Self::below(Path::new("/"))
    }

    /// The same with `/proc` and the mounted groups below a root.
    fn below(root: &Path) -> Self {
        let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap_or_default();
        let (own, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
        let mut groups = Vec::new();
        for line in own.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let is_first_version = !controllers.is_empty();
            if is_first_version && !controllers.split(',').any(|name| name == "cpu") {
                continue;
            }
            let Some(mount) = mounts.lines().find_map(|line| Mount::of(line, is_first_version)) else {
                continue;
            };
            let top = root.join(mount.point.trim_start_matches('/'));
            // In a container, only a part of the tree is mounted. The path may be one of the host's; then only its top
            // is there.
            let inside = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or(path);
            let mut directory = top.join(inside.trim_start_matches('/'));
            while directory.starts_with(&top) {
                groups.push(ControlGroup { directory: directory.clone(), is_first_version });
                if !directory.pop() {
                    break;
                }
            }
        }
        Self(groups)
    }

    /// The smallest quota of all groups, with what was counted in its group until now.
    fn smallest(&self) -> Option<(&ControlGroup, f64)> {
        let all = self.0.iter().filter_map(|group| Some((group, group.quota()?)));
        all.min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The smallest quota, in processors, and where it is.
    pub(super) fn quota(&self) -> Option<(f64, String)> {
        self.smallest().map(|(group, cpus)| (cpus, group.directory.display().to_string()))
    }

    /// Begins to count.
    pub(super) fn watch(&self) -> ThrottlingWatch<'_> {
        ThrottlingWatch { groups: self, before: self.0.iter().map(ControlGroup::counted).collect() }
    }
}

/// Counts since a time.
pub(super) struct ThrottlingWatch<'a> {
    groups: &'a Groups,
    before: Vec<ThrottlingCounts>,
}

impl ThrottlingWatch<'_> {
    /// The quota and how it was used; `None` where nothing is limited and nothing was throttled.
    pub(super) fn finish(self) -> Option<Quota> {
        let since = self.groups.0.iter().zip(&self.before).map(|(group, before)| {
            let now = group.counted();
            ThrottlingCounts {
                periods: now.periods.saturating_sub(before.periods),
                throttled_periods: now.throttled_periods.saturating_sub(before.throttled_periods),
                throttled_s: (now.throttled_s - before.throttled_s).max(0.0),
            }
        });
        // Whichever group throttles, the process does not run.
        let most = since.max_by(|a, b| a.throttled_s.total_cmp(&b.throttled_s)).unwrap_or_default();
        let cpus = self.groups.smallest().map(|(_, cpus)| cpus);
        let ThrottlingCounts { periods, throttled_periods, throttled_s } = most;
        (cpus.is_some() || throttled_periods > 0).then_some(Quota {
            cpus,
            periods,
            throttled_periods,
            throttled_s,
        })
    }
}

/// Where a hierarchy of groups is mounted.
struct Mount<'a> {
    /// The part of the tree that is mounted.
    root: &'a str,
    point: &'a str,
}

impl<'a> Mount<'a> {
    /// A line of `/proc/self/mountinfo`, as proc(5) describes it, if it is the wanted hierarchy's.
    fn of(line: &'a str, is_first_version: bool) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let (mut mount, mut system) = (mount.split(' ').skip(3), system.split(' '));
        let (root, point) = (mount.next()?, mount.next()?);
        let (kind, options) = (system.next()?, system.nth(1).unwrap_or_default());
        let wanted = match is_first_version {
            true => kind == "cgroup" && options.split(',').any(|option| option == "cpu"),
            false => kind == "cgroup2",
        };
        wanted.then_some(Self { root, point })
    }
}

impl ControlGroup {
    fn read(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.directory.join(file)).ok()
    }

    /// How many processors its processes may use together; `None` without a limit.
    fn quota(&self) -> Option<f64> {
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
        let (quota, period) = if self.is_first_version {
            (number(&self.read("cpu.cfs_quota_us")?)?, number(&self.read("cpu.cfs_period_us")?)?)
        } else {
            let text = self.read("cpu.max")?;
            let (quota, period) = text.trim().split_once(' ')?;
            (number(quota)?, number(period)?)
        };
        Some(quota / period)
    }

    fn counted(&self) -> ThrottlingCounts {
        let mut counted = ThrottlingCounts::default();
        for line in self.read("cpu.stat").unwrap_or_default().lines() {
            let Some((key, Ok(value))) = line.split_once(' ').map(|(key, value)| (key, value.parse::<u64>()))
            else {
                continue;
            };
            match key {
                "nr_periods" => counted.periods = value,
                "nr_throttled" => counted.throttled_periods = value,
                // The first version counts nanoseconds, the second one microseconds.
                "throttled_time" => counted.throttled_s = value as f64 / 1e9,
                "throttled_usec" => counted.throttled_s = value as f64 / 1e6,
                _ => {}
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      34 32 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory";
    const V1_OF_DOCKER: &str =
        "33 32 0:29 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct";
    const V1_AND_V2: &str = "33 32 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                             35 32 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

    /// A tree of files below a root.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_smallest_quota_of_all_groups_counts_in_both_versions() {
        let v2 = |own: &str, files: &[(&str, &str)]| {
            let mut all = vec![("proc/self/cgroup", own), ("proc/self/mountinfo", V2)];
            all.extend(files);
            Groups::below(tree(&all).path()).smallest().map(|(_, cpus)| cpus)
        };
        let v1 = |own: &str, mounts: &str, files: &[(&str, &str)]| {
            let mut all = vec![("proc/self/cgroup", own), ("proc/self/mountinfo", mounts)];
            all.extend(files);
            Groups::below(tree(&all).path()).smallest().map(|(_, cpus)| cpus)
        };
        // No groups, none with a limit, no files.
        assert_eq!(Groups::below(tree(&[("x", "")]).path()).smallest().map(|(_, cpus)| cpus), None);
        assert_eq!(v2("0::/\n", &[("sys/fs/cgroup/cpu.max", "max 100000\n")]), None);
        assert_eq!(v2("0::/a\n", &[("sys/fs/cgroup/a/cgroup.procs", "")]), None);
        assert_eq!(v2("0::/\n", &[("sys/fs/cgroup/cpu.max", "nonsense")]), None);
        // In a container with a group namespace, its own group is the top.
        assert_eq!(v2("0::/\n", &[("sys/fs/cgroup/cpu.max", "1500 100000\n")]), Some(0.015));
        // A limit of an outer group.
        let nested = [
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/c/cpu.max", "200000 100000\n"),
        ];
        assert_eq!(v2("0::/a/b/c\n", &nested), Some(0.5));
        // Without a namespace the path is the host's, and is not here.
        assert_eq!(v2("0::/kubepods/pod1/x\n", &[("sys/fs/cgroup/cpu.max", "250000 100000\n")]), Some(2.5));
        let own = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n";
        let quota = |path: &'static str, quota: &'static str| {
            let file =
                |name| -> &'static str { Box::leak(format!("sys/fs/cgroup/{path}/{name}").into_boxed_str()) };
            [(file("cpu.cfs_quota_us"), quota), (file("cpu.cfs_period_us"), "100000\n")]
        };
        assert_eq!(v1(own, V1, &quota("cpu,cpuacct/docker/abc", "1500\n")), Some(0.015));
        assert_eq!(v1(own, V1, &quota("cpu,cpuacct/docker", "30000\n")), Some(0.3));
        assert_eq!(v1(own, V1, &quota("cpu,cpuacct/docker/abc", "-1\n")), None);
        assert_eq!(v1(own, V1_OF_DOCKER, &quota("cpu,cpuacct", "400000\n")), Some(4.0));
        assert_eq!(v1("1:cpu:/t\n0::/\n", V1_AND_V2, &quota("cpu/t", "2000\n")), Some(0.02));
    }

    #[test]
    fn what_was_throttled_since_is_counted() {
        let stat = "sys/fs/cgroup/a/cpu.stat";
        let of = |mounts: &'static str, own: &'static str, path: &'static str, before: &str, after: &str| {
            let root = tree(&[("proc/self/cgroup", own), ("proc/self/mountinfo", mounts), (path, before)]);
            let groups = Groups::below(root.path());
            let watched = groups.watch();
            std::fs::write(root.path().join(path), after).unwrap();
            watched.finish()
        };
        let quota = |periods, throttled_periods, throttled_s| {
            Some(Quota { cpus: None, periods, throttled_periods, throttled_s })
        };
        assert_eq!(
            of(
                V2,
                "0::/a\n",
                stat,
                "usage_usec 7\nnr_periods 10\nnr_throttled 3\nthrottled_usec 500000\n",
                "usage_usec 9\nnr_periods 150\nnr_throttled 142\nthrottled_usec 13500000\nnr_bursts 0\n",
            ),
            quota(140, 139, 13.0)
        );
        assert_eq!(
            of(
                V1,
                "4:cpu,cpuacct:/a\n",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
                "nr_periods 20\nnr_throttled 10\nthrottled_time 1250000000\n",
            ),
            quota(20, 10, 1.25)
        );
        let same = "nr_periods 10\nnr_throttled 3\nthrottled_usec 500000\n";
        assert_eq!(of(V2, "0::/a\n", stat, same, same), None);
        // Counters that are not there, or that begin again.
        assert_eq!(of(V2, "0::/a\n", stat, same, "usage_usec 1\n"), None);
        assert_eq!(of(V2, "0::/a\n", stat, "", "usage_usec 1\n"), None);
    }

    #[test]
    fn this_process_is_read_without_a_fault() {
        let groups = Groups::of_this_process();
        let quota = groups.watch().finish();
        assert!(quota.is_none_or(|quota| quota.throttled_s >= 0.0));
        assert!(groups.quota().is_none_or(|(cpus, _)| cpus > 0.0));
    }
}
