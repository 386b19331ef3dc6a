#!/usr/bin/env python3
"""Draws docs/picture/session.svg: a terminal session of the README, from a real run.

Runs the commands below with the programs in target/debug (or --programs DIR), against a Pintle of its own in a
temporary folder, and renders what they print. Needs no package beyond Python's standard library. Fails if a command
fails or if a unit does not reach its state.
"""

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The commands, and what their output must contain before it is drawn: agents need a moment.
SESSION = [
    ("pintle up", None),
    ("pintle deploy charms/samples/pair-db db", None),
    ("pintle deploy charms/samples/pair-web web", None),
    ("pintle integrate web db", None),
    ("pintle status --relations", r"web likes green(?s:.)*connected to"),
    ("pintle deploy charms/samples/broken --config fail-in=install", None),
    ("pintle why broken/0", r"install fails as asked"),
    ("pintle config broken fail-in=", None),
    ("pintle resolved broken/0", None),
]
# Not shown: without it, the hook of `broken` is run again while `why` is drawn.
PREPARATION = "pintle model-config automatically-retry-hooks=false"
DEADLINE_S = 60
COLUMNS = 108

# Sizes in pixels of the monospaced characters, and colours of a dark terminal.
CHAR_WIDTH, LINE_HEIGHT, FONT_SIZE, MARGIN = 7.83, 17, 13, 16
BACKGROUND, FOREGROUND, PROMPT = "#1e2127", "#c8ccd4", "#98c379"
ANSI = {1: "bold", 2: "dim", 31: "#e06c75", 32: "#98c379", 33: "#e5c07b", 34: "#61afef", 35: "#c678dd", 36: "#56b6c2"}
# States are coloured as a terminal shows them, if the program prints no colours of its own into a pipe.
STATES = {
    "active": 32, "started": 32, "idle": 32, "alive": 32, "blocked": 33, "waiting": 33, "executing": 33,
    "pending": 33, "error": 31, "ERROR": 31, "failed": 31,
}
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def run(command, environment):
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode != 0:
        sys.exit(f"{command}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def run_until(command, pattern, environment):
    """Runs a command, repeatedly until its output matches `pattern`."""
    end = time.monotonic() + DEADLINE_S
    while True:
        output = run(command, environment)
        if pattern is None or re.search(pattern, output):
            return output
        if time.monotonic() > end:
            sys.exit(f"{command}: nothing matches {pattern} within {DEADLINE_S} s:\n{output}")
        time.sleep(0.1)


def record(programs, folder):
    """The lines of the session, with ANSI escapes."""
    environment = dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}", PINTLE_DATA=str(folder / "pintle"))
    environment["COLUMNS"] = str(COLUMNS)
    lines = []
    try:
        for command, pattern in SESSION:
            output = run_until(command, pattern, environment)
            if command == "pintle up":
                run(PREPARATION, environment)
            # the folder of this run is not what a reader would see
            output = output.replace(str(folder / "pintle"), "~/.local/share/pintle").replace(" --data ~/.local/share/pintle", "")
            lines.append(f"\x1b[32m$\x1b[0m \x1b[1m{command}\x1b[0m")
            for line in output.rstrip("\n").split("\n") if output.strip() else []:
                lines.extend(wrapped(coloured(line)))
            lines.append("")
    finally:
        subprocess.run(f"{programs}/pintle down", shell=True, env=environment, stdout=subprocess.DEVNULL)
    return lines[:-1]


def coloured(line):
    if ESCAPE.search(line):
        return line
    heading = r"^(Model|App|Unit|Machine|Integration provider)\s{2,}"
    if re.match(heading, line):
        return f"\x1b[2m{line}\x1b[0m"
    word = r"(?<![\w./-])(" + "|".join(STATES) + r")(?![\w./-])"
    return re.sub(word, lambda match: f"\x1b[{STATES[match[1]]}m{match[1]}\x1b[0m", line)


def wrapped(line):
    """Breaks a line at the last blank before the edge of the terminal. Escapes have no width."""
    lines, now, width, blank = [], "", 0, None
    for token in re.findall(r"\x1b\[[0-9;]*m|.", line):
        now += token
        if token.startswith("\x1b"):
            continue
        width += 1
        if token == " ":
            blank = len(now)
        if width > COLUMNS:
            cut = blank or len(now) - 1
            lines.append(now[:cut].rstrip())
            now, blank = "    " + now[cut:], None
            width = len(ESCAPE.sub("", now))
    return lines + [now]


def spans(line):
    """Pieces of a line and the style of each."""
    style, at = {}, 0
    for escape in list(ESCAPE.finditer(line)) + [None]:
        end = escape.start() if escape else len(line)
        if end > at:
            yield line[at:end], dict(style)
        if escape:
            at = escape.end()
            for code in (int(code or 0) for code in escape[1].split(";")):
                if code == 0:
                    style = {}
                elif ANSI.get(code) == "bold":
                    style["font-weight"] = "bold"
                elif ANSI.get(code) == "dim":
                    style["opacity"] = "0.6"
                elif code in ANSI:
                    style["fill"] = ANSI[code]


def svg(lines):
    width = round(2 * MARGIN + COLUMNS * CHAR_WIDTH)
    height = 2 * MARGIN + LINE_HEIGHT * len(lines)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<!-- drawn from a real run by docs/picture/record.py -->",
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="{FONT_SIZE}" '
        f'fill="{FOREGROUND}" xml:space="preserve">',
    ]
    for number, line in enumerate(lines):
        y, column, pieces = MARGIN + LINE_HEIGHT * (number + 0.75), 0, []
        for text, style in spans(line):
            attributes = "".join(f' {name}="{value}"' for name, value in style.items())
            x = MARGIN + column * CHAR_WIDTH
            length = f' textLength="{len(text) * CHAR_WIDTH:.1f}"' if text.strip() else ""
            pieces.append(f'<tspan x="{x:.1f}"{length}{attributes}>{html.escape(text)}</tspan>')
            column += len(text)
        if pieces:
            out.append(f'<text y="{y:g}">{"".join(pieces)}</text>')
    return "\n".join(out + ["</g>", "</svg>", ""])


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("--programs", type=Path, default=ROOT / "target/debug")
    arguments.add_argument("--out", type=Path, default=Path(__file__).with_name("session.svg"))
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="pintle-picture-") as folder:
        lines = record(arguments.programs.resolve(), Path(folder).resolve())
    arguments.out.write_text(svg(lines), encoding="utf-8")
    print(f"{arguments.out}: {len(lines)} lines")


if __name__ == "__main__":
    main()
