"""Fair shares between clients: the rule by itself, and admission under any order of requests."""

from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.server.admission import AdmissionController
from env_servers.server.budget import Account, Budget, fair_share
from env_servers.server.errors import CommandError

CAPACITY = 12


@given(capacity=st.integers(1, 1000), taken=st.integers(0, 1000))
def test_a_client_that_is_alone_may_take_everything(capacity, taken):
    assert fair_share(capacity, taken, 1) == capacity


@given(capacity=st.integers(1, 1000), clients=st.integers(2, 50), taken=st.integers(0, 1000))
def test_beside_others_nobody_gets_less_than_an_equal_part(capacity, clients, taken):
    share = fair_share(capacity, min(taken, capacity), clients)
    assert capacity // clients <= share <= capacity


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 20)),
        max_size=80,
    )
)
def test_whoever_holds_less_than_a_share_is_refused_only_by_a_full_server(events):
    admission = AdmissionController({"echo": CAPACITY})
    accounts = {name: admission.account(name) for name in "abc"}
    now = 0.0
    for name, asks, pause in events:
        now += pause
        admission.forget_absent(now)
        account = accounts[name]
        held = account.episodes["echo"]
        if not asks:
            if held:
                admission.release("echo", account)
            continue
        free = CAPACITY - admission.live["echo"]
        try:
            admission.check("echo", account, now)
        except CommandError:
            share = CAPACITY // admission.budget.clients
            assert free == 0 or held >= share
        else:
            assert free > 0
            admission.admit("echo", account)
            if admission.budget.clients > 1 and held >= CAPACITY // admission.budget.clients:
                assert free >= held + 1, "it took what is left for those who come later"
    assert admission.live["echo"] == sum(each.episodes["echo"] for each in accounts.values())


def test_clients_that_ask_for_ever_end_up_with_equal_parts():
    admission = AdmissionController({"echo": CAPACITY})
    greedy, modest = admission.account("greedy"), admission.account("modest")
    now = 0.0

    def ask(account):
        try:
            admission.check("echo", account, now)
        except CommandError:
            return False
        admission.admit("echo", account)
        return True

    while ask(greedy):
        pass
    assert greedy.episodes["echo"] == CAPACITY
    for _ in range(CAPACITY):
        now += 0.1
        ask(modest)
        admission.release("echo", greedy)
        ask(greedy)
        ask(modest)
    assert (greedy.episodes["echo"], modest.episodes["echo"]) == (CAPACITY // 2, CAPACITY // 2)


def test_a_client_that_left_counts_no_more():
    admission = AdmissionController({"echo": CAPACITY})
    stays, leaves = admission.account("stays"), admission.account("leaves")
    for account in (stays, leaves):
        admission.check("echo", account, 0.0)
        admission.admit("echo", account)
    assert admission.budget.clients == 2
    admission.release("echo", leaves)
    admission.forget_absent(1.0)
    assert admission.budget.clients == 2, "it may be about to ask again"
    admission.forget_absent(100.0)
    assert admission.budget.clients == 1


def test_bytes_are_shared_as_seats_are():
    budget = Budget(1000)
    admission = AdmissionController({"echo": CAPACITY}, budget=budget)
    greedy, modest = admission.account("greedy"), admission.account("modest")
    greedy.add_journal(600)
    admission.check("echo", greedy, 0.0, 100)
    admission.check("echo", modest, 0.0, 400)
    for account, size in ((greedy, 1), (modest, 501)):
        try:
            admission.check("echo", account, 0.0, size)
        except CommandError as refusal:
            assert refusal.metadata["share"] == "500"
        else:
            raise AssertionError("more than a share of the bytes was given")


def test_accounts_add_up_to_the_budget():
    budget = Budget(1000)
    first, second = Account("first", budget), Account("second", budget)
    first.add_journal(10)
    second.add_results(20)
    second.add_outbox(5)
    assert (first.bytes, second.bytes, second.outbox) == (10, 20, 5)
    assert (budget.journals, budget.results, budget.outboxes, budget.held) == (10, 20, 5, 35)
