// Small components that all screens share.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { may, Problem } from "./api";
import type { Loaded } from "./data";
import { clock, duration, relative, shell, shortId } from "./format";
import { Link, place, set, to } from "./route";

// ---- time ----

export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 1000);
export const utc = signal(localStorage.getItem("windlass.utc") !== "no");

export function Time({ at }: { at: string | null | undefined }) {
  if (!at) return <span class="dim">–</span>;
  return <time dateTime={at} title={clock(at, utc.value)}>{relative(at, now.value)}</time>;
}

export function Exact({ at }: { at: string | null | undefined }) {
  return <time dateTime={at ?? ""} class="mono">{clock(at, utc.value)}</time>;
}

/** A sentence of the server, with the times in it told against now and ids short. */
export function Sentence({ text }: { text: string }) {
  const parts = text.split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/);
  return <>{parts.map((part, n) => (n % 2 ? <Time key={n} at={part} /> : part.replace(/(at|until) $/, "").replace(/\b[a-z]+_[0-9a-f]{32}\b/g, shortId)))}</>;
}

export function Age({ from, until }: { from: string; until: string | null }) {
  const end = until ? Date.parse(until) : now.value;
  return <span class="num">{duration(Math.max(0, end - Date.parse(from)))}</span>;
}

// ---- states: colour, shape and word ----

const SHAPES: Record<string, [string, string]> = {
  pending: ["○", "grey"], queued: ["○", "grey"], running: ["●", "blue"], waiting: ["◐", "amber"], paused: ["∥", "grey"],
  cancelling: ["◌", "grey"], completed: ["✓", "green"], faulted: ["✗", "red"], cancelled: ["⊘", "grey"],
  skipped: ["–", "grey"], undone: ["↺", "violet"],
  open: ["◐", "amber"], claimed: ["●", "blue"], expired: ["✗", "red"],
  done: ["✓", "green"], halted: ["✗", "red"], failed: ["✗", "red"], sent: ["●", "blue"],
  active: ["●", "green"], suspended: ["∥", "amber"], degraded: ["◐", "amber"], deleted: ["⊘", "red"], ended: ["✓", "grey"],
  started: ["●", "blue"], retried: ["↻", "amber"], closed: ["✓", "green"], "half-open": ["◐", "amber"], up: ["✓", "green"], away: ["✗", "red"],
  added: ["+", "green"], removed: ["−", "red"], changed: ["~", "amber"], moved: ["→", "blue"], renamed: ["→", "blue"],
};

export const shape = (word: string) => SHAPES[word]?.[0] ?? "·";
export const colour = (word: string) => SHAPES[word]?.[1] ?? "grey";

export function State({ word, colour: given }: { word: string; colour?: string }) {
  return <span class={`state ${given ?? colour(word)}`}><span aria-hidden="true">{shape(word)}</span> {word}</span>;
}

export function Id({ id, href, full }: { id: string; href?: string; full?: boolean }) {
  const text = full ? id : shortId(id);
  return href ? <Link class="mono" href={href} title={id}>{text}</Link> : <span class="mono" title={id}>{text}</span>;
}

export const definitionLink = (d: { namespace: string; name: string; version?: string }) =>
  <Link href={to("definitions", d.namespace, d.name) + (d.version ? `?version=${encodeURIComponent(d.version)}` : "")}>
    {d.name}{d.version && <span class="dim">@{d.version}</span>}
  </Link>;

// ---- toasts ----

interface Toast { id: number; text: string; bad: boolean; href?: string; link?: string; }
export const toasts = signal<Toast[]>([]);
let toastId = 0;

export function toast(text: string, options: { bad?: boolean; href?: string; link?: string } = {}) {
  const id = ++toastId;
  toasts.value = [...toasts.value, { id, text, bad: options.bad ?? false, href: options.href, link: options.link }];
  setTimeout(() => (toasts.value = toasts.value.filter((t) => t.id !== id)), options.bad ? 12_000 : 6_000);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((t) => (
        <div key={t.id} class={t.bad ? "toast bad" : "toast"}>
          {t.text} {t.href && <Link href={t.href}>{t.link ?? "Open"}</Link>}
        </div>
      ))}
    </div>
  );
}

