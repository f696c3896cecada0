"""Hundreds of bad tables through the real commands: each ends in a documented result or in one message and status 2."""

from __future__ import annotations

import csv
import gzip
import io
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from latentgraph import cli
from latentgraph.cli import main
from latentgraph.runs import plots, writing

TINY = ("--steps", "1", "--samples", "1", "--hidden", "4", "--embedding_dim", "2")
ROWS = 24


class Table(NamedTuple):
    """Names that may repeat, and rows of cells; None is a missing value."""

    names: list[str]
    rows: list[list[Any]]

    def having(self, **columns: Any) -> Table:
        """With some columns replaced or appended: by a list, by a function of the row number, or by one value."""
        names, rows = list(self.names), [list(row) for row in self.rows]
        for name, given in columns.items():
            if name not in names:
                names.append(name)
                rows = [[*row, None] for row in rows]
            for i, row in enumerate(rows):
                row[names.index(name)] = given(i) if callable(given) else given[i] if isinstance(given, list) else given
        return Table(names, rows)

    def named(self, **names: str) -> Table:
        return Table([names.get(name, name) for name in self.names], self.rows)

    def only(self, *names: str) -> Table:
        places = [self.names.index(name) for name in names]
        return Table(list(names), [[row[place] for place in places] for row in self.rows])

    def first(self, count: int) -> Table:
        return Table(self.names, self.rows[:count])


def good(rows: int = ROWS) -> Table:
    names = ["patient", "age", "weight", "sex", "stage", "seen", "diagnosis"]
    cells = [
        [
            f"P{i:03}",
            30 + i * 7 % 40,
            50.25 + i * 11 % 37,
            ("female", "male")[i * 5 % 3 == 0],
            ("I", "II", None)[i % 3],
            f"20{10 + i % 9}-0{1 + i % 9}-1{i % 10}",
            ("ill", "well")[i % 2],
        ]
        for i in range(rows)
    ]
    return Table(names, cells)


# Formats


def as_text(table: Table, delimiter: str, decimal: str = ".") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(table.names)
    for row in table.rows:
        cells = ("" if cell is None else cell for cell in row)
        writer.writerow([str(cell).replace(".", decimal) if isinstance(cell, float) else cell for cell in cells])
    return file.getvalue().encode()


def as_parquet(table: Table) -> bytes:
    """Columns with their types; a mixture of types, or a number too large for one, as text."""
    arrays = []
    for i in range(len(table.names)):
        cells = [row[i] for row in table.rows]
        kinds = {type(cell) for cell in cells if cell is not None}
        if (len(kinds) > 1 and not kinds <= {int, float}) or any(type(c) is int and abs(c) >= 2**63 for c in cells):
            cells = [None if cell is None else str(cell) for cell in cells]
        elif len(kinds) > 1:
            cells = [None if cell is None else float(cell) for cell in cells]
        arrays.append(pa.array(cells))
    sink = pa.BufferOutputStream()
    pa.parquet.write_table(pa.Table.from_arrays(arrays, names=table.names), sink)
    return sink.getvalue().to_pybytes()


FORMATS: dict[str, Callable[[Table], bytes]] = {
    "csv": lambda table: as_text(table, ","),
    "tsv": lambda table: as_text(table, "\t"),
    "decimal comma": lambda table: as_text(table, ";", ","),
    "parquet": as_parquet,
}


# Defects of the table itself, in every format


class Case(NamedTuple):
    """`words` are in the message of a table that is refused; without them the table is fitted."""

    table: Any
    words: Sequence[str] = ()
    arguments: Sequence[str] = ()


TABLE = good()
TARGET = "'diagnosis'"


def once(value: Any, otherwise: Any = None, row: int = 3) -> Callable[[int], Any]:
    return lambda i: value if i == row else otherwise(i) if callable(otherwise) else otherwise


def alternating(*values: Any) -> Callable[[int], Any]:
    return lambda i: values[i % len(values)]


