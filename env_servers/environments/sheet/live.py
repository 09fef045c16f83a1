"""Sheet on real Google Sheets, through gspread.

To keep an account safe, an episode creates a spreadsheet of its own, works on nothing else, and
deletes only that one. Every change is one batch of requests, so it is made whole or not at all.
Errors of the service become faults of infrastructure.

Needs the extra `sheet-live`; SHEET_CREDENTIALS names the key file of a service account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from env_servers.environments.sheet.cells import (
    MAX_COLUMNS,
    MAX_ROWS,
    Address,
    Cell,
    CellError,
    Formula,
    Value,
    calculate,
    render,
)
from env_servers.environments.sheet.prompt import TOOLS
from env_servers.environments.sheet.scoring import Grid
from env_servers.environments.sheet.sessions import get_assignment
from env_servers.environments.sheet.tools import SheetTools, Spreadsheet
from env_servers.environments.sheet.workbook import Area, Sheet, WorksheetNotFound
from env_servers.sdk import EnvironmentUnavailable, InvalidOption
from env_servers.sdk.extras import install_command
from env_servers.toolkit.tool_calls import (
    LIVE,
    Backend,
    ServiceUnavailable,
    TooledSession,
    ToolSet,
    ToolSettings,
    ToolTask,
)
from env_servers.toolkit.tool_calls.live import LiveService, Rate

try:
    import gspread
    import requests
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession
    from google.oauth2.service_account import Credentials
    from gspread.utils import ValueRenderOption
    from requests.adapters import HTTPAdapter
except ModuleNotFoundError as error:
    raise EnvironmentUnavailable(
        f"backend live of sheet needs gspread: {install_command('sheet-live')}"
    ) from error

__all__ = ["LiveSheet", "LiveSpreadsheet"]

KEY: Final = "SHEET_CREDENTIALS"
HOSTS: Final = ("https://sheets.googleapis.com", "https://www.googleapis.com")
"""Where gspread sends its requests."""
_SCOPES: Final = ("https://www.googleapis.com/auth/drive.file",)
"""Files that this key made, and no others."""
_CALLS_PER_MINUTE: Final = 50
_TIMEOUT: Final = 30.0
_WRONG: Final = 400
_ALONE: Final = 3
"""Workbooks with more sheets are not uploaded whole."""

T = TypeVar("T")
Request = dict[str, Any]


class LiveSheet(Backend):
    """Episodes on spreadsheets of one Google account."""

    name: ClassVar[str] = LIVE

    def __init__(self, client: gspread.Client, service: LiveService) -> None:
        self._client = client
        self._service = service

    @classmethod
    def of(cls, settings: ToolSettings) -> LiveSheet:
        """From settings; raises EnvironmentUnavailable naming a missing or wrong key."""
        path = Path(settings.secret(KEY))
        try:
            # gspread and google-auth declare few types.
            credentials: Any = Credentials.from_service_account_file(str(path), scopes=_SCOPES)
        except (OSError, ValueError) as error:
            raise EnvironmentUnavailable(
                f"{KEY} names {path}, which is no key file of a service account: {error}"
            ) from error
        session = AuthorizedSession(credentials)
        base = settings.text("base_url", "")
        if base:
            session.mount("https://", _Rebased(base))
        client = gspread.Client(auth=credentials, session=session)
        timeout = settings.number("timeout", _TIMEOUT)
        client.set_timeout(timeout)
        calls = settings.number("calls_per_minute", _CALLS_PER_MINUTE)
        return cls(client, LiveService("Google Sheets", rate=Rate(1, 60 / calls), timeout=timeout))

    def open(self, task: ToolTask) -> LiveSession:
        assignment = get_assignment(task)
        book = assignment.book
        names = list(book) if len(book) <= _ALONE else [assignment.sheet]
        spreadsheet = LiveSpreadsheet(self._client, self._service)
        try:
            spreadsheet.create({name: book[name] for name in names})
        except EnvironmentUnavailable:
            spreadsheet.discard()
            raise
        return LiveSession(spreadsheet)

    def close(self) -> None:
        self._service.close()


class LiveSession(SheetTools, TooledSession):
    """Tools on the spreadsheet of one episode."""

    toolset: ClassVar[ToolSet] = TOOLS

    def __init__(self, spreadsheet: LiveSpreadsheet) -> None:
        super().__init__(spreadsheet)
        self.spreadsheet = spreadsheet

    def grid(self, name: str) -> Grid:
        """Displayed values of a sheet as they were last seen."""
        return self.spreadsheet.grid(name)

    def fork(self) -> LiveSession:
        raise InvalidOption("an episode on a live spreadsheet cannot be forked")

    def cancel(self) -> None:
        self.spreadsheet.cancel()

    def close(self) -> None:
        self.spreadsheet.discard()


class LiveSpreadsheet(Spreadsheet):
    """A spreadsheet that one episode made."""

    def __init__(self, client: gspread.Client, service: LiveService) -> None:
        self._client = client
        self._service = service
        self._file: gspread.Spreadsheet | None = None
        self._ids: dict[str, int] = {}
        """Google's numbers of the sheets, by name."""
        self._frozen: dict[str, int] = {}
        self._seen: dict[str, list[list[str]]] = {}
        """Grids that are known to be up to date."""
        self._known: dict[str, list[list[str]]] = {}
        """Grids as they were last read."""
        self._opened: gspread.Worksheet | None = None

    # -- making and removing ------------------------------------------------------------------

    def create(self, book: Mapping[str, Sheet]) -> None:
        """Make the spreadsheet with these sheets; raises ServiceUnavailable."""
        self._file = self._ask(lambda: self._client.create("AgentGym episode"))
        requests: list[Request] = []
        for number, (name, sheet) in enumerate(book.items()):
            requests += _sheet_requests(name, number, sheet)
            self._ids[name] = number
            self._known[name] = sheet.values()
        self._send(requests)

    def discard(self) -> None:
        """Delete the spreadsheet; one that cannot be reached stays."""
        file, self._file = self._file, None
        if file is not None:
            try:
                self._ask(lambda: self._client.del_spreadsheet(file.id))
            except (ServiceUnavailable, CellError):
                return

    def cancel(self) -> None:
        """Let a call that waits for its turn return early."""
        self._service.cancel(self)

    def grid(self, name: str) -> Grid:
        """Displayed values of a sheet as they were last seen; empty where it was deleted."""
        return self._known[name] if name in self._ids else []

    # -- the interface of the tools --------------------------------------------------------------

    @property
    def opened(self) -> str | None:
        return None if self._opened is None else self._opened.title

    def open(self, name: str) -> None:
        if name not in self._ids:
            raise WorksheetNotFound(name[:100])
        file = self._existing()
        self._opened = self._ask(lambda: file.worksheet(name))

    def delete(self, name: str) -> None:
        if name not in self._ids:
            raise WorksheetNotFound(name[:100])
        self._send([{"deleteSheet": {"sheetId": self._ids[name]}}])
        del self._ids[name]
        if self.opened == name:
            self._opened = None

    def values(self) -> list[list[str]]:
        sheet = self._sheet()
        if sheet.title not in self._seen:
            grid = self._ask(lambda: sheet.get_all_values(combine_merged_cells=True))
            self._seen[sheet.title] = self._known[sheet.title] = _trimmed(grid)
        return self._seen[sheet.title]

    def write(self, changes: Mapping[Address, float | str]) -> None:
        number = self._number()
        self._change(
            [_write(number, address, [[Cell(value or None)]]) for address, value in changes.items()]
        )

    def write_formula(self, address: Address, operator: str, references: Sequence[Address]) -> None:
        formula = Formula(operator, tuple(references))
        self._change([_write(self._number(), address, [[Cell(formula)]])])

    def result(self, operator: str, references: Sequence[Address]) -> str:
        sheet, shown = self._sheet(), self.values()
        raw = self._ask(
            lambda: sheet.get_all_values(value_render_option=ValueRenderOption.unformatted)
        )
        numbers = {
            address: raw[address.row][address.column]
            for address in references
            if _is_number(raw, address)
        }
        value = calculate(operator, list(map(float, numbers.values())))
        if isinstance(value, str):
            return value
        same = next((address for address, number in numbers.items() if number == value), None)
        if operator in ("MAX", "MIN") and same is not None:
            return shown[same.row][same.column]
        return render(value, "General")

    def insert(self, dimension: str, index: int, values: Sequence[Sequence[float | str]]) -> None:
        grid = self.values()
        size = len(grid) if dimension == "row" else max(map(len, grid), default=0)
        if index > size:
            raise CellError(f"index {index + 1} exceeds the grid limits")
        inserted = {
            "range": self._span(dimension, index, index + len(values)),
            # At the end, the new ones look like the last of what is there.
            "inheritFromBefore": 0 < index == size,
        }
        lines = [[Cell(value) for value in line] for line in values]
        if dimension == "row":
            start = Address(index, 0)
        else:
            start = Address(0, index)
            height = max(map(len, lines))
            padded = [[*line, *[Cell()] * (height - len(line))] for line in lines]
            lines = [list(row) for row in zip(*padded, strict=True)]
        self._change([{"insertDimension": inserted}, _write(self._number(), start, lines)])

    def remove(self, dimension: str, indexes: Sequence[int]) -> None:
        limit = MAX_ROWS if dimension == "row" else MAX_COLUMNS
        if any(not 0 <= index < limit for index in indexes):
            raise CellError(f"there is no {dimension} {max(indexes) + 1}")
        self._change(
            [
                {"deleteDimension": {"range": self._span(dimension, index, index + 1)}}
                for index in sorted(indexes, reverse=True)
            ]
        )

    def sort(self, column: int, *, descending: bool) -> None:
        order = "DESCENDING" if descending else "ASCENDING"
        rows = {"sheetId": self._number(), "startRowIndex": self._frozen.get(self.opened or "", 0)}
        spec = {"dimensionIndex": column, "sortOrder": order}
        self._change([{"sortRange": {"range": rows, "sortSpecs": [spec]}}])

    def freeze(self, dimension: str, count: int) -> None:
        field = "frozenRowCount" if dimension == "rows" else "frozenColumnCount"
        properties = {"sheetId": self._number(), "gridProperties": {field: count}}
        request = {"properties": properties, "fields": f"gridProperties.{field}"}
        self._change([{"updateSheetProperties": request}])
        if dimension == "rows":
            self._frozen[self.opened or ""] = count

    def merge(self, area: Area) -> None:
        self._change([_merge(self._number(), area)])

    def note(self, address: Address) -> str:
        sheet = self._sheet()
        return str(self._ask(lambda: sheet.get_note(address.label)))

    def write_note(self, address: Address, content: str) -> None:
        rows = [{"values": [{"note": content}]}]
        start = {"sheetId": self._number(), "rowIndex": address.row, "columnIndex": address.column}
        self._change([{"updateCells": {"start": start, "rows": rows, "fields": "note"}}])

    # -- inside ---------------------------------------------------------------------------------

    def _existing(self) -> gspread.Spreadsheet:
        if self._file is None:
            raise self._service.unavailable("has no spreadsheet of this episode any more")
        return self._file

    def _sheet(self) -> gspread.Worksheet:
        if self._opened is None:
            raise CellError("no sheet is open")
        return self._opened

    def _number(self) -> int:
        return self._ids[self._sheet().title]

    def _span(self, dimension: str, start: int, end: int) -> Request:
        return {
            "sheetId": self._number(),
            "dimension": "ROWS" if dimension == "row" else "COLUMNS",
            "startIndex": start,
            "endIndex": end,
        }

    def _change(self, requests: list[Request]) -> None:
        """Change the open sheet; what was known of it is read anew."""
        self._send(requests)
        self._seen.pop(self._sheet().title, None)

    def _send(self, requests: list[Request]) -> None:
        file = self._existing()
        self._ask(lambda: file.batch_update({"requests": requests}))

    def _ask(self, call: Callable[[], T]) -> T:
        """Make a request; raises CellError for what is wrong with it, ServiceUnavailable."""
        try:
            return self._service.guarded(call, owner=self)
        except gspread.exceptions.APIError as error:
            status = error.response.status_code
            if status == _WRONG:
                raise CellError(str(error)[:200]) from error
            after = error.response.headers.get("Retry-After", "")
            wait = float(after) if after.isascii() and after.isdigit() else None
            problem = f"answers with {status}: {str(error)[:200]}"
            raise self._service.unavailable(problem, wait) from error
        except (requests.RequestException, GoogleAuthError) as error:
            raise self._service.unavailable(f"cannot be reached: {error}") from error
        except (gspread.exceptions.GSpreadException, ValueError, KeyError) as error:
            raise self._service.unavailable(f"answers what cannot be read: {error}") from error


