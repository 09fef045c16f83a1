"""A data file of an operator's is read within bounds, or refused in one sentence."""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("openpyxl", reason="needs the extra sheet")

GIB = 1 << 30
CPU_SECONDS = 40
READ = """
import sys
from pathlib import Path
from env_servers.environments.sheet.reader import read_workbook
try:
    read_workbook(Path(sys.argv[1]))
except ValueError as error:
    print(error)
"""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (GIB, GIB))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def workbook(path: Path, cells: str = "", merge: str = "A1:B2") -> Path:
    """A workbook whose one sheet has these rows and this merge."""
    import openpyxl

    book = openpyxl.Workbook()
    assert book.active is not None
    book.active["A1"] = 1
    book.active.merge_cells("A1:B2")
    plain = path.with_suffix(".plain")
    book.save(plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for part in source.namelist():
            data = source.read(part)
            if part == "xl/worksheets/sheet1.xml":
                data = data.replace(b'ref="A1:B2"/>', f'ref="{merge}"/>'.encode())
                data = data.replace(b"</sheetData>", f"{cells}</sheetData>".encode())
            file.writestr(part, data)
    return path


def refusal(path: Path) -> str:
    """What reading a file says, in a process that may have a gigabyte and some seconds."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize("merge", ["A1:XFD1048576", "A:XFD", "1:1048576"])
def test_a_merge_of_everything_is_refused(tmp_path: Path, merge: str) -> None:
    said = refusal(workbook(tmp_path / "merged.xlsx", merge=merge))
    assert said.endswith("not a workbook that can be read: more than 20000 merged cells")


def test_millions_of_cells_are_refused(tmp_path: Path) -> None:
    rows = "<row>" + "<c><v>1</v></c>" * 1_500_000 + "</row>"
    said = refusal(workbook(tmp_path / "wide.xlsx", rows))
    assert said.endswith("not a workbook that can be read: more than 1000000 XML elements")


def test_a_damaged_part_is_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "damaged.xlsx")
    data = bytearray(path.read_bytes())
    start = data.index(b"xl/worksheets/sheet1.xml") + len(b"xl/worksheets/sheet1.xml")
    data[start : start + 40] = b"\xff" * 40
    path.write_bytes(data)
    assert "not a workbook that can be read" in refusal(path)


def test_a_plain_workbook_is_read(tmp_path: Path) -> None:
    assert refusal(workbook(tmp_path / "plain.xlsx")) == ""
