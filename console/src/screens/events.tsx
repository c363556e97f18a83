// Events: a tail that follows, publishing, and what became of one.
import { useState } from "preact/hooks";
import { type EventRow, live, post, query } from "../api";
import { useData, useList } from "../data";
import type { Schema } from "../format";
import { SchemaForm } from "../form";
import { changed, Link, parameter, set, to } from "../route";
import { attempt, Button, Cli, Dialog, Exact, Facts, Failure, Head, Id, Json, List, Loading, Time } from "../ui";

export function Events() {
  const type = parameter("type");
  const source = parameter("source");
  const cursor = parameter("cursor");
  const list = useList<EventRow>(query("/events", { type, source, limit: 50, cursor }), { every: cursor ? undefined : 2000 });
  const [publishing, setPublishing] = useState(parameter("publish") !== "");
  const types = [...new Set(list.data?.items.map((e) => e.type))].sort();
  return (
    <>
      <Head title="Events"><span class="dim">{cursor ? "an older page" : live.value === "paused" ? "the tail is paused" : "the newest come by themselves"}</span><Button kind="primary" needs="events:publish" onClick={() => setPublishing(true)}>Publish</Button></Head>
      <form class="search" role="search" onSubmit={(e) => { e.preventDefault(); const f = new FormData(e.currentTarget); set({ type: String(f.get("type") || "") || null, source: String(f.get("source") || "") || null, cursor: null }); }}>
        <input name="type" aria-label="Type" placeholder="type" defaultValue={type} key={`t${type}`} list="types" data-search /><datalist id="types">{types.map((t) => <option key={t} value={t} />)}</datalist>
        <input name="source" aria-label="Source" placeholder="source" defaultValue={source} key={`s${source}`} />
        <Button type="submit">Filter</Button>{(type || source) && <Button kind="quiet" onClick={() => set({ type: null, source: null, cursor: null })}>Clear</Button>}
      </form>
      <List of={list} name="Events" paged filtered={!!(type || source)} clear={() => set({ type: null, source: null, cursor: null })}
        columns={[["Received"], ["Type"], ["Source"], ["Event"], ["Delivered", "right"], ["Heard", "right"], ["Started", "right"]]}
        empty={<><p>Nothing was published in this tenant.</p><Cli words={["event", "publish", "order.created", "--data", '{"order":"o-1"}']} /></>}
        row={(e) => (
          <tr key={e.id} data-row={to("events", e.id)}><td><Exact at={e.received_at} /></td><td><Link href={changed({ type: e.type, cursor: null })}>{e.type}</Link></td><td class="clip">{e.source}</td><td><Id id={e.id} href={to("events", e.id)} /></td>
            <td class="right num">{e.delivered}</td><td class="right num">{e.told}</td><td class="right num">{e.started}</td></tr>
        )} />
      {publishing && <Publish begin={type} types={types} close={() => { setPublishing(false); set({ publish: null }, true); }} done={list.reload} />}
    </>
  );
}

export function Publish({ begin, types, close, done }: { begin: string; types: string[]; close: () => void; done: () => void }) {
  const known = useList<{ type: string }>("/event-types");
  const [type, setType] = useState(begin || localStorage.getItem("windlass.event.type") || "");
  const [subject, setSubject] = useState("");
  const hasSchema = known.data?.items.some((t) => t.type === type);
  const schema = useData<{ schema: Schema }>(hasSchema ? `/event-types/${encodeURIComponent(type)}` : null);
  const remembered = `windlass.event.${type}`;
  const publish = async (data: unknown) => {
    if (!type.trim()) return;
    localStorage.setItem("windlass.event.type", type);
    localStorage.setItem(remembered, JSON.stringify(data ?? null));
    const event = { specversion: "1.0", id: crypto.randomUUID?.() ?? String(Date.now()), source: "windlass/console", type: type.trim(), ...(subject.trim() ? { subject: subject.trim() } : {}), data: data ?? null };
    const made = await attempt(post<{ items: { id: string }[] }>("/events", event, {}), (a) => ["The event is published", to("events", a.items[0]!.id)]);
    if (made) { done(); close(); }
  };
  return (
    <Dialog title="Publish an event" close={close} wide>
      <div class="row">
        <label class="field grow">Type<input value={type} required list="alltypes" onInput={(e) => setType(e.currentTarget.value)} /></label>
        <label class="field">Subject<input value={subject} onInput={(e) => setSubject(e.currentTarget.value)} /></label>
      </div>
      <datalist id="alltypes">{[...new Set([...types, ...(known.data?.items.map((t) => t.type) ?? [])])].map((t) => <option key={t} value={t} />)}</datalist>
      {hasSchema && !schema.data ? <Loading /> : <SchemaForm key={type + String(!!schema.data)} schema={schema.data?.schema ?? null} begin={stored(remembered)} act="Publish 1 event" needs="events:publish" submit={publish} />}
      <Cli words={["event", "publish", type || "TYPE", "--data", "@data.json"]} />
    </Dialog>
  );
}

function stored(key: string): unknown {
  try { return JSON.parse(localStorage.getItem(key) ?? "") ?? undefined; } catch { return undefined; }
}

export function EventScreen({ id }: { id: string }) {
  const event = useData<EventRow & { verdict: string; event: unknown }>(`/events/${id}`, { every: 5000 });
  const e = event.data;
  if (!e) return event.problem ? <Failure problem={event.problem} retry={event.reload} /> : <Loading />;
  return (
    <>
      <Head trail={<><Link href={to("events")}>Events</Link> › <Id id={id} full /></>} title={e.type} />
      <p class="why" data-why>{e.verdict}</p>
      <Facts of={[["Received", <Exact at={e.received_at} />], ["Source", e.source], ["Its own id", <span class="mono">{e.event_id}</span>], ["Delivered to workers", e.delivered], ["Listen steps told", e.told], ["Taken by", e.taken], ["Instances started", e.started], ["Kept until", <Time at={e.kept_until} />]]} />
      <h2>Event</h2><Json value={e.event} label="Event" />
    </>
  );
}
