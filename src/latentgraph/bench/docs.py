"""The measured tables of the documentation: `python -m latentgraph.bench.docs results docs`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from latentgraph.bench.run import bench
from latentgraph.files import rewrite_pages

PLACE = re.compile(r"<!-- bench (?P<name>[\w-]+) -->\n.*?<!-- end -->", flags=re.DOTALL)


def render(page: str, results: Path) -> str:
    """The page with everything between `<!-- bench NAME -->` and `<!-- end -->` made anew from bench-NAME.json."""
    return PLACE.sub(lambda place: _section(place["name"], results / f"bench-{place['name']}.json"), page)


def _section(name: str, path: Path) -> str:
    if path.exists():
        report = json.loads(path.read_text(encoding="utf-8"))
        tables = "\n\n".join(table.markdown() for table in bench(name).tables(report["rows"]))
        figure = path.with_suffix(".svg")
        picture = f"\n\n![{name}](../{figure.parent.name}/{figure.name})" if figure.exists() else ""
        text = f"Measured on: {report['machine']}.{picture}\n\n{tables}"
    else:
        text = "Not measured yet."
    return f"<!-- bench {name} -->\n\n{text}\n\n<!-- end -->"


def main(results: str, docs: str) -> None:
    rewrite_pages(Path(docs), lambda text: render(text, Path(results)))


if __name__ == "__main__":
    main(*sys.argv[1:])