def _sheet_requests(name: str, number: int, sheet: Sheet) -> list[Request]:
    """Return what makes a sheet of a new spreadsheet, which has one sheet already."""
    size = {"rowCount": MAX_ROWS, "columnCount": MAX_COLUMNS}
    properties = {"sheetId": number, "title": name, "gridProperties": size}
    requests: list[Request] = [
        {"addSheet": {"properties": properties}}
        if number
        else {"updateSheetProperties": {"properties": properties, "fields": "title,gridProperties"}}
    ]
    requests.append(_write(number, Address(0, 0), sheet.rows, with_looks=True))
    return requests + [_merge(number, area) for area in sheet.merges]


def _write(
    number: int, address: Address, rows: Sequence[Sequence[Cell]], *, with_looks: bool = False
) -> Request:
    """Values of cells; with their formats and notes, where they are new."""
    start = {"sheetId": number, "rowIndex": address.row, "columnIndex": address.column}
    fields = "userEnteredValue"
    if with_looks:
        fields += ",userEnteredFormat.numberFormat,note"
    content = [{"values": [_cell(cell, with_looks=with_looks) for cell in row]} for row in rows]
    return {"updateCells": {"start": start, "rows": content, "fields": fields}}


def _cell(cell: Cell, *, with_looks: bool) -> Request:
    cell_data: Request = {}
    value = _entered(cell.value)
    if value is not None:
        cell_data["userEnteredValue"] = value
    if with_looks:
        cell_data["note"] = cell.note
        if cell.format not in ("General", "@"):
            pattern = {"type": "NUMBER", "pattern": cell.format}
            cell_data["userEnteredFormat"] = {"numberFormat": pattern}
    return cell_data


