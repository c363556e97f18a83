/** A process that works for handlers until it is told to end, and then finishes what it has begun. */

import { Away, Client, Refused } from "./client.js";
import { Lane, Patience, Stop } from "./lane.js";

// How long one request waits for a delivery; a worker that ends waits for that request.
const POLL_SECONDS = 10;
const SIGNALS = ["SIGTERM", "SIGINT"];

export class Worker {
  #client;
  #pollSeconds;
  #log;
  #handlers = [];
  #stop = new Stop();

  constructor(client, { pollSeconds = POLL_SECONDS, log = (message) => console.warn(message) } = {}) {
    this.#client = client;
    this.#pollSeconds = pollSeconds;
    this.#log = log;
  }

  static fromEnv() {
    return new Worker(Client.fromEnv());
  }

  add(handler) {
    this.#handlers.push(handler);
    return this;
  }

  async run({ concurrency = 10 } = {}) {
    if (!(concurrency >= 1) || this.#handlers.length === 0) {
      throw new TypeError("a worker needs a handler and a concurrency of at least 1");
    }
    const told = () => this.stop();
    // Once: the second one ends the process as usual.
    for (const name of SIGNALS) process.once(name, told);
    try {
      await Promise.all(this.#handlers.map((handler) => this.#work(handler, concurrency)));
    } finally {
      this.stop();
      for (const name of SIGNALS) process.removeListener(name, told);
    }
  }

  stop() {
    this.#stop.now();
  }

  async #work(handler, concurrency) {
    let leaseSeconds;
    try {
      leaseSeconds = await this.#declare(handler);
    } catch (error) {
      // The others end too: what is wrong with this one has to be seen.
      this.stop();
      throw error;
    }
    if (leaseSeconds === undefined) return;
    const lane = new Lane(this.#client, handler, this.#stop, this.#log);
    lane.declare = () => this.#declare(handler);
    await lane.work(Math.floor(concurrency), leaseSeconds, this.#pollSeconds);
  }

  /** Answers the lease; undefined if the process ends before the server answers. */
  async #declare(handler) {
    const patience = new Patience();
    while (!this.#stop.isSet) {
      try {
        return (await this.#declared(handler)).lease_seconds;
      } catch (error) {
        if (!(error instanceof Away)) throw error;
        this.#log(`worker ${handler.name} is not declared yet: ${error.message}`);
        await this.#stop.wait(patience.next(error.retryAfter));
      }
    }
    return undefined;
  }

  async #declared({ name, declaration }) {
    try {
      return await this.#client.request("PUT", `/workers/${encodeURIComponent(name)}`, declaration);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 403) throw error;
      // The role `worker` handles what others have declared.
      const { items } = await this.#client.request("GET", "/workers");
      const found = items.find((one) => one.name === name);
      if (!found) throw error;
      return found;
    }
  }
}
