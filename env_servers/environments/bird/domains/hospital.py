"""The database of a hospital: wards, doctors, patients, stays, diagnoses and laboratory values.

Dirty on purpose: the sex of a patient is written in several ways, laboratory values may be texts
such as '<0.5', dates of birth are stored as DD/MM/YYYY.
"""

from __future__ import annotations

import random
from typing import Any, Final

from env_servers.environments.bird.domains.retail import FIRST, LAST
from env_servers.environments.bird.domains.template import (
    Domain,
    Level,
    Pool,
    Rows,
    Template,
    days,
    pick,
    pool,
)

__all__ = ["HOSPITAL"]

_DDL: Final = """
CREATE TABLE ward (
  ward_id INTEGER PRIMARY KEY, ward_name TEXT NOT NULL, floor INTEGER NOT NULL,
  beds INTEGER NOT NULL);
CREATE TABLE doctor (
  doctor_id INTEGER PRIMARY KEY, name TEXT NOT NULL, specialty TEXT NOT NULL,
  ward_id INTEGER REFERENCES ward(ward_id), hired TEXT NOT NULL, salary INTEGER NOT NULL);
CREATE TABLE patient (
  patient_id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL,
  sex TEXT NOT NULL, birth_date TEXT NOT NULL, blood_type TEXT, insurer TEXT);
CREATE TABLE stay (
  stay_id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patient(patient_id),
  ward_id INTEGER NOT NULL REFERENCES ward(ward_id),
  doctor_id INTEGER NOT NULL REFERENCES doctor(doctor_id),
  admitted TEXT NOT NULL, discharged TEXT, emergency INTEGER NOT NULL);
CREATE TABLE disease (code TEXT PRIMARY KEY, disease_name TEXT NOT NULL, chronic INTEGER NOT NULL);
CREATE TABLE diagnosis (
  stay_id INTEGER NOT NULL REFERENCES stay(stay_id),
  code TEXT NOT NULL REFERENCES disease(code), main INTEGER NOT NULL,
  PRIMARY KEY (stay_id, code));
CREATE TABLE lab_test (
  test_id INTEGER PRIMARY KEY, stay_id INTEGER NOT NULL REFERENCES stay(stay_id),
  analyte TEXT NOT NULL, taken TEXT NOT NULL, value TEXT)
"""

_WARDS: Final = (
    *("Cardiology", "Surgery", "Neurology", "Paediatrics", "Oncology", "Orthopaedics"),
    *("Internal Medicine", "Intensive Care"),
)
_DISEASES: Final = (
    ("I10", "Hypertension", 1),
    ("I21", "Heart attack", 0),
    ("I50", "Heart failure", 1),
    ("E11", "Type 2 diabetes", 1),
    ("J18", "Pneumonia", 0),
    ("J45", "Asthma", 1),
    ("K35", "Appendicitis", 0),
    ("S72", "Broken thigh bone", 0),
    ("G40", "Epilepsy", 1),
    ("I63", "Stroke", 0),
    ("C50", "Breast cancer", 0),
    ("N18", "Kidney disease", 1),
    ("A41", "Sepsis", 0),
    ("M16", "Worn hip joint", 1),
)
_SEXES: Final = ("F", "f", "female", "M", "m", "male")
_BLOOD: Final = ("0+", "A+", "B+", "AB+", "0-", "A-", None)
_INSURERS: Final = ("Aurora Health", "Beacon Care", "Civic Fund", "Delta Mutual", None)
_ANALYTES: Final = (
    ("glucose", 60, 200),
    ("creatinine", 1, 4),
    ("sodium", 125, 150),
    ("potassium", 3, 6),
    ("haemoglobin", 8, 18),
)


