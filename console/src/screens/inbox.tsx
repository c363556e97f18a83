// Inbox: tasks for people on the left, the chosen one with its form on the right.
import { useState } from "preact/hooks";
import { me, post, Problem, query, type Task, type TaskDetail } from "../api";
import { useData, useList } from "../data";
import type { Schema } from "../format";
import { SchemaForm } from "../form";
import { changed, go, Link, parameter, to } from "../route";
import { attempt, Button, Cli, Dialog, Facts, Failure, Head, Id, Json, Loading, now, State, Time, toast } from "../ui";

const VIEWS: [string, string][] = [["", "waiting"], ["mine", "mine"], ["done", "done"]];

export function Inbox({ id }: { id: string | undefined }) {
  const view = parameter("view");
  const due = parameter("due");
  const list = useList<Task>(query("/tasks", {
    status: view === "done" ? "completed,cancelled" : "open,claimed",
    assignee: view === "mine" ? me.value?.name : null, group: parameter("group"), limit: 100, cursor: parameter("cursor"),
  }), { on: ["task"] });
  const items = (list.data?.items ?? []).filter((t) => !due || (t.due_at && Date.parse(t.due_at) < now.value))
    .sort((a, b) => b.priority - a.priority || (a.due_at ?? "9").localeCompare(b.due_at ?? "9"));
  const search = location.search;
  return (
    <>
      <Head title="Inbox" />
      <nav class="chips" aria-label="View">{VIEWS.map(([key, title]) => <Link key={key} href={to("inbox") + (key ? `?view=${key}` : "")} aria-current={view === key ? "true" : undefined}>{title}</Link>)}
        <Link href={changed({ due: due ? null : "overdue" })} aria-current={due ? "true" : undefined}>overdue</Link></nav>
      <div class="inbox">
        <section aria-label="Tasks">
          {!list.data ? (list.problem ? <Failure problem={list.problem} retry={list.reload} /> : <Loading />)
            : items.length === 0 ? <div class="empty">{view || due ? <><p>Nothing here.</p><Button onClick={() => go(to("inbox"))}>Show all that wait</Button></> : <p>Nothing waits for a person. Well done.</p>}</div>
            : <ul class="cards">{items.map((t) => (
              <li key={t.id}><Link href={to("inbox", t.id) + search} aria-current={t.id === id ? "true" : undefined}>
                <strong>{t.title}</strong>
                <span><State word={t.status} /> {t.assignee && <>· {t.assignee} </>}{t.candidate_groups.length > 0 && <span class="dim">· {t.candidate_groups.join(", ")}</span>}</span>
                <span class={t.due_at && Date.parse(t.due_at) < now.value && !t.ended_at ? "red" : "dim"}>{t.due_at ? <>due <Time at={t.due_at} /></> : <>since <Time at={t.created_at} /></>}</span>
              </Link></li>
            ))}</ul>}
        </section>
        <section aria-label="Task">{id ? <TaskView key={id} id={id} /> : items.length > 0 && <div class="empty"><p>Choose a task.</p></div>}</section>
      </div>
    </>
  );
}

function TaskView({ id }: { id: string }) {
  const task = useData<TaskDetail>(`/tasks/${id}`, { on: ["task"], ids: [id] });
  const [assigning, setAssigning] = useState(false);
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const t = task.data;
  if (!t) return task.problem ? <Failure problem={task.problem} retry={task.reload} /> : <Loading />;
  const act = (verb: string, body?: unknown) => attempt(post(`/tasks/${id}/${verb}`, body), { claim: "It is yours", release: "It is given back", assign: "It is assigned" }[verb]).then(task.reload);
  const complete = async (value: unknown) => {
    try {
      await post(`/tasks/${id}/complete`, { result: value ?? null }, { "if-match": `"${t.version}"` });
      toast("Completed; the instance goes on", { href: to("instances", t.instance), link: "Watch it" });
      setWrong({});
      task.reload();
    } catch (error) {
      const problem = error as Problem;
      setWrong(Object.fromEntries(problem.errors.map((e) => [e.pointer.replace(/^\/result/, ""), e.message])));
      toast(problem.code === "stale" || problem.code === "task-ended" ? "Somebody else has changed this task meanwhile" : `${problem.title}: ${problem.message}`, { bad: true });
      task.reload();
    }
  };
  const last = t.events[t.events.length - 1];
  const open = !t.ended_at;
  return (
    <article class="task">
      <header><h2>{t.title}</h2><State word={t.status} /></header>
      <Facts of={[["For", t.assignee ?? ([...t.candidate_users, ...t.candidate_groups].join(", ") || "anybody")], ["Due", <Time at={t.due_at} />], ["Instance", <Id id={t.instance} href={to("instances", t.instance)} />], ["Since", <Time at={t.created_at} />]]} />
      {!open && <p class="why">{t.status} by <strong>{last?.actor}</strong> <Time at={t.ended_at} /></p>}
      {open && <div class="row">
        {t.status === "open" ? <Button needs="tasks:act" onClick={() => act("claim")}>Claim</Button> : <Button needs="tasks:act" onClick={() => act("release")}>Release</Button>}
        <Button needs="tasks:act" onClick={() => setAssigning(true)}>Assign…</Button>
      </div>}
      <h3>What it is about</h3>
      <Json value={t.payload} label="What it is about" />
      <h3>{open ? "Your answer" : "The answer"}</h3>
      {open ? <SchemaForm schema={(t.form as Schema) ?? null} act="Complete" needs="tasks:act" submit={complete} wrong={wrong} /> : <Json value={t.result} label="The answer" />}
      {open && <Cli words={["task", "complete", t.id, "--result", "{…}"]} />}
      <h3>So far</h3>
      <ol class="plain">{t.events.map((e) => <li key={e.version}>{e.kind} by {e.actor} <Time at={e.time} /></li>)}</ol>
      {assigning && <Assign close={() => setAssigning(false)} go={(name) => act("assign", { to: name })} />}
    </article>
  );
}

function Assign({ close, go: give }: { close: () => void; go: (name: string) => Promise<unknown> }) {
  const [name, setName] = useState("");
  return (
    <Dialog title="Assign this task" close={close}>
      <form onSubmit={async (e) => { e.preventDefault(); if (!name.trim()) return; await give(name.trim()); close(); }}>
        <label class="field">To<input value={name} required onInput={(e) => setName(e.currentTarget.value)} /></label>
        <footer><Button onClick={close}>Close</Button><Button type="submit" kind="primary" needs="tasks:act">Assign</Button></footer>
      </form>
    </Dialog>
  );
}
