// Functions with their exact self and total, sortable: also the form of the flame graph
// that a screen reader can read.
const PAGE = 200;

function functionTable(list, tree, state, sizesNow, onPick) {
  const { data } = tree;
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

  let order = { key: data.diff ? "change" : "self", down: true };
  let shown = PAGE;

  // [key, heading, value of a function]
  function headings() {
    const sizes = sizesNow();
    const c = sizes.first;
    if (!data.diff) {
      return [
        ["name", "Function", (f) => data.names[f]],
        ["self", "Self", (f) => self[c][f]],
        ["selfShare", "Self %", (f) => self[c][f]],
        ["total", "Total", (f) => total[c][f]],
        ["totalShare", "Total %", (f) => total[c][f]],
      ];
    }
    return [
      ["name", "Function", (f) => data.names[f]],
      ["left", "Left", (f) => total[c][f]],
      ["right", "Right", (f) => total[c + 1][f]],
      ["change", "Change", (f) => total[c + 1][f] - total[c][f] * sizes.scale],
      ["selfChange", "Self \u0394", (f) => self[c + 1][f] - self[c][f] * sizes.scale],
    ];
  }

  function cell(row, key, value) {
    const sizes = sizesNow();
    const td = element("td", undefined, key);
    if (key === "name") {
      td.textContent = value;
      td.title = value;
    } else if (key.endsWith("Share")) {
      const share = sizes.left[0] ? value / sizes.left[0] : 0;
      td.textContent = formatPercent(share);
      td.classList.add("share");
      td.style.setProperty("--s", Math.min(1, share));
    } else if (key === "change" || key === "selfChange") {
      td.textContent = value ? signed(value, formatValue(Math.abs(value), sizes.unit)) : "0";
      if (value) td.classList.add(value > 0 ? "more" : "less");
    } else {
      td.textContent = formatValue(value, sizes.unit);
    }
    row.append(td);
  }

  function fill() {
    if (list.hidden) return;
    const heads = headings();
    const row = element("tr");
    for (const [key, label] of heads) {
      const th = element("th", undefined, key);
      const b = element("button", label + (order.key === key ? (order.down ? " \u2193" : " \u2191") : ""));
      if (order.key === key) th.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      b.onclick = () => {
        order = { key, down: order.key === key ? !order.down : key !== "name" };
        shown = PAGE;
        fill();
        list.querySelector("th[aria-sort] button").focus();
      };
      th.append(b);
      row.append(th);
    }
    list.querySelector("thead").replaceChildren(row);

    const value = heads.find((h) => h[0] === order.key)[2];
    const wanted = [];
    for (let f = 2; f < count; f++) {
      const any = heads.some(([key, , v]) => key !== "name" && v(f));
      if (any && (!state.match || state.picked >= 0 || state.match[f])) wanted.push(f);
    }
    const sign = order.down ? -1 : 1;
    const size = order.key === "name" ? value : (f) => Math.abs(value(f));
    const keys = new Map(wanted.map((f) => [f, size(f)]));
    wanted.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return x < y ? -sign : x > y ? sign : a - b;
    });

    const lines = wanted.slice(0, shown).map((f) => {
      const line = element("tr");
      line.tabIndex = 0;
      if (f === state.picked) line.setAttribute("aria-selected", "true");
      for (const [key, , v] of heads) cell(line, key, v(f));
      line.onclick = () => onPick(f === state.picked ? -1 : f);
      line.onkeydown = (event) => {
        if (event.key === "Enter") line.onclick();
      };
      return line;
    });
    if (wanted.length > shown) {
      const line = element("tr", undefined, "rest");
      const td = element("td");
      td.colSpan = heads.length;
      const b = element("button", "Show more (" + (wanted.length - shown).toLocaleString("en-US") + " left)");
      b.onclick = () => {
        shown += PAGE;
        fill();
      };
      td.append(b);
      line.append(td);
      lines.push(line);
    }
    if (!wanted.length) {
      const line = element("tr", undefined, "rest");
      const td = element("td", "No function matches.");
      td.colSpan = heads.length;
      line.append(td);
      lines.push(line);
    }
    list.querySelector("tbody").replaceChildren(...lines);
  }
  return { fill };
}
