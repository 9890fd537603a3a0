// What @azure/service-bus can do, in 42 steps: `node service_bus.mjs`, with the connection string in
// SERVICEBUS_CONNECTION_STRING and the authority of the server's certificate in NODE_EXTRA_CA_CERTS. With
// OVER_WEBSOCKETS=1 messaging uses WebSockets, which this SDK opens over TLS only. ADMINISTRATION_CONNECTION_STRING and
// CUSTOM_ENDPOINT are for a gateway, PLAIN_CONNECTION_STRING is for one that has TLS alone.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import test, { after, before } from "node:test";

const require = createRequire(join(process.env.CLIENT_PACKAGES ?? process.cwd(), "package.json"));
const { ServiceBusAdministrationClient, ServiceBusClient } = require("@azure/service-bus");
const rhea = require("rhea");
const Long = require("long");

const connectionString = process.env.SERVICEBUS_CONNECTION_STRING;
const administered = process.env.ADMINISTRATION_CONNECTION_STRING ?? connectionString;
const names = ["queue", "pair", "sessions", "quick", "topic"];
const [queue, pair, sessions, quick, topic] = names.map((name) => `js-${process.pid}-${name}`);
const options = { retryOptions: { maxRetries: 0, timeoutInMs: 20_000 } };
if (process.env.CUSTOM_ENDPOINT) options.customEndpointAddress = process.env.CUSTOM_ENDPOINT;
if (process.env.OVER_WEBSOCKETS === "1") options.webSocketOptions = { webSocket: require("ws") };
const soon = { maxWaitTimeInMs: 10_000 };
const briefly = { maxWaitTimeInMs: 500 };
const opened = [];
let client, administration, sender, receiver, dead;

const kept = (link) => (opened.push(link), link);
const codeOf = (code) => (error) => error.code === code || assert.fail(`${error.code}: ${error.message}`);

/** The next message, which has to come. */
async function next(from = receiver) {
  const [message] = await from.receiveMessages(1, soon);
  assert.ok(message, "no message came");
  return message;
}

async function sendAndReceive(message, through = sender, from = receiver) {
  await through.sendMessages(message);
  return next(from);
}

async function all(pages) {
  const found = [];
  for await (const each of pages) found.push(each);
  return found;
}

before(async () => {
  administration = new ServiceBusAdministrationClient(administered, { retryOptions: { maxRetries: 0 } });
  client = new ServiceBusClient(connectionString, options);
});

after(async () => {
  await Promise.all(opened.map((link) => link.close?.()));
  await client.close();
});

// --- administration -------------------------------------------------------------------------------------------------

test("1 creates queues with their properties", async () => {
  await administration.createQueue(queue, { maxDeliveryCount: 3, lockDuration: "PT10S", userMetadata: "größe & <x>" });
  await administration.createQueue(pair);
  await administration.createQueue(quick, { maxDeliveryCount: 1 });
  await administration.createQueue(sessions, { requiresSession: true });
  const found = await administration.getQueue(queue);
  assert.deepEqual(
    [found.maxDeliveryCount, found.lockDuration, found.userMetadata, found.requiresSession, found.status],
    [3, "PT10S", "größe & <x>", false, "Active"],
  );
});

test("2 refuses to create a queue twice", async () => {
  await assert.rejects(administration.createQueue(queue), codeOf("MessageEntityAlreadyExistsError"));
});

test("3 updates a queue and finds out whether it exists", async () => {
  const found = await administration.getQueue(pair);
  found.defaultMessageTimeToLive = "P1D";
  assert.equal((await administration.updateQueue(found)).defaultMessageTimeToLive, "P1D");
  assert.deepEqual(
    [await administration.queueExists(pair), await administration.queueExists("js-none")],
    [true, false],
  );
});

test("4 lists queues with their counts", async () => {
  const names = (await all(administration.listQueues())).map((each) => each.name);
  assert.ok([queue, pair, sessions].every((name) => names.includes(name)));
  const counts = (await all(administration.listQueuesRuntimeProperties())).find((each) => each.name === queue);
  assert.deepEqual([counts.activeMessageCount, counts.deadLetterMessageCount], [0, 0]);
});

