// The address is the state: which screen, which filter, which tab. Links are links, so that they can be shared.
import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { me } from "./api";

export interface Place { tenant: string; parts: string[]; search: URLSearchParams; }

function read(): Place {
  const [, mark, tenant, ...parts] = location.pathname.split("/");
  const decoded = parts.filter(Boolean).map(decodeURIComponent);
  return { tenant: mark === "t" ? decodeURIComponent(tenant ?? "") : "", parts: decoded, search: new URLSearchParams(location.search) };
}

export const place = signal<Place>(read());
addEventListener("popstate", () => (place.value = read()));

/** The address of a screen, for example `to("instances", id)`. */
export function to(...parts: string[]): string {
  const tenant = place.value.tenant || me.value?.tenant || "";
  return `/t/${[tenant, ...parts].map(encodeURIComponent).join("/")}`;
}

export function go(address: string, replace = false) {
  if (address !== location.pathname + location.search) history[replace ? "replaceState" : "pushState"](null, "", address);
  place.value = read();
  if (!replace) scrollTo(0, 0);
}

export function parameter(name: string): string {
  return place.value.search.get(name) ?? "";
}

/** The present address with parameters changed; `null` and "" take one away. */
export function changed(parameters: Record<string, string | null>): string {
  const search = new URLSearchParams(place.value.search);
  for (const [name, value] of Object.entries(parameters)) {
    if (value) search.set(name, value);
    else search.delete(name);
  }
  const text = search.toString();
  return location.pathname + (text ? `?${text}` : "");
}

export const set = (parameters: Record<string, string | null>, replace = false) => go(changed(parameters), replace);

interface LinkProps extends Omit<JSX.HTMLAttributes<HTMLAnchorElement>, "href"> { href: string; children?: ComponentChildren; class?: string; }

/** A link that does not load the page anew. */
export function Link({ href, children, ...rest }: LinkProps) {
  const follow = (event: MouseEvent) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(href);
  };
  return <a href={href} onClick={follow} {...rest}>{children}</a>;
}
