import io

from rich.console import Console

from env_servers.cli.list import print_environments


def test_the_table_of_environments_fits_80_columns_and_cuts_nothing():
    console = Console(width=80, file=io.StringIO(), record=True)
    print_environments(["maze", "textcraft", "babyai"], None, console)
    text = console.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "official_train 900" in text
