// Tenants and keys, and the state of the deployment.
import { useState } from "preact/hooks";
import { ask, live, may, me, post, query } from "../api";
import { useData, useList } from "../data";
import { Link, parameter, to } from "../route";
import { attempt, Button, Cli, Confirm, Copy, Dialog, Exact, Facts, Head, List, State, Time } from "../ui";

interface Tenant { id: string; title: string; status: string; weight: number; open_max: number; starts_per_second: number; concurrency_max: number; degraded_per_second: number; purge_at: string | null; created_at: string; }
interface Key { id: string; name: string; roles: string[]; created_at: string; expires_at: string | null; revoked_at: string | null; }

const ROLES = ["admin", "operator", "developer", "worker", "viewer", "platform", "monitor"];
const limit = (n: number) => (n === 0 ? <span class="dim">none</span> : n.toLocaleString("en"));

export function Tenants() {
  const tenants = useList<Tenant>(may("tenants:read") ? query("/tenants", { limit: 100, cursor: parameter("cursor") }) : null, { every: 15_000 });
  const keys = useList<Key>(may("keys:read") ? "/keys" : null);
  const [making, setMaking] = useState(false);
  const [creating, setCreating] = useState(false);
  const [ordering, setOrdering] = useState<{ tenant: Tenant; status: string } | null>(null);
  const [revoking, setRevoking] = useState<Key | null>(null);
  return (
    <>
      <Head title="Tenants and keys"><Button needs="tenants:write" onClick={() => setCreating(true)}>Create a tenant</Button><Button kind="primary" needs="keys:write" onClick={() => setMaking(true)}>Make a key</Button></Head>
      <h2>Keys of {me.value?.tenant}</h2>
      {may("keys:read") ? <List of={keys} name="Keys" columns={[["State"], ["Key"], ["Name"], ["Roles"], ["Made", "right"], ["Ends", "right"], ["#Acts"]]} empty={<p>This tenant has no key.</p>}
        row={(k) => <tr key={k.id}><td><State word={k.revoked_at ? "ended" : "active"} />{k.id === me.value?.key && <span class="tag">yours</span>}</td><td class="mono">{k.id}</td><td>{k.name}</td><td>{k.roles.join(", ")}</td><td class="right"><Time at={k.created_at} /></td><td class="right">{k.revoked_at ? <>revoked <Time at={k.revoked_at} /></> : k.expires_at ? <Time at={k.expires_at} /> : <span class="dim">never</span>}</td>
          <td class="right">{!k.revoked_at && <Button kind="danger" needs="keys:write" onClick={() => setRevoking(k)}>Revoke</Button>}</td></tr>} /> : <p class="dim">Your key may not read keys: that needs keys:read.</p>}
      <h2>Tenants</h2>
      {may("tenants:read") ? <List of={tenants} name="Tenants" paged columns={[["Status"], ["Tenant"], ["Title"], ["Weight", "right"], ["Open at most", "right"], ["Starts in a second", "right"], ["At once", "right"], ["Since", "right"], ["#Acts"]]} empty={<p>There is no tenant.</p>}
        row={(t) => <tr key={t.id}><td><State word={t.status} /></td><td class="mono">{t.id}</td><td>{t.title}</td><td class="right num">{t.weight}</td><td class="right num">{limit(t.open_max)}</td><td class="right num">{limit(t.starts_per_second)}</td><td class="right num">{limit(t.concurrency_max)}</td><td class="right"><Time at={t.created_at} /></td>
          <td class="right nowrap">{t.status === "active" ? <Button kind="danger" needs="tenants:write" off={t.id === me.value?.tenant} title={t.id === me.value?.tenant ? "This is your own tenant" : undefined} onClick={() => setOrdering({ tenant: t, status: "suspended" })}>Suspend</Button> : t.status !== "deleted" && <Button needs="tenants:write" onClick={() => setOrdering({ tenant: t, status: "active" })}>Resume</Button>}</td></tr>} /> : <p class="dim">Other tenants are seen with a platform key only.</p>}
      {making && <MakeKey close={() => setMaking(false)} done={keys.reload} />}
      {creating && <CreateTenant close={() => setCreating(false)} done={tenants.reload} />}
      {revoking && <Confirm title={`Revoke ${revoking.name}`} act="Revoke 1 key" text="Whoever uses this key, or a session made with it, is refused within seconds. This cannot be taken back." cli={["key", "revoke", revoking.id]} close={() => setRevoking(null)} go={() => attempt(ask(`/keys/${revoking.id}`, { method: "DELETE" }), "The key is revoked").then(keys.reload)} />}
      {ordering && <Confirm title={`${ordering.tenant.title}: ${ordering.status}`} act={ordering.status === "active" ? "Resume 1 tenant" : "Suspend 1 tenant"} danger={ordering.status !== "active"} text={ordering.status === "active" ? "Everything goes on." : "It can be read, nothing can be changed, and its work waits."} cli={["tenant", ordering.status === "active" ? "resume" : "suspend", ordering.tenant.id]} close={() => setOrdering(null)} go={() => attempt(ask(`/tenants/${ordering.tenant.id}`, { method: "PATCH", body: { status: ordering.status } }), `The tenant is ${ordering.status}`).then(tenants.reload)} />}
    </>
  );
}

