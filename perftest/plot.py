#!/usr/bin/env python3
"""Draws result files as one page with curves, readable without a network.

    build/gpu/bin/perftest/put_latency --format json > put.json
    python3 perftest/plot.py -o page.html put.json yesterday=old/put.json theirs=osu_put.txt

A file holds what a perftest printed (table, csv or json), or a table of the OSU micro-benchmarks. NAME=FILE names
the curves of a file; without a name it is the file's. Files of one program share its charts. A chart has a column of
the results over the size in bytes, both in powers of two or ten, and its numbers in a table below it. Where operations
and callers are several, as of call_latency, each operation has a chart, and those of one size share a table.
"""
import argparse
import csv
import html
import io
import json
import math
import os
import re
import sys
from collections import namedtuple

# One number of a file. `curve` tells it from the others of its program.
Point = namedtuple("Point", "program unit curve size value")

# Columns that are drawn, with their titles; whether more is better.
UNITS = {"median_us": ("time, median (us)", False), "GB_s": ("bandwidth (GB/s)", True),
         "total_GB_s": ("bandwidth of all PEs (GB/s)", True), "Mops": ("rate (million/s)", True),
         "clocks": ("clocks", False)}
KEYS = ("name", "scope", "blocks", "threads", "pes", "path")
MANY = 8  # operations: more are in charts of their own, also where one caller makes them all
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f5539", "#666666")
DASHES = ("", "7 3", "2 3", "8 3 2 3")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 70, 30, 16, 46


class BadFile(Exception):
    """A file that is no result; the text names it."""


def rows_of_table(text):
    """What a perftest prints as a table: '# key: value' lines, titles, rows."""
    header, titles, rows = {}, None, []
    for line in text.splitlines():
        if line.startswith("# ") and ":" in line:
            key, value = line[2:].split(":", 1)
            header[key.strip()] = value.strip()
        elif titles is None:
            titles = line.split()
        else:  # names of rows may have several words
            cells = line.rsplit(maxsplit=len(titles) - 1)
            if len(cells) == len(titles) and dict(zip(titles, cells)).get("size_bytes", "").isdigit():
                rows.append(dict(zip(titles, cells)))
    return [dict(header, **row) for row in rows]


def rows_of_osu(text):
    """A table of the OSU micro-benchmarks: '# OSU ... Test', then sizes and one value."""
    program = re.search(r"^# (OSU .*?)(?: v[\d.]+)?$", text, re.M).group(1)
    titles = re.search(r"^# Size\s+(.*?)$", text, re.M)
    if not titles:
        return []
    title = re.split(r"\s{2,}", titles.group(1).strip())[0]
    scale = {"Latency (us)": ("median_us", 1), "Bandwidth (MB/s)": ("GB_s", 1e-3)}.get(title)
    if scale is None:
        return []
    rows = re.findall(r"^(\d+)\s+([\d.]+)", text, re.M)
    return [{"program": program, "size_bytes": size, scale[0]: float(value) * scale[1]} for size, value in rows]


def rows_of(text):
    if text.lstrip().startswith("{"):
        document = json.loads(text)
        header = {key: value for key, value in document.items() if key not in ("rows", "summary")}
        return [dict(header, **row) for row in document["rows"]]
    if text.startswith("# OSU") or "\n# OSU" in text:
        return rows_of_osu(text)
    if "," in text.splitlines()[0]:
        return list(csv.DictReader(io.StringIO(text)))
    return rows_of_table(text)


def program_of(row):
    """The chart that a row belongs to: OSU's tests beside ours of the same operation."""
    name = row["program"]
    if name.startswith("OSU"):
        kind = "bw" if "GB_s" in row else "latency"
        operation = re.search(r"\b(put|get)\b", name, re.I)
        return f"{operation.group(1).lower()}_{kind}" if operation else name
    return name


