// What a page shows is in its URL: the view is the last part of the path, the rest are parameters,
// named as pprof names them where it has them.
import { useEffect, useState } from "preact/hooks";

export type Params = Record<string, string>;

export interface Place {
  view: string;
  params: Params;
}

// The options of reports: the server reads them. Others are the page's own:
//   q search, z zoomed frame, p pivot (as in pprof), flip root at the bottom, rec recursion
//   collapsed, mod modules as frames, col colours by module, cb blue instead of green,
//   sort columns of the table (o).
export const REPORT_KEYS = ["f", "i", "h", "s", "sf", "prunefrom", "tf", "ti", "ts", "th", "tagroot", "tagleaf",
  "si", "mean", "norm", "rel", "unit", "g", "noinlines", "showcolumns", "calltree", "dropneg", "compact", "intel",
  "n", "nf", "ef", "trim", "sort"];

const HOME = "services"; // what the server has at its root

export function read(): Place {
  const view = location.pathname.split("/").pop() || HOME;
  return { view, params: Object.fromEntries(new URLSearchParams(location.search)) };
}

export function href(view: string, params: Params): string {
  const search = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== ""));
  return (view === HOME ? "./" : view) + (search.size ? "?" + search : "");
}

// The part of a URL that a request for data needs.
export function request(api: string, params: Params, more: Params = {}): string {
  const asked = Object.fromEntries(REPORT_KEYS.filter((key) => params[key]).map((key) => [key, params[key]]));
  return href("api/" + api, { ...asked, ...more });
}

const listeners = new Set<() => void>();

// Empty values take a parameter away. Replacing keeps the history short while somebody types.
export function go(changes: Params, view = read().view, replace = false) {
  const params = { ...read().params, ...changes };
  const next = href(view, params);
  const now = href(read().view, read().params);
  if (next === now) return;
  if (replace) history.replaceState(null, "", next);
  else history.pushState(null, "", next);
  for (const tell of listeners) tell();
}

// What a link does unless a new window is asked for.
export function follow(event: MouseEvent, changes: Params, view?: string) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(changes, view);
}

export function usePlace(): Place {
  const [place, set] = useState(read);
  useEffect(() => {
    const tell = () => set(read());
    listeners.add(tell);
    addEventListener("popstate", tell);
    return () => {
      listeners.delete(tell);
      removeEventListener("popstate", tell);
    };
  }, []);
  return place;
}

// A regular expression for exactly this name, as Go and JavaScript read it. The beginning stands
// for a name that is too long for a URL.
export function exactly(name: string): string {
  const quote = (text: string) => text.replace(/[\\.+*?()|[\]{}^$]/g, "\\$&");
  return name.length > 400 ? "^" + quote(name.slice(0, 200)) : "^" + quote(name) + "$";
}
