// The call graph, and each function's callers and callees, made of a flame graph's tree: for pages whose server gives
// trees only.
import type { Test, Tree } from "./component";
import type { Graph } from "./graph";
import type { Peek } from "./peek";

const LEAST_NODE = 0.005; // shares of the whole, as in pprof
const LEAST_EDGE = 0.001;
const INLINE = 1;
const RESIDUAL = 2;

// Self and total of each function: a recursive one counts once in a stack.
function values(tree: Tree) {
  const count = tree.data.names.length;
  const self = new Float64Array(count);
  const total = new Float64Array(count);
  const inside = new Int32Array(count); // the end of the outermost node that a frame is in
  for (let i = 1; i < tree.n; i++) {
    const f = tree.frame[i];
    self[f] += tree.self[0][i];
    if (i < inside[f]) continue;
    inside[f] = tree.end[i];
    total[f] += tree.total[0][i];
  }
  return { self, total };
}

interface Edge {
  from: number;
  to: number;
  weight: number;
  flags: number;
  end: number; // of the outermost node that it leads to
}

// Calls between the frames that are kept: over those that are not, calls are residual.
function edges(tree: Tree, kept: (frame: number) => boolean): Edge[] {
  const found = new Map<number, Edge>();
  const count = tree.data.names.length;
  const above = new Int32Array(tree.n).fill(-1); // the nearest node that is kept, itself included
  for (let i = 1; i < tree.n; i++) {
    const parent = tree.parent[i];
    const to = tree.frame[i];
    above[i] = kept(to) ? i : above[parent];
    const caller = above[parent];
    if (above[i] !== i || caller < 0) continue;
    const from = tree.frame[caller];
    const flags = (tree.flags[i] & 1 ? INLINE : 0) | (caller === parent ? 0 : RESIDUAL);
    const key = from * count + to;
    let edge = found.get(key);
    if (!edge) found.set(key, (edge = { from, to, weight: 0, flags, end: 0 }));
    edge.flags &= flags;
    if (i < edge.end) continue;
    edge.end = tree.end[i];
    edge.weight += tree.total[0][i];
  }
  return [...found.values()];
}

export function graphOf(tree: Tree, most: number): Graph {
  const { self, total } = values(tree);
  const { data } = tree;
  const all = tree.total[0][0];
  const functions = [...data.names.keys()].filter((f) => f > 1 && total[f] > 0).sort((a, b) => total[b] - total[a] || a - b);
  const shown = functions.slice(0, most).filter((f) => total[f] >= LEAST_NODE * all);
  const at = new Map(shown.map((f, i) => [f, i]));
  const every = edges(tree, (f) => at.has(f));
  const drawn = every.filter(({ weight }) => weight >= LEAST_EDGE * all);
  const largest = Math.max(1, ...shown.map((f) => self[f]));
  return {
    notes: [], unit: data.types[0][1], total: all, placed: 0, dropped: [functions.length - shown.length, every.length - drawn.length],
    nodes: shown.map((f) => {
      const short = data.names[f].slice(data.short[f]);
      const font = 11 + 9 * Math.sqrt(self[f] / largest);
      const columns = Math.min(36, Math.max(18, short.length));
      return [data.names[f], short, self[f], total[f], Math.ceil(columns * font * 0.63 + 18), Math.ceil(font * 3.3 + 8), 0, 0];
    }),
    edges: drawn.map(({ from, to, weight, flags }) => [at.get(from)!, at.get(to)!, weight, flags, []]),
  };
}

const MOST_PEEKED = 100;

export function peekOf(tree: Tree, test: Test | null): Peek {
  const { self, total } = values(tree);
  const { names, types } = tree.data;
  const matching = [...names.keys()].filter((f) => f > 1 && total[f] > 0 && (!test || test(names[f], f))).sort((a, b) => total[b] - total[a] || a - b);
  const shown = matching.slice(0, MOST_PEEKED);
  const all = edges(tree, (f) => f > 1).sort((a, b) => b.weight - a.weight);
  return {
    notes: [], unit: types[0][1], total: tree.total[0][0], matched: matching.length,
    nodes: shown.map((f) => [names[f], self[f], total[f],
      all.filter((e) => e.to === f).map((e) => [names[e.from], e.weight, e.flags & INLINE]),
      all.filter((e) => e.from === f).map((e) => [names[e.to], e.weight, e.flags & INLINE])]),
  };
}
