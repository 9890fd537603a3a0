"""Errors of a job, each with one sentence for the person who started it."""

from collections.abc import Mapping


class PipelineError(Exception):
    """The job cannot go on; the text is one sentence that says what to do."""


class PriceError(PipelineError):
    """The price list does not contain the requested prices."""


class InputError(PipelineError):
    """The usage data cannot be read, or too little of it is reliable."""


class FilesChangedError(InputError):
    """A file was removed or replaced between two looks at its folder, by the compaction for example."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while it was read: run it again.")


class UnreadableFilesError(InputError):
    """The content of some `files` cannot be read: by name what is wrong with each."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{name} {reason}" for name, reason in files.items()) + ".")
        self.files = files
