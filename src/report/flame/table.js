// Tables of any number of rows; only visible rows are in the document. Also the table of functions,
// the accessible form of the flame graph for screen readers.
import { base64, formatPercent, formatValue, markBits, markChanges, reader, signed } from "./core.js";
import { element } from "./graph.js";

export const ROW_HEIGHT = 27;
const END = 18; // letters at the end of a long name that are always shown
const AROUND = 12; // rows in the document above and below the visible ones

// scroll contains a table. Columns are { key, label, value(row), text(row), share(row), mark(row),
// node(row) }: value sorts, text is shown, share is a bar behind it, mark a class, node an element
// beside the text. hooks: columns(), rows() (the filtered ones), picked() (a row or -1), pick(row),
// open(row), empty (a sentence).
export function virtualTable(scroll, hooks) {
  const head = scroll.querySelector("thead");
  const body = scroll.querySelector("tbody");
  let order = null;
  let sorted = [];
  let focus = -1; // keyboard position, an index into sorted
  let drawn = "";
  const lines = new Map(); // rows in the document, by their index in sorted

  function sort() {
    const columns = hooks.columns();
    const column = columns.find((c) => c.key === order.key) || columns[1] || columns[0];
    order.key = column.key;
    const rows = hooks.rows();
    const sign = order.down ? -1 : 1;
    const keys = new Map();
    for (const row of rows) {
      const v = column.value(row);
      keys.set(row, typeof v === "number" ? Math.abs(v) : v);
    }
    sorted = [...rows].sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return x < y ? -sign : x > y ? sign : a - b;
    });
  }

  function drawHead() {
    const row = element("tr");
    for (const { key, label } of hooks.columns()) {
      const th = element("th", undefined, key);
      th.scope = "col";
      const here = order.key === key;
      const b = element("button", label + (here ? (order.down ? " \u2193" : " \u2191") : ""));
      if (here) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      b.onclick = () => {
        order = { key, down: here ? !order.down : key !== "name" };
        scroll.scrollTop = 0;
        fill();
        head.querySelector("th[aria-sort] button")?.focus();
        hooks.ordered?.(order);
      };
      th.append(b);
      row.append(th);
    }
    head.replaceChildren(row);
  }

  function line(at, columns) {
    const row = sorted[at];
    const tr = element("tr");
    tr.tabIndex = at === Math.max(focus, 0) ? 0 : -1;
    tr.setAttribute("aria-rowindex", String(at + 2));
    if (row === hooks.picked?.()) tr.setAttribute("aria-selected", "true");
    for (const column of columns) {
      const td = column.key === "name" ? nameCell(column.text(row)) : element("td", column.text(row), column.key);
      const share = column.share?.(row);
      if (column.key === "name") td.title = column.text(row).slice(0, 2000);
      if (share !== undefined) {
        td.classList.add("share");
        td.style.setProperty("--s", String(Math.max(0, Math.min(1, share))));
      }
      const kind = column.mark?.(row);
      if (kind) td.classList.add(kind);
      const node = column.node?.(row);
      if (node) td.append(node);
      tr.append(td);
    }
    tr.onclick = (event) => {
      if (event.target.closest("a")) return;
      focus = at;
      hooks.pick?.(row);
    };
    tr.ondblclick = () => hooks.open?.(row);
    tr.oncontextmenu = (event) => {
      if (!hooks.menu) return;
      event.preventDefault();
      hooks.menu(row, event.clientX, event.clientY);
    };
    tr.onkeydown = (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -1e9, End: 1e9 }[event.key];
      if (event.target !== event.currentTarget && !step) return;
      if (event.key === "Enter" || event.key === " ") (event.shiftKey && hooks.open ? hooks.open : hooks.pick)?.(row);
      else if (step) moveTo(Math.max(0, Math.min(sorted.length - 1, at + step)));
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    return tr;
  }

  // Keeps an unchanged line in the document, so that a click that began on it is not lost.
  function renewed(old, now) {
    if (!old || now.querySelector("a, button") || old.innerHTML !== now.innerHTML) return now;
    for (const { name } of [...old.attributes]) old.removeAttribute(name);
    for (const { name, value } of now.attributes) old.setAttribute(name, value);
    for (const on of ["onclick", "ondblclick", "oncontextmenu", "onkeydown"]) old[on] = now[on];
    return old;
  }

  // A long name is truncated at its beginning, because its end is more significant.
  function nameCell(text) {
    const td = element("td", undefined, "name");
    if (text.length <= END) {
      td.textContent = text;
      return td;
    }
    const both = element("div");
    both.append(element("span", text.slice(0, -END).slice(0, 300)), element("span", text.slice(-END)));
    td.append(both);
    return td;
  }

  function moveTo(at) {
    focus = at;
    const top = at * ROW_HEIGHT;
    const room = scroll.clientHeight - 2 * ROW_HEIGHT;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    else if (top > scroll.scrollTop + room) scroll.scrollTop = top - room;
    drawn = "";
    paint();
    body.querySelector('tr[tabindex="0"]')?.focus({ preventScroll: true });
  }

  // A single cell, because columns may be hidden in a narrow window.
  function gap(rows) {
    const tr = element("tr", undefined, "gap");
    const td = element("td");
    td.style.height = rows * ROW_HEIGHT + "px";
    tr.setAttribute("aria-hidden", "true");
    tr.append(td);
    return tr;
  }

  function paint() {
    const columns = hooks.columns();
    const from = Math.max(0, Math.floor(scroll.scrollTop / ROW_HEIGHT) - AROUND);
    const to = Math.min(sorted.length, Math.ceil((scroll.scrollTop + scroll.clientHeight) / ROW_HEIGHT) + AROUND);
    const want = from + "-" + to;
    if (want === drawn) return;
    const wanted = [];
    if (from) wanted.push(gap(from));
    for (let i = from; i < to; i++) {
      if (!drawn || !lines.has(i)) lines.set(i, renewed(lines.get(i), line(i, columns)));
      wanted.push(lines.get(i));
    }
    drawn = want;
    if (to < sorted.length) wanted.push(gap(sorted.length - to));
    if (!sorted.length) {
      const tr = element("tr", undefined, "rest");
      const td = element("td", hooks.empty || "No function matches.");
      td.colSpan = columns.length;
      tr.append(td);
      wanted.push(tr);
    }
    const focused = body.contains(document.activeElement);
    const stay = new Set(wanted);
    for (const tr of [...body.children]) if (!stay.has(tr)) tr.remove();
    let next = body.firstChild;
    for (const tr of wanted) {
      if (tr === next) next = next.nextSibling;
      else body.insertBefore(tr, next);
    }
    for (const at of [...lines.keys()]) if (at < from || at >= to) lines.delete(at);
    if (focused) body.querySelector('tr[tabindex="0"]')?.focus({ preventScroll: true });
  }

  function fill() {
    order = order || hooks.order?.() || { key: "self", down: true };
    sort();
    drawHead();
    scroll.querySelector("table").setAttribute("aria-rowcount", String(sorted.length + 1));
    drawn = "";
    paint();
  }

  // Scrolls the row into view.
  function reveal(row) {
    const at = sorted.indexOf(row);
    if (at < 0) return;
    const top = at * ROW_HEIGHT;
    if (top < scroll.scrollTop || top > scroll.scrollTop + scroll.clientHeight - 3 * ROW_HEIGHT) {
      scroll.scrollTop = Math.max(0, top - scroll.clientHeight / 2);
    }
    focus = at;
    drawn = "";
    paint();
  }

  scroll.addEventListener("scroll", paint, { passive: true });
  const observer = new ResizeObserver(paint);
  observer.observe(scroll);
  return { fill, reveal, setOrder: (o) => (order = o), destroy: () => observer.disconnect() };
}

