"""What is measured of observers, in short: that the work is really done, never how fast it was."""

import pytest

from benchmarks import observers


def test_each_kind_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes calls with each, and prints what they took."""
    observers.main(["--turns", "2"])

    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.startswith("µs of CPU time per call")
    assert [line[:34].strip() for line in lines] == list(observers.kinds())
    assert all(float(line[34:].split()[0]) > 0 for line in lines)


def test_what_is_added_is_told_of_the_fastest_turn_and_of_the_median() -> None:
    """Both are differences to the first kind."""
    _, _, line = observers.lines({"none": [10.0, 11.0, 30.0], "one": [15.0, 21.0, 22.0]})

    assert line.split() == ["one", "15.0", "5.0", "21.0", "10.0"]
