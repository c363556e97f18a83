// Pure helpers: words for times, folding of gaps, differences, queries, forms. Tested with `node --test`.

/** A length of time in at most two units. */
export function duration(ms: number): string {
  const abs = Math.abs(ms);
  if (abs < 1000) return `${Math.round(abs)} ms`;
  if (abs < 60_000) return `${(abs / 1000).toFixed(abs < 10_000 ? 1 : 0)} s`;
  const units: [number, string][] = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "m"], [1000, "s"]];
  const first = units.findIndex(([size]) => abs >= size);
  const [size, word] = units[first]!;
  const whole = Math.floor(abs / size);
  const next = units[first + 1];
  const rest = next ? Math.floor((abs - whole * size) / next[0]) : 0;
  return rest && next ? `${whole} ${word} ${rest} ${next[1]}` : `${whole} ${word}`;
}

/** "3 h ago", "in 5 m", "now". */
export function relative(at: string | null | undefined, now: number): string {
  if (!at) return "–";
  const ms = Date.parse(at) - now;
  if (Number.isNaN(ms)) return at;
  if (Math.abs(ms) < 1000) return "now";
  // Whole units: what is told against now must not flicker.
  const words = Math.abs(ms) < 60_000 ? `${Math.round(Math.abs(ms) / 1000)} s` : duration(ms).split(" ").slice(0, 2).join(" ");
  return ms < 0 ? `${words} ago` : `in ${words}`;
}

/** The whole time, to be read by people. */
export function clock(at: string | null | undefined, utc: boolean): string {
  if (!at) return "–";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const pad = (n: number, width = 2) => String(n).padStart(width, "0");
  const [y, mo, d, h, mi, s, ms] = utc
    ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds(), date.getUTCMilliseconds()]
    : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds(), date.getMilliseconds()];
  return `${y}-${pad(mo! + 1)}-${pad(d!)} ${pad(h!)}:${pad(mi!)}:${pad(s!)}.${pad(ms!, 3)}${utc ? "Z" : ""}`;
}

/** The beginning of an id that is enough to tell it from others, with its kind. */
export function shortId(id: string): string {
  const [kind, rest] = id.split("_", 2);
  return rest && rest.length > 14 ? `${kind}_${rest.slice(0, 4)}…${rest.slice(-6)}` : id;
}

/** The last part of a step's reference, which is its name. */
export function stepName(step: string | null | undefined): string {
  return step ? step.split("/").pop() || step : "";
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
}

// ---- timeline ----

export interface Bar {
  step: string;
  iteration: string;
  name: string;
  depth: number;
  start: number;
  end: number | null;
  state: string;
  attempts: number;
  output?: unknown;
  error?: unknown;
}

export interface Told {
  kind: string;
  step?: string;
  iteration?: string;
  time: string;
  detail?: { output?: unknown; error?: unknown };
}

const ENDS: Record<string, string> = {
  "step.completed": "completed", "step.faulted": "faulted", "step.cancelled": "cancelled", "step.skipped": "skipped",
};

/** Bars of a timeline: one for each visit of a step, in the order in which they began. */
export function bars(history: Told[]): Bar[] {
  const open = new Map<string, Bar>();
  const all: Bar[] = [];
  for (const told of history) {
    if (!told.step) continue;
    const key = `${told.step}#${told.iteration ?? ""}`;
    const at = Date.parse(told.time);
    let bar = open.get(key);
    if (!bar && (told.kind === "step.started" || told.kind in ENDS)) {
      bar = {
        step: told.step, iteration: told.iteration ?? "", name: stepName(told.step),
        depth: Math.max(0, told.step.split("/").filter((part) => /^\d+$/.test(part)).length - 1),
        start: at, end: null, state: "running", attempts: 1,
      };
      open.set(key, bar);
      all.push(bar);
    }
    if (!bar) continue;
    if (told.kind === "step.retried") bar.attempts += 1;
    const ended = ENDS[told.kind];
    if (ended) {
      bar.end = at;
      bar.state = ended;
      if (told.detail?.output !== undefined) bar.output = told.detail.output;
      if (told.detail?.error !== undefined) bar.error = told.detail.error;
      open.delete(key);
    }
  }
  return all;
}

export interface Fold { from: number; to: number; }

/** Stretches in which nothing begins or ends and that are long against the rest: they are drawn short. */
export function folds(times: number[], share = 0.15): Fold[] {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  if (sorted.length < 3) return [];
  const gaps = sorted.slice(1).map((to, i) => ({ from: sorted[i]!, to }));
  const found: Fold[] = [];
  // Longest first: each fold makes the rest shorter, and so the next gap a larger share.
  let total = sorted[sorted.length - 1]! - sorted[0]!;
  for (const gap of [...gaps].sort((a, b) => b.to - b.from - (a.to - a.from))) {
    const length = gap.to - gap.from;
    if (length < 2000 || length < total * Math.max(share, 0.4)) break;
    found.push(gap);
    total -= length;
  }
  return found.sort((a, b) => a.from - b.from);
}

/** Where a moment is on a folded axis, from 0 to 1. A fold takes `width` of the axis. */
export function place(at: number, begin: number, end: number, folded: Fold[], width = 0.06): number {
  const space = 1 - folded.length * width;
  const real = end - begin - folded.reduce((sum, f) => sum + f.to - f.from, 0);
  let x = 0;
  let last = begin;
  for (const fold of folded) {
    if (at <= fold.from) break;
    x += real > 0 ? ((fold.from - last) / real) * space : 0;
    if (at < fold.to) return x + (width * (at - fold.from)) / (fold.to - fold.from);
    x += width;
    last = fold.to;
  }
  return Math.min(1, x + (real > 0 ? ((Math.max(at, last) - last) / real) * space : 0));
}

