//! A proxy for TCP that passes bytes on, and stands still now and then, as a network that loses packets does.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A proxy, which ends with this.
pub(crate) struct StallingProxy {
    pub(crate) port: u16,
    ends: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl StallingProxy {
    /// A proxy to a port of this machine. After each `flows` it stands still for `stalls`.
    pub(crate) fn start(to: u16, flows: Duration, stalls: Duration) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        listener.set_nonblocking(true).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let (is_over, began) = (Arc::clone(&ends), Instant::now());
        let acceptor = std::thread::spawn(move || {
            let mut copying = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                let Ok((near, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                near.set_nonblocking(false).unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let is_over = Arc::clone(&is_over);
                    let pass = move || pass(from, to, &is_over, &|| still(began.elapsed(), flows, stalls));
                    copying.push(std::thread::spawn(pass));
                }
            }
            copying.into_iter().for_each(|thread| thread.join().unwrap());
        });
        Self { port, ends, acceptor: Some(acceptor) }
    }
}

impl Drop for StallingProxy {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        self.acceptor.take().map(JoinHandle::join).transpose().unwrap();
    }
}

/// How long it stands still from now on.
fn still(passed: Duration, flows: Duration, stalls: Duration) -> Duration {
    let round = flows + stalls;
    let at = Duration::from_nanos(u64::try_from(passed.as_nanos() % round.as_nanos()).unwrap());
    if at < flows { Duration::ZERO } else { round - at }
}

fn pass(mut from: TcpStream, mut to: TcpStream, is_over: &AtomicBool, still: &dyn Fn() -> Duration) {
    for stream in [&from, &to] {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    }
    let mut bytes = [0; 1 << 16];
    while !is_over.load(Ordering::SeqCst) {
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => {
                std::thread::sleep(still());
                if to.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock) => {}
            Err(_) => break,
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
