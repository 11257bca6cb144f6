"""The peak of the anonymous memory that some code takes, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import threading
{imports}

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024

done = threading.Event()
baseline = peak = anonymous()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, anonymous())

thread = threading.Thread(target=watch)
thread.start()
{work}
done.set()
thread.join()
print(peak - baseline)
"""


def peak_of(folder, imports, work, *args):
    """Bytes beyond those after the imports; `work` finds the arguments in ``sys.argv[1:]``."""
    script = folder / "measure.py"
    script.write_text(SCRIPT.format(imports=imports, work=work))
    done = subprocess.run(
        [sys.executable, str(script), *map(str, args)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)
