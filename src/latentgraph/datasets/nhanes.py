"""NHANES 2017-18: 8,366 people, 197 answers and measurements, many of them missing.

`diabetes` asks who of the adults was told to have diabetes. Questions whose answer, or mere presence, gives that away
(prescribed pills, the age of the diagnosis, ...) are left out; the laboratory's glycohaemoglobin stays.
"""

from __future__ import annotations

import os

import pandas as pd

from latentgraph.datasets.root import data_file
from latentgraph.tables import read_table

NAME = "nhanes/NHANES_data_2017-2018.tsv.gz"
HOW_TO_GET = f"Put the combined table of the National Health and Nutrition Examination Survey at {NAME}."
DIABETES = "DoctorToldYouHaveDiabetes"
GIVE_AWAY = [
    "AgeWhenFirstToldYouHadDiabetes",
    "DiabeticDiet",
    "EverToldHaveHealthRiskForDiabetes",
    "EverToldYouHavePrediabetes",
    "FamilyHistory",
    "SEQN",
    "TakeDiabeticPillsToLowerBloodSugar",
    "TakingInsulinNow",
    "WhatWasYourLastA1CLevel",
]


def nhanes(root: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """The whole table."""
    return read_table(data_file(NAME, root, HOW_TO_GET))


def diabetes(root: str | os.PathLike[str] | None = None) -> pd.DataFrame:
    """Adults who have diabetes (836) or not (4,262); the column `DIABETES` says so."""
    people = nhanes(root)
    answer = people[DIABETES].astype("string")
    asked = (people["AgeInYearsAtScreening"].astype(float) >= 20) & answer.isin(["0", "1"])
    return people[asked].drop(columns=GIVE_AWAY).reset_index(drop=True)
