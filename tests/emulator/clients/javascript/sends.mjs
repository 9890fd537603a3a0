// Sends COUNT numbered messages to the queue orders, one after the other: `accepted N` or `failed N reason` for each.

import { createRequire } from "node:module";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

const require = createRequire(join(process.env.CLIENT_PACKAGES, "package.json"));
const { ServiceBusClient } = require("@azure/service-bus");

const client = new ServiceBusClient(process.env.SERVICEBUS_CONNECTION_STRING);
const sender = client.createSender("orders");
for (let number = 0; number < Number(process.env.COUNT); number += 1) {
  try {
    await sender.sendMessages({ body: `${number}`, messageId: `${number}` });
    console.log(`accepted ${number}`);
  } catch (error) {
    console.log(`failed ${number} ${error}`);
  }
  await setTimeout(100);
}
await client.close();
