// Overview: what is broken, what waits for somebody, what piles up. Every number is a link to the list behind it.
import { type DeadLetter, type ErrorGroup, type Instance, type LetterGroup, may, type Page, query, type Task, type Version } from "../api";
import { type Loaded, useList } from "../data";
import { relative } from "../format";
import { go, Link, to } from "../route";
import { Button, Cli, colour, definitionLink, Head, Id, Loading, now, shape, State, Time } from "../ui";

/** Lists are asked for this many: "100+" says that there are more. */
const MOST = 100;

export function Overview() {
  const q = (text: string) => query("/instances", { q: text, limit: MOST });
  const when = (permission: string, path: string) => (may(permission) ? path : null);
  const live = { on: ["instance"] };
  const faulted = useList<Instance>(when("instances:read", q("status:faulted")), live);
  const waiting = useList<Instance>(when("instances:read", q("status:waiting")), live);
  const running = useList<Instance>(when("instances:read", q("status:running,pending")), live);
  const stuck = useList<Instance>(when("instances:read", q("status:running,pending changed:<-10m")), { ...live, every: 30_000 });
  const recent = useList<Instance>(when("instances:read", query("/instances", { limit: 12 })), live);
  const hour = useList<Instance>(when("instances:read", query("/instances", { q: "started:>-1h", limit: 200 })), live);
  const tasks = useList<Task>(when("tasks:read", query("/tasks", { status: "open,claimed", limit: MOST })), { on: ["task"] });
  const letters = useList<DeadLetter>(when("dead-letters:read", query("/dead-letters", { limit: MOST })), { on: ["dead-letter"] });
  const groups = useList<LetterGroup>(when("dead-letters:read", query("/dead-letters/groups", { limit: 5 })), { on: ["dead-letter"] });
  const errors = useList<ErrorGroup>(when("errors:read", query("/errors", { limit: 5 })), { every: 10_000 });
  const breakers = useList<{ state: string; target: string }>(when("workers:read", "/breakers"), { every: 10_000 });
  const queues = useList<{ name: string; backlog: number; deliveries: number; calls: number }>(when("workers:read", "/queues"), { every: 5000 });
  const deploys = useList<Version>(when("definitions:read", query("/definitions", { limit: 50 })), { every: 60_000 });
  const overdue = tasks.data?.items.filter((t) => t.due_at && Date.parse(t.due_at) < now.value).length ?? 0;
  if (recent.data?.items.length === 0 && deploys.data) return <Welcome definitions={deploys.data.items} />;
  const open = breakers.data?.items.filter((b) => b.state !== "closed").length ?? 0;
  return (
    <>
      <Head title="Overview" />
      <section aria-labelledby="attention"><h2 id="attention">Needs attention</h2>
        <div class="tiles">
          <Tile of={faulted} title="faulted" word="faulted" href={`${to("instances")}?q=status:faulted`} />
          <Tile of={stuck} title="no progress for 10 m" word="pending" href={`${to("instances")}?q=${encodeURIComponent("status:running,pending changed:<-10m")}`} />
          <Tile of={letters} title="dead letters" word="failed" href={to("dead-letters")} />
          <Count n={overdue} known={tasks.data !== null} title="overdue tasks" word="expired" href={`${to("inbox")}?due=overdue`} />
          <Count n={open} known={breakers.data !== null} title="open breakers" word="halted" href={to("workers")} />
        </div>
      </section>
      <section aria-labelledby="progress"><h2 id="progress">In progress</h2>
        <div class="tiles">
          <Tile of={running} title="running" word="running" href={`${to("instances")}?q=status:running,pending`} />
          <Tile of={waiting} title="waiting" word="waiting" href={`${to("instances")}?q=status:waiting`} />
          <Tile of={tasks} title="tasks for people" word="open" href={to("inbox")} />
          <Tile of={hour} title="started in the last hour" word="active" href={`${to("instances")}?q=${encodeURIComponent("started:>-1h")}`} />
          <Count n={hour.data?.items.filter((i) => i.status === "completed").length ?? 0} more={!!hour.data?.next} known={hour.data !== null} title="of these completed" word="completed" href={`${to("instances")}?q=${encodeURIComponent("started:>-1h status:completed")}`} />
        </div>
      </section>
      <div class="columns">
        <section><h2>Last hour</h2>{hour.data ? <Spark items={hour.data.items} /> : <Loading />}</section>
        <section><h2>What fails most</h2>
          {groups.data?.items.length || errors.data?.items.length ? (
            <ul class="plain">{(errors.data?.items ?? []).map((e) => <li key={e.id}><span class="num strong">{e.count}×</span> <Link href={`${to("dead-letters")}?group=${e.id}`}>{e.message}</Link> <span class="dim">{e.worker} · {e.class} · <Time at={e.last_seen} /></span></li>)}
              {(groups.data?.items ?? []).filter((g) => !g.group).map((g) => <li key={g.newest}><span class="num strong">{g.letters}×</span> <Link href={to("dead-letters")}>dead letters without a group</Link></li>)}</ul>
          ) : <p class="dim">Nothing has failed for good.</p>}
        </section>
        <section><h2>Queues</h2>
          {queues.data?.items.length ? <ul class="plain">{[...queues.data.items].sort((a, b) => b.backlog - a.backlog).slice(0, 6).map((row) => <li key={row.name}><Link href={to("queues", row.name)}>{row.name}</Link> <span class="num">{row.backlog.toLocaleString("en")}</span> <span class="dim">to do</span></li>)}</ul> : <p class="dim">No queue has anything in it.</p>}
          <h2>Last deployed</h2>
          <ul class="plain">{[...(deploys.data?.items ?? [])].sort((a, b) => b.created_at.localeCompare(a.created_at)).slice(0, 4).map((d) => <li key={d.name + d.version}>{definitionLink(d)} <Time at={d.created_at} /></li>)}</ul>
        </section>
      </div>
      <section><h2>Latest instances</h2>
        <ul class="plain rows">{(recent.data?.items ?? []).map((i) => <li key={i.id}><State word={i.status} /> <Id id={i.id} href={to("instances", i.id)} /> {definitionLink(i.definition)} <Time at={i.updated_at} /></li>)}</ul>
      </section>
    </>
  );
}

