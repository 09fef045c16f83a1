from benchmark.environments.costs import measure


def test_every_step_reset_and_advice_of_an_environment_is_measured():
    costs = measure("maze", items=2, held=3)
    assert costs.items == 2
    assert costs.steps > 2
    assert costs.episodes_held == 3
    times = (costs.step_p50, costs.advice_p50, costs.first_reset_p50, costs.reset_p50)
    assert all(time > 0 for time in times)
    assert costs.step_p90 >= costs.step_p50