/** Says what became of an act. */
export async function attempt<T>(work: Promise<T>, said?: string | ((value: T) => [string, string?])): Promise<T | undefined> {
  try {
    const value = await work;
    if (typeof said === "string") toast(said);
    else if (said) { const [text, href] = said(value); toast(text, { href }); }
    return value;
  } catch (error) {
    const problem = error as Problem;
    toast(`${problem.title ?? "That did not work"}: ${problem.message}`, { bad: true });
    return undefined;
  }
}

// ---- buttons ----

interface ButtonProps extends Omit<JSX.HTMLAttributes<HTMLButtonElement>, "disabled"> {
  needs?: string; off?: boolean; kind?: "primary" | "danger" | "quiet"; type?: "button" | "submit"; children: ComponentChildren; title?: string;
  "aria-pressed"?: boolean;
}

/** A button; without the permission it stays where it is, says which one is missing and does nothing. */
export function Button({ needs, off, kind, children, onClick, type = "button", title, ...rest }: ButtonProps) {
  const denied = needs !== undefined && !may(needs);
  return (
    <button
      {...rest} type={type} class={`button ${kind ?? ""}`} aria-disabled={denied || off || undefined}
      title={denied ? `This needs the permission ${needs}, which your key does not have` : title}
      onClick={(event) => { if (denied || off) event.preventDefault(); else (onClick as ((e: unknown) => void) | undefined)?.(event); }}
    >{children}</button>
  );
}

export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    try { await navigator.clipboard.writeText(text); setDone(true); setTimeout(() => setDone(false), 1500); }
    catch { toast("The browser does not let this page copy", { bad: true }); }
  };
  return <button type="button" class="button quiet small" onClick={copy}>{done ? "Copied" : label}</button>;
}

/** The line that does the same in a terminal. */
export function Cli({ words }: { words: string[] }) {
  const line = ["windlass", ...words].map(shell).join(" ");
  return <div class="cli"><code>{line}</code><Copy text={line} /></div>;
}

// ---- the five states of a list ----

interface ListProps<T> {
  of: Loaded<{ items: T[]; next: string | null }>;
  name: string;
  columns: [string, string?][];
  row: (item: T) => ComponentChildren;
  filtered?: boolean;
  clear?: () => void;
  empty: ComponentChildren;
  paged?: boolean;
}

export function List<T>({ of, name, columns, row, filtered, clear, empty, paged }: ListProps<T>) {
  if (!of.data) return of.problem ? <Failure problem={of.problem} retry={of.reload} /> : <Loading />;
  const { items, next } = of.data;
  return (
    <>
      {of.problem && <div class="notice amber" role="status">These rows are old: {of.problem.title.toLowerCase()}. <button type="button" class="link" onClick={of.reload}>Try again</button></div>}
      {items.length === 0 ? (
        filtered
          ? <div class="empty"><p>Nothing matches the filter.</p>{clear && <Button onClick={clear}>Clear the filter</Button>}</div>
          : <div class="empty">{empty}</div>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={name}>
          <table>
            <caption class="hidden">{name}</caption>
            <thead><tr>{columns.map(([title, cls]) => <th key={title} scope="col" class={cls}>{title.startsWith("#") ? <span class="hidden">{title.slice(1)}</span> : title}</th>)}</tr></thead>
            <tbody>{items.map(row)}</tbody>
          </table>
        </div>
      )}
      {paged && <Pager next={next} />}
    </>
  );
}

export function Pager({ next }: { next: string | null }) {
  const cursor = place.value.search.get("cursor");
  if (!next && !cursor) return null;
  return (
    <nav class="pager" aria-label="Pages">
      {cursor && <Button onClick={() => set({ cursor: null })}>First page</Button>}
      {cursor && <Button onClick={() => history.back()}>Back</Button>}
      {next && <Button onClick={() => set({ cursor: next })}>Next page</Button>}
    </nav>
  );
}

export function Loading() {
  return <div class="skeleton" role="status" aria-label="Loading"><span /><span /><span /><span class="late">Still loading…</span></div>;
}

export function Failure({ problem, retry }: { problem: Problem; retry?: () => void }) {
  return (
    <div class="failure" role="alert">
      <strong>{problem.title}</strong>
      <p>{problem.status === 403 ? "Your key does not allow this. " : ""}{problem.detail}</p>
      {problem.errors.map((e) => e.hint && <p key={e.pointer + e.hint} class="dim">{e.hint}</p>)}
      <p class="dim">{problem.code}{problem.requestId && <> · <span class="mono">{problem.requestId}</span></>}</p>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  );
}

