/** Talks to the server: one JSON request, one answer, and errors named for what the caller does about them. */

import { randomUUID } from "node:crypto";

const DEFAULT_URL = "http://127.0.0.1:8400";
const REQUEST_MS_MAX = 30_000;
// Refusals that are about the moment, not about the request.
const TRY_AGAIN = [408, 425, 429];
const LOST = ["delivery-lost", "watermark-moved"];

export class Away extends Error {
  constructor(message, retryAfter = 0) {
    super(message);
    this.name = "Away";
    this.retryAfter = retryAfter;
  }
}

export class Refused extends Error {
  constructor(status, code, detail) {
    super(`${status} ${code}: ${detail}`);
    this.name = "Refused";
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

export class Lost extends Refused {}

export class Client {
  #url;
  #key;

  constructor(url, key) {
    if (!/^https?:$/.test(new URL(url).protocol)) throw new TypeError(`${url} is not an address such as ${DEFAULT_URL}`);
    if (!key) throw new TypeError("a key is needed; see WINDLASS_KEY");
    this.#url = url.replace(/\/+$/, "");
    this.#key = key;
  }

  static fromEnv() {
    return new Client(process.env.WINDLASS_URL || DEFAULT_URL, process.env.WINDLASS_KEY ?? "");
  }

  async publish(...events) {
    const whole = events.map((one) => ({ specversion: "1.0", id: randomUUID(), source: "sdk/typescript", ...one }));
    const contentType = "application/cloudevents-batch+json";
    return (await this.request("POST", "/events", whole, { contentType })).items;
  }

  async request(method, path, body, { timeoutMs = REQUEST_MS_MAX, contentType = "application/json" } = {}) {
    const payload = body === undefined ? undefined : JSON.stringify(body);
    const { answer, text } = await this.#exchange(method, path, payload, contentType, timeoutMs);
    const said = parsed(text);
    if (answer.ok) return said;
    const { code = "", detail = answer.statusText } = said ?? {};
    if (answer.status >= 500 || TRY_AGAIN.includes(answer.status)) {
      throw new Away(`${answer.status} ${code}: ${detail}`, Number(answer.headers.get("retry-after")) || 0);
    }
    throw new (LOST.includes(code) ? Lost : Refused)(answer.status, code, detail);
  }

  async #exchange(method, path, body, contentType, timeoutMs) {
    const headers = { authorization: `Bearer ${this.#key}`, "content-type": contentType };
    // It takes whole milliseconds only.
    const signal = AbortSignal.timeout(Math.ceil(timeoutMs));
    try {
      const answer = await fetch(`${this.#url}/api/v1${path}`, { method, headers, body, signal });
      return { answer, text: await answer.text() };
    } catch (error) {
      throw new Away(error.cause?.message || error.message);
    }
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
