// Definitions: versions, graph, source, what changed, a form to start one.
import { useEffect, useState } from "preact/hooks";
import { ask, type Instance, type InstanceDetail, post, Problem, query, type Version } from "../api";
import { useData, useList } from "../data";
import { hunks, type Schema, textDiff } from "../format";
import { SchemaForm } from "../form";
import { type Drawing, Graph } from "../graph";
import { changed, go, Link, parameter, set, to } from "../route";
import { Age, attempt, Button, Cli, Copy, Dialog, Exact, Facts, Failure, Head, Id, List, Loading, State, Tabs, Time } from "../ui";
import { Diff } from "./instance";

type Detail = Version & { source: string; input_schema?: Schema };

export function Definitions() {
  const list = useList<Version>(query("/definitions", { limit: 100, cursor: parameter("cursor"), namespace: parameter("namespace") }), { every: 30_000 });
  const [deploying, setDeploying] = useState(parameter("deploy") !== "");
  return (
    <>
      <Head title="Definitions"><Button kind="primary" needs="definitions:write" onClick={() => setDeploying(true)}>Deploy</Button></Head>
      <List of={list} name="Definitions" paged filtered={parameter("namespace") !== ""} clear={() => set({ namespace: null })}
        columns={[["Definition"], ["Title"], ["Namespace"], ["Newest"], ["Deployed", "right"], ["#Acts"]]}
        empty={<><p>No definition is deployed.</p><Cli words={["def", "deploy", "order.yaml"]} /></>}
        row={(d) => (
          <tr key={`${d.namespace}/${d.name}`} data-row={to("definitions", d.namespace, d.name)}>
            <td><Link href={to("definitions", d.namespace, d.name)}>{d.name}</Link></td><td>{d.title}</td>
            <td><Link href={changed({ namespace: d.namespace })}>{d.namespace}</Link></td><td class="mono">{d.version}</td><td class="right"><Time at={d.created_at} /></td>
            <td class="right"><Button needs="instances:start" onClick={() => go(`${to("definitions", d.namespace, d.name)}?tab=start`)}>Start</Button></td>
          </tr>
        )} />
      {deploying && <Deploy close={() => { setDeploying(false); set({ deploy: null }, true); }} done={list.reload} />}
    </>
  );
}

interface Flaw { pointer: string; message: string; line?: number; column?: number; hint?: string; }

function Deploy({ close, done }: { close: () => void; done: () => void }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ valid: boolean; problems: Flaw[]; warnings: Flaw[] } | null>(null);
  const check = async () => setFound(await attempt(ask<{ valid: boolean; problems: Flaw[]; warnings: Flaw[] }>("/definitions/validate", { method: "POST", text })) ?? null);
  const deploy = async (event: Event) => {
    event.preventDefault();
    try {
      const made = await ask<Version>("/definitions", { method: "POST", text });
      close();
      done();
      go(`${to("definitions", made.namespace, made.name)}?version=${made.version}`);
    } catch (error) {
      setFound({ valid: false, problems: (error as Problem).errors.length ? (error as Problem).errors : [{ pointer: "", message: (error as Problem).message }], warnings: [] });
    }
  };
  return (
    <Dialog title="Deploy a definition" close={close} wide>
      <form onSubmit={deploy}>
        <label class="field">From a file<input type="file" accept=".yaml,.yml,.json" onChange={async (e) => { const file = e.currentTarget.files?.[0]; if (file) { setText(await file.text()); setFound(null); } }} /></label>
        <label class="field">Document (YAML or JSON)<textarea class="mono" rows={16} spellcheck={false} required value={text} onInput={(e) => setText(e.currentTarget.value)} /></label>
        {found && <div role="status">{found.valid ? <p class="green">✓ The document is valid.</p> : null}
          <ul class="plain">{[...found.problems.map((p): [Flaw, string] => [p, "red"]), ...found.warnings.map((w): [Flaw, string] => [w, "amber"])].map(([p, cls], n) => <li key={n}><span class={cls}>{p.line ? `line ${p.line}: ` : ""}{p.message}</span> <span class="dim mono">{p.pointer}</span> {p.hint && <span class="dim">{p.hint}</span>}</li>)}</ul></div>}
        <Cli words={["def", "deploy", "FILE"]} />
        <footer><Button onClick={close}>Close</Button><Button needs="definitions:read" off={!text.trim()} onClick={check}>Check</Button><Button type="submit" kind="primary" needs="definitions:write" off={!text.trim()}>Deploy</Button></footer>
      </form>
    </Dialog>
  );
}

