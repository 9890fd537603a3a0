"""Mail, through the server of EMAIL_URL."""

from datetime import datetime

from dashboard.alerts.sending.channels.base import Integration, Mail, Target
from dashboard.alerts.sending.message import Message


def build(target: Target, message: Message, now: datetime) -> Mail:
    """A plain text mail. The message id is that of the notice, so that duplicates can be detected."""
    link = f"\n\n{message.url}" if message.url else ""
    text = message.sentence + link + "\n"
    headers = {"Message-ID": f"<{message.id}@paired-namespaces.invalid>", "Auto-Submitted": "auto-generated"}
    mark = "" if message.phase in ("resolved", "test") else f"[{message.severity}] "
    return Mail(target.to, target.sender, mark + message.summary, text, headers)


INTEGRATION = Integration("email", "Mail", keys=("to", "from"), required=("to",), build=build)