def points_of(path, label):
    try:
        with open(path, encoding="utf-8") as file:
            rows = rows_of(file.read())
    except (OSError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise BadFile(f"{path}: {error}") from error
    rows = [row for row in rows if row.get("program") and row.get("size_bytes") is not None]
    # What is the same in all rows of a file says nothing about a curve of it.
    varied = [key for key in KEYS if len({str(row.get(key, "")) for row in rows}) > 1]
    by_name = "name" in varied and ("scope" in varied or len({row["name"] for row in rows}) > MANY)
    if by_name:
        varied.remove("name")
    # Of a bandwidth the time adds nothing, and of one sender neither does the sum over all PEs.
    left_out = set()
    if any(row.get("GB_s") not in (None, "", "-") for row in rows):
        left_out.add("median_us")
        if all(row.get("GB_s") == row.get("total_GB_s") for row in rows):
            left_out.add("total_GB_s")
    points = []
    for row in rows:
        curve = ", ".join([label] + [f"{row[key]} {key}" if key in ("blocks", "threads", "pes") else str(row[key])
                                     for key in varied if str(row.get(key, "")) not in ("", "-")])
        for unit in UNITS:
            if unit in left_out or row.get(unit) in (None, "", "-"):
                continue
            value = float(row[unit])
            if value > 0:
                program = f"{program_of(row)}: {row['name']}" if by_name else program_of(row)
                points.append(Point(program, unit, curve, int(row["size_bytes"]), value))
    if not points:
        raise BadFile(f"{path}: no results with a program, size_bytes and one of {', '.join(UNITS)}")
    return points


def sized(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return str(size)


class Axis:
    """Logarithmic, from whole power to whole power of `base`; maps onto [begin, end] of the page."""

    def __init__(self, values, base, begin, end):
        low, high = (math.log(bound, base) for bound in (min(values), max(values)))
        self.low, self.high = math.floor(low + 1e-9), max(math.ceil(high - 1e-9), math.floor(low + 1e-9) + 1)
        self.base, self.begin, self.end = base, begin, end

    def at(self, value):
        part = (math.log(value, self.base) - self.low) / (self.high - self.low)
        return self.begin + part * (self.end - self.begin)

    def ticks(self):
        step = max(1, math.ceil((self.high - self.low) / 14))
        return [self.base ** power for power in range(self.low, self.high + 1, step)]


def drawn(curves, unit):
    """The chart of {curve: {size: value}} as SVG."""
    x = Axis([max(size, 1) for curve in curves.values() for size in curve], 2, LEFT, WIDTH - RIGHT)
    y = Axis([value for curve in curves.values() for value in curve.values()], 10, HEIGHT - BOTTOM, TOP)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">']
    for tick in x.ticks():
        at = x.at(tick)
        out.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
                   f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{sized(int(tick))}</text>')
    for tick in y.ticks():
        at = y.at(tick)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                   f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 8}" text-anchor="middle">bytes</text>')
    out.append(f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
               f'{html.escape(UNITS[unit][0])}</text>')
    for number, (name, curve) in enumerate(curves.items()):
        color, dash = style_of(number)
        places = [(x.at(max(size, 1)), y.at(value), size, value) for size, value in sorted(curve.items())]
        line = " ".join(f"{at:.1f},{up:.1f}" for at, up, _, _ in places)
        out.append(f'<g class="curve" style="color:{color}"><polyline points="{line}" stroke-dasharray="{dash}"/>')
        for at, up, size, value in places:
            out.append(f'<circle cx="{at:.1f}" cy="{up:.1f}" r="3"><title>{html.escape(name)}: {sized(size)}, '
                       f'{value:g}</title></circle>')
        out.append("</g>")
    return "\n".join(out) + "</svg>"


def style_of(number):
    return COLORS[number % len(COLORS)], DASHES[number // len(COLORS) % len(DASHES)]


def legend_of(curves):
    out = []
    for number, name in enumerate(curves):
        color, dash = style_of(number)
        out.append(f'<li><svg width="34" height="10" style="color:{color}"><line x1="0" x2="34" y1="5" y2="5" '
                   f'stroke-dasharray="{dash}"/></svg>{html.escape(name)}</li>')
    return f'<ul class="legend">{"".join(out)}</ul>'


def table_of(curves, more_is_better, first="bytes", titled=sized):
    """The numbers; the best of each size (or whatever `first` is) is set in bold where there are several."""
    sizes = sorted({size for curve in curves.values() for size in curve})
    head = "".join(f"<th>{html.escape(name)}</th>" for name in curves)
    body = []
    for size in sizes:
        values = [curve.get(size) for curve in curves.values()]
        known = [value for value in values if value is not None]
        best = (max if more_is_better else min)(known) if len(known) > 1 else None
        cells = "".join("<td></td>" if value is None else f"<td><b>{value:g}</b></td>" if value == best else
                        f"<td>{value:g}</td>" for value in values)
        body.append(f"<tr><th>{html.escape(titled(size))}</th>{cells}</tr>")
    return f'<div class="wide"><table><tr><th>{first}</th>{head}</tr>{"".join(body)}</table></div>'


def tables_apart(charts):
    """Takes operations of one size (points_of, by_name) out of `charts`: {(program, unit): {curve: {name: value}}}."""
    tables = {}
    for program, unit in [key for key in charts if ": " in key[0]]:
        curves = charts[program, unit]
        if len({size for curve in curves.values() for size in curve}) > 1:
            continue
        shared, name = program.split(": ", 1)
        for title, curve in charts.pop((program, unit)).items():
            tables.setdefault((shared, unit), {}).setdefault(title, {})[name] = next(iter(curve.values()))
    return tables


STYLE = """
:root { color-scheme: light dark; --grid: #8884; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2.5rem 0 .3rem; font-size: 1.15rem; } h3 { margin: .4rem 0; font-size: 1rem; font-weight: normal; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.grid { stroke: var(--grid); } .curve polyline { fill: none; stroke: currentColor; stroke-width: 1.8; }
.curve circle { fill: currentColor; } .curve:hover polyline { stroke-width: 4; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; padding: 0; margin: .2rem 0; }
.legend svg { width: 34px; height: 10px; margin-right: .4rem; } .legend line { stroke: currentColor; stroke-width: 2; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .1rem .7rem; text-align: right; border-bottom: 1px solid var(--grid); font-weight: normal; }
td b { font-weight: 650; } th:first-child { white-space: nowrap; }
"""


def page_of(points, title, sources):
    charts = {}
    for point in points:
        curve = charts.setdefault((point.program, point.unit), {}).setdefault(point.curve, {})
        curve[point.size] = point.value
    sections, last = [], None
    for (program, unit), curves in tables_apart(charts).items():
        sections.append(f"<h2>{html.escape(program)}</h2><h3>{html.escape(UNITS[unit][0])}</h3>"
                        f"{table_of(curves, UNITS[unit][1], 'operation', str)}")
    for (program, unit), curves in sorted(charts.items(), key=lambda chart: (chart[0][0], list(UNITS).index(chart[0][1]))):
        if program != last:
            sections.append(f"<h2>{html.escape(program)}</h2>")
        last = program
        sections.append(f"<h3>{html.escape(UNITS[unit][0])}</h3>{legend_of(curves)}{drawn(curves, unit)}"
                        f"<details><summary>numbers</summary>{table_of(curves, UNITS[unit][1])}</details>")
    files = "".join(f"<li>{html.escape(label)}: {html.escape(path)}</li>" for label, path in sources)
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>'
            f'<h1>{html.escape(title)}</h1>{"".join(sections)}<h2>files</h2><ul>{files}</ul></body></html>\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="[NAME=]FILE")
    parser.add_argument("-o", "--output", required=True, help="the page")
    parser.add_argument("--title", default="perftest")
    arguments = parser.parse_args()
    points, sources = [], []
    try:
        for given in arguments.files:
            label, equals, path = given.partition("=")
            if not equals:
                label, path = os.path.splitext(os.path.basename(given))[0], given
            points += points_of(path, label)
            sources.append((label, path))
        with open(arguments.output, "w", encoding="utf-8") as file:
            file.write(page_of(points, arguments.title, sources))
    except (BadFile, OSError) as error:
        sys.exit(f"plot: {error}")


if __name__ == "__main__":
    main()
