// Makes one send of each line on stdin, `ENTITY ID BODY [ID BODY]…` with bodies in base64: `accepted ID` or `failed ID reason`.

import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";

const require = createRequire(join(process.env.CLIENT_PACKAGES, "package.json"));
const { ServiceBusClient } = require("@azure/service-bus");
const { types } = require("rhea");

const timeoutInMs = 1000 * (process.env.TRY_S ?? 60);
const retryOptions = process.env.TRY_S ? { timeoutInMs, retryDelayInMs: 1000 } : {};
const client = new ServiceBusClient(process.env.SERVICEBUS_CONNECTION_STRING, { retryOptions });
const senders = {};
const kinds = ["ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long"];
const typed = Object.fromEntries(kinds.map((kind) => [kind, types[`wrap_${kind}`](7)]));
for await (const line of createInterface({ input: process.stdin })) {
  const [entity, ...words] = line.split(" ");
  const messages = [];
  for (let at = 0; at < words.length; at += 2) {
    const [messageId, body] = [words[at], Buffer.from(words[at + 1], "base64")];
    const applicationProperties = { "campaign-id": messageId, ...typed, ratio: 0.5, due: new Date(1770091506789) };
    messages.push({ messageId, body, applicationProperties, subject: entity });
  }
  try {
    senders[entity] ??= client.createSender(entity);
    await senders[entity].sendMessages(messages.length === 1 ? messages[0] : messages);
    console.log(`accepted ${words[0]}`);
  } catch (error) {
    console.log(`failed ${words[0]} ${`${error}`.replaceAll("\n", " ")}`);
  }
}
await client.close();
