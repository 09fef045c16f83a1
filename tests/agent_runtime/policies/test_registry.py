"""Naming and configuring policies."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
import tyro

from agent_runtime.engine.config import EmbeddedOptions
from agent_runtime.errors import PolicyMisconfigured
from agent_runtime.policies import POLICY_FORMS, PolicyConfig, Sampling, make_policy
from agent_runtime.policies.config import OpenAIOptions, SGLangOptions


@pytest.mark.parametrize("spec", ["", "oracle", "gpt-4", ":model", "Expert"])
def test_an_unknown_policy_is_answered_with_the_names_that_there_are(spec: str) -> None:
    with pytest.raises(PolicyMisconfigured) as caught:
        make_policy(spec, PolicyConfig())
    assert all(form in str(caught.value) for form in POLICY_FORMS)
    assert not caught.value.retriable


@pytest.mark.parametrize(
    "spec", ["openai", "openai:", "sglang", "embedded:", "expert:fast", "noop:"]
)
def test_a_policy_with_a_wrong_argument_is_answered_with_its_form(spec: str) -> None:
    with pytest.raises(PolicyMisconfigured, match="is to be written"):
        make_policy(spec, PolicyConfig())


def test_a_model_name_may_contain_colons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert make_policy("openai:ft:base:me", PolicyConfig()).name == "openai:ft:base:me"


@pytest.mark.parametrize("url", ["localhost:30000", "ftp://host", "http://", "http://[::1"])
def test_an_sglang_address_must_be_http(url: str) -> None:
    with pytest.raises(PolicyMisconfigured):
        make_policy(f"sglang:{url}", PolicyConfig())


def test_importing_the_registry_loads_no_client_and_no_tokenizer() -> None:
    heavy = "aiohttp", "jinja2", "tokenizers", "transformers", "torch", "huggingface_hub"
    code = (
        "import sys, agent_runtime.policies as p;"
        "p.make_policy('expert', p.PolicyConfig());"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_flags_are_generated_from_the_configuration() -> None:
    config = tyro.cli(
        PolicyConfig,
        args=[
            *("--temperature", "0", "--stop", "\nObservation", "</s>"),
            *("--requests-per-minute", "60", "--openai.base-url", "http://127.0.0.1:1/v1"),
            *("--sglang.context-length", "4096"),
        ],
    )
    assert config == PolicyConfig(
        sampling=Sampling(temperature=0, stop=("\nObservation", "</s>")),
        requests_per_minute=60,
        openai=OpenAIOptions(base_url="http://127.0.0.1:1/v1"),
        sglang=SGLangOptions(context_length=4096),
    )


def test_every_flag_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        tyro.cli(PolicyConfig, args=["--help"])
    shown = capsys.readouterr().out
    for kind in (PolicyConfig, Sampling, OpenAIOptions, SGLangOptions, EmbeddedOptions):
        for field in dataclasses.fields(kind):
            if field.name != "sampling":  # its fields stand without a prefix
                assert field.name.replace("_", "-") in shown
    for words in ("greedy", "Longest reply", "Price of a million", "hub name", "in flight"):
        assert words in shown


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Sampling, {"temperature": -1}),
        (Sampling, {"top_p": 0}),
        (Sampling, {"top_k": 0}),
        (Sampling, {"max_new_tokens": 0}),
        (PolicyConfig, {"max_requests": 0}),
        (PolicyConfig, {"request_timeout": 0}),
        (PolicyConfig, {"requests_per_minute": 0}),
        (PolicyConfig, {"tokens_per_minute": 0}),
    ],
)
def test_impossible_values_are_refused(kind: type, values: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        kind(**values)