// Columns for two profiles.
export function changeColumns(unit, before, after, flatChange, isNoise = () => false, isFlatNoise = () => false) {
  const change = (row) => after(row) - before(row);
  const text = (v) => (v ? signed(v, formatValue(Math.abs(v), unit)) : "0");
  const mark = (v, noise) => (!v ? "" : noise ? "pale" : v > 0 ? "more" : "less");
  return [
    { key: "left", label: "Left", value: before, text: (row) => formatValue(before(row), unit) },
    { key: "right", label: "Right", value: after, text: (row) => formatValue(after(row), unit) },
    { key: "change", label: "Change", value: change, text: (row) => text(change(row)), mark: (row) => mark(change(row), isNoise(row)) },
    { key: "selfChange", label: "Self \u0394", value: flatChange, text: (row) => text(flatChange(row)), mark: (row) => mark(flatChange(row), isFlatNoise(row)) },
  ];
}

// Columns for one sample type.
export function valueColumns(unit, total, flat, cum, prefix = "", suffix = "") {
  const part = (v) => (total ? v / total : 0);
  return [
    { key: prefix + "self", label: "Self" + suffix, value: flat, text: (row) => formatValue(flat(row), unit) },
    { key: prefix + "selfShare", label: "Self %", value: flat, text: (row) => formatPercent(part(flat(row))), share: (row) => Math.abs(part(flat(row))) },
    { key: prefix + "total", label: "Total" + suffix, value: cum, text: (row) => formatValue(cum(row), unit) },
    { key: prefix + "totalShare", label: "Total %", value: cum, text: (row) => formatPercent(part(cum(row))), share: (row) => Math.abs(part(cum(row))) },
  ];
}

