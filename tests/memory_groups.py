"""Made-up memory control groups, as the kernel shows them."""

from __future__ import annotations

MB = 1 << 20
NONE = 2**43  # version 1 writes about so many megabytes where there is no limit


def group(folder, version, limit, private, shared=0, locked=0, high="max", kills=0):
    """One with so many megabytes of private memory, and 300 of files."""
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        (folder / name).write_text(f"{value if value == 'max' else value * MB}\n")

    total = "total_" if version == 1 else ""
    lines = {f"{total}shmem": shared, f"{total}unevictable": locked}
    if version == 1:
        write("memory.limit_in_bytes", limit)
        (folder / "memory.oom_control").write_text(f"under_oom 0\noom_kill {kills}\n")
        write("memory.usage_in_bytes", private + shared + 300)
        lines["total_cache"] = shared + 300
    else:
        write("memory.max", limit)
        (folder / "memory.events").write_text(f"oom 2\noom_kill {kills}\noom_group_kill 0\n")
        write("memory.high", high)
        write("memory.current", private + shared + 307)
        lines |= {"file": shared + 300, "slab_reclaimable": 7}
    text = "".join(f"{name} {count * MB}\n" for name, count in lines.items())
    (folder / "memory.stat").write_text(f"cache 5\n{text}oddity 1 2\n")
