"""The plain cause of a failure: what is wrong in a few words, before the sentence of the SDK. Pure."""

import re

CAUSES = (
    (r"quota|resource-limit-exceeded|QuotaExceeded", "quota reached"),
    (r"internal-error", "rejects sends: internal error"),
    (r"server-?busy|throttl", "rejects sends: server busy"),
    (r"EntityDisabled|entity-disabled|is disabled|SendDisabled", "the entity is disabled"),
    (r"EntityNotFound|amqp:not-found|resource-deleted|could not be found", "the entity does not exist"),
    (r"a right is missing", "refused: a right is missing"),
    (r"wrong key|unauthori[sz]ed|AuthenticationError|AuthorizationError", "refused: wrong key, or no such entity"),
    (r"getaddrinfo|Name or service not known|name resolution", "the primary's name cannot be resolved"),
    (r"Connection ?refused|Errno 111", "the primary refuses connections"),
    (r"\breset|connection:forced|detach-forced|Broken ?pipe|ConnectionError", "the primary resets connections"),
    (r"no answer|not answer|no connection|did not open|Timeout|timed out", "the primary does not answer"),
)
"""What is looked for in a reason, and what that means. The first match counts."""
_KNOWN = tuple((re.compile(pattern, re.IGNORECASE), words) for pattern, words in CAUSES)


def plain_cause(reason: str) -> str:
    """The cause in a few words; empty if the reason is not known, for example because a person wrote it."""
    return next((words for pattern, words in _KNOWN if pattern.search(reason)), "")
