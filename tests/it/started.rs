//! A service that a test starts: it prints `listening PORT`, and ends when its standard input does.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

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
}

impl Drop for StartedService {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
