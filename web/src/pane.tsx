// What every home does with a flame graph beyond drawing it: modules as frames, recursion collapsed, callers and
// callees of a function, and what can be done with a function wherever it is shown.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Action, collapseRecursion, copyText, type Flame, groupByModule, matchFrames, matcher, pathHashes, pivot, type Tree } from "./component";
import { FlameGraph } from "./flame";
import { Notice } from "./ui";
import { exactly, go, type Params } from "./url";

// Where a page shows a function; what it cannot do, or what is in sight already, is absent.
export interface Places {
  flame(changes: Params): void;
  table?(changes: Params): void;
  peek?(changes: Params): void;
}

export function functionActions(name: string, params: Params, places: Places): Action[] {
  const re = exactly(name);
  const add = (old = "") => (old ? old + "|" + re : re);
  const actions: Action[] = [
    ["Pivot: callers and callees", () => places.flame({ p: re, z: "", q: "" })],
    ["Focus: only stacks through it", () => go({ f: re, z: "" })],
    ["Ignore: no stacks through it", () => go({ i: add(params.i), z: "" })],
    ["Hide: leave it out of stacks", () => go({ h: add(params.h), z: "" })],
    ["Show from it on", () => go({ sf: re, z: "" })],
    ["Highlight", () => go({ q: re })],
    ["Copy name", () => copyText(name)],
  ];
  if (places.table) actions.push(["Find in table", () => places.table!({ q: re })]);
  if (places.peek) actions.push(["Peek", () => places.peek!({ f: re })]);
  return actions;
}

// The menu of a frame: of its function, and of the graph.
export function frameActions(tree: Tree, node: number, flame: Flame | null, params: Params, of: (name: string) => Action[]): Action[] {
  const zoom: Action = ["Zoom", () => flame?.zoomTo(node)];
  if (tree.frame[node] < 2) return [zoom];
  return [zoom, ...of(tree.name(node)), [params.rec ? "Show recursion" : "Collapse recursion", () => go({ rec: params.rec ? "" : "1", z: "" })]];
}

export interface Shaped {
  tree: Tree;
  sandwich: ReturnType<typeof pivot> | null;
}

// The tree as it came, as the page's options want it.
export function useShaped(whole: Tree | null, params: Params): Shaped | null {
  const tree = useMemo(() => {
    if (!whole) return null;
    const grouped = params.mod ? groupByModule(whole) : whole;
    return params.rec ? collapseRecursion(grouped) : grouped;
  }, [whole, params.mod, params.rec]);
  const sandwich = useMemo(() => (tree && params.p ? pivot(tree, matchFrames(tree, matcher(params.p))) : null), [tree, params.p]);
  return tree && { tree, sandwich };
}

// The function that a page is about: that of the zoomed frame, of the pivot, or the one that was picked in the table.
export function selectedFunction({ tree }: Shaped, params: Params): string {
  if (params.mod || (params.g && params.g !== "functions")) return "";
  const zoomed = params.z && !params.p ? pathHashes(tree).indexOf(parseInt(params.z, 36)) : 0;
  if (zoomed > 0 && tree.frame[zoomed] > 1) return tree.name(zoomed);
  const wanted = params.p || params.q;
  return (/^\^.*\$$/.test(wanted ?? "") && tree.data.names.find((name, i) => i > 1 && exactly(name) === wanted)) || "";
}

export function Notes({ notes }: { notes: string[] }) {
  return notes.length ? <p class="notes" role="status">{notes.join("; ")}</p> : null;
}

export function FlamePane({ shaped: { tree, sandwich }, params, theme, notes = [], label = "Flame graph", actions, onOther, onMatched, onMoved, control, below, children }: {
  shaped: Shaped;
  params: Params;
  theme: string;
  notes?: string[];
  label?: string;
  children: ComponentChildren; // instead of it, where nothing is left
  below?: ComponentChildren;
  actions(tree: Tree, node: number): Action[];
  onOther?(tree: Tree, node: number): void;
  onMatched(text: string): void;
  onMoved(moved: boolean): void;
  control(flame: Flame | null): void;
}) {
  const common = { search: params.q ?? "", byModule: Boolean(params.col), blue: Boolean(params.cb), theme, actions, onMoved };
  return (
    <div class="main-pane">
      <Notes notes={notes} />
      {!tree.total[0][0] && !(tree.data.diff && tree.total[1][0]) ? children
        : !sandwich ? (
          <FlameGraph key="flame" tree={tree} label={label} flip={Boolean(params.flip)} zoom={params.z ?? ""} {...common}
            onMatched={onMatched} onZoom={(z) => go({ z })} onOther={onOther} control={control} />
        ) : sandwich.found > 0 ? (
          <div class="sandwich">
            <FlameGraph key="callers" tree={sandwich.callers} label={label === "Flame graph" ? "Callers" : label + ": callers"} flip zoom="" {...common} />
            <FlameGraph key="callees" tree={sandwich.callees} label={label === "Flame graph" ? "Callees" : label + ": callees"} flip={false} zoom="" {...common}
              onMatched={onMatched} control={control} />
          </div>
        ) : <Notice title="No function matches the pivot" actions={[["Leave it", () => go({ p: "" })]]}>{params.p}</Notice>}
      {below}
    </div>
  );
}

// A menu of the page's own, for what is no flame graph.
export function FloatingMenu({ at, close }: { at: { actions: Action[]; x: number; y: number }; close(): void }) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const menu = box.current!;
    const left = Math.max(8, Math.min(at.x, innerWidth - menu.offsetWidth - 8));
    const top = Math.max(8, Math.min(at.y, innerHeight - menu.offsetHeight - 8));
    menu.style.transform = `translate(${left}px,${top}px)`;
    (menu.firstChild as HTMLElement).focus();
    const away = (event: Event) => menu.contains(event.target as Node) || close();
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [at]);
  return (
    <div class="menu" role="menu" ref={box} onKeyDown={(event) => {
      const items = [...box.current!.children] as HTMLElement[];
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape" || event.key === "Tab") close();
      else if (step) items[(items.indexOf(document.activeElement as HTMLElement) + step + items.length) % items.length].focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    }}>
      {at.actions.map(([label, act]) => (
        <button key={label} role="menuitem" onClick={() => {
          close();
          act();
        }}>{label}</button>
      ))}
    </div>
  );
}
