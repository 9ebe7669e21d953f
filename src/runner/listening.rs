//! Processes of this machine that listen at the load's targets, and how much processor time they take.
//!
//! Known on Linux, of processes whose descriptors this one may read: those of the same user, as a rule.

use measure::generator::LocalProcess;

use client::url::Origin;

/// What the processes had used when the load began.
pub(super) struct ListeningProcesses {
    #[cfg(target_os = "linux")]
    began: Vec<linux::ProcessReading>,
}

impl ListeningProcesses {
    /// Finds them, and reads what they have used so far.
    pub(super) fn find(origins: &[Origin]) -> Self {
        let ports: Vec<u16> = origins.iter().filter(|one| is_here(one)).map(|one| one.port).collect();
        Self {
            #[cfg(target_os = "linux")]
            began: if ports.is_empty() { Vec::new() } else { linux::listening(&ports) },
        }
    }

    /// What they have used since. One that has ended is left out.
    pub(super) fn finish(self) -> Vec<LocalProcess> {
        #[cfg(target_os = "linux")]
        return self.began.iter().filter_map(linux::ProcessReading::used_since).collect();
        #[cfg(not(target_os = "linux"))]
        Vec::new()
    }
}

/// Whether the name is one of this machine's own.
fn is_here(origin: &Origin) -> bool {
    origin.host == "localhost"
        || origin.host.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashMap;
    use std::time::Instant;

    use measure::generator::LocalProcess;
    use procfs::net::{TcpNetEntry, TcpState};
    use procfs::process::{FDTarget, Process, all_processes};

    /// What a process has used of the processors, ever.
    pub(super) struct ProcessReading {
        at: Instant,
        process: Process,
        port: u16,
        name: String,
        /// Threads that have ended count.
        ticks: u64,
        /// Of each thread: computed, and ready to compute without a processor, in nanoseconds.
        threads: HashMap<i32, (u64, u64)>,
    }

    /// The processes that listen at one of the ports, but for this one, which is the embedded demo.
    pub(super) fn listening(ports: &[u16]) -> Vec<ProcessReading> {
        let sockets = procfs::net::tcp().into_iter().chain(procfs::net::tcp6()).flatten();
        let is_target = |one: &TcpNetEntry| {
            let ip = one.local_address.ip().to_canonical();
            one.state == TcpState::Listen
                && ports.contains(&one.local_address.port())
                && (ip.is_loopback() || ip.is_unspecified())
        };
        let port_of: HashMap<u64, u16> =
            sockets.filter(is_target).map(|one| (one.inode, one.local_address.port())).collect();
        if port_of.is_empty() {
            return Vec::new();
        }
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let others = all_processes().into_iter().flatten().flatten().filter(|process| process.pid != own);
        let port = |process: &Process| {
            let mut targets = process.fd().ok()?.flatten().map(|descriptor| descriptor.target);
            targets.find_map(|target| match target {
                FDTarget::Socket(inode) => port_of.get(&inode).copied(),
                _ => None,
            })
        };
        others.filter_map(|process| ProcessReading::take(port(&process)?, process)).collect()
    }

    impl ProcessReading {
        fn take(port: u16, process: Process) -> Option<Self> {
            let stat = process.stat().ok()?;
            let tasks = process.tasks().ok()?.flatten();
            let threads = tasks.filter_map(|task| {
                let used = task.schedstat().ok()?;
                Some((task.tid, (used.sum_exec_runtime, used.run_delay)))
            });
            let threads = threads.collect();
            Some(Self {
                at: Instant::now(),
                port,
                name: stat.comm,
                ticks: stat.utime + stat.stime,
                threads,
                process,
            })
        }

        /// What it has used since this reading was taken.
        pub(super) fn used_since(&self) -> Option<LocalProcess> {
            let now = Self::take(self.port, Process::new(self.process.pid).ok()?)?;
            let before = |thread: &i32| self.threads.get(thread).copied().unwrap_or_default();
            let since = now.threads.iter().map(|(thread, used)| {
                let before = before(thread);
                (used.0.saturating_sub(before.0), used.1.saturating_sub(before.1))
            });
            let since: Vec<(u64, u64)> = since.collect();
            let seconds = |ns: u64| ns as f64 / 1e9;
            Some(LocalProcess {
                port: self.port,
                pid: u32::try_from(self.process.pid).ok()?,
                name: now.name,
                threads: now.threads.len() as u64,
                seen_s: (now.at - self.at).as_secs_f64(),
                cpu_s: now.ticks.checked_sub(self.ticks)? as f64 / procfs::ticks_per_second() as f64,
                thread_cpu_s: seconds(since.iter().map(|used| used.0).max().unwrap_or(0)),
                run_queue_s: seconds(since.iter().map(|used| used.1).sum()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::url::BaseUrl;

    #[test]
    fn only_this_machines_own_names_are_looked_at() {
        for (url, expected) in [
            ("http://127.0.0.1:80", true),
            ("http://127.8.0.1:80", true),
            ("https://localhost", true),
            ("http://[::1]:8080", true),
            ("http://10.0.0.1", false),
            ("http://example.org", false),
            ("unix:/run/app.sock", false),
        ] {
            assert_eq!(is_here(&BaseUrl::parse(url).unwrap().origin), expected, "{url}");
        }
    }

    /// A real process that listens, and computes in one of its two threads.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_that_listens_is_found_and_what_it_computes_is_seen() {
        use std::io::Read as _;
        let program = "import socket, sys, threading, time\n\
                       one = socket.create_server(('127.0.0.1', 0))\n\
                       threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n\
                       sys.stdout.write('%05d' % one.getsockname()[1]); sys.stdout.flush()\n\
                       until = time.process_time() + 60\n\
                       while time.process_time() < until: pass\n";
        let mut child = std::process::Command::new("python3");
        let child = child.args(["-c", program]).stdout(std::process::Stdio::piped()).spawn();
        let mut child = match child {
            Ok(child) => child,
            Err(error) => return println!("skipped: needs python3: {error}"),
        };
        let mut port = [0; 5];
        child.stdout.take().unwrap().read_exact(&mut port).unwrap();
        let port: u16 = std::str::from_utf8(&port).unwrap().parse().unwrap();
        let origin = |url: String| BaseUrl::parse(&url).unwrap().origin;
        let found = ListeningProcesses::find(&[origin(format!("http://127.0.0.1:{port}"))]);
        let elsewhere = ListeningProcesses::find(&[origin("http://127.0.0.1:1".to_owned())]);
        let mut used = Vec::new();
        // On a busy machine it may take a while until it has computed this much.
        for _ in 0..600 {
            std::thread::sleep(std::time::Duration::from_millis(100));
            used = found.began.iter().filter_map(linux::ProcessReading::used_since).collect();
            if used.iter().any(|one| one.cpu_s >= 0.1) {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let [one] = &used[..] else { panic!("{used:?}") };
        assert_eq!((one.pid, one.port, one.threads), (child.id(), port, 2));
        assert!(one.name.starts_with("python3"), "{one:?}");
        // One counts in hundredths of a second, the other to the nanosecond.
        assert!(one.cpu_s >= 0.1 && (one.thread_cpu_s - one.cpu_s).abs() < 0.05, "{one:?}");
        assert!(found.finish().is_empty(), "it has ended");
        assert!(elsewhere.finish().is_empty());
    }
}
