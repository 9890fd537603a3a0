// An application in JavaScript that sends through a gateway: it goes on while the primary namespace is down.
//
// export SERVICEBUS_CONNECTION_STRING='Endpoint=sb://127.0.0.1:5672;…' REDIS_URL=redis://127.0.0.1:6379/0
// npm install @azure/service-bus && node sender.mjs orders payments
//
// In the Redis of REDIS_URL it counts what was accepted and what was refused, as sender.py does.

import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const require = createRequire(join(process.env.CLIENT_PACKAGES ?? process.cwd(), "package.json"));
const { ServiceBusClient } = require("@azure/service-bus");
const MILLISECONDS_BETWEEN = 500;

/** Asks Redis with commands of one line, one after the other. */
class Accounts {
  constructor(url) {
    const { hostname, port, password } = new URL(url);
    this.socket = connect({ host: hostname, port: Number(port || 6379) });
    this.answers = createInterface({ input: this.socket })[Symbol.asyncIterator]();
    this.last = password ? this.ask(`AUTH ${decodeURIComponent(password)}`) : Promise.resolve();
  }

  ask(command) {
    this.last = (this.last ?? Promise.resolve()).then(async () => {
      this.socket.write(`${command}\r\n`);
      const { value } = await this.answers.next();
      if (!value || value.startsWith("-")) throw new Error(`Redis: ${value ?? "the connection has ended"}`);
      return value.slice(1);
    });
    return this.last;
  }
}

function letter(queue, number) {
  const sha256 = createHash("sha256").update(`${queue} ${number}`).digest("hex");
  return `{"queue": "${queue}", "number": ${number}, "sha256": "${sha256}"}`;
}

async function send(client, accounts, queue, stop) {
  const sender = client.createSender(queue);
  while (!stop.aborted) {
    const number = Number(await accounts.ask(`INCR demo:{${queue}}:numbers`)) - 1;
    try {
      await sender.sendMessages({ body: Buffer.from(letter(queue, number)), messageId: `${queue}-${number}` });
      await accounts.ask(`SETBIT demo:{${queue}}:accepted ${number} 1`);
    } catch (error) {
      console.error(`${queue}: ${number} refused: ${error.message}`);
      await accounts.ask(`INCR demo:{${queue}}:refused`);
    }
    await pause(MILLISECONDS_BETWEEN, undefined, { signal: stop }).catch(() => {});
  }
}

const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => stop.abort());
const client = new ServiceBusClient(process.env.SERVICEBUS_CONNECTION_STRING);
const accounts = new Accounts(process.env.REDIS_URL);
await Promise.all(process.argv.slice(2).map((queue) => send(client, accounts, queue, stop.signal)));
await client.close();
accounts.socket.destroy();
