"""Runs of the command line: a table in, a folder out."""
