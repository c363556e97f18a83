// One instance: why it stands where it stands, as a graph, over time, in full, and what can be done about it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, type Explanation, type HistoryItem, type Instance, type InstanceDetail, type Page, post, query, type Reason } from "../api";
import { all, useData, useList } from "../data";
import { type Bar, bars, duration, folds, hunks, place as placeAt, stepName, textDiff } from "../format";
import { type Drawing, Graph } from "../graph";
import { JsonField } from "../form";
import { changed, go, Link, parameter, set, to } from "../route";
import { Age, attempt, Button, Chips, Cli, colour, Confirm, definitionLink, Dialog, Copy, Exact, Facts, Failure, Head, Id, Json, List, Loading, now, Sentence, State, Tabs, Time } from "../ui";

const ORDERS: Record<string, { title: string; when: string[]; text: string; danger: boolean }> = {
  retry: { title: "Retry", when: ["faulted"], text: "It goes on from the step that failed, with the data it had then.", danger: false },
  pause: { title: "Pause", when: ["running", "waiting", "pending"], text: "Nothing further begins until it is resumed; calls under way are finished.", danger: false },
  resume: { title: "Resume", when: ["paused"], text: "It goes on where it was paused.", danger: false },
  cancel: { title: "Cancel", when: ["running", "waiting", "pending", "paused", "faulted"], text: "It ends as cancelled. What a saga has done is undone first. This cannot be taken back.", danger: true },
};

export function InstanceScreen({ id }: { id: string }) {
  const own = { on: ["instance", "task", "dead-letter"], ids: undefined };
  const detail = useData<InstanceDetail>(`/instances/${id}`, { on: ["instance"], ids: [id] });
  const why = useData<Explanation>(detail.data && !detail.data.ended_at ? `/instances/${id}/explain` : null, own);
  const [order, setOrder] = useState("");
  const [signalling, setSignalling] = useState(false);
  const tab = parameter("tab") || "graph";
  const i = detail.data;
  if (!i) return detail.problem ? <Failure problem={detail.problem} retry={detail.reload} /> : <Loading />;
  const children = Object.values(i.children).reduce((a, b) => a + b, 0);
  const give = (verb: string) => attempt(post<{ status: string }>(`/instances/${id}/${verb}`), (a) => [`The instance is ${a.status}`]).then(detail.reload);
  return (
    <>
      <Head trail={<><Link href={to("instances")}>Instances</Link> › <Id id={i.id} full /> <Copy text={i.id} /></>}
        title={<>{i.key ?? i.definition.name} <State word={i.status} /></>}>
        {Object.entries(ORDERS).filter(([, o]) => o.when.includes(i.status)).map(([verb, o]) => (
          <Button key={verb} needs="instances:order" kind={o.danger ? "danger" : verb === "retry" ? "primary" : undefined} onClick={() => setOrder(verb)}>{o.title}</Button>
        ))}
        {!i.ended_at && <Button needs="instances:signal" onClick={() => setSignalling(true)}>Signal</Button>}
        <Button needs="instances:start" kind="quiet" onClick={() => go(`${to("definitions", i.definition.namespace, i.definition.name)}?${new URLSearchParams({ version: i.definition.version, tab: "start", like: i.id })}`)}>Start like this</Button>
      </Head>
      <p class="sub">{definitionLink(i.definition)} · started <Time at={i.created_at} /> · {i.ended_at ? "took" : "age"} <Age from={i.created_at} until={i.ended_at} />{i.parent && <> · child of <Id id={i.parent.id} href={to("instances", i.parent.id)} /></>}</p>
      <Why instance={i} of={why.data} />
      <Tabs active={tab} names={[["graph", "Graph"], ["timeline", "Timeline"], ["history", "History"], ["data", "Data"], ["related", "Related", children + i.calls.length]]} />
      {tab === "graph" && <GraphTab instance={i} reasons={why.data?.reasons ?? []} />}
      {(tab === "timeline" || tab === "history") && <Past instance={i} tab={tab} />}
      {tab === "data" && <DataTab instance={i} />}
      {tab === "related" && <Related instance={i} />}
      {order && <Confirm title={`${ORDERS[order]!.title} this instance`} act={`${ORDERS[order]!.title} 1 instance`} text={ORDERS[order]!.text} danger={ORDERS[order]!.danger} cli={["instance", order, id]} close={() => setOrder("")} go={() => give(order)} />}
      {signalling && <Signal instance={i} reasons={why.data?.reasons ?? []} close={() => setSignalling(false)} />}
    </>
  );
}