DEFECTS: dict[str, Case] = {
    "nothing is wrong": Case(TABLE),
    # rows
    "no rows": Case(TABLE.first(0), ["no rows"]),
    "one row": Case(TABLE.first(1), [TARGET, "one class only"]),
    "two rows": Case(TABLE.first(2)),
    "three rows": Case(TABLE.first(3)),
    "the same row again and again": Case(Table(TABLE.names, TABLE.rows[:2] * 12)),
    # target
    "target is absent": Case(TABLE.only("age", "weight"), ["no target column 'diagnosis'"]),
    "target is misspelt": Case(TABLE.named(diagnosis="diagnosys"), [TARGET, "Did you mean 'diagnosys'"]),
    "target is alone": Case(TABLE.only("diagnosis"), ["no column is left"]),
    "target has one class": Case(TABLE.having(diagnosis="ill"), [TARGET, "one class only"]),
    "target is one number": Case(TABLE.having(diagnosis=1), [TARGET, "one class only"]),
    "target is one decimal": Case(TABLE.having(diagnosis=1.5), [TARGET, "nothing to learn"]),
    "target is missing": Case(TABLE.having(diagnosis=None), [TARGET, "has no value"]),
    "target is there once": Case(TABLE.having(diagnosis=once("ill")), [TARGET, "one class only"]),
    "target number is there once": Case(TABLE.having(diagnosis=once(1.5)), [TARGET, "nothing to learn"]),
    "target is there twice": Case(TABLE.having(diagnosis=once("ill", once("well", row=7)))),
    "target is half missing": Case(TABLE.having(diagnosis=alternating("ill", None, "well", None))),
    "target is unique text": Case(
        TABLE.having(diagnosis=lambda i: f"d{i}"), [TARGET, f"{ROWS} classes in {ROWS} rows"]
    ),
    "target is a date": Case(TABLE.having(diagnosis=lambda i: f"2020-01-{i + 1:02}"), [TARGET, "is a date"]),
    "target is true or false": Case(TABLE.having(diagnosis=alternating("true", "false"))),
    "target is Boolean": Case(TABLE.having(diagnosis=alternating(True, False))),
    "target is 0 or 1": Case(TABLE.having(diagnosis=alternating(0, 1))),
    "target is a float of few values": Case(TABLE.having(diagnosis=alternating(0.5, 1.5))),
    "target is whole floats": Case(TABLE.having(diagnosis=alternating(1.0, 2.0))),
    "target is infinite": Case(TABLE.having(diagnosis=once(float("inf"), float)), [TARGET, "row 4", "finite"]),
    "target is far too large": Case(TABLE.having(diagnosis=once(1e308, float)), [TARGET, "row 4", "finite"]),
    "target is large": Case(TABLE.having(diagnosis=lambda i: i * 1.5e80)),
    "target is tiny": Case(TABLE.having(diagnosis=lambda i: i * 1.5e-300)),
    "target is text but regression": Case(TABLE, [TARGET, "row 1", "'ill'"], ["--task", "regression"]),
    "target is measured but classes": Case(
        TABLE.having(diagnosis=lambda i: i + 0.5), [TARGET, "classes in"], ["--task", "classification"]
    ),
    "a class has one member": Case(TABLE.having(diagnosis=once("odd", alternating("ill", "well")))),
    "a class has one member, tested": Case(
        TABLE.having(diagnosis=once("odd", alternating("ill", "well"))), (), ["--test_fraction", "0.5"]
    ),
    "one of two classes has one member, tested": Case(
        TABLE.having(diagnosis=once("odd", "ill")), (), ["--test_fraction", "0.9"]
    ),
    "more classes than rows to test": Case(
        TABLE.having(diagnosis=lambda i: f"d{i // 3}"), (), ["--test_fraction", "0.1"]
    ),
    "class names are odd": Case(TABLE.having(diagnosis=alternating('a,"b";\n', "p(ill)\t|", "ä 🙂 'x'"))),
    "class names differ in case": Case(TABLE.having(diagnosis=alternating("ill", "Ill"))),
    "class names differ in spaces": Case(TABLE.having(diagnosis=alternating("ill", " ill ")), ["one class only"]),
    "target is like a missing word": Case(TABLE.having(diagnosis=alternating("NA", "null")), [TARGET, "has no value"]),
    "target is also the id": Case(TABLE, [TARGET, "two roles"], ["--id", "diagnosis"]),
    "target is also dropped": Case(TABLE, [TARGET, "two roles"], ["--drop", "[diagnosis]"]),
    "target is the id of the rows": Case(TABLE, ["'patient'", "classes in"], ["--target", "patient"]),
    "target gives itself away": Case(TABLE.having(copy=lambda i: TABLE.rows[i][-1])),
    # names
    "names twice": Case(TABLE.named(weight="age"), ["'age' (columns 2, 3)"]),
    "target name twice": Case(TABLE.named(age="diagnosis"), ["'diagnosis' (columns 2, 7)"]),
    "names differ in spaces": Case(TABLE.named(weight=" age "), ["'age' (columns 2, 3)"]),
    "names differ in Unicode form": Case(TABLE.named(age="caf\u00e9", weight="cafe\u0301"), ["columns 2, 3"]),
    "names differ in case": Case(TABLE.named(weight="AGE")),
    "names are empty": Case(TABLE.named(age="", weight="")),
    "names are white space": Case(TABLE.named(age=" \t ", weight="  ")),
    "names are Unicode": Case(TABLE.named(age="年齢", weight="größe 🙂", sex="пол")),
    "names are long": Case(TABLE.named(age="a" * 10_000)),
    "names have line breaks": Case(TABLE.named(age="age\n(years)", weight='w"eight"')),
    "names are those of the output": Case(
        TABLE.named(age="prediction", weight="p(ill)", sex="row", seen="outlier_score", patient="neighbour 1")
    ),
    "names are those of features": Case(TABLE.named(age="stage=I", weight="stage (missing)")),
    "names look like options": Case(TABLE.named(age="--k", weight="[a, b]", sex="null")),
    # values
    "all features missing": Case(
        TABLE.having(patient=None, age=None, weight=None, sex=None, stage=None, seen=None),
        ["no column is left", "'age'"],
    ),
    "all features constant": Case(
        TABLE.having(patient="x", age=1, weight=1.5, sex="f", stage="I", seen="2020-01-01"), ["no column is left"]
    ),
    "all features unique text": Case(
        TABLE.only("patient", "diagnosis").having(other=lambda i: f"t{i}"), ["no column is left", "'patient'"]
    ),
    "all features are text": Case(TABLE.only("sex", "stage", "diagnosis")),
    "a feature is missing": Case(TABLE.having(age=None)),
    "a feature is there once": Case(TABLE.having(age=once(5))),
    "a feature is constant": Case(TABLE.having(age=5)),
    "a feature is missing in the last row": Case(TABLE.having(age=once(None, float, row=ROWS - 1))),
    "infinite": Case(TABLE.having(weight=once(float("inf"), float)), ["'weight'", "row 4", "finite"]),
    "minus infinite": Case(TABLE.having(weight=once(float("-inf"), float)), ["'weight'", "row 4", "finite"]),
    "infinite everywhere": Case(TABLE.having(weight=float("inf")), ["'weight'", "row 1", f"{ROWS} such values"]),
    "1e308": Case(TABLE.having(weight=once(1e308, float)), ["'weight'", "row 4", "finite"]),
    "1e99 once": Case(TABLE.having(weight=once(1e99, float))),
    "1e99 once, robust": Case(
        TABLE.having(weight=once(1e99, float)), ["'weight'", "row 4", "scale='robust'"], ["--scale", "robust"]
    ),
    "1e99 once, quantile": Case(TABLE.having(weight=once(1e99, float)), (), ["--scale", "quantile"]),
    "1e99 once, not scaled": Case(
        TABLE.having(weight=once(1e99, float)), ["'weight'", "row 4", "scale='none'"], ["--scale", "none"]
    ),
    "1e-300": Case(TABLE.having(weight=lambda i: i * 1e-300)),
    "huge and tiny": Case(TABLE.having(weight=alternating(1e90, 1e-90, -1e90))),
    "NaN": Case(TABLE.having(weight=once(float("nan"), float))),
    "words for missing": Case(TABLE.having(sex=alternating("NA", "n/a", "f", "m", "#DIV/0!", "NULL"))),
    "beyond 64 bits": Case(TABLE.having(age=lambda i: 2**63 + i * 10**17)),
    "beyond 64 bits, negative": Case(TABLE.having(age=lambda i: -(2**70) - i)),
    "just in 64 bits": Case(TABLE.having(age=lambda i: 2**62 + i % 5)),
    "numbers and words": Case(TABLE.having(age=once("unknown", lambda i: 20 + i % 5))),
    "numbers and dates": Case(TABLE.having(age=once("2020-01-01", lambda i: 20 + i % 5))),
    "impossible dates": Case(TABLE.having(seen=alternating("2020-02-30", "2020-13-01", "2021-01-01"))),
    "ancient dates": Case(TABLE.having(seen=alternating("0001-01-01", "9999-12-31", "2021-01-01"))),
    "ambiguous dates": Case(TABLE.having(seen=alternating("01/02/2020", "03/04/2020", "05/06/2021"))),
    "very long text": Case(TABLE.having(stage=alternating("x" * 50_000, "y" * 50_000))),
    "emoji and accents": Case(TABLE.having(stage=alternating("é", "e\u0301", "🙂", "ß"))),
    "many levels": Case(TABLE.having(stage=lambda i: f"level {i % 12}")),
    # id
    "id repeats": Case(TABLE.having(patient=lambda i: f"P{i // 2}"), (), ["--id", "patient"]),
    "id is the same everywhere": Case(TABLE.having(patient="P1"), (), ["--id", "patient"]),
    "id is partly missing": Case(TABLE.having(patient=alternating("P1", None)), (), ["--id", "patient"]),
    "id is missing everywhere": Case(TABLE.having(patient=None), (), ["--id", "patient"]),
    "id is a number": Case(TABLE, (), ["--id", "age"]),
    "id is absent": Case(TABLE, ["no column 'nobody'"], ["--id", "nobody"]),
    "id and target alone": Case(TABLE.only("patient", "diagnosis"), ["no column is left"], ["--id", "patient"]),
    "drop is absent": Case(TABLE, ["no column 'wieght'", "'weight'"], ["--drop", "[wieght]"]),
    "drop is everything": Case(TABLE, ["no column is left"], ["--drop", "[patient,age,weight,sex,stage,seen]"]),
}