test("5 creates a topic with subscriptions", async () => {
  await administration.createTopic(topic);
  await administration.createSubscription(topic, "all");
  await administration.createSubscription(topic, "some", { maxDeliveryCount: 5 });
  const names = (await all(administration.listSubscriptions(topic))).map((each) => each.subscriptionName);
  assert.deepEqual([names, await administration.topicExists(topic)], [["all", "some"], true]);
});

test("6 creates, reads, updates and lists rules", async () => {
  await administration.deleteRule(topic, "some", "$Default");
  await administration.createRule(topic, "some", "big", { sqlExpression: "size > 5" }, { sqlExpression: "SET big = 1" });
  await administration.createRule(topic, "some", "red", { subject: "red", applicationProperties: { n: 1, ok: true } });
  const rule = await administration.getRule(topic, "some", "big");
  assert.deepEqual([rule.filter.sqlExpression, rule.action.sqlExpression], ["size > 5", "SET big = 1"]);
  rule.filter = { sqlExpression: "size > 9" };
  assert.equal((await administration.updateRule(topic, "some", rule)).filter.sqlExpression, "size > 9");
  const names = (await all(administration.listRules(topic, "some"))).map((each) => each.name);
  assert.deepEqual(names, ["big", "red"]);
});

test("7 reads the namespace", async () => {
  const found = await administration.getNamespaceProperties();
  assert.deepEqual([found.messagingSku, typeof found.name], ["Standard", "string"]);
});

// --- sending and receiving ------------------------------------------------------------------------------------------

test("8 sends a message and receives it with all its properties", async () => {
  sender = kept(client.createSender(queue));
  receiver = kept(client.createReceiver(queue));
  const sent = {
    body: { nested: [1, "two", null] },
    messageId: "m-1",
    correlationId: "c-1",
    subject: "subject",
    to: "to",
    replyTo: "reply",
    replyToSessionId: "reply-session",
    contentType: "application/json",
    partitionKey: "key",
    timeToLive: 60_000,
    applicationProperties: { text: "é", whole: 7, part: 1.5, yes: true, long: 1_700_000_000_000 },
  };
  const found = await sendAndReceive(sent);
  for (const [name, value] of Object.entries(sent)) assert.deepEqual(found[name], value, name);
  assert.deepEqual([found.deliveryCount, found.state, found.sequenceNumber.toNumber() > 0], [0, "active", true]);
  assert.ok(found.lockedUntilUtc > new Date() && found.enqueuedTimeUtc <= new Date(Date.now() + 1000));
  await receiver.completeMessage(found);
});

test("9 sends bodies of every kind", async () => {
  for (const body of ["text", 5, 1.5, true, null, [1, 2], Buffer.from([0, 255])]) {
    const found = await sendAndReceive({ body });
    assert.deepEqual(found.body, body);
    await receiver.completeMessage(found);
  }
});

test("10 sends AMQP messages with value, sequence and data bodies", async () => {
  for (const [bodyType, body] of [["value", { a: 1 }], ["sequence", [[1, "b"]]], ["data", Buffer.from("raw")]]) {
    const found = await sendAndReceive({ bodyType, body, header: { durable: true, priority: 7 } });
    assert.equal(found._rawAmqpMessage.bodyType, bodyType);
    assert.deepEqual(found.body, body);
    await receiver.completeMessage(found);
  }
});

test("11 settles a message that was sent without a message id", async () => {
  const found = await sendAndReceive({ body: "no id" });
  assert.match(found.messageId, /^[0-9a-f]{32}$/);
  await receiver.completeMessage(found);
});

test("12 sends an array of messages", async () => {
  await sender.sendMessages([{ body: 1 }, { body: 2 }, { body: 3 }]);
  const found = [];
  while (found.length < 3) found.push(...(await receiver.receiveMessages(3 - found.length, soon)));
  assert.deepEqual(found.map((each) => each.body), [1, 2, 3]);
  await Promise.all(found.map((each) => receiver.completeMessage(each)));
});

