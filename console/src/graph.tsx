// A graph as the server has laid it out: nodes that can be focused and walked with the arrow keys, and a table twin.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { parameter, set } from "./route";
import { colour, shape, State } from "./ui";

interface Box { x: number; y: number; w: number; h: number; }
interface Mark { state?: string; attempts?: number; durationMs?: number; change?: string; note?: string; }
export interface Node extends Box { id: string; step?: string; kind: string; name: string; lines: string[]; path: string[]; mark?: Mark; }
interface Edge { from: string; to: string; kind: string; points: [number, number][]; arrow: boolean; label?: Box & { text: string; line: string }; change?: string; }
interface Group extends Box { id: string; step?: string; kind: string; name: string; title: string; header: Box; path: string[]; mark?: Mark; }
export interface Drawing { name: string; title: string; summary: string; width: number; height: number; nodes: Node[]; edges: Edge[]; groups: Group[]; }

const SMALL = new Set(["start", "end", "split", "join"]);

function words(node: Node): string {
  const { mark } = node;
  // What is written on it comes first, so that it can be called by that.
  return [node.lines.join(" ") || node.kind, node.kind, mark?.change, mark?.state, mark?.attempts && mark.attempts > 1 ? `${mark.attempts} attempts` : "", mark?.note].filter(Boolean).join(", ");
}

/** A path with round corners. */
function line(points: [number, number][]): string {
  if (points.length < 2) return "";
  let d = `M${points[0]![0]} ${points[0]![1]}`;
  for (let i = 1; i < points.length; i++) {
    const [x, y] = points[i]!;
    const next = points[i + 1];
    if (!next) { d += `L${x} ${y}`; break; }
    const [px, py] = points[i - 1]!;
    const r = Math.min(6, Math.hypot(x - px, y - py) / 2, Math.hypot(next[0] - x, next[1] - y) / 2);
    const near = (ax: number, ay: number) => { const l = Math.hypot(ax - x, ay - y) || 1; return `${x + ((ax - x) * r) / l} ${y + ((ay - y) * r) / l}`; };
    d += `L${near(px, py)}Q${x} ${y} ${near(next[0], next[1])}`;
  }
  return d;
}

function head(points: [number, number][]): string {
  const [x, y] = points[points.length - 1]!;
  const [px, py] = points[points.length - 2]!;
  const l = Math.hypot(x - px, y - py) || 1;
  const [ux, uy] = [(x - px) / l, (y - py) / l];
  return `M${x} ${y}L${x - ux * 7 - uy * 4} ${y - uy * 7 + ux * 4}L${x - ux * 7 + uy * 4} ${y - uy * 7 - ux * 4}Z`;
}

interface Props { of: Drawing; selected?: string; select?: (step: string | null) => void; label: string; }

