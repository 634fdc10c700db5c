// Where the boxes of a call graph go when Graphviz does not say: layers from callers to callees,
// few crossings, edges that run straight. The steps are Sugiyama's.

export interface Box {
  width: number;
  height: number;
  x: number;
  y: number;
}
export interface Line {
  from: number;
  to: number;
  weight: number;
  points: number[]; // x, y of a cubic Bezier curve
}

const GAP_X = 26;
const GAP_Y = 46;

// Edges that would go back up are turned around: those that close a cycle, found depth first from
// the heaviest callers on.
function acyclic(n: number, lines: Line[]): boolean[] {
  const out: number[][] = Array.from({ length: n }, () => []);
  const into = new Array(n).fill(0);
  lines.forEach((line, i) => {
    if (line.from === line.to) return;
    out[line.from].push(i);
    into[line.to]++;
  });
  for (const list of out) list.sort((a, b) => lines[b].weight - lines[a].weight);
  const turned = new Array(lines.length).fill(false);
  const mark = new Uint8Array(n); // 1: on the way, 2: done
  const starts = [...Array(n).keys()].sort((a, b) => into[a] - into[b]);
  for (const start of starts) {
    if (mark[start]) continue;
    const stack: [node: number, next: number][] = [[start, 0]];
    mark[start] = 1;
    while (stack.length) {
      const top = stack[stack.length - 1];
      if (top[1] === out[top[0]].length) {
        mark[top[0]] = 2;
        stack.pop();
        continue;
      }
      const line = out[top[0]][top[1]++];
      const { to } = lines[line];
      if (mark[to] === 1) turned[line] = true;
      else if (!mark[to]) {
        mark[to] = 1;
        stack.push([to, 0]);
      }
    }
  }
  return turned;
}

// Each node one layer below its lowest caller.
function layers(n: number, edges: [number, number][]): number[] {
  const out: number[][] = Array.from({ length: n }, () => []);
  const into = new Array(n).fill(0);
  for (const [a, b] of edges) {
    out[a].push(b);
    into[b]++;
  }
  const layer = new Array(n).fill(0);
  const ready = [...Array(n).keys()].filter((i) => !into[i]);
  while (ready.length) {
    const a = ready.pop()!;
    for (const b of out[a]) {
      layer[b] = Math.max(layer[b], layer[a] + 1);
      if (!--into[b]) ready.push(b);
    }
  }
  return layer;
}

interface Spot {
  box: number; // -1: a bend of a long edge
  width: number;
  x: number;
  at: number; // in its layer
  up: [Spot, number][];
  down: [Spot, number][];
}

function median(list: [Spot, number][], of: (spot: Spot) => number): number {
  let sum = 0;
  let weight = 0;
  for (const [spot, w] of list) {
    sum += of(spot) * w;
    weight += w;
  }
  return weight ? sum / weight : -1;
}

function crossings(rows: Spot[][]): number {
  let count = 0;
  for (const row of rows) {
    const ends: number[] = [];
    for (const spot of row) {
      const to = spot.down.map(([s]) => s.at).sort((a, b) => a - b);
      for (const t of to) for (const e of ends) if (e > t) count++;
      ends.push(...to);
    }
  }
  return count;
}

function arrange(rows: Spot[][]) {
  const number = () => rows.forEach((row) => row.forEach((spot, i) => (spot.at = i)));
  number();
  let best = rows.map((row) => [...row]);
  let fewest = crossings(rows);
  for (let round = 0; round < 24 && fewest; round++) {
    const down = round % 2 === 0;
    const order = down ? rows : [...rows].reverse();
    for (const row of order) {
      const key = new Map(row.map((s) => {
        const m = median(down ? s.up : s.down, (o) => o.at);
        return [s, m < 0 ? s.at : m];
      }));
      row.sort((a, b) => key.get(a)! - key.get(b)! || a.at - b.at);
      row.forEach((s, i) => (s.at = i));
    }
    const now = crossings(rows);
    if (now < fewest) {
      fewest = now;
      best = rows.map((row) => [...row]);
    }
  }
  best.forEach((row, i) => (rows[i] = row));
  number();
}

