// A tree, as flame graph and table: what every page of the server ends in.
import { useMemo, useState } from "preact/hooks";
import { functionsOf } from "../bearer";
import { type Action, filterTree, graft, halfWidth, matcher, type Tree } from "../component";
import { FlameGraph } from "../flame";
import { FunctionTable, type Top } from "../table";
import { exactly, go, type Params } from "../url";
import type { Tools } from "./shell";

function topOf(tree: Tree): Top {
  const { self, total } = functionsOf(tree);
  const [type, unit] = tree.data.types[0];
  const any = (f: number) => f > 1 && total.some((column, c) => column[f] || self[c][f]);
  const rows = tree.data.names.map((_, f) => f).filter(any);
  const names = rows.map((f) => tree.data.names[f]);
  if (tree.data.diff) {
    // Normalised, the left side is scaled to the total of the right one, as the flame graph does it.
    const [l, r] = [tree.total[0][0], tree.total[1][0]];
    const scale = tree.data.normalise && l && r ? r / l : 1;
    const events = tree.data.events?.[0];
    const side = (of: number[][]) => rows.map((f): [number, number, number, number] => {
      const half = events ? halfWidth([of[0][f], of[1][f]], [l, r], events, Boolean(tree.data.normalise)) : 0;
      const before = Math.round(of[0][f] * scale);
      return [before, of[1][f], half, Math.abs(of[1][f] - before) > half ? 1 : 0];
    });
    return { notes: [], names, type, unit, totals: [l, r], flat: side(self), cum: side(total) };
  }
  return { notes: [], names, columns: [{ type, unit, total: tree.total[0][0], flat: rows.map((f) => self[0][f]), cum: rows.map((f) => total[0][f]) }] };
}

function actionsOf(tools: Tools) {
  return (tree: Tree, node: number): Action[] => {
    const zoom: Action = ["Zoom", () => tools.flame.current?.zoomTo(node)];
    if (tree.frame[node] < 2) return [zoom];
    const re = exactly(tree.name(node));
    return [zoom, ["Focus: only stacks through it", () => go({ f: re, z: "" })], ["Ignore: no stacks through it", () => go({ i: re, z: "" })],
      ["Hide: leave it out of stacks", () => go({ h: re, z: "" })], ["Highlight", () => go({ q: re })],
      ["Copy name", () => void navigator.clipboard?.writeText(tree.name(node))]];
  };
}

// open: gives what is below a way from the root, for a click on "other".
export function Result({ whole: answer, params, theme, tools, label = "Flame graph", open }: {
  whole: Tree;
  params: Params;
  theme: string;
  tools: Tools;
  label?: string;
  open?(path: string[]): Promise<Tree | null>;
}) {
  const { view } = tools;
  const [opened, setOpened] = useState<{ of: Tree; tree: Tree } | null>(null);
  const whole = opened?.of === answer ? opened.tree : answer;
  const onOther = open && ((shown: Tree, node: number) => {
    // Only in the tree as it came: what was made of it by filters follows.
    if (shown !== whole) return;
    const parent = whole.parent[node];
    const path: string[] = [];
    for (let i = parent; i > 0; i = whole.parent[i]) path.unshift(whole.name(i));
    void open(path).then((sub) => sub && setOpened({ of: answer, tree: graft(whole, parent, sub) }), () => {});
  });
  const tree = useMemo(() => {
    const test = (text?: string) => (text ? matcher(text) : undefined);
    if (!params.f && !params.i && !params.h) return whole;
    return filterTree(whole, { focus: test(params.f), ignore: test(params.i), hide: test(params.h) });
  }, [whole, params.f, params.i, params.h]);
  const top = useMemo(() => topOf(tree), [tree]);
  const q = params.q ?? "";
  return (
    <>
      {view !== "table" && (
        <div class="main-pane">
          <FlameGraph tree={tree} label={label} onOther={onOther} flip={Boolean(params.flip)} search={q} byModule={false} blue={Boolean(params.cb)} zoom={params.z ?? ""} theme={theme}
            onZoom={(z) => go({ z })} onMatched={tools.setMatched} onMoved={tools.setMoved} actions={actionsOf(tools)} control={(f) => (tools.flame.current = f)} />
        </div>
      )}
      {view !== "flame" && (
        <div class="side-pane">
          <FunctionTable top={top} filter={q && !/^\^.*\$$/.test(q) ? q : ""} order={params.o ?? ""} onOrder={(o) => go({ o }, undefined, true)}
            picked={top.names.find((name) => q && exactly(name) === q) ?? ""} onPick={(name) => go({ q: q === exactly(name) ? "" : exactly(name) }, undefined, true)}
            onOpen={(name) => go({ f: exactly(name), q: "", z: "" })} />
        </div>
      )}
    </>
  );
}
