#!/usr/bin/env python3
"""Installs each package on a bare Debian and makes a first load there, as a user who has no compiler.

    .ci/package --program target/release/bench --fast && tests/packages/try.py
    tests/packages/try.py --suite bullseye tarball wheel      # an older system, and some packages only

A root file system of Debian's essential packages, pip and rpm is made with mmdebstrap and kept in target/packages-roots. Each
package is installed into a fresh copy, by its own tool, without a network. Then a user without rights runs `bench run demo`
in an empty directory, which must find the demo's slow query. The image is loaded into buildah, which checks every digest, and
runs there with its own user; so do two shards of a load, which are merged. Needs root, mmdebstrap, unshare and buildah.
Prints how long each took from the package to the finding.
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
USER = 1000
NOBODY = 65534
# What a load of the demo says: its title, and what it finds.
EXPECTED = (" · Log in, then look a user up on demo", "Slow ones more often have `cache=miss`", "FROM assignment")
# On a busy machine, bench gives no verdict, but finds the cause all the same.
CODES = (0, 3)
# Megabits per second, for the time that a download takes.
NETWORK = 100


def check(is_so, what):
    if not is_so:
        raise SystemExit(f"error: {what}")


def root_of(suite):
    kept = TARGET / f"packages-roots/{suite}.tar"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        half = kept.with_suffix(".half.tar")
        subprocess.run(["mmdebstrap", "--quiet", "--variant=essential", "--include=python3-venv,rpm", suite, half],
                       check=True, stdin=subprocess.DEVNULL)
        half.rename(kept)
    return kept


class System:
    """A fresh copy of a root file system."""

    def __init__(self, suite, folder):
        self.folder = Path(folder)
        subprocess.run(["tar", "-x", "-C", folder, "-f", root_of(suite), "--exclude=./dev/*"], check=True)
        # Nothing of the machine's devices: only what every program may use.
        for name, minor in (("null", 3), ("zero", 5), ("urandom", 9)):
            os.mknod(self.folder / "dev" / name, 0o020666, os.makedev(1, minor))
            os.chmod(self.folder / "dev" / name, 0o666)
        self.home = self.folder / "home/user"
        self.home.mkdir(parents=True)
        os.chown(self.home, USER, USER)

    def run(self, script, user=0, codes=(0,)):
        """Runs a script of the shell, with namespaces of its own: no network but 127.0.0.1, and /proc."""
        # The root is a mount, because rpm changes how it is shared.
        inner = 'mount --bind "$ROOT" "$ROOT"; mount -t proc proc "$ROOT/proc"; ip link set lo up; ' \
                f'exec chroot --userspec={user}:{user} "$ROOT" /usr/bin/env -i HOME=/home/user ' \
                'PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/sh -ec "$SCRIPT"'
        environment = dict(os.environ, ROOT=str(self.folder), SCRIPT=f"cd /home/user; {script}")
        ended = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--net", "/bin/sh", "-ec", inner], env=environment,
                               capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        said = ended.stdout + ended.stderr
        check(ended.returncode in codes, f"`{script}` ended with {ended.returncode}:\n{said}")
        return said


def first_load(system, program, version):
    """What a user without rights sees."""
    said = system.run(f"command -v rustc cc && exit 1; {program} --version; {program} run demo", USER, CODES)
    check(f"bench {version}" in said, f"another version:\n{said}")
    for part in EXPECTED:
        check(part in said, f"the load did not say `{part}`:\n{said}")
    reports = list(system.home.glob("runs/*/report.html"))
    check(len(reports) == 1 and reports[0].stat().st_uid == USER, f"{reports} instead of one report of the user")


def put(system, package):
    shutil.copy(package, system.folder / "tmp")
    return f"/tmp/{package.name}"


def tarball(system, package):
    system.run(f"tar -xzf {put(system, package)} --strip-components=1 -C /usr/local")
    return "bench"


def static(system, package):
    tarball(system, package)
    # It runs where there is nothing else: no C library, no shell.
    alone = "mkdir /alone; cp /usr/local/bin/bench /alone; chroot /alone /bench --version"
    check(system.run(alone).startswith("bench "), "the static program needs something of the system")
    return "bench"


def wheel(system, package):
    system.run(f"python3 -m venv /opt/venv; /opt/venv/bin/pip install --no-index --no-deps {put(system, package)}")
    return "/opt/venv/bin/bench"


def deb(system, package):
    system.run(f"dpkg -i {put(system, package)}")
    check("bench-receive.service" in system.run("dpkg -L osprofiler-bench"), "the package has no service")
    check(system.run("dpkg -V osprofiler-bench") == "", "a file is not as it was packaged")
    return "bench"


def rpm(system, package):
    # Debian's libraries are in no database of rpm, so what the package needs is looked up by hand.
    place = put(system, package)
    needs = system.run(f"rpm -qp --requires {place}").splitlines()
    known = ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux", "rpmlib(",
             "rtld(", "/bin/sh")
    check(needs and all(need.startswith(known) for need in needs), f"it needs {needs}")
    system.run(f"rpm --install --nodeps {place}; rpm --verify --nodeps osprofiler-bench")
    return "bench"


INSTALLS = {"tarball": ("bench-*-linux.tar.gz", tarball), "wheel": ("*.whl", wheel), "deb": ("*.deb", deb), "rpm": ("*.rpm", rpm),
            "static": ("bench-*-linux-static.tar.gz", static)}


def installed(kind, package, suite, version):
    """Seconds to install it, and to make the first load."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        system = System(suite, folder)
        began = time.monotonic()
        program = INSTALLS[kind][1](system, package)
        between = time.monotonic()
        first_load(system, program, version)
        ended = time.monotonic()
        if kind != "wheel":
            for page in ("share/man/man1/bench-run.1", "share/bash-completion/completions/bench",
                         "share/zsh/site-functions/_bench", "share/fish/vendor_completions.d/bench.fish"):
                places = [system.folder / prefix / (page + end) for prefix in ("usr", "usr/local") for end in ("", ".gz")]
                check(any(place.is_file() for place in places), f"{kind}: no {page}")
        if kind == "deb":
            system.run("dpkg --purge osprofiler-bench; test ! -e /usr/bin/bench; test ! -e /usr/share/bench")
        if kind == "rpm":
            system.run("rpm --erase --nodeps osprofiler-bench; test ! -e /usr/bin/bench; test ! -e /usr/share/bench")
        return between - began, ended - between