test("13 fills a batch until it is full, and sends it", async () => {
  const batch = await sender.createMessageBatch({ maxSizeInBytes: 2000 });
  while (batch.tryAddMessage({ body: "x".repeat(100) }));
  assert.ok(batch.count > 5 && batch.sizeInBytes <= batch.maxSizeInBytes);
  await sender.sendMessages(batch);
  for (let count = 0; count < batch.count; count += 1) await receiver.completeMessage(await next());
});

test("14 is refused a message that is too large", async () => {
  await assert.rejects(sender.sendMessages({ body: "x".repeat(300_000) }), codeOf("MessageSizeExceeded"));
});

test("15 peeks without taking", async () => {
  await sender.sendMessages([{ body: "first" }, { body: "second" }]);
  const [first] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ZERO });
  const [second] = await receiver.peekMessages(5, { fromSequenceNumber: first.sequenceNumber.add(1) });
  assert.deepEqual([first.body, second.body, first.lockToken], ["first", "second", undefined]);
  for (const body of ["first", "second"]) {
    const found = await next();
    assert.deepEqual([found.body, found.deliveryCount], [body, 0]);
    await receiver.completeMessage(found);
  }
});

test("16 receives nothing from an empty queue", async () => {
  assert.deepEqual(await receiver.receiveMessages(1, briefly), []);
  assert.deepEqual(await receiver.peekMessages(1, { fromSequenceNumber: Long.ZERO }), []);
});

test("17 receives and deletes", async () => {
  const deleting = kept(client.createReceiver(pair, { receiveMode: "receiveAndDelete" }));
  const found = await sendAndReceive({ body: "gone" }, kept(client.createSender(pair)), deleting);
  assert.equal(found.lockToken, undefined);
  await assert.rejects(deleting.completeMessage(found), /receive.*mode|lock|settle/i);
  assert.equal((await administration.getQueueRuntimeProperties(pair)).totalMessageCount, 0);
});

// --- settling -------------------------------------------------------------------------------------------------------

test("18 abandons, which counts a delivery", async () => {
  const found = await sendAndReceive({ body: "again", messageId: "again" });
  await receiver.abandonMessage(found);
  const again = await next();
  assert.deepEqual([again.messageId, again.deliveryCount], ["again", 1]);
  await receiver.completeMessage(again);
});

test("19 abandons with properties, which are merged", async () => {
  const found = await sendAndReceive({ body: "x", applicationProperties: { kept: 1, changed: "old" } });
  await receiver.abandonMessage(found, { changed: "new", added: true });
  const again = await next();
  assert.deepEqual(again.applicationProperties, { kept: 1, changed: "new", added: true });
  await receiver.completeMessage(again);
});

test("20 is dead-lettered once it was abandoned as often as allowed", async () => {
  await sender.sendMessages({ body: "poison" });
  dead = kept(client.createReceiver(queue, { subQueueType: "deadLetter" }));
  for (let count = 1; count <= 3; count += 1) await receiver.abandonMessage(await next());
  const found = await next(dead);
  assert.deepEqual([found.body, found.deadLetterReason], ["poison", "MaxDeliveryCountExceeded"]);
  await dead.completeMessage(found);
});

test("21 dead-letters with a reason and properties of its own", async () => {
  const reason = { deadLetterReason: "broken", deadLetterErrorDescription: "cannot be read", attempt: 3 };
  await receiver.deadLetterMessage(await sendAndReceive({ body: "bad" }), reason);
  const found = await next(dead);
  assert.deepEqual([found.deadLetterReason, found.deadLetterErrorDescription], ["broken", "cannot be read"]);
  assert.equal(found.applicationProperties.attempt, 3);
  await dead.completeMessage(found);
});

test("22 dead-letters without a reason", async () => {
  await receiver.deadLetterMessage(await sendAndReceive({ body: "bad" }));
  const found = await next(dead);
  assert.equal(found.deadLetterReason, undefined);
  await dead.completeMessage(found);
});

