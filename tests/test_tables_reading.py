"""Odd and broken files: each is read as it is meant, or refused with a message that says where and what to do."""

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import scipy.sparse

from latentgraph.errors import InputError
from latentgraph.tables import as_frame, read_table, reading_of

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "nhanes").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with nhanes/",
)

NA = None


def write(folder: Path, content: str | bytes, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def cells(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """Columns as lists, None for missing."""
    return {name: [None if pd.isna(value) else value for value in frame[name]] for name in frame.columns}


ODD: dict[str, tuple[str | bytes, dict[str, list[Any]]]] = {
    "comma": ("a,b\n1,x\n2,y\n", {"a": [1, 2], "b": ["x", "y"]}),
    "no line end": ("a,b\n1,x", {"a": [1], "b": ["x"]}),
    "CRLF": ("a,b\r\n1,x\r\n2,y\r\n", {"a": [1, 2], "b": ["x", "y"]}),
    "CR only": ("a,b\r1,x\r2,y", {"a": [1, 2], "b": ["x", "y"]}),
    "UTF-8 mark": (b"\xef\xbb\xbfa,b\n1,\xc3\xa9\n", {"a": [1], "b": ["é"]}),
    "UTF-16 little": ("a\tb\n1\tü\n".encode("utf-16"), {"a": [1], "b": ["ü"]}),
    "UTF-16 big": (b"\xfe\xff" + "a;b\n1;ü\n".encode("utf-16-be"), {"a": [1], "b": ["ü"]}),
    "UTF-32": ("a;b\n1;ü\n".encode("utf-32"), {"a": [1], "b": ["ü"]}),
    "Windows-1252": (b"name,b\nM\xfcller,1\n", {"name": ["Müller"], "b": [1]}),
    "old end of file": (b"a,b\n1,2\n\x1a", {"a": [1], "b": [2]}),
    "semicolon": ("a;b\n1;x\n", {"a": [1], "b": ["x"]}),
    "tab": ("a\tb\n1\tx\n", {"a": [1], "b": ["x"]}),
    "bar": ("a|b\n1|x\n", {"a": [1], "b": ["x"]}),
    "sep line": ("sep=;\na;b\n1;x,y\n", {"a": [1], "b": ["x,y"]}),
    "quoted sep line": ('"sep=|"\na|b\n1|x\n', {"a": [1], "b": ["x"]}),
    "decimal comma": ("a;b\n3,14;x\n-2,5;y\n", {"a": [3.14, -2.5], "b": ["x", "y"]}),
    "decimal comma, integers too": ("a;b\n3,14;1\n2;2\n", {"a": [3.14, 2], "b": [1, 2]}),
    "decimal comma, thousands point": ("a;b\n1.234,5;x\n2;y\n", {"a": [1234.5, 2], "b": ["x", "y"]}),
    "three decimals beside clear ones": ("a;b\n1,234;0,5\n2,345;1,5\n", {"a": [1.234, 2.345], "b": [0.5, 1.5]}),
    "quoted decimal comma": ('a,b\n"3,14",x\n"2,5",y\n', {"a": [3.14, 2.5], "b": ["x", "y"]}),
    "thousands comma": ('a,b\n"1,234",x\n"12",y\n', {"a": [1234, 12], "b": ["x", "y"]}),
    "thousands comma and point": ('a;b\n1,234.5;x\n"2";y\n', {"a": [1234.5, 2], "b": ["x", "y"]}),
    "millions": ("a;b\n1,234,567;x\n", {"a": [1234567], "b": ["x"]}),
    "thousands space": ("a;b\n1 234,5;x\n12;y\n", {"a": [1234.5, 12], "b": ["x", "y"]}),
    "thousands apostrophe": ("a;b\n1'234.5;x\n", {"a": [1234.5], "b": ["x"]}),
    "three decimals, points only": ("a;b\n1.234;x\n2.345;y\n", {"a": [1.234, 2.345], "b": ["x", "y"]}),
    "zero before the comma": ("a;b\n0,123;x\n", {"a": [0.123], "b": ["x"]}),
    "exponent": ("a,b\n1e-3,+5\n2E5,-7\n", {"a": [0.001, 2e5], "b": [5, -7]}),
    "typographic minus": ("a,b\n−5,1\n", {"a": [-5], "b": [1]}),
    "no digit before the point": ("a,b\n.5,5.\n", {"a": [0.5], "b": [5.0]}),
    "codes keep zeros": ("a,b\n007,1\n123,2\n", {"a": ["007", "123"], "b": [1, 2]}),
    "long codes keep digits": ("a,b\n12345678901234567890,1\n", {"a": ["12345678901234567890"], "b": [1]}),
    "hex is text": ("a,b\n0x10,1\n", {"a": ["0x10"], "b": [1]}),
    "underscores are text": ("a,b\n1_000,1\n", {"a": ["1_000"], "b": [1]}),
    "quoted newline": ('a,b\n"x\ny",1\nz,2\n', {"a": ["x\ny", "z"], "b": [1, 2]}),
    "quoted newline, CRLF": ('a,b\r\n"x\r\ny",1\r\n', {"a": ["x\ny"], "b": [1]}),
    "quoted quotes": ('a,b\n"say ""hi""",1\n', {"a": ['say "hi"'], "b": [1]}),
    "quote inside a cell": ('a,b\n5" pipe,1\n', {"a": ['5" pipe'], "b": [1]}),
    "quoted delimiters": ('"a","b"\n"x,y;z","1"\n', {"a": ["x,y;z"], "b": [1]}),
    "commas in semicolon text": ("a;b\nx, y;u, v\nz, w;p, q\n", {"a": ["x, y", "z, w"], "b": ["u, v", "p, q"]}),
    "semicolons in comma text": ("a,b\nx;y,1\nz;w,2\n", {"a": ["x;y", "z;w"], "b": [1, 2]}),
    "delimiter at every end": ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
    "delimiter at row ends": ("a,b\n1,2,\n3,4,,\n", {"a": [1, 3], "b": [2, 4]}),
    "delimiter at header end": ("a,b,\n1,2\n3,4\n", {"a": [1, 3], "b": [2, 4]}),
    "empty columns at the end": ("a;b;;\n1;2;;\n", {"a": [1], "b": [2]}),
    "empty rows at the end": ("a;b\n1;2\n;\n;\n", {"a": [1], "b": [2]}),
    "empty row inside": ("a;b\n1;2\n;\n3;4\n", {"a": [1, NA, 3], "b": [2, NA, 4]}),
    "blank lines": ("\n\na,b\n\n1,2\n   \n3,4\n\n", {"a": [1, 3], "b": [2, 4]}),
    "missing words": (
        "a,b\nNA,x\nn/a,NULL\n.,?\n#N/A,None\nNaN,#DIV/0!\n1,y\n,<NA>\n",
        {"a": [NA] * 5 + [1, NA], "b": ["x", NA, NA, NA, NA, "y", NA]},
    ),
    "none is an answer": ("a,b\nnone,1\nmild,2\n", {"a": ["none", "mild"], "b": [1, 2]}),
    "all missing": ("a,b\nNA,1\n,2\n", {"a": [NA, NA], "b": [1, 2]}),
    "spaces around": (" a ,  b c  \n 1 , x y \n", {"a": [1], "b c": ["x y"]}),
    "spaces inside a name": ("my   age,b\n1,2\n", {"my age": [1], "b": [2]}),
    "line break in a name": ('"age\n(years)",b\n1,2\n', {"age (years)": [1], "b": [2]}),
    "unicode names": ("größe,年齢,🙂\n1,2,3\n", {"größe": [1], "年齢": [2], "🙂": [3]}),
    "decomposed name": ("cafe\u0301,b\n1,2\n", {"caf\u00e9": [1], "b": [2]}),
    "unnamed first column": (",a\n0,5\n1,6\n", {"column 1": [0, 1], "a": [5, 6]}),
    "unnamed middle column": ("a,,b\n1,x,2\n", {"a": [1], "column 2": ["x"], "b": [2]}),
    "one column": ("a\n1\n2\n", {"a": [1, 2]}),
    "one column with a gap": ("a\n1\n\n2\n\n", {"a": [1, NA, 2]}),
    "one column of decimal commas": ("a\n3,14\n2,7\n", {"a": [3.14, 2.7]}),
    "one row": ("a,b,c\n1,2,3\n", {"a": [1], "b": [2], "c": [3]}),
    "names that are numbers": ("0,1,2\n5.5,6.5,7.5\n", {"0": [5.5], "1": [6.5], "2": [7.5]}),
    "infinity": ("a,b\ninf,1\n-Infinity,2\n", {"a": [np.inf, -np.inf], "b": [1, 2]}),
    "mixed column": ("a,b\n1,2\nx,3\n", {"a": ["1", "x"], "b": [2, 3]}),
    "dates stay text": ("a,b\n2020-01-31,1\n", {"a": ["2020-01-31"], "b": [1]}),
    "gzip": (gzip.compress(b"a\tb\n1\tx\n"), {"a": [1], "b": ["x"]}),
    "gzip, UTF-16": (gzip.compress("a;b\n1;ü\n".encode("utf-16")), {"a": [1], "b": ["ü"]}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_files_are_read_as_they_are_meant(name: str, tmp_path: Path) -> None:
    content, expected = ODD[name]
    assert cells(read_table(write(tmp_path, content))) == expected


BAD: dict[str, tuple[str | bytes, list[str]]] = {
    "no bytes": (b"", ["is empty"]),
    "only blanks": (b" \n\n \n", ["is empty"]),
    "only a byte order mark": (b"\xef\xbb\xbf", ["is empty"]),
    "only a header": ("a,b\n", ["no rows"]),
    "header and empty rows": ("a,b\n,\n,\n", ["no rows"]),
    "binary": (bytes(range(256)) * 4, ["no text", "line 1"]),
    "zero bytes": (b"a,b\n1,2\n\x00\x00,3\n", ["no text", "line 3"]),
    "UTF-16 without mark": ("name,b\nabcdef,2\n".encode("utf-16-le"), ["UTF-16", "encoding='utf-16-le'"]),
    "no known encoding": (b"a,b\n\x81\xff,1\n", ["line 2", "UTF-8", "encoding"]),
    "broken UTF-16": (b"\xff\xfea\x00,\x00b\x00\n\x00\x00\xd8", ["utf-16"]),
    "xlsx": (b"PK\x03\x04rest", ["Excel workbook", "CSV"]),
    "xls": (b"\xd0\xcf\x11\xe0rest", ["Excel workbook"]),
    "pickle": (b"\x80\x04\x95rest", ["pickle"]),
    "html": ("<html><table></table></html>", ["HTML"]),
    "damaged gzip": (gzip.compress(b"a,b\n1,2\n")[:-9], ["damaged gzip"]),
    "gzip of nothing": (gzip.compress(b""), ["is empty"]),
    "damaged parquet": (b"PAR1rubbishPAR1", ["damaged parquet"]),
    "damaged feather": (b"ARROW1rubbish", ["damaged feather"]),
    "row too long": ("a,b\n1,2\n3,4,5\n6,7\n", ["line 3", "3 cells", "2 column names", "decimal comma"]),
    "row too short": ("a,b,c\n1,2,3\n4,5\n6,7,8\n", ["line 3", "2 cells", "3 column names"]),
    "ragged after a quoted newline": ('a,b\n"x\ny",2\n3,4,5\n6,7\n', ["line 4", "3 cells"]),
    "ragged after a sep line": ("sep=;\na;b\n1;2\n3;4;5\n", ["line 4", "column names in line 2"]),
    "open quote": ('a,b\n1,"x\n3,4\n', ["line 2", "not closed"]),
    "open quote at the start": ('a,b\n"x,1\n3,4\n', ["line 2", "not closed"]),
    "text after a quote": ('a,b\n"x"y,1\n', ["line 2", "not closed properly"]),
    "very long cell": ('a,b\n"' + "x" * 200_000 + '",1\n', ["line 2", "not closed"]),
    "same name twice": ("a,b,a\n1,2,3\n", ["'a' (columns 1, 3)", "more than once"]),
    "same name but for spaces": ("a,b, a \n1,2,3\n", ["'a' (columns 1, 3)"]),
    "no header": ("63,1,145\n37,1,130\n", ["line 1", "must name the columns", "63, 1, 145"]),
    "no header, decimals": ("0.5;1.5\n2.5;3.5\n", ["must name the columns"]),
    "1,234 alone": ("a;b\n1,234;x\n2,345;y\n", ["'a'", "1,234", "decimal=','"]),
    "1.234 beside decimal commas": ("a;b\n1.234;0,5\n", ["'a'", "1.234", "decimal='.'"]),
    "1,234 between both notations": ("a;b;c\n1,234;0,5;0.5\n", ["'a'", "decimal"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_refused_with_a_reason(name: str, tmp_path: Path) -> None:
    content, words = BAD[name]
    with pytest.raises(InputError) as error:
        read_table(write(tmp_path, content))
    message = str(error.value)
    assert all(word in message for word in ["table.csv", *words]), message
    assert "\n" not in message
    assert len(message) < 500


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    write(tmp_path, "a\n1\n", "patients.csv")
    with pytest.raises(InputError, match=r"pateints\.csv does not exist\. Did you mean 'patients\.csv'"):
        read_table(tmp_path / "pateints.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(InputError, match=r"nowhere/x\.csv does not exist"):
        read_table(tmp_path / "nowhere/x.csv")


def test_the_callers_word_settles_what_the_file_leaves_open(tmp_path: Path) -> None:
    path = write(tmp_path, "a;b\n1,234;x\n")
    assert read_table(path, decimal=",")["a"].tolist() == [1.234]
    assert read_table(path, decimal=".")["a"].tolist() == [1234]
    mixed = write(tmp_path, "a;b\n1.234;0,5\n")
    assert read_table(mixed, decimal=".")["a"].tolist() == [1.234]
    assert read_table(mixed, decimal=",")["a"].tolist() == [1234]
    assert read_table(write(tmp_path, "a:b\n1:2\n"), delimiter=":").columns.tolist() == ["a", "b"]
    plain = write(tmp_path, "ä;b\nNone;-9\n".encode("cp437"))
    frame = read_table(plain, encoding="cp437", missing=["-9"])
    assert cells(frame) == {"ä": ["None"], "b": [None]}
    assert cells(as_frame(frame))["ä"] == ["None"]  # the words are not looked for again
    for wrong in ({"encoding": "klingon"}, {"delimiter": "::"}, {"decimal": ";"}, {"encoding": "ascii"}):
        with pytest.raises(InputError, match=r"klingon|delimiter=|decimal=|ascii"):
            read_table(plain, **wrong)


def test_reading_tells_what_was_assumed(tmp_path: Path) -> None:
    content = b"name;x;note;\nM\xfcller;3,14;NA;\n\nMeier;2,7;ok;\n;;;\n"
    reading = reading_of(read_table(write(tmp_path, content)))
    assert reading is not None
    assert (reading.format, reading.encoding, reading.delimiter, reading.decimal) == ("text", "cp1252", ";", ",")
    told = " ".join(reading.sentences())
    for fact in ("line 2", "0xfc", "'x'", "'NA' (1 cells)", "1 blank lines", "1 rows without any value"):
        assert fact in told
    assert reading_of(pd.DataFrame({"a": [1]})) is None


def test_many_columns(tmp_path: Path) -> None:
    """10,000 columns are as good as ten."""
    rows = np.arange(30 * 10_000).reshape(30, 10_000)
    lines = [",".join(f"g{i}" for i in range(10_000)), *(",".join(map(str, row)) for row in rows.tolist())]
    frame = read_table(write(tmp_path, "\n".join(lines)))
    np.testing.assert_array_equal(frame.to_numpy(), rows)


def test_rows_are_stored_in_chunks_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latentgraph.tables.delimited.CELLS_AT_ONCE", 20)
    frame = read_table(write(tmp_path, "a,b\n" + "".join(f"{i},x{i}\n" for i in range(100))))
    assert cells(frame) == {"a": list(range(100)), "b": [f"x{i}" for i in range(100)]}


def test_parquet_and_feather(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, None], "b": ["x", None, "NA"], "c": [True, False, None], "d": pa.array([1.5, 2, 3])})
    table = table.append_column("e", pa.array(["u", "v", "u"]).dictionary_encode())
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    for name in ("parquet", "feather"):
        frame = read_table(tmp_path / f"t.{name}")
        expected = {"a": [1, 2, NA], "b": ["x", NA, NA], "c": [True, False, NA], "d": [1.5, 2, 3], "e": ["u", "v", "u"]}
        assert cells(frame) == expected
        reading = reading_of(frame)
        assert reading is not None
        assert reading.format == name
    pd.DataFrame({"x": [1.0]}, index=pd.Index(["p1"], name="patient")).to_parquet(tmp_path / "i.parquet")
    assert cells(read_table(tmp_path / "i.parquet")) == {"x": [1.0], "patient": ["p1"]}
    pa.parquet.write_table(table.slice(0, 0), tmp_path / "none.parquet")
    with pytest.raises(InputError, match="no rows"):
        read_table(tmp_path / "none.parquet")
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    pa.parquet.write_table(twice, tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="'a'"):
        read_table(tmp_path / "twice.parquet")


class LikeAnnData:
    """What `as_frame` needs of an AnnData object."""

    def __init__(self, x: Any) -> None:
        self.obs = pd.DataFrame({"cell": ["T", "B"]}, index=["c1", "c2"])
        self.X = x
        self.var_names = pd.Index(["g1", "g2"])


def test_all_kinds_of_tables_give_the_same_frame(tmp_path: Path) -> None:
    columns = {"a": [1.5, None, 2.0], "b": ["x", "NA", "z"], "c": [True, False, None]}
    expected = {"a": [1.5, NA, 2.0], "b": ["x", NA, "z"], "c": [True, False, NA]}
    for table in (columns, pd.DataFrame(columns), pl.DataFrame(columns), pl.LazyFrame(columns), pa.table(columns)):
        assert cells(as_frame(table)) == expected
    path = write(tmp_path, "a,b\n1,x\n")
    assert cells(as_frame(path)) == cells(as_frame(str(path))) == {"a": [1], "b": ["x"]}
    assert cells(as_frame(np.array([[1, 2.5]]))) == {"x0": [1], "x1": [2.5]}
    assert cells(as_frame(np.array([(1, 2.5)], dtype=[("u", int), ("v", float)]))) == {"u": [1], "v": [2.5]}
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    for made in (x, scipy.sparse.csr_matrix(x)):
        assert cells(as_frame(LikeAnnData(made))) == {"cell": ["T", "B"], "g1": [1, 0], "g2": [0, 2]}


def test_types_of_data_frames_are_tidied() -> None:
    day = pd.Timestamp("2020-02-01")
    frame = pd.DataFrame(
        {
            "nullable": pd.array([1, None], dtype="Int64"),
            "small": np.array([1, 2], dtype="int8"),
            "huge": np.array([2**64 - 1, 0], dtype="uint64"),
            "text numbers": ["1.5", " 2 "],
            "mixture": pd.Series([1.0, "a"], dtype=object),
            "objects": pd.Series([1, 2.5], dtype=object),
            "truth": pd.Series([True, None], dtype=object),
            "days": pd.Series([day.date(), None], dtype=object),
            "zone": pd.to_datetime(["2020-02-01T02:00+02:00", "2020-02-01T00:00+00:00"], utc=True),
            "month": pd.PeriodIndex(["2020-02", "2020-02"], freq="M"),
            "length": pd.to_timedelta(["36h", None]),
            "coded": pd.Categorical([1, 2]),
            "nothing": pd.Series([None, None], dtype=object),
        }
    )
    expected = {
        "nullable": [1, NA],
        "small": [1, 2],
        "huge": [float(2**64), 0],
        "text numbers": [1.5, 2],
        "mixture": ["1", "a"],
        "objects": [1, 2.5],
        "truth": [True, NA],
        "days": [day, NA],
        "zone": [day, day],
        "month": [day, day],
        "length": [1.5, NA],
        "coded": ["1", "2"],
        "nothing": [NA, NA],
    }
    tidy = as_frame(frame)
    assert cells(tidy) == expected
    assert cells(as_frame(tidy)) == expected
    assert isinstance(tidy["coded"].dtype, pd.CategoricalDtype)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (pd.DataFrame(), "no columns"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), r"'a' \(columns 1, 2\)"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), "levels"),
        (pd.DataFrame({"a": [1 + 2j]}), "complex"),
        (pd.DataFrame({"a": [None, [1, 2]]}), "'a', row 2: a value of type list"),
        (pd.DataFrame({"a": [b"x"]}), "type bytes"),
        (pa.table({"a": [{"b": 1}]}), "type dict"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.zeros((2, 2, 2)), r"shape \(2, 2, 2\)"),
        ({"a": [1], "b": [1, 2]}, "do not make a table"),
        (42, "type int; allowed are a path"),
        ([[1, 2]], "type list"),
    ],
)
def test_objects_that_are_no_tables_are_refused(table: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        as_frame(table)


def test_import_is_light() -> None:
    code = "import sys, latentgraph.tables; print([m for m in ('torch', 'polars', 'anndata') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.data
@needs_data
def test_nhanes_is_read_straight() -> None:
    root = Path(os.environ["LATENTGRAPH_DATA"])
    frame = read_table(root / "nhanes/NHANES_data_2017-2018.tsv.gz")
    assert frame.shape == (8366, 198)
    assert frame["SEQN"].iloc[0] == 93703
    assert read_table(root / "nhanes/NHANES_metadata_2017-2018.tsv").shape == (197, 18)
    abide = read_table(root / "brainage/FS_features_ABIDE_males.csv")  # BOM, semicolons, CR line ends
    reading = reading_of(abide)
    assert reading is not None
    assert reading.delimiter == ";"
    assert abide["AGE_AT_SCAN"].iloc[0] == 55.4
