// What a general AMQP 1.0 client does: `node rhea.mjs`, with the connection string in SERVICEBUS_CONNECTION_STRING of a
// namespace that has the queues "orders" and "sessions" (with sessions).

import assert from "node:assert/strict";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import test, { after, before } from "node:test";

const require = createRequire(join(process.env.CLIENT_PACKAGES ?? process.cwd(), "package.json"));
const rhea = require("rhea");

const connectionString = process.env.SERVICEBUS_CONNECTION_STRING;
const endpoint = process.env.CUSTOM_ENDPOINT; // with TLS
const [, host, port] = (endpoint ?? connectionString).match(/sb:\/\/([^:;/]+):(\d+)/);
const [, username] = connectionString.match(/SharedAccessKeyName=([^;]*)/);
const [, password] = connectionString.match(/SharedAccessKey=([^;]*)/);
const named = { hostname: host, sasl_init_hostname: host, transport: endpoint ? "tls" : "tcp" };
const settings = { host, port: Number(port), username, password, reconnect: false, ...named };
let connection, sender;

async function opened(link, event) {
  const [context] = await Promise.race([once(link, event), once(link, event.replace("_open", "_error"))]);
  return context;
}

const senderTo = async (target) => {
  const link = connection.open_sender(target);
  await once(link, "sendable");
  return link;
};

const receiverFrom = (source, more = {}) => {
  const address = typeof source === "string" ? source : source.address;
  return connection.open_receiver({ source: source.address ? source : { address }, credit_window: 0, autoaccept: false, ...more });
};

/** The next delivery: one credit is granted for it. */
async function next(link) {
  const coming = once(link, "message");
  link.add_credit(1);
  return (await coming)[0];
}

/** Sends a message; the event that its outcome raised. */
async function send(message, through = sender) {
  const outcome = Promise.race(["accepted", "rejected", "released"].map((name) => once(through, name)));
  through.send(message);
  return (await outcome)[0];
}

before(async () => {
  connection = rhea.create_container().connect(settings);
  await once(connection, "connection_open");
  sender = await senderTo("orders");
});

after(() => connection.close());

test("authenticates with SASL PLAIN, and is refused with a wrong key", async () => {
  const refused = rhea.create_container().connect({ ...settings, password: "wrong" });
  const [{ error }] = await once(refused, "connection_error");
  assert.match(String(error.condition ?? error), /unauthorized|auth/i);
});

test("sends and receives a message with every section", async () => {
  const sent = {
    header: { durable: true, priority: 3 },
    message_id: "m",
    correlation_id: "c",
    subject: "s",
    content_type: "text/plain",
    message_annotations: { "x-own": 5 },
    application_properties: { text: "é", list: 7 },
    body: "hello",
  };
  assert.ok((await send(sent)).delivery);
  const link = receiverFrom("orders");
  const { message, delivery } = await next(link);
  for (const name of ["message_id", "correlation_id", "subject", "content_type", "body"]) assert.equal(message[name], sent[name]);
  assert.deepEqual(message.application_properties, sent.application_properties);
  assert.ok(message.message_annotations["x-opt-sequence-number"] > 0 && message.message_annotations["x-own"] === 5);
  delivery.accept();
  link.close();
});

test("sends a message of many frames", async () => {
  const body = "x".repeat(200_000);
  await send({ body });
  const link = receiverFrom("orders");
  const { message, delivery } = await next(link);
  assert.equal(message.body.length, body.length);
  delivery.accept();
  link.close();
});

test("is refused a message beyond the limit", async () => {
  const link = await senderTo("orders");
  const failed = Promise.race([once(link, "rejected"), once(link, "sender_error")]);
  link.send({ body: "x".repeat(300_000) });
  const [context] = await failed;
  const error = context.delivery?.remote_state?.error ?? link.error;
  assert.equal(error.condition, "amqp:link:message-size-exceeded");
});

test("releases, modifies and rejects", async () => {
  await send({ message_id: "settled", body: "x" });
  const link = receiverFrom("orders");
  (await next(link)).delivery.release();
  const released = await next(link);
  assert.equal(released.message.delivery_count ?? 0, 0);
  released.delivery.modified({ delivery_failed: true, message_annotations: { colour: "red" } });
  const modified = await next(link);
  assert.deepEqual([modified.message.delivery_count, modified.message.application_properties], [1, { colour: "red" }]);
  modified.delivery.reject({ condition: "app:broken", description: "cannot be read" });
  link.close();
  const dead = receiverFrom("orders/$deadletterqueue");
  const { message, delivery } = await next(dead);
  assert.equal(message.message_id, "settled");
  delivery.accept();
  dead.close();
});

