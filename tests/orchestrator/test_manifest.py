import dataclasses
import json

import pytest

from orchestrator import errors
from orchestrator.manifest import (
    EnvironmentIdentity,
    begin_session,
    check_resumable,
    code_changes,
    differences,
    read_manifest,
    write_manifest,
)
from tests.orchestrator.records import build_manifest, build_session


def test_a_manifest_is_read_back_as_it_was_written(tmp_path):
    manifest = build_manifest(step=3).with_session(build_session())
    write_manifest(tmp_path, manifest)
    loaded = read_manifest(tmp_path)
    assert differences(manifest, loaded) == []
    assert dataclasses.asdict(loaded) == dataclasses.asdict(manifest)
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"policy": "other"}, "policy"),
        ({"run_seed": 8}, "run_seed"),
        ({"step": 1}, "step"),
        ({"sampling": {"temperature": 0.0, "stop": ["</s>"]}}, "sampling.temperature"),
        ({"config": {"samples": 2}}, "config.environments.maze.max_rounds"),
    ],
)
def test_what_decides_the_episodes_binds_a_resume(change, field):
    with pytest.raises(errors.RunMismatch, match=field) as caught:
        check_resumable(build_manifest(), build_manifest(**change))
    assert [it.field for it in caught.value.differences] == [field]


def test_a_changed_environment_is_named():
    new = (
        EnvironmentIdentity(name="wordle", version="1.0", digest="other"),
        EnvironmentIdentity(name="maze", version="1.0", digest="d-maze"),
    )
    found = differences(build_manifest(), build_manifest(environments=new))
    assert [tuple(it) for it in found] == [("environments.wordle.digest", '"d-wordle"', '"other"')]


def test_a_new_field_is_told_from_a_changed_one():
    config = {"samples": 2, "environments": {"maze": {"max_rounds": 15}}, "split": "eval"}
    found = differences(build_manifest(), build_manifest(config=config))
    assert [tuple(it) for it in found] == [("config.split", "-", '"eval"')]


def test_how_a_run_was_started_may_differ():
    old = build_manifest().with_session(build_session())
    new = build_manifest(run_id="x", created="y").with_session(build_session(git_commit="f"))
    check_resumable(old, new)


def test_this_process_is_described():
    session = begin_session({"concurrency": 4}, command=["sample", "--seed", "1"])
    assert session.command == ("sample", "--seed", "1")
    assert session.settings == {"concurrency": 4}
    assert set(session.machine) == {"host", "platform", "python", "processors"}


def test_secrets_are_never_written(tmp_path):
    config = {"policy": {"api_key": "s3cret", "url": "http://x", "max_tokens": 5}}
    manifest = build_manifest(config=config).with_session(
        begin_session(
            {"token": "s3cret", "addresses": ["a", {"password": "s3cret"}]},
            command=["sample", "--api-key", "s3cret", "--policy.token=s3cret", "--max-tokens", "5"],
        )
    )
    write_manifest(tmp_path, manifest)
    text = (tmp_path / "manifest.json").read_text()
    assert "s3cret" not in text
    assert json.loads(text)["config"]["policy"]["max_tokens"] == 5
    assert json.loads(text)["sessions"][0]["command"][-1] == "5"
    # The key that was hidden must not make a resume impossible.
    check_resumable(read_manifest(tmp_path), manifest)


@pytest.mark.parametrize("field", ["code_version", "git_commit", "lock_hash", "code_hash"])
def test_other_code_is_told_and_the_same_is_not(field):
    known = {"git_commit": "a" * 40, "lock_hash": "b" * 64, "code_hash": "c" * 64}
    before = build_session(**known)
    assert code_changes(before, build_session(**known)) == []
    (told,) = code_changes(before, build_session(**(known | {field: "d" * 40})))
    assert "ddddddddddd" in told and "\n" not in told


def test_a_session_that_did_not_record_its_code_is_no_change():
    assert code_changes(build_session(), build_session(code_hash="c" * 64)) == []


def test_other_code_of_a_policy_is_told_and_another_policy_is_not():
    old = {"module": "parrots", "distribution": "birds 1.0", "source": "a" * 64}
    before = build_session(policy_code={"polly": old})
    assert code_changes(before, build_session(policy_code={"polly": old, "molly": {}})) == []
    (told,) = code_changes(before, build_session(policy_code={"polly": old | {"source": "b"}}))
    assert "polly" in told and "birds 1.0, source aaaaaaaaaaaa" in told and "source b;" in told


def test_a_setting_that_is_newer_than_the_run_and_off_is_no_difference_but_an_option_is():
    old = build_manifest(config={"options": {"size": 3}})
    new = build_manifest(config={"options": {"size": 3}, "limits": {"tokens": None}})
    assert differences(old, new) == []
    new = build_manifest(config={"options": {"size": 3, "walls": False}})
    assert [it.field for it in differences(old, new)] == ["config.options.walls"]
