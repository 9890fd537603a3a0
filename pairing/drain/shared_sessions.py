"""The syphon's access to the barriers of sessions in Redis."""

from pairing.drain.actions import Failed
from pairing.drain.host import SyphonHost
from pairing.drain.session_order import Bar, Barred, Hold, Lift, SessionAction
from pairing.drive import Reply
from pairing.health.faults import describe
from pairing.sessions.shared import SharedSessions


def session_outcome(host: SyphonHost, queue: str, action: SessionAction) -> Reply:
    """The outcome of an action on barriers; Failed if Redis does not answer. May take 2 s."""
    coordination = host.coordination
    if coordination is None or coordination.shared is None:
        return action.reply(None)
    if not getattr(coordination, "is_connected", True):
        return action.reply(Failed("Redis is away"))
    try:
        return _answer(SharedSessions(coordination.shared), queue, action)
    except Exception as error:
        return action.reply(Failed(describe(error)))


def _answer(sessions: SharedSessions, queue: str, action: SessionAction) -> Reply:
    match action:
        case Barred():
            return action.reply(sessions.barred(queue))
        case Bar():
            sessions.bar(queue, action.keys)
            return action.reply(None)
        case Lift():
            return action.reply(sessions.lift(queue, action.drained))
        case Hold():
            sessions.hold(queue, action.keys, action.seconds)
            return action.reply(None)