// Decodes self and total of each frame's function in each column, independent of "other".
export function functionValues(data) {
  const next = reader(base64(data.functions));
  const columns = data.types.length * (data.diff ? 2 : 1);
  const count = data.functions ? data.names.length : 0;
  const self = [];
  const total = [];
  for (let c = 0; c < columns; c++) {
    self.push(new Float64Array(count));
    total.push(new Float64Array(count));
  }
  for (let f = 0; f < count; f++) {
    for (let c = 0; c < columns; c++) {
      self[c][f] = next();
      total[c][f] = next();
    }
  }
  return { self, total, count };
}

// Which functions changed beyond noise in the first type: self values (1) or totals (2). null: not
// in the data.
export function functionMarks(data, which, count) {
  const digits = data.marks && data.marks[which];
  return digits && digits.length * 4 >= count ? markBits(digits, count) : null;
}

// Whether the change of a function, given by its index, is within noise.
function functionNoise(data, sizes, of, which, count) {
  const c = sizes.first;
  const noise = data.noise[sizes.type];
  const marks = (sizes.type === 0 && functionMarks(data, which, count)) || (noise && markChanges(of[c], of[c + 1], count, noise));
  return (f) => Boolean(marks && !marks[f]);
}

// The table of functions of a flame graph. state: of the graph; pick(frame).
export function functionTable(list, state, pick) {
  const { data } = state.tree;
  const { self, total, count } = functionValues(data);
  const name = { key: "name", label: "Function", value: (f) => data.names[f], text: (f) => data.names[f] };
  const table = virtualTable(list.querySelector(".rows"), {
    columns() {
      const { sizes } = state;
      const c = sizes.first;
      return [name, ...(data.diff
        ? changeColumns(sizes.unit, (f) => total[c][f] * sizes.scale, (f) => total[c + 1][f],
          (f) => self[c + 1][f] - self[c][f] * sizes.scale,
          functionNoise(data, sizes, total, 2, count), functionNoise(data, sizes, self, 1, count))
        : valueColumns(sizes.unit, sizes.left[0], (f) => self[c][f], (f) => total[c][f]))];
    },
    rows() {
      const c = state.sizes.first;
      const any = (f) => total[c][f] || self[c][f] || (data.diff && total[c + 1][f]);
      const rows = [];
      for (let f = 2; f < count; f++) {
        if (any(f) && (!state.match || state.picked >= 0 || state.match[f])) rows.push(f);
      }
      return rows;
    },
    order: () => ({ key: data.diff ? "change" : "self", down: true }),
    picked: () => state.picked,
    pick: (f) => pick(f === state.picked ? -1 : f),
  });
  return { fill: () => list.hidden || table.fill() };
}
