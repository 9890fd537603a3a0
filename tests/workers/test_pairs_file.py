"""Workers take a changed pairs file in, and are not hurt by one that is broken (docs/production.md)."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
import structlog

from dashboard.fleet.pairs.current_pairs import LOOK_S, PairsFile
from dashboard.fleet.pairs.pairs_file import PairsFileError, load_pairs
from dashboard.fleet.pairs.sync import sync
from dashboard.models import Pair
from pairing.fleet.coordination import SharedState
from tests.pace import eventually
from tests.workers.conftest import PAIRS, VARIABLES, end_worker
from workers import connections, syphons

OTHER = PAIRS.replace("[pairs.contoso]", "[pairs.fabrikam]").replace('"contoso', '"fabrikam')


class Folder:
    """A pairs file, whoever reads it, and the time that passes between their looks."""

    def __init__(self, folder: Path) -> None:
        self.file, self.now, self.taken = folder / "pairs.toml", 0.0, list[set[str]]()
        self.refused: set[str] = set()
        self.write(PAIRS)
        self.pairs = PairsFile(
            lambda: self.file,
            lambda: load_pairs(self.file, VARIABLES),
            self.check,
            lambda pairs: self.taken.append(set(pairs)),
            lambda: self.now,
        )

    def write(self, text: str) -> None:
        fresh = self.file.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.file)

    def check(self, pairs: object) -> None:
        if self.refused & set(pairs):
            raise PairsFileError("refused")

    def looks(self, times: int = 2) -> set[str]:
        for _ in range(times):
            self.now += LOOK_S
            found = set(self.pairs.pairs())
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_a_changed_file_is_taken_in_once_it_has_stood_still_for_a_look(folder):
    assert folder.looks() == {"contoso"}
    folder.write(PAIRS + OTHER)
    assert folder.looks(1) == {"contoso"}, "somebody may be writing it"
    assert folder.looks(1) == {"contoso", "fabrikam"}
    folder.write(OTHER)
    assert folder.looks() == {"fabrikam"}
    assert folder.taken == [{"contoso", "fabrikam"}, {"fabrikam"}]
    assert folder.looks(5) == {"fabrikam"}
    assert len(folder.taken) == 2


@pytest.mark.parametrize("text", ["[pairs", "", PAIRS + "backlog_queue_count = 0"])
def test_a_file_that_cannot_be_used_changes_nothing_and_is_reported_once(folder, text):
    before = folder.pairs.pairs()
    folder.write(text)
    with structlog.testing.capture_logs() as logs:
        assert folder.looks(5) == {"contoso"}
    assert folder.pairs.pairs() is before
    [reported] = logs
    assert (reported["log_level"], reported["problem"]) == ("error", folder.pairs.problem)
    assert "pairs.toml" in folder.pairs.problem
    folder.write(PAIRS + OTHER)
    assert folder.looks() == {"contoso", "fabrikam"}
    assert folder.pairs.problem == ""


def test_a_file_that_has_gone_changes_nothing_until_it_is_back(folder):
    folder.looks()
    folder.file.unlink()
    assert folder.looks(3) == {"contoso"}
    assert "no such file" in folder.pairs.problem
    folder.write(PAIRS)
    folder.looks()
    assert (folder.taken, folder.pairs.problem) == ([], ""), "it says what it said"


def test_a_pair_that_cannot_be_opened_is_refused_before_the_others_change(folder):
    folder.looks()
    folder.refused = {"fabrikam"}
    folder.write(OTHER)
    assert folder.looks() == {"contoso"}
    assert folder.pairs.problem == "refused"


def test_a_worker_that_never_had_a_file_of_use_says_so(folder):
    folder.write("[pairs")
    with pytest.raises(PairsFileError):
        folder.pairs.pairs()
    folder.write(PAIRS)
    assert set(folder.pairs.pairs()) == {"contoso"}


def test_a_problem_with_the_file_is_reported_with_the_heartbeat(folder, monkeypatch):
    monkeypatch.setattr(connections, "_file", folder.pairs)
    folder.looks()
    assert connections.problems() == {}
    folder.write("[pairs")
    folder.looks()
    assert connections.problems() == {"pairs file": folder.pairs.problem}


@pytest.fixture
def worker(
    strings: dict[str, str], fleet: redis.Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: object
) -> Iterator[Callable[[int], None]]:
    """A worker process on real namespaces, and a way to tell it of another number of backlog queues."""
    file = tmp_path / "pairs.toml"
    settings.PAIRS_FILE = file
    for name, text in strings.items():
        monkeypatch.setenv(name, text)

    def reported(count: int, name: str = "contoso") -> None:
        pairs = f"[pairs.{name}]\nbacklog_queue_count = {count}\n"
        ends = [(end, f'connection_string_env = "CONTOSO_{end.upper()}"') for end in ("primary", "secondary")]
        names = {"primary": "contoso", "secondary": "contoso-dr"}
        pairs += "".join(f'{end} = {{ {key}, namespace = "{names[end]}" }}\n' for end, key in ends)
        (tmp_path / "new").write_text(pairs)
        (tmp_path / "new").replace(file)

    reported(1)
    monkeypatch.setattr(
        connections, "_file", PairsFile(lambda: file, load_pairs, connections._check, connections._write_down)
    )
    list(sync(connections.pairs()))
    yield reported
    end_worker()


@pytest.mark.django_db(transaction=True)
def test_a_syphon_goes_on_with_what_the_changed_file_says(worker, fleet):
    leases = SharedState(fleet, "contoso").leases
    syphons.host("contoso")
    eventually(lambda: len(leases()) == 1)
    worker(2)
    eventually(lambda: len(leases()) == 2)
    assert Pair.objects.get().backlog_queue_count == 2
    assert connections.client("contoso").options.backlog_queue_count == 2


@pytest.mark.django_db(transaction=True)
def test_a_pair_that_left_the_file_is_let_go(worker, fleet):
    leases = SharedState(fleet, "contoso").leases
    syphons.host("contoso")
    eventually(lambda: len(leases()) == 1)
    served = connections.client("contoso")
    worker(1, name="tailspin")
    eventually(lambda: not leases() and served.state == "closed")
    eventually(lambda: not any(thread.name == "syphon-contoso" for thread in threading.enumerate()))
    with pytest.raises(connections.NotConnected, match="no longer in the pairs file"):
        connections.client("contoso")
    assert not Pair.objects.get(name="contoso").is_configured
