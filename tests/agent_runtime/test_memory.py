"""How much memory a cache may take, by what the kernel's files say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.memory import available_memory

MIB = 2**20


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A machine with 1000 MiB left, and a process in the control group /pod/container."""
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:  {1000 * 1024} kB\n")
    (proc / "self" / "cgroup").write_text("1:cpu:/elsewhere\n0::/pod/container\n")
    return proc


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    root = tmp_path / "cgroup"
    (root / "pod" / "container").mkdir(parents=True)
    return root


def limit(group: Path, maximum: str, current: int, inactive_file: int = 0) -> None:
    (group / "memory.max").write_text(f"{maximum}\n")
    (group / "memory.current").write_text(f"{current}\n")
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {inactive_file}\n")


def test_without_limits_it_is_what_the_machine_has_left(proc: Path, cgroup: Path) -> None:
    limit(cgroup / "pod" / "container", "max", 10 * MIB)
    assert available_memory(proc=proc, cgroup_root=cgroup) == 1000 * MIB


@pytest.mark.parametrize("group", [".", "pod", "pod/container"])
def test_the_limit_of_each_group_above_the_process_counts(
    proc: Path, cgroup: Path, group: str
) -> None:
    limit(cgroup / group, str(300 * MIB), 100 * MIB)
    assert available_memory(proc=proc, cgroup_root=cgroup) == 200 * MIB


def test_the_tightest_limit_counts(proc: Path, cgroup: Path) -> None:
    limit(cgroup, str(800 * MIB), 100 * MIB)
    limit(cgroup / "pod", str(300 * MIB), 250 * MIB)
    limit(cgroup / "pod" / "container", str(300 * MIB), 20 * MIB)
    assert available_memory(proc=proc, cgroup_root=cgroup) == 50 * MIB


def test_cached_pages_of_files_are_free_memory(proc: Path, cgroup: Path) -> None:
    limit(cgroup, str(300 * MIB), 250 * MIB, inactive_file=200 * MIB)
    assert available_memory(proc=proc, cgroup_root=cgroup) == 250 * MIB


def test_a_group_above_its_limit_has_nothing_left(proc: Path, cgroup: Path) -> None:
    limit(cgroup, str(300 * MIB), 350 * MIB)
    assert available_memory(proc=proc, cgroup_root=cgroup) == 0


def test_a_process_without_control_groups_has_the_machine(tmp_path: Path, proc: Path) -> None:
    (proc / "self" / "cgroup").unlink()
    assert available_memory(proc=proc, cgroup_root=tmp_path / "none") == 1000 * MIB


def test_limits_of_version_1_count_too(proc: Path, cgroup: Path) -> None:
    (proc / "self" / "cgroup").write_text("9:cpu,memory:/pod\n0::/\n")
    group = cgroup / "memory" / "pod"
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text(f"{300 * MIB}\n")
    (group / "memory.usage_in_bytes").write_text(f"{100 * MIB}\n")
    assert available_memory(proc=proc, cgroup_root=cgroup) == 200 * MIB


def test_this_machine_has_some() -> None:
    assert available_memory() > 0
