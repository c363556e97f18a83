// The public API and nothing else: requests, problems, the stream of changes.
import { signal } from "@preact/signals";

export interface Page<T> { items: T[]; next: string | null; }
export interface Me { tenant: string; key: string; name: string; roles: string[]; permissions: string[]; }
export interface DefinitionRef { namespace: string; name: string; version: string; }
export interface Instance {
  id: string; definition: DefinitionRef; status: string; key: string | null; parts?: Record<string, string>;
  waiting: { kind: string; until: string | null; task: string | null } | null;
  version: number; parent: { id: string; item?: number } | null;
  created_at: string; updated_at: string; ended_at: string | null;
}
export interface InstanceDetail extends Instance {
  input: unknown; output: unknown; error: { type?: string; title?: string; detail?: string; status?: number } | null;
  context: unknown; calls: { step: string; target: string; attempt: number; due_at: string; last_error: string | null }[];
  children: Record<string, number>; traceparent: string | null; correlation_id: string | null;
}
export interface HistoryItem {
  version: number; kind: string; step?: string; iteration?: string; time: string;
  detail?: { output?: unknown; error?: unknown }; [rest: string]: unknown;
}
export interface Reason { kind: string; text: string; step?: string; until?: string; task?: string; instance?: string; target?: string; dead_letter?: string; }
export interface Explanation { summary: string; reasons: Reason[]; }
export interface Task {
  id: string; instance: string; step: string; title: string; status: string; assignee: string | null;
  candidate_users: string[]; candidate_groups: string[]; payload: unknown; form: unknown; result: unknown;
  priority: number; due_at: string | null; version: number; created_at: string; updated_at: string; ended_at: string | null;
}
export interface TaskDetail extends Task { events: { version: number; kind: string; actor: string; time: string; detail: unknown }[]; }
export interface ErrorGroup {
  id: string; class: string; count: number; first_seen: string; last_seen: string; message: string; source: string;
  step?: string | null; worker: string;
}
export interface DeadLetter {
  id: string; source: string; reason: string; detail: string; instance: string | null; worker: string | null;
  group: string | null; attempts: number; last_node: string; failed_at: string;
}
export interface LetterGroup { group: ErrorGroup | null; letters: number; newest: string; first_failed: string; last_failed: string; }
export interface Batch {
  id: string; act: string; q: string; status: string; by: string; why: string | null; detail: string | null; rate: number;
  counts: { matched: number; waiting: number; sent: number; done: number; failed: number; skipped: number };
  created_at: string; updated_at: string; selected_at: string | null; ended_at: string | null; version: number;
}
export interface Version { namespace: string; name: string; version: string; title: string | null; media_type: string; created_at: string; }
export interface EventRow {
  id: string; event_id: string; source: string; type: string; received_at: string; told: number; taken: number;
  started: number; delivered: number; kept_until: string | null;
}
export interface Schedule {
  id: string; namespace: string; name: string; version: string; kind: string; spec: string; status: string;
  time_zone: string; missed: string; next_slot: string | null; last_slot: string | null; instance: string | null;
}

/** An answer that is no success: RFC 9457. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    readonly requestId: string,
    readonly errors: { pointer: string; message: string; hint?: string; line?: number }[],
  ) {
    super(detail || title);
  }
}

export const me = signal<Me | null>(null);
/** Nobody is logged in, or not any more. */
export const loggedOut = signal(false);

interface Ask { method?: string; body?: unknown; text?: string; type?: string; headers?: Record<string, string>; signal?: AbortSignal; }

export async function ask<T>(path: string, options: Ask = {}): Promise<T> {
  const headers: Record<string, string> = { accept: "application/json", ...options.headers };
  const method = options.method ?? "GET";
  if (method !== "GET") headers["windlass-csrf"] = "1";
  let body: string | undefined;
  if (options.text !== undefined) {
    body = options.text;
    headers["content-type"] = options.type ?? "application/yaml";
  } else if (options.body !== undefined) {
    body = JSON.stringify(options.body);
    headers["content-type"] = options.type ?? "application/json";
  }
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, { method, headers, body, signal: options.signal, credentials: "same-origin" });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The server does not answer", "It may be restarting; nothing that it has acknowledged is lost.", "", []);
  }
  const text = await response.text();
  if (response.ok) return (text && response.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text) as T;
  let found: Partial<Problem> & { request_id?: string; errors?: Problem["errors"] } = {};
  try { found = JSON.parse(text); } catch { /* not a problem document: the status has to do */ }
  if (response.status === 401 && path !== "/session") loggedOut.value = true;
  throw new Problem(
    response.status, found.code ?? "unknown", found.title ?? response.statusText, found.detail ?? "",
    found.request_id ?? response.headers.get("x-request-id") ?? "", found.errors ?? [],
  );
}

export const post = <T = unknown>(path: string, body?: unknown, headers?: Record<string, string>) =>
  ask<T>(path, { method: "POST", body, headers });

/** A path with query parameters; empty ones are left out. */
export function query(path: string, parameters: Record<string, string | number | null | undefined>): string {
  const pairs = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

export function may(permission: string): boolean {
  return me.value?.permissions.includes(permission) ?? false;
}

// ---- the stream of changes ----

export interface Change { kind: string; id: string; status: string; }
export type Live = "live" | "paused" | "stopped" | "off";

export const live = signal<Live>("off");
/** Since when nothing is heard. */
export const stoppedAt = signal<number | null>(null);
const listeners = new Set<(changes: Change[]) => void>();
let source: EventSource | null = null;
let waiting: Change[] = [];
let timer: ReturnType<typeof setTimeout> | undefined;

/** Calls back with what changed, several at once. */
export function onChange(listener: (changes: Change[]) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

function tell(change: Change) {
  waiting.push(change);
  timer ??= setTimeout(() => {
    timer = undefined;
    const changes = waiting;
    waiting = [];
    if (live.value !== "paused") listeners.forEach((listener) => listener(changes));
  }, 250);
}

const KINDS = ["instance", "task", "dead-letter", "batch"];
/** Something may have changed meanwhile: everything is read again. */
const tellAll = () => KINDS.forEach((kind) => tell({ kind, id: "", status: "" }));

export function connect() {
  if (source || !may("stream:read") || live.value === "paused") return;
  source = new EventSource("/api/v1/stream");
  // What happened between the first read and now was told to nobody.
  source.onopen = () => { live.value = "live"; stoppedAt.value = null; tellAll(); };
  source.onerror = () => {
    if (live.value === "live" || live.value === "off") { live.value = "stopped"; stoppedAt.value = Date.now(); }
    // A browser gives up for good when it is refused.
    if (source?.readyState === EventSource.CLOSED) { source = null; setTimeout(connect, 5000); }
  };
  for (const kind of KINDS) source.addEventListener(kind, (event) => tell(JSON.parse((event as MessageEvent).data)));
  source.addEventListener("reset", tellAll);
}

export function disconnect() {
  source?.close();
  source = null;
}

export function togglePause() {
  if (live.value === "paused") {
    live.value = "off";
    connect();
  } else {
    live.value = "paused";
    disconnect();
  }
}

document.addEventListener("visibilitychange", () => {
  // Browsers allow six streams for a host: a hidden tab needs none.
  if (document.hidden) disconnect();
  else if (me.value) connect();
});
