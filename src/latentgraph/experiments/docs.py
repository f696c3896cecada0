"""The generated tables of the documentation: `python -m latentgraph.experiments.docs results docs`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from latentgraph.experiments import goals
from latentgraph.experiments.catalogue import experiment
from latentgraph.experiments.results import Results
from latentgraph.experiments.running import results_file
from latentgraph.files import rewrite_pages

PLACE = re.compile(r"<!-- reproduce (?P<name>[\w-]+) -->\n.*?<!-- end -->", flags=re.DOTALL)
GOALS = re.compile(r"<!-- goals -->\n.*?<!-- end -->", flags=re.DOTALL)


def render(page: str, results: Path) -> str:
    """The page with everything between `<!-- reproduce NAME -->` and `<!-- end -->` made anew from the results.

    Likewise `<!-- goals -->`.
    """
    page = PLACE.sub(lambda place: _section(place["name"], results), page)
    return GOALS.sub(lambda _: f"<!-- goals -->\n\n{goals.table(results).markdown()}\n\n<!-- end -->", page)


def _section(name: str, results: Path) -> str:
    found = experiment(name)
    tables = found.tables(Results(results_file(name, results), found.key))
    return "\n\n".join([f"<!-- reproduce {name} -->", *(table.markdown() for table in tables), "<!-- end -->"])


def main(results: str, docs: str) -> None:
    rewrite_pages(Path(docs), lambda text: render(text, Path(results)))


if __name__ == "__main__":
    main(*sys.argv[1:])
