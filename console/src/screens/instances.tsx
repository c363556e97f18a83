// Instances: one box, chips, rows that do not move under the cursor, acts on all that match.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type Instance, may, onChange, type Page, query } from "../api";
import { useList } from "../data";
import { count, fieldOf, quoted, withField } from "../format";
import { changed, go, Link, parameter, set, to } from "../route";
import { Age, Button, Chips, definitionLink, Head, Id, List, State, Time } from "../ui";
import { MakeBatch } from "./batches";

const STATUSES = ["running", "waiting", "faulted", "paused", "completed", "cancelled"];
const FIELDS = ["status:", "definition:", "key:", "started:>-1h", "ended:>-1d", "age:>2h", "waiting:", "worker:", "error~", "parent:", "-status:"];
const ACTS: [string, string][] = [["retry", "Retry"], ["pause", "Pause"], ["resume", "Resume"], ["cancel", "Cancel"]];

export function SearchBox({ q, submit, label, fields, hint }: { q: string; submit: (q: string) => void; label: string; fields: string[]; hint: string }) {
  const [text, setText] = useState(q);
  useEffect(() => setText(q), [q]);
  return (
    <form class="search" role="search" onSubmit={(event) => { event.preventDefault(); submit(text.trim()); }}>
      <input aria-label={label} list="fields" value={text} placeholder={hint} spellcheck={false} autocomplete="off" data-search onInput={(event) => setText(event.currentTarget.value)} />
      <datalist id="fields">{fields.map((field) => { const lead = text.replace(/\S*$/, ""); return <option key={field} value={lead + field} />; })}</datalist>
      <Button type="submit">Filter</Button>
      {q && <Button kind="quiet" onClick={() => submit("")}>Clear</Button>}
    </form>
  );
}

export function Instances() {
  const q = parameter("q");
  const cursor = parameter("cursor");
  const path = query("/instances", { q, cursor, limit: 50 });
  const list = useList<Instance>(path);
  const fresh = useFresh(path, list.data, !cursor);
  const [picked, setPicked] = useState<Set<string>>(new Set());
  const [whole, setWhole] = useState(false);
  const [act, setAct] = useState("");
  useEffect(() => { setPicked(new Set()); setWhole(false); }, [path]);
  const items = list.data?.items.map((row) => fresh.changed.get(row.id) ?? row) ?? [];
  const status = fieldOf(q, "status");
  const toggle = (id: string) => { const next = new Set(picked); if (!next.delete(id)) next.add(id); setPicked(next); setWhole(false); };
  const ids = [...picked];
  const target = whole ? q : `id:${ids.join(",")}`;
  return (
    <>
      <Head title="Instances"><Button kind="primary" needs="instances:start" onClick={() => go(to("definitions"))}>Start one</Button></Head>
      <SearchBox q={q} label="Filter instances" hint="status:faulted definition:order* started:>-1h" fields={FIELDS} submit={(next) => set({ q: next || null, cursor: null })} />
      <Chips name="Status" values={STATUSES} active={status} href={(s) => changed({ q: withField(q, "status", s) || null, cursor: null })} />
      {picked.size > 0 && (
        <div class="selection" role="region" aria-label="Selection">
          <strong>{whole ? "All that match" : count(picked.size, "instance")} selected</strong>
          {!whole && q && <button type="button" class="link" onClick={() => setWhole(true)}>Select all that match the filter</button>}
          {ACTS.map(([verb, title]) => <Button key={verb} needs="batches:act" kind={verb === "cancel" ? "danger" : undefined} onClick={() => setAct(verb)}>{title}</Button>)}
          <Button kind="quiet" onClick={() => setPicked(new Set())}>Deselect</Button>
        </div>
      )}
      {fresh.news > 0 && <button type="button" class="pill" onClick={() => { fresh.forget(); list.reload(); }}>{count(fresh.news, "new instance")}</button>}
      <List of={{ ...list, data: list.data && { ...list.data, items } }} name="Instances" paged filtered={!!q} clear={() => set({ q: null, cursor: null })}
        columns={[["#Select", "tick"], ["Status"], ["Instance"], ["Definition"], ["Key"], ["Waits for"], ["Age", "right"], ["Last change", "right"]]}
        empty={<><p>No instance has been started here yet.</p><p><Link href={to("definitions")}>Start one from a definition</Link></p></>}
        row={(i) => (
          <tr key={i.id} data-row={to("instances", i.id)} class={picked.has(i.id) ? "current" : ""}>
            <td class="tick"><input type="checkbox" aria-label={`Select ${i.id}`} checked={picked.has(i.id)} onChange={() => toggle(i.id)} /></td>
            <td><State word={i.status} /></td>
            <td><Id id={i.id} href={to("instances", i.id)} /></td>
            <td>{definitionLink(i.definition)}</td>
            <td class="mono clip">{i.key && <Link href={changed({ q: withField(q, "key", quoted(i.key)), cursor: null })}>{i.key}</Link>}</td>
            <td>{i.waiting && <>{i.waiting.kind.replaceAll("-", " ")} {i.waiting.until && <Time at={i.waiting.until} />}</>}</td>
            <td class="right"><Age from={i.created_at} until={i.ended_at} /></td>
            <td class="right"><Time at={i.updated_at} /></td>
          </tr>
        )} />
      {act && <MakeBatch act={act} q={target} noun="instances" close={() => setAct("")} />}
    </>
  );
}

/** Rows that changed are shown where they are; new ones wait behind a pill, so that nothing moves under the cursor. */
function useFresh(path: string, shown: Page<Instance> | null, first: boolean) {
  const [state, set] = useState<{ path: string; news: number; changed: Map<string, Instance> }>({ path, news: 0, changed: new Map() });
  const known = useRef<Page<Instance> | null>(null);
  known.current = shown;
  useEffect(() => {
    set({ path, news: 0, changed: new Map() });
    if (!may("instances:read")) return;
    return onChange(async (changes) => {
      if (!known.current || !changes.some((c) => c.kind === "instance")) return;
      const page = await ask<Page<Instance>>(path).catch(() => null);
      if (!page || !known.current) return;
      const ids = new Set(known.current.items.map((row) => row.id));
      const newest = known.current.items[0]?.created_at ?? "";
      const news = first ? page.items.filter((row) => !ids.has(row.id) && row.created_at >= newest).length : 0;
      // A row that left the filter is asked for by itself, so that its state is true.
      const gone = changes.filter((c) => c.kind === "instance" && ids.has(c.id) && !page.items.some((row) => row.id === c.id)).slice(0, 20);
      const left = await Promise.all(gone.map((c) => ask<Instance>(`/instances/${c.id}`).catch(() => null)));
      set({ path, news, changed: new Map([...page.items, ...left.filter((row) => row !== null)].filter((row) => ids.has(row.id)).map((row) => [row.id, row])) });
    });
  }, [path]);
  return { news: state.path === path ? state.news : 0, changed: state.path === path ? state.changed : new Map<string, Instance>(), forget: () => set({ path, news: 0, changed: new Map() }) };
}
