//! The disk of a simulation: what stands between a thread's next log and its file.

use std::cell::RefCell;

use super::Sink;

type Disk = Box<dyn FnOnce(Box<dyn Sink>) -> Box<dyn Sink>>;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// Lets the next log of this thread be written through what `disk` makes of its file.
pub fn set(disk: Option<Disk>) {
    DISK.set(disk);
}

pub(super) fn disk(file: Box<dyn Sink>) -> Box<dyn Sink> {
    match DISK.take() {
        Some(disk) => disk(file),
        None => file,
    }
}