// Pulls each spot towards its neighbours; whoever is in the way is pushed, within the row's order.
function spread(rows: Spot[][]) {
  const middle = (s: Spot) => s.x + s.width / 2;
  for (const row of rows) {
    let x = 0;
    for (const s of row) {
      s.x = x;
      x += s.width + GAP_X;
    }
  }
  for (let round = 0; round < 16; round++) {
    const down = round % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const wish = row.map((s) => {
        const m = median(round > 12 ? [...s.up, ...s.down] : down ? s.up : s.down, middle);
        return m < 0 ? s.x : m - s.width / 2;
      });
      // Placed from the left and from the right; the mean of both keeps everybody's turn.
      const left: number[] = [];
      const right: number[] = new Array(row.length);
      row.forEach((_, i) => (left[i] = Math.max(wish[i], i ? left[i - 1] + row[i - 1].width + GAP_X : -Infinity)));
      for (let i = row.length - 1; i >= 0; i--) {
        right[i] = Math.min(wish[i], i + 1 < row.length ? right[i + 1] - row[i].width - GAP_X : Infinity);
      }
      row.forEach((s, i) => (s.x = (left[i] + right[i]) / 2));
    }
  }
  const least = Math.min(...rows.flat().map((s) => s.x));
  for (const row of rows) for (const s of row) s.x -= least;
}

export function layout(boxes: Box[], lines: Line[]) {
  const n = boxes.length;
  if (!n) return;
  const turned = acyclic(n, lines);
  const edges = lines.map((line, i): [number, number] => (turned[i] ? [line.to, line.from] : [line.from, line.to]));
  const layer = layers(n, edges.filter(([a, b]) => a !== b));
  const rows: Spot[][] = Array.from({ length: Math.max(...layer) + 1 }, () => []);
  const spots = boxes.map((box, i): Spot => ({ box: i, width: box.width, x: 0, at: 0, up: [], down: [] }));
  spots.forEach((spot, i) => rows[layer[i]].push(spot));
  const ways = edges.map(([a, b], i) => {
    const way = [spots[a]];
    if (a === b) return way;
    const weight = 1 + 8 * lines[i].weight;
    const join = (up: Spot, down: Spot) => {
      up.down.push([down, weight]);
      down.up.push([up, weight]);
    };
    for (let l = layer[a] + 1; l < layer[b]; l++) {
      const bend: Spot = { box: -1, width: 10, x: 0, at: 0, up: [], down: [] };
      rows[l].push(bend);
      join(way[way.length - 1], bend);
      way.push(bend);
    }
    join(way[way.length - 1], spots[b]);
    way.push(spots[b]);
    return way;
  });
  arrange(rows);
  spread(rows);
  const tops: number[] = [];
  const heights: number[] = [];
  let y = 0;
  rows.forEach((row, i) => {
    heights[i] = Math.max(20, ...row.filter((s) => s.box >= 0).map((s) => boxes[s.box].height));
    tops[i] = y;
    y += heights[i] + GAP_Y;
  });
  spots.forEach((spot, i) => {
    boxes[i].x = spot.x;
    boxes[i].y = tops[layer[i]] + (heights[layer[i]] - boxes[i].height) / 2;
  });
  ways.forEach((way, i) => (lines[i].points = curve(way, edges[i], boxes, layer, tops, heights, turned[i])));
}

function curve(way: Spot[], [a, b]: [number, number], boxes: Box[], layer: number[], tops: number[], heights: number[], turned: boolean) {
  if (a === b) {
    // A function that calls itself: a loop at its right side.
    const { x, y, width, height } = boxes[a];
    const right = x + width;
    return [right, y + height * 0.35, right + 34, y + height * 0.1, right + 34, y + height * 0.9, right, y + height * 0.65];
  }
  const stops = way.map((spot, k): [number, number, number] => {
    const mid = spot.x + spot.width / 2;
    if (k === 0) return [mid, boxes[a].y + boxes[a].height, boxes[a].y + boxes[a].height];
    if (k === way.length - 1) return [mid, boxes[b].y, boxes[b].y];
    const l = layer[a] + k;
    return [mid, tops[l], tops[l] + heights[l]];
  });
  const points = [stops[0][0], stops[0][2]];
  for (let k = 1; k < stops.length; k++) {
    const [x0, , y0] = stops[k - 1];
    const [x1, y1, y2] = stops[k];
    const reach = (y1 - y0) * 0.5;
    points.push(x0, y0 + reach, x1, y1 - reach, x1, y1);
    if (y2 > y1) points.push(x1, y1 + (y2 - y1) / 3, x1, y2 - (y2 - y1) / 3, x1, y2);
  }
  if (!turned) return points;
  const back: number[] = [];
  for (let k = points.length - 2; k >= 0; k -= 2) back.push(points[k], points[k + 1]);
  return back;
}
