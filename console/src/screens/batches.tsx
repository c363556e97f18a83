// Batches: acts on many things, as objects. Also the dialog that makes one.
import { useEffect, useState } from "preact/hooks";
import { ask, type Batch, post, query } from "../api";
import { useData, useList } from "../data";
import { count, duration } from "../format";
import { changed, go, Link, parameter, set, to } from "../route";
import { attempt, Button, Chips, Cli, Confirm, Dialog, Exact, Facts, Failure, Head, Id, List, Loading, State, Time } from "../ui";

/** Above this many, the count has to be typed. */
const TYPED_FROM = 100;

interface MakeProps { act: string; q: string; noun: string; close: () => void; extra?: Record<string, unknown>; why?: boolean; ramp?: boolean; }

interface Preview { matched: number; more: boolean; samples: string[]; }

/** Counts first, asks, then makes a batch and goes to it. */
export function MakeBatch({ act, q, noun, close, extra, why: needsWhy, ramp: canRamp }: MakeProps) {
  const [preview, setPreview] = useState<Preview | null>(null);
  const [failed, setFailed] = useState("");
  const [why, setWhy] = useState("");
  const [rate, setRate] = useState("50");
  const [ramp, setRamp] = useState(canRamp ?? false);
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    post<Preview>("/batches", { act, q, dry_run: true, ...extra }).then(setPreview, (error) => setFailed(error.message));
  }, [act, q]);
  const n = preview?.matched ?? 0;
  const shown = preview ? `${n.toLocaleString("en")}${preview.more ? "+" : ""}` : "…";
  const ready = preview !== null && n > 0 && (n <= TYPED_FROM || typed.replace(/\D/g, "") === String(n)) && (!needsWhy || why.trim() !== "");
  const submit = async (event: Event) => {
    event.preventDefault();
    if (!ready || busy) return;
    setBusy(true);
    const body = { act, q, rate: Number(rate) || 50, ...(why.trim() ? { why: why.trim() } : {}), ...(ramp ? { ramp: true } : {}), ...extra };
    const made = await attempt(post<{ id: string }>("/batches", body), (b) => [`The batch ${b.id} has begun`, to("batches", b.id)]);
    setBusy(false);
    if (made) { close(); go(to("batches", made.id)); }
  };
  const cli = ["batch", "create", act, "-q", q, "--rate", rate, ...(ramp ? ["--ramp"] : []), ...(why ? ["--why", why] : [])];
  return (
    <Dialog title={`${act[0]!.toUpperCase()}${act.slice(1)} ${shown} ${noun}`} close={close}>
      <form onSubmit={submit}>
        {failed ? <p class="red" role="alert">{failed}</p> : preview === null ? <Loading /> : n === 0 ? <p>Nothing matches <code>{q}</code>.</p> : (
          <>
            <p>{act} <strong>{shown}</strong> {noun} that match <code>{q}</code>. It becomes a batch: it can be watched, slowed down, paused and cancelled.</p>
            <p class="dim">For example {preview.samples.slice(0, 3).map((id) => <span key={id} class="mono"> {id} </span>)}</p>
          </>
        )}
        <div class="row">
          <label class="field">At most so many in a second<input type="number" min={1} max={10000} value={rate} onInput={(e) => setRate(e.currentTarget.value)} /></label>
          <label class="field grow">Why{needsWhy ? " *" : ""}<input value={why} required={needsWhy} maxLength={200} onInput={(e) => setWhy(e.currentTarget.value)} placeholder="kept with the batch and in history" /></label>
        </div>
        {canRamp && <label class="radio"><input type="checkbox" checked={ramp} onChange={(e) => setRamp(e.currentTarget.checked)} /> One first, then ten, then a hundred, then the rest, each when those before went well</label>}
        {n > TYPED_FROM && <label class="field">Type the count {n} to confirm<input value={typed} inputMode="numeric" onInput={(e) => setTyped(e.currentTarget.value)} /></label>}
        <Cli words={cli} />
        <footer><Button onClick={close}>Keep as it is</Button><Button type="submit" kind={act === "replay" || act === "retry" || act === "resume" ? "primary" : "danger"} needs="batches:act" off={!ready || busy}>{act} {shown}</Button></footer>
      </form>
    </Dialog>
  );
}

export function Batches() {
  const status = parameter("status") || null;
  const list = useList<Batch>(query("/batches", { status, cursor: parameter("cursor"), limit: 50 }), { on: ["batch"], every: 5000 });
  return (
    <>
      <Head title="Batches" />
      <Chips name="Status" values={["running", "paused", "halted", "done", "cancelled"]} active={status} href={(s) => changed({ status: s, cursor: null })} />
      <List of={list} name="Batches" paged filtered={!!status} clear={() => set({ status: null, cursor: null })}
        columns={[["Status"], ["Batch"], ["Act"], ["Filter"], ["Progress"], ["By"], ["Begun"]]}
        empty={<p>No batch yet. Select instances or a group of dead letters and act on all of them at once.</p>}
        row={(b) => (
          <tr key={b.id}>
            <td><State word={b.status} /></td>
            <td><Id id={b.id} href={to("batches", b.id)} /></td>
            <td>{b.act}</td>
            <td class="clip"><code>{b.q}</code></td>
            <td><Progress of={b} /></td>
            <td>{b.by}</td>
            <td><Time at={b.created_at} /></td>
          </tr>
        )} />
    </>
  );
}

