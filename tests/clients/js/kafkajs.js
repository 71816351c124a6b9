// Tests of kafkajs on given brokers: `node kafkajs.js TEST BOOTSTRAP NAME`.
//
// A test passes with exit code 0. Otherwise the reason is the last line on standard error.
// NAME begins the names of its topics, groups and transactional ids. Topics have one partition.
// `node kafkajs.js rules NAME=VALUE...` makes the calls of standard input (docs/rules.md).
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { Kafka, logLevel } from "kafkajs";

const PATIENCE_MS = 20_000;
const MEMBER_QUIET_MS = 8_000; // a member that gets no record for so long has none
const isDriven = process.argv[2] === "rules";
const settings = Object.fromEntries(
  process.argv.slice(3).map((each) => each.split("=", 2)),
);
const [test, bootstrap, name] = isDriven
  ? ["rules", settings["bootstrap.servers"], settings["transactional.id"]]
  : process.argv.slice(2);
const kafka = new Kafka({
  clientId: isDriven ? settings["client.id"] : "kafkajs",
  brokers: bootstrap.split(","),
  logLevel: logLevel.NOTHING,
});
const opened = [];

/** A producer with a transactional id. kafkajs sends InitProducerId when it connects. */
async function transactional(transactionalId) {
  const producer = kafka.producer({
    transactionalId,
    idempotent: true,
    maxInFlightRequests: 1,
  });
  await producer.connect();
  opened.push(producer);
  return producer;
}

/** Sends values in one transaction, and ends it. */
async function write(producer, topic, end, ...values) {
  const transaction = await producer.transaction();
  for (const value of values)
    await transaction.send({ topic, messages: [{ value }] });
  await transaction[end]();
}

/** The values from the start of a topic, until there are so many. */
async function read(topic, readUncommitted, count) {
  const groupId = `${topic}-reader-${readUncommitted}`;
  const consumer = kafka.consumer({ groupId, readUncommitted });
  await consumer.connect();
  opened.push(consumer);
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer
      .run({
        eachMessage: async ({ message }) => {
          found.push(message.value.toString());
          if (found.length === count) resolve();
        },
      })
      .catch(reject);
  });
  return found;
}

/** Copies a topic to another one, a transaction for each record, until there are so many. */
async function copy(id, groupId, from, to, count) {
  const producer = await transactional(id);
  const consumer = kafka.consumer({ groupId, readUncommitted: false });
  await consumer.connect();
  opened.push(consumer);
  await consumer.subscribe({ topic: from, fromBeginning: true });
  let done = 0;
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer
      .run({
        autoCommit: false,
        eachMessage: async ({ topic, partition, message }) => {
          const transaction = await producer.transaction();
          await transaction.send({
            topic: to,
            messages: [{ value: message.value }],
          });
          const offset = String(Number(message.offset) + 1);
          await transaction.sendOffsets({
            consumerGroupId: groupId,
            topics: [{ topic, partitions: [{ partition, offset }] }],
          });
          await transaction.commit();
          done += 1;
          if (done === count) resolve();
        },
      })
      .catch(reject);
  });
}

const tests = {
  async commit() {
    const producer = await transactional(name);
    await write(producer, name, "commit", "a", "b");
    await write(producer, name, "commit", "c");
    assert.deepEqual(await read(name, false, 3), ["a", "b", "c"]);
  },
  async abort() {
    const producer = await transactional(name);
    await write(producer, name, "abort", "a");
    await write(producer, name, "commit", "b");
    assert.deepEqual(await read(name, false, 1), ["b"]);
    assert.deepEqual(await read(name, true, 2), ["a", "b"]);
  },
  async fenced() {
    const older = await transactional(name);
    const transaction = await older.transaction();
    await transaction.send({ topic: name, messages: [{ value: "older" }] });
    const newer = await transactional(name);
    await write(newer, name, "commit", "newer");
    await assert.rejects(transaction.commit(), "a fenced producer commits");
    assert.deepEqual(await read(name, false, 1), ["newer"]);
  },
  async process() {
    const [from, to, group] = [`${name}-in`, `${name}-out`, `${name}-group`];
    const producer = await transactional(`${name}-source`);
    await write(producer, from, "abort", "x");
    await write(producer, from, "commit", "a", "b", "c");
    await copy(name, group, from, to, 3);
    assert.deepEqual(await read(to, false, 3), ["a", "b", "c"]);
    const admin = kafka.admin();
    await admin.connect();
    opened.push(admin);
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [from] });
    assert.equal(found.partitions[0].offset, "5"); // x and its marker are 0 and 1
  },
};

