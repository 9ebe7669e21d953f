"""The image: bench on the few files of Debian that it needs, as an archive that every container engine loads."""

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

import archives

SUITE = "trixie"
# The program loader, the C library with its resolver, what unwinds a panic, and the certificates that TLS trusts.
PACKAGES = ("ca-certificates", "libc6", "libgcc-s1")
LIBRARIES = re.compile(
    r"usr/lib/(\w+-linux-gnu)/(ld-linux[\w-]*\.so\.\d|lib(c|m|gcc_s|resolv|nss_dns|nss_files|pthread|dl|rt)\.so\.\d)$")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
# A number without a name: no right on any system.
NOBODY = 65534


def debian(machine, cache):
    """Debian's packages, unpacked, as a tar. apt checks their signatures; no script of theirs runs."""
    kept = cache / f"debian-{SUITE}-{machine}.tar"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as work:
            made = Path(work, "root.tar")
            subprocess.run(["mmdebstrap", "--quiet", "--mode=unshare" if os.geteuid() else "--mode=root",
                            "--variant=extract", f"--architectures={ARCHITECTURES[machine]}",
                            f"--include={','.join(PACKAGES)}", SUITE, made], check=True, stdin=subprocess.DEVNULL)
            made.rename(kept)
    return kept.read_bytes()


def root(machine, cache):
    """The files of the image below bench itself."""
    made, certificates = [], []
    with tarfile.open(fileobj=io.BytesIO(debian(machine, cache))) as packages:
        found = {member.name.removeprefix("./"): member for member in packages}

        def bytes_of(name):
            member = found[name]
            if member.issym():
                target = os.path.normpath(os.path.join(os.path.dirname(name), member.linkname)).lstrip("/")
                return bytes_of(target)
            return packages.extractfile(member).read()

        for name in sorted(found):
            if LIBRARIES.match(name):
                made.append(archives.file(name, bytes_of(name), 0o755))
            elif name.startswith("usr/share/ca-certificates/") and name.endswith(".crt"):
                certificates.append(bytes_of(name).rstrip() + b"\n")
            elif re.match(r"usr/share/doc/(ca-certificates|libc6|gcc-\d+-base)/copyright$", name) and found[name].isfile():
                made.append(archives.file(name, bytes_of(name)))
        loader = found.get("usr/lib64/ld-linux-x86-64.so.2")
        if loader is not None:
            made.append(archives.file("lib64/ld-linux-x86-64.so.2", bytes_of("usr/lib64/ld-linux-x86-64.so.2"), 0o755))
        else:
            name = next(name for name in found if name.endswith("/ld-linux-aarch64.so.1"))
            made.append(archives.file("lib/ld-linux-aarch64.so.1", bytes_of(name), 0o755))
    if len(certificates) < 50 or not any(entry.path.endswith("/libc.so.6") for entry in made):
        raise SystemExit(f"error: Debian's packages have {len(certificates)} certificates, and not what is expected")
    # As update-ca-certificates writes it; the order of names keeps it the same.
    made.append(archives.file("etc/ssl/certs/ca-certificates.crt", b"".join(certificates)))
    return made


def files(program, machine, licence, cache):
    """All files of the image."""
    return root(machine, cache) + [
        archives.file("usr/bin/bench", program, 0o755),
        archives.file("usr/share/doc/bench/LICENSE", licence),
        archives.file("etc/passwd", f"root:x:0:0:root:/:/bin/false\nbench:x:{NOBODY}:{NOBODY}:bench:/load:/bin/false\n"),
        archives.file("etc/group", f"root:x:0:\nbench:x:{NOBODY}:\n"),
        # Names are looked up as on any machine: in /etc/hosts, then by the servers of /etc/resolv.conf.
        archives.file("etc/nsswitch.conf", "hosts: files dns\n"),
        archives.folder("tmp", 0o1777),
        archives.folder("load", 0o755, NOBODY),
        archives.folder("runs", 0o755, NOBODY),
    ]


def oci(entries, machine, version, commit, epoch, level):
    """An archive of one image, in OCI's layout and with the list that `docker load` reads."""
    layer = archives.tar(entries, epoch)
    packed = archives.gz(layer, level)
    created = subprocess.check_output(["date", "-u", "-d", f"@{epoch}", "+%Y-%m-%dT%H:%M:%SZ"], text=True).strip()
    name = f"bench:{version}"
    config = text({
        "architecture": ARCHITECTURES[machine], "os": "linux", "created": created,
        "config": {
            "User": f"{NOBODY}:{NOBODY}", "Entrypoint": ["/usr/bin/bench"], "Cmd": ["--help"], "WorkingDir": "/load",
            "Env": ["PATH=/usr/bin", "HOME=/tmp"],
            "Labels": {"org.opencontainers.image.title": "bench", "org.opencontainers.image.version": version,
                       "org.opencontainers.image.revision": commit,
                       "org.opencontainers.image.licenses": "Apache-2.0"},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}"]},
        "history": [{"created": created, "created_by": ".ci/package"}],
    })
    media = "application/vnd.oci.image"
    manifest = text({
        "schemaVersion": 2, "mediaType": f"{media}.manifest.v1+json",
        "config": described(config, f"{media}.config.v1+json"),
        "layers": [described(packed, f"{media}.layer.v1.tar+gzip")],
    })
    reference = dict(described(manifest, f"{media}.manifest.v1+json"),
                     annotations={"org.opencontainers.image.ref.name": version,
                                  "io.containerd.image.name": f"docker.io/library/{name}"})
    for_docker = [{"Config": blob(config), "RepoTags": [name], "Layers": [blob(packed)]}]
    return archives.tar([
        archives.file("oci-layout", text({"imageLayoutVersion": "1.0.0"})),
        archives.file("index.json", text({"schemaVersion": 2, "mediaType": f"{media}.index.v1+json", "manifests": [reference]})),
        archives.file("manifest.json", text(for_docker)),
        *(archives.file(blob(data), data) for data in (config, packed, manifest)),
    ], epoch)


def text(value):
    return json.dumps(value, sort_keys=True).encode()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def blob(data):
    return f"blobs/sha256/{sha256(data)}"


def described(data, media):
    return {"mediaType": media, "digest": f"sha256:{sha256(data)}", "size": len(data)}
