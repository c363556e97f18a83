/** Workers against the real server. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Fatal, Refused, Retry, Worker, batchHandler, handler } from "../src/index.js";
import { Server, until } from "./server.js";

const server = new Server();
before(() => server.start());
after(() => server.close());

/** A worker for the time of `body`: declared when it begins, drained when it ends. */
async function working(handlers, body, { at = server, concurrency = 4, key = at.key, declare = true } = {}) {
  // Failures are what these tests are about: their log would hide the others.
  const worker = new Worker(new Client(at.url, key), { pollSeconds: 1, log: () => {} });
  for (const one of handlers) {
    worker.add(one);
    // What is published before a worker is declared is not for it.
    if (declare) await at.client.request("PUT", `/workers/${one.name}`, one.declaration);
  }
  const running = worker.run({ concurrency });
  try {
    await body();
  } finally {
    worker.stop();
    await running;
  }
}

const letters = (worker, count) =>
  until(async () => {
    const found = await server.deadLetters(worker);
    return found.length === count && found;
  });

test("an event is handled", async () => {
  const seen = [];
  const decode = (data) => ({ order: String(data.id) });
  const one = handler("one", { types: ["one.created"], decode }, (delivery) => void seen.push(delivery));
  await working([one], async () => {
    await server.client.publish({ type: "one.created", subject: "o-1", data: { id: 1 } }, { type: "one.removed" });
    await until(() => seen.length);
  });
  const [{ event, data, key, attempt }] = seen;
  assert.equal(seen.length, 1);
  assert.deepEqual(data, { order: "1" });
  assert.deepEqual([event.type, event.subject, attempt, key.length], ["one.created", "o-1", 1, 64]);
});

test("a retry has the same key and the next attempt", async () => {
  const seen = [];
  const again = handler("again", { types: ["again.created"], retryBaseMs: 1 }, async ({ key, attempt }) => {
    seen.push([key, attempt]);
    if (attempt === 1) throw new Retry("not yet", { after: 0.5 });
    if (attempt === 2) throw new Error("any other error is tried again too");
  });
  await working([again], async () => {
    await server.client.publish({ type: "again.created" });
    await until(() => seen.length === 3);
  });
  assert.deepEqual(seen, [1, 2, 3].map((attempt) => [seen[0][0], attempt]));
  assert.deepEqual(await server.deadLetters("again"), []);
});

test("a fatal error becomes a dead letter", async () => {
  const decode = (data) => {
    if (typeof data?.cents !== "number") throw new TypeError("no cents");
    return data.cents;
  };
  const fatal = handler("fatal", { types: ["fatal.created"], decode }, () => {
    throw new Fatal("card declined");
  });
  await working([fatal], async () => {
    await server.client.publish({ type: "fatal.created", data: { cents: 1 } });
    const [letter] = await letters("fatal", 1);
    assert.deepEqual([letter.detail, letter.attempts], ["validation: card declined", 1]);
    await server.client.publish({ type: "fatal.created" });
    const [newest] = await letters("fatal", 2);
    assert.match(newest.detail, /the data cannot be decoded: TypeError: no cents/);
  });
});

test("attempts that are used up make a dead letter", async () => {
  const options = { types: ["used-up.created"], attemptsMax: 2, retryBaseMs: 1 };
  const usedUp = handler("used-up", options, () => Promise.reject("the bank is closed"));
  await working([usedUp], async () => {
    await server.client.publish({ type: "used-up.created" });
    const [letter] = await letters("used-up", 1);
    assert.deepEqual([letter.reason, letter.attempts], ["retries-exhausted", 2]);
  });
});

test("of a batch only what failed comes again", async () => {
  const seen = [];
  const odds = [];
  const options = { types: ["batch.created"], batchMax: 10, retryBaseMs: 1 };
  const batch = batchHandler("batch", options, async (deliveries) => {
    seen.push(deliveries.map(({ data, attempt }) => [data, attempt]));
    const isBad = ({ data, attempt }) => data === 1 && attempt === 1;
    return deliveries.map((one) => (isBad(one) ? new Retry("not this one") : { type: "batch.odd" }));
  });
  const count = handler("odds", { types: ["batch.odd"] }, ({ key }) => void odds.push(key));
  await working([batch, count], async () => {
    await server.client.publish(...[0, 1, 2].map((data) => ({ type: "batch.created", data })));
    await until(() => odds.length === 3);
  });
  assert.deepEqual(seen, [[[0, 1], [1, 1], [2, 1]], [[1, 2]]]);
  assert.equal(new Set(odds).size, 3);
});

test("what is emitted reaches another worker", async () => {
  const seen = [];
  const first = handler("first", { types: ["chain.begun"], orderBy: "subject" }, async ({ event, data }) => [
    { type: "chain.ended", data: { of: data }, subject: event.subject },
  ]);
  const second = handler("second", { types: ["chain.ended"] }, ({ event }) => void seen.push(event));
  await working([first, second], async () => {
    await server.client.publish({ type: "chain.begun", subject: "s", data: [1] });
    await until(() => seen.length);
  });
  assert.deepEqual(seen.map(({ data, subject }) => [data, subject]), [[{ of: [1] }, "s"]]);
});

