"""What the machine is, and what its disk has room for."""

import os
import platform
import shutil
import subprocess
from pathlib import Path


class MachineError(Exception):
    """This machine cannot do what is asked; the text says why."""


def device_of(directory: Path) -> str:
    """The block device below a directory, as MAJOR:MINOR."""
    number = os.stat(directory).st_dev
    return f"{os.major(number)}:{os.minor(number)}"


def need_space(directory: Path, bytes_needed: int) -> None:
    """Refuses a run that the disk has no room for; a tenth more stays free."""
    free = shutil.disk_usage(directory).free
    if free < bytes_needed * 1.1:
        raise MachineError(
            f"{directory}: {free / 1e9:.1f} GB are free, and {bytes_needed * 1.1 / 1e9:.1f} GB are needed: "
            "name another directory with --dir, or a smaller --scale"
        )


def settle(seconds_max: float = 60.0) -> None:
    """What one side left in the page cache must not be written in the other's round."""
    subprocess.run(["sync"], timeout=seconds_max, check=False)


def drop_page_cache() -> bool:
    """Makes the next read of any file a read of the device; needs root, and says whether it could."""
    settle()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("1\n")
    except OSError:
        return False
    return True


def facts(directory: Path) -> dict[str, str]:
    """What a reader must know of the machine to make sense of absolute figures."""
    return {
        "CPU": cpu_model(),
        "CPUs": str(os.cpu_count()),
        "memory": f"{memory_bytes() / 1e9:.0f} GB",
        "kernel": platform.release(),
        "file system": file_system(directory),
        "device": device_name(device_of(directory)),
    }


def cpu_model() -> str:
    """As /proc/cpuinfo has it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def memory_bytes() -> int:
    """All of it."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def file_system(directory: Path) -> str:
    """Its kind: the mount with the longest path that is above the directory."""
    best, kind = "", "unknown"
    resolved = str(directory.resolve())
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, this_kind, *_ = line.split()
        is_above = resolved == mount or resolved.startswith(mount.rstrip("/") + "/")
        if is_above and len(mount) >= len(best):
            best, kind = mount, this_kind
    return kind


def device_name(device: str) -> str:
    """The kernel's name of a block device: vda, nvme0n1."""
    link = Path("/sys/dev/block") / device
    return link.resolve().name if link.exists() else device