function MakeKey({ close, done }: { close: () => void; done: () => void }) {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<string[]>(["viewer"]);
  const [days, setDays] = useState("90");
  const [secret, setSecret] = useState("");
  const make = async (event: Event) => {
    event.preventDefault();
    const expires = Number(days) > 0 ? new Date(Date.now() + Number(days) * 86_400_000).toISOString() : undefined;
    const made = await attempt(post<{ secret: string }>("/keys", { name, roles, ...(expires ? { expires_at: expires } : {}) }));
    if (made) { setSecret(made.secret); done(); }
  };
  if (secret) return (
    <Dialog title="The key is made" close={close}>
      <p>This is the only time that it is shown. Whoever has it may do what its roles allow.</p>
      <div class="cli"><code class="break">{secret}</code><Copy text={secret} /></div>
      <footer><Button kind="primary" onClick={close}>I have kept it</Button></footer>
    </Dialog>
  );
  return (
    <Dialog title="Make a key" close={close}>
      <form onSubmit={make}>
        <label class="field">Who or what uses it<input value={name} required onInput={(e) => setName(e.currentTarget.value)} /></label>
        <fieldset><legend>Roles</legend>{ROLES.map((role) => <label key={role} class="radio"><input type="checkbox" checked={roles.includes(role)} onChange={() => setRoles(roles.includes(role) ? roles.filter((r) => r !== role) : [...roles, role])} /> {role}</label>)}</fieldset>
        <label class="field">Ends after so many days; 0 is never<input type="number" min={0} value={days} onInput={(e) => setDays(e.currentTarget.value)} /></label>
        <Cli words={["key", "create", name || "NAME", ...roles.flatMap((r) => ["--role", r])]} />
        <footer><Button onClick={close}>Close</Button><Button type="submit" kind="primary" needs="keys:write" off={!name.trim() || !roles.length}>Make 1 key</Button></footer>
      </form>
    </Dialog>
  );
}

function CreateTenant({ close, done }: { close: () => void; done: () => void }) {
  const [id, setId] = useState("");
  const [title, setTitle] = useState("");
  const create = async (event: Event) => {
    event.preventDefault();
    if (await attempt(post("/tenants", { id, ...(title ? { title } : {}) }), "The tenant is created")) { done(); close(); }
  };
  return (
    <Dialog title="Create a tenant" close={close}>
      <form onSubmit={create}>
        <label class="field">Id<input value={id} required pattern="[a-z0-9][a-z0-9-]*" onInput={(e) => setId(e.currentTarget.value)} /></label>
        <label class="field">Title<input value={title} onInput={(e) => setTitle(e.currentTarget.value)} /></label>
        <Cli words={["tenant", "create", id || "ID"]} />
        <footer><Button onClick={close}>Close</Button><Button type="submit" kind="primary" needs="tenants:write">Create 1 tenant</Button></footer>
      </form>
    </Dialog>
  );
}

