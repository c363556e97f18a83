// Dead letters: groups of what is alike, one letter in full, replay in a ramp, discard with a reason.
import { useState } from "preact/hooks";
import { type DeadLetter, type ErrorGroup, type LetterGroup, post, query } from "../api";
import { useData, useList } from "../data";
import { count } from "../format";
import { JsonField } from "../form";
import { changed, Link, parameter, set, to } from "../route";
import { attempt, Button, Cli, Confirm, Dialog, Exact, Facts, Failure, Head, Id, Json, List, Loading, Tabs, Time } from "../ui";
import { MakeBatch } from "./batches";
import { SearchBox } from "./instances";

const FIELDS = ["worker:", "reason:", "source:", "failed:>-1h", "age:>1d", "attempts:>3", "instance:", "group:", "error~"];

export function DeadLetters() {
  const tab = parameter("group") || parameter("q") ? "letters" : parameter("tab") || "groups";
  return (
    <>
      <Head title="Dead letters" />
      <Tabs active={tab} names={[["groups", "Groups"], ["letters", "Letters"]]} />
      {tab === "groups" ? <Groups /> : <Letters />}
    </>
  );
}

function Groups() {
  const list = useList<LetterGroup>(query("/dead-letters/groups", { limit: 50, cursor: parameter("cursor") }), { on: ["dead-letter", "batch"] });
  const [act, setAct] = useState<{ act: string; q: string } | null>(null);
  return (
    <>
      <List of={list} name="Groups of dead letters" paged columns={[["Letters", "right"], ["What went wrong"], ["Worker"], ["First", "right"], ["Last", "right"], ["#Acts"]]}
        empty={<p>Nothing was given up. What fails for good comes here, in groups of what is alike, and can be put back.</p>}
        row={(g) => {
          const q = g.group ? `group:${g.group.id}` : "";
          return (
            <tr key={g.group?.id ?? "none"}>
              <td class="right num strong">{g.letters.toLocaleString("en")}</td>
              <td>{g.group ? <Link href={`${to("dead-letters")}?group=${g.group.id}`}>{g.group.message}</Link> : <Link href={`${to("dead-letters")}?tab=letters`}>without a group</Link>}
                {g.group && <span class="dim"> {g.group.class}{g.group.step && <> · {g.group.step.split("/").pop()}</>}</span>}
                {g.group && g.group.count > g.letters && <span class="tag amber" title="More failures than letters: some were replayed and failed again, or are gone">failed {g.group.count}×</span>}</td>
              <td>{g.group?.worker}</td>
              <td class="right"><Time at={g.first_failed} /></td>
              <td class="right"><Time at={g.last_failed} /></td>
              <td class="right nowrap">{q && <><Button needs="batches:act" onClick={() => setAct({ act: "replay", q })}>Replay group</Button> <Button kind="danger" needs="batches:act" onClick={() => setAct({ act: "discard", q })}>Discard</Button></>}</td>
            </tr>
          );
        }} />
      {act && <MakeBatch act={act.act} q={act.q} noun="dead letters" ramp={act.act === "replay"} why={act.act === "discard"} close={() => setAct(null)} />}
    </>
  );
}

function Letters() {
  const q = parameter("q");
  const group = parameter("group");
  const list = useList<DeadLetter>(query("/dead-letters", { q, group, limit: 50, cursor: parameter("cursor") }), { on: ["dead-letter"] });
  const about = useData<ErrorGroup>(group ? `/errors/${group}` : null);
  const [act, setAct] = useState("");
  const all = [q, group && `group:${group}`].filter(Boolean).join(" ");
  return (
    <>
      <SearchBox q={q} label="Filter dead letters" hint="worker:mail failed:>-1d" fields={FIELDS} submit={(next) => set({ q: next || null, tab: "letters", cursor: null })} />
      {group && <p class="why">{about.data ? <><strong>{about.data.class}</strong> {about.data.message} <span class="dim">· {about.data.worker} · {count(about.data.count, "time")}, last <Time at={about.data.last_seen} /></span></> : "One group"} <Link class="next" href={changed({ group: null, tab: "letters" })}>All letters</Link></p>}
      {all && <div class="row"><Button needs="batches:act" kind="primary" onClick={() => setAct("replay")}>Replay all that match</Button><Button needs="batches:act" kind="danger" onClick={() => setAct("discard")}>Discard all that match</Button></div>}
      <List of={list} name="Dead letters" paged filtered={!!all} clear={() => set({ q: null, group: null, cursor: null, tab: "letters" })}
        columns={[["Letter"], ["Reason"], ["Detail"], ["Of"], ["Attempts", "right"], ["Failed", "right"]]} empty={<p>Nothing was given up.</p>}
        row={(l) => (
          <tr key={l.id} data-row={to("dead-letters", l.id)}>
            <td><Id id={l.id} href={to("dead-letters", l.id)} /></td><td>{l.reason}</td><td class="clip">{l.detail}</td>
            <td>{l.worker ?? l.source} {l.instance && <Id id={l.instance} href={to("instances", l.instance)} />}</td>
            <td class="right num">{l.attempts}</td><td class="right"><Time at={l.failed_at} /></td>
          </tr>
        )} />
      {act && <MakeBatch act={act} q={all} noun="dead letters" ramp={act === "replay"} why={act === "discard"} close={() => setAct("")} />}
    </>
  );
}

