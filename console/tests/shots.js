// Pictures of every screen, light and dark, into .shots/: to be looked at.
import { mkdir } from "node:fs/promises";
import { browser, engine, ready, session, until } from "./world.js";

const up = await engine();
await seed(up);
const launched = await browser();
await mkdir(".shots", { recursive: true });
const only = process.argv[2];
try {
  for (const scheme of process.argv[3] ? [process.argv[3]] : ["light", "dark"]) {
    const { context, page, faults } = await session(launched, { colorScheme: scheme });
    await page.goto(`${up.url}/`);
    await ready(page, "login");
    await page.screenshot({ path: `.shots/login-${scheme}.png` });
    await page.fill("input[name=key]", up.key);
    await page.click("button[type=submit]");
    await ready(page, "overview");
    const items = (await up.ask("/instances")).items;
    const waiting = items.find((i) => i.definition.name === "order-approval" && i.status === "waiting");
    const done = items.find((i) => i.status === "completed");
    const task = (await up.ask("/tasks")).items[0];
    const groups = (await up.ask("/dead-letters/groups")).items;
    const letter = (await up.ask("/dead-letters")).items[0];
    const batch = (await up.ask("/batches")).items[0];
    const event = (await up.ask("/events")).items[0];
    const places = {
      overview: "", instances: "instances", instance: `instances/${waiting.id}`, timeline: `instances/${done.id}?tab=timeline`, history: `instances/${done.id}?tab=history`, data: `instances/${done.id}?tab=data`,
      step: `instances/${waiting.id}?step=/do/3/approve/try/0/askManager`, inbox: `inbox/${task.id}`, groups: "dead-letters", letters: `dead-letters?group=${groups[0].group?.id ?? ""}`, letter: `dead-letters/${letter.id}`,
      batches: "batches", batch: `batches/${batch?.id}`, definitions: "definitions", definition: "definitions/examples/order-approval", diff: "definitions/examples/order-approval?tab=diff", start: "definitions/examples/order-approval?tab=start",
      events: "events", event: `events/${event.id}`, workers: "workers", queues: "queues", schedules: "schedules", tenants: "tenants", system: "system",
    };
    for (const [name, path] of Object.entries(places)) {
      if (only && only !== "all" && !only.split(",").includes(name)) continue;
      await page.goto(`${up.url}/t/demo/${path}`);
      await ready(page, path.split(/[/?]/)[0] || "overview");
      await page.waitForTimeout(400);
      await page.screenshot({ path: `.shots/${name}-${scheme}.png` });
    }
    if (!only || only === "all") {
      await page.keyboard.press("Control+k");
      await page.waitForSelector("dialog");
      await page.screenshot({ path: `.shots/palette-${scheme}.png` });
    }
    console.log(scheme, faults);
    await context.close();
  }
} finally {
  await launched.close();
  await up.stop();
}

async function seed(up) {
  for (let n = 0; n < 12; n++) {
    const data = n % 3 ? { order: `o-${n}` } : { order: `o-${n}`, cents: 100 * n };
    await up.ask("/events", { method: "POST", body: { specversion: "1.0", id: `e${n}`, source: "/shop", type: "demo.order.paid", data } });
  }
  for (let n = 0; n < 6; n++) {
    await up.ask("/instances", { method: "POST", body: { definition: { namespace: "examples", name: "order-approval" }, key: `order-${48210 + n}`, input: { orderId: `o-${n}`, customer: "c-1", lines: n % 3 === 2 ? [] : [{ sku: "winch", quantity: n + 1, unitPrice: 120 }] } } });
  }
  const doc = (await up.ask("/definitions/examples/order-approval")).source;
  await up.ask("/definitions", { method: "POST", headers: { "content-type": "application/yaml" }, body: doc.replace("version: 1.0.0", "version: 1.1.0").replace(".total <= 500", ".total <= 800").replace("  - announce:", "  - audit:\n      set:\n        seen: true\n\n  - announce:") });
  await up.ask("/definitions", { method: "POST", headers: { "content-type": "application/yaml" }, body: "document:\n  dsl: 1.0.3\n  namespace: examples\n  name: nightly\n  version: 1.0.0\n  title: Nightly report\nschedule:\n  cron: '0 3 * * *'\ndo:\n  - note:\n      set: { done: true }\n" });
  await until("a dead letter", async () => (await up.ask("/dead-letters/groups")).items.length > 0);
  await up.ask("/batches", { method: "POST", body: { act: "pause", q: "status:waiting definition:provisioning", why: "partner is down" } });
}