test("23 defers with properties, and receives by sequence number", async () => {
  const found = await sendAndReceive({ body: "later", applicationProperties: { step: 1 } });
  await receiver.deferMessage(found, { step: 2 });
  const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: found.sequenceNumber });
  assert.equal(peeked.state, "deferred");
  const [later] = await receiver.receiveDeferredMessages(found.sequenceNumber);
  assert.deepEqual([later.body, later.applicationProperties.step], ["later", 2]);
  await receiver.completeMessage(later);
});

test("24 settles deferred messages in every other way too", async () => {
  const found = await sendAndReceive({ body: "deferred" });
  await receiver.deferMessage(found);
  const [first] = await receiver.receiveDeferredMessages([found.sequenceNumber]);
  await receiver.abandonMessage(first, { abandoned: true });
  const [second] = await receiver.receiveDeferredMessages([found.sequenceNumber]);
  assert.equal(second.applicationProperties.abandoned, true);
  await receiver.deferMessage(second);
  const [third] = await receiver.receiveDeferredMessages([found.sequenceNumber]);
  await receiver.deadLetterMessage(third, { deadLetterReason: "enough", kind: "deferred" });
  const last = await next(dead);
  assert.deepEqual([last.deadLetterReason, last.applicationProperties.kind], ["enough", "deferred"]);
  await dead.completeMessage(last);
});

test("25 is refused a deferred message that is not there", async () => {
  await assert.rejects(receiver.receiveDeferredMessages(Long.fromNumber(999_999)), codeOf("MessageNotFound"));
});

test("26 renews a lock", async () => {
  const found = await sendAndReceive({ body: "slow" });
  const before = found.lockedUntilUtc;
  await new Promise((resolve) => setTimeout(resolve, 20));
  const until = await receiver.renewMessageLock(found);
  assert.ok(until > before);
  await receiver.completeMessage(found);
});

test("27 cannot settle a message whose lock is lost", async () => {
  const [short, other] = [client.createSender(quick), client.createReceiver(quick, { maxAutoLockRenewalDurationInMs: 0 })];
  [short, other].forEach(kept);
  const found = await administration.getQueue(quick);
  await administration.updateQueue(Object.assign(found, { lockDuration: "PT1S" }));
  const message = await sendAndReceive({ body: "lost" }, short, other);
  const lapsed = kept(client.createReceiver(quick, { subQueueType: "deadLetter", receiveMode: "receiveAndDelete" }));
  assert.equal((await next(lapsed)).deadLetterReason, "MaxDeliveryCountExceeded");
  await assert.rejects(other.completeMessage(message), codeOf("MessageLockLost"));
});

// --- schedules ------------------------------------------------------------------------------------------------------

test("28 schedules messages, which come when they are due", async () => {
  const due = new Date(Date.now() + 5000);
  const numbers = await sender.scheduleMessages([{ body: "a" }, { body: "b" }], due);
  assert.equal(numbers.length, 2);
  const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: numbers[0] });
  assert.deepEqual([peeked.state, peeked.scheduledEnqueueTimeUtc], ["scheduled", due]);
  for (const body of ["a", "b"]) {
    const found = await next();
    assert.ok(found.body === body && found.enqueuedTimeUtc >= due);
    await receiver.completeMessage(found);
  }
});

test("29 sends a message with a time to be enqueued at, and cancels scheduled ones", async () => {
  const tomorrow = new Date(Date.now() + 86_400_000);
  await sender.sendMessages({ body: "tomorrow", scheduledEnqueueTimeUtc: tomorrow });
  const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: Long.ZERO });
  assert.equal(peeked.state, "scheduled");
  const [number] = await sender.scheduleMessages({ body: "never" }, tomorrow);
  await sender.cancelScheduledMessages([number, peeked.sequenceNumber]);
  assert.deepEqual(await receiver.peekMessages(5, { fromSequenceNumber: Long.ZERO }), []);
  await assert.rejects(sender.cancelScheduledMessages(number), codeOf("MessageNotFound"));
});

