// A form made from a JSON Schema; what it cannot show as a field is JSON in a text area. The server checks everything again.
import { useState } from "preact/hooks";
import { flaws, initial, type Schema, widget } from "./format";
import { Button } from "./ui";

interface FieldProps { schema: Schema; value: unknown; change: (value: unknown) => void; name: string; pointer: string; needed: boolean; wrong: Record<string, string>; }

function Field({ schema, value, change, name, pointer, needed, wrong }: FieldProps) {
  const id = `f${pointer.replaceAll("/", "-")}`;
  const flaw = wrong[pointer];
  const label = schema.title ?? name;
  const about = schema.description && <small id={`${id}-about`} class="dim">{schema.description}</small>;
  const shared = { id, "aria-invalid": flaw ? true : undefined, "aria-describedby": flaw ? `${id}-wrong` : schema.description ? `${id}-about` : undefined };
  const kind = widget(schema);
  if (kind === "object") {
    const object = (value ?? {}) as Record<string, unknown>;
    const body = Object.entries(schema.properties ?? {}).map(([key, inner]) => (
      <Field key={key} schema={inner} value={object[key]} name={key} pointer={`${pointer}/${key}`} needed={schema.required?.includes(key) ?? false} wrong={wrong}
        change={(v) => { const next = { ...object }; if (v === undefined) delete next[key]; else next[key] = v; change(next); }} />
    ));
    return pointer ? <fieldset><legend>{label}</legend>{about}{body}</fieldset> : <>{body}</>;
  }
  const text = (event: { currentTarget: { value: string } }) => event.currentTarget.value;
  let input;
  if (kind === "check") {
    // Three answers: yes, no, not said. A box could not tell the last two apart.
    const option = (word: string, v: boolean) => (
      <label class="radio"><input type="radio" name={id} id={v ? id : undefined} checked={value === v} onChange={() => change(v)} /> {word}</label>
    );
    return (
      <fieldset class="field" aria-describedby={flaw ? `${id}-wrong` : undefined}><legend>{label}{needed && <span aria-hidden="true"> *</span>}</legend>{about}
        <span class="row">{option("Yes", true)}{option("No", false)}</span>
        {flaw && <small class="red" id={`${id}-wrong`}>{flaw}</small>}
      </fieldset>
    );
  }
  if (kind === "choice") {
    const options = schema.enum!;
    input = (
      <select {...shared} required={needed} value={value === undefined ? "" : JSON.stringify(value)} onChange={(e) => change(text(e) === "" ? undefined : JSON.parse(text(e)))}>
        <option value="">choose</option>
        {options.map((o) => <option key={JSON.stringify(o)} value={JSON.stringify(o)}>{String(o)}</option>)}
      </select>
    );
  } else if (kind === "number") {
    input = <input {...shared} type="number" step={schema.type === "integer" ? 1 : "any"} min={schema.minimum} max={schema.maximum} required={needed} value={value === undefined ? "" : String(value)}
      onInput={(e) => change(text(e) === "" ? undefined : Number(text(e)))} />;
  } else if (kind === "text") {
    const type = schema.format === "date" ? "date" : schema.format === "email" ? "email" : "text";
    input = <input {...shared} type={type} required={needed} value={(value as string) ?? ""} onInput={(e) => change(text(e) === "" ? undefined : text(e))} />;
  } else if (kind === "long") {
    input = <textarea {...shared} rows={4} required={needed} value={(value as string) ?? ""} onInput={(e) => change(text(e) === "" ? undefined : text(e))} />;
  } else {
    return <JsonField label={label} value={value} change={change} id={id} />;
  }
  return <label class="field">{label}{needed && <span aria-hidden="true"> *</span>}{about}{input}{flaw && <small class="red" id={`${id}-wrong`}>{flaw}</small>}</label>;
}

export function JsonField({ label, value, change, id, rows = 8 }: { label: string; value: unknown; change: (value: unknown) => void; id: string; rows?: number }) {
  const [text, setText] = useState(value === undefined ? "" : JSON.stringify(value, null, 2));
  const [wrong, setWrong] = useState("");
  const edit = (next: string) => {
    setText(next);
    try { change(next.trim() ? JSON.parse(next) : undefined); setWrong(""); }
    catch (error) { setWrong((error as Error).message); }
  };
  return (
    <label class="field">{label}
      <textarea id={id} class="mono" rows={rows} spellcheck={false} value={text} aria-invalid={wrong ? true : undefined} onInput={(e) => edit(e.currentTarget.value)} />
      {wrong && <small class="red">{wrong}</small>}
    </label>
  );
}

interface Props { schema: Schema | null; begin?: unknown; act: string; needs: string; submit: (value: unknown) => Promise<unknown>; wrong?: Record<string, string>; }

export function SchemaForm({ schema, begin, act, needs, submit, wrong: told }: Props) {
  const [value, setValue] = useState<unknown>(begin ?? (schema ? initial(schema) : undefined));
  const [wrong, setWrong] = useState<Record<string, string>>({});
  const [busy, setBusy] = useState(false);
  const send = async (event: Event) => {
    event.preventDefault();
    const found = schema ? flaws(schema, value) : {};
    setWrong(found);
    if (Object.keys(found).length || busy) return;
    setBusy(true);
    await submit(value);
    setBusy(false);
  };
  return (
    <form class="form" onSubmit={send} noValidate>
      {schema && widget(schema) === "object"
        ? <Field schema={schema} value={value} change={setValue} name="" pointer="" needed wrong={{ ...told, ...wrong }} />
        : <JsonField label="JSON" value={value} change={setValue} id="f-json" />}
      <footer><Button type="submit" kind="primary" needs={needs} off={busy}>{act}</Button></footer>
    </form>
  );
}
