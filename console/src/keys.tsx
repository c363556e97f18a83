// The keyboard: a map of keys, and a palette that lists every act with the line that does the same in a terminal.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { may, togglePause } from "./api";
import { shell } from "./format";
import { logout, nextTheme } from "./main";
import { go, place, to } from "./route";
import { Dialog } from "./ui";

export const paletteOpen = signal(false);
export const helping = signal(false);

const GO: [string, string, string][] = [
  ["o", "", "Overview"], ["i", "instances", "Instances"], ["t", "inbox", "Inbox"], ["d", "dead-letters", "Dead letters"], ["f", "definitions", "Definitions"],
  ["e", "events", "Events"], ["w", "workers", "Workers"], ["s", "schedules", "Schedules"], ["q", "queues", "Queues"], ["b", "batches", "Batches"], ["k", "tenants", "Tenants and keys"], ["y", "system", "System"],
];
const CLI: Record<string, string[]> = {
  instances: ["instance", "list"], inbox: ["task", "list"], "dead-letters": ["dlq", "groups"], definitions: ["def", "list"], events: ["event", "tail"], workers: ["worker", "list"],
  schedules: ["schedule", "list"], queues: ["queue", "list"], batches: ["batch", "list"], tenants: ["key", "list"],
};
const KEYS: [string, string][] = [
  ["/", "find an id or a key; on a list, its filter"], ["j  k", "next and previous row"], ["Enter", "open the row"], ["x", "select the row"], ["p", "pause or go on with live updates"], ["t", "theme"],
  ["Ctrl K", "all acts, with their CLI lines"], ["?", "this map"], ["Esc", "close"], ["← → ↑ ↓", "walk along a graph"],
];

let lead = false;

function rows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>("tr[data-row]")];
}

function move(by: number) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, at + by))]!;
  next.querySelector<HTMLElement>("a")?.focus();
  next.scrollIntoView({ block: "nearest" });
}

export function listenToKeys(): () => void {
  const press = (event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); paletteOpen.value = !paletteOpen.value; return; }
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
    if (lead) {
      lead = false;
      const found = GO.find(([key]) => key === event.key);
      if (found) { event.preventDefault(); go(found[1] ? to(found[1]) : to()); }
      return;
    }
    const row = target.closest<HTMLElement>("tr[data-row]");
    const acts: Record<string, () => void> = {
      g: () => { lead = true; setTimeout(() => (lead = false), 1200); },
      "/": () => (document.querySelector<HTMLElement>("main [data-search]") ?? document.getElementById("find"))?.focus(),
      j: () => move(1), k: () => move(-1), p: togglePause, t: nextTheme,
      "?": () => (helping.value = true),
      x: () => row?.querySelector<HTMLInputElement>("input[type=checkbox]")?.click(),
    };
    const act = acts[event.key];
    if (act) { event.preventDefault(); act(); }
  };
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}

export function Help() {
  return (
    <Dialog title="Keys" close={() => (helping.value = false)}>
      <table><caption class="hidden">Keys</caption><tbody>
        {KEYS.map(([key, text]) => <tr key={key}><td><kbd>{key}</kbd></td><td>{text}</td></tr>)}
        {GO.map(([key, , name]) => <tr key={name}><td><kbd>g</kbd> <kbd>{key}</kbd></td><td>{name}</td></tr>)}
      </tbody></table>
    </Dialog>
  );
}

interface Act { title: string; cli?: string[]; off?: string; go: () => void; }

function acts(): Act[] {
  const found: Act[] = GO.map(([, path, name]) => ({ title: `Go to ${name}`, cli: CLI[path], go: () => go(path ? to(path) : to()) }));
  const { parts } = place.value;
  const [screen, id] = parts;
  const add = (title: string, needs: string, cli: string[], address: string) => found.push({ title, cli, off: may(needs) ? undefined : needs, go: () => go(address) });
  add("Deploy a definition", "definitions:write", ["def", "deploy", "FILE"], `${to("definitions")}?deploy=1`);
  add("Publish an event", "events:publish", ["event", "publish", "TYPE", "--data", "@FILE"], `${to("events")}?publish=1`);
  add("Instances that are faulted", "instances:read", ["instance", "list", "-q", "status:faulted"], `${to("instances")}?q=status:faulted`);
  add("Instances that wait", "instances:read", ["instance", "list", "-q", "status:waiting"], `${to("instances")}?q=status:waiting`);
  if (screen === "instances" && id) {
    // The buttons of the page do the act, so that it is confirmed there.
    const press = (name: string) => () => [...document.querySelectorAll<HTMLButtonElement>("main .acts button")].find((b) => b.textContent === name)?.click();
    for (const button of document.querySelectorAll<HTMLButtonElement>("main .acts button")) {
      const name = button.textContent ?? "";
      const verb = name.toLowerCase();
      if (["retry", "pause", "resume", "cancel", "signal"].includes(verb)) found.unshift({ title: `${name} this instance`, cli: ["instance", verb, id, ...(verb === "signal" ? ["TYPE"] : [])], off: button.getAttribute("aria-disabled") ? button.title : undefined, go: press(name) });
    }
    found.unshift({ title: "Explain this instance", cli: ["instance", "explain", id], go: () => go(to("instances", id)) });
    found.unshift({ title: "Follow this instance", cli: ["instance", "watch", id], go: () => go(to("instances", id)) });
  }
  found.push({ title: "Pause or go on with live updates", go: togglePause }, { title: "Change the theme", go: nextTheme }, { title: "Show the keys", go: () => (helping.value = true) }, { title: "Log out", go: logout });
  return found;
}

export function Palette() {
  return paletteOpen.value ? <Open /> : null;
}

function Open() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const [all] = useState(acts);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = all.filter((act) => words.every((word) => `${act.title} ${act.cli?.join(" ") ?? ""}`.toLowerCase().includes(word)));
  const close = () => (paletteOpen.value = false);
  const choose = (act: Act | undefined) => { if (!act || act.off) return; close(); setTimeout(act.go); };
  const press = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); setAt((n) => (n + (event.key === "ArrowDown" ? 1 : shown.length - 1)) % Math.max(1, shown.length)); }
    if (event.key === "Enter") { event.preventDefault(); choose(shown[at]); }
  };
  return (
    <Dialog title="Acts" close={close} wide>
      <input ref={input} class="whole" role="combobox" aria-label="Find an act" aria-expanded="true" aria-controls="acts" aria-activedescendant={shown.length ? `act${at}` : undefined} placeholder="What do you want to do?" value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0); }} onKeyDown={press} />
      <ul class="acts-list" id="acts" role="listbox" aria-label="Acts">
        {shown.map((act, n) => (
          <li key={act.title} id={`act${n}`} role="option" aria-selected={n === at} aria-disabled={act.off ? true : undefined} title={act.off && `needs ${act.off}`} onClick={() => choose(act)}>
            <span>{act.title}</span>{act.cli && <code>{["windlass", ...act.cli].map(shell).join(" ")}</code>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
