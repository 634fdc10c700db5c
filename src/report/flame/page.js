// The self-contained page: buttons, search field and keys for the flame graph and its table.
import { formatPercent, formatValue, matchFrames, signed } from "./core.js";
import { collapseRecursion, filterTree } from "./transform.js";
import { element, flameGraph } from "./graph.js";
import { functionTable } from "./table.js";

const byId = (id) => document.getElementById(id);
const night = matchMedia("(prefers-color-scheme: dark)");
const parts = {};
for (const id of ["canvas", "scroll", "space", "crumbs", "legend", "tip", "live", "menu"]) parts[id] = byId(id);
const hooks = {
  moved() {
    byId("reset").disabled = flame.state.view.width === 1 && !flame.state.zoom;
  },
  matched(text) {
    byId("matched").textContent = text;
  },
  picked(text) {
    if (byId("find").value !== text) byId("find").value = text;
    table.fill();
  },
  actions(node) {
    const { tree } = flame.state;
    const frame = tree.frame[node];
    const same = (_, f) => f === frame;
    const reshape = (next) => {
      flame.setTree(next);
      byId("whole").hidden = false;
    };
    return [
      ["Zoom", () => flame.zoomTo(node)],
      ["Highlight", () => flame.search("", matchFrames(tree, same), frame)],
      ["Only stacks through it", () => reshape(filterTree(tree, { focus: same }))],
      ["No stacks through it", () => reshape(filterTree(tree, { ignore: same }))],
      ["Leave it out of stacks", () => reshape(filterTree(tree, { hide: same }))],
      ["Collapse recursion", () => reshape(collapseRecursion(tree))],
      ["Copy name", () => flame.copyName(node)],
    ];
  },
};
const flame = flameGraph(parts, JSON.parse(byId("data").textContent), hooks);
const { state } = flame;
const whole = state.tree;
const { data } = whole;
let theme = "";

function showAbout() {
  const about = byId("about");
  const { sizes } = state;
  const value = (v) => formatValue(v, sizes.unit);
  about.replaceChildren();
  if (data.subtitle) about.append(data.subtitle + " \u00b7 ");
  about.append(data.types[state.type][0] + " ");
  if (data.diff) {
    const [l, r] = [sizes.left[0], sizes.right[0]];
    about.append("left ", element("b", value(l)), " \u2192 right ", element("b", value(r)));
    if (l) about.append(" (" + signed(r - l, formatPercent(Math.abs(r - l) / l)) + ")");
  } else {
    about.append(element("b", value(sizes.left[0])));
  }
  about.append(" \u00b7 " + (whole.n - 1).toLocaleString("en-US") + " frames" +
    (data.reverse ? ", from the leaves to their callers" : ""));
}

function press(id, on) {
  byId(id).setAttribute("aria-pressed", String(on));
}

function setTheme(next) {
  document.documentElement.dataset.theme = theme = next;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
  flame.restyle();
  table.fill();
}

function flip() {
  flame.set({ flip: !state.flip });
  press("flip", state.flip);
}

function toggleTable() {
  const list = byId("list");
  list.hidden = !list.hidden;
  press("table", !list.hidden);
  document.body.style.setProperty("--below", byId("graph").offsetTop + "px");
  table.fill();
  flame.resize();
}

function normalize() {
  if (!data.diff) return;
  flame.set({ normalize: !state.normalize });
  press("normal", state.normalize);
  table.fill();
}

const KEYS = [
  ["click, Enter", "zoom into a frame"],
  ["right click, m", "more to do with a frame"],
  ["Esc", "go back: zoom, then search"],
  ["Home", "whole profile"],
  ["\u2190 \u2191 \u2192 \u2193", "walk from frame to frame"],
  ["Ctrl + wheel, + \u2212", "zoom about the pointer, or the middle"],
  ["drag", "move the zoomed view"],
  ["/", "search; plain text or a regular expression"],
  ["t", "table of functions"],
  ["f", "root on top or at the bottom"],
  ["n", "in a diff: shares or absolute values"],
  ["c", "copy the frame\u2019s name"],
  ["d", "light or dark"],
];
for (const [key, what] of KEYS) {
  const dt = element("dt");
  dt.append(element("kbd", key));
  byId("keys").querySelector("dl").append(dt, element("dd", what));
}

function onKey(event) {
  if (event.target.matches("input, select, dialog *")) {
    if (event.key === "Escape" && event.target.id === "find") flame.search("");
    if ((event.key === "Escape" || event.key === "Enter") && event.target.id === "find") byId("canvas").focus();
    return;
  }
  const find = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f";
  if (!find && (event.ctrlKey || event.metaKey || event.altKey)) return;
  const onCanvas = event.target.id === "canvas" || event.target === document.body;
  const keys = {
    "/": () => byId("find").select(),
    t: toggleTable,
    f: flip,
    n: normalize,
    d: () => byId("theme").click(),
    "?": () => byId("keys").showModal(),
  };
  if (find) byId("find").select();
  else if (keys[event.key]) keys[event.key]();
  else if (!flame.key(event, onCanvas)) return;
  event.preventDefault();
}

const table = functionTable(byId("list"), state, (frame) => {
  flame.search("", frame < 0 ? null : matchFrames(state.tree, (_, f) => f === frame), frame);
});

byId("title").textContent = data.title;
data.types.forEach(([type, unit], i) => {
  const o = element("option", type + (unit && unit !== "count" ? " (" + unit + ")" : ""));
  o.value = i;
  byId("type").append(o);
});
byId("type").hidden = data.types.length < 2;
byId("type").onchange = (event) => {
  flame.set({ type: Number(event.target.value) });
  showAbout();
  table.fill();
};
byId("normal").hidden = byId("blue").hidden = !data.diff;
byId("normal").onclick = normalize;
byId("blue").onclick = () => {
  flame.set({ blue: !state.blue });
  press("blue", state.blue);
};
byId("find").oninput = (event) => flame.search(event.target.value);
byId("whole").onclick = () => {
  flame.setTree(whole);
  byId("whole").hidden = true;
};
byId("reset").onclick = () => flame.zoomTo(0);
byId("flip").onclick = flip;
byId("table").onclick = toggleTable;
byId("theme").onclick = () => setTheme(theme === "dark" ? "light" : "dark");
byId("help").onclick = () => byId("keys").showModal();
night.addEventListener("change", () => setTheme(night.matches ? "dark" : "light"));
document.addEventListener("keydown", onKey);
press("normal", state.normalize);
press("flip", state.flip);
showAbout();
setTheme(night.matches ? "dark" : "light");
flame.resize();