interface Bus { name: string; status: string; place: string; waiting: number; carried: number; refused: number; oldest_at: string | null; error: string | null; types: string[]; }
interface ErrorRow { id: string; worker: string; class: string; message: string; count: number; first_seen: string; last_seen: string; }

export function System() {
  const clock = useData<{ now: string; ahead_ms: number; enabled: boolean }>(may("dev:clock") ? "/dev/clock" : null, { every: 10_000 });
  const buses = useList<Bus>(may("buses:read") ? "/buses" : null, { every: 5000 });
  const secrets = useList<{ name: string; hosts: string[]; updated_at: string; version: number }>(may("secrets:read") ? "/secrets" : null);
  const errors = useList<ErrorRow>(may("errors:read") ? query("/errors", { limit: 50 }) : null, { every: 10_000 });
  return (
    <>
      <Head title="System" />
      <Facts of={[
        ["You", `${me.value?.name} of ${me.value?.tenant}`], ["Roles", me.value?.roles.join(", ")], ["Stream", <State word={live.value === "live" ? "active" : live.value === "paused" ? "paused" : "failed"} />],
        ...(clock.data ? [["Clock", <><Exact at={clock.data.now} />{clock.data.ahead_ms > 0 && <span class="amber"> ahead</span>}</>] as [string, preact.ComponentChildren]] : []),
        ["API", <a href="/api/docs/">viewer</a>], ["Error codes", <a href="/docs/errors.md">what each means</a>], ["Metrics", may("metrics:read") ? <a href="/metrics">for Prometheus</a> : "needs metrics:read"],
      ]} />
      <h2>Errors by what is alike</h2>
      {may("errors:read") ? <List of={errors} name="Error groups" columns={[["Count", "right"], ["Message"], ["Class"], ["Worker"], ["First", "right"], ["Last", "right"]]} empty={<p>No failure went unhandled.</p>}
        row={(e) => <tr key={e.id}><td class="right num strong">{e.count}</td><td class="clip"><Link href={`${to("dead-letters")}?group=${e.id}`}>{e.message}</Link></td><td>{e.class}</td><td>{e.worker}</td><td class="right"><Time at={e.first_seen} /></td><td class="right"><Time at={e.last_seen} /></td></tr>} /> : <p class="dim">That needs errors:read.</p>}
      <h2>Buses</h2>
      {may("buses:read") ? <List of={buses} name="Buses" columns={[["Status"], ["Bus"], ["Where"], ["Waiting", "right"], ["Carried", "right"], ["Refused", "right"], ["Oldest", "right"]]} empty={<p>No bus is set up: events stay inside.</p>}
        row={(b) => <tr key={b.name}><td><State word={b.status} /></td><td>{b.name}</td><td class="clip">{b.place} <span class="red">{b.error}</span></td><td class="right num">{b.waiting}</td><td class="right num">{b.carried}</td><td class="right num">{b.refused}</td><td class="right"><Time at={b.oldest_at} /></td></tr>} /> : <p class="dim">That needs buses:read.</p>}
      <h2>Secrets</h2>
      {may("secrets:read") ? <List of={secrets} name="Secrets" columns={[["Name"], ["For hosts"], ["Version", "right"], ["Changed", "right"]]} empty={<p>None is kept. Values are never shown, only names.</p>}
        row={(s) => <tr key={s.name}><td class="mono">{s.name}</td><td>{s.hosts.join(", ") || "any"}</td><td class="right num">{s.version}</td><td class="right"><Time at={s.updated_at} /></td></tr>} /> : <p class="dim">That needs secrets:read.</p>}
    </>
  );
}
