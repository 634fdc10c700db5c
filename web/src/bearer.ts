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
  const plain = name.replace(/<[^<>]*>|\([^()]*\)/g, (part) => " ".repeat(part.length));
  const cut = Math.max(plain.lastIndexOf("::", plain.length - 3), plain.lastIndexOf("/"), plain.lastIndexOf("."));
  return cut > 0 && cut < plain.length - 2 ? cut : 0;
}

function describeFrames(names: string[], type: string, unit: string, diff: boolean): FlameData {
  const groups: [string, number, number][] = [["", 0, 0]];
  const known = new Map<string, number>();
  const group = names.map((name) => {
    const own = name.slice(0, packageEnd(name)).split(/::|\/|\./).slice(0, 2).join("::");
    if (!own && !MUTED.test(name)) return 0;
    const key = own || "runtime";
    if (!known.has(key)) known.set(key, groups.push([key, MUTED.test(name) ? 1 : 0, hash(key) % HUES]) - 1);
    return known.get(key)!;
  });
  const zeros = names.map(() => 0);
  return {
    title: "", diff: diff ? 1 : 0, reverse: 0, normalise: 0, merged: 0, types: [[type, unit, 0]], names,
    file: zeros, module: zeros, line: zeros, texts: [""],
    short: names.map((name) => {
      const at = packageEnd(name);
      return at ? at + (name[at] === ":" ? 2 : 1) : 0;
    }),
    ...{ shade: names.map((name) => hash(name) % 3), group, groups, functions: "", flip: 0 },
  } as FlameData;
}

export function fromFlamebearer(bearer: Flamebearer, type: string, unit: string, diff = false): Tree {
  const step = diff ? 7 : 4;
  const frameOf = bearer.names.map((name, i) => (i === 0 ? 0 : name === "other" ? 1 : i + 1));
  const names = ["all", "other", ...bearer.names.slice(1)];
  const columns = diff ? 2 : 1;
  interface Node { frame: number; x: number; end: number; self: number[]; total: number[]; below: Node[] }
  const at = (values: (string | number)[], i: number) => Number(values[i]);
  let above: Node[] = [];
  let root: Node | null = null;
  let n = 0;
  for (const { values } of bearer.levels) {
    const row: Node[] = [];
    let x = 0;
    let up = 0;
    for (let i = 0; i + step <= values.length; i += step) {
      const total = diff ? [at(values, i + 1), at(values, i + 4)] : [at(values, i + 1)];
      const self = diff ? [at(values, i + 2), at(values, i + 5)] : [at(values, i + 2)];
      x += at(values, i) + (diff ? at(values, i + 3) : 0);
      const end = x + total.reduce((a, b) => a + b, 0);
      const node: Node = { frame: frameOf[at(values, i + step - 1)], x, end, self, total, below: [] };
      x = end;
      while (up < above.length && above[up].end < end) up++;
      if (root) above[up]?.below.push(node);
      else root = node;
      row.push(node);
      n++;
    }
    above = row;
  }
  const data = describeFrames(names, type, unit, diff);
  const tree: Tree = {
    n, data, frame: new Uint32Array(n), parent: new Int32Array(n), depth: new Uint16Array(n), end: new Uint32Array(n),
    flags: new Uint8Array(n), maxDepth: 0,
    self: Array.from({ length: columns }, () => new Float64Array(n)),
    total: Array.from({ length: columns }, () => new Float64Array(n)),
    isOther: (i) => tree.frame[i] === 1,
    name: (i) => data.names[tree.frame[i]],
  };
  let next = 0;
  const open: [node: Node, parent: number][] = root ? [[root, -1]] : [];
  while (open.length) {
    const [node, parent] = open.pop()!;
    const i = next++;
    tree.frame[i] = node.frame;
    tree.parent[i] = parent;
    tree.depth[i] = parent < 0 ? 0 : tree.depth[parent] + 1;
    tree.maxDepth = Math.max(tree.maxDepth, tree.depth[i]);
    if (node.frame === 1) data.merged++;
    for (let c = 0; c < columns; c++) {
      tree.self[c][i] = node.self[c];
      tree.total[c][i] = node.total[c];
    }
    for (let k = node.below.length - 1; k >= 0; k--) open.push([node.below[k], i]);
  }
  tree.n = next;
  for (let i = next - 1; i >= 0; i--) {
    if (!tree.end[i]) tree.end[i] = i + 1;
    const up = tree.parent[i];
    if (up >= 0 && !tree.end[up]) tree.end[up] = tree.end[i];
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
