/** The real server, started in a folder of its own, and ended in the ways a process can end. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "../src/index.js";

// How long anything may take on a slow, busy machine.
export const PATIENCE_MS = 120_000;
const POLL_MS = 20;

export class Server {
  #home = mkdtempSync(join(tmpdir(), "windlass-"));
  #port = "0";
  #process;

  /** Starts it, the second time on the same address and data. */
  async start() {
    const binary = process.env.WINDLASS_BIN;
    if (!binary) throw new Error("WINDLASS_BIN names the server's binary; cargo build makes target/debug/windlass");
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("WINDLASS_"));
    const own = { HOME: this.#home, XDG_CONFIG_HOME: join(this.#home, "config"), NO_COLOR: "1", WINDLASS_LOG: "error" };
    this.#process = spawn(resolve(binary), ["up", "--port", this.#port, "-o", "json"], {
      cwd: this.#home,
      env: { ...Object.fromEntries(kept), ...own },
      stdio: ["ignore", "pipe", "inherit"],
    });
    const [line] = await once(createInterface(this.#process.stdout), "line");
    ({ url: this.url, key: this.key } = JSON.parse(line));
    this.#port = new URL(this.url).port;
    this.client = new Client(this.url, this.key);
    return this;
  }

  /** As kill -9. */
  async kill() {
    const ended = once(this.#process, "exit");
    this.#process.kill("SIGKILL");
    await ended;
  }

  async close() {
    await this.kill();
    rmSync(this.#home, { recursive: true });
  }

  async deadLetters(worker) {
    return (await this.client.request("GET", `/dead-letters?worker=${worker}`)).items;
  }
}

/** Looks again until there is something. */
export async function until(found) {
  const end = performance.now() + PATIENCE_MS;
  while (performance.now() < end) {
    const value = await found();
    if (value) return value;
    await sleep(POLL_MS);
  }
  throw new Error("it did not become so in time");
}