// ---- dialogs ----

interface DialogProps { title: string; close: () => void; children: ComponentChildren; wide?: boolean; }

export function Dialog({ title, close, children, wide }: DialogProps) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current!;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog ref={box} class={wide ? "wide" : ""} aria-label={title} onCancel={(event) => { event.preventDefault(); close(); }}
      onClick={(event) => { if (event.target === box.current) close(); }}>
      <div class="dialog">
        <header><h2>{title}</h2><button type="button" class="button quiet" aria-label="Close" onClick={close}>✕</button></header>
        {children}
      </div>
    </dialog>
  );
}

interface ConfirmProps { title: string; act: string; text: ComponentChildren; cli?: string[]; danger?: boolean; close: () => void; go: (why: string) => Promise<unknown>; ask?: string; }

/** Asks before something is done, says what it equals in a terminal. */
export function Confirm({ title, act, text, cli, danger = true, close, go, ask }: ConfirmProps) {
  const [busy, setBusy] = useState(false);
  const [why, setWhy] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    await go(why);
    setBusy(false);
    close();
  };
  return (
    <Dialog title={title} close={close}>
      <form onSubmit={submit}>
        <p>{text}</p>
        {ask && <label class="field">{ask}<input name="why" required value={why} onInput={(e) => setWhy(e.currentTarget.value)} /></label>}
        {cli && <Cli words={cli} />}
        <footer><Button onClick={close}>Keep as it is</Button><Button type="submit" kind={danger ? "danger" : "primary"} off={busy || (!!ask && !why.trim())}>{act}</Button></footer>
      </form>
    </Dialog>
  );
}

// ---- data ----

export function Json({ value, label }: { value: unknown; label: string }) {
  if (value === undefined || value === null) return <p class="dim">none</p>;
  const text = JSON.stringify(value, null, 2);
  return (
    <div class="json">
      <pre tabIndex={0} aria-label={label}>{text.length > 200_000 ? `${text.slice(0, 200_000)}\n…` : tokens(text)}</pre>
      <Copy text={text} />
    </div>
  );
}

function tokens(text: string): ComponentChildren[] {
  if (text.length > 20_000) return [text];
  const out: ComponentChildren[] = [];
  const pattern = /("(?:\\.|[^"\\])*")(\s*:)?|(-?\d[\d.eE+-]*|true|false|null)/g;
  let last = 0;
  for (const match of text.matchAll(pattern)) {
    out.push(text.slice(last, match.index));
    const cls = match[1] ? (match[2] ? "k" : "s") : "n";
    out.push(<span class={cls}>{match[1] ?? match[3]}</span>, match[2] ?? "");
    last = match.index! + match[0].length;
  }
  return [...out, text.slice(last)];
}

export function Facts({ of }: { of: [string, ComponentChildren][] }) {
  return <dl class="facts">{of.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>;
}

export function Tabs({ names, active }: { names: [string, string, (number | string)?][]; active: string }) {
  return (
    <nav class="tabs" aria-label="Views">
      {names.map(([id, title, n]) => (
        <Link key={id} href={tabAddress(id, names[0]![0])} aria-current={active === id ? "page" : undefined}>{title}{n !== undefined && n !== 0 && <span class="count">{n}</span>}</Link>
      ))}
    </nav>
  );
}

function tabAddress(id: string, first: string): string {
  const search = new URLSearchParams(place.value.search);
  if (id === first) search.delete("tab");
  else search.set("tab", id);
  return location.pathname + (search.size ? `?${search}` : "");
}

export function Head({ title, children, trail }: { title: ComponentChildren; children?: ComponentChildren; trail?: ComponentChildren }) {
  return <div class="head">{trail && <div class="trail">{trail}</div>}<h1>{title}</h1><div class="acts">{children}</div></div>;
}

export function Chips({ name, values, active, href }: { name: string; values: string[]; active: string | null; href: (value: string | null) => string }) {
  return (
    <nav class="chips" aria-label={name}>
      <Link href={href(null)} aria-current={active === null ? "true" : undefined}>all</Link>
      {values.map((value) => (
        <Link key={value} href={href(active === value ? null : value)} aria-current={active === value ? "true" : undefined}>
          <span class={colour(value.split(".").pop()!)} aria-hidden="true">{shape(value.split(".").pop()!)}</span> {value}
        </Link>
      ))}
    </nav>
  );
}