function Progress({ of }: { of: Batch }) {
  const { matched, done, failed, skipped } = of.counts;
  const share = (n: number) => `${matched ? (100 * n) / matched : 0}%`;
  const text = `${done} done, ${failed} failed, ${skipped} skipped of ${matched}`;
  return (
    <span class="progress" role="img" aria-label={text} title={text}>
      <span class="bar"><span class="green" style={{ width: share(done) }} /><span class="red" style={{ width: share(failed) }} /><span class="grey" style={{ width: share(skipped) }} /></span>
      <span class="num">{(done + failed + skipped).toLocaleString("en")}/{matched.toLocaleString("en")}</span>
    </span>
  );
}

interface Item { id: string; outcome: string; detail: string | null; at: string | null; }

export function BatchScreen({ id }: { id: string }) {
  const batch = useData<Batch>(`/batches/${id}`, { on: ["batch"], ids: [id], every: 2000 });
  const outcome = parameter("outcome") || null;
  const items = useList<Item>(query(`/batches/${id}/items`, { outcome, cursor: parameter("cursor"), limit: 50 }), { every: 4000 });
  const [asking, setAsking] = useState("");
  const [rate, setRate] = useState<string | null>(null);
  const b = batch.data;
  if (!b) return batch.problem ? <Failure problem={batch.problem} retry={batch.reload} /> : <Loading />;
  const left = b.counts.waiting + b.counts.sent;
  const order = (verb: string) => attempt(post(`/batches/${id}/${verb}`), `The batch: ${verb}`).then(batch.reload);
  const isOpen = b.status === "running" || b.status === "paused" || b.status === "halted";
  const letters = b.act === "replay" || b.act === "discard";
  return (
    <>
      <Head trail={<Link href={to("batches")}>Batches</Link>} title={<>{b.act} <Progress of={b} /></>}>
        <State word={b.status} />
        {b.status === "running" && <Button needs="batches:act" onClick={() => order("pause")}>Pause</Button>}
        {(b.status === "paused" || b.status === "halted") && <Button kind="primary" needs="batches:act" onClick={() => order("resume")}>Resume</Button>}
        {isOpen && <Button kind="danger" needs="batches:act" onClick={() => setAsking("cancel")}>Cancel</Button>}
      </Head>
      {b.detail && <p class="why">{b.detail}</p>}
      <Facts of={[
        ["Filter", <code>{b.q}</code>], ["Why", b.why ?? "–"], ["By", b.by], ["Begun", <Exact at={b.created_at} />], ["Ended", <Exact at={b.ended_at} />],
        ["Rate", isOpen ? <form class="inline" onSubmit={(e) => { e.preventDefault(); void attempt(ask(`/batches/${id}`, { method: "PATCH", body: { rate: Number(rate) } }), "The rate is changed").then(() => { setRate(null); batch.reload(); }); }}>
          <input aria-label="Items in a second" type="number" min={1} max={10000} value={rate ?? String(b.rate)} onInput={(e) => setRate(e.currentTarget.value)} /> in a second {rate !== null && rate !== String(b.rate) && <Button type="submit" needs="batches:act">Change</Button>}</form> : `${b.rate} in a second`],
        ["Done", b.counts.done], ["Failed", b.counts.failed], ["Skipped", b.counts.skipped], ["Left", isOpen && left && b.status === "running" ? `${left}, about ${duration((left / b.rate) * 1000)} more` : left],
      ]} />
      <Chips name="Outcome" values={["waiting", "sent", "done", "failed", "skipped"]} active={outcome} href={(o) => changed({ outcome: o, cursor: null })} />
      <List of={items} name="Items" paged filtered={!!outcome} clear={() => set({ outcome: null })} columns={[["Outcome"], [letters ? "Dead letter" : "Instance"], ["Detail"], ["When"]]}
        empty={<p>{b.selected_at ? "The query found nothing." : "What the query finds is being collected."}</p>}
        row={(item) => (
          <tr key={item.id}><td><State word={item.outcome} /></td><td><Id id={item.id} full href={to(letters ? "dead-letters" : "instances", item.id)} /></td><td class="clip">{item.detail}</td><td><Time at={item.at} /></td></tr>
        )} />
      {asking && <Confirm title="Cancel this batch" act={`Cancel ${count(left, "item")}`} text={`${count(left, "item")} will not be acted on. What is done stays done.`} cli={["batch", "cancel", id]} close={() => setAsking("")} go={() => order("cancel")} />}
    </>
  );
}
