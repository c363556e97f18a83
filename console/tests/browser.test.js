// The console in a real browser against the real binary: per screen what people do there, and axe without a finding.
//
// Everything waits for a condition; nothing sleeps. One engine and one browser serve all tests, in order.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { browser, engine, ready, session, until } from "./world.js";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
let up, launched, context, page, faults;

before(async () => {
  up = await engine();
  launched = await browser();
  ({ context, page, faults } = await session(launched));
});
after(async () => {
  await launched?.close();
  await up?.stop();
});

const at = (path) => `${up.url}/t/${up.tenant}${path ? `/${path}` : ""}`;
const open = async (path, on = page) => { await on.goto(at(path)); await ready(on, path.split(/[/?]/)[0] || "overview"); };
const text = (selector, on = page) => on.locator(selector).first().innerText();
const publish = (id, data) => up.ask("/events", { method: "POST", body: { specversion: "1.0", id, source: "/test", type: "demo.order.paid", data } });

test("the link that up prints logs in once", async () => {
  await page.goto(up.link);
  await ready(page, "overview");
  assert.equal(new URL(page.url()).pathname, "/t/demo");
  assert.equal(new URL(page.url()).hash, "", "the token is gone from the address");
  const other = await session(launched);
  await other.page.goto(up.link);
  await ready(other.page, "login");
  await other.page.fill("input[name=key]", "wlk_wrong_key");
  await other.page.click("button[type=submit]");
  await other.page.getByRole("alert").waitFor();
  await other.page.fill("input[name=key]", up.key);
  await other.page.click("button[type=submit]");
  await ready(other.page, "overview");
  await other.page.click(".who summary");
  await other.page.getByRole("button", { name: "Log out" }).click();
  await ready(other.page, "login");
  assert.equal((await other.context.cookies()).length, 0);
  await other.context.close();
});

test("a person approves in the inbox and the instance goes on by itself", async () => {
  const [task] = (await up.ask("/tasks")).items;
  await open(`instances/${task.instance}`);
  assert.match(await text("[data-why]"), /waits for somebody of order-managers/);
  await page.locator(".node.amber").waitFor();
  await page.getByRole("link", { name: "Open the task" }).click();
  await ready(page, "inbox");
  // Nothing is said yet: the form says what is missing and nothing is sent.
  await page.getByRole("button", { name: "Complete" }).click();
  await page.getByText("this is needed").waitFor();
  await page.getByRole("button", { name: "Claim" }).click();
  await page.getByRole("button", { name: "Release" }).waitFor();
  await page.getByRole("radio", { name: "Yes" }).check();
  await page.getByRole("button", { name: "Complete" }).click();
  await page.getByRole("link", { name: "Watch it" }).click();
  await page.locator("h1 .state", { hasText: "completed" }).waitFor();
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.locator(".timeline").getByText("askManager").waitFor();
  await page.getByRole("link", { name: "History" }).click();
  await page.getByText("workflow.completed").first().waitFor();
  await page.getByRole("link", { name: "Data" }).click();
  await page.getByRole("heading", { name: "What changed between steps" }).waitFor();
});

test("instances are filtered in the address, and new ones wait behind a pill", async () => {
  await open("instances");
  await page.locator("button.live.live").waitFor();
  const rows = page.locator("tbody tr");
  const before = await rows.count();
  const input = { orderId: "o-7", customer: "c-7", lines: [{ sku: "winch", quantity: 1, unitPrice: 10 }] };
  await up.ask("/instances", { method: "POST", body: { definition: { namespace: "examples", name: "order-approval" }, key: "pill-1", input } });
  const pill = page.locator(".pill");
  await pill.waitFor();
  assert.equal(await rows.count(), before, "nothing moves under the cursor");
  await pill.click();
  await page.locator("tbody tr", { hasText: "pill-1" }).waitFor();
  await page.locator(".chips").getByRole("link", { name: "completed" }).click();
  await page.waitForURL(/q=status%3Acompleted/);
  await page.fill("main [data-search]", "key:nobody");
  await page.keyboard.press("Enter");
  await page.getByText("Nothing matches the filter").waitFor();
  await page.getByRole("button", { name: "Clear the filter" }).click();
  await page.locator("tbody tr", { hasText: "pill-1" }).waitFor();
  await page.fill("main [data-search]", "nofield:x");
  await page.keyboard.press("Enter");
  assert.match(await text(".failure"), /no field "nofield"/);
});

test("what is selected becomes a batch after the count was shown", async () => {
  await open("instances?q=status:waiting");
  await page.locator("tbody input[type=checkbox]").first().check();
  await page.getByRole("region", { name: "Selection" }).getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "pause 1" }).click();
  await ready(page, "batches");
  await page.locator(".head .state", { hasText: "done" }).waitFor();
  await open("batches");
  await page.locator("tbody tr", { hasText: "pause" }).waitFor();
});

