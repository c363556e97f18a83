// The frame: who is logged in, the rail, the bar on top, which screen is shown, the keys.
import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, connect, disconnect, live, loggedOut, type Me, may, me, Problem, stoppedAt, togglePause } from "./api";
import { duration } from "./format";
import { Help, helping, listenToKeys, Palette, paletteOpen } from "./keys";
import { go, Link, place, to } from "./route";
import { System, Tenants } from "./screens/access";
import { Batches, BatchScreen } from "./screens/batches";
import { Definitions, DefinitionScreen } from "./screens/definitions";
import { Events, EventScreen } from "./screens/events";
import { Inbox } from "./screens/inbox";
import { find, InstanceScreen } from "./screens/instance";
import { Instances } from "./screens/instances";
import { DeadLetters, LetterScreen } from "./screens/letters";
import { Overview } from "./screens/overview";
import { Schedules, ScheduleScreen } from "./screens/schedules";
import { Queues, QueueScreen, Workers } from "./screens/workers";
import { Button, Failure, Head, now, Toasts, utc } from "./ui";

const RAIL: [string, [string, string, string][]][] = [
  ["Watch", [["", "Overview", ""], ["instances", "Instances", "instances:read"], ["inbox", "Inbox", "tasks:read"], ["dead-letters", "Dead letters", "dead-letters:read"]]],
  ["Build", [["definitions", "Definitions", "definitions:read"], ["events", "Events", "events:read"], ["workers", "Workers", "workers:read"], ["schedules", "Schedules", "schedules:read"]]],
  ["Operate", [["queues", "Queues", "workers:read"], ["batches", "Batches", "batches:read"], ["tenants", "Tenants and keys", ""], ["system", "System", ""]]],
];

// ---- theme ----

type Theme = "auto" | "light" | "dark";
export const theme = signal<Theme>((localStorage.getItem("windlass.theme") as Theme) || "auto");
effect(() => {
  document.documentElement.dataset.theme = theme.value;
  localStorage.setItem("windlass.theme", theme.value);
});
export const nextTheme = () => (theme.value = theme.value === "auto" ? "dark" : theme.value === "dark" ? "light" : "auto");

// ---- who am I ----

const failed = signal<Problem | null>(null);

async function begin() {
  failed.value = null;
  const link = /[#&]link=([\w-]+)/.exec(location.hash)?.[1];
  if (link) {
    history.replaceState(null, "", location.pathname + location.search);
    // A link that was used before is no harm if the session is still there.
    await ask("/session", { method: "POST", body: { link } }).catch(() => {});
  }
  loggedOut.value = false;
  try {
    me.value = await ask<Me>("/me");
    connect();
    if (!place.value.tenant) go(to(), true);
  } catch (error) {
    if (!loggedOut.value) failed.value = error as Problem;
  }
}

export async function logout() {
  await ask("/session", { method: "DELETE" }).catch(() => {});
  disconnect();
  me.value = null;
  loggedOut.value = true;
}

function Login() {
  const [key, setKey] = useState("");
  const [wrong, setWrong] = useState("");
  const submit = async (event: Event) => {
    event.preventDefault();
    try {
      await ask("/session", { method: "POST", body: { key: key.trim() } });
      setKey("");
      await begin();
    } catch (error) {
      setWrong((error as Problem).status === 401 ? "This key is not valid, or it has ended." : (error as Problem).message);
    }
  };
  return (
    <main class="login" data-ready="login">
      <h1><Mark /> Windlass</h1>
      <form onSubmit={submit}>
        <label class="field">API key
          <input type="password" name="key" autocomplete="current-password" required value={key} placeholder="wlk_…" aria-invalid={wrong ? true : undefined} aria-describedby="login-help" onInput={(e) => setKey(e.currentTarget.value)} />
        </label>
        {wrong && <p class="red" role="alert">{wrong}</p>}
        <p class="dim" id="login-help">The key is shown once to the server and is not kept in this browser; a session lasts twelve hours. <code>windlass up</code> prints a link that logs in by itself.</p>
        <Button type="submit" kind="primary">Log in</Button>
      </form>
      <p><a href="/api/docs/">API viewer</a> · <a href="/docs/errors.md">Error codes</a></p>
    </main>
  );
}

function Mark() {
  return <svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="6.5" /><path d="M12 1v5M12 18v5M1 12h5M18 12h5M4.2 4.2l3.6 3.6M16.2 16.2l3.6 3.6M19.8 4.2l-3.6 3.6M7.8 16.2l-3.6 3.6" /></svg>;
}

// ---- frame ----

function Rail() {
  const current = place.value.parts[0] ?? "";
  return (
    <nav class="rail" aria-label="Screens">
      <Link class="brand" href={to()}><Mark /> <span>Windlass</span></Link>
      {RAIL.map(([title, screens]) => (
        <div key={title}>
          <h2>{title}</h2>
          <ul>{screens.map(([path, name, needs]) => (
            <li key={path}>
              {!needs || may(needs)
                ? <Link href={path ? to(path) : to()} aria-current={current === path ? "page" : undefined}>{name}</Link>
                : <span class="denied" title={`This needs the permission ${needs}`}>{name}</span>}
            </li>
          ))}</ul>
        </div>
      ))}
    </nav>
  );
}

function Bar() {
  const [text, setText] = useState("");
  const search = async (event: Event) => {
    event.preventDefault();
    if (!text.trim()) return;
    go(await find(text.trim()));
    setText("");
  };
  const state = live.value;
  const since = stoppedAt.value ? duration(now.value - stoppedAt.value) : "";
  const words = state === "live" ? "live" : state === "paused" ? "paused" : state === "stopped" ? `live stopped ${since} ago` : "not live";
  return (
    <header class="bar">
      <span class="tenant" title="The tenant of your key">{place.value.tenant}</span>
      <form class="find" role="search" aria-label="Find" onSubmit={search}><input id="find" aria-label="Find an id or a business key" placeholder="Find an id or a key  ( / )" value={text} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)} /></form>
      <button type="button" class="button quiet" onClick={() => (paletteOpen.value = true)} title="Every act, with its CLI line">Acts <kbd>Ctrl K</kbd></button>
      <span class="grow" />
      <button type="button" class={`button quiet live ${state}`} aria-pressed={state === "paused"} onClick={togglePause} title="Pause or go on with live updates (p)"><span aria-hidden="true">{state === "live" ? "●" : state === "paused" ? "∥" : "○"}</span> {words}</button>
      <button type="button" class="button quiet" title="Show times in UTC, or as on this machine" onClick={() => { utc.value = !utc.value; localStorage.setItem("windlass.utc", utc.value ? "yes" : "no"); }}>{utc.value ? "UTC" : "local"}</button>
      <button type="button" class="button quiet" title="Theme (t)" aria-label={`Theme: ${theme.value}`} onClick={nextTheme}>{theme.value === "auto" ? "◐" : theme.value === "dark" ? "☾" : "☀"}</button>
      <button type="button" class="button quiet" title="Keys (?)" aria-label="Keys" onClick={() => (helping.value = true)}>?</button>
      <details class="who"><summary title={me.value?.roles.join(", ")}>{me.value?.name}</summary>
        <div><p>{me.value?.roles.join(", ")}</p><p class="mono dim">{me.value?.key}</p><Button onClick={logout}>Log out</Button></div></details>
    </header>
  );
}

