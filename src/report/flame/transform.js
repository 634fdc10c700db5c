// Transforms trees in the browser, without new data. All transforms keep the sums: a node's total
// is its self plus its children's totals.
import { matchFrames } from "./core.js";

// Builds a tree; a frame occurs once under each parent.
function grower(data, columns) {
  const frame = [0];
  const parent = [-1];
  const flags = [0];
  const self = [];
  for (let c = 0; c < columns; c++) self.push([0]);
  const children = new Map();
  const width = data.names.length;
  return {
    frame,
    // Returns the child of node `up` with frame f; it is inlined if everything merged into it is.
    child(up, f, inlined) {
      const key = up * width + f;
      let id = children.get(key);
      if (id === undefined) {
        id = frame.length;
        children.set(key, id);
        frame.push(f);
        parent.push(up);
        flags.push(inlined);
        for (const column of self) column.push(0);
      } else if (flags[id] !== inlined) {
        flags[id] = 2;
      }
      return id;
    },
    add(id, values, i) {
      for (let c = 0; c < columns; c++) self[c][id] += values[c][i];
    },
    parent: (id) => parent[id],
    finish: (old) => order(data, frame, parent, flags, self, old),
  };
}

// Depth first, siblings by name, "other" last, the same order as decode().
function order(data, frame, parent, flags, self, old) {
  const n = frame.length;
  const rank = old.rank || (old.rank = ranks(data));
  const first = new Int32Array(n).fill(-1);
  const next = new Int32Array(n).fill(-1);
  const sorted = Array.from({ length: n - 1 }, (_, i) => i + 1);
  sorted.sort((a, b) => rank[frame[b]] - rank[frame[a]]);
  for (const i of sorted) {
    next[i] = first[parent[i]];
    first[parent[i]] = i;
  }
  const tree = {
    n, data, rank,
    frame: new Uint32Array(n), flags: new Uint8Array(n), parent: new Int32Array(n),
    depth: new Uint16Array(n), end: new Uint32Array(n),
    self: self.map(() => new Float64Array(n)), total: self.map(() => new Float64Array(n)), maxDepth: 0,
  };
  const stack = [[0, -1]];
  let at = 0;
  while (stack.length) {
    const [id, up] = stack.pop();
    const to = at++;
    tree.frame[to] = frame[id];
    tree.flags[to] = flags[id];
    tree.parent[to] = up;
    tree.depth[to] = up < 0 ? 0 : tree.depth[up] + 1;
    if (tree.depth[to] > tree.maxDepth) tree.maxDepth = tree.depth[to];
    self.forEach((column, c) => (tree.self[c][to] = tree.total[c][to] = column[id]));
    const below = [];
    for (let c = first[id]; c >= 0; c = next[c]) below.push([c, to]);
    for (let k = below.length - 1; k >= 0; k--) stack.push(below[k]);
  }
  for (let i = n - 1; i >= 0; i--) {
    if (!tree.end[i]) tree.end[i] = i + 1;
    const up = tree.parent[i];
    if (up < 0) continue;
    if (!tree.end[up]) tree.end[up] = tree.end[i];
    for (const column of tree.total) column[up] += column[i];
  }
  tree.isOther = (i) => tree.frame[i] === 1;
  tree.name = (i) => data.names[tree.frame[i]];
  return tree;
}

function ranks(data) {
  const by = [...data.names.keys()].sort((a, b) => (data.names[a] < data.names[b] ? -1 : 1));
  const rank = new Uint32Array(by.length);
  by.forEach((f, i) => (rank[f] = i));
  rank[1] = by.length;
  return rank;
}

// Maps each node with `place` to a node under its parent's new node, or removes it (-1).
function rebuild(tree, place, data = tree.data) {
  const grow = grower(data, tree.self.length);
  const to = new Int32Array(tree.n);
  for (let i = 0; i < tree.n; i++) {
    to[i] = i ? (to[tree.parent[i]] < 0 ? -1 : place(grow, to[tree.parent[i]], i)) : 0;
    if (to[i] >= 0) grow.add(to[i], tree.self, i);
  }
  return grow.finish(data === tree.data ? tree : {});
}

// Merges recursive calls, direct or indirect, into one frame.
export function collapseRecursion(tree) {
  return rebuild(tree, (grow, up, i) => {
    const f = tree.frame[i];
    for (let at = up; at > 0; at = grow.parent(at)) if (grow.frame[at] === f) return at;
    return grow.child(up, f, tree.flags[i]);
  });
}

// Merges adjacent frames of one module.
export function groupByModule(tree) {
  const { data } = tree;
  const names = ["all", "other", ...data.texts.map((t) => t || "(unknown module)")];
  const zeros = names.map(() => 0);
  const group = names.map(() => 0);
  const groups = [["", 0, 0]];
  // A module gets the color of its first frame's package.
  for (let f = 2; f < data.names.length; f++) {
    const m = data.module[f] + 2;
    const [, muted, hue] = data.groups[data.group[f]];
    if (!group[m]) group[m] = groups.push([names[m], muted, hue]) - 1;
  }
  const grouped = {
    ...data, names, group, groups, short: zeros, line: zeros, file: zeros, functions: "",
    module: names.map((_, i) => Math.max(0, i - 2)),
    shade: names.map((_, i) => i % 3),
  };
  return rebuild(tree, (grow, up, i) => {
    const f = tree.isOther(i) ? 1 : data.module[tree.frame[i]] + 2;
    return grow.frame[up] === f ? up : grow.child(up, f, 0);
  }, grouped);
}

