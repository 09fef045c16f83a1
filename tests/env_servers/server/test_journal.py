"""Journals: forks share what lies behind them, and every byte is given back once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from env_servers.server.budget import ENTRY_BYTES, Account, Budget
from env_servers.server.inputs import Action
from env_servers.server.journal import Journal


def filled(account, length, *, width=1):
    journal = Journal(account)
    for seq in range(1, length + 1):
        journal.append(Action(f"{seq}".zfill(width)), seq.to_bytes(8, "big"))
    return journal


def hashes(*seqs):
    return [b"", *(seq.to_bytes(8, "big") for seq in seqs)]


@settings(max_examples=60, deadline=None)
@given(
    length=st.integers(0, 1500),
    at=st.lists(st.integers(0, 1500), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_a_fork_remembers_what_led_to_it_and_all_bytes_come_back(length, at, order):
    budget = Budget(0)
    account = Account("c", budget)
    journals = [filled(account, length)]
    for seq in at:
        source = order.choice(journals)
        copy = source.fork(min(seq, len(source)), account)
        assert copy.inputs_to(len(copy)) == source.inputs_to(len(copy))
        assert copy.hashes_to(len(copy)) == source.hashes_to(len(copy))
        assert len(copy) == 0 or copy.input_of(len(copy)) == source.input_of(len(copy))
        copy.append(Action(f"own {seq}"), b"12345678")
        journals.append(copy)
    assert journals[0].inputs_to(length) == [Action(f"{seq}") for seq in range(1, length + 1)]
    assert journals[0].hashes_to(length) == hashes(*range(1, length + 1))
    assert all(
        journal.input_of(seq) == each
        for journal in journals
        for seq, each in enumerate(journal.inputs_to(len(journal)), start=1)
    )
    order.shuffle(journals)
    for journal in journals:
        assert budget.journals > 0 or not journal.size
        journal.release()
    assert (budget.journals, account.bytes) == (0, 0)


def test_a_fork_of_a_long_journal_costs_next_to_nothing():
    budget = Budget(0)
    owner, forker = Account("owner", budget), Account("forker", budget)
    journal = filled(owner, 100_000)
    before = budget.journals
    forks = [journal.fork(100_000, forker) for _ in range(50)]
    assert budget.journals - before < 50 * 256 * (ENTRY_BYTES + 64)
    assert owner.bytes == before, "what is shared counts once, for whoever wrote it"
    journal.release()
    assert budget.journals > before // 2, "forks still refer to it"
    for fork in forks:
        fork.release()
    assert budget.journals == 0


def test_a_fork_of_long_texts_shares_them_too():
    account = Account("c", Budget(0))
    journal = filled(account, 20, width=100_000)
    before = account.bytes
    journal.fork(19, account)
    assert account.bytes - before < 200_000
