// The line that gives in a terminal what a page shows.
import type { Params } from "../url";
import type { Selection } from "./selection";

const FILTERS: [key: string, option: string][] = [["f", "focus"], ["i", "ignore"], ["h", "hide"], ["s", "show"], ["sf", "show_from"], ["prunefrom", "prune_from"]];

const quote = (text: string) => (/^[\w@%+=:,./-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");

// The command that shows what a view shows, with its options; in Peek what is looked for comes first.
function shown(params: Params, view: string, diff: boolean): string[] {
  const filters = FILTERS.filter(([key]) => params[key]).map(([key, option]) => `--${option}=${params[key]}`);
  if (diff) return ["diff", ...(params.abs ? [] : ["--normalize"]), ...filters];
  if (view === "peek") return ["peek", params.f || ".", ...filters];
  if (view === "graph") return ["tree", ...filters];
  if (view === "flame") return ["flame", ...(params.rev ? ["--reverse"] : []), ...filters];
  return ["top", ...(/total/.test(params.o ?? "") ? ["--cum"] : []), ...filters];
}

export function fileCommand(params: Params, view: string, type: string, files: string[]): string {
  const [what, ...options] = shown(params, view, files.length > 1);
  return ["kiln", what, ...options, ...(type ? ["--type=" + type] : []), ...files].map(quote).join(" ");
}

// Times as the command reads them: relative to now as they are, others in milliseconds.
const times = ({ from, until, range }: Selection) => [/^now/.test(from) ? from : String(range.start), /^now/.test(until) ? until : String(range.end)];

export function queryCommand(params: Params, view: string, selection: Selection, base?: Selection): string {
  const server = new URL(".", location.href).href.replace(/\/$/, "");
  const [from, until] = times(selection);
  const line = ["kiln", "query", ...shown(params, view, Boolean(base)), "--server", server, "--type", selection.type?.ID ?? "", "--from", from, "--until", until];
  if (base) {
    const [first, last] = times(base);
    line.push("--base", base.selector, "--base-from", first, "--base-until", last);
  }
  return [...line, selection.selector].map(quote).join(" ");
}