class Image:
    """The image in a store of its own. Processes are started by chroot, which needs no control groups."""

    def __init__(self, folder, package):
        self.words = ["buildah", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--storage-driver", "vfs"]
        self.name = self.buildah("from", f"oci-archive:{package}").split()[-1]

    def buildah(self, *words, codes=(0,)):
        ended = subprocess.run([*self.words, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=300)
        check(ended.returncode in codes, f"buildah {' '.join(words)} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def bench(self, load, runs, *words):
        mounted = ["--volume", f"{load}:/load:ro", "--volume", f"{runs}:/runs"]
        isolated = ["--isolation", "chroot", "--network", "host"]
        return self.buildah("run", *isolated, *mounted, self.name, "--", "/usr/bin/bench", *words, codes=CODES)


def image(package, version):
    """Seconds to load it, and to make the first load; then two shards, as `bench k8s` starts them."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        load, runs = Path(folder, "load"), Path(folder, "runs")
        load.mkdir()
        runs.mkdir()
        os.chown(runs, NOBODY, NOBODY)
        began = time.monotonic()
        image_ = Image(folder, package)
        between = time.monotonic()
        check(f"bench {version}" in image_.bench(load, runs, "--version"), "another version")
        said = image_.bench(load, runs, "run", "demo", "--out", "/runs")
        ended = time.monotonic()
        for part in EXPECTED:
            check(part in said, f"the load did not say `{part}`:\n{said}")
        reports = list(runs.glob("*/report.html"))
        check(len(reports) == 1 and reports[0].stat().st_uid == NOBODY, f"{reports} instead of one report of nobody")
        for shard in ("0/2", "1/2"):
            words = ("--shard", shard, "--job", "try", "-n", "100", "--out", "/runs/shards")
            image_.bench(load, runs, "run", "demo", *words)
        said = image_.bench(load, runs, "merge", "/runs/shards", "--out", "/runs/merged")
        check("100 iterations" in said, f"the shards do not add up:\n{said}")
        wanted = "{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}"
        config = image_.buildah("inspect", "--type", "container", "--format", wanted, image_.name)
        check(config.strip() == f"{NOBODY}:{NOBODY} [/usr/bin/bench]", f"the image starts {config}")
        return between - began, ended - between


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=TARGET / "packages", help="where the packages are")
    parser.add_argument("--suite", default="trixie", help="the Debian to install them on (default: trixie)")
    parser.add_argument("kinds", nargs="*", help=f"which (default: {' '.join([*INSTALLS, 'image'])})")
    given = parser.parse_args()
    manifest = (ROOT / "Cargo.toml").read_text()
    version = manifest.split("\n[package]\n")[1].split('version = "')[1].split('"')[0]
    sums = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=given.packages, check=False)
    check(sums.returncode == 0, "SHA256SUMS does not fit the packages")
    there = [kind for kind in INSTALLS if kind != "static" or list(given.packages.glob(INSTALLS[kind][0]))]
    for kind in given.kinds or [*there, "image"]:
        pattern = INSTALLS[kind][0] if kind in INSTALLS else "bench-*-image.tar"
        found = sorted(given.packages.glob(pattern))
        check(len(found) == 1, f"{given.packages} has {len(found)} packages like {pattern} instead of one")
        size = found[0].stat().st_size
        seconds = installed(kind, found[0], given.suite, version) if kind in INSTALLS else image(found[0], version)
        download = size * 8 / NETWORK / 1e6
        print(f"{kind:8}{size / 1e6:6.1f} MB  download {download:4.1f} s  install {seconds[0]:4.1f} s  "
              f"first load {seconds[1]:5.1f} s  in all {download + sum(seconds):5.1f} s", flush=True)


main()
