/** What a worker's author writes: a function over deliveries, and errors that say whether to try again. */

const MESSAGE_BYTES_MAX = 4_096;
const RETRY_SECONDS_MAX = 86_400;

export class Retry extends Error {
  constructor(message = "", { after, class: word = "transient" } = {}) {
    super(message);
    this.name = "Retry";
    this.after = after;
    this.class = word;
  }
}

export class Fatal extends Error {
  constructor(message = "", { class: word = "validation" } = {}) {
    super(message);
    this.name = "Fatal";
    this.class = word;
  }
}

export function handler(name, options, handle) {
  const one = async (delivery) => {
    try {
      return emits(await handle(delivery));
    } catch (error) {
      return failureOf(error);
    }
  };
  return made(name, options, async (deliveries) => {
    const outcomes = [];
    for (const delivery of deliveries) outcomes.push(await one(delivery));
    return outcomes;
  });
}

export function batchHandler(name, options, handle) {
  return made(name, options, async (deliveries) => {
    const answers = await handle(deliveries);
    if (answers === undefined || answers === null) return deliveries.map(() => []);
    if (answers.length !== deliveries.length) {
      throw new Error(`the worker answered ${answers.length} of ${deliveries.length} deliveries`);
    }
    return answers.map((one) => (one instanceof Error ? one : emits(one)));
  });
}

function made(name, { types, decode = (data) => data, ...options }, handle) {
  const { attemptsMax, retryBaseMs, retryFactor, retryCapMs, batchMax, orderBy, keyBy, leaseSeconds } = options;
  const { concurrencyMax, debounce, rate, terminal, schedule, watermarks, ignoreOwn } = options;
  const declaration = {
    types: [...(types ?? [])],
    attempts_max: attemptsMax,
    retry_base_ms: retryBaseMs,
    retry_factor: retryFactor,
    retry_cap_ms: retryCapMs,
    batch_max: batchMax,
    order_by: orderBy,
    key_by: keyBy,
    lease_seconds: leaseSeconds,
    concurrency_max: concurrencyMax,
    debounce: debounce && { by: debounce.by, quiet_ms: debounce.quietMs, wait_max_ms: debounce.waitMaxMs },
    rate,
    terminal: terminal && {
      alert: terminal.alert,
      mark_failed: terminal.markFailed,
      compensate: terminal.compensate,
    },
    schedule: schedule && {
      cron: schedule.cron,
      every_seconds: schedule.everySeconds,
      after_seconds: schedule.afterSeconds,
      time_zone: schedule.timeZone,
      missed: schedule.missed,
      window_seconds: schedule.windowSeconds,
    },
    watermarks,
    ignore_own: ignoreOwn,
  };
  return { name, declaration, outcomes: (item, signal) => outcomes(item, signal, decode, handle) };
}

/** Hands over what was polled. There is an outcome for every event, emits or an error, whatever the function does. */
async function outcomes({ id, attempt, events, keys, domain_keys: domainKeys, traceparents, watermarks }, signal, decode, handle) {
  const found = [];
  const deliveries = [];
  const places = [];
  for (const [at, event] of events.entries()) {
    try {
      const domainKey = domainKeys?.[at] ?? undefined;
      const marks = Object.fromEntries((watermarks ?? []).map((one) => [one.name, one]));
      const about = { key: keys[at], domainKey, traceparent: traceparents?.[at], watermarks: marks, attempt, id, signal };
      deliveries.push({ event, data: decode(event.data), ...about });
      places.push(at);
    } catch (error) {
      found[at] = new Fatal(`the data cannot be decoded: ${said(failureOf(error))}`);
    }
  }
  if (deliveries.length === 0) return found;
  const handled = await handle(deliveries).catch((error) => deliveries.map(() => failureOf(error)));
  places.forEach((at, index) => (found[at] = handled[index]));
  return found;
}

/** Anything may be thrown. */
function failureOf(thrown) {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}

function emits(emitted) {
  if (emitted === undefined || emitted === null) return [];
  const all = Array.isArray(emitted) ? emitted : [emitted];
  const isMove = (one) => typeof one?.name === "string" && Number.isInteger(one.version);
  if (!all.every((one) => typeof one?.type === "string" || isMove(one))) {
    throw new TypeError("a worker answers nothing, an event or several");
  }
  return all;
}

/** The message of an error, never empty, never too long. */
export function said(error) {
  const isPlain = (error instanceof Retry || error instanceof Fatal) && error.message;
  const whole = isPlain ? error.message : error.message ? `${error.name}: ${error.message}` : error.name;
  const bytes = new TextEncoder().encode(whole);
  if (bytes.length <= MESSAGE_BYTES_MAX) return whole;
  // A character that is cut in two would come out longer than it went in.
  return new TextDecoder().decode(bytes.subarray(0, MESSAGE_BYTES_MAX)).replace(/\uFFFD+$/, "");
}

/** An outcome as the server reads it. */
export function wire(outcome) {
  if (!(outcome instanceof Error)) {
    const emits = outcome.filter((one) => typeof one.type === "string");
    const emit = emits.map(({ type, data, subject, once }) => ({ type, data, subject, once }));
    const moves = outcome.filter((one) => typeof one.type !== "string");
    const watermarks = moves.map(({ name, value, version }) => ({ name, value, version }));
    return watermarks.length > 0 ? { emit, watermarks } : { emit };
  }
  const isOurs = outcome instanceof Retry || outcome instanceof Fatal;
  const failure = { class: isOurs ? outcome.class : "transient", message: said(outcome) };
  if (outcome instanceof Retry && outcome.after !== undefined) {
    failure.retry_after_seconds = Math.min(Math.max(Math.ceil(outcome.after), 0), RETRY_SECONDS_MAX);
  }
  return failure;
}
