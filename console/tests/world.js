// Starts the real binary with demo data and a real browser. `WINDLASS_BIN` and `CHROMIUM` say which ones.
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

/** How long anything may take: machines that test are slow and busy. */
export const PATIENCE = 60_000;
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"];

/** `windlass up` on a free port, in memory. Gone with `stop`. */
export async function engine() {
  const binary = process.env.WINDLASS_BIN ?? new URL("../../target/debug/windlass", import.meta.url).pathname;
  const child = spawn(binary, ["up", "--ephemeral", "--port", "0", "-o", "json"], { stdio: ["ignore", "pipe", "inherit"] });
  const line = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`windlass ended with ${code}`)));
    child.once("error", reject);
  });
  const { url, key, console: link, tenant } = JSON.parse(line);
  const ask = async (path, options = {}) => {
    const response = await fetch(`${url}/api/v1${path}`, {
      ...options,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json", ...options.headers },
      body: options.body === undefined ? undefined : typeof options.body === "string" ? options.body : JSON.stringify(options.body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  const stop = () => new Promise((resolve) => { child.removeAllListeners("exit"); child.once("exit", resolve); child.kill("SIGKILL"); });
  return { url, key, link, tenant, ask, stop };
}

/** Asks again until the answer is as wanted. */
export async function until(what, probe) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await probe();
    if (found) return found;
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

export async function browser() {
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS, timeout: PATIENCE });
}

/** A fresh session of the browser. With `WINDLASS_CONSOLE_DIST=1` the files come from dist, not from the binary. */
export async function session(launched, options = {}) {
  const context = await launched.newContext({ viewport: { width: 1360, height: 860 }, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error" && /Content Security Policy|Refused/.test(message.text())) faults.push(message.text()); });
  if (process.env.WINDLASS_CONSOLE_DIST) {
    const types = { "index.html": "text/html", "app.js": "text/javascript", "app.css": "text/css" };
    const serve = (name) => async (route) => route.fulfill({
      body: await readFile(new URL(`../dist/${name}`, import.meta.url)), contentType: types[name], headers: { "content-security-policy": "default-src 'self'" },
    });
    for (const name of ["app.js", "app.css"]) await page.route(`**/console/${name}`, serve(name));
    await page.route((url) => url.pathname === "/" || url.pathname.startsWith("/t/"), serve("index.html"));
  }
  return { context, page, faults };
}

/** Waits until a screen has everything that it asked for. */
export const ready = (page, screen) => page.waitForSelector(`main[data-ready="${screen}"]`, { timeout: PATIENCE });
