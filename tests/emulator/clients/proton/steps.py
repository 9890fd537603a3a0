"""What qpid-proton can do, step by step; an assertion ends it.

SERVICEBUS_CONNECTION_STRING is of a namespace with the queues qpid-proton and qpid-proton-sessions (with sessions).
"""

import os
import re
from contextlib import closing
from functools import partial

from proton import Delivery, Message, ProtonException, SSLDomain, int32, symbol
from proton.handlers import TransactionHandler
from proton.reactor import AtMostOnce, Filter, LinkOption, Selector, Transaction
from proton.utils import BlockingConnection

TEXT = os.environ["SERVICEBUS_CONNECTION_STRING"]
HOST, USER, KEY = re.match(r"\w+=sb://([^;/]+)/?;\w+=([^;]+);\w+=([^;]+)", TEXT).groups()
QUEUE, SESSIONS = "qpid-proton", "qpid-proton-sessions"


def connected(key=KEY):
    how = {"user": USER, "password": key, "allowed_mechs": "PLAIN", "allow_insecure_mechs": True, "heartbeat": 5}
    if "UseDevelopmentEmulator=true" in TEXT:
        return BlockingConnection(f"amqp://{HOST}", **how)
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(os.environ["SSL_CERT_FILE"])
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER_NAME)
    return BlockingConnection(f"amqps://{HOST}", ssl_domain=domain, **how)


connection = connected()
sender_to, receiver_from = connection.create_sender, connection.create_receiver


def send(queue=QUEUE, options=None, **fields):
    with closing(sender_to(queue, options=options)) as link:
        link.send(Message(**fields))


def receive(queue=QUEUE, outcome=Delivery.ACCEPTED, options=None):
    """The next message, which is settled so."""
    with closing(receiver_from(queue, options=options)) as link:
        message = link.receive()
        if link.fetcher.unsettled:
            link.settle(outcome)
    return message


def fails(condition, work, *arguments, **more):
    refused = ""
    try:
        work(*arguments, **more)
    except ProtonException as error:
        refused = str(error)
    assert condition in refused


class RepliesTo(LinkOption):
    def apply(self, link):
        (link.source if link.is_sender else link.target).address = "my-replies"


class Ends(TransactionHandler, list):
    """How transactions ended."""

    def on_transaction_committed(self, event):
        self.append(Transaction.commit)

    def on_transaction_aborted(self, event):
        self.append(Transaction.abort)


# 1 It is refused a wrong key, entities that do not exist, selectors, and messages beyond the limit.
fails("unauthorized", connected, "wrong")
fails("amqp:not-found", receive, "nowhere")
fails("amqp:not-implemented", receive, options=Selector("colour = 'red'"))
fails(f"{Delivery.REJECTED:d}", send, body="x" * 300_000)

# 2 It sends and receives every section, and many frames.
sent = {"id": "m", "correlation_id": "c", "subject": "s", "content_type": "text/plain", "body": "x" * 200_000}
sent |= {"durable": True, "priority": 3, "properties": {"text": "é", "list": int32(7)}}
send(annotations={symbol("x-own"): 5}, **sent)
message = receive()
assert {name: getattr(message, name) for name in sent} == sent
assert message.annotations["x-own"] == 5

# 3 It releases, modifies and rejects.
send(id="settled")
counts = [receive(outcome=end).delivery_count for end in (Delivery.RELEASED, Delivery.MODIFIED, Delivery.REJECTED)]
assert (counts, receive(QUEUE + "/$deadletterqueue").id) == ([0, 0, 1], "settled")

# 4 It sends and receives settled messages.
send(options=AtMostOnce(), body="settled")
assert receive(options=AtMostOnce()).body == "settled"

# 5 It asks the management node.
send(body="peeked")
with (
    closing(receiver_from(QUEUE + "/$management", options=RepliesTo())) as replies,
    closing(sender_to(QUEUE + "/$management", options=RepliesTo())) as requests,
):
    peek, asked = {"operation": "com.microsoft:peek-message"}, {"from-sequence-number": 1, "message-count": int32(10)}
    requests.send(Message(id="r1", reply_to="my-replies", properties=peek, body=asked))
    reply = replies.receive()
assert (reply.correlation_id, reply.properties["statusCode"]) == ("r1", 200)
message.decode(bytes(reply.body["messages"][0]["message"]))
assert message.body == receive().body == "peeked"

# 6 It receives from a session, by its id and the next one.
send(SESSIONS, body="in session", group_id="blue")
for wanted, end in {"blue": Delivery.RELEASED, None: Delivery.ACCEPTED}.items():
    message = receive(SESSIONS, end, Filter({symbol("com.microsoft:session-filter"): wanted}))
    assert (message.body, message.group_id) == ("in session", "blue")

# 7 It aborts a transaction and commits one, of which alone it receives the message.
ends = Ends()
for end in (Transaction.abort, Transaction.commit):
    transaction = connection.container.declare_transaction(connection.conn, ends)
    connection.wait(partial(getattr, transaction, "id"))
    with closing(sender_to(QUEUE)) as link:
        transaction.send(link.link, Message(body=end.__name__))
        end(transaction)
        connection.wait(partial(ends.__contains__, end))
with closing(receiver_from(QUEUE, credit=5)) as link:
    assert link.receive().body == "commit"
    link.accept()

connection.close()
print("\n# pass 7")
