//! Writes files atomically, and never through links that another user created.
//!
//! A run directory may come from another user. Temporary files have random names, are created exclusively, and only
//! their owner can read them. An existing link or pipe with the final name is replaced, not followed. The only
//! exception is the output path that the user gives a command: it may be a link, or a device such as /dev/stdout.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many temporary names to try; with 64 random bits, even a single collision is unlikely.
const NAMES_MAX: usize = 8;
/// How many links in a row to follow.
const LINKS_MAX: usize = 8;

/// Writes a file atomically: under a temporary name, then fsync, then rename.
///
/// # Errors
/// Any error of the system or of `write`; the temporary file is removed.
pub fn write_at_once(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    write_whole(path, true, write)
}

/// The same for one of many files, which [`sync_all_in`] syncs together: each fsync of its own takes milliseconds.
///
/// # Errors
/// As [`write_at_once`].
pub fn write_one_of_many(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    write_whole(path, !SYNCS_ALL, write)
}

/// Whether the system can sync many files with one call.
const SYNCS_ALL: bool = cfg!(target_os = "linux");

/// Syncs what [`write_one_of_many`] wrote in a directory, and whatever else waits to be written on its file system.
///
/// # Errors
/// Any error of the system.
pub fn sync_all_in(directory: &Path) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(File::open(directory)?)?;
    let _ = directory;
    Ok(())
}

fn write_whole(
    path: &Path,
    syncs: bool,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "a directory has this name"));
    }
    let (temporary, file) = create_beside(path)?;
    let written = (|| {
        let mut output = BufWriter::new(file);
        write(&mut output)?;
        output.flush()?;
        if syncs {
            output.get_ref().sync_all()?;
        }
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // The first error is the one that matters.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Writes a command's output to the path that the user gave. Files are written as by [`write_at_once`], after following
/// links; devices, pipes and open descriptors are written to directly.
///
/// # Errors
/// As [`write_at_once`].
pub fn write_output(
    path: &Path,
    write: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if is_stream(&path) {
            let mut output = BufWriter::new(File::options().append(true).open(&path)?);
            write(&mut output)?;
            return output.flush();
        }
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return write_at_once(&path, write),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "there are too many symbolic links in a row"))
}

/// True for devices, pipes, sockets, and descriptors by number: these can only be written to directly.
fn is_stream(path: &Path) -> bool {
    let of_process = |path: &Path| path.starts_with("/dev/fd") || path.starts_with("/proc/self/fd");
    let special = fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir());
    special || of_process(path) || fs::read_link(path).is_ok_and(|target| of_process(&target))
}

/// Creates a directory for its owner only, unless it exists. A link to a directory is an error.
///
/// # Errors
/// Any error of the system, or something other than a directory with this name.
pub fn make_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(found) => {
            let what = if found.is_symlink() { "a symbolic link" } else { "something else" };
            let message = format!("{what} is in the place of a directory; remove it");
            Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            owner_only(&mut builder);
            match builder.create(path) {
                // Another process was first.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => make_directory(path),
                made => made,
            }
        }
        Err(error) => Err(error),
    }
}

/// Opens a regular file for reading. Pipes, which could block forever, and devices are refused.
///
/// # Errors
/// Any error of the system, or that the path is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let refused = || io::Error::new(io::ErrorKind::InvalidInput, "not a regular file");
    if !fs::metadata(path)?.is_file() {
        return Err(refused());
    }
    // Something else may have this name by now.
    let file = at_once().open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

/// Reads a regular file whole.
///
/// # Errors
/// As [`open_regular`].
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Options that open what others write to without waiting for them.
fn at_once() -> fs::OpenOptions {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed(),
    );
    options
}

/// Set once the process was asked to end.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on, nothing of [`open_named`] is waited for.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether [`interrupt`] was called.
#[must_use]
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Opens a file that the user names, which may also be a pipe, as in `<(…)`. Reading waits for what a pipe has yet to
/// say, until [`interrupt`].
///
/// # Errors
/// Any error of the system, or that the path is a directory.
pub fn open_named(path: &Path) -> io::Result<NamedFile> {
    if fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let file = at_once().open(path)?;
    // A pipe without a name has had its writer from the start.
    let is_awaited = is_pipe(&file.metadata()?) && fs::symlink_metadata(path).is_ok_and(|own| is_pipe(&own));
    Ok(NamedFile { file, is_awaited })
}

#[cfg(unix)]
fn is_pipe(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type())
}

#[cfg(not(unix))]
fn is_pipe(_: &fs::Metadata) -> bool {
    false
}

/// A file that [`open_named`] opened.
#[derive(Debug)]
pub struct NamedFile {
    file: File,
    /// Whether its end may only mean that no program has begun to write.
    is_awaited: bool,
}