// --- sessions -------------------------------------------------------------------------------------------------------

let session;

test("30 accepts a session by its id and receives in order", async () => {
  const through = kept(client.createSender(sessions));
  for (const body of [1, 2, 3]) await through.sendMessages({ body, sessionId: "blue" });
  await through.sendMessages({ body: "red", sessionId: "red" });
  session = await client.acceptSession(sessions, "blue");
  assert.ok(session.sessionId === "blue" && session.sessionLockedUntilUtc > new Date());
  for (const body of [1, 2, 3]) {
    const found = await next(session);
    assert.deepEqual([found.body, found.sessionId], [body, "blue"]);
    await session.completeMessage(found);
  }
});

test("31 keeps the state of a session", async () => {
  assert.equal(await session.getSessionState(), null);
  await session.setSessionState({ step: 5 });
  assert.deepEqual(await session.getSessionState(), { step: 5 });
  await session.setSessionState(null);
  assert.equal(await session.getSessionState(), null);
});

test("32 renews the lock of a session", async () => {
  const before = session.sessionLockedUntilUtc;
  await new Promise((resolve) => setTimeout(resolve, 20));
  assert.ok((await session.renewSessionLock()) > before);
});

test("33 cannot accept a session that is locked", async () => {
  await assert.rejects(client.acceptSession(sessions, "blue"), codeOf("SessionCannotBeLocked"));
});

test("34 accepts the next session, and peeks and defers in it", async () => {
  const other = await client.acceptNextSession(sessions);
  assert.equal(other.sessionId, "red");
  assert.equal((await other.peekMessages(1))[0].body, "red");
  const found = await next(other);
  await other.deferMessage(found);
  const [later] = await other.receiveDeferredMessages(found.sequenceNumber);
  await other.completeMessage(later);
  await other.close();
});

test("35 finds no next session where all are taken", async () => {
  const impatient = new ServiceBusClient(connectionString, {
    ...options,
    retryOptions: { maxRetries: 0, timeoutInMs: 1000 },
  });
  await assert.rejects(impatient.acceptNextSession(sessions), codeOf("ServiceTimeout"));
  await impatient.close();
  await session.close();
});

test("36 is refused a queue with sessions without one", async () => {
  const without = kept(client.createReceiver(sessions));
  await assert.rejects(without.receiveMessages(1, briefly), codeOf("GeneralError"));
});

// --- subscribing ----------------------------------------------------------------------------------------------------

test("37 subscribes to messages, which are completed by themselves", async () => {
  const bodies = [];
  await sender.sendMessages([{ body: "one" }, { body: "two" }]);
  const listening = kept(client.createReceiver(queue));
  await new Promise((resolve, reject) => {
    const processMessage = async (message) => bodies.push(message.body) === 2 && resolve();
    listening.subscribe({ processMessage, processError: async ({ error }) => reject(error) }, { maxConcurrentCalls: 2 });
  });
  await listening.close();
  assert.deepEqual(bodies.sort(), ["one", "two"]);
  assert.equal((await administration.getQueueRuntimeProperties(queue)).activeMessageCount, 0);
});

test("38 iterates over messages", async () => {
  await sender.sendMessages([{ body: 1 }, { body: 2 }]);
  const bodies = [];
  const iterating = kept(client.createReceiver(queue));
  for await (const message of iterating.getMessageIterator()) {
    bodies.push(message.body);
    await iterating.completeMessage(message);
    if (bodies.length === 2) break;
  }
  assert.deepEqual(bodies, [1, 2]);
});

// --- topics and their rules -----------------------------------------------------------------------------------------