# Arguments that do not fit the table

USAGE: dict[str, Case] = {
    "k above the rows": Case(TABLE.first(20), (), ["--k", "500"]),
    "k is the number of rows": Case(TABLE.first(20), (), ["--k", "20"]),
    "k is zero": Case(TABLE, ["'k'"], ["--k", "0"]),
    "k is no number": Case(TABLE, ['"k"', "int", "many"], ["--k", "many"]),
    "more folds than rows": Case(TABLE.first(5), ["folds=10", "at most 3 rows"], ["--folds", "10"]),
    "more folds than a class has": Case(TABLE.first(12), ["folds=10"], ["--folds", "10"]),
    "more folds than one class has": Case(
        TABLE.having(diagnosis=once("odd", alternating("ill", "well"))), (), ["--folds", "3"]
    ),
    "more folds than labels": Case(
        TABLE.having(diagnosis=once("ill", once("well", row=7))), ["folds=3", "at most 1 rows"], ["--folds", "3"]
    ),
    "folds of a number": Case(TABLE.having(diagnosis=lambda i: i + 0.5), (), ["--folds", "2"]),
    "one fold": Case(TABLE, ["folds=1"], ["--folds", "1"]),
    "negative folds": Case(TABLE, ["folds=-3"], ["--folds", "-3"]),
    "everything is tested": Case(TABLE, ["test_fraction=1"], ["--test_fraction", "1"]),
    "almost everything is tested": Case(TABLE, ["test_fraction=0.999"], ["--test_fraction", "0.999"]),
    "almost nothing is tested": Case(TABLE, (), ["--test_fraction", "0.001"]),
    "less than nothing is tested": Case(TABLE, ["test_fraction=-0.5"], ["--test_fraction", "-0.5"]),
    "test fraction is NaN": Case(TABLE, ["test_fraction"], ["--test_fraction", "nan"]),
    "validation of everything": Case(TABLE, ["validation_fraction"], ["--validation_fraction", "1"]),
    "no task": Case(TABLE, ["task='cluster'"], ["--task", "cluster"]),
    "no scale": Case(TABLE, ["scale='log'"], ["--scale", "log"]),
    "no geometry": Case(TABLE, ["geometry"], ["--geometry", "flat"]),
    "no device": Case(TABLE, ["abacus"], ["--device", "abacus"]),
    "no steps": Case(TABLE, ["steps"], ["--steps", "0"]),
    "learning rate is NaN": Case(TABLE, ["learning_rate"], ["--learning_rate", "nan"]),
    "learning rate is infinite": Case(TABLE, ["learning_rate"], ["--learning_rate", "inf"]),
    "dropout of everything": Case(TABLE, ["dropout"], ["--dropout", "1"]),
    "hyperbolic": Case(TABLE.having(weight=once(1e99, float)), (), ["--geometry", "hyperbolic"]),
    "sphere": Case(TABLE.having(weight=once(1e99, float)), (), ["--geometry", "sphere"]),
    "seed is negative": Case(TABLE, ["seed=-1"], ["--seed", "-1"]),
    "an option that is not there": Case(TABLE, ["--neighbors"], ["--neighbors", "3"]),
    "no target is named": Case(TABLE, ["no target column ''"], ["--target", ""]),
}


