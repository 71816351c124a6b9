// The answer to a commit is lost. kafkajs throws, though the transaction is committed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const options = ["--port", "0", "--seconds", "60", "--script", "lost-answer.json"];
const served = spawn("epochfence", ["serve", ...options]);
const [line] = await once(createInterface(served.stdout), "line");
const bootstrap = line.split("bootstrap.servers=")[1];
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING });

const producer = kafka.producer({
  transactionalId: "orders",
  maxInFlightRequests: 1,
  idempotent: true,
});
await producer.connect();
const transaction = await producer.transaction();
await transaction.send({ topic: "orders", messages: [{ value: "one" }] });
await assert.rejects(transaction.commit()); // with Kafka's own client it succeeds
await producer.disconnect();

const consumer = kafka.consumer({ groupId: "g" });
await consumer.connect();
await consumer.subscribe({ topic: "orders", fromBeginning: true });
const value = await new Promise((resolve) =>
  consumer.run({ eachMessage: async ({ message }) => resolve(message.value) }),
);
assert.equal(value.toString(), "one"); // who sends it again after the error has it twice
await consumer.disconnect();

served.kill("SIGTERM");
const [code] = await once(served, "exit");
assert.equal(code, 0); // 20 if the answer wasn't lost
