from __future__ import annotations

import math

import pytest

pytest.importorskip("torch", reason="the extra `train` is not installed")

import torch

from training.errors import RecipeError
from training.trainer.policy_loss import ClipConfig, SampledTokens, load_objective, policy_loss

pytestmark = pytest.mark.torch


def tokens(logprobs: list[float], old: list[float], advantages: list[float], **more):
    now = torch.tensor(logprobs, requires_grad=True)
    values = {
        "logprobs": now,
        "old_logprobs": torch.tensor(old),
        "recorded_logprobs": torch.tensor(old),
        "advantages": torch.tensor(advantages),
        "weights": torch.ones(len(logprobs)),
        "sequences": torch.zeros(len(logprobs), dtype=torch.int64),
    }
    return now, SampledTokens(**{**values, **more})


def loss_of(
    logprob: float, old_logprob: float, advantage: float, **clip: float
) -> tuple[float, float]:
    """Loss of one token and its gradient by its logprob."""
    now, given = tokens([logprob], [old_logprob], [advantage])
    found = policy_loss(given, ClipConfig(**clip))
    found.total.backward()
    assert now.grad is not None
    return float(found.total.detach()), float(now.grad[0])


def test_where_nothing_has_moved_the_gradient_is_that_of_the_policy_gradient():
    for advantage in (2.0, -2.0):
        loss, slope = loss_of(-1.0, -1.0, advantage)
        assert loss == pytest.approx(-advantage)
        assert slope == pytest.approx(-advantage)


def test_the_ratio_is_to_the_old_probability():
    loss, slope = loss_of(math.log(0.55), math.log(0.5), 1.0)
    assert loss == pytest.approx(-1.1, rel=1e-5)
    assert slope == pytest.approx(-1.1, rel=1e-5)


@pytest.mark.parametrize(("ratio", "advantage"), [(1.5, 1.0), (0.5, -1.0)])
def test_beyond_the_clip_nothing_more_is_gained(ratio, advantage):
    _, slope = loss_of(math.log(ratio), 0.0, advantage)
    assert slope == 0.0


@pytest.mark.parametrize(("ratio", "advantage"), [(0.5, 1.0), (1.5, -1.0)])
def test_a_token_that_moved_the_wrong_way_is_not_clipped(ratio, advantage):
    _, slope = loss_of(math.log(ratio), 0.0, advantage)
    assert slope == pytest.approx(-ratio * advantage, rel=1e-5)


def test_the_upper_clip_may_be_wider_than_the_lower():
    assert loss_of(math.log(1.25), 0.0, 1.0, eps_low=0.2, eps_high=0.3)[1] != 0.0
    assert loss_of(math.log(1.25), 0.0, 1.0, eps_low=0.2, eps_high=0.2)[1] == 0.0


def test_a_bad_token_that_became_far_likelier_loses_no_more_than_the_second_bound():
    assert loss_of(math.log(10.0), 0.0, -1.0)[0] == pytest.approx(10.0, rel=1e-5)
    assert loss_of(math.log(10.0), 0.0, -1.0, dual=3.0) == (pytest.approx(3.0), 0.0)
    assert loss_of(math.log(2.0), 0.0, -1.0, dual=3.0)[1] != 0.0
    _, given = tokens([math.log(10.0), math.log(2.0)], [0.0, 0.0], [-1.0, -1.0])
    assert policy_loss(given, ClipConfig(dual=3.0)).clipped == 1


def test_a_sequence_is_clipped_as_one():
    """Its tokens' ratios are 3 and 1/3: their geometric mean is 1, and nothing is clipped."""
    third = torch.tensor([0, 0, 1])
    now, given = tokens(
        [math.log(3), -math.log(3), math.log(2)], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], sequences=third
    )
    found = policy_loss(given, ClipConfig(ratio="sequence"))
    assert found.clipped == 1, "the other sequence's ratio is 2"
    found.total.backward()
    assert now.grad is not None
    assert now.grad.tolist() == pytest.approx([-1.0, -1.0, 0.0], abs=1e-6)
    assert float(found.total.detach()) == pytest.approx(-1 - 1 - 1.2, rel=1e-5)


def test_what_engine_and_trainer_differ_by_weighs_tokens_up_to_the_cap():
    """The engine gave half and a tenth of the probability that the trainer gives."""
    recorded = torch.tensor([math.log(0.5), math.log(0.1)])
    now, given = tokens([0.0, 0.0], [0.0, 0.0], [1.0, 1.0], recorded_logprobs=recorded)
    found = policy_loss(given, ClipConfig(importance_cap=4.0))
    found.total.backward()
    assert now.grad is not None
    assert now.grad.tolist() == pytest.approx([-2.0, -4.0], rel=1e-5)
    assert (found.capped, found.clipped, found.ratio_dev) == (1, 0, 0)


@pytest.mark.parametrize("estimator", ["k2", "k3"])
def test_the_divergence_is_zero_at_the_start_and_never_negative(estimator):
    clip = ClipConfig(kl_coef=0.5, kl_estimator=estimator)
    now, first = torch.randn(50), torch.randn(50)
    for reference in (now, first):
        _, given = tokens(now.tolist(), now.tolist(), [0.0] * 50, ref_logprobs=reference)
        found = policy_loss(given, clip)
        assert (found.kl > 0) == (reference is first)
        assert float(found.total.detach()) == pytest.approx(0.5 * found.kl, rel=1e-5, abs=1e-6)


def test_the_first_estimate_of_the_divergence_is_taken_off_the_advantage():
    reference = torch.tensor([-3.0])
    now, given = tokens([-1.0], [-1.0], [1.0], ref_logprobs=reference)
    found = policy_loss(given, ClipConfig(kl_coef=0.25, kl_estimator="k1"))
    found.total.backward()
    assert now.grad is not None
    assert found.kl == pytest.approx(2.0)
    assert float(now.grad[0]) == pytest.approx(-(1 - 0.25 * 2))


def test_a_loss_of_ones_own_is_found_by_name():
    name = f"{policy_loss.__module__}:policy_loss"
    assert load_objective(name) is policy_loss
    assert load_objective("") is policy_loss


@pytest.mark.parametrize("name", ["nowhere:loss", "math:nothing", "math", "math:pi", ":loss"])
def test_a_loss_that_is_not_there_is_refused_by_the_field(name):
    with pytest.raises(RecipeError, match=r"^objective: ") as refused:
        load_objective(name)
    assert refused.value.field == "objective"


@pytest.mark.parametrize("changes", [{"dual": 0.5}, {"importance_cap": -1}, {"eps_low": 1.0}])
def test_what_cannot_be_is_refused(changes):
    with pytest.raises(ValueError, match=r"dual|importance_cap|eps_low"):
        ClipConfig(**changes)