function Why({ instance, of }: { instance: InstanceDetail; of: Explanation | null }) {
  if (instance.error && instance.status === "faulted") {
    const { title, detail, type, status } = instance.error;
    return <p class="why red" data-why><strong>Failed:</strong> {title ?? "error"}{detail && <> – {detail}</>} <span class="dim">{type?.split("/").pop()} {status}</span></p>;
  }
  if (instance.ended_at || !of) return null;
  const action = of.reasons.map(nextAct).find((a) => a !== null);
  return <p class="why" data-why><strong>Why:</strong> <Sentence text={of.summary} /> {action && <Link class="next" href={action[0]}>{action[1]}</Link>}</p>;
}

function nextAct(reason: Reason): [string, string] | null {
  if (reason.task) return [to("inbox", reason.task), "Open the task"];
  if (reason.dead_letter) return [to("dead-letters", reason.dead_letter), "Open the dead letter"];
  if (reason.instance) return [to("instances", reason.instance), "Open the child"];
  if (reason.kind === "no-worker" || reason.kind === "queued") return [to("queues"), "Look at the queues"];
  if (reason.kind === "breaker") return [to("workers"), "Look at the breakers"];
  return null;
}

function useHistory(instance: InstanceDetail): { items: HistoryItem[] | null; more: boolean } {
  const [state, set] = useState<{ id: string; items: HistoryItem[] | null; more: boolean }>({ id: instance.id, items: null, more: false });
  useEffect(() => {
    let gone = false;
    void all<HistoryItem>(`/instances/${instance.id}/history?limit=200`).then((page) => { if (!gone) set({ id: instance.id, items: page.items, more: page.next !== null }); }, () => {});
    return () => { gone = true; };
  }, [instance.id, instance.version]);
  return state.id === instance.id ? state : { items: null, more: false };
}

function GraphTab({ instance, reasons }: { instance: InstanceDetail; reasons: Reason[] }) {
  const graph = useData<Drawing>(query(`/instances/${instance.id}/graph`, { direction: parameter("way") }), { on: ["instance", "task"], ids: undefined });
  const { items } = useHistory(instance);
  const step = parameter("step");
  useEffect(() => graph.reload(), [instance.version]);
  if (!graph.data) return graph.problem ? <Failure problem={graph.problem} retry={graph.reload} /> : <Loading />;
  return (
    <div class="split">
      <Graph of={graph.data} label={`Graph of ${instance.definition.name}`} selected={step || undefined} select={(next) => set({ step: next === step ? null : next }, true)} />
      {step && <StepPanel step={step} instance={instance} history={items ?? []} reasons={reasons} graph={graph.data} />}
    </div>
  );
}

