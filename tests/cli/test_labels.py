import pytest

from gateway_sdk.cli.demo.labels import spread


@pytest.mark.parametrize(
    ("heights", "spread_out"),
    [
        ([], []),
        ([5], [5]),
        ([0, 10, 20], [0, 10, 20]),
        ([5, 5], [4.5, 5.5]),
        ([5, 5, 5], [4, 5, 6]),
        ([0, 5, 5], [0, 4.5, 5.5]),
        ([0, 0, 0.75, 9], [-0.75, 0.25, 1.25, 9]),
    ],
)
def test_labels_keep_their_distance(heights: list[float], spread_out: list[float]) -> None:
    """Labels with room stay where they are, a crowd spreads around its middle."""
    assert spread(heights, 1) == spread_out