function Screen() {
  const { parts, tenant } = place.value;
  if (tenant !== me.value?.tenant) return (
    <div class="empty"><h1>Another tenant</h1><p>This address is of the tenant <strong>{tenant}</strong>; your key is of <strong>{me.value?.tenant}</strong>.</p><p><Link href={`/t/${me.value?.tenant}`}>Go to {me.value?.tenant}</Link>, or log in with another key.</p><Button onClick={logout}>Log out</Button></div>
  );
  const [screen = "", a, b] = parts;
  switch (screen) {
    case "": return <Overview />;
    case "instances": return a ? <InstanceScreen key={a} id={a} /> : <Instances />;
    case "inbox": return <Inbox id={a} />;
    case "dead-letters": return a ? <LetterScreen key={a} id={a} /> : <DeadLetters />;
    case "batches": return a ? <BatchScreen key={a} id={a} /> : <Batches />;
    case "definitions": return a && b ? <DefinitionScreen key={`${a}/${b}`} namespace={a} name={b} /> : <Definitions />;
    case "events": return a ? <EventScreen key={a} id={a} /> : <Events />;
    case "workers": return <Workers />;
    case "queues": return a ? <QueueScreen key={a} name={a} /> : <Queues />;
    case "schedules": return a ? <ScheduleScreen key={a} id={a} /> : <Schedules />;
    case "tenants": return <Tenants />;
    case "system": return <System />;
    default: return <><Head title="Nothing here" /><p>There is no screen at this address. <Link href={to()}>Overview</Link></p></>;
  }
}

/** Says on the element itself when everything that was asked for is there. */
function useReady(screen: string) {
  const main = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = main.current!;
    const look = () => {
      const ready = !element.querySelector(".skeleton") && element.querySelector("h1, .failure") !== null;
      if (ready) element.dataset.ready = screen || "overview";
      else delete element.dataset.ready;
    };
    const observer = new MutationObserver(look);
    observer.observe(element, { childList: true, subtree: true });
    look();
    return () => observer.disconnect();
  }, [screen]);
  return main;
}

function Shell() {
  const screen = place.value.parts[0] ?? "";
  const main = useReady(screen);
  const title = RAIL.flatMap(([, screens]) => screens).find(([path]) => path === screen)?.[1] ?? "Windlass";
  useEffect(() => { document.title = `${title} · ${place.value.tenant} · Windlass`; }, [title]);
  useEffect(listenToKeys, []);
  return (
    <div class="shell">
      <a class="skip" href="#main">To the content</a>
      <Rail />
      <div class="page">
        <Bar />
        {live.value === "stopped" && <p class="notice amber" role="status">What you see may be old: nothing was heard for {stoppedAt.value ? duration(now.value - stoppedAt.value) : "a while"}. It is tried again by itself.</p>}
        <main id="main" ref={main} tabIndex={-1}><Screen /></main>
      </div>
      <Palette />
      {helping.value && <Help />}
      <Toasts />
    </div>
  );
}

function App() {
  if (loggedOut.value) return <Login />;
  if (failed.value) return <main class="login" data-ready="failed"><h1>Windlass</h1><Failure problem={failed.value} retry={begin} /></main>;
  if (!me.value) return <main class="login"><h1>Windlass</h1></main>;
  return <Shell />;
}

const root = document.getElementById("app")!;
root.textContent = "";
render(<App />, root);
addEventListener("hashchange", () => { if (location.hash.includes("link=")) void begin(); });
void begin();
