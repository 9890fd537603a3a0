"""Errors of a job, each with one sentence for the person who started it."""

from collections.abc import Sequence


class PipelineError(Exception):
    """The job cannot go on; the text is one sentence that says what to do."""


class PriceError(PipelineError):
    """The price list does not contain the requested prices."""


class InputError(PipelineError):
    """The usage data cannot be read, or too little of it is reliable."""


class FileGoneError(InputError):
    """A file was removed between two looks at its folder, by the compaction for example."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} was removed while it was read: run it again.")


class FilesLieError(InputError):
    """Some `files` have other rows than they declare; each with its path and what is wrong."""

    def __init__(self, sentence: str, files: Sequence[tuple[str, str]]) -> None:
        super().__init__(sentence)
        self.files = files
