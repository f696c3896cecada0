"""Threads that share work: every piece once, errors come back, with torch's threads and without."""

from __future__ import annotations

import threading

import pytest

from latentgraph.sampling import crew


@pytest.fixture(params=["torch's threads", "our own"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "our own":
        monkeypatch.setattr(crew, "_openmp", lambda: None)
    elif crew._openmp() is None:
        pytest.skip("torch does not use OpenMP here")
    return str(request.param)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_piece_is_done_once(kind: str, threads: int) -> None:
    done: list[tuple[int, int]] = []
    crew.share(lambda begin, end: done.append((begin, end)), [0, 3, 3, 7, 20], threads)
    assert sorted(done) == [(0, 3), (3, 3), (3, 7), (7, 20)]


def test_work_is_shared(kind: str) -> None:
    """Two pieces that wait for each other can only be done by two threads."""
    meeting = threading.Barrier(2, timeout=30)

    def work(begin: int, end: int) -> None:
        meeting.wait()

    crew.share(work, [0, 1, 2], 2)


def test_an_error_comes_back(kind: str) -> None:
    def work(begin: int, end: int) -> None:
        if begin == 2:
            raise ValueError("piece two")

    with pytest.raises(ValueError, match="piece two"):
        crew.share(work, [0, 1, 2, 3, 4], 2)