# Defects of a text file

PLAIN = as_text(TABLE, ",")
TEXT = PLAIN.decode()
HEAD, BODY = TEXT.split("\n", 1)


def wide(columns: int) -> Table:
    names = [f"g{i}" for i in range(columns)]
    rows = [[(i * 31 + j * 17) % 101 for j in range(columns)] + [("ill", "well")[i % 2]] for i in range(12)]
    return Table([*names, "diagnosis"], rows)


FILES: dict[str, Case] = {
    "no bytes": Case(b"", ["is empty"]),
    "blank lines": Case(b"\n\n  \n", ["is empty"]),
    "header alone": Case(HEAD, ["no rows"]),
    "header is missing": Case("1,2.5,3\n4,5.5,6\n", ["must name the columns"]),
    "header is data": Case(BODY, ["no target column 'diagnosis'"]),
    "header is numeric": Case("1,2,3\n" + "5,6,7\n6,5,8\n" * 9, (), ["--target", "3"]),
    "header has years": Case("2019,2021,diagnosis\n" + "5,6,ill\n6,5,well\n" * 9),
    "header has one name too few": Case(TEXT.replace("patient,", "", 1), ["line 2", "7 cells", "6 column names"]),
    "header has one name too many": Case("x," + TEXT, ["line 2", "7 cells", "8 column names"]),
    "header is twice": Case(f"{HEAD}\n{TEXT}"),
    "UTF-8 mark": Case(b"\xef\xbb\xbf" + PLAIN),
    "UTF-8 mark alone": Case(b"\xef\xbb\xbf", ["is empty"]),
    "UTF-8 mark twice": Case(b"\xef\xbb\xbf\xef\xbb\xbf" + PLAIN),
    "UTF-16": Case(TEXT.encode("utf-16")),
    "UTF-16 big": Case(b"\xfe\xff" + TEXT.encode("utf-16-be")),
    "UTF-16 without a mark": Case(TEXT.encode("utf-16-le"), ["UTF-16"]),
    "UTF-16 with half a letter": Case(TEXT.encode("utf-16") + b"\x00", ["utf-16"]),
    "UTF-16 mark before UTF-8": Case(b"\xff\xfe" + PLAIN, ["table"]),
    "UTF-32": Case(TEXT.encode("utf-32")),
    "Windows-1252": Case(TEXT.replace("female", "wéiblich").encode("cp1252")),
    "no encoding": Case(PLAIN.replace(b"female", b"\x81\x8d"), ["line 3", "0x81"]),
    "two encodings": Case(PLAIN.replace(b"female", "é".encode()) + "P9,1,2.5,é,I,2011-01-01,ill\n".encode("cp1252")),
    "CR": Case(PLAIN.replace(b"\n", b"\r")),
    "CRLF": Case(PLAIN.replace(b"\n", b"\r\n")),
    "line ends mixed": Case(PLAIN.replace(b"\n", b"\r\n", 3).replace(b"ill\n", b"ill\r")),
    "no end of the last line": Case(PLAIN.rstrip()),
    "all in one line": Case(PLAIN.replace(b"\n", b" "), ["more than once"]),
    "NUL": Case(PLAIN.replace(b"male", b"ma\x00le", 1), ["line 2", "0x00"]),
    "bell": Case(PLAIN.replace(b"male", b"\x07", 1), ["0x07"]),
    "old end of file": Case(PLAIN + b"\x1a"),
    "open quote": Case(TEXT.replace("female", '"female', 1), ["not closed"]),
    "text after a quote": Case(TEXT.replace("female", '"fe"male', 1), ["not closed properly"]),
    "quote inside": Case(TEXT.replace("female", 'fe"male', 1)),
    "everything quoted": Case("\n".join(",".join(f'"{c}"' for c in line.split(",")) for line in TEXT.split("\n")[:-1])),
    "single quotes": Case(TEXT.replace("female", "'female'")),
    "row too long": Case(TEXT + "a,b,c,d,e,f,g,h\n", ["8 cells", "line 26"]),
    "row too short": Case(TEXT + "a,b,c\n", ["3 cells", "line 26"]),
    "rows end in delimiters": Case(TEXT.replace("\n", ",,\n")),
    "empty rows inside": Case(TEXT + ",,,,,,\n" * 3 + BODY),
    "blank lines inside": Case(TEXT + "\n\n\n" + BODY),
    "comment first": Case("# made by a machine\n" + TEXT, ["no target column", "# made by a machine"]),
    "total last": Case(TEXT + "total,99,,,,,\n"),
    "huge field": Case(TEXT.replace("female", "f" * 200_000, 1), ["line 3", "too long"]),
    "delimiter is a space": Case(TEXT.replace(",", " "), ["no target column"]),
    "delimiter is a colon": Case(TEXT.replace(",", ":"), ["no target column"]),
    "delimiter changes": Case(TEXT + BODY.replace(",", ";"), ["cells", "column names"]),
    "sep line": Case("sep=,\n" + TEXT),
    "wrong sep line": Case("sep=;\n" + TEXT, ["no target column"]),
    "decimal comma between commas": Case(TEXT.replace(".25", ",25"), ["decimal comma"]),
    "1,234 alone": Case(as_text(TABLE.having(weight=lambda i: f"{1 + i % 9},234"), ";"), ["'weight'", "decimal"]),
    "both decimal marks": Case(as_text(TABLE.having(weight=alternating("1,5", "2.5")), ";")),
    "percent signs": Case(as_text(TABLE.having(weight=lambda i: f"{i}%"), ",")),
    "10,000 columns": Case(as_parquet(wide(10_000))),
    "10,000 columns, one cell short": Case(as_text(wide(10_000), ",").rsplit(b",", 1)[0], ["10000 cells"]),
    "gzip": Case(gzip.compress(PLAIN)),
    "gzip, cut": Case(gzip.compress(PLAIN)[:-20], ["damaged gzip"]),
    "gzip, twice": Case(gzip.compress(gzip.compress(PLAIN)), ["table"]),
    "gzip of nothing": Case(gzip.compress(b""), ["is empty"]),
    "gzip with a tail": Case(gzip.compress(PLAIN) + b"tail", ["damaged gzip"]),
    "Excel": Case(b"PK\x03\x04" + PLAIN, ["Excel"]),
    "old Excel": Case(b"\xd0\xcf\x11\xe0" + PLAIN, ["Excel"]),
    "pickle": Case(b"\x80\x04\x95" + PLAIN, ["pickle"]),
    "HDF5": Case(b"\x89HDF\r\n" + PLAIN, ["HDF5"]),
    "HTML": Case("<html><table><tr><td>1</td></tr></table></html>", ["HTML"]),
    "JSON": Case('[{"age": 1, "diagnosis": "ill"},\n {"age": 2, "diagnosis": "well"}]', ["no target column"]),
    "parquet in name alone": Case(b"PAR1" + PLAIN, ["damaged parquet"]),
    "parquet, cut": Case(as_parquet(TABLE)[:-30], ["damaged parquet"]),
    "parquet with lists": Case(as_parquet(TABLE.having(age=lambda i: [i, i])), ["'age'", "type"]),
    "parquet with bytes": Case(as_parquet(TABLE.having(age=lambda i: bytes([i]))), ["'age'", "type bytes"]),
    "parquet without columns": Case(as_parquet(Table([], [])), ["table"]),
}


