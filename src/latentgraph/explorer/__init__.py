"""The HTML page of a learned graph: one file that opens offline, shows the graph and answers questions about it."""

from latentgraph.explorer.making import from_estimator, page
from latentgraph.explorer.page import Answers, Graph, Page
from latentgraph.explorer.run_folder import from_run, keep_table

__all__ = ["Answers", "Graph", "Page", "from_estimator", "from_run", "keep_table", "page"]
