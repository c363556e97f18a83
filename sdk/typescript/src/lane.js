/** One handler at work: asks for as many deliveries as there are free hands, keeps them, answers them. */

import { Away, Lost, Refused } from "./client.js";
import { Retry, said, wire } from "./handler.js";

const DELIVERIES_MAX = 1_000;
// Answers are taken together, so hands become free together: one request for all of them is worth a moment.
const GATHER_SECONDS = 0.005;
const BACK_OFF_SECONDS = 0.1;
const BACK_OFF_SECONDS_MAX = 5;
// How long a worker that ends tries to answer a server that is away.
const DRAIN_SECONDS_MAX = 30;
const HEARTBEAT_MS_MIN = 1_000;

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

/** How long to wait before the next try: up to twice as long each time, and anywhere below, so that many workers do not
 * come back together. */
export class Patience {
  #ceiling = BACK_OFF_SECONDS;

  next(atLeast = 0) {
    this.#ceiling = Math.min(this.#ceiling * 2, BACK_OFF_SECONDS_MAX);
    return atLeast + Math.random() * this.#ceiling;
  }
}

/** Whether the process was told to end, and until when it tries to answer. */
export class Stop {
  #waiting = new Set();
  #answerBy = Infinity;
  isSet = false;

  now() {
    if (this.isSet) return;
    this.isSet = true;
    this.#answerBy = performance.now() + DRAIN_SECONDS_MAX * 1000;
    for (const wake of this.#waiting) wake();
  }

  /** Ends early when the process is told to end. */
  wait(seconds) {
    if (this.isSet) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, seconds * 1000);
      this.#waiting.add(wake);
    });
  }

  get isOver() {
    return performance.now() > this.#answerBy;
  }
}

export class Lane {
  #client;
  #handler;
  #stop;
  #log;
  #inHand = new Set();
  #leaseSeconds;
  #pollSeconds;

  constructor(client, handler, stop, log) {
    this.#client = client;
    this.#handler = handler;
    this.#stop = stop;
    this.#log = (message) => log(`worker ${handler.name}: ${message}`);
  }

  /** Ends once the worker is told to and everything is answered. */
  async work(concurrency, leaseSeconds, pollSeconds) {
    this.#leaseSeconds = leaseSeconds;
    this.#pollSeconds = pollSeconds;
    let patience = new Patience();
    while (!this.#stop.isSet) {
      const free = Math.min(concurrency - this.#inHand.size, DELIVERIES_MAX);
      if (free === 0) {
        await Promise.race(this.#inHand);
        await sleep(GATHER_SECONDS);
        continue;
      }
      try {
        for (const item of await this.#poll(free)) this.#begin(item);
        patience = new Patience();
      } catch (error) {
        await this.#notPolled(error, patience);
      }
    }
    await Promise.all(this.#inHand);
  }

  async #poll(max) {
    const path = `/workers/${encodeURIComponent(this.#handler.name)}/poll`;
    const timeoutMs = (this.#pollSeconds + 30) * 1000;
    const body = { max, wait_seconds: this.#pollSeconds };
    return (await this.#client.request("POST", path, body, { timeoutMs })).items;
  }

  async #notPolled(error, patience) {
    this.#log(`cannot ask for deliveries: ${error.message}`);
    await this.#stop.wait(patience.next(error.retryAfter));
    if (error instanceof Refused && error.status === 404) {
      await this.declare().catch((again) => this.#log(`cannot be declared: ${again.message}`));
    }
  }

  #begin(item) {
    const handling = this.#handle(item)
      .catch((error) => this.#log(`delivery ${item.id} is left to come again: ${error.message}`))
      .finally(() => this.#inHand.delete(handling));
    this.#inHand.add(handling);
  }

  async #handle(item) {
    const lost = new AbortController();
    let beat = Promise.resolve();
    const beating = setInterval(() => {
      beat = beat.then(() => this.#beat(item, lost));
    }, (this.#leaseSeconds * 1000) / 3);
    const outcomes = await this.#handler.outcomes(item, lost.signal).finally(() => clearInterval(beating));
    // A heartbeat that overtook the answer would change when a failed one comes again.
    await beat;
    await this.#settle(item, outcomes);
  }

  async #settle(item, outcomes) {
    for (const outcome of outcomes) {
      if (outcome instanceof Error) this.#log(`attempt ${item.attempt} failed: ${outcome.stack}`);
    }
    try {
      await this.#answer(item, ...answerOf(outcomes));
    } catch (error) {
      if (error instanceof Lost) return this.#log(`delivery ${item.id} is somebody else's`);
      if (error instanceof Away) throw error;
      // What the handler answered cannot be taken: that is a failure of the attempt, and counts as one.
      const failure = wire(new Retry(`the answer cannot be taken: ${said(error)}`));
      await this.#answer(item, "complete", { results: outcomes.map(() => failure) });
    }
  }

  /** Answers, however long the server is away: it may still be ours when it comes back. */
  async #answer({ id, attempt }, verb, body) {
    const patience = new Patience();
    for (;;) {
      try {
        await this.#client.request("POST", `/deliveries/${id}/${verb}`, { attempt, ...body });
        return;
      } catch (error) {
        if (!(error instanceof Away) || this.#stop.isOver) throw error;
        this.#log(`no answer taken yet: ${error.message}`);
        await sleep(patience.next(error.retryAfter));
      }
    }
  }

  /** Says of a delivery that takes long that it is still being handled. */
  async #beat({ id, attempt }, lost) {
    if (lost.signal.aborted) return;
    const seconds = this.#leaseSeconds;
    const timeoutMs = Math.max((seconds * 1000) / 3, HEARTBEAT_MS_MIN);
    try {
      await this.#client.request("POST", `/deliveries/${id}/heartbeat`, { attempt, seconds }, { timeoutMs });
    } catch (error) {
      if (error instanceof Lost) lost.abort(error);
      else this.#log(`a heartbeat was not heard: ${error.message}`);
    }
  }
}

/** What to say, and how: one event is done or failed, several are answered one by one. */
function answerOf(outcomes) {
  if (outcomes.length === 1) return [outcomes[0] instanceof Error ? "fail" : "complete", wire(outcomes[0])];
  return ["complete", outcomes.length === 0 ? {} : { results: outcomes.map(wire) }];
}