function StepPanel({ step, instance, history, reasons, graph }: { step: string; instance: InstanceDetail; history: HistoryItem[]; reasons: Reason[]; graph: Drawing }) {
  const visits = bars(history as never).filter((bar) => bar.step === step);
  const node = graph.nodes.find((n) => n.step === step);
  const last = visits[visits.length - 1];
  const reason = reasons.find((r) => r.step === step);
  const call = instance.calls.find((c) => c.step === step);
  return (
    <aside class="panel" aria-label={`Step ${stepName(step)}`}>
      <header><h2>{stepName(step)}</h2><span class="dim">{node?.kind}</span><button type="button" class="button quiet" aria-label="Close" onClick={() => set({ step: null }, true)}>✕</button></header>
      {node?.mark?.state ? <State word={node.mark.state} /> : <span class="dim">not reached</span>}
      {reason && <p><Sentence text={reason.text} /> {nextAct(reason) && <Link href={nextAct(reason)![0]}>{nextAct(reason)![1]}</Link>}</p>}
      <Facts of={[
        ["Visits", visits.length],
        ["Began", last ? <Time at={new Date(last.start).toISOString()} /> : "–"],
        ["Took", last?.end ? duration(last.end - last.start) : "–"],
        ["Attempts", call?.attempt ?? node?.mark?.attempts ?? "–"],
      ]} />
      {call && <p>Call to <Link href={to("queues", call.target)}>{call.target}</Link>, attempt {call.attempt}, due <Time at={call.due_at} />{call.last_error && <>: <span class="red">{call.last_error}</span></>}</p>}
      {last?.error !== undefined && <><h3>Error</h3><Json value={last.error} label="Error of the step" /></>}
      <h3>Output</h3>
      <Json value={last?.output} label="Output of the step" />
      <p class="mono dim">{step}</p>
    </aside>
  );
}

function Past({ instance, tab }: { instance: InstanceDetail; tab: string }) {
  const { items, more } = useHistory(instance);
  if (!items) return <Loading />;
  return <>{more && <p class="notice">Only the first {items.length.toLocaleString("en")} entries are shown; <code>windlass instance history {instance.id}</code> has them all.</p>}{tab === "timeline" ? <Timeline items={items} instance={instance} /> : <History items={items} />}</>;
}

function Timeline({ items, instance }: { items: HistoryItem[]; instance: InstanceDetail }) {
  const rows = useMemo(() => bars(items as never), [items]);
  if (!rows.length) return <div class="empty"><p>No step has begun yet.</p></div>;
  const begin = Date.parse(instance.created_at);
  const end = Math.max(instance.ended_at ? Date.parse(instance.ended_at) : now.value, ...rows.map((r) => r.end ?? r.start), begin + 1);
  const folded = folds([begin, end, ...rows.flatMap((r) => [r.start, r.end ?? end])]);
  const at = (time: number) => placeAt(time, begin, end, folded) * 100;
  return (
    <div class="timeline" role="table" aria-label="Timeline">
      <div role="rowgroup">
        <div class="axis" role="row">
          <span role="columnheader">Step</span>
          <span class="track" role="columnheader" aria-label={`From the start, ${duration(end - begin)} in all`}>
            <span class="tick" style={{ left: "0%" }}>0</span>
            {folded.map((f) => <span key={f.from} class="fold" style={{ left: `${at(f.from)}%`, width: `${at(f.to) - at(f.from)}%` }} title={`${duration(f.to - f.from)} in which nothing began or ended`}>⋯ {duration(f.to - f.from)} ⋯</span>)}
            <span class="tick last">{duration(end - begin)}</span>
          </span>
        </div>
        {rows.map((row, n) => <TimeBar key={n} row={row} at={at} end={end} folded={folded} />)}
      </div>
    </div>
  );
}

