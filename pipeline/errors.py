"""Errors of a job, each with one sentence for the person who started it."""


class PipelineError(Exception):
    """The job cannot go on; the text is one sentence that says what to do."""


class PriceError(PipelineError):
    """The price list does not answer the question asked of it."""


class InputError(PipelineError):
    """The usage data cannot be read, or too little of it can be trusted."""