test("receives as many as it has credit for, and drains the rest", async () => {
  for (const body of [1, 2, 3]) await send({ body });
  const link = receiverFrom("orders");
  const bodies = [];
  link.on("message", ({ message, delivery }) => (bodies.push(message.body), delivery.accept()));
  link.add_credit(2);
  while (bodies.length < 2) await once(link, "message");
  assert.equal(link.credit, 0);
  link.drain_credit();
  link.add_credit(5);
  await once(link, "receiver_drained");
  assert.deepEqual([bodies, link.credit], [[1, 2, 3], 0]);
  link.close();
});

test("receives settled messages", async () => {
  await send({ body: "settled" });
  const link = receiverFrom("orders", { snd_settle_mode: 1 });
  const { message, delivery } = await next(link);
  assert.deepEqual([message.body, delivery.remote_settled], ["settled", true]);
  link.close();
});

test("asks the management node with a reply-to of its own", async () => {
  await send({ body: "peeked" });
  const replies = connection.open_receiver({ source: "orders/$management", target: "my-replies" });
  const requests = await senderTo({ target: "orders/$management", source: "my-replies" });
  const body = {
    "from-sequence-number": rhea.types.wrap_long(1),
    "message-count": rhea.types.wrap_int(10),
  };
  const reply = once(replies, "message");
  const application_properties = { operation: "com.microsoft:peek-message" };
  requests.send({ message_id: "r1", reply_to: "my-replies", application_properties, body });
  const [{ message }] = await reply;
  assert.deepEqual([message.correlation_id, message.application_properties.statusCode], ["r1", 200]);
  assert.equal(rhea.message.decode(message.body.messages[0].message).body, "peeked");
  const link = receiverFrom("orders");
  (await next(link)).delivery.accept();
  link.close();
});

test("receives from a session, by its id and the next one", async () => {
  const through = await senderTo("sessions");
  await send({ body: "in session", group_id: "blue" }, through);
  for (const filter of ["blue", null]) {
    const link = receiverFrom({ address: "sessions", filter: { "com.microsoft:session-filter": filter } });
    const context = await opened(link, "receiver_open");
    assert.equal(context.receiver.remote.attach.source.filter["com.microsoft:session-filter"], "blue");
    const { message, delivery } = await next(link);
    assert.deepEqual([message.body, message.group_id], ["in session", "blue"]);
    delivery.release();
    const closed = once(link, "receiver_close");
    link.close();
    await closed;
  }
});

test("is refused selectors and entities that do not exist", async () => {
  const filter = { selector: rhea.types.wrap_described("colour = 'red'", "apache.org:selector-filter:string") };
  for (const [source, condition] of [
    [{ address: "orders", filter }, "amqp:not-implemented"],
    [{ address: "nowhere" }, "amqp:not-found"],
  ]) {
    const link = receiverFrom(source);
    await once(link, "receiver_error");
    assert.equal(link.error.condition, condition);
  }
});

test("declares transactions, and is refused to discharge an unknown one", async () => {
  const link = connection.open_sender({ name: "transactions", source: {}, target: {} });
  link.local.attach.target = rhea.types.wrap_described([rhea.types.wrap_array([], 0xa3)], 0x30);
  await once(link, "sendable");
  link.send(Buffer.from("005377005331c0020140", "hex"), "declare", 0);
  assert.equal((await once(link, "settled"))[0].delivery.remote_state.descriptor.value, 0x33);
  link.send(Buffer.from("005377005332c00502a0014042", "hex"), "discharge", 0);
  const [{ delivery }] = await once(link, "rejected");
  assert.equal(delivery.remote_state.error.condition, "amqp:transaction:unknown-id");
});

test("keeps an idle connection alive, and several sessions on one connection", async () => {
  const idle = rhea.create_container().connect({ ...settings, idle_time_out: 600 });
  await once(idle, "connection_open");
  const [first, second] = [idle.create_session(), idle.create_session()];
  for (const session of [first, second]) {
    session.begin();
    await once(session, "session_open");
  }
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.ok(idle.is_open());
  idle.close();
});
