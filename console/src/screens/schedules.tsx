// Schedules: what starts by itself, when next, and what became of the times before.
import { useState } from "preact/hooks";
import { post, query, type Schedule } from "../api";
import { useData, useList } from "../data";
import { changed, Link, parameter, set, to } from "../route";
import { attempt, Button, Chips, Confirm, definitionLink, Exact, Facts, Failure, Head, Id, List, Loading, State, Time } from "../ui";

export function Schedules() {
  const status = parameter("status") || null;
  const list = useList<Schedule>(query("/schedules", { status, limit: 50, cursor: parameter("cursor") }), { on: ["instance"], every: 15_000 });
  return (
    <>
      <Head title="Schedules" />
      <Chips name="Status" values={["active", "paused", "ended"]} active={status} href={(s) => changed({ status: s, cursor: null })} />
      <List of={list} name="Schedules" paged filtered={!!status} clear={() => set({ status: null })} columns={[["Status"], ["Definition"], ["When"], ["Zone"], ["Next", "right"], ["Last", "right"], ["#Acts"]]}
        empty={<p>Nothing starts by itself. A definition with <code>schedule</code> has a line here.</p>}
        row={(s) => <tr key={s.id} data-row={to("schedules", s.id)}><td><State word={s.status} /></td><td>{definitionLink(s)}</td><td><Link href={to("schedules", s.id)}>{s.kind} <code>{s.spec}</code></Link></td><td>{s.time_zone}</td><td class="right"><Time at={s.next_slot} /></td><td class="right"><Time at={s.last_slot} /></td><td class="right"><Link href={to("schedules", s.id)}>Open</Link></td></tr>} />
    </>
  );
}

interface Slot { slot: string; outcome: string; count: number; instance: string | null; late_ms: number; at: string; detail: string | null; }

export function ScheduleScreen({ id }: { id: string }) {
  const one = useData<Schedule & { next: string[] }>(`/schedules/${id}?next=5`, { every: 10_000 });
  const slots = useList<Slot>(query(`/schedules/${id}/slots`, { limit: 50, cursor: parameter("cursor") }), { on: ["instance"] });
  const [asking, setAsking] = useState("");
  const s = one.data;
  if (!s) return one.problem ? <Failure problem={one.problem} retry={one.reload} /> : <Loading />;
  const act = (verb: string) => attempt(post(`/schedules/${id}/${verb}`), `The schedule: ${verb}`).then(() => { one.reload(); slots.reload(); });
  return (
    <>
      <Head trail={<Link href={to("schedules")}>Schedules</Link>} title={<>{s.name} <State word={s.status} /></>}>
        {s.status === "active" && <Button needs="schedules:act" onClick={() => act("pause")}>Pause</Button>}
        {s.status === "paused" && <Button needs="schedules:act" kind="primary" onClick={() => act("resume")}>Resume</Button>}
        {s.status !== "ended" && <Button needs="schedules:act" onClick={() => setAsking("trigger")}>Trigger now</Button>}
      </Head>
      <Facts of={[["Definition", definitionLink(s)], ["When", <>{s.kind} <code>{s.spec}</code></>], ["Zone", s.time_zone], ["Missed times", s.missed], ["Next", <Exact at={s.next_slot} />], ["Last", <Exact at={s.last_slot} />]]} />
      <h2>Next</h2>
      {s.next.length ? <ol class="plain">{s.next.map((at) => <li key={at}><Exact at={at} /> <span class="dim"><Time at={at} /></span></li>)}</ol> : <p class="dim">It fires no more by itself.</p>}
      <h2>What became of the times before</h2>
      <List of={slots} name="Slots" paged columns={[["Outcome"], ["Due"], ["Late", "right"], ["Instance"], ["Detail"]]} empty={<p>Its time has not come yet.</p>}
        row={(x) => <tr key={x.slot + x.at}><td><State word={x.outcome === "fired" || x.outcome === "triggered" ? "done" : x.outcome} /> {x.outcome}{x.count > 1 && ` ×${x.count}`}</td><td><Exact at={x.slot} /></td><td class="right num">{x.late_ms} ms</td><td>{x.instance && <Id id={x.instance} href={to("instances", x.instance)} />}</td><td>{x.detail}</td></tr>} />
      {asking && <Confirm title="Trigger now" act="Start 1 instance" danger={false} text="An instance starts at once, beside the schedule's own times." cli={["schedule", "trigger", id]} close={() => setAsking("")} go={() => act("trigger")} />}
    </>
  );
}