type Detail = DeadLetter & { envelope?: unknown; origin?: unknown; events?: unknown; [key: string]: unknown };

export function LetterScreen({ id }: { id: string }) {
  const letter = useData<Detail>(`/dead-letters/${id}`, { on: ["dead-letter"], ids: [id] });
  const [asking, setAsking] = useState("");
  const l = letter.data;
  if (!l) return letter.problem ? <Failure problem={letter.problem} retry={letter.reload} /> : <Loading />;
  const { id: _, source, reason, detail, instance, worker, group, attempts, last_node, failed_at, ...rest } = l;
  return (
    <>
      <Head trail={<><Link href={to("dead-letters")}>Dead letters</Link> › <Id id={id} full /></>} title={reason}>
        <Button kind="primary" needs="dead-letters:act" onClick={() => setAsking("replay")}>Replay</Button>
        <Button needs="dead-letters:act" onClick={() => setAsking("edit")}>Edit and replay</Button>
        <Button kind="danger" needs="dead-letters:act" onClick={() => setAsking("discard")}>Discard</Button>
      </Head>
      <p class="why red">{detail}</p>
      <Facts of={[["Of", worker ?? source], ["Instance", instance ? <Id id={instance} href={to("instances", instance)} /> : "–"], ["Group", group ? <Link href={`${to("dead-letters")}?group=${group}`}>{group.slice(0, 12)}…</Link> : "–"], ["Attempts", attempts], ["Failed", <Exact at={failed_at} />], ["Node", <Id id={last_node} />]]} />
      <div class="columns">{Object.entries(rest).map(([name, value]) => <section key={name}><h2>{name}</h2><Json value={value} label={name} /></section>)}</div>
      {asking === "replay" && <Confirm title="Replay this dead letter" act="Replay 1 dead letter" danger={false} text="It goes back where it came from, with its original key, so that what was done is not done twice." cli={["dlq", "replay", id]} close={() => setAsking("")} go={() => attempt(post(`/dead-letters/${id}/replay`), "It is put back").then(letter.reload)} />}
      {asking === "discard" && <Confirm title="Discard this dead letter" act="Discard 1 dead letter" text="It is given up for good." ask="Why" cli={["dlq", "discard", id]} close={() => setAsking("")} go={(why) => attempt(post(`/dead-letters/${id}/discard`, { reason: why }), "It is discarded").then(letter.reload)} />}
      {asking === "edit" && <Edit id={id} begin={dataOf(l)} close={() => setAsking("")} done={letter.reload} />}
    </>
  );
}

/** What the letter carried: the data of its event, if it has one. */
function dataOf(letter: Detail): unknown {
  const carried = (letter.payload ?? letter.envelope ?? letter.event) as { data?: unknown; events?: { data?: unknown }[] } | undefined;
  return carried?.data ?? carried?.events?.[0]?.data ?? carried ?? {};
}

function Edit({ id, begin, close, done }: { id: string; begin: unknown; close: () => void; done: () => void }) {
  const [data, setData] = useState(begin);
  return (
    <Dialog title="Replay with other data" close={close} wide>
      <form onSubmit={async (e) => { e.preventDefault(); if (await attempt(post(`/dead-letters/${id}/replay`, { data }), "It is put back with this data")) { close(); done(); } }}>
        <JsonField label="Data" value={data} change={setData} id="letter-data" rows={14} />
        <Cli words={["dlq", "replay", id, "--data", JSON.stringify(data)]} />
        <footer><Button onClick={close}>Close</Button><Button type="submit" kind="primary" needs="dead-letters:act">Replay 1 dead letter</Button></footer>
      </form>
    </Dialog>
  );
}
