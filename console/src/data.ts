// Reading lists and objects: first load, refresh when something changed, what is stale, what went wrong.
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, live, onChange, type Page, Problem } from "./api";

export interface Loaded<T> {
  data: T | null;
  problem: Problem | null;
  loading: boolean;
  reload: () => void;
}

interface Options {
  /** Kinds of changes after which it is read again. */
  on?: string[];
  /** Only changes of these objects count. */
  ids?: string[];
  /** Read again every so many milliseconds, for what the stream does not tell. */
  every?: number;
}

/** Reads a path of the API, and again when it changed. `null` reads nothing. */
export function useData<T>(path: string | null, { on = [], ids, every }: Options = {}): Loaded<T> {
  const [state, set] = useState<{ path: string | null; data: T | null; problem: Problem | null; loading: boolean }>(
    { path: null, data: null, problem: null, loading: true });
  const turn = useRef(0);
  const read = useRef<() => void>(() => {});
  read.current = () => {
    if (path === null) return;
    const mine = ++turn.current;
    ask<T>(path).then(
      (data) => { if (mine === turn.current) set({ path, data, problem: null, loading: false }); },
      (error) => {
        if (mine !== turn.current) return;
        const problem = error instanceof Problem ? error : new Problem(0, "broken", "The console made an error", String(error), "", []);
        set((old) => ({ path, data: old.path === path ? old.data : null, problem, loading: false }));
      },
    );
  };
  useEffect(() => {
    set((old) => (old.path === path ? old : { path, data: null, problem: null, loading: path !== null }));
    read.current();
    return () => void turn.current++;
  }, [path]);
  const kinds = on.join();
  const only = ids?.join();
  useEffect(() => {
    if (!kinds) return;
    return onChange((changes) => {
      const wanted = only?.split(",");
      if (changes.some((c) => kinds.split(",").includes(c.kind) && (!wanted || !c.id || wanted.includes(c.id)))) read.current();
    });
  }, [kinds, only]);
  useEffect(() => {
    if (!every) return;
    const timer = setInterval(() => { if (live.value !== "paused" && !document.hidden) read.current(); }, every);
    return () => clearInterval(timer);
  }, [every]);
  const current = state.path === path;
  return {
    data: current ? state.data : null,
    problem: current ? state.problem : null,
    loading: path !== null && (!current || state.loading),
    reload: () => read.current(),
  };
}

export const useList = <T>(path: string | null, options?: Options) => useData<Page<T>>(path, options);

/** Every page of a list, up to `most` items. */
export async function all<T>(path: string, most = 2000): Promise<Page<T>> {
  const items: T[] = [];
  let next: string | null = null;
  do {
    const cursor: string = next ? `${path.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(next)}` : "";
    const page: Page<T> = await ask<Page<T>>(path + cursor);
    items.push(...page.items);
    next = page.next;
  } while (next && items.length < most);
  return { items, next };
}