export function DefinitionScreen({ namespace, name }: { namespace: string; name: string }) {
  const base = `/definitions/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const versions = useList<Version>(`${base}/versions?limit=100`);
  const version = parameter("version") || versions.data?.items[0]?.version || "";
  const detail = useData<Detail>(version ? `${base}/versions/${encodeURIComponent(version)}` : null);
  const tab = parameter("tab") || "graph";
  if (!versions.data) return versions.problem ? <Failure problem={versions.problem} retry={versions.reload} /> : <Loading />;
  const all = versions.data.items;
  const d = detail.data;
  return (
    <>
      <Head trail={<><Link href={to("definitions")}>Definitions</Link> › {namespace}</>} title={d?.title ?? name}>
        <label>Version <select value={version} onChange={(e) => set({ version: e.currentTarget.value })}>{all.map((v) => <option key={v.version}>{v.version}</option>)}</select></label>
        <Button kind="primary" needs="instances:start" onClick={() => set({ tab: "start" })}>Start</Button>
      </Head>
      <p class="sub"><span class="mono">{namespace}/{name}@{version}</span> · deployed <Time at={d?.created_at} /> · <Link href={`${to("instances")}?q=${encodeURIComponent(`definition:${namespace}/${name}`)}`}>its instances</Link></p>
      <Tabs active={tab} names={[["graph", "Graph"], ["source", "Source"], ["versions", "Versions", all.length], ["diff", "Diff"], ["instances", "Instances"], ["start", "Start"]]} />
      {tab === "graph" && <DefinitionGraph base={base} version={version} label={name} />}
      {tab === "source" && (d ? <div class="json"><pre tabIndex={0} aria-label="Source">{d.source}</pre><Copy text={d.source} /></div> : <Loading />)}
      {tab === "versions" && <Versions of={versions} namespace={namespace} name={name} />}
      {tab === "diff" && <VersionDiff base={base} all={all} version={version} />}
      {tab === "instances" && <OnVersion namespace={namespace} name={name} version={version} />}
      {tab === "start" && (d ? <Start key={version} of={d} /> : <Loading />)}
    </>
  );
}

function DefinitionGraph({ base, version, from, label }: { base: string; version: string; from?: string; label: string }) {
  const graph = useData<Drawing>(version ? query(`${base}/versions/${encodeURIComponent(version)}/graph`, { from, direction: parameter("way") }) : null);
  const step = parameter("step");
  if (!graph.data) return graph.problem ? <Failure problem={graph.problem} retry={graph.reload} /> : <Loading />;
  const address = `/api/v1${base}/versions/${encodeURIComponent(version)}/graph`;
  const node = graph.data.nodes.find((n) => n.step && n.step === step);
  return (
    <>
      <Graph of={graph.data} label={`Graph of ${label}`} selected={step || undefined} select={(next) => set({ step: next === step ? null : next }, true)} />
      {node && <p class="why"><strong>{node.name}</strong> {node.kind} {node.lines.slice(1).join(" · ")} <span class="mono dim">{node.step}</span> {node.mark?.note}</p>}
      <p class="dim">As a picture: {["svg", "png", "mermaid"].map((format) => <span key={format}><a href={query(address, { format, from })} target="_blank" rel="noopener">{format.toUpperCase()}</a> </span>)}</p>
    </>
  );
}

function Versions({ of, namespace, name }: { of: ReturnType<typeof useList<Version>>; namespace: string; name: string }) {
  return <List of={of} name="Versions" columns={[["Version"], ["Title"], ["Deployed", "right"], ["#Acts"]]} empty={<p>None.</p>}
    row={(v) => {
      const at = of.data!.items.findIndex((x) => x.version === v.version);
      const before = of.data!.items[at + 1];
      return (
        <tr key={v.version}><td class="mono"><Link href={`${to("definitions", namespace, name)}?version=${v.version}`}>{v.version}</Link></td><td>{v.title}</td><td class="right"><Exact at={v.created_at} /></td>
          <td class="right">{before && <Link href={`${to("definitions", namespace, name)}?tab=diff&version=${v.version}&from=${before.version}`}>what changed since {before.version}</Link>} <Link href={`${to("instances")}?q=${encodeURIComponent(`definition:${namespace}/${name}@${v.version}`)}`}>instances</Link></td></tr>
      );
    }} />;
}

interface StepChange { change: string; from?: string; to?: string; kind?: string; changes?: { what: string; from?: unknown; to?: unknown }[]; }

function VersionDiff({ base, all, version }: { base: string; all: Version[]; version: string }) {
  const at = all.findIndex((v) => v.version === version);
  const from = parameter("from") || all[at + 1]?.version || "";
  const diff = useData<{ definition: { what: string }[]; steps: StepChange[] }>(from ? query(`${base}/diff`, { from, to: version }) : null);
  const older = useData<Detail>(from ? `${base}/versions/${encodeURIComponent(from)}` : null);
  const newer = useData<Detail>(`${base}/versions/${encodeURIComponent(version)}`);
  if (all.length < 2) return <div class="empty"><p>There is only one version. Deploy another, and what changed is shown here, as text and as a graph.</p></div>;
  return (
    <>
      <p class="row"><label>From <select value={from} onChange={(e) => set({ from: e.currentTarget.value }, true)}>{!from && <option value="">choose</option>}{all.filter((v) => v.version !== version).map((v) => <option key={v.version}>{v.version}</option>)}</select></label> to <span class="mono">{version}</span></p>
      {from && <>
        <DefinitionGraph base={base} version={version} from={from} label="both versions" />
        <h2>Steps</h2>
        {diff.data ? diff.data.steps.length + diff.data.definition.length === 0 ? <p class="dim">Nothing changed in what is executed.</p> : <ul class="plain">
          {diff.data.definition.map((c) => <li key={c.what}><State word="changed" /> {c.what}</li>)}
          {diff.data.steps.map((s, n) => <li key={n}><State word={s.change} /> <span class="mono">{s.to ?? s.from}</span> <span class="dim">{s.changes?.map((c) => c.what).join(", ")}</span></li>)}</ul> : diff.problem ? <Failure problem={diff.problem} /> : <Loading />}
        <h2>Text</h2>
        {older.data && newer.data ? <Diff lines={hunks(textDiff(older.data.source, newer.data.source))} /> : <Loading />}
      </>}
    </>
  );
}

function OnVersion({ namespace, name, version }: { namespace: string; name: string; version: string }) {
  const list = useList<Instance>(query("/instances", { namespace, name, version, limit: 50, cursor: parameter("cursor") }), { on: ["instance"] });
  return <List of={list} name="Instances of this version" paged columns={[["Status"], ["Instance"], ["Key"], ["Age", "right"]]} empty={<p>No instance is of this version.</p>}
    row={(i) => <tr key={i.id} data-row={to("instances", i.id)}><td><State word={i.status} /></td><td><Id id={i.id} href={to("instances", i.id)} /></td><td class="mono">{i.key}</td><td class="right"><Age from={i.created_at} until={i.ended_at} /></td></tr>} />;
}

function Start({ of }: { of: Detail }) {
  const like = parameter("like");
  const remembered = `windlass.input.${of.namespace}/${of.name}`;
  const [begin, setBegin] = useState<unknown>(like ? undefined : read(remembered));
  const [ready, setReady] = useState(!like);
  const [key, setKey] = useState("");
  useEffect(() => { if (like) void ask<InstanceDetail>(`/instances/${like}`).then((i) => setBegin(i.input), () => {}).then(() => setReady(true)); }, [like]);
  const start = async (input: unknown) => {
    localStorage.setItem(remembered, JSON.stringify(input ?? null));
    const body = { definition: { namespace: of.namespace, name: of.name, version: of.version }, ...(input === undefined ? {} : { input }), ...(key.trim() ? { key: key.trim() } : {}) };
    const made = await attempt(post<{ id: string }>("/instances", body, { "idempotency-key": crypto.randomUUID?.() ?? String(Math.random()) }));
    if (made) go(to("instances", made.id));
  };
  if (!ready) return <Loading />;
  return (
    <div class="narrow">
      <label class="field">Business key (at most one open instance holds it)<input value={key} onInput={(e) => setKey(e.currentTarget.value)} /></label>
      <SchemaForm schema={of.input_schema ?? null} begin={begin} act="Start 1 instance" needs="instances:start" submit={start} />
      <Facts of={[["Definition", `${of.namespace}/${of.name}@${of.version}`]]} />
      <Cli words={["instance", "start", `${of.namespace}/${of.name}@${of.version}`, "--input", "@input.json", "--watch"]} />
    </div>
  );
}

function read(key: string): unknown {
  try { return JSON.parse(localStorage.getItem(key) ?? "") ?? undefined; } catch { return undefined; }
}
