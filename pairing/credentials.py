"""Whether a credential is one, checked when a client is made: the SDK notices when it asks for a token."""

from inspect import iscoroutinefunction
from typing import Any

from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential


def check_credential(role: str, credential: Any, *, in_asyncio: bool) -> None:
    """Raise a TypeError that says what to give instead."""
    if isinstance(credential, AzureNamedKeyCredential | AzureSasCredential):
        return
    give = getattr(credential, "get_token", None) or getattr(credential, "get_token_info", None)
    if not callable(give):
        raise TypeError(
            f"the credential of the {role} is a {type(credential).__name__}: give one of azure-identity, "
            "AzureNamedKeyCredential or AzureSasCredential, or use from_connection_string"
        )
    if iscoroutinefunction(give) and not in_asyncio:
        raise TypeError(f"the credential of the {role} is for asyncio: import it from azure.identity, without .aio")
    if in_asyncio and not iscoroutinefunction(give) and type(credential).__module__.startswith("azure.identity."):
        raise TypeError(f"the credential of the {role} is not for asyncio: import it from azure.identity.aio")