def _entered(value: Value) -> Request | None:
    if value is None or value == "":
        return None
    if isinstance(value, Formula):
        labels = ",".join(
            "#REF!" if address is None else address.label for address in value.references
        )
        return {"formulaValue": f"={value.operator}({labels})"}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, float):
        return {"numberValue": value}
    return {"stringValue": value}


def _merge(number: int, area: Area) -> Request:
    where = {
        "sheetId": number,
        "startRowIndex": area.top,
        "endRowIndex": area.bottom + 1,
        "startColumnIndex": area.left,
        "endColumnIndex": area.right + 1,
    }
    return {"mergeCells": {"range": where, "mergeType": "MERGE_ALL"}}


def _is_number(raw: Sequence[Sequence[Any]], address: Address) -> bool:
    if address.row >= len(raw) or address.column >= len(raw[address.row]):
        return False
    value = raw[address.row][address.column]
    return isinstance(value, int | float) and not isinstance(value, bool)


def _trimmed(grid: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Texts up to the last row and column in use."""
    rows = [[str(value) for value in row] for row in grid]
    while rows and not any(rows[-1]):
        rows.pop()
    used = max((k + 1 for row in rows for k, text in enumerate(row) if text), default=0)
    return [row[:used] for row in rows]


class _Rebased(HTTPAdapter):
    """Sends what is meant for Google to a base URL."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self._base = base_url.rstrip("/")

    def send(self, request: Any, *args: Any, **kwargs: Any) -> requests.Response:
        for host in HOSTS:
            if request.url.startswith(host):
                request.url = self._base + request.url.removeprefix(host)
        return super().send(request, *args, **kwargs)
