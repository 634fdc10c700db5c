// Flame graphs as Pyroscope's protocol has them: levels of (offset, total, self, name), or of both
// sides of a diff. Here they become the trees that the component draws.
import type { FlameData, Tree } from "./component";

export interface Flamebearer {
  names: string[];
  levels: { values: (string | number)[] }[];
  total: string | number;
}

const HUES = 8;
const MUTED = /^(std|core|alloc|libc|__libc|_start|clone3?|start_thread|runtime|\[)/;

function hash(text: string): number {
  let h = 2166136261;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
  return h >>> 0;
}

// Where the telling end of a name begins: after its package, which gives it its colour.
function packageEnd(name: string): number {
  const plain = /[<(]/.test(name) ? name.replace(/<[^<>]*>|\([^()]*\)/g, (part) => " ".repeat(part.length)) : name;
  const cut = Math.max(plain.lastIndexOf("::", plain.length - 3), plain.lastIndexOf("/"), plain.lastIndexOf("."));
  return cut > 0 && cut < plain.length - 2 ? cut : 0;
}

function describeFrames(names: string[], type: string, unit: string, diff: boolean): FlameData {
  const groups: [string, number, number][] = [["", 0, 0]];
  const known = new Map<string, number>();
  const ends = names.map(packageEnd);
  const group = names.map((name, i) => {
    const own = ends[i] ? name.slice(0, ends[i]).split(/::|\/|\./, 2).join("::") : "";
    if (!own && !MUTED.test(name)) return 0;
    const key = own || "runtime";
    if (!known.has(key)) known.set(key, groups.push([key, MUTED.test(name) ? 1 : 0, hash(key) % HUES]) - 1);
    return known.get(key)!;
  });
  const zeros = names.map(() => 0);
  return {
    title: "", diff: diff ? 1 : 0, reverse: 0, normalise: 0, merged: 0, types: [[type, unit, 0]], names,
    file: zeros, module: zeros, line: zeros, texts: [""],
    short: names.map((name, i) => (ends[i] ? ends[i] + (name[ends[i]] === ":" ? 2 : 1) : 0)),
    ...{ shade: names.map((name) => hash(name) % 3), group, groups, functions: "", flip: 0 },
  } as FlameData;
}

export function fromFlamebearer(bearer: Flamebearer, type: string, unit: string, diff = false): Tree {
  const step = diff ? 7 : 4;
  const columns = diff ? 2 : 1;
  const n = bearer.levels.reduce((sum, { values }) => sum + Math.floor(values.length / step), 0);
  const names = ["all", "other", ...bearer.names.slice(1)];
  const data = describeFrames(names, type, unit, diff);
  const make = () => Array.from({ length: columns }, () => new Float64Array(n));
  const tree: Tree = {
    n, data, frame: new Uint32Array(n), parent: new Int32Array(n), depth: new Uint16Array(n), end: new Uint32Array(n),
    flags: new Uint8Array(n), maxDepth: 0, self: make(), total: make(),
    isOther: (i) => tree.frame[i] === 1,
    name: (i) => data.names[tree.frame[i]],
  };
  // Level by level: who is above whom, by where they end.
  const up = new Int32Array(n).fill(-1);
  const right = new Float64Array(n);
  const size = new Uint32Array(n).fill(1);
  let row = 0;
  let at = 0;
  for (const { values } of bearer.levels) {
    const above = row;
    row = at;
    let parent = above;
    let x = 0;
    for (let i = 0; i + step <= values.length; i += step, at++) {
      x += Number(values[i]) + Number(values[i + 1]) + (diff ? Number(values[i + 3]) + Number(values[i + 4]) : 0);
      right[at] = x;
      while (parent < row - 1 && right[parent] < x) parent++;
      if (row) up[at] = parent;
    }
  }
  for (let i = n - 1; i > 0; i--) size[up[i]] += size[i];
  // Then depth first, as the component wants them: a node's place is behind those of its elder siblings.
  const place = new Uint32Array(n);
  const next = new Uint32Array(n);
  let i = 0;
  for (const { values } of bearer.levels) {
    for (let v = 0; v + step <= values.length; v += step, i++) {
      const above = up[i];
      const to = above < 0 ? 0 : next[above];
      place[i] = to;
      next[i] = to + 1;
      if (above >= 0) next[above] += size[i];
      const name = Number(values[v + step - 1]);
      const frame = name === 0 ? 0 : bearer.names[name] === "other" ? 1 : name + 1;
      tree.frame[to] = frame;
      if (frame === 1) data.merged++;
      tree.parent[to] = above < 0 ? -1 : place[above];
      tree.depth[to] = above < 0 ? 0 : tree.depth[place[above]] + 1;
      tree.maxDepth = Math.max(tree.maxDepth, tree.depth[to]);
      tree.end[to] = to + size[i];
      for (let c = 0; c < columns; c++) {
        tree.total[c][to] = Number(values[v + 1 + 3 * c]);
        tree.self[c][to] = Number(values[v + 2 + 3 * c]);
      }
    }
  }
  return tree;
}

// What is below the node that these names lead to; that node is its root.
export function subtree(tree: Tree, path: string[]): Tree | null {
  let at = 0;
  for (const name of path) {
    let child = at + 1;
    while (child < tree.end[at] && tree.name(child) !== name) child = tree.end[child];
    if (child >= tree.end[at]) return null;
    at = child;
  }
  const end = tree.end[at];
  const cut: Tree = {
    ...tree, n: end - at, frame: tree.frame.slice(at, end), parent: tree.parent.slice(at, end).map((p) => p - at), depth: tree.depth.slice(at, end).map((d) => d - tree.depth[at]),
    end: tree.end.slice(at, end).map((e) => e - at), flags: tree.flags.slice(at, end), self: tree.self.map((c) => c.slice(at, end)), total: tree.total.map((c) => c.slice(at, end)),
    isOther: (i) => cut.frame[i] === 1,
    name: (i) => tree.data.names[cut.frame[i]],
  };
  cut.parent[0] = -1;
  return cut;
}

// Self and total of each function in a tree: a recursive one counts once in a stack.
export function functionsOf(tree: Tree) {
  const count = tree.data.names.length;
  const self = tree.self.map(() => new Array<number>(count).fill(0));
  const total = tree.self.map(() => new Array<number>(count).fill(0));
  const inside = new Int32Array(count).fill(-1); // the end of the outermost node that a frame is in
  for (let i = 1; i < tree.n; i++) {
    const f = tree.frame[i];
    for (let c = 0; c < self.length; c++) self[c][f] += tree.self[c][i];
    if (i < inside[f]) continue;
    inside[f] = tree.end[i];
    for (let c = 0; c < total.length; c++) total[c][f] += tree.total[c][i];
  }
  return { self, total };
}
