"""The errors of the broker, each with the AMQP condition that is sent to the client."""

from __future__ import annotations


class BrokerError(Exception):
    """A refused request. Its text is sent to the client; SDKs map `condition` to an exception."""

    condition = "amqp:internal-error"
    status = 500

    @property
    def reason(self) -> str:
        """A short name, for dead-letter reasons."""
        return type(self).__name__

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (self.__doc__ or "").strip())


class EntityNotFound(BrokerError):
    """The messaging entity could not be found."""

    condition, status = "amqp:not-found", 404


class EntityExists(BrokerError):
    """The messaging entity already exists."""

    condition, status = "com.microsoft:entity-already-exists", 409


class EntityDisabled(BrokerError):
    """The messaging entity is currently disabled."""

    condition, status = "com.microsoft:entity-disabled", 403


class NotAllowed(BrokerError):
    """The operation is not allowed on this entity."""

    condition, status = "amqp:not-allowed", 400


class ArgumentError(BrokerError):
    """An argument of the request is missing or invalid."""

    condition, status = "com.microsoft:argument-error", 400


class QuotaExceeded(BrokerError):
    """The maximum size of the entity has been reached."""

    condition, status = "amqp:resource-limit-exceeded", 403


class MessageTooLarge(BrokerError):
    """The message is larger than the entity accepts."""

    condition, status = "amqp:link:message-size-exceeded", 400


class MessageLockLost(BrokerError):
    """The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."""

    condition, status = "com.microsoft:message-lock-lost", 410


class MessageNotFound(BrokerError):
    """There is no message with this sequence number."""

    condition, status = "com.microsoft:message-not-found", 404


class SessionLockLost(BrokerError):
    """The lock of the session expired or was never held by this receiver."""

    condition, status = "com.microsoft:session-lock-lost", 410


class SessionCannotBeLocked(BrokerError):
    """The session is locked by another receiver."""

    condition, status = "com.microsoft:session-cannot-be-locked", 410


class ServerBusy(BrokerError):
    """The namespace is throttled: too many operations a second. Wait 10 seconds and try again."""

    condition, status = "com.microsoft:server-busy", 503


class NotImplementedByTheService(BrokerError):
    """The operation is not implemented."""

    condition, status = "amqp:not-implemented", 501


class TransactionUnknown(BrokerError):
    """Transaction hasn't been declared yet, or has already been discharged."""

    condition, status = "amqp:transaction:unknown-id", 404


class TransactionRolledBack(BrokerError):
    """The transaction was rolled back."""

    condition, status = "amqp:transaction:rollback", 410


class TransactionTimedOut(BrokerError):
    """The transaction was rolled back, as it was not discharged within two minutes of its first operation."""

    condition, status = "amqp:transaction:timeout", 410


class Unauthorized(BrokerError):
    """No token authorizes this operation: it is missing, expired, wrongly signed or for another entity."""

    condition, status = "amqp:unauthorized-access", 401


class HopsExceeded(BrokerError):
    """The maximum number of allowed hops between entities exceeded 4."""

    condition, status = "amqp:not-allowed", 400
    reason = "MaxTransferHopCountExceeded"
