// A tree, as flame graph, table, call graph, callers and callees: what every page of the server ends in.
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { type Action, functionMarks, functionValues, graft, halfWidth, markChanges, matcher, type Tree } from "../component";
import { FRAME_FILTERS } from "../filters";
import { CallGraph } from "../graph";
import { graphOf, peekOf } from "../graphs";
import { FlamePane, FloatingMenu, frameActions, functionActions, selectedFunction, useShaped } from "../pane";
import { PeekView } from "../peek";
import { FunctionTable, type Top } from "../table";
import { Notice } from "../ui";
import { exactly, go, type Params } from "../url";
import type { Drawn } from "./querier";
import type { Tools } from "./shell";

// all: of every sample type that came.
function topOf(tree: Tree, all: boolean): Top {
  const { data } = tree;
  const { self, total, count } = functionValues(data);
  const shown = data.diff ? [0, 1] : [...(all ? data.types : [0]).keys()];
  const rows: number[] = [];
  for (let f = 2; f < count; f++) if (shown.some((c) => total[c][f] || self[c][f])) rows.push(f);
  const names = rows.map((f) => data.names[f]);
  if (data.diff) {
    // Normalized, the left side is scaled to the total of the right one, as the flame graph does it.
    const [l, r] = [tree.total[0][0], tree.total[1][0]];
    const scale = data.normalize && l && r ? r / l : 1;
    const noise = data.noise[0];
    const side = (of: Float64Array[], which: 1 | 2) => {
      const [left, right] = of.slice(0, 2).map((values) => rows.map((f) => values[f]));
      const known = functionMarks(data, which, count);
      const marks = known ? rows.map((f) => known[f]) : noise && markChanges(left, right, rows.length, noise);
      return rows.map((_, i): [number, number, number, number] => {
        const half = noise ? halfWidth([left[i], right[i]], [l, r], noise, Boolean(data.normalize)) : 0;
        const before = Math.round(left[i] * scale);
        return [before, right[i], half, marks ? marks[i] : Number(before !== right[i])];
      });
    };
    const [type, unit] = data.types[0];
    return { notes: [], names, type, unit, totals: [l, r], flat: side(self, 1), cum: side(total, 2) };
  }
  return {
    notes: [], names,
    columns: shown.map((c) => ({ type: data.types[c][0], unit: data.types[c][1], total: tree.total[c][0], flat: rows.map((f) => self[c][f]), cum: rows.map((f) => total[c][f]) })),
  };
}

const clearFilters = () => go(Object.fromEntries([...FRAME_FILTERS.map(([key]) => [key, ""]), ["p", ""], ["z", ""]]));

// open: gives what is below a way from the root, for a click on "other".
// overTime: what is shown below the flame graph of a function that was selected.
export function Result({ drawn: { tree: answer, notes }, params, theme, tools, label, open, overTime }: {
  drawn: Pick<Drawn, "tree" | "notes">;
  params: Params;
  theme: string;
  tools: Tools;
  label?: string;
  open?(path: string[]): Promise<Drawn>;
  overTime?(name: string): ComponentChildren;
}) {
  const { view } = tools;
  const [opened, setOpened] = useState<{ of: Tree; tree: Tree } | null>(null);
  const [menu, setMenu] = useState<{ actions: Action[]; x: number; y: number } | null>(null);
  const whole = opened?.of === answer ? opened.tree : answer;
  const onOther = open && ((shown: Tree, node: number) => {
    // Only in the tree as it came: what was made of it follows.
    if (shown !== whole) return;
    const parent = whole.parent[node];
    const path: string[] = [];
    for (let i = parent; i > 0; i = whole.parent[i]) path.unshift(whole.name(i));
    void open(path).then((sub) => setOpened({ of: answer, tree: graft(whole, parent, sub.tree) }), () => {});
  });
  const withFlame = view === "flame" || view === "both";
  const withTable = view === "table" || view === "both";
  const shaped = useShaped(withFlame ? whole : null, params);
  const selected = useMemo(() => (shaped && overTime ? selectedFunction(shaped, params) : ""), [shaped, params.z, params.p, params.q, params.g, params.mod]);
  const top = useMemo(() => (withTable ? topOf(answer, Boolean(params.all)) : null), [answer, withTable, params.all]);
  const graph = useMemo(() => (view === "graph" ? graphOf(whole, Number(params.n) || 80) : null), [whole, view, params.n]);
  const peek = useMemo(() => (view === "peek" ? peekOf(whole, params.f ? matcher(params.f) : null) : null), [whole, view, params.f]);
  const actionsOf = (name: string) => functionActions(name, params, {
    flame: (changes) => tools.show(view === "both" ? view : "flame", changes),
    table: withTable ? undefined : (changes) => tools.show("table", changes),
    peek: tools.views.includes("peek") ? (changes) => tools.show("peek", changes) : undefined,
  });
  const onMenu = (name: string, x: number, y: number) => setMenu({ actions: actionsOf(name), x, y });
  const q = params.q ?? "";
  const nothing = (
    <Notice title="No samples are left" actions={[["Clear filters", clearFilters]]}>{notes.join("; ") || "The filters leave none."}</Notice>
  );
  const left = answer.total[0][0] || (answer.data.diff && answer.total[1][0]);
  if (!left && !withFlame) return nothing;
  return (
    <>
      {shaped && (
        <FlamePane shaped={shaped} params={params} theme={theme} notes={notes} label={label} onOther={onOther} onMatched={tools.setMatched} onMoved={tools.setMoved}
          actions={(tree, node) => frameActions(tree, node, tools.flame.current, params, actionsOf)} control={(f) => (tools.flame.current = f)}
          below={selected && overTime!(selected)}>
          {nothing}
        </FlamePane>
      )}
      {top && (
        <div class="side-pane">
          <FunctionTable top={top} filter={q && (view === "table" || !/^\^.*\$$/.test(q)) ? q : ""} order={params.o ?? ""} onOrder={(o) => go({ o }, undefined, true)} onMenu={onMenu}
            picked={top.names.find((name) => q && exactly(name) === q) ?? ""} onPick={(name) => go({ q: q === exactly(name) ? "" : exactly(name) }, undefined, true)}
            onOpen={(name) => tools.show(view === "both" ? view : "flame", { p: exactly(name), q: "", z: "" })} />
        </div>
      )}
      {graph && <CallGraph graph={graph} search={q} onMenu={onMenu} />}
      {peek && <PeekView peek={peek} open={(name) => go({ f: exactly(name) })} />}
      {menu && <FloatingMenu at={menu} close={() => setMenu(null)} />}
    </>
  );
}
