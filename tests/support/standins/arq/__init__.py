"""What a worker of arq imports: arq itself wants another Redis client than the other examples."""


class Retry(Exception):  # noqa: N818 - its name there
    """Ask for the same job again."""

    def __init__(self, defer: float = 0) -> None:
        super().__init__(defer)
