// What the page makes of trees (src/report/flame/transform.js), without a browser. Prints TAP.
import { decode, halfWidth, markChanges, measure } from "../../src/report/flame/core.js";
import { collapseRecursion, filterTree, graft, groupByModule, pathHashes, pivot } from "../../src/report/flame/transform.js";

import { graphOf, peekOf } from "../../web/src/graphs";
import { formatSelector, parseSelector, withLabel } from "../../web/src/server/selector";
import { align, alone, rates } from "../../web/src/server/timeline";
import { checks } from "./checks.mjs";

const { equal, finish } = checks("transforms");

// Stacks as the server sends them: names, and nodes in depth-first order as numbers in base64.
function treeOf(stacks, modules = {}) {
  const root = { name: "all", self: 0, below: new Map() };
  for (const [stack, value] of stacks) {
    let at = root;
    for (const name of stack.split(";")) {
      if (!at.below.has(name)) at.below.set(name, { name, self: 0, below: new Map() });
      at = at.below.get(name);
    }
    at.self += value;
  }
  const names = ["all", "other"];
  const bytes = [];
  const put = (n) => {
    for (; n >= 128; n = Math.floor(n / 128)) bytes.push((n % 128) | 128);
    bytes.push(n);
  };
  let last = -1;
  let nodes = 0;
  const visit = (node, depth) => {
    if (!names.includes(node.name)) names.push(node.name);
    if (nodes++) put(last + 1 - depth);
    put(names.indexOf(node.name) << 2);
    put(node.self);
    last = depth;
    for (const child of [...node.below.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) visit(child, depth + 1);
  };
  visit(root, 0);
  const texts = ["", ...new Set(Object.values(modules))];
  const zeros = names.map(() => 0);
  return decode({
    types: [["cpu", "count", 0]], diff: 0, names, nodes, tree: btoa(String.fromCharCode(...bytes)), texts, functions: "",
    short: zeros, shade: zeros, line: zeros, file: zeros, group: zeros, groups: [["", 0, 0]], module: names.map((n) => texts.indexOf(modules[n] ?? "")),
  });
}
const show = (tree) => Array.from({ length: tree.n }, (_, i) => `${" ".repeat(tree.depth[i])}${tree.name(i)} ${tree.total[0][i]}/${tree.self[0][i]}`).join("\n");
const lines = (...list) => list.join("\n");

const plain = treeOf([["main;a;x", 3], ["main;a", 1], ["main;b;x;y", 4], ["main;b;x", 2]]);
equal(show(plain), lines("all 10/0", " main 10/0", "  a 4/1", "   x 3/3", "  b 6/0", "   x 6/2", "    y 4/4"), "the tree as it came");
equal(show(filterTree(plain, { focus: (n) => n === "x" })), lines("all 9/0", " main 9/0", "  a 3/0", "   x 3/3", "  b 6/0", "   x 6/2", "    y 4/4"), "focus");
equal(show(filterTree(plain, { ignore: (n) => n === "y" })), lines("all 6/0", " main 6/0", "  a 4/1", "   x 3/3", "  b 2/0", "   x 2/2"), "ignore");
equal(show(filterTree(plain, { hide: (n) => n === "a" || n === "b" })), lines("all 10/0", " main 10/1", "  x 9/5", "   y 4/4"), "hide merges what becomes alike");
equal(show(filterTree(plain, { focus: (n) => n === "x", ignore: (n) => n === "y", hide: (n) => n === "main" })), lines("all 5/0", " a 3/0", "  x 3/3", " b 2/0", "  x 2/2"), "all three");
equal(show(filterTree(plain, { focus: () => false })), "all 0/0", "nothing left");

const { callers, callees, found } = pivot(plain, Uint8Array.from(plain.data.names, (n) => (n === "x" ? 1 : 0)));
equal(found, 2, "pivot: where it is called");
equal(show(callees), lines("x 9/5", " y 4/4"), "pivot: callees");
equal(show(callers), lines("x 9/0", " a 3/0", "  main 3/3", " b 6/0", "  main 6/6"), "pivot: callers");
const recursive = treeOf([["f;g;f;g;h", 5], ["f;f;f", 2], ["f", 1]]);
equal(show(pivot(recursive, Uint8Array.from(recursive.data.names, (n) => (n === "f" ? 1 : 0))).callers), "f 8/8", "pivot: a recursive function counts once");
equal(show(collapseRecursion(recursive)), lines("all 8/0", " f 8/3", "  g 5/0", "   h 5/5"), "recursion collapsed, also an indirect one");

// The call graph and Peek, of the same trees.
const graphed = (tree, most) => {
  const { nodes, edges, dropped } = graphOf(tree, most);
  return [...nodes.map(([name, , flat, cum]) => `${name} ${flat}/${cum}`), ...edges.map(([a, b, w, flags]) => `${nodes[a][0]}>${nodes[b][0]} ${w}${flags & 2 ? " residual" : ""}`), dropped.join()].join("; ");
};
equal(graphed(plain, 80), "main 0/10; x 5/9; b 0/6; a 1/4; y 4/4; main>a 4; a>x 3; main>b 6; b>x 6; x>y 4; 0,0", "graph: functions and calls");
equal(graphed(plain, 2), "main 0/10; x 5/9; main>x 9 residual; 3,0", "graph: over what is left out");
equal(graphed(recursive, 80), "f 3/8; g 0/5; h 5/5; f>f 2; f>g 5; g>f 5; g>h 5; 0,0", "graph: a recursive call counts once");
equal(JSON.stringify(peekOf(plain, (name) => name === "x").nodes), '[["x",5,9,[["b",6,0],["a",3,0]],[["y",4,0]]]]', "peek: callers and callees");

const modules = treeOf([["main;a;memcpy", 3], ["main;b", 2], ["main;memcpy;free", 4]], { main: "app", a: "app", b: "app", memcpy: "libc", free: "libc" });
equal(show(groupByModule(modules)), lines("all 9/0", " app 9/2", "  libc 7/7"), "modules as frames");

const cut = treeOf([["main;a;x", 90], ["main;a;other", 6], ["main;a", 1], ["main;b", 3]]);
const node = 2;
const sub = treeOf([["x", 90], ["y;z", 4], ["w", 2]]);
sub.self[0][0] = 1;
sub.total[0][0] = 97;
equal(cut.name(node), "a", "the node whose other is opened");
equal(show(graft(cut, node, sub)), lines("all 100/0", " main 100/0", "  a 97/1", "   w 2/2", "   x 90/90", "   y 4/0", "    z 4/4", "  b 3/3"), "other is replaced by what it stood for");

equal(pathHashes(plain)[3] === pathHashes(filterTree(plain, { ignore: (n) => n === "y" }))[3], true, "a path keeps its hash in another tree");
equal(new Set(pathHashes(plain)).size, plain.n, "each node has its own");
const sizes = measure(plain, 0, false);
equal([...sizes.x].map((x) => x.toFixed(1)).join(), "0.0,0.0,0.0,0.0,0.4,0.4,0.4", "where boxes begin");
equal([...sizes.w].map((w) => w.toFixed(1)).join(), "1.0,1.0,0.4,0.3,0.6,0.6,0.4", "how wide they are");

// What the server's pages make of answers.
const cpu = { ID: "", name: "process_cpu", sampleType: "cpu", sampleUnit: "nanoseconds" };
const seriesOf = (...points) => [{ labels: [], points: points.map(([seconds, value]) => ({ timestamp: String(seconds * 1000), value })) }];
const gaps = (column) => column.map((v) => (v === null ? "-" : v === undefined ? "." : v)).join(" ");
const range = { start: 0, end: 100000 };
equal(gaps(align(seriesOf([10, 1], [20, 2], [30, 3], [60, 4], [70, 5]), range, 10)[1]), "- 1 2 3 - - 4 5 - - -", "profiles that are missing leave a gap");
equal(gaps(align(seriesOf([0, 1], [30, 2], [60, 3], [90, 4]), range, 10)[1]), "1 . . 2 . . 3 . . 4 -", "profiles that are rarer than the step do not");
equal(alone([null, 1, null, undefined, 2, undefined, 3, null, undefined, 4]).join(), "1,9", "points without a line to another");
equal(rates(seriesOf([0, 30], [30, 60], [60, 30]), cpu, 10)[0].points.map((p) => p.value).join(), "1,2,1", "a rate is of the time between profiles");
equal(rates(seriesOf([0, 30], [30, 60]), { ...cpu, sampleType: "inuse_space" }, 10)[0].points[1].value, 60, "memory in use is no rate");
const matchers = parseSelector('{service_name="a", region="b", pod!~"x.*"}');
equal(formatSelector(withLabel(matchers, "region", "=", 'c"')), '{service_name="a", pod!~"x.*", region="c\\""}', "a label is replaced");
equal(formatSelector(withLabel(matchers, "pod", "!=", "y")), '{service_name="a", region="b", pod!~"x.*", pod!="y"}', "or taken out");
equal(parseSelector('{a="b"'), null, "a selector that is none");
equal(halfWidth([100, 100], [100, 100], [1, 1, 1, 0, 0], true), 0, "all of it is never noise");
equal(halfWidth([50, 50], [100, 100], [4, 4, 1, 0, 0], true).toFixed(2), (1.96 * Math.sqrt(200)).toFixed(2), "the interval of a share");
equal(markChanges([100, 200, 50, 0], [104, 400, 48, 3], 4, [1, 1, 1, 0, 0]).join(), "0,1,0,0", "what is beyond noise");
equal(markChanges([100, 200, 50], [208, 400, 96], 3, [1, 1, 2, 0, 0]).join(), "0,0,0", "what changed like the rest is not");
equal(markChanges([1000, 2000], [4000, 8000], 2, [1, 10, 1, 0, 0]).join(), "1,1", "heavy events tell less, but enough");
equal(markChanges([1000, 2000], [1400, 2000], 2, [1, 100, 1, 0, 0]).join(), "0,0", "or not enough");

finish();
