// Which stacks and frames are shown: pprof's filters, as chips that can be edited and removed.
import { useState } from "preact/hooks";
import { go, type Params } from "./url";

export const FILTERS: [key: string, label: string, hint: string][] = [
  ["f", "Focus", "only stacks with a match"],
  ["i", "Ignore", "no stacks with a match"],
  ["h", "Hide", "frames that match are left out"],
  ["s", "Show", "only frames that match"],
  ["sf", "Show from", "stacks begin at the outermost match"],
  ["prunefrom", "Prune from", "stacks end at a match"],
  ["tf", "Label focus", "only samples with a label that matches: key=regex, or a range such as 1kb:2mb"],
  ["ti", "Label ignore", "no samples with a label that matches"],
  ["ts", "Label show", "only labels whose key matches"],
  ["th", "Label hide", "no labels whose key matches"],
  ["tagroot", "Labels at the root", "label keys, separated by commas, become frames above the stack"],
  ["tagleaf", "Labels at the leaf", "label keys, separated by commas, become frames below the stack"],
];

// Those that need no labels of samples.
export const FRAME_FILTERS = FILTERS.slice(0, 6);

export function FilterPanel({ params, filters }: { params: Params; filters: typeof FILTERS }) {
  return (
    <form class="filters" onSubmit={(event) => {
      event.preventDefault();
      const changes: Params = { z: "" };
      for (const [key, value] of new FormData(event.currentTarget)) changes[key] = String(value).trim();
      go(changes);
    }}>
      {filters.map(([key, label, hint]) => (
        <label key={key}>
          <span>{label}</span>
          <input name={key} defaultValue={params[key] ?? ""} placeholder={hint} title={hint} spellcheck={false} autocomplete="off" />
        </label>
      ))}
      <button type="submit">Apply</button>
    </form>
  );
}

// What is searched for becomes a filter.
export function ApplySearch({ params: { q } }: { params: Params }) {
  if (!q) return null;
  return (
    <span class="apply" role="group" aria-label="Use the search as a filter">
      <button onClick={() => go({ f: q, q: "", z: "" })} title="Only stacks with a match">Focus</button>
      <button onClick={() => go({ i: q, q: "", z: "" })} title="No stacks with a match">Ignore</button>
      <button onClick={() => go({ h: q, q: "", z: "" })} title="Leave matches out of stacks">Hide</button>
    </span>
  );
}

function Chip({ name, label, value, hint }: { name: string; label: string; value: string; hint: string }) {
  const [editing, edit] = useState(false);
  if (editing) {
    const done = (event: Event & { currentTarget: HTMLInputElement }) => {
      edit(false);
      go({ [name]: event.currentTarget.value.trim(), z: "" });
    };
    return (
      <span class="chip">
        {label}{" "}
        <input autoFocus aria-label={label} defaultValue={value} size={Math.min(40, value.length + 4)} onBlur={done}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key === "Enter") done(event);
            if (event.key === "Escape") edit(false);
          }} />
      </span>
    );
  }
  return (
    <span class="chip">
      <button class="edit" title={hint + "; click to edit"} onClick={() => edit(true)}>{label} <b>{value}</b></button>
      <button class="remove" aria-label={`Remove ${label} ${value.slice(0, 80)}`} onClick={() => go({ [name]: "", z: "" })}>×</button>
    </span>
  );
}

export function Chips({ params }: { params: Params }) {
  const set = [...FILTERS, ["p", "Pivot", "callers above, callees below"] as const].filter(([key]) => params[key]);
  if (!set.length) return null;
  return (
    <div class="chips" role="group" aria-label="Filters">
      {set.map(([key, label, hint]) => <Chip key={key} name={key} label={label} hint={hint} value={params[key]} />)}
      {set.length > 1 && <button class="link" onClick={() => go(Object.fromEntries([...set.map(([key]) => [key, ""]), ["z", ""]]))}>Clear all</button>}
    </div>
  );
}
