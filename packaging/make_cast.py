"""Create the terminal recording of the documentation: ``python packaging/make_cast.py docs/images/kubestow.cast``.

The scenes run now, in a terminal of 100 columns. Their output is recorded unchanged, in asciicast v2, for
``asciinema play`` and its players. The timing is artificial: a line is typed at a steady pace, and output stays for
its reading time.

Source of the format: https://docs.asciinema.org/manual/asciicast/v2/
"""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH, HEIGHT = 100, 40
#: Seconds to type a key, to print a line and to read a word.
KEY_SECONDS, LINE_SECONDS, WORD_SECONDS = 0.035, 0.02, 0.09
#: Shortest and longest time in seconds for which a scene stays.
MIN_SCENE_SECONDS, MAX_SCENE_SECONDS = 3.0, 16.0

#: Questions, and the commands that answer them.
SCENES = (
    (
        "Fifteen pods wait. Where does each go, and is that the best there is?",
        "kubestow solve instances/quickstart.yaml -f table",
    ),
    (
        "Why is this pod pending, and what would help?",
        "kubestow explain instances/pending/capacity.yaml --pod default/db-0 -f table",
    ),
    (
        "Empty a node, without breaking a budget on the way.",
        "kubestow rebalance instances/rebalance-drain.yaml --drain n1 --goal improve -f table",
    ),
    (
        "Does everything come back when any node fails?",
        "kubestow survive instances/survive-three-zones.yaml --fail node -f table",
    ),
    (
        "Which nodes would run this pool at the least cost?",
        "kubestow size instances/size-pool.yaml --pool pool=old --catalogue instances/catalogue.yaml --deterministic -f table",
    ),
    (
        "Does this change fit the cluster, and is it sound?",
        "kubestow check -w instances/check/shop.yaml --cluster instances/check/cluster.yaml -f table",
    ),
)


def printed(command: str) -> str:
    """Return the output of a command on a terminal."""
    _, *arguments = shlex.split(command)
    here, there = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "LINES": str(HEIGHT), "TERM": "xterm-256color", "PYTHONPATH": str(ROOT)}
    program = [sys.executable, str(ROOT / "cli.py"), *arguments]
    process = subprocess.Popen(program, cwd=ROOT, env=environment, stdin=there, stdout=there, stderr=subprocess.DEVNULL)
    os.close(there)
    parts = []
    while True:
        try:
            part = os.read(here, 65536)
        except OSError:  # Linux signals the end of the output by this error
            part = b""
        if not part:
            break
        parts.append(part)
    os.close(here)
    if process.wait() not in (0, 3, 4):
        raise SystemExit(f"{command}: exited with code {process.returncode}")
    return b"".join(parts).decode()


def events() -> Iterator[tuple[float, str]]:
    """Yield the displayed texts, each with the seconds before it."""
    for title, command in SCENES:
        yield 0.3, "\x1b[2J\x1b[H"
        yield from _typed(f"# {title}", "\x1b[1;36m")
        yield from _typed(command, "")
        text = printed(command)
        yield from ((LINE_SECONDS, f"{line}\r\n") for line in text.replace("\r\n", "\n").splitlines())
        words = len(re.sub(r"\x1b\[[0-9;]*m", "", text).split())
        yield min(MAX_SCENE_SECONDS, max(MIN_SCENE_SECONDS, WORD_SECONDS * words)), ""


def _typed(line: str, colour: str) -> Iterator[tuple[float, str]]:
    yield 0.2, f"\x1b[32m$\x1b[0m {colour}"
    yield from ((KEY_SECONDS, letter) for letter in line)
    yield 0.4, "\x1b[0m\r\n"


def cast() -> str:
    """Return the recording."""
    head = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "kubestow", "env": {"TERM": "xterm-256color"}}
    lines, now = [json.dumps(head)], 0.0
    for seconds, text in events():
        now += seconds
        lines.append(json.dumps([round(now, 3), "o", text], ensure_ascii=False))
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the recording to the file that the command line names."""
    if len(sys.argv) != 2:
        print("usage: python packaging/make_cast.py FILE", file=sys.stderr)
        return 2
    Path(sys.argv[1]).write_text(cast(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
