"""The controller of bulk runs on simulated gateways, in short; the benchmark is the full form."""

import pytest

from benchmarks import simulated
from gateway_sdk.bulk._controller import Controller


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 10))]
)
@pytest.mark.parametrize("name", simulated.TABLE)
def test_nearly_all_of_a_gateway_is_used(name: str, seed: int) -> None:
    """Each run of a minute reaches the required share, from the first second on."""
    assert simulated.missed(name, [simulated.simulate(name, seed)]) == []


def test_the_table_says_what_was_missed() -> None:
    """It has the name of the gateway and the required share."""
    poor = [simulated.Outcome(share=0.5, refused=0.5)] * 3

    share, refused = simulated.missed("limit 50", poor)

    assert share == "limit 50: 0.50 of the capacity, 0.95 wanted"
    assert refused == "limit 50: 50.0% refused, 1% at most"
    assert simulated.row("limit 50", poor).startswith("| limit 50 | 0.500 | 0.500 | 0.95 |")


class Slower(simulated.Simulation):
    """A gateway whose latency changes after twenty seconds."""

    shared = False

    def _latency(self) -> float:
        """Grow for every call alike, or with the square of their number beyond ten."""
        if self._now < 20:
            return super()._latency()
        return super()._latency() * (max(1.0, self._serving / 10) ** 2 if self.shared else 3.0)


class Crowded(Slower):
    """Ten calls at once become the best number."""

    shared = True


@pytest.mark.parametrize(("kind", "least", "most"), [(Slower, 45, 55), (Crowded, 5, 20)])
def test_a_latency_that_grows_later_is_examined(kind: type[Slower], least: int, most: int) -> None:
    """Fewer calls are tried; that stays if it helps, and ends if the gateway is only slower."""
    controller = Controller(maximum=100, start=4)

    kind(simulated.TABLE["limit 50"], controller, seed=1).run()

    assert least <= controller.size <= most