// Filters stacks by predicates over names: focus keeps stacks with a match, ignore removes them,
// hide removes matching frames.
export function filterTree(tree, { focus, ignore, hide }) {
  const of = (test) => (test ? matchFrames(tree, test) : null);
  const [wanted, unwanted, hidden] = [of(focus), of(ignore), of(hide)];
  let result = tree;
  if (wanted || unwanted) {
    const inside = new Uint8Array(tree.n); // 1: at or below a match
    for (let i = 1; i < tree.n; i++) {
      inside[i] = inside[tree.parent[i]] === 1 || (wanted && wanted[tree.frame[i]]) ? 1 : 0;
    }
    const grow = grower(tree.data, tree.self.length);
    const to = new Int32Array(tree.n);
    const dropped = new Uint8Array(tree.n);
    for (let i = 1; i < tree.n; i++) {
      const up = tree.parent[i];
      dropped[i] = dropped[up] || (unwanted && unwanted[tree.frame[i]]) ? 1 : 0;
      if (dropped[i] || (wanted && !inside[i])) continue;
      // Create the path to a match together with the match.
      const path = [];
      let at = i;
      while (at > 0 && !to[at]) {
        path.push(at);
        at = tree.parent[at];
      }
      while (path.length) {
        const node = path.pop();
        to[node] = grow.child(to[tree.parent[node]], tree.frame[node], tree.flags[node]);
      }
      grow.add(to[i], tree.self, i);
    }
    if (!wanted) grow.add(0, tree.self, 0);
    result = grow.finish(tree);
  }
  if (!hidden) return result;
  return rebuild(result, (grow, up, i) =>
    hidden[result.frame[i]] ? up : grow.child(up, result.frame[i], result.flags[i]));
}

// The outermost matching nodes; their subtrees are not searched.
function outermost(tree, frames) {
  const found = [];
  for (let i = 1; i < tree.n;) {
    if (frames[tree.frame[i]]) {
      found.push(i);
      i = tree.end[i];
    } else {
      i++;
    }
  }
  return found;
}

// Returns the callees and the callers of functions. The root of both is the function, or "all" if
// there are several.
export function pivot(tree, frames) {
  const columns = tree.self.length;
  const callees = grower(tree.data, columns);
  const callers = grower(tree.data, columns);
  const to = new Int32Array(tree.n);
  const tops = outermost(tree, frames);
  const one = tops.length > 0 && tops.every((top) => tree.frame[top] === tree.frame[tops[0]]);
  if (one) callees.frame[0] = callers.frame[0] = tree.frame[tops[0]];
  for (const top of tops) {
    to[top] = one ? 0 : callees.child(0, tree.frame[top], 0);
    callees.add(to[top], tree.self, top);
    for (let i = top + 1; i < tree.end[top]; i++) {
      to[i] = callees.child(to[tree.parent[i]], tree.frame[i], tree.flags[i]);
      callees.add(to[i], tree.self, i);
    }
    let at = 0;
    for (let i = one ? tree.parent[top] : top; i > 0; i = tree.parent[i]) at = callers.child(at, tree.frame[i], tree.flags[i]);
    callers.add(at, tree.total, top);
  }
  return { callees: callees.finish(tree), callers: callers.finish(tree), found: tops.length };
}

// Replaces node with the subtree sub, such as the content of "other". sub has its own tables.
export function graft(tree, node, sub) {
  const data = { ...tree.data };
  for (const key of ["names", "short", "shade", "line", "group", "file", "module", "texts", "groups"]) {
    data[key] = [...tree.data[key]];
  }
  const known = new Map(data.names.map((name, i) => [name, i]));
  const texts = new Map(data.texts.map((text, i) => [text, i]));
  const textOf = (text) => {
    if (!texts.has(text)) texts.set(text, data.texts.push(text) - 1);
    return texts.get(text);
  };
  const groups = new Map(data.groups.map(([name], i) => [name, i]));
  const frames = sub.data.names.map((name, f) => {
    if (f < 2) return f;
    if (known.has(name)) return known.get(name);
    const group = sub.data.groups[sub.data.group[f]];
    if (!groups.has(group[0])) groups.set(group[0], data.groups.push(group) - 1);
    data.short.push(sub.data.short[f]);
    data.shade.push(sub.data.shade[f]);
    data.line.push(sub.data.line[f]);
    data.group.push(groups.get(group[0]));
    data.file.push(textOf(sub.data.texts[sub.data.file[f]]));
    data.module.push(textOf(sub.data.texts[sub.data.module[f]]));
    return data.names.push(name) - 1;
  });
  const grow = grower(data, tree.self.length);
  const to = new Int32Array(tree.n);
  const subTo = new Int32Array(sub.n);
  for (let i = 0; i < tree.n; i++) {
    if (i > node && i < tree.end[node]) continue;
    if (i) to[i] = grow.child(to[tree.parent[i]], tree.frame[i], tree.flags[i]);
    if (i !== node) grow.add(to[i], tree.self, i);
  }
  for (let i = 0; i < sub.n; i++) {
    subTo[i] = i ? grow.child(subTo[sub.parent[i]], frames[sub.frame[i]], sub.flags[i]) : to[node];
    grow.add(subTo[i], sub.self, i);
  }
  data.merged = 0;
  const grown = grow.finish({});
  for (let i = 0; i < grown.n; i++) data.merged += grown.frame[i] === 1 ? 1 : 0;
  return grown;
}

// A hash of the path from the root to each node, equal in all trees with these names.
export function pathHashes(tree) {
  const names = new Uint32Array(tree.data.names.length);
  tree.data.names.forEach((name, f) => {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
    names[f] = hash;
  });
  const hashes = new Uint32Array(tree.n);
  for (let i = 0; i < tree.n; i++) {
    const up = i ? hashes[tree.parent[i]] : 0;
    hashes[i] = Math.imul(up ^ names[tree.frame[i]], 2654435761) + (up >>> 15);
  }
  return hashes;
}
