"""Where labels go beside a chart so that none covers another. Pure."""

from collections.abc import Sequence
from statistics import fmean


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights apart until neighbours are *gap* apart; those with room enough stay.

    Args:
        heights: Ascending.

    Returns:
        The new heights in the same order; each crowd of them is centred where it was.
    """
    # Less its place in the queue, a height may not be below the one before it: where it is, the
    # two share their mean (the pooling of adjacent violators of isotonic regression).
    crowds: list[list[float]] = []
    for place, height in enumerate(heights):
        crowds.append([height - place * gap])
        while len(crowds) > 1 and fmean(crowds[-1]) < fmean(crowds[-2]):
            crowds[-2:] = [crowds[-2] + crowds[-1]]
    means = [fmean(crowd) for crowd in crowds for _ in crowd]
    return [mean + place * gap for place, mean in enumerate(means)]