impl Read for NamedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const LOOK_EVERY: Duration = Duration::from_millis(5);
        loop {
            match self.file.read(buffer) {
                Ok(0) if self.is_awaited && !buffer.is_empty() => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => {
                    self.is_awaited = false;
                    return read;
                }
            }
            if is_interrupted() {
                // Readers try again after the kind `Interrupted`.
                return Err(io::Error::other("interrupted while waiting for it"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Creates a file to append to, which only its owner can read; it must not exist.
///
/// # Errors
/// Any error of the system.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.append(true).create_new(true);
    private(&mut options);
    options.open(path)
}

/// Creates a file with an unused name in the directory of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut options = File::options();
    // Exclusive creation does not follow links.
    options.write(true).create_new(true);
    private(&mut options);
    let mut ended = io::ErrorKind::AlreadyExists.into();
    for _ in 0..NAMES_MAX {
        let temporary = path.with_file_name(format!(".bench-{:016x}.part", fastrand::u64(..)));
        match options.open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => ended = error,
            Err(error) => return Err(error),
        }
    }
    Err(ended)
}

/// Makes new directories accessible to their owner only.
#[cfg(unix)]
pub fn owner_only(builder: &mut fs::DirBuilder) {
    std::os::unix::fs::DirBuilderExt::mode(builder, 0o700);
}

#[cfg(unix)]
fn private(options: &mut fs::OpenOptions) {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
}

/// Makes new directories accessible to their owner only.
#[cfg(not(unix))]
pub fn owner_only(_: &mut fs::DirBuilder) {}

#[cfg(not(unix))]
fn private(_: &mut fs::OpenOptions) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_write_leaves_no_file_and_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.json");
        write_at_once(&path, |output| output.write_all(b"old")).unwrap();
        let failed = write_at_once(&path, |output| {
            output.write_all(b"new, but")?;
            Err(io::Error::other("disk full"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn processes_may_make_the_same_directory_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..50 {
            let path = folder.path().join(number.to_string());
            let gate = std::sync::Barrier::new(4);
            std::thread::scope(|scope| {
                let make = || {
                    gate.wait();
                    make_directory(&path)
                };
                let made: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
                made.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
            });
        }
    }

    #[cfg(unix)]
    #[test]
    fn existing_links_and_pipes_are_replaced_and_never_followed() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (outside, path) = (folder.path().join("outside"), folder.path().join("results.json"));
        fs::write(&outside, "precious").unwrap();
        symlink(&outside, &path).unwrap();
        symlink(&outside, folder.path().join("results.json.part")).unwrap();
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
        write_at_once(&path, |output| {
            let temporary = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
            let temporary = temporary.filter(|path| path.to_string_lossy().contains("/.bench-"));
            assert!(temporary.map(|path| mode(&path)).eq([0o600]));
            output.write_all(b"new")
        })
        .unwrap();
        assert_eq!(
            (fs::read(&outside).unwrap(), fs::read(&path).unwrap()),
            (b"precious".into(), b"new".into())
        );
        assert!(!fs::symlink_metadata(&path).unwrap().is_symlink());

        let directory = folder.path().join("directory");
        fs::create_dir(&directory).unwrap();
        let error = write_at_once(&directory, |_| panic!("nothing is to be written")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let link = folder.path().join("traces");
        symlink(&directory, &link).unwrap();
        assert!(make_directory(&link).unwrap_err().to_string().contains("a symbolic link"));
        assert!(make_directory(&outside).is_err());
        assert_eq!((mode(&directory) != 0o700, make_directory(&directory).is_ok()), (true, true));
        assert!(open_regular(&directory).is_err() && open_regular(Path::new("/dev/null")).is_err());
    }

    /// Pipes are read to their end, and none holds up the program.
    #[cfg(unix)]
    #[test]
    fn a_pipe_is_read_where_it_may_be_one_and_refused_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(open_regular(&pipe).is_err() && read_regular(&pipe).is_err());
        let mut named = open_named(&pipe).unwrap();
        let writer = std::thread::spawn(move || {
            let mut output = File::options().write(true).open(&pipe).unwrap();
            output.write_all(b"one ").unwrap();
            std::thread::sleep(Duration::from_millis(50));
            output.write_all(b"two").unwrap();
        });
        let mut text = String::new();
        named.read_to_string(&mut text).unwrap();
        writer.join().unwrap();
        assert_eq!(text, "one two");
        assert!(open_named(folder.path()).is_err());
        let mut nothing = String::new();
        open_named(Path::new("/dev/null")).unwrap().read_to_string(&mut nothing).unwrap();
        assert_eq!(nothing, "");
    }

    #[cfg(unix)]
    #[test]
    fn the_users_own_link_is_followed_and_a_device_is_written_to() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real.xml"), folder.path().join("latest.xml"));
        symlink("real.xml", &link).unwrap();
        for text in ["one", "two"] {
            write_output(&link, |output| output.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read_to_string(&real).unwrap(), text);
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        }
        write_output(Path::new("/dev/null"), |output| output.write_all(b"x")).unwrap();
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        assert!(write_output(&circle, |_| Ok(())).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }
}