test("dead letters come in groups, and a group is replayed as a ramp", async () => {
  await publish("bad-1", { order: "bad-1" });
  await publish("bad-2", { order: "bad-2" });
  await until("two dead letters", async () => (await up.ask("/dead-letters")).items.length === 2);
  await open("dead-letters");
  await page.getByRole("button", { name: "Replay group" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("windlass batch create replay").waitFor();
  assert.equal(await dialog.getByRole("checkbox").isChecked(), true, "one first, then more");
  await dialog.getByRole("button", { name: "replay 2" }).click();
  await ready(page, "batches");
  await page.locator("tbody tr").first().waitFor();
});

test("a definition is looked at, started from a form, and its versions are compared", async () => {
  const source = (await up.ask("/definitions/examples/order-approval")).source;
  const next = source.replace("version: 1.0.0", "version: 1.1.0").replace(".total <= 500", ".total <= 800");
  await up.ask("/definitions", { method: "POST", headers: { "content-type": "application/yaml" }, body: next });
  await open("definitions");
  await page.getByRole("link", { name: "order-approval" }).click();
  await page.locator(".node", { hasText: "askManager" }).waitFor();
  await page.getByRole("button", { name: "Show as table" }).click();
  await page.getByRole("cell", { name: "charge", exact: true }).first().waitFor();
  await page.getByRole("link", { name: "Diff" }).click();
  await page.locator(".diff .plus", { hasText: "800" }).waitFor();
  await page.locator(".tabs").getByRole("link", { name: "Start" }).click();
  await page.getByLabel("JSON").fill('{"orderId":"o-9","customer":"c-1","lines":[{"sku":"a","quantity":1,"unitPrice":5}]}');
  await page.getByRole("button", { name: "Start 1 instance" }).click();
  await ready(page, "instances");
  await page.locator("h1 .state", { hasText: "completed" }).waitFor();
});

test("an event is published, and it says what became of it", async () => {
  await open("events?publish=1");
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Type").fill("demo.order.paid");
  await dialog.getByLabel("JSON").fill('{"order":"good-1","cents":4205}');
  await dialog.getByRole("button", { name: "Publish 1 event" }).click();
  await page.locator(".toast").getByRole("link", { name: "Open" }).click();
  assert.match(await text("[data-why]"), /delivered to 1 worker/);
  await open("events");
  await page.locator("tbody tr", { hasText: "demo.receipt.made" }).first().waitFor();
});

test("a key is made, shown once, and may do no more than its roles", async () => {
  await open("tenants");
  await page.getByRole("button", { name: "Make a key" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Who or what uses it").fill("auditor");
  await dialog.getByRole("button", { name: "Make 1 key" }).click();
  const secret = (await page.getByRole("dialog", { name: "The key is made" }).locator("code").innerText()).trim();
  const viewer = await session(launched);
  await viewer.page.goto(up.url);
  await ready(viewer.page, "login");
  await viewer.page.fill("input[name=key]", secret);
  await viewer.page.click("button[type=submit]");
  await ready(viewer.page, "overview");
  await open("instances?q=status:paused", viewer.page);
  await viewer.page.locator("tbody a").first().click();
  const cancel = viewer.page.getByRole("button", { name: "Cancel" });
  await cancel.waitFor();
  assert.equal(await cancel.getAttribute("aria-disabled"), "true");
  assert.match(await cancel.getAttribute("title"), /instances:order/);
  await viewer.context.close();
});

test("an error says what it is and can be tried again", async () => {
  await page.route("**/api/v1/keys", (route) => route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify({ title: "The server cannot answer now", detail: "later", code: "unavailable", request_id: "req_42" }) }));
  await page.goto(at("tenants"));
  await page.getByText("req_42").waitFor();
  await page.unroute("**/api/v1/keys");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("yours").waitFor();
});

test("the keyboard is enough", async () => {
  await open("");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("g");
  await page.keyboard.press("i");
  await ready(page, "instances");
  await page.locator("tbody tr").first().waitFor();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.locator(".node").first().waitFor();
  await page.locator(".node").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement?.getAttribute("role")), "button");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Find an act" }).fill("explain");
  assert.match(await text(".acts-list li"), /windlass instance explain ins_/);
  await page.keyboard.press("Escape");
});

test("axe finds nothing on any screen, light or dark", async () => {
  const one = async (path) => (await up.ask(path)).items[0];
  const [instance, task, letter, batch, event] = await Promise.all(["/instances", "/tasks?status=open,claimed,completed", "/dead-letters", "/batches", "/events"].map(one));
  const places = ["", "instances", `instances/${instance.id}`, `instances/${instance.id}?tab=timeline`, `instances/${instance.id}?tab=history`, `instances/${instance.id}?tab=data`, `inbox/${task.id}`,
    "dead-letters", ...(letter ? [`dead-letters/${letter.id}`] : []), `batches/${batch.id}`, "definitions", "definitions/examples/order-approval?tab=diff", "definitions/examples/order-approval?tab=start",
    "events", `events/${event.id}`, "workers", "queues/receipts", "schedules", "tenants", "system", "nowhere"];
  const all = [];
  for (const scheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const path of places) {
      await open(path);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
      const found = violations.map((v) => `${v.id}: ${v.nodes.slice(0, 2).map((n) => n.html).join(" | ")}`);
      all.push(...found.map((f) => `${path} ${scheme} ${f}`));
    }
  }
  assert.deepEqual(all, []);
});

test("no script failed and nothing broke the content security policy", () => {
  assert.deepEqual(faults, []);
  assert.ok(context);
});
