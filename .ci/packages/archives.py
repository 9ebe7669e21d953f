"""Archives whose bytes depend on nothing but their entries: no times, users or orders of this machine."""

import gzip
import io
import lzma
import tarfile
import zipfile
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file; a directory if it has no bytes and no link."""

    path: str
    data: "bytes | None" = None
    mode: int = 0o644
    link: str = ""
    owner: int = 0


def file(path, data, mode=0o644):
    return Entry(path, data if isinstance(data, bytes) else data.encode(), mode)


def folder(path, mode=0o755, owner=0):
    return Entry(path, mode=mode, owner=owner)


def with_folders(entries):
    """The entries in order of their names, each after the directories above it."""
    all_of_them = {entry.path: entry for entry in entries}
    for entry in entries:
        parts = entry.path.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            all_of_them.setdefault(path, folder(path))
    return [all_of_them[path] for path in sorted(all_of_them)]


def tar(entries, epoch, prefix=""):
    """A tar of the entries with the directories above them; `prefix` is put before each name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in with_folders(entries):
            info = tarfile.TarInfo(prefix + entry.path)
            info.mtime, info.mode, info.uid, info.gid = epoch, entry.mode, entry.owner, entry.owner
            if entry.link:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
            elif entry.data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.data)
            archive.addfile(info, io.BytesIO(entry.data or b""))
    return out.getvalue()


def gz(data, level=9):
    out = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=level, mtime=0) as stream:
        stream.write(data)
    return out.getvalue()


def xz(data, level=6):
    return lzma.compress(data, preset=level)


def ar(members, epoch):
    """An archive as Debian's packages are: names with their bytes, in this order."""
    out = bytearray(b"!<arch>\n")
    for name, data in members:
        out += f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += data + b"\n" * (len(data) % 2)
    return bytes(out)


def zip_of(entries, level=9):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=level) as archive:
        for entry in entries:
            # The oldest time that the format knows.
            info = zipfile.ZipInfo(entry.path, (1980, 1, 1, 0, 0, 0))
            info.compress_type, info.create_system = zipfile.ZIP_DEFLATED, 3
            info.external_attr = (0o100000 | entry.mode) << 16
            archive.writestr(info, entry.data, compresslevel=level)
    return out.getvalue()