function Tile({ of, title, word, href }: { of: Loaded<Page<unknown>>; title: string; word: string; href: string }) {
  return <Count n={of.data?.items.length ?? 0} more={!!of.data?.next} known={of.data !== null} title={title} word={word} href={href} />;
}

function Count({ n, more, known, title, word, href }: { n: number; more?: boolean; known: boolean; title: string; word: string; href: string }) {
  return (
    <Link class={`tile ${known && n > 0 ? colour(word) : "calm"}`} href={href}>
      <span class="big num">{known ? `${n.toLocaleString("en")}${more ? "+" : ""}` : "–"}</span>
      <span><span aria-hidden="true">{shape(word)}</span> {title}</span>
    </Link>
  );
}

/** Starts by five minutes: ended well, ended badly, still open. */
function Spark({ items }: { items: Instance[] }) {
  const slots = Array.from({ length: 12 }, () => ({ good: 0, bad: 0, open: 0 }));
  for (const item of items) {
    const age = now.value - Date.parse(item.created_at);
    const slot = slots[11 - Math.min(11, Math.max(0, Math.floor(age / 300_000)))]!;
    if (item.status === "completed") slot.good++;
    else if (item.status === "faulted") slot.bad++;
    else slot.open++;
  }
  const most = Math.max(1, ...slots.map((s) => s.good + s.bad + s.open));
  const total = items.length;
  return (
    <figure class="spark">
      <svg viewBox="0 0 240 64" role="img" aria-label={`${total} instances started in the last hour`}>
        {slots.map((s, n) => {
          let y = 60;
          const part = (count: number, cls: string) => { const h = (count / most) * 54; y -= h; return count > 0 && <rect key={cls} class={cls} x={n * 20 + 2} y={y} width={16} height={h} />; };
          return <g key={n}><rect class="base" x={n * 20 + 2} y={60} width={16} height={1.5} />{part(s.good, "green")}{part(s.bad, "red")}{part(s.open, "amber")}</g>;
        })}
      </svg>
      <figcaption class="dim"><span class="green">■</span> completed <span class="red">■</span> faulted <span class="amber">■</span> open, by five minutes; {relative(items[0]?.created_at, now.value)} the latest</figcaption>
    </figure>
  );
}

function Welcome({ definitions }: { definitions: Version[] }) {
  return (
    <>
      <Head title="Welcome to Windlass" />
      <p class="lead">Nothing has been started in this tenant yet. Three ways to begin, and the line that does the same in a terminal:</p>
      <div class="columns">
        <section><h2>Deploy a definition</h2><p>A YAML document says what is to be done, step by step.</p><Button kind="primary" needs="definitions:write" onClick={() => go(`${to("definitions")}?deploy=1`)}>Deploy from a file</Button><Cli words={["def", "deploy", "order.yaml"]} /></section>
        <section><h2>Start an instance</h2><p>{definitions.length ? `${definitions.length} definitions are there.` : "Once a definition is there, start it with some input."}</p><Button needs="instances:start" onClick={() => go(to("definitions"))}>Choose a definition</Button><Cli words={["instance", "start", definitions[0]?.name ?? "order", "--watch"]} /></section>
        <section><h2>Publish an event</h2><p>Workers and listening instances hear of it.</p><Button needs="events:publish" onClick={() => go(`${to("events")}?publish=1`)}>Publish one</Button><Cli words={["event", "publish", "order.created", "--data", '{"order":"o-1"}']} /></section>
      </div>
    </>
  );
}

