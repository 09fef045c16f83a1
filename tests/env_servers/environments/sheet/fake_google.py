"""A small Google on loopback: tokens, files and the part of Sheets that the live backend uses.

Sheets are those of the workbook engine, told in Google's words.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from env_servers.environments.sheet.cells import Address, CellError, Formula, Value, parse_address
from env_servers.environments.sheet.workbook import Area, Sheet


class FakeFile:
    """One spreadsheet."""

    def __init__(self) -> None:
        self.titles: dict[int, str] = {0: "Sheet1"}
        self.sheets: dict[int, Sheet] = {0: Sheet()}

    def by_title(self, title: str) -> Sheet:
        return next(self.sheets[n] for n, known in self.titles.items() if known == title)

    def metadata(self) -> dict[str, Any]:
        return {
            "properties": {"title": "AgentGym episode"},
            "sheets": [
                {
                    "properties": {
                        "sheetId": number,
                        "title": title,
                        "index": index,
                        "gridProperties": {"rowCount": 1000, "columnCount": 100},
                    },
                    "merges": [grid_range(area) for area in self.sheets[number].merges],
                }
                for index, (number, title) in enumerate(self.titles.items())
            ],
        }

    def apply(self, kind: str, request: dict[str, Any]) -> None:
        if kind in ("addSheet", "updateSheetProperties"):
            properties = request["properties"]
            number = properties["sheetId"]
            self.sheets.setdefault(number, Sheet())
            self.titles[number] = properties.get("title", self.titles.get(number, ""))
            frozen = properties.get("gridProperties", {}).get("frozenRowCount")
            self.sheets[number].frozen_rows = frozen or self.sheets[number].frozen_rows
        elif kind == "deleteSheet":
            del self.titles[request["sheetId"]]
        elif kind == "updateCells":
            self.update_cells(request)
        elif kind in ("insertDimension", "deleteDimension"):
            self.change_dimension(kind, request)
        elif kind == "sortRange":
            sheet = self.sheets[request["range"]["sheetId"]]
            assert request["range"]["startRowIndex"] == sheet.frozen_rows
            spec = request["sortSpecs"][0]
            sheet.sort(spec["dimensionIndex"], descending=spec["sortOrder"] == "DESCENDING")
        elif kind == "mergeCells":
            where = request["range"]
            self.sheets[where["sheetId"]].merge(
                Area(
                    where["startRowIndex"],
                    where["startColumnIndex"],
                    where["endRowIndex"] - 1,
                    where["endColumnIndex"] - 1,
                )
            )
        else:
            raise AssertionError(f"unknown request {kind}")

    def update_cells(self, request: dict[str, Any]) -> None:
        start, fields = request["start"], request["fields"]
        sheet = self.sheets[start["sheetId"]]
        for down, row in enumerate(request["rows"]):
            for right, cell in enumerate(row["values"]):
                at = Address(start["rowIndex"] + down, start["columnIndex"] + right)
                if "userEnteredValue" in fields:
                    sheet.write({at: parse_value(cell.get("userEnteredValue", {}))})
                if "note" in fields:
                    sheet.write_note(at, cell["note"])
                if "userEnteredFormat" in cell:
                    look = cell["userEnteredFormat"]["numberFormat"]["pattern"]
                    cells = list(sheet.rows[at.row])
                    cells[at.column] = cells[at.column]._replace(format=look)
                    sheet.rows[at.row] = tuple(cells)

    def change_dimension(self, kind: str, request: dict[str, Any]) -> None:
        where = request["range"]
        sheet = self.sheets[where["sheetId"]]
        rows = where["dimension"] == "ROWS"
        start, count = where["startIndex"], where["endIndex"] - where["startIndex"]
        if kind == "deleteDimension":
            (sheet.delete_rows if rows else sheet.delete_columns)(range(start, start + count))
            return
        size = len(sheet.rows) if rows else sheet.width
        assert request["inheritFromBefore"] == (0 < start == size)
        (sheet.insert_rows if rows else sheet.insert_columns)(start, [[None]] * count)


def parse_value(entered: Mapping[str, Any]) -> Value:
    if "formulaValue" in entered:
        match = re.fullmatch(r"=([A-Z]+)\((.*)\)", entered["formulaValue"])
        assert match is not None
        return Formula(match[1], tuple(map(parse_address, match[2].split(","))))
    if "numberValue" in entered:
        return float(entered["numberValue"])
    return entered.get("stringValue", entered.get("boolValue"))


def grid_range(area: Area) -> dict[str, int]:
    return {
        "startRowIndex": area.top,
        "endRowIndex": area.bottom + 1,
        "startColumnIndex": area.left,
        "endColumnIndex": area.right + 1,
    }


class FakeGoogle:
    """The account and what was asked of it."""

    def __init__(self) -> None:
        self.files: dict[str, FakeFile] = {"precious": FakeFile()}
        self.failing: list[int] = []
        """Statuses of the next answers of Sheets."""
        self.failing_later: list[int] = []
        """Statuses of the answers after the present one; 200 is a right answer."""
        self.tokens = 0
        self.keys: set[str | None] = set()
        self.count = 0

    def answer(self, method: str, target: str, body: dict[str, Any]) -> Any:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        path = unquote(parts.path)
        if path.startswith("/drive/v3/files"):
            return self.answer_drive(method, path)
        known, _, rest = path.removeprefix("/v4/spreadsheets/").partition("/")
        if known.endswith(":batchUpdate"):
            return self.batch_update(self.files[known.partition(":")[0]], body["requests"])
        file = self.files[known]
        if rest:
            return self.values(file, rest.removeprefix("values/"), query)
        if "ranges" in query:
            title, _, label = query["ranges"].rpartition("!")
            note = file.by_title(title.strip("'")).cell(parse_address(label)).note
            return {"sheets": [{"data": [{"rowData": [{"values": [{"note": note}]}]}]}]}
        return file.metadata()

    def answer_drive(self, method: str, path: str) -> Any:
        if method == "DELETE":
            del self.files[path.rpartition("/")[2]]
            return None
        self.count += 1
        self.files[f"file-{self.count}"] = FakeFile()
        return {"id": f"file-{self.count}"}

    def batch_update(self, file: FakeFile, asked: list[dict[str, Any]]) -> Any:
        before = {number: sheet.copy() for number, sheet in file.sheets.items()}
        try:
            for request in asked:
                for kind, content in request.items():
                    file.apply(kind, content)
        except CellError:
            file.sheets = before
            raise
        return {"replies": []}

    def values(self, file: FakeFile, title: str, query: dict[str, str]) -> Any:
        sheet = file.by_title(title.strip("'")).copy()
        sheet.merges, sheet._shown = (), None
        if query.get("valueRenderOption") != "UNFORMATTED_VALUE":
            return {"values": sheet.values()}
        plain = Sheet(
            [tuple(cell._replace(format="General") for cell in row) for row in sheet.rows]
        )
        return {
            "values": [
                [
                    float(shown) if isinstance(plain.cell(Address(r, c)).value, float) else shown
                    for c, shown in enumerate(line)
                ]
                for r, line in enumerate(plain.values())
            ]
        }


@contextmanager
def serving(fake: FakeGoogle) -> Iterator[str]:
    """The base URL of the fake while it is served."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/token":
                fake.tokens += 1
                self.reply(200, {"access_token": "t", "expires_in": 3600, "token_type": "Bearer"})
                return
            fake.keys.add(self.headers.get("Authorization"))
            later, fake.failing_later = fake.failing_later, []
            if later and later[0] == 200:
                fake.failing_later = later[1:]
            elif later:
                fake.failing = later[:1]
            if fake.failing:
                status = fake.failing.pop(0)
                self.reply(status, {"error": {"code": status, "message": "no", "status": "NO"}})
                return
            try:
                found = fake.answer(self.command, self.path, json.loads(text or "{}"))
            except CellError as error:
                self.reply(400, {"error": {"code": 400, "message": str(error), "status": "BAD"}})
                return
            self.reply(204 if found is None else 200, found)

        do_POST = do_DELETE = do_PUT = do_GET  # noqa: N815

        def reply(self, status: int, content: Any) -> None:
            text = b"" if content is None else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
