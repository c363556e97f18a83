/** Workers for events of Windlass: a function, a name, and the types of events it wants. */

/** A CloudEvent; other attributes are kept. */
export interface CloudEvent {
  readonly specversion: string;
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly subject?: string;
  readonly time?: string;
  readonly data?: unknown;
  readonly [attribute: string]: unknown;
}

/** One event for one worker. */
export interface Delivery<T = unknown> {
  /** The CloudEvent, whole. */
  readonly event: CloudEvent;
  /** What it carries, decoded. */
  readonly data: T;
  /** The same on every attempt: give it to whatever must happen once. */
  readonly key: string;
  /** The same for all events with the same value at `keyBy`, if the worker has that. */
  readonly domainKey?: string;
  /** Those that the worker names, by name. Answering `{ ...watermark, value }` beside what is emitted moves one on. */
  readonly watermarks: Readonly<Record<string, Watermark>>;
  /** The W3C trace context of this delivery: give it to whatever you call. */
  readonly traceparent?: string;
  /** 1 on the first attempt. */
  readonly attempt: number;
  /** Of the delivery; those of one batch have the same. */
  readonly id: string;
  /** Aborted once somebody else may have it: a long handler stops then. */
  readonly signal: AbortSignal;
}

/** How far a worker has come; null and version 0 at first. */
export interface Watermark {
  readonly name: string;
  readonly value: unknown;
  readonly version: number;
}

/** An event that follows. It is published exactly when the delivery is done. */
export interface Emit {
  readonly type: string;
  readonly data?: unknown;
  readonly subject?: string;
  /** Of this worker one event with the key is emitted, whatever deliveries they come from. */
  readonly once?: string;
}

export type Emitted = void | undefined | null | Emit | Watermark | readonly (Emit | Watermark)[];

/** The attempt failed: try again by the worker's policy, not before `after` seconds. */
export class Retry extends Error {
  constructor(message?: string, options?: { after?: number; class?: "transient" | "rate-limited" | "auth" });
  readonly after: number | undefined;
  readonly class: "transient" | "rate-limited" | "auth";
}

/** The attempt failed, and so would every other: it becomes a dead letter. */
export class Fatal extends Error {
  constructor(message?: string, options?: { class?: "validation" | "poison" });
  readonly class: "validation" | "poison";
}

export interface HandlerOptions<T> {
  /** Types of events; one that ends with `*` is the beginning of a type. */
  types?: readonly string[];
  /** Makes the function's own type of the event's data; data it throws at becomes a dead letter. */
  decode?: (data: unknown) => T;
  /** Attempts in all, the first included; 5 unless given. */
  attemptsMax?: number;
  /** The first wait after a failure; 200 unless given. */
  retryBaseMs?: number;
  /** How much longer each further wait is; 2 unless given. */
  retryFactor?: number;
  /** The longest wait after a failure; 60000 unless given. */
  retryCapMs?: number;
  /** `subject`, or a path such as `data.order.id`: events with the same value come one after the other. */
  orderBy?: string;
  /** The same; of events with the same value one has an effect. */
  keyBy?: string;
  /** Deliveries that may be under way at the same time, in all processes. */
  concurrencyMax?: number;
  /** Of events that follow each other closely the last is delivered. */
  debounce?: { by?: string; quietMs: number; waitMaxMs?: number };
  /** How many events are handed out in so many seconds (1 unless given); those beyond it wait. */
  rate?: { max: number; seconds?: number };
  /** What is emitted besides the dead letter when an event is given up. */
  terminal?: { alert?: boolean; markFailed?: string; compensate?: string };
  /** When it runs by itself: one of the first three. A run is an event of the type `windlass.schedule.due`. */
  schedule?: {
    cron?: string;
    everySeconds?: number;
    afterSeconds?: number;
    timeZone?: string;
    missed?: "latest" | "all" | "skip" | "window";
    windowSeconds?: number;
  };
  /** Names of the watermarks that it reads and moves. */
  watermarks?: readonly string[];
  /** What it emits itself is not delivered to it. */
  ignoreOwn?: boolean;
  /** How long nobody else gets a delivery without a heartbeat; 60 unless given. */
  leaseSeconds?: number;
}

/** A named function and what is declared of it. */
export interface Handler {
  readonly name: string;
  readonly declaration: Readonly<Record<string, unknown>>;
}

/** Makes a worker of a function over one delivery. */
export function handler<T = unknown>(
  name: string,
  options: HandlerOptions<T>,
  handle: (delivery: Delivery<T>) => Emitted | Promise<Emitted>,
): Handler;

/**
 * Makes a worker of a function over several deliveries. It answers nothing if all are done, or an array with one entry
 * for each: what it emits, or the error that it failed with. If it throws, all failed.
 */
export function batchHandler<T = unknown>(
  name: string,
  options: HandlerOptions<T> & { batchMax: number },
  handle: (deliveries: readonly Delivery<T>[]) => BatchAnswer | Promise<BatchAnswer>,
): Handler;

export type BatchAnswer = void | undefined | null | readonly (Emitted | Error)[];

/** The server does not answer, or not now: try again later. */
export class Away extends Error {
  readonly retryAfter: number;
}

/** The server answered and said no: the same request would be refused again. */
export class Refused extends Error {
  readonly status: number;
  readonly code: string;
  readonly detail: string;
}

/** The delivery is done, or somebody else has it by now: drop it. */
export class Lost extends Refused {}

/** What came of an event that was published. */
export interface Accepted {
  readonly id: string;
  readonly replayed: boolean;
  readonly started: readonly string[];
}

/** One server and one key. */
export class Client {
  constructor(url: string, key: string);
  /** WINDLASS_URL and WINDLASS_KEY, as the command line reads them. */
  static fromEnv(): Client;
  /** Publishes CloudEvents in one request; `id` is needed if publishing twice must count once. */
  publish(...events: (Partial<CloudEvent> & { type: string })[]): Promise<Accepted[]>;
  /** Asks for a path under /api/v1. Answers what the server said; null if nothing. */
  request(method: string, path: string, body?: unknown, options?: { timeoutMs?: number; contentType?: string }): Promise<any>;
}

/** Asks for deliveries of its handlers and answers them. */
export class Worker {
  constructor(client: Client, options?: { pollSeconds?: number; log?: (message: string) => void });
  static fromEnv(): Worker;
  add(handler: Handler): this;
  /**
   * Works, up to `concurrency` deliveries of each handler at once, until SIGTERM, SIGINT or `stop`. Ends once everything
   * that was begun is answered; throws `Refused` if a handler cannot be declared.
   */
  run(options?: { concurrency?: number }): Promise<void>;
  /** Tells `run` to finish what it has begun and end. */
  stop(): void;
}
