"""Mail, by the server that EMAIL_HOST names."""

from datetime import datetime

from dashboard.alerts.channels.base import Integration, Mail, Target
from dashboard.alerts.message import Message


def build(target: Target, message: Message, now: datetime) -> Mail:
    """Plain text. The message id is the notice's, so that a mail which is sent twice is one for whoever sorts them."""
    link = f"\n\n{message.url}" if message.url else ""
    text = "\n".join(message.sentences) + link + "\n"
    headers = {"Message-ID": f"<{message.id}@paired-namespaces.invalid>", "Auto-Submitted": "auto-generated"}
    mark = "" if message.phase in ("resolved", "test") else f"[{message.severity}] "
    return Mail(target.to, target.sender, mark + message.summary, text, headers)


INTEGRATION = Integration("email", "Mail", keys=("to", "from"), required=("to",), build=build)
