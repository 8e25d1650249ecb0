"""How long `import planted` and `planted --help` take, each in a process of its own, and what they load.

The shortest of several runs counts, in CPU seconds of user and system together: on a shared machine the clock on the wall
measures the neighbours. The clock's shortest time is shown beside it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from _table import Line, parse_options, report

LIMIT = 0.5
HEAVY = (
    "sklearn",
    "torch",
    "dask",
    "distributed",
    "pyarrow",
    "matplotlib",
    "jinja2",
    "onnx",
    "onnxruntime",
    "pandas",
)
CASES = {
    "import planted": "import planted",
    "planted --help": "import sys, contextlib, io\nfrom planted.cli import main\nsys.argv = ['planted', '--help']\n"
    "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n    main()",
}
MEASURE = (
    "import sys, time, os\nclock = time.perf_counter()\n{code}\nimport json\ntimes = os.times()\n"
    "heavy = [name for name in {heavy!r} if name in sys.modules]\n"
    "print(json.dumps([time.perf_counter() - clock, times.user + times.system, heavy]))"
)


def measure(code: str) -> tuple[float, float, list[str]]:
    """Return seconds, CPU seconds of the whole process, and the heavy libraries that were loaded."""
    command = [sys.executable, "-c", MEASURE.format(code=code, heavy=HEAVY)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, cpu, heavy = json.loads(done.stdout.splitlines()[-1])
    return seconds, cpu, heavy


def main() -> None:
    options = parse_options(__doc__ or "")
    lines: list[Line] = []
    rows: list[dict[str, Any]] = []
    for name, code in CASES.items():
        runs = [measure(code) for _ in range(5 if options.quick else 20)]
        seconds, cpu = min(run[0] for run in runs), min(run[1] for run in runs)
        heavy = runs[0][2]
        rows.append(
            {
                "case": name,
                "seconds": [run[0] for run in runs],
                "cpu": [run[1] for run in runs],
                "heavy": heavy,
            }
        )
        text = f"{cpu:.2f} s CPU, {seconds:.2f} s on the clock; heavy libraries: {', '.join(heavy) or 'none'}"
        lines.append(Line(f"{name}: < {LIMIT} s, no heavy library", text, cpu < LIMIT and not heavy))
    report("start", lines, rows, options)


if __name__ == "__main__":
    main()