function TimeBar({ row, at, end, folded }: { row: Bar; at: (t: number) => number; end: number; folded: { from: number; to: number }[] }) {
  const left = at(row.start);
  const width = Math.max(0.4, at(row.end ?? end) - left);
  const took = duration((row.end ?? end) - row.start);
  return (
    <div class="line" role="row">
      <span role="rowheader" class="clip" style={{ paddingLeft: `${Math.min(row.depth, 6) * 12}px` }}><Link href={changed({ tab: null, step: row.step })}>{row.name}</Link>{row.iteration && <span class="dim"> #{row.iteration}</span>}</span>
      <span class="track" role="cell" aria-label={`${row.state}, ${took}${row.attempts > 1 ? `, ${row.attempts} attempts` : ""}`}>
        {folded.map((f) => <span key={f.from} class="gap" style={{ left: `${at(f.from)}%`, width: `${at(f.to) - at(f.from)}%` }} />)}
        <span class={`barline ${colour(row.state)}`} style={{ left: `${left}%`, width: `${width}%` }} title={`${row.name}: ${row.state}, ${took}`} />
        <span class="took" style={left + width > 80 ? { right: `${100 - left}%` } : { left: `${left + width}%` }}>{took}{row.attempts > 1 && ` ×${row.attempts}`}</span>
      </span>
    </div>
  );
}

function History({ items }: { items: HistoryItem[] }) {
  const kind = parameter("kind") || null;
  const kinds = [...new Set(items.map((item) => item.kind))].sort();
  const shown = items.filter((item) => !kind || item.kind === kind);
  const failure = items.findIndex((item) => item.kind.endsWith("faulted"));
  return (
    <>
      <div class="row"><Chips name="Kind" values={kinds} active={kind} href={(k) => changed({ kind: k })} />
        {failure >= 0 && <Button onClick={() => { set({ kind: null }, true); requestAnimationFrame(() => document.getElementById(`h${failure}`)?.scrollIntoView({ block: "center" })); }}>First failure</Button>}
        <Copy text={JSON.stringify(items, null, 2)} label="Copy as JSON" /></div>
      <div class="scroll" tabIndex={0} role="region" aria-label="History">
        <table>
          <caption class="hidden">History</caption>
          <thead><tr><th scope="col" class="right">#</th><th scope="col">Time</th><th scope="col">What</th><th scope="col">Step</th><th scope="col">Detail</th></tr></thead>
          <tbody>{shown.map((item) => {
            const n = items.indexOf(item);
            const { version, kind: what, step, iteration, time, ...rest } = item;
            const bad = what.endsWith("faulted");
            return (
              <tr key={n} id={`h${n}`} class={bad ? "bad" : ""}>
                <td class="right num">{version}</td><td><Exact at={time} /></td><td>{what}</td>
                <td title={step}>{stepName(step)}{iteration && <span class="dim"> #{iteration}</span>}</td>
                <td>{Object.keys(rest).length > 0 && <details open={bad && n === failure}><summary>{Object.keys((rest.detail as object) ?? rest).join(", ")}</summary><Json value={rest.detail ?? rest} label="Detail" /></details>}</td>
              </tr>
            );
          })}</tbody>
        </table>
      </div>
    </>
  );
}

function DataTab({ instance }: { instance: InstanceDetail }) {
  const { items } = useHistory(instance);
  const outputs = useMemo(() => bars((items ?? []) as never).filter((bar) => bar.output !== undefined), [items]);
  const from = Number(parameter("from") || -1);
  const upto = Number(parameter("upto") || outputs.length - 1);
  const text = (n: number) => JSON.stringify(n < 0 ? instance.input : outputs[n]?.output ?? null, null, 2);
  const lines = hunks(textDiff(text(from), text(upto)));
  const choose = (name: string, value: number, label: string) => (
    <label>{label} <select value={String(value)} onChange={(e) => set({ [name]: e.currentTarget.value }, true)}>
      <option value="-1">input</option>{outputs.map((bar, n) => <option key={n} value={String(n)}>{bar.name}{bar.iteration && ` #${bar.iteration}`}</option>)}
    </select></label>
  );
  return (
    <div class="columns">
      <section><h2>Input</h2><Json value={instance.input} label="Input" /></section>
      <section><h2>{instance.error ? "Error" : "Output"}</h2><Json value={instance.error ?? instance.output} label={instance.error ? "Error" : "Output"} /></section>
      <section><h2>Context</h2><Json value={instance.context} label="Context" /></section>
      {outputs.length > 0 && (
        <section class="whole"><h2>What changed between steps</h2>
          <div class="row">{choose("from", from, "From")} {choose("upto", upto, "to")}</div>
          <Diff lines={lines} />
        </section>
      )}
    </div>
  );
}

export function Diff({ lines }: { lines: ReturnType<typeof hunks> }) {
  if (!lines.some((line) => line && line.sign !== " ")) return <p class="dim">Nothing changed.</p>;
  return <pre class="diff" tabIndex={0} aria-label="Differences">{lines.map((line, n) => line ? <span key={n} class={line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : ""}>{line.sign} {line.text}{"\n"}</span> : <span key={n} class="dim">⋯{"\n"}</span>)}</pre>;
}

function Related({ instance }: { instance: InstanceDetail }) {
  const children = useList<Instance>(query("/instances", { parent: instance.id, limit: 50, cursor: parameter("cursor") }), { on: ["instance"] });
  const undo = useList<{ saga: string; step: string; name: string; undoing: boolean }>(`/instances/${instance.id}/compensation`);
  return (
    <>
      <Facts of={[["Correlation id", instance.correlation_id ?? "–"], ["Trace", instance.traceparent ?? "–"], ...Object.entries(instance.children).map(([status, n]): [string, number] => [`Children ${status}`, n])]} />
      {instance.calls.length > 0 && <><h2>Open calls</h2><ul>{instance.calls.map((c) => <li key={c.step + c.attempt}>{stepName(c.step)} → {c.target}, attempt {c.attempt}, due <Time at={c.due_at} /> {c.last_error && <span class="red">{c.last_error}</span>}</li>)}</ul></>}
      <h2>Children</h2>
      <List of={children} name="Children" paged columns={[["Status"], ["Instance"], ["Definition"], ["Item", "right"], ["Age", "right"]]} empty={<p>It has started no other instance.</p>}
        row={(c) => <tr key={c.id}><td><State word={c.status} /></td><td><Id id={c.id} href={to("instances", c.id)} /></td><td>{definitionLink(c.definition)}</td><td class="right">{c.parent?.item}</td><td class="right"><Age from={c.created_at} until={c.ended_at} /></td></tr>} />
      {(undo.data?.items.length ?? 0) > 0 && <><h2>Would be undone now</h2><ol>{undo.data!.items.map((u) => <li key={u.step}>{u.name} <span class="dim">of {stepName(u.saga)}</span></li>)}</ol></>}
    </>
  );
}

function Signal({ instance, reasons, close }: { instance: InstanceDetail; reasons: Reason[]; close: () => void }) {
  const awaited = reasons.flatMap((r) => (r as Reason & { event_types?: string[] }).event_types ?? []);
  const [name, setName] = useState(awaited[0] ?? "");
  const [data, setData] = useState<unknown>({});
  const send = async (event: Event) => {
    event.preventDefault();
    if (!name.trim()) return;
    if (await attempt(post(`/instances/${instance.id}/signals/${encodeURIComponent(name.trim())}`, data), "The signal is accepted")) close();
  };
  return (
    <Dialog title="Signal this instance" close={close}>
      <form onSubmit={send}>
        <label class="field">Type<input value={name} list="awaited" required onInput={(e) => setName(e.currentTarget.value)} /><datalist id="awaited">{awaited.map((a) => <option key={a} value={a} />)}</datalist></label>
        {awaited.length > 0 && <p class="dim">It waits for {awaited.join(", ")}.</p>}
        <JsonField label="Data" value={data} change={setData} id="signal-data" />
        <Cli words={["instance", "signal", instance.id, name || "TYPE", "--data", JSON.stringify(data)]} />
        <footer><Button onClick={close}>Close</Button><Button type="submit" kind="primary" needs="instances:signal">Signal 1 instance</Button></footer>
      </form>
    </Dialog>
  );
}

/** Finds what somebody pasted: an id or a business key. */
export async function find(text: string): Promise<string> {
  const kinds: Record<string, string> = { ins: "instances", tsk: "inbox", dlq: "dead-letters", dl: "dead-letters", bat: "batches", evt: "events", sch: "schedules" };
  const kind = kinds[text.split("_")[0] ?? ""];
  if (kind && /^[a-z]+_[0-9a-f]{32}$/.test(text)) return to(kind, text);
  const page = await ask<Page<Instance>>(query("/instances", { q: text, limit: 2 })).catch(() => null);
  if (page?.items.length === 1) return to("instances", page.items[0]!.id);
  return `${to("instances")}?q=${encodeURIComponent(text)}`;
}

