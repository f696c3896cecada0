"""A table as text: for the terminal, and for a page of the documentation."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        text = "\n".join([f"**{self.title}**", "", *(f"| {' | '.join(line)} |" for line in lines)])
        return text.replace(" ± ", "\u00a0±\u00a0")  # a narrow column must not break a number from its deviation
