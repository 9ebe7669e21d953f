//! A service that a test starts: it prints `listening PORT`, and ends when its standard input does.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::Bench;

/// A service, which ends with this.
pub(crate) struct StartedService {
    child: Child,
    pub(crate) port: u16,
}

impl StartedService {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening ").and_then(|port| port.parse().ok());
        let port = port.unwrap_or_else(|| {
            let mut said = String::new();
            let _ = child.kill();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("the service does not listen: {line}{said}")
        });
        Self { child, port }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Lets it end; gives what it printed after its first line.
    #[track_caller]
    pub(crate) fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Puts a load on it while its spans go to the receiver. The cause must be this span of this service if it is planted,
    /// and otherwise not: the service's own tail may be named then. The results.
    #[track_caller]
    pub(crate) fn is_cause_named(
        &self,
        receiver: SocketAddr,
        scenario: &str,
        (service, span): (&str, &str),
        is_planted: bool,
    ) -> Value {
        let bench = Bench::new();
        bench.load(&self.url(), &format!("profiler: {{ receive: \"{receiver}\" }}"), scenario);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let results = bench.results();
        let comparison = &results["workloads"][0]["comparison"];
        let kinds = comparison["kinds"].as_array().cloned().unwrap_or_default();
        let named = kinds.iter().find(|kind| kind["guilty"] == true);
        let is_named = named.is_some_and(|kind| kind["service"] == service && kind["name"] == span);
        assert_eq!(is_named, is_planted, "{comparison:#}\n{}", ended.stdout);
        results
    }
}

impl Drop for StartedService {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
