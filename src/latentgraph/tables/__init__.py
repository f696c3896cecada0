"""Tables: from a file or a data frame to a matrix of numbers, by rules that can be read and saved."""

from latentgraph.tables.encoding import Feature
from latentgraph.tables.frames import as_frame
from latentgraph.tables.leakage import Suspect
from latentgraph.tables.preprocessor import Prepared, TablePreprocessor
from latentgraph.tables.reading import Reading, read_table, reading_of
from latentgraph.tables.report import TableReport
from latentgraph.tables.schema import Column, Schema
from latentgraph.tables.target import Target

__all__ = [
    "Column",
    "Feature",
    "Prepared",
    "Reading",
    "Schema",
    "Suspect",
    "TablePreprocessor",
    "TableReport",
    "Target",
    "as_frame",
    "read_table",
    "reading_of",
]
