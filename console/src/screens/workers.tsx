// Workers, queues, breakers: who does the work, what piles up, what is held off.
import { useEffect, useRef } from "preact/hooks";
import { post, query } from "../api";
import { useData, useList } from "../data";
import { duration } from "../format";
import { Link, parameter, to } from "../route";
import { attempt, Button, Cli, Facts, Failure, Head, Id, List, Loading, State, Time } from "../ui";

interface Worker {
  name: string; types: string[]; attempts_max: number; batch_max: number; concurrency_max: number | null; lease_seconds: number;
  rate: { max: number; seconds: number } | null; order_by: string | null; key_by: string | null; retry_base_ms: number; retry_cap_ms: number; updated_at: string; version: number;
  schedule: { cron?: string; every_seconds?: number } | null;
}
interface Breaker { target: string; kind: string; state: string; failures: number; attempts: number; until: string | null; }
interface Queue { name: string; backlog: number; deliveries: number; calls: number; }
interface Webhook { name: string; url: string; types: string[]; enabled: boolean; disabled: string | null; attempts_max: number; }

export function Workers() {
  const workers = useList<Worker>("/workers", { every: 10_000 });
  const breakers = useList<Breaker>("/breakers", { every: 5000 });
  const webhooks = useList<Webhook>("/webhooks", { every: 30_000 });
  const probe = (target: string) => attempt(post(`/breakers/${encodeURIComponent(target)}/probe`), "The next attempt goes through as a probe").then(breakers.reload);
  return (
    <>
      <Head title="Workers" />
      <h2>Breakers</h2>
      <List of={breakers} name="Breakers" columns={[["State"], ["Target"], ["Kind"], ["Failed", "right"], ["Until", "right"], ["#Acts"]]} empty={<p>Nothing that is called has failed lately: every target is open for calls.</p>}
        row={(b) => <tr key={b.target}><td><State word={b.state} colour={b.state === "open" ? "red" : undefined} /></td><td class="mono">{b.target}</td><td>{b.kind}</td><td class="right num">{b.failures}/{b.attempts}</td><td class="right"><Time at={b.until} /></td>
          <td class="right">{b.state !== "closed" && <Button needs="instances:order" onClick={() => probe(b.target)}>Probe</Button>}</td></tr>} />
      <h2>Declared workers</h2>
      <List of={workers} name="Declared workers" columns={[["Worker"], ["Hears"], ["Attempts", "right"], ["Together", "right"], ["At once", "right"], ["Rate", "right"], ["Ordered by"], ["Changed", "right"]]}
        empty={<><p>No worker is declared over the API. Workers inside the nodes have no declaration; their queues are under Queues.</p><Cli words={["worker", "declare", "mail", "--type", "order.paid"]} /></>}
        row={(w) => <tr key={w.name}><td><Link href={to("queues", w.name)}>{w.name}</Link></td><td class="clip">{w.types.join(", ")}{w.schedule && <span class="dim"> {w.schedule.cron ?? `every ${duration((w.schedule.every_seconds ?? 0) * 1000)}`}</span>}</td><td class="right num">{w.attempts_max}</td><td class="right num">{w.batch_max}</td><td class="right num">{w.concurrency_max ?? "any"}</td><td class="right num">{w.rate ? `${w.rate.max} in ${w.rate.seconds} s` : "–"}</td><td>{w.order_by ?? w.key_by}</td><td class="right"><Time at={w.updated_at} /></td></tr>} />
      <h2>Webhooks</h2>
      <List of={webhooks} name="Webhooks" columns={[["State"], ["Webhook"], ["Address"], ["Types"], ["Attempts", "right"]]} empty={<p>No webhook is set up.</p>}
        row={(h) => <tr key={h.name}><td><State word={h.enabled ? "active" : "paused"} /></td><td>{h.name}</td><td class="clip">{h.url}</td><td class="clip">{h.types.join(", ")} {h.disabled && <span class="red">{h.disabled}</span>}</td><td class="right num">{h.attempts_max}</td></tr>} />
    </>
  );
}

export function Queues() {
  const list = useList<Queue>("/queues", { every: 3000 });
  const past = useRef(new Map<string, number[]>());
  useEffect(() => {
    for (const row of list.data?.items ?? []) past.current.set(row.name, [...(past.current.get(row.name) ?? []), row.backlog].slice(-40));
  }, [list.data]);
  return (
    <>
      <Head title="Queues" />
      <List of={list} name="Queues" columns={[["Queue"], ["To do", "right"], ["Deliveries", "right"], ["Calls", "right"], ["Since this page was opened"]]} empty={<p>No worker has a queue yet.</p>}
        row={(row) => <tr key={row.name} data-row={to("queues", row.name)}><td><Link href={to("queues", row.name)}>{row.name}</Link></td><td class="right num strong">{row.backlog.toLocaleString("en")}</td><td class="right num">{row.deliveries.toLocaleString("en")}</td><td class="right num">{row.calls.toLocaleString("en")}</td><td><Trend of={past.current.get(row.name) ?? []} /></td></tr>} />
    </>
  );
}

function Trend({ of }: { of: number[] }) {
  if (of.length < 2) return <span class="dim">–</span>;
  const most = Math.max(1, ...of);
  const points = of.map((n, i) => `${(i / 39) * 120},${18 - (n / most) * 16}`).join(" ");
  return <svg class="trend" viewBox="0 0 120 20" role="img" aria-label={`from ${of[0]} to ${of[of.length - 1]}, at most ${most}`}><polyline points={points} /></svg>;
}

interface QueueDetail extends Queue { ready: number; later: number; oldest_seconds: number; }
interface Delivery { id: string; worker: string; attempts: number; events: string[]; order_key: string | null; visible_at: string; created_at: string; last_error: string | null; }

export function QueueScreen({ name }: { name: string }) {
  const queue = useData<QueueDetail>(`/queues/${encodeURIComponent(name)}`, { every: 3000 });
  const rows = useList<Delivery>(query("/deliveries", { worker: name, limit: 50, cursor: parameter("cursor") }), { every: 5000 });
  const d = queue.data;
  if (!d) return queue.problem ? <Failure problem={queue.problem} retry={queue.reload} /> : <Loading />;
  return (
    <>
      <Head trail={<Link href={to("queues")}>Queues</Link>} title={name} />
      <Facts of={[["To do", d.backlog], ["Due", d.ready], ["Later", d.later], ["Calls", d.calls], ["Longest due", d.oldest_seconds > 0 ? duration(d.oldest_seconds * 1000) : "–"], ["Dead letters", <Link href={`${to("dead-letters")}?q=${encodeURIComponent(`worker:${name}`)}`}>of this worker</Link>]]} />
      <h2>Open deliveries</h2>
      <List of={rows} name="Open deliveries" paged columns={[["Delivery"], ["Events", "right"], ["Attempts", "right"], ["Due", "right"], ["Ordered by"], ["Last error"]]} empty={<p>Nothing waits in this queue.</p>}
        row={(r) => <tr key={r.id}><td><Id id={r.id} /></td><td class="right num">{r.events.length}</td><td class="right num">{r.attempts}</td><td class="right"><Time at={r.visible_at} /></td><td>{r.order_key}</td><td class="clip red">{r.last_error}</td></tr>} />
    </>
  );
}