test("a handler longer than its lease keeps the delivery", async () => {
  const seen = [];
  const long = handler("long", { types: ["long.created"], leaseSeconds: 4 }, async ({ attempt, signal }) => {
    await sleep(9_000);
    seen.push([attempt, signal.aborted]);
  });
  await working([long], async () => {
    await server.client.publish({ type: "long.created" });
    await until(() => seen.length);
  });
  assert.deepEqual(seen, [[1, false]]);
});

test("a lost delivery is dropped", async () => {
  const seen = [];
  const lost = handler("lost", { types: ["lost.created"], leaseSeconds: 1 }, async ({ id, data, signal }) => {
    seen.push(data);
    if (data !== "first") return;
    // As if another had answered.
    await server.client.request("POST", `/deliveries/${id}/complete`, { attempt: 1 });
    await until(() => signal.aborted);
  });
  const body = async () => {
    await server.client.publish({ type: "lost.created", data: "first" });
    await until(() => seen.length);
    await server.client.publish({ type: "lost.created", data: "second" });
    await until(() => seen.length === 2);
  };
  await working([lost], body, { concurrency: 1 });
  assert.deepEqual(seen, ["first", "second"]);
});

test("an answer that cannot be taken is a failed attempt", async () => {
  const bad = handler("bad", { types: ["bad.created"], attemptsMax: 1 }, ({ data }) =>
    data === "bigint" ? { type: "bad.emitted", data: 1n } : { type: "" },
  );
  await working([bad], async () => {
    await server.client.publish({ type: "bad.created", data: "bigint" }, { type: "bad.created" });
    for (const { detail } of await letters("bad", 2)) assert.match(detail, /the answer cannot be taken/);
  });
});

test("a declaration that is refused is an error", async () => {
  const nameless = handler("no such name!", { types: ["x"] }, () => {});
  await assert.rejects(new Worker(server.client).add(nameless).run(), Refused);
});

test("a key that may not declare handles what is declared", async () => {
  const { secret } = await server.client.request("POST", "/keys", { name: "worker", roles: ["worker"] });
  const seen = [];
  const given = handler("given", { types: ["given.created"] }, ({ data }) => void seen.push(data));
  await assert.rejects(new Worker(new Client(server.url, secret)).add(given).run(), Refused);
  await server.client.request("PUT", "/workers/given", given.declaration);
  await server.client.publish({ type: "given.created", data: 7 });
  await working([given], () => until(() => seen.length), { key: secret, declare: false });
  assert.deepEqual(seen, [7]);
});

test("SIGTERM drains", async (t) => {
  const script = `
    import { Worker, handler } from "./src/index.js";
    const drained = handler("drained", { types: ["drained.created"] }, () => {
      console.log("begun");
      return new Promise((resolve) => process.stdin.once("data", () => resolve()));
    });
    await Worker.fromEnv().add(drained).run({ concurrency: 1 });
    process.stdin.destroy();`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    cwd: new URL("..", import.meta.url),
    env: { ...process.env, WINDLASS_URL: server.url, WINDLASS_KEY: server.key },
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await until(async () => {
    const { items } = await server.client.request("GET", "/workers");
    return items.some(({ name }) => name === "drained");
  });
  await server.client.publish({ type: "drained.created" });
  await once(child.stdout, "data");
  child.kill("SIGTERM");
  await sleep(500);
  assert.equal(child.exitCode, null, "it waits for its handler");
  child.stdin.write("end\n");
  assert.deepEqual(await ended, [0, null]);
  assert.deepEqual((await server.client.request("POST", "/workers/drained/poll", { max: 1 })).items, []);
});

test("a worker goes on when the server comes back", async (t) => {
  const own = await new Server().start();
  t.after(() => own.close());
  const handled = [];
  const emitted = [];
  let back;
  const isBack = new Promise((resolve) => (back = resolve));
  const steady = handler("steady", { types: ["steady.created"] }, async ({ data, attempt }) => {
    handled.push([data, attempt]);
    await isBack;
    return { type: "steady.done", data };
  });
  const done = handler("after", { types: ["steady.done"] }, ({ data }) => void emitted.push(data));
  const body = async () => {
    await own.client.publish({ type: "steady.created", data: "before" });
    await until(() => handled.length);
    await own.kill();
    back();
    await own.start();
    await until(() => emitted.length);
    await own.client.publish({ type: "steady.created", data: "after" });
    await until(() => emitted.length === 2);
  };
  await working([steady, done], body, { at: own });
  assert.deepEqual(emitted, ["before", "after"]);
  assert.deepEqual(handled, [["before", 1], ["after", 1]]);
});
