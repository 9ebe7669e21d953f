"""What a program needs of the system that runs it, as its own headers say."""

import re
import subprocess

# What every Linux with glibc has, and what Debian calls the package of each.
SYSTEM = {
    "libc.so.6": "libc6", "libm.so.6": "libc6", "libpthread.so.0": "libc6", "libdl.so.2": "libc6",
    "librt.so.1": "libc6", "libutil.so.1": "libc6", "ld-linux-x86-64.so.2": "libc6", "ld-linux-aarch64.so.1": "libc6",
    "libgcc_s.so.1": "libgcc-s1",
}
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}


class Needs:
    """Its machine, its libraries, and the glibc that it needs, such as (2, 17); (0, 0) of a static one."""

    def __init__(self, program):
        said = subprocess.run(["readelf", "--wide", "-h", "-d", "-V", program], capture_output=True, text=True,
                              check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
        machine = re.search(r"Machine:\s+(.*)", said).group(1).strip()
        self.machine = MACHINES.get(machine) or refuse(f"{program} is for {machine}, which is not packaged")
        self.libraries = sorted(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", said))
        foreign = [name for name in self.libraries if name not in SYSTEM]
        if foreign:
            refuse(f"{program} needs {', '.join(foreign)}, which not every Linux has")
        versions = re.findall(r"GLIBC_(\d+)\.(\d+)", said)
        self.is_static = not versions and not self.libraries
        if not versions and not self.is_static:
            refuse(f"{program} needs no glibc, but {', '.join(self.libraries)}")
        self.glibc = max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))

    def debian(self):
        """What Debian's package depends on."""
        packages = sorted({SYSTEM[name] for name in self.libraries})
        return ", ".join(f"libc6 (>= {self.glibc[0]}.{self.glibc[1]})" if one == "libc6" else one for one in packages)


def refuse(text):
    raise SystemExit(f"error: {text}")
