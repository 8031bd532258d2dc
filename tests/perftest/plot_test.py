#!/usr/bin/env python3
"""plot_test.py FOLDER: perftest/plot.py on the three formats of a perftest in FOLDER, on a table of the OSU
micro-benchmarks, and on files that are no results."""
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PLOT = pathlib.Path(__file__).resolve().parent.parent.parent / "perftest" / "plot.py"
OSU = "# OSU OpenSHMEM Put Test v7.3\n# Size      Latency (us)\n8           0.25\n64          0.5\n"


class Page(html.parser.HTMLParser):
    """Counts what a page draws, and records what it would load."""

    def __init__(self, text):
        super().__init__()
        self.open, self.curves, self.loads, self.titles = [], [], [], []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.loads += [name for name in attributes if name in ("src", "href", "xlink:href")]
        if tag == "polyline":
            self.curves.append(attributes["points"].split())
        if tag not in ("meta", "line", "circle", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "line", "circle", "polyline"):
            self.open.pop()

    def handle_endtag(self, tag):
        if tag in ("line", "circle", "polyline"):
            return
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h2", "li", "b", "td"):
            self.titles.append(data)


def plot(*arguments):
    return subprocess.run([sys.executable, "-B", PLOT, *arguments], capture_output=True, text=True, check=False)


def main():
    bench = [os.path.join(sys.argv[1], "put_latency"), "--pes", "2", "-s", "thread", "-b", "8", "-e", "512", "-n", "50"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for kind in ("json", "csv", "table"):
            with open(folder / kind, "w", encoding="utf-8") as file:
                subprocess.run([*bench, "--format", kind], stdout=file, check=True, timeout=100)
        (folder / "osu").write_text(OSU, encoding="utf-8")
        done = plot("-o", folder / "page", folder / "json", folder / "csv", f"a < b={folder / 'table'}", f"osu={folder / 'osu'}")
        assert done.returncode == 0, done.stderr
        text = (folder / "page").read_text(encoding="utf-8")
        page = Page(text)
        rows = json.loads((folder / "json").read_text(encoding="utf-8"))["rows"]
        # Charts of one program: three files of ours, and OSU's test beside them.
        assert [len(curve) for curve in page.curves] == [len(rows)] * 3 + [2], page.curves
        assert page.titles.count("put_latency") == 1 and "a < b" in page.titles, page.titles
        assert not page.loads and "http" not in text and "<script" not in text
        # Larger values are higher up, and the table has the numbers.
        osu = [tuple(map(float, point.split(","))) for point in page.curves[3]]
        assert osu[0][0] < osu[1][0] and osu[0][1] > osu[1][1], osu
        assert {"0.25", "0.5"} <= set(page.titles) and f"{rows[0]['median_us']:g}" in page.titles, page.titles

        # Results of many operations by many callers have a chart each, and those of one size a table.
        with open(folder / "calls", "w", encoding="utf-8") as file:
            subprocess.run([os.path.join(sys.argv[1], "call_latency"), "--pes", "2", "-n", "5"], stdout=file, check=True,
                           timeout=100)
        done = plot("-o", folder / "page", folder / "calls")
        assert done.returncode == 0, done.stderr
        page = Page((folder / "page").read_text(encoding="utf-8"))
        titles = [title for title in page.titles if title.startswith("call_latency")]
        assert len(titles) == len(set(titles)) == 13 and "call_latency: put" in titles, titles
        assert sum(len(curve) for curve in page.curves) > 2 * 8 * 5, page.curves

        # Results of one caller, too; and names of several words are read.
        with open(folder / "thread", "w", encoding="utf-8") as file:
            subprocess.run([os.path.join(sys.argv[1], "call_latency"), "--pes", "2", "-n", "5", "-s", "thread"],
                           stdout=file, check=True, timeout=100)
        with open(folder / "issue", "w", encoding="utf-8") as file:
            subprocess.run([os.path.join(sys.argv[1], "issue_cost"), "--pes", "1", "-n", "5"], stdout=file, check=True,
                           timeout=100)
        done = plot("-o", folder / "page", folder / "thread", folder / "issue")
        assert done.returncode == 0, done.stderr
        page = Page((folder / "page").read_text(encoding="utf-8"))
        titles = [title for title in page.titles if title.startswith("call_latency")]
        assert len(titles) == len(set(titles)) == 13 and "call_latency: put" in titles, titles
        text = (folder / "page").read_text(encoding="utf-8")
        assert "<th>after a wait host</th>" in text and len(page.titles) < len(text) / 20, text

        (folder / "empty").write_text("", encoding="utf-8")
        (folder / "other").write_text("{}", encoding="utf-8")
        for bad in ("empty", "other", "missing"):
            done = plot("-o", folder / "none", folder / bad)
            assert done.returncode == 1 and re.match(rf"plot: .*{bad}", done.stderr), done.stderr
            assert not (folder / "none").exists()
    print("passed")


main()