/** Makes the calls of standard input, one in each line, and prints their outcomes. */
async function drive() {
  const { topic } = settings;
  const producer = kafka.producer({
    transactionalId: name,
    idempotent: true,
    maxInFlightRequests: 1,
    metadataMaxAge: Number(settings["metadata.max.age.ms"] ?? 300_000),
  });
  let member;
  // without a transactional id there is no initTransactions
  if (name === undefined) await producer.connect();
  let transaction;
  let sent = [];
  const calls = {
    initTransactions: () => producer.connect(),
    async beginTransaction() {
      transaction = await producer.transaction();
    },
    async send(partition, value) {
      const one = (transaction ?? producer).send({
        topic,
        messages: [{ partition: Number(partition), value }],
      });
      one.catch(() => {});
      sent.push(one);
    },
    async flush() {
      const all = sent;
      sent = [];
      await Promise.all(all);
    },
    async commitTransaction() {
      await Promise.allSettled(sent); // kafkajs commits without them
      await transaction.commit();
    },
    async abortTransaction() {
      await Promise.allSettled(sent);
      sent = [];
      await transaction.abort();
    },
    async values(partition) {
      return (await readAll(topic, Number(partition))).join(",");
    },
    async poll() {
      member ??= await joined(settings["group.id"], settings.input);
      return await member.polled();
    },
    async sendOffsets() {
      await transaction.sendOffsets({
        consumerGroupId: settings["group.id"],
        topics: [{ topic: settings.input, partitions: member.positions() }],
      });
    },
    leave: () => member.consumer.disconnect(),
  };
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const [call, ...given] = line.split(" ");
    try {
      const said = calls[call] ? await calls[call](...given) : "unsupported";
      console.log(typeof said === "string" ? said : "ok");
    } catch (error) {
      console.log(`${error.name} ${error.message}`.replaceAll("\n", " "));
    }
  }
}

/** A member of a group, with the values that come next, and the offsets behind them. */
async function joined(groupId, topic) {
  const consumer = kafka.consumer({ groupId, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  const offsets = new Map();
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      found.push(message.value.toString());
      offsets.set(partition, String(Number(message.offset) + 1));
    },
  });
  return {
    consumer,
    async polled() {
      const until = Date.now() + MEMBER_QUIET_MS;
      while (found.length === 0 && Date.now() < until)
        await new Promise((resolve) => setTimeout(resolve, 100));
      return found.splice(0).join(",");
    },
    positions: () =>
      [...offsets].map(([partition, offset]) => ({ partition, offset })),
  };
}

/** The committed values of a partition: all that come before 2 s pass without one. */
async function readAll(topic, wanted) {
  const groupId = `${topic}-reader-${Math.random()}`;
  const consumer = kafka.consumer({ groupId, readUncommitted: false });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const found = [];
  let last = Date.now() + 4000; // it has to join the group first
  await consumer.run({
    eachMessage: async ({ partition, message }) => {
      last = Date.now();
      if (partition === wanted) found.push(message.value.toString());
    },
  });
  while (Date.now() < last + 2000)
    await new Promise((resolve) => setTimeout(resolve, 100));
  await consumer.disconnect();
  return found;
}

if (isDriven) {
  process.on("unhandledRejection", () => {}); // outside of the call that it belongs to
  await drive();
  process.exit(0);
}

const late = setTimeout(() => fail(new Error("it takes too long")), PATIENCE_MS);

function fail(error) {
  console.error(error.message.split("\n").filter(Boolean).join(" "));
  process.exit(1);
}

// kafkajs reports some failures outside of the call that they belong to
process.on("unhandledRejection", fail);
tests[test]()
  .then(() => Promise.all(opened.map((one) => one.disconnect())))
  .then(() => {
    clearTimeout(late);
    process.exit(0);
  })
  .catch(fail);
