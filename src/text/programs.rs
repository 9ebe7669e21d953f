//! Runs a program and takes what it prints: with a time limit, and with bounded output.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::marked::Mark;
use base::visible::on_one_line;

/// The most that a program may print.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;
/// How much of an error message is shown.
const ERROR_CHARS_MAX: usize = 200;
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs `program`, whose first item is its name, without a shell, and gives what it printed. It ends before this
/// returns, and so do the programs that it started, where the system can end a group of processes. It is ended early
/// once `cancelled` is true.
///
/// # Errors
/// It cannot be started, fails, does not end in time, or prints too much.
pub fn output(program: &[String], limit: Duration, cancelled: &AtomicBool) -> Result<Vec<u8>, String> {
    let mut running = started(program)?;
    let until = Instant::now() + limit;
    let too_slow = || format!("it did not end within {} s", limit.as_secs_f64());
    let (printed, complaints) = (reader(running.0.stdout.take()), reader(running.0.stderr.take()));
    let is_over = || Instant::now() >= until || cancelled.load(Ordering::Relaxed);
    let printed = loop {
        match printed.recv_timeout(LOOK_EVERY) {
            Ok(printed) => break printed,
            Err(_) if is_over() => return Err(too_slow()),
            Err(_) => {}
        }
    };
    if printed.len() > OUTPUT_BYTES_MAX {
        return Err(format!("it printed more than {OUTPUT_BYTES_MAX} bytes"));
    }
    let status = loop {
        match running.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if is_over() => return Err(too_slow()),
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(error.to_string()),
        }
    };
    if status.success() {
        return Ok(printed);
    }
    let complaints = complaints.recv_timeout(LOOK_EVERY * 100).unwrap_or_default();
    let complaints = String::from_utf8_lossy(&complaints).into_owned();
    let last = complaints.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    let shown: String = on_one_line(last.trim()).chars().take(ERROR_CHARS_MAX).collect();
    let said = if shown.is_empty() { String::new() } else { format!(": {shown}") };
    Err(format!("it failed ({status}){said}"))
}

/// A program that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The first 64 KiB of its standard output.
    pub stdout: Vec<u8>,
    /// The first 64 KiB of its standard error.
    pub stderr: Vec<u8>,
}

/// Runs `program` as [`output`] does, however it ends and however much it prints. What it started in the background ends
/// with it.
///
/// # Errors
/// It cannot be started, or does not end in time.
pub fn run(program: &[String], limit: Duration, cancelled: &AtomicBool) -> Result<ProgramOutput, String> {
    let mut running = started(program)?;
    let (stdout, stderr) = (beginning(running.0.stdout.take()), beginning(running.0.stderr.take()));
    let until = Instant::now() + limit;
    let status = loop {
        match running.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if cancelled.load(Ordering::Relaxed) => {
                return Err("it was ended with the run".to_owned());
            }
            Ok(None) if Instant::now() >= until => {
                return Err(format!("it did not end within {} s", limit.as_secs_f64()));
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(error) => return Err(error.to_string()),
        }
    };
    // Programs in the background may hold the output open.
    drop(running);
    let read = |from: mpsc::Receiver<Vec<u8>>| from.recv_timeout(LOOK_EVERY * 500).unwrap_or_default();
    Ok(ProgramOutput { code: status.code(), stdout: read(stdout), stderr: read(stderr) })
}

/// Reads everything on a thread of its own, and gives the beginning.
fn beginning(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(OUTPUT_BYTES_MAX as u64).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut from, &mut std::io::sink());
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Reads a bit more than is allowed, on a thread of its own.
fn reader(from: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // What was read before an error counts.
            let _ = from.take(OUTPUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

/// Starts a program in a group of its own, so that what it starts can be ended with it.
fn started(program: &[String]) -> Result<ProgramProcess, String> {
    let Some((name, arguments)) = program.split_first() else { return Err("there is no program".to_owned()) };
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mark = Mark::on(&mut command);
    command
        .spawn()
        .map(|child| ProgramProcess(child, mark))
        .map_err(|error| format!("it cannot be started: {error}"))
}

/// A program that is ended with its variable.
struct ProgramProcess(Child, Mark);

impl Drop for ProgramProcess {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // Programs that it started may hold its output open.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
        self.1.end_all();
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;

    fn printed(words: &[&str], limit: Duration) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        output(&words, limit, &AtomicBool::new(false))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    #[test]
    fn programs_print_fail_or_are_ended() {
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(100));
        for (words, limit, expected) in [
            (&["echo", "a b"][..], long, Ok("a b\n")),
            (&["sh", "-c", "echo out; echo err >&2; echo last >&2; exit 3"], long, Err("3): last")),
            (&["/nowhere/at/all"], long, Err("cannot be started")),
            (&["sleep", "600"], short, Err("did not end within 0.1 s")),
            // What it started holds the output open.
            (&["sh", "-c", "sleep 600 & echo x"], short, Err("did not end")),
            (&["sh", "-c", "yes"], long, Err("printed more than 65536 bytes")),
            (&[], long, Err("no program")),
        ] {
            match (printed(words, limit), expected) {
                (Ok(printed), Ok(expected)) => assert_eq!(printed, expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{words:?}: {error}"),
                (ended, _) => panic!("{words:?}: {ended:?}"),
            }
        }
    }

    #[test]
    fn programs_end_as_they_do() {
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(100));
        for (words, limit, expected) in [
            (&["sh", "-c", "echo out; echo err >&2; exit 3"][..], long, Ok((Some(3), "out\n", "err\n"))),
            (&["sh", "-c", "kill -9 $$"], long, Ok((None, "", ""))),
            // What it started in the background holds the output open.
            (&["sh", "-c", "sleep 600 & echo x"], long, Ok((Some(0), "x\n", ""))),
            (&["sleep", "600"], short, Err("did not end within 0.1 s")),
            (&["/nowhere/at/all"], long, Err("cannot be started")),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            match (run(&words, limit, &AtomicBool::new(false)), expected) {
                (Ok(ended), Ok((code, stdout, stderr))) => {
                    assert_eq!(
                        (ended.code, &*ended.stdout, &*ended.stderr),
                        (code, stdout.as_bytes(), stderr.as_bytes())
                    );
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{words:?}: {error}"),
                (ended, _) => panic!("{words:?}: {ended:?}"),
            }
        }
        let much = ["sh", "-c", "head -c 300000 /dev/zero"].map(str::to_owned);
        let ended = run(&much, long, &AtomicBool::new(false)).unwrap();
        assert_eq!((ended.code, ended.stdout.len()), (Some(0), OUTPUT_BYTES_MAX));
        // A session of its own does not help a program to stay.
        let leaves =
            ["sh", "-c", "setsid sleep 600 > /dev/null 2>&1 & echo $!; sleep 0.3"].map(str::to_owned);
        let printed = run(&leaves, long, &AtomicBool::new(false)).unwrap().stdout;
        let pid = String::from_utf8(printed).unwrap().trim().to_owned();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z ") || stat.contains(") X "), "{stat}");
        let ended = run(&["sleep".to_owned(), "600".to_owned()], long, &AtomicBool::new(true));
        assert_eq!(ended, Err("it was ended with the run".to_owned()));
    }
}