// ---- differences ----

export interface Line { sign: " " | "+" | "-"; text: string; }

/** What changed between two texts, line by line: the longest common subsequence. */
export function textDiff(before: string, after: string): Line[] {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const x = a.slice(head, a.length - tail);
  const y = b.slice(head, b.length - tail);
  const same = (text: string): Line => ({ sign: " ", text });
  const middle: Line[] = [];
  if (x.length * y.length > 4_000_000) {
    middle.push(...x.map((text): Line => ({ sign: "-", text })), ...y.map((text): Line => ({ sign: "+", text })));
  } else {
    const longest = Array.from({ length: x.length + 1 }, () => new Uint32Array(y.length + 1));
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        longest[i]![j] = x[i] === y[j] ? longest[i + 1]![j + 1]! + 1 : Math.max(longest[i + 1]![j]!, longest[i]![j + 1]!);
    let i = 0;
    let j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) { middle.push(same(x[i]!)); i++; j++; }
      else if (j >= y.length || (i < x.length && longest[i + 1]![j]! >= longest[i]![j + 1]!)) middle.push({ sign: "-", text: x[i++]! });
      else middle.push({ sign: "+", text: y[j++]! });
    }
  }
  return [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
}

/** Only what changed, with `around` lines before and after. `null` stands for lines left out. */
export function hunks(lines: Line[], around = 3): (Line | null)[] {
  const keep = lines.map((_, i) => lines.slice(Math.max(0, i - around), i + around + 1).some((line) => line.sign !== " "));
  const out: (Line | null)[] = [];
  lines.forEach((line, i) => {
    if (keep[i]) out.push(line);
    else if (i === 0 || keep[i - 1]) out.push(null);
  });
  return out;
}

// ---- queries ----

/** The terms of a query, quotes kept together. */
export function terms(q: string): string[] {
  return q.match(/(?:[^\s"]|"(?:\\.|[^"\\])*"?)+/g) ?? [];
}

/** The query with one field set to a value, or without the field. */
export function withField(q: string, field: string, value: string | null): string {
  const rest = terms(q).filter((term) => !term.startsWith(`${field}:`));
  return [...rest, ...(value ? [`${field}:${value}`] : [])].join(" ");
}

export function fieldOf(q: string, field: string): string | null {
  return terms(q).find((term) => term.startsWith(`${field}:`))?.slice(field.length + 1) ?? null;
}

/** A value as it may stand in a query. */
export function quoted(value: string): string {
  return /[\s,"]|\*$/.test(value) ? `"${value.replace(/[\\"]/g, (c) => `\\${c}`)}"` : value;
}

/** A word for the shell. */
export function shell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

// ---- forms ----

export interface Schema {
  type?: string | string[];
  title?: string;
  description?: string;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  format?: string;
  minimum?: number;
  maximum?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

export type Widget = "check" | "choice" | "number" | "text" | "long" | "json" | "object";

/** Which widget a schema is filled in with. */
export function widget(schema: Schema): Widget {
  const type = Array.isArray(schema.type) ? schema.type.find((t) => t !== "null") : schema.type;
  if (schema.enum) return "choice";
  if (type === "boolean") return "check";
  if (type === "integer" || type === "number") return "number";
  if (type === "string") return schema.format === "textarea" || (schema.maxLength ?? 0) > 200 ? "long" : "text";
  if (type === "object" && schema.properties) return "object";
  return "json";
}

/** What a form begins with. */
export function initial(schema: Schema): unknown {
  if (schema.default !== undefined) return schema.default;
  if (schema.const !== undefined) return schema.const;
  switch (widget(schema)) {
    case "object": {
      const out: Record<string, unknown> = {};
      for (const [name, inner] of Object.entries(schema.properties ?? {})) {
        const value = initial(inner);
        if (value !== undefined) out[name] = value;
      }
      return out;
    }
    default:
      return undefined;
  }
}

/** What is missing or wrong, by JSON pointer. The server checks again. */
export function flaws(schema: Schema, value: unknown, pointer = ""): Record<string, string> {
  const found: Record<string, string> = {};
  if (widget(schema) === "object") {
    const object = (value ?? {}) as Record<string, unknown>;
    for (const name of schema.required ?? []) {
      if (object[name] === undefined || object[name] === "") found[`${pointer}/${name}`] = "this is needed";
    }
    for (const [name, inner] of Object.entries(schema.properties ?? {})) {
      if (object[name] !== undefined) Object.assign(found, flaws(inner, object[name], `${pointer}/${name}`));
    }
    return found;
  }
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) found[pointer] = `at least ${schema.minimum}`;
    if (schema.maximum !== undefined && value > schema.maximum) found[pointer] = `at most ${schema.maximum}`;
  }
  if (typeof value === "string") {
    if (schema.minLength !== undefined && value.length < schema.minLength) found[pointer] = `at least ${count(schema.minLength, "character")}`;
    if (schema.maxLength !== undefined && value.length > schema.maxLength) found[pointer] = `at most ${count(schema.maxLength, "character")}`;
  }
  return found;
}