def _rows(rng: random.Random) -> Rows:
    hired = days(2000, 8400)
    yield (
        "ward",
        [(n, name, 1 + n // 2, 10 + 2 * rng.randrange(12)) for n, name in enumerate(_WARDS, 1)],
    )
    doctors: list[tuple[Any, ...]] = []
    for number in range(1, 91):
        ward = None if number > 84 else 1 + (number - 1) % len(_WARDS)
        specialty = _WARDS[(number - 1) % len(_WARDS)]
        name = f"{FIRST[number % 20]} {LAST[(number * 7 + number // 20) % 20]}"
        salary = 60_000 + 500 * rng.randrange(200)
        doctors.append((number, name, specialty, ward, hired[rng.randrange(8400)], salary))
    yield "doctor", doctors
    yield "patient", [_patient(rng, number) for number in range(1, 3601)]
    yield "disease", _DISEASES
    yield from _stays(rng, doctors)


def _patient(rng: random.Random, number: int) -> tuple[Any, ...]:
    born = f"{1 + rng.randrange(28):02d}/{1 + rng.randrange(12):02d}/{1930 + rng.randrange(90)}"
    first, last = pick(rng, FIRST), pick(rng, LAST)
    sex = pick(rng, _SEXES)
    return number, first, last, sex, born, pick(rng, _BLOOD), pick(rng, _INSURERS)


def _stays(rng: random.Random, doctors: list[tuple[Any, ...]]) -> Rows:
    dates = days(2020, 1600)
    stays: list[tuple[Any, ...]] = []
    diagnoses: list[tuple[Any, ...]] = []
    tests: list[tuple[Any, ...]] = []
    for number in range(1, 6501):
        doctor = doctors[rng.randrange(84)]
        start, length = rng.randrange(1461), int(28 * rng.random() ** 2)
        end = None if start > 1440 and rng.random() < 0.5 else dates[start + length]
        patient = 1 + int(3500 * rng.random() ** 1.2)
        urgent = int(rng.random() < 0.35)
        stays.append((number, patient, doctor[3], doctor[0], dates[start], end, urgent))
        codes = {_DISEASES[int(14 * rng.random() ** 1.3)][0] for _ in range(1 + rng.randrange(3))}
        for rank, code in enumerate(sorted(codes)):
            diagnoses.append((number, code, int(rank == 0)))
        for _ in range(rng.randrange(5)):
            analyte, low, high = _ANALYTES[rng.randrange(5)]
            value: str | None = f"{low + (high - low) * rng.random():.1f}"
            value = (None, f"<{low}.5", value)[min(2, int(40 * rng.random()))]
            when = dates[start + rng.randrange(length + 1)]
            tests.append((len(tests) + 1, number, analyte, when, value))
    yield "stay", stays
    yield "diagnosis", diagnoses
    yield "lab_test", tests


_WARD: Final = pool("ward", _WARDS)
_DISEASE: Final = pool("disease", [name for _, name, _ in _DISEASES])
_YEAR: Final = pool("year", (2020, 2021, 2022, 2023))
_INSURER: Final = pool("insurer", ("Aurora Health", "Beacon Care", "Civic Fund", "Delta Mutual"))
_BLOODS: Final = pool("blood", ("0+", "A+", "B+", "AB+", "0-", "A-"))
_SEX: Final[Pool] = [{"people": "women", "letter": "f"}, {"people": "men", "letter": "m"}]
_ANALYTE: Final = pool("analyte", [name for name, _, _ in _ANALYTES])
_SEX_HINT: Final = "sex is written as F, f or female for women and as M, m or male for men"
_BORN_HINT: Final = "birth_date is stored as DD/MM/YYYY"
_LAB_HINT: Final = (
    "value is a text; results below the limit of detection start with <, such as <1.5"
)
_OPEN_HINT: Final = "a patient who is still in hospital has no date of discharge (NULL)"
_S, _M, _C = Level.SIMPLE, Level.MODERATE, Level.CHALLENGING

_TEMPLATES: Final = (
    Template(
        _S,
        "How many patients are insured with {insurer} and have the blood type {blood}?",
        "SELECT COUNT(*) FROM patient WHERE insurer = '{insurer}' AND blood_type = '{blood}'",
        "insurer and blood type are columns of patient",
        (_INSURER, _BLOODS),
    ),
    Template(
        _S,
        "What are the names of the doctors with the specialty {ward} who earn more than"
        " {salary} a year?",
        "SELECT name FROM doctor WHERE specialty = '{ward}' AND salary > {salary}",
        "specialty and salary are columns of doctor",
        (_WARD, pool("salary", (90000, 110000, 125000))),
    ),
    Template(
        _S,
        "How many stays in the {ward} ward began in {year}?",
        "SELECT COUNT(*) FROM stay AS s JOIN ward AS w ON w.ward_id = s.ward_id"
        " WHERE w.ward_name = '{ward}' AND s.admitted LIKE '{year}-%'",
        "a stay begins with the admission, and its ward has the name",
        (_WARD, _YEAR),
    ),
    Template(
        _S,
        "How many emergency admissions were there in {year} with {disease} as the main diagnosis?",
        "SELECT COUNT(*) FROM stay AS s JOIN diagnosis AS d ON d.stay_id = s.stay_id"
        " JOIN disease AS x ON x.code = d.code WHERE s.emergency = 1 AND d.main = 1"
        " AND x.disease_name = '{disease}' AND s.admitted LIKE '{year}-%'",
        "the flags emergency and main are 1, and the disease has its name in another table",
        (pool("disease", [name for _, name, _ in _DISEASES[:8]]), _YEAR),
    ),
    Template(
        _S,
        "On which floor is the {ward} ward, and how many beds does it have?",
        "SELECT floor, beds FROM ward WHERE ward_name = '{ward}'",
        "both are columns of ward",
        (_WARD,),
    ),
    Template(
        _M,
        "How many {people} are insured with {insurer}?",
        "SELECT COUNT(*) FROM patient WHERE LOWER(SUBSTR(sex, 1, 1)) = '{letter}'"
        " AND insurer = '{insurer}'",
        "the first letter of the sex, in lower case, is the same in all its spellings",
        (_SEX, _INSURER),
        _SEX_HINT,
    ),
    Template(
        _M,
        "How many patients were born in {born}?",
        "SELECT COUNT(*) FROM patient WHERE SUBSTR(birth_date, 7, 4) = '{born}'",
        "the year stands at the end of the date",
        (pool("born", range(1932, 2018, 4)),),
        _BORN_HINT,
    ),
    Template(
        _M,
        "How many {people} born before {born} were treated in the {ward} ward? Count each"
        " patient once.",
        "SELECT COUNT(DISTINCT p.patient_id) FROM patient AS p JOIN stay AS s"
        " ON s.patient_id = p.patient_id JOIN ward AS w ON w.ward_id = s.ward_id"
        " WHERE w.ward_name = '{ward}' AND LOWER(SUBSTR(p.sex, 1, 1)) = '{letter}'"
        " AND CAST(SUBSTR(p.birth_date, 7, 4) AS INTEGER) < {born}",
        "patients come back, so I count them distinctly, by year of birth and cleaned sex",
        (_SEX, pool("born", (1950, 1970, 1990)), _WARD),
        f"{_SEX_HINT}; {_BORN_HINT}",
    ),
    Template(
        _M,
        "What is the average {analyte} value of the tests taken in {year}, leaving out missing"
        " results and those below the limit of detection, rounded to two decimals?",
        "SELECT ROUND(AVG(CAST(value AS REAL)), 2) FROM lab_test WHERE analyte = '{analyte}'"
        " AND taken LIKE '{year}-%' AND value NOT LIKE '<%'",
        "a NULL fails the comparison by itself, and what starts with < is left out",
        (_ANALYTE, _YEAR),
        _LAB_HINT,
    ),
    Template(
        _M,
        "How many {analyte} tests of {year} gave a result below the limit of detection?",
        "SELECT COUNT(*) FROM lab_test WHERE analyte = '{analyte}' AND taken LIKE '{year}-%'"
        " AND value LIKE '<%'",
        "such results start with <",
        (_ANALYTE, _YEAR),
        _LAB_HINT,
    ),
    Template(
        _M,
        "Which diseases were the main diagnosis of more than {count} stays in the {ward} ward?"
        " Give their names.",
        "SELECT x.disease_name FROM diagnosis AS d JOIN disease AS x ON x.code = d.code"
        " JOIN stay AS s ON s.stay_id = d.stay_id JOIN ward AS w ON w.ward_id = s.ward_id"
        " WHERE d.main = 1 AND w.ward_name = '{ward}'"
        " GROUP BY x.code HAVING COUNT(*) > {count}",
        "I count main diagnoses by disease and keep the counts above {count}",
        (pool("count", (50, 70)), _WARD),
    ),
    Template(
        _M,
        "What was the average length in days of the stays in the {ward} ward that began in {year}"
        " and have ended, rounded to one decimal?",
        "SELECT ROUND(AVG(JULIANDAY(s.discharged) - JULIANDAY(s.admitted)), 1) FROM stay AS s"
        " JOIN ward AS w ON w.ward_id = s.ward_id WHERE w.ward_name = '{ward}'"
        " AND s.admitted LIKE '{year}-%' AND s.discharged IS NOT NULL",
        "the difference of two Julian days is a number of days",
        (_WARD, _YEAR),
        _OPEN_HINT,
    ),
    Template(
        _M,
        "How many patients of the {ward} ward are still in hospital?",
        "SELECT COUNT(*) FROM stay AS s JOIN ward AS w ON w.ward_id = s.ward_id"
        " WHERE w.ward_name = '{ward}' AND s.discharged IS NULL",
        "their stays lack the date of discharge",
        (_WARD,),
        _OPEN_HINT,
    ),
    Template(
        _C,
        "Which doctor of the {ward} ward looked after the most stays that began in {year}? If"
        " several did, take the one whose name comes first in the alphabet.",
        "SELECT d.name FROM doctor AS d JOIN stay AS s ON s.doctor_id = d.doctor_id"
        " JOIN ward AS w ON w.ward_id = d.ward_id WHERE w.ward_name = '{ward}'"
        " AND s.admitted LIKE '{year}-%' GROUP BY d.doctor_id"
        " ORDER BY COUNT(*) DESC, d.name LIMIT 1",
        "I count stays by doctor, sort by the count and then by name, and take the first",
        (_WARD, _YEAR),
    ),
    Template(
        _C,
        "Which doctors with the specialty {ward} earn more than the average of their specialty?"
        " Give their names.",
        "SELECT name FROM doctor WHERE specialty = '{ward}' AND salary >"
        " (SELECT AVG(salary) FROM doctor WHERE specialty = '{ward}')",
        "a subquery gives the average of the same specialty",
        (_WARD,),
    ),
    Template(
        _C,
        "How many patients with {disease} as a diagnosis were admitted again within {gap} days of"
        " being discharged from such a stay? Count each patient once.",
        "SELECT COUNT(DISTINCT a.patient_id) FROM stay AS a JOIN diagnosis AS d"
        " ON d.stay_id = a.stay_id JOIN disease AS x ON x.code = d.code JOIN stay AS b"
        " ON b.patient_id = a.patient_id AND b.stay_id <> a.stay_id"
        " WHERE x.disease_name = '{disease}'"
        " AND JULIANDAY(b.admitted) - JULIANDAY(a.discharged) BETWEEN 0 AND {gap}",
        "I join the stays of a patient with each other and look at the days in between",
        (_DISEASE, pool("gap", (30, 60, 90))),
    ),
    Template(
        _C,
        "What percentage of the stays with the diagnosis {disease} that began in {year} were"
        " emergencies, rounded to two decimals?",
        "SELECT ROUND(100.0 * SUM(s.emergency) / COUNT(*), 2) FROM stay AS s"
        " JOIN diagnosis AS d ON d.stay_id = s.stay_id JOIN disease AS x ON x.code = d.code"
        " WHERE x.disease_name = '{disease}' AND s.admitted LIKE '{year}-%'",
        "emergency is 1 or 0, so its sum over the number of stays is the share",
        (_DISEASE, _YEAR),
    ),
    Template(
        _C,
        "How many patients have been diagnosed with both {one} and {two}, in whichever stays?",
        "SELECT COUNT(*) FROM (SELECT s.patient_id FROM stay AS s JOIN diagnosis AS d"
        " ON d.stay_id = s.stay_id JOIN disease AS x ON x.code = d.code"
        " WHERE x.disease_name = '{one}' INTERSECT SELECT s.patient_id FROM stay AS s"
        " JOIN diagnosis AS d ON d.stay_id = s.stay_id JOIN disease AS x ON x.code = d.code"
        " WHERE x.disease_name = '{two}')",
        "the patients of one diagnosis are intersected with those of the other",
        (
            pool("one", ("Hypertension", "Type 2 diabetes", "Asthma", "Heart failure")),
            pool("two", ("Pneumonia", "Stroke", "Kidney disease", "Heart attack", "Sepsis")),
        ),
    ),
    Template(
        _C,
        "For every ward, which disease was its most frequent main diagnosis in {year}? Give ward"
        " and disease; where several are equally frequent, list all of them.",
        "SELECT ward_name, disease_name FROM (SELECT w.ward_name, x.disease_name, RANK() OVER"
        " (PARTITION BY w.ward_id ORDER BY COUNT(*) DESC) AS place FROM stay AS s"
        " JOIN ward AS w ON w.ward_id = s.ward_id JOIN diagnosis AS d ON d.stay_id = s.stay_id"
        " JOIN disease AS x ON x.code = d.code WHERE d.main = 1 AND s.admitted LIKE '{year}-%'"
        " GROUP BY w.ward_id, x.code) WHERE place = 1",
        "I rank the counts within each ward and keep the first rank with its ties",
        (_YEAR,),
    ),
    Template(
        _C,
        "In {year}, which quarter had the most admissions to the {ward} ward? Give the number of"
        " the quarter; on equal numbers, the earlier one.",
        "SELECT (CAST(STRFTIME('%m', s.admitted) AS INTEGER) + 2) / 3 AS quarter FROM stay AS s"
        " JOIN ward AS w ON w.ward_id = s.ward_id WHERE w.ward_name = '{ward}'"
        " AND STRFTIME('%Y', s.admitted) = '{year}'"
        " GROUP BY quarter ORDER BY COUNT(*) DESC, quarter LIMIT 1",
        "month plus two, divided by three without remainder, is the quarter",
        (_YEAR, _WARD),
    ),
)

HOSPITAL: Final = Domain(
    name="hospital",
    seed=102,
    ddl=_DDL,
    rows=_rows,
    templates=_TEMPLATES,
    indexes=(
        *("stay(patient_id)", "stay(ward_id)", "stay(doctor_id)", "diagnosis(code)"),
        "lab_test(stay_id)",
    ),
)