# Random damage

PARQUET, GZIPPED, COMMA = as_parquet(TABLE), gzip.compress(PLAIN), as_text(TABLE, ";", ",")


def cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data))]


def cut_out(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    return data[:start] + data[start + chance.randrange(1, 60) :]


def flip(data: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.randrange(1, 12)):
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(damaged)


def insert(*pieces: bytes) -> Callable[[bytes, random.Random], bytes]:
    def damage(data: bytes, chance: random.Random) -> bytes:
        for _ in range(chance.randrange(1, 4)):
            place = chance.randrange(len(data))
            data = data[:place] + chance.choice(pieces) + data[place:]
        return data

    return damage


def delete(*pieces: bytes) -> Callable[[bytes, random.Random], bytes]:
    def damage(data: bytes, chance: random.Random) -> bytes:
        piece = chance.choice(pieces)
        places = [i for i in range(len(data)) if data.startswith(piece, i)]
        place = chance.choice(places or [0])
        return data[:place] + data[place + len(piece) :]

    return damage


def shuffle_lines(data: bytes, chance: random.Random) -> bytes:
    lines = data.split(b"\n")
    chance.shuffle(lines)
    return b"\n".join(lines)


Damage = Callable[[bytes, random.Random], bytes]
TEXT_DAMAGE: dict[str, Damage] = {
    "cut": cut,
    "cut out": cut_out,
    "flip bits": flip,
    "insert quotes": insert(b'"', b'""', b"'"),
    "insert delimiters": insert(b",", b";", b"\t", b"|", b"\n", b"\r"),
    "insert bytes": insert(b"\xff", b"\xc3", b"\x81", b"\xe9", b"\xef\xbb\xbf", b"\x00", b"\x1a"),
    "insert words": insert(b"inf", b"NA", b"1e999", b"-", b".", b"99999999999999999999", b"\xe2\x88\x92"),
    "delete delimiters": delete(b",", b";", b"\n"),
    "shuffle lines": shuffle_lines,
}
DAMAGE: dict[str, tuple[bytes, Damage]] = {
    **{f"{name}, csv, {seed}": (PLAIN, damage) for name, damage in TEXT_DAMAGE.items() for seed in range(4)},
    **{f"{name}, comma, {seed}": (COMMA, damage) for name, damage in TEXT_DAMAGE.items() for seed in range(1)},
    **{f"{damage.__name__}, parquet, {seed}": (PARQUET, damage) for damage in (cut, flip) for seed in range(8)},
    **{f"{damage.__name__}, gzip, {seed}": (GZIPPED, damage) for damage in (cut, flip) for seed in range(4)},
}


# What every case has to obey


def fit(path: Path, arguments: Sequence[str] = ()) -> int:
    """The command; also the status with which argparse leaves."""
    untested = [] if {"--test_fraction", "--folds"} & set(arguments) else ["--test_fraction", "0"]
    target = [] if "--target" in arguments else ["--target", "diagnosis"]
    out = str(path.parent / "run")
    try:
        return main(["fit", str(path), *target, "--out", out, *TINY, *untested, *arguments])
    except SystemExit as left:
        return int(left.code or 0)


def refused(path: Path, error: str, words: Sequence[str]) -> None:
    assert "Traceback" not in error
    assert len(error) < 1500, error
    assert all(word in error for word in words), error
    assert not (path.parent / "run" / "model").exists()


def predicts(path: Path) -> None:
    """The run can be read, and predicts the table that it was fitted on."""
    out = path.parent / "predictions.csv"
    assert main(["predict", str(path.parent / "run"), str(path), "--out", str(out)]) == 0
    with out.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert rows
    shares = [i for i, name in enumerate(header) if name.startswith("p(")]
    for row in rows:
        if shares:
            values = [float(row[i]) for i in shares]
            assert sum(values) == pytest.approx(1, abs=1e-5)
        else:
            assert np.isfinite(float(row[1]))


PARSER = cache(cli._parser)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what takes longer than the rest and does not see the table: the parser is made once, no plots."""
    monkeypatch.setattr(cli, "_parser", PARSER)
    monkeypatch.setattr(plots, "write", lambda *_, **__: {})
    monkeypatch.setattr(writing, "_draw", lambda *_: None)


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "table"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def check(case: Case, content: str | bytes, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(folder, content)
    status = fit(path, case.arguments)
    error = capsys.readouterr().err
    assert status == (2 if case.words else 0), error
    if case.words:
        refused(path, error, case.words)
    else:
        predicts(path)


def in_formats() -> list[tuple[str, str]]:
    """Tables that are refused in every format; those that are fitted, which takes longer, in one after the other."""
    kinds = list(FORMATS)
    chosen = ((name, kinds if case.words else [kinds[i % 4]]) for i, (name, case) in enumerate(DEFECTS.items()))
    return [(name, kind) for name, some in chosen for kind in some]


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("name", "kind"), in_formats())
def test_defects_of_tables(name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(DEFECTS[name], FORMATS[kind](DEFECTS[name].table), tmp_path, capsys)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", USAGE)
def test_arguments_that_do_not_fit(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(USAGE[name], FORMATS["csv"](USAGE[name].table), tmp_path, capsys)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", FILES)
def test_defects_of_files(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check(FILES[name], FILES[name].table, tmp_path, capsys)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", DAMAGE)
def test_random_damage(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is left of the file, it is fitted, or refused with a message."""
    content, damage = DAMAGE[name]
    path = write(tmp_path, damage(content, random.Random(name)))
    status = fit(path)
    error = capsys.readouterr().err
    assert status in (0, 2)
    if status:
        refused(path, error, ["latentgraph: "])
    else:
        predicts(path)


def test_names_that_mean_something_to_a_plot(tmp_path: Path) -> None:
    table = TABLE.named(diagnosis="$x_").having(**{"$x_": alternating("$a^", "\\frac{", "_b", "%d {}")})
    path = write(tmp_path, FORMATS["csv"](table))
    assert fit(path, ["--target", "$x_", "--test_fraction", "0.5"]) == 0
    predicts(path)


@pytest.mark.parametrize(
    ("content", "status", "words"), [(PLAIN, 0, []), (PLAIN.replace(b"well", b"ill"), 2, [TARGET, "one class only"])]
)
def test_a_process_of_its_own(content: bytes, status: int, words: list[str], tmp_path: Path) -> None:
    path = write(tmp_path, content)
    command = [sys.executable, "-m", "latentgraph", "fit", str(path), "--target", "diagnosis", *TINY]
    done = subprocess.run(
        [*command, "--test_fraction", "0", "--out", str(tmp_path / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words)
    assert (tmp_path / "run" / "model").exists() == (status == 0)


# Another table than that of training


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and the predictions for the table of training."""
    folder = tmp_path_factory.mktemp("trained")
    path = write(folder, PLAIN)
    assert fit(path, ["--id", "patient"]) == 0
    predicts(path)
    return folder


class Other(NamedTuple):
    """Another table; words of the message or of the note; whether the predictions are those of training."""

    content: bytes
    words: Sequence[str] = ()
    status: int = 0
    same: bool = False


def changed(**columns: Any) -> bytes:
    return FORMATS["csv"](TABLE.having(**columns))


REORDERED = TABLE.only(*reversed(TABLE.names))
OTHERS: dict[str, Other] = {
    "the same": Other(PLAIN, same=True),
    "other order of columns": Other(FORMATS["csv"](REORDERED), same=True),
    "tabs": Other(FORMATS["tsv"](TABLE), same=True),
    "decimal comma": Other(FORMATS["decimal comma"](TABLE), same=True),
    "decimal comma, other order": Other(FORMATS["decimal comma"](REORDERED), same=True),
    "parquet": Other(FORMATS["parquet"](TABLE), same=True),
    "UTF-16": Other(TEXT.encode("utf-16"), same=True),
    "whole numbers as decimals": Other(changed(age=lambda i: float(TABLE.rows[i][1])), same=True),
    "without the target": Other(FORMATS["csv"](TABLE.only(*TABLE.names[:-1])), same=True),
    "another target": Other(changed(diagnosis="who knows"), same=True),
    "a further column": Other(changed(height=1.5), ["'height'", "not used"], same=True),
    "without the id": Other(FORMATS["csv"](TABLE.only(*TABLE.names[1:])), ["'patient'", "numbered"]),
    "the same id twice": Other(changed(patient="P1")),
    "a new category": Other(changed(stage=once("IV", "I")), ["'stage'", "'IV'", "zeros"]),
    "missing as never before": Other(changed(age=once(None, 50)), ["'age'", "never in training"]),
    "nothing but missing": Other(changed(age=None, weight=None, sex=None, stage=None, seen=None), ["'age'"]),
    "one row": Other(FORMATS["csv"](TABLE.first(1))),
    "far away": Other(changed(weight=once(1e7, 60.5)), ["unlike everything"]),
    "too far away": Other(changed(weight=once(1e99, 60.5)), ["'weight'", "row 4", "scale='standard'"], 2),
    "a column is missing": Other(FORMATS["csv"](TABLE.only("age", "sex", "stage", "seen")), ["'weight'"], 2),
    "a column is misspelt": Other(FORMATS["csv"](TABLE.named(weight="wieght")), ["'weight'", "mean 'wieght'"], 2),
    "all columns are missing": Other(b"a,b\n1,2\n", ["'age'", "'weight'", "missing"], 2),
    "a word in numbers": Other(changed(weight=once("heavy", 60.5)), ["'weight'", "row 4", "'heavy'"], 2),
    "a unit in numbers": Other(changed(weight=lambda i: f"{i} kg"), ["'weight'", "row 1", "'0 kg'"], 2),
    "dates in numbers": Other(changed(weight="2020-01-01"), ["'weight'", "row 1", "not a number"], 2),
    "numbers in dates": Other(changed(seen=5), ["'seen'", "row 1", "not a date"], 2),
    "dates of another form": Other(changed(seen="31.12.2020"), ["'seen'", "row 1", "'31.12.2020'"], 2),
    "infinite": Other(changed(weight=once(float("inf"), 60.5)), ["'weight'", "row 4", "finite"], 2),
    "1,234, where training had points": Other(
        as_text(TABLE.having(weight=lambda i: f"{1 + i % 9},234"), ";"), ["unlike everything"]
    ),
    "no rows": Other(FORMATS["csv"](TABLE.first(0)), ["no rows"], 2),
    "empty": Other(b"", ["is empty"], 2),
    "names twice": Other(FORMATS["csv"](TABLE.named(weight="age")), ["'age' (columns 2, 3)"], 2),
    "binary": Other(bytes(range(256)), ["no text"], 2),
}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", OTHERS)
def test_predictions_for_another_table(
    name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, words, status, same = OTHERS[name]
    path, out = write(tmp_path, content), tmp_path / "predictions.csv"
    assert main(["predict", str(trained / "run"), str(path), "--out", str(out)]) == status
    shown = capsys.readouterr()
    told = shown.err if status else shown.out
    assert all(word in told for word in words), told
    assert "Traceback" not in shown.err
    assert out.exists() == (status == 0)
    if same:
        assert out.read_bytes() == (trained / "predictions.csv").read_bytes()
    elif not status:
        assert len(pd.read_csv(out)) == content.count(b"\n") - 1