export function Graph({ of, selected, select, label }: Props) {
  const [table, setTable] = useState(false);
  const area = useRef<HTMLDivElement>(null);
  const byId = useMemo(() => new Map(of.nodes.map((node) => [node.id, node])), [of]);
  const down = parameter("way") === "top-bottom";
  // What matters now is brought into view, once: what failed, else what goes on or waits.
  const shown = useRef("");
  useEffect(() => {
    const key = `${of.name}${of.width}`;
    const hot = ["faulted", "waiting", "running", "paused"].map((state) => of.nodes.find((node) => node.mark?.state === state)).find((node) => node !== undefined);
    if (shown.current === key || !hot || !area.current) return;
    shown.current = key;
    area.current.scrollTo({ left: hot.x + hot.w / 2 - area.current.clientWidth / 2, top: hot.y + hot.h / 2 - area.current.clientHeight / 2 });
  }, [of]);
  const focus = (id: string) => area.current?.querySelector<SVGGElement>(`[data-node="${CSS.escape(id)}"]`)?.focus();
  const walk = (event: KeyboardEvent, node: Node) => {
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); select?.(node.step ?? null); return; }
    const forward = event.key === "ArrowRight" || event.key === "ArrowDown";
    const back = event.key === "ArrowLeft" || event.key === "ArrowUp";
    if (!forward && !back) return;
    event.preventDefault();
    // Edges may begin and end at groups: then the nearest node that way.
    const ends = of.edges.filter((edge) => (forward ? edge.from : edge.to) === node.id).map((edge) => byId.get(forward ? edge.to : edge.from)).filter((n) => n !== undefined);
    const beyond = of.nodes.filter((n) => (forward ? n.x > node.x || (n.x === node.x && n.y > node.y) : n.x < node.x || (n.x === node.x && n.y < node.y)));
    const near = beyond.sort((a, b) => Math.hypot(a.x - node.x, (a.y - node.y) * 2) - Math.hypot(b.x - node.x, (b.y - node.y) * 2))[0];
    const next = ends[event.key === "ArrowDown" || event.key === "ArrowUp" ? ends.length - 1 : 0] ?? near;
    if (next) focus(next.id);
  };
  const first = of.nodes.find((node) => node.step === selected)?.id ?? of.nodes[0]?.id;
  return (
    <div class="graph">
      <div class="graphtools">
        {of.summary && <span class="dim clip grow">{of.summary}</span>}
        <button type="button" class="button quiet small" onClick={() => set({ way: down ? null : "top-bottom" }, true)}>{down ? "Left to right" : "Top to bottom"}</button>
        <button type="button" class="button quiet small" aria-pressed={table} onClick={() => setTable(!table)}>{table ? "Show as graph" : "Show as table"}</button>
      </div>
      {table ? <Twin of={of} selected={selected} select={select} /> : (
        <div class="canvas" ref={area} tabIndex={0} role="region" aria-label={label}>
          <svg width={of.width} height={of.height} viewBox={`0 0 ${of.width} ${of.height}`} role="group" aria-label={of.title || of.name}>
            {of.groups.map((g) => (
              <g key={g.id} class={`group ${g.mark?.change ?? ""}`}>
                <rect x={g.x} y={g.y} width={g.w} height={g.h} rx={6} />
                <text x={g.header.x + 6} y={g.header.y + g.header.h / 2} dominant-baseline="central">{g.title}</text>
              </g>
            ))}
            {of.edges.map((edge, i) => (
              <g key={i} class={`edge ${edge.kind} ${edge.change ?? ""}`}>
                <path class="line" d={line(edge.points)} />
                {edge.arrow && edge.points.length > 1 && <path class="arrow" d={head(edge.points)} />}
                {edge.label && <text x={edge.label.x + edge.label.w / 2} y={edge.label.y + edge.label.h / 2} text-anchor="middle" dominant-baseline="central">{edge.label.line}</text>}
              </g>
            ))}
            {of.nodes.map((node) => {
              const mark = node.mark;
              const word = mark?.change ?? mark?.state;
              const small = SMALL.has(node.kind);
              return (
                <g key={node.id} data-node={node.id} class={`node ${node.kind} ${word ? colour(word) : "idle"} ${selected && selected === node.step ? "selected" : ""}`}
                  role="button" tabindex={node.id === first ? 0 : -1} aria-pressed={selected !== undefined && selected === node.step}
                  onClick={() => select?.(node.step ?? null)} onKeyDown={(event) => walk(event, node)}>
                  <title>{words(node)}</title>
                  <rect x={node.x} y={node.y} width={node.w} height={node.h} rx={small ? Math.min(node.w, node.h) / 2 : 5} />
                  {!small && node.lines.map((text, i) => (
                    <text key={i} class={i ? "detail" : "name"} x={node.x + node.w / 2} y={node.y + node.h / 2 + (i - (node.lines.length - 1) / 2) * 16} text-anchor="middle" dominant-baseline="central">{text}</text>
                  ))}
                  {word && !small && (
                    <g class="badge" aria-hidden="true">
                      <circle cx={node.x + node.w - 2} cy={node.y + 2} r={9} />
                      <text x={node.x + node.w - 2} y={node.y + 2.5} text-anchor="middle" dominant-baseline="central">{shape(word)}</text>
                      {mark?.attempts !== undefined && mark.attempts > 1 && <text class="tries" x={node.x + node.w - 16} y={node.y - 6} text-anchor="end">×{mark.attempts}</text>}
                    </g>
                  )}
                </g>
              );
            })}
          </svg>
        </div>
      )}
    </div>
  );
}

function Twin({ of, selected, select }: { of: Drawing; selected?: string; select?: (step: string | null) => void }) {
  const rows = of.nodes.filter((node) => !SMALL.has(node.kind));
  const next = (id: string) => of.edges.filter((edge) => edge.from === id).map((edge) => of.nodes.find((n) => n.id === edge.to)?.name || of.groups.find((g) => g.id === edge.to)?.name || edge.to);
  return (
    <table>
      <caption class="hidden">Steps of {of.name}</caption>
      <thead><tr><th scope="col">Step</th><th scope="col">Kind</th><th scope="col">State</th><th scope="col">Goes on to</th><th scope="col">Note</th></tr></thead>
      <tbody>{rows.map((node) => (
        <tr key={node.id} class={selected === node.step ? "current" : ""}>
          <td><button type="button" class="link" onClick={() => select?.(node.step ?? null)}>{node.name}</button></td>
          <td>{node.kind}</td>
          <td>{node.mark?.change ?? node.mark?.state ? <State word={(node.mark?.change ?? node.mark?.state)!} /> : <span class="dim">not yet</span>}</td>
          <td>{next(node.id).join(", ")}</td>
          <td>{node.mark?.note}</td>
        </tr>
      ))}</tbody>
    </table>
  );
}
