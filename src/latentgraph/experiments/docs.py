"""The generated tables of docs/results.md: `python -m latentgraph.experiments.docs results docs/results.md`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from latentgraph.experiments import suite
from latentgraph.experiments.results import Results
from latentgraph.files import rewrite

PLACE = re.compile(r"<!-- tables (?P<labels>all|5 %) -->\n.*?<!-- end -->", flags=re.DOTALL)


def render(page: str, results: Path) -> str:
    """The page with everything between `<!-- tables LABELS -->` and `<!-- end -->` made anew from tables.jsonl."""
    found = Results(results / "tables.jsonl", key=suite.KEY)
    return PLACE.sub(lambda place: _section(place["labels"], found), page)


def _section(labels: str, results: Results) -> str:
    header = suite.header(results, labels)
    rows = [
        [f"**{cell}**" for cell in row] if row[0] == suite.OURS else row for row in suite.table(results, labels)
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (header, ("---",) * len(header), *rows)]
    return "\n".join([f"<!-- tables {labels} -->", "", *lines, "", "<!-- end -->"])


def main(results: str, page: str) -> None:
    rewrite(Path(page), lambda text: render(text, Path(results)))


if __name__ == "__main__":
    main(*sys.argv[1:])
