//! The live screen at a real terminal: what keys and signals do, and that the terminal is as it was at every end.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, SpecialCodeIndex, Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::server::ScriptedServer;
use crate::support::Bench;

/// Longer than anything here may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);
const SHOWN: &str = "\u{1b}[?1049h";
const LEFT: &str = "\u{1b}[?1049l";
const CURSOR: &str = "\u{1b}[?25h";
/// What only the screen says.
const KEYS: &str = "q stop";
const LOAD: &str = "runner: { constant_for_duration: { duration: 100s, concurrency: 2 } }\n\
    iteration: [ { action: look, get: / } ]";

/// A terminal, and what came out of it.
struct PseudoTerminal {
    ours: File,
    theirs: OwnedFd,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl PseudoTerminal {
    fn new(columns: u16, rows: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).unwrap();
        let (seen, mut reader) = (Arc::new(Mutex::new(Vec::new())), File::from(ours.try_clone().unwrap()));
        let taken = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                taken.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { ours: ours.into(), theirs, seen }
    }

    /// Starts a command that has this terminal, as its own one with a session of its own, so that Ctrl-C reaches it.
    fn start(&self, command: &Command) -> Child {
        let mut own = Command::new("setsid");
        own.args(["--ctty", "--wait", "env", "--default-signal=HUP,INT,QUIT,TERM"]);
        own.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => own.env(name, value),
                None => own.env_remove(name),
            };
        }
        own.current_dir(command.get_current_dir().unwrap());
        own.env("TERM", "xterm-256color").env_remove("CI").env_remove("GITHUB_ACTIONS");
        let stream = || Stdio::from(self.theirs.try_clone().unwrap());
        own.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }

    /// Waits until a text has come, behind what came before the given place. Returns the place behind it.
    #[track_caller]
    fn wait_for(&self, text: &str, from: usize) -> usize {
        let until = Instant::now() + PATIENCE;
        loop {
            let seen = self.text();
            if let Some(at) = seen.get(from..).and_then(|rest| rest.find(text)) {
                return from + at + text.len();
            }
            assert!(Instant::now() < until, "{text:?} does not come: {seen:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&self, keys: &str) {
        (&self.ours).write_all(keys.as_bytes()).unwrap();
    }

    fn modes(&self) -> Termios {
        tcgetattr(self.theirs.as_fd()).unwrap()
    }

    /// Whether keys are echoed and come as lines, and which keys suspend and quit.
    fn key_modes(&self) -> (LocalModes, u8, u8) {
        let modes = self.modes();
        let codes =
            [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT].map(|index| modes.special_codes[index]);
        (modes.local_modes, codes[0], codes[1])
    }

    /// The exit code.
    #[track_caller]
    fn end(&self, mut child: Child) -> i32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(ended) = child.try_wait().unwrap() {
                return ended.code().unwrap();
            }
            assert!(Instant::now() < until, "does not end: {:?}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn load(answer_after: Duration) -> (Bench, ScriptedServer) {
    let bench = Bench::new();
    let server = ScriptedServer::answering_after(answer_after);
    bench.load(&server.url(), "", LOAD);
    (bench, server)
}

/// Whatever ends the load: the screen is left, the cursor is back, keys are what they were, and only then the result comes.
#[test]
fn the_terminal_is_as_it_was_at_every_end() {
    // Iterations that are under way leave the time for a second key.
    let (bench, _server) = load(Duration::from_millis(1_500));
    for (name, press, signal, last) in [
        ("q", "q", None, "report.html"),
        ("q while hidden", "pq", None, "report.html"),
        ("Ctrl-C", "\u{3}", None, "report.html"),
        ("Ctrl-C twice", "\u{3}\u{3}", None, "ended at once"),
        ("q, then Ctrl-C", "q\u{3}", None, "ended at once"),
        ("SIGTERM", "", Some("TERM"), "report.html"),
    ] {
        let terminal = PseudoTerminal::new(80, 24);
        let before = terminal.key_modes();
        let child = terminal.start(&bench.command(&["run", "scenario.yaml"]));
        let shown = terminal.wait_for(KEYS, terminal.wait_for(SHOWN, 0));
        let meanwhile = terminal.key_modes();
        assert!(!meanwhile.0.intersects(LocalModes::ICANON | LocalModes::ECHO), "{name}: {meanwhile:?}");
        assert!(meanwhile.0.contains(LocalModes::ISIG), "{name}: Ctrl-C is no signal");
        assert_eq!((meanwhile.1, meanwhile.2), (0, 0), "{name}: a key leaves the screen behind");
        for (number, key) in press.chars().enumerate() {
            terminal.press(&key.to_string());
            // The next key means something else only once this one has had its effect.
            if number + 1 < press.len() {
                terminal.wait_for(if key == 'p' { LEFT } else { "stopping" }, shown);
            }
        }
        if let Some(signal) = signal {
            crate::signals::signal(&child, signal);
        }
        assert_eq!(terminal.end(child), 105, "{name}: {:?}", terminal.text());
        let left = terminal.wait_for(LEFT, shown);
        terminal.wait_for(last, left);
        let seen = terminal.text();
        assert!(seen[shown..].contains(CURSOR), "{name}: no cursor: {seen:?}");
        assert!(!seen[left..].contains(KEYS) && !seen[left..].contains(SHOWN), "{name}: {seen:?}");
        assert!(!seen[..shown].contains("report.html"), "{name}: {seen:?}");
        assert_eq!(terminal.key_modes(), before, "{name}");
    }
}

/// Hidden, the load has its line, and the same key shows the screen again. A changed size is noticed.
#[test]
fn the_screen_is_hidden_and_shown_and_has_the_size_of_the_terminal() {
    let (bench, _server) = load(Duration::from_millis(5));
    let terminal = PseudoTerminal::new(80, 24);
    let child = terminal.start(&bench.command(&["run", "scenario.yaml"]));
    let mut at = terminal.wait_for(KEYS, terminal.wait_for(SHOWN, 0));
    let size = Winsize { ws_col: 130, ws_row: 40, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal.theirs.as_fd(), size).unwrap();
    // The last row of the larger terminal.
    at = terminal.wait_for("\u{1b}[40;1H", at);
    terminal.press("p");
    at = terminal.wait_for(LEFT, at);
    at = terminal.wait_for("/s, ", at);
    terminal.press("p");
    at = terminal.wait_for(KEYS, terminal.wait_for(SHOWN, at));
    terminal.press("?");
    // Only what has changed is drawn, so no text of several words can be waited for.
    at = terminal.wait_for("Ctrl-C", at);
    // The first one leaves the help.
    terminal.press("q");
    terminal.press("q");
    assert_eq!(terminal.end(child), 105);
    terminal.wait_for(LEFT, at);
}

/// Without being asked for, the screen is there only where it has room and somebody sits.
#[test]
fn there_is_a_screen_where_there_is_room_and_a_viewer() {
    let (bench, _server) = load(Duration::from_millis(5));
    for (arguments, (columns, rows), variable, expected) in [
        (&[][..], (80, 24), None, true),
        (&[], (79, 24), None, false),
        (&[], (80, 23), None, false),
        (&[], (80, 24), Some(("TERM", "dumb")), false),
        (&[], (80, 24), Some(("CI", "true")), false),
        (&["--no-live"], (80, 24), None, false),
        (&["--quiet"], (80, 24), None, false),
        (&["--live"], (40, 10), Some(("CI", "true")), true),
        (&["--no-live", "--live"], (80, 24), None, true),
        (&["--live"], (80, 24), Some(("TERM", "dumb")), false),
    ] {
        let terminal = PseudoTerminal::new(columns, rows);
        let arguments = [&["run", "scenario.yaml", "-z", "3s"], arguments].concat();
        let mut command = bench.command(&arguments);
        let mut wrapped = Command::new("env");
        let values = variable.map(|(name, value)| format!("{name}={value}"));
        wrapped.args(values).arg(command.get_program()).args(command.get_args());
        wrapped.current_dir(bench.path());
        command = wrapped;
        let child = terminal.start(&command);
        terminal.end(child);
        let seen = terminal.text();
        assert_eq!(seen.contains(SHOWN), expected, "{arguments:?} {variable:?} {columns}x{rows}: {seen:?}");
        assert_eq!(seen.contains(LEFT), expected, "{seen:?}");
    }
    // Asked for without a terminal, it says so, and the load runs.
    let ended = bench.run(&["run", "scenario.yaml", "-z", "1s", "--live"]);
    assert!(ended.stderr.contains("no live screen: standard input, output and error must be"), "{ended:?}");
    assert!(!ended.stderr.contains(SHOWN) && !ended.stdout.contains(SHOWN), "{ended:?}");
}
