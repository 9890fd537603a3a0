"""Errors of a job, each with one sentence for the person who started it."""


class PipelineError(Exception):
    """The job cannot go on; the text is one sentence that says what to do."""


class PriceError(PipelineError):
    """The price list does not contain the requested prices."""


class InputError(PipelineError):
    """The usage data cannot be read, or too little of it is reliable."""
