"""Which cases `make test` leaves out: long_tests.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from long_tests import cases_left_out, dear_file, dear_test, share_of, some_cases


class Item:
    """As much of a pytest.Item as is asked for."""

    def __init__(self, number: int, device: str, mark: pytest.MarkDecorator | None, file: str = "t.py") -> None:
        self.nodeid = f"{file}::test[{device}-{number}]"
        self.callspec = SimpleNamespace(params={"device": device})
        self.mark = mark

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark.mark if self.mark and name == self.mark.name else None


def items(count: int, mark: pytest.MarkDecorator | None = None) -> list[Any]:
    return [Item(number, device, mark) for device in "ab" for number in range(count)]


def kept(of: list[Any], seed: str, device: str) -> list[str]:
    left_out = cases_left_out(of, seed)
    return [one.nodeid for one in of if one not in left_out and one.callspec.params["device"] == device]


def test_each_device_keeps_as_many_as_are_wanted() -> None:
    several = items(20, some_cases(6))
    assert [len(kept(several, "1", device)) for device in "ab"] == [6, 6]
    assert len(cases_left_out(items(5, some_cases(6)), "1")) == 0
    assert len(cases_left_out(items(20), "1")) == 0


def test_the_seed_alone_decides() -> None:
    several = items(20, some_cases(6))
    assert kept(several, "1", "a") == kept(several[::-1], "1", "a")[::-1]
    assert len({tuple(kept(several, str(seed), "a")) for seed in range(5)}) > 1


def test_in_time_every_case_runs() -> None:
    several = items(20, some_cases(6))
    assert {name for seed in range(100) for name in kept(several, str(seed), "a")} == {
        one.nodeid for one in several if one.callspec.params["device"] == "a"
    }


def test_an_eighth_of_the_dear_tests_runs() -> None:
    several = items(6, dear_test)
    assert len(several) - len(cases_left_out(several, "1")) == 2
    assert cases_left_out(several, "1") != cases_left_out(several, "2")
    assert cases_left_out(items(1, dear_test)[:1], "1") == set()


def test_an_eighth_of_the_dear_files_runs_and_of_those_every_test() -> None:
    def files(seed: str, several: list[Any]) -> list[str]:
        left_out = cases_left_out(several, seed)
        return [one.nodeid.partition("::")[0] for one in several if one not in left_out]

    several: list[Any] = [Item(number, "a", dear_file, f"{name}.py") for name in "stuvwxyz" for number in range(3)]
    for seed in ("1", "2"):
        drawn = files(seed, several)
        assert len(set(drawn)) == 1
        assert len(drawn) == 3
    assert len({name for seed in range(40) for name in files(str(seed), several)}) == 8
    assert len(files("1", several[:3])) == 3  # a file that is run alone


def test_shares_are_all_there_is_and_each_stands_in_one() -> None:
    several = list(range(10))
    assert sorted(item for k in (1, 2, 3) for item in share_of(several, f"{k}/3")) == several
    assert share_of(several, "1/1") == several
    with pytest.raises(ValueError, match="but got 4/3"):
        share_of(several, "4/3")
