"""Our numpydoc sections carry prose after the colon, not types: hand them to napoleon and Sphinx in that sense."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

FIELD = re.compile(r"^(\*{0,2}\w[\w, ]*) : (.*)$")


def rewrite(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    """`x : (n, d) features` becomes a parameter with a description; `Returns` becomes one description."""
    result: list[str] = []
    section = ""
    for number, line in enumerate(lines):
        below = lines[number + 1] if number + 1 < len(lines) else ""
        if line and not line.startswith(" ") and re.fullmatch("-{3,}", below):
            section = line
        elif re.fullmatch("-{3,}", line):
            if section == "Returns":
                result[-1:] = ["", "", ":returns:"]  # two blank lines end a section for napoleon
                continue
        elif section in ("Parameters", "Attributes") and (match := FIELD.match(line)):
            result += [match[1], f"    {match[2]}"]
            continue
        elif section == "Returns":
            line = f"    {line}" if line else line
        # In reST |x| is a substitution; in our formulas it is a norm.
        result.append(line if ".. math" in line or "\\" in line else line.replace("|", "\\|"))
    if what in ("attribute", "property"):  # napoleon would take `(2, e): source above target` for a type
        result[0] = re.sub(r"^(\([^)]*\)): ", r"\1 ", result[0])
    lines[:] = result


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", rewrite, priority=400)  # before napoleon
    return {"parallel_read_safe": True}
