"""Speed and memory of this library beside what one would use instead, measured in one process.

A benchmark is a module here with the three functions of `run.Bench`: its cases, how one of them is measured, and the
tables that are made of the rows.
"""