test("39 receives from subscriptions what their rules let pass", async () => {
  const through = kept(client.createSender(topic));
  const [everything, some] = ["all", "some"].map((name) => kept(client.createReceiver(topic, name)));
  await through.sendMessages([
    { body: "small", applicationProperties: { size: 1 } },
    { body: "large", applicationProperties: { size: 10 } },
    { body: "red", subject: "red", applicationProperties: { n: 1, ok: true } },
  ]);
  for (const body of ["small", "large", "red"]) {
    const found = await next(everything);
    assert.equal(found.body, body);
    await everything.completeMessage(found);
  }
  const large = await next(some);
  assert.deepEqual([large.body, large.applicationProperties.big, large.applicationProperties.RuleName], ["large", 1, "big"]);
  const red = await next(some);
  assert.equal(red.body, "red");
  await Promise.all([some.completeMessage(large), some.completeMessage(red)]);
  const counts = await administration.getSubscriptionRuntimeProperties(topic, "some");
  assert.equal(counts.activeMessageCount, 0);
});

test("40 manages rules over AMQP", async () => {
  const rules = kept(client.createRuleManager(topic, "all"));
  await rules.createRule("colour", { sqlExpression: "colour = 'red'" }, { sqlExpression: "SET seen = TRUE" });
  await rules.createRule("subject", { correlationId: "c", applicationProperties: { a: "b" } });
  const found = await all(rules.listRules());
  assert.deepEqual(found.map((each) => each.name).sort(), ["$Default", "colour", "subject"]);
  const [colour] = found.filter((each) => each.name === "colour");
  assert.deepEqual([colour.filter.sqlExpression, colour.action.sqlExpression], ["colour = 'red'", "SET seen = TRUE"]);
  const [subject] = found.filter((each) => each.name === "subject");
  assert.deepEqual([subject.filter.correlationId, subject.filter.applicationProperties], ["c", { a: "b" }]);
  await rules.deleteRule("colour");
  await assert.rejects(rules.deleteRule("colour"), /could not be found/);
  await assert.rejects(rules.createRule("subject", { sqlExpression: "1 = 1" }), /already exists/);
});

// --- what is refused ------------------------------------------------------------------------------------------------

test("41 is told of entities that do not exist and keys that are wrong", async () => {
  const nowhere = kept(client.createSender("js-none"));
  await assert.rejects(nowhere.sendMessages({ body: "x" }), codeOf("MessagingEntityNotFound"));
  const wrong = connectionString.replace(/SharedAccessKey=[^;]*/, "SharedAccessKey=wrong");
  const stranger = new ServiceBusClient(wrong, options);
  await assert.rejects(stranger.createSender(queue).sendMessages({ body: "x" }), codeOf("UnauthorizedAccess"));
  await stranger.close();
});

test("42 is offered transactions, and deletes what it made", async () => {
  // The SDK has no transactions; its AMQP library below it shows what other SDKs get.
  const [, host, port] = (process.env.PLAIN_CONNECTION_STRING ?? administered).match(/Endpoint=sb:\/\/([^:;/]+):(\d+)/);
  const [, username] = administered.match(/SharedAccessKeyName=([^;]*)/);
  const [, password] = administered.match(/SharedAccessKey=([^;]*)/);
  const state = await new Promise((resolve, reject) => {
    const container = rhea.create_container();
    container.on("disconnected", ({ error: reason }) => reject(reason));
    container.on("sender_error", ({ sender: link }) => reject(link.error));
    const declare = Buffer.from("005377005331c0020140", "hex");
    container.once("sendable", ({ sender: link }) => link.send(declare, "t", 0));
    container.on("settled", ({ delivery, connection }) => (resolve(delivery.remote_state), connection.close()));
    container.on("connection_open", ({ connection }) => {
      const coordinator = rhea.types.wrap_described([rhea.types.wrap_array([], 0xa3)], 0x30);
      connection.open_sender({ name: "transactions", source: {}, target: {} }).local.attach.target = coordinator;
    });
    container.connect({ host, port: Number(port), username, password, reconnect: false });
  });
  assert.equal(state.descriptor.value, 0x33);
  await Promise.all([queue, pair, sessions, quick].map((name) => administration.deleteQueue(name)));
  await administration.deleteSubscription(topic, "some");
  await administration.deleteTopic(topic);
  assert.deepEqual([await administration.queueExists(queue), await administration.topicExists(topic)], [false, false]);
});
