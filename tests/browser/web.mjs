// Drives the pages of `kiln web` in a real browser:
//     node web.mjs ADDRESSES DIR [SCREENSHOTS]
// ADDRESSES is JSON of ports by name, as tests/check_web starts them; DIR is for downloads. TAP.
import { mkdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { frames, launch } from "./browser.mjs";
import { checks } from "./checks.mjs";

const ports = JSON.parse(process.argv[2]);
const [dir, shots] = process.argv.slice(3);
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();

const { check, equal, finish } = checks();

async function open(name, path, { width = 1280, height = 760, dark = false, expectErrors = false, ...more } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"], ...more,
  });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(e.message));
  page.on("console", (m) => m.type() === "error" && !expectErrors && page.problems.push(m.text()));
  page.on("request", (r) => r.url().startsWith(`http://localhost:${ports[name]}/`) || r.url().startsWith("data:") || r.url().startsWith("blob:") || page.problems.push(r.url()));
  await page.goto(`http://localhost:${ports[name]}${path}`);
  await idle(page);
  return page;
}

// Until nothing is being loaded, and what came is drawn.
async function idle(page) {
  await frames(page);
  await page.waitForFunction(() => document.querySelector("header") && document.querySelector("main")?.firstChild && !document.querySelector(".progress.busy"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await frames(page);
}

async function shot(page, name) {
  if (shots) await page.screenshot({ path: resolve(shots, name + ".png") });
}

async function close(page, what) {
  equal(page.problems.join("; "), "", what + ": no errors, no requests elsewhere");
  await page.context().close();
}

const url = (page) => new URL(page.url());
const param = (page, name) => url(page).searchParams.get(name);
const about = (page) => page.textContent(".about");
const tipText = (page) => page.evaluate(() => {
  const tip = [...document.querySelectorAll(".tip")].find((t) => !t.hidden);
  return tip ? [...tip.children].map((e) => e.innerText.replace(/\s+/g, " ")).join(" | ") : "";
});
// x is a share of the width, row counts from the root; of the last flame graph on the page.
async function hover(page, x, row) {
  const r = await page.locator(".flame canvas").last().boundingBox();
  await page.mouse.move(r.x + x * r.width, r.y + row * 20 + 10);
  await frames(page);
  return tipText(page);
}
async function click(page, x, row, options) {
  const r = await page.locator(".flame canvas").last().boundingBox();
  await page.mouse.click(r.x + x * r.width, r.y + row * 20 + 10, options);
  await idle(page);
}
async function menu(page, x, row, item) {
  await click(page, x, row, { button: "right" });
  await page.locator(".menu:not([hidden]) button", { hasText: item }).first().click();
  await idle(page);
}
const rows = (page) => page.evaluate(() => [...document.querySelectorAll(".rows tbody tr:not(.gap)")].map((r) => [...r.cells].map((c) => c.textContent)));
async function popover(page, label) {
  await page.click(`.popover > button:has-text("${label}")`);
}
async function option(page, label) {
  await popover(page, "View");
  await page.click(`.panel .check:has-text("${label}")`);
  await idle(page);
  await page.keyboard.press("Escape");
}

// Waits for a text that a script is about to write, for a while.
async function becomes(page, selector, wanted, what) {
  await page.waitForFunction(([s, w]) => document.querySelector(s)?.textContent === w, [selector, wanted], { timeout: 4000 }).catch(() => {});
  equal(await page.textContent(selector), wanted, what);
}

// Flame graph. The stacks are in tests/check_web: main 1s = idle 250ms, serve 750ms; serve = handle
// 500ms, walk 150ms, self 100ms; children are in the order of their names.
{
  const page = await open("plain", "/");
  equal(url(page).pathname, "/ui/flamegraph", "the root leads to the flame graph");
  check((await about(page)).includes("cpu 1s over 2s"), "type, total and duration", await about(page));
  let tip = await hover(page, 0.5, 3);
  check(tip.startsWith("handle | src/handle.c:7 | shop") && tip.includes("Total 500ms 50.0% Self 0ns 0% Of parent 66.7%"), "tooltip", tip);
  tip = await hover(page, 0.55, 5);
  check(tip.includes("json_escape") && tip.includes("inlined"), "inlined frames are marked", tip);
  await shot(page, "web-flame");

  await click(page, 0.5, 3);
  check((await page.textContent(".crumbs")).endsWith("handle"), "a click zooms: crumbs");
  check(/^[0-9a-z]+$/.test(param(page, "z")), "the zoomed frame is in the URL", page.url());
  tip = await hover(page, 0.01, 4);
  check(tip.includes("db_query") && tip.includes("Of zoomed 40.0%"), "share of the zoomed frame", tip);
  const zoomed = page.url();
  await page.reload();
  await idle(page);
  check((await page.textContent(".crumbs")).endsWith("handle"), "the zoom survives a reload");
  await page.goBack();
  await idle(page);
  equal(await page.textContent(".crumbs"), "", "back goes back");
  await page.goForward();
  await idle(page);
  equal(page.url(), zoomed, "forward goes forward");
  check((await page.textContent(".crumbs")).endsWith("handle"), "and zooms");
  await page.click(".crumbs button:has-text('serve')");
  await idle(page);
  check((await page.textContent(".crumbs")).endsWith("serve"), "crumbs lead back");
  await page.click("button:has-text('Reset zoom')");
  await idle(page);
  equal(param(page, "z"), null, "reset takes it out of the URL");
  await page.keyboard.press("Escape");

  await page.focus(".flame canvas");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  check((await page.textContent(".live")).startsWith("serve; total 750ms"), "arrows walk, and tell", await page.textContent(".live"));
  await page.keyboard.press("Enter");
  check((await page.textContent(".crumbs")).endsWith("serve"), "Enter zooms");
  await page.keyboard.press("c");
  equal(await page.evaluate(() => navigator.clipboard.readText()), "serve", "c copies the name");
  await page.keyboard.press("Home");
  await page.keyboard.press("?");
  check(await page.waitForSelector("dialog[open]", { timeout: 4000 }).catch(() => null), "? lists the keys");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog[open]", { state: "detached", timeout: 4000 });

  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement.type === "search");
  await page.keyboard.type("json|db_q");
  await frames(page);
  await becomes(page, ".matched", "Matched: 50.0%", "search: the share, a stack once");
  equal(param(page, "q"), "json|db_q", "the search is in the URL");
  await shot(page, "web-search");
  await page.reload();
  await idle(page);
  await becomes(page, ".matched", "Matched: 50.0%", "and survives a reload");
  await page.fill(".find input", "json(");
  await frames(page);
  await becomes(page, ".matched", "Matched: 0%", "a broken expression is plain text");
  await page.fill(".find input", "json");
  await page.click(".apply button:has-text('Focus')");
  await idle(page);
  check((await about(page)).includes("cpu 300ms"), "focus filters", await about(page));
  equal(param(page, "f"), "json", "by pprof's parameter");
  check((await page.textContent(".chips")).includes("Focus json"), "as a chip");
  await page.click(".chip .edit");
  await page.fill(".chip input", "db_query");
  await page.keyboard.press("Enter");
  await idle(page);
  check((await about(page)).includes("cpu 200ms"), "a chip can be edited", await about(page));
  await page.click(".chip .remove");
  await idle(page);
  check((await about(page)).includes("cpu 1s") && (await page.locator(".chip").count()) === 0, "and removed");

  await menu(page, 0.5, 3, "Ignore");
  equal(param(page, "i"), "^handle$", "menu: ignore");
  check((await about(page)).includes("cpu 500ms"), "leaves stacks out", await about(page));
  await page.click(".chip .remove");
  await idle(page);
  await menu(page, 0.5, 3, "Hide");
  tip = await hover(page, 0.4, 3);
  check((await about(page)).includes("cpu 1s") && tip.startsWith("db_query"), "menu: hide leaves frames out", tip);
  await page.click(".chip .remove");
  await idle(page);
  await menu(page, 0.5, 3, "Focus");
  check((await about(page)).includes("cpu 500ms"), "menu: focus");
  await page.click(".chip .remove");
  await idle(page);
  await menu(page, 0.5, 3, "Show from");
  tip = await hover(page, 0.5, 1);
  check(tip.startsWith("handle"), "menu: show from", tip);
  await page.click(".chip .remove");
  await idle(page);
  await menu(page, 0.5, 3, "Highlight");
  await becomes(page, ".matched", "Matched: 50.0%", "menu: highlight");
  await page.fill(".find input", "");
  await menu(page, 0.5, 3, "Copy name");
  equal(await page.evaluate(() => navigator.clipboard.readText()), "handle", "menu: copy name");
  await menu(page, 0.1, 2, "Find in table");
  equal(url(page).pathname, "/ui/top", "menu: find in table");
  equal((await rows(page)).length, 1, "finds it");
  await close(page, "flame graph");
}
{
  const page = await open("plain", "/ui/flamegraph");
  await menu(page, 0.1, 3, "Pivot");
  equal(param(page, "p"), "^malloc$", "pivot is pprof's p");
  equal(await page.locator(".flame").count(), 2, "pivot: callers and callees");
  check((await about(page)).includes("400ms of 1s (40.0%)"), "the function's share", await about(page));
  const callers = await page.locator(".flame canvas").first().boundingBox();
  await page.mouse.move(callers.x + 10, callers.y + callers.height - 30);
  await frames(page);
  const tip = await tipText(page);
  check(tip.startsWith("db_query") && tip.includes("150ms 37.5%"), "a caller with its part", tip);
  await shot(page, "web-pivot");
  await page.reload();
  await idle(page);
  equal(await page.locator(".flame").count(), 2, "survives a reload");
  await page.click(".chip .remove");
  await idle(page);

  // walk calls itself: three levels, or one.
  const depthOf = async (x) => {
    let deepest = "";
    for (let row = 1; row < 12; row++) deepest = (await hover(page, x, row)) ? String(row) : deepest;
    return Number(deepest);
  };
  equal(await depthOf(0.85), 6, "recursion is there");
  await option(page, "Collapse recursion");
  equal(await depthOf(0.85), 4, "recursion collapsed");
  equal(param(page, "rec"), "1", "in the URL");
  await option(page, "Collapse recursion");
  await option(page, "Group by module");
  check((await hover(page, 0.5, 1)).startsWith("shop") && (await hover(page, 0.1, 2)).startsWith("libc.so.6"), "modules as frames", await hover(page, 0.1, 2));
  await option(page, "Group by module");
  await option(page, "Colors by module");
  check((await page.textContent(".legend")).includes("libc.so.6 40.0%"), "colours by module", await page.textContent(".legend"));
  await page.click(".legend button:has-text('libc')");
  equal(await page.getAttribute(".legend button:has-text('libc')", "aria-pressed"), "true", "the legend highlights");
  await option(page, "Inverted");
  check((await hover(page, 0.01, 1)).startsWith("db_query"), "inverted: leaves first", await hover(page, 0.01, 1));
  await option(page, "Inverted");
  await option(page, "Root at the bottom");
  const box = await page.locator(".flame canvas").boundingBox();
  check((await hover(page, 0.5, box.height / 20 - 2)).startsWith("main"), "root at the bottom");
  await option(page, "Root at the bottom");
  await page.selectOption("select[aria-label='Sample type']", { label: "samples" });
  await idle(page);
  check((await about(page)).includes("samples 100"), "another sample type", await about(page));
  equal(param(page, "si"), "0", "by pprof's si");
  await popover(page, "Filters");
  await page.fill(".filters input[name=tf]", "region=eu");
  await page.click(".filters button");
  await idle(page);
  check((await about(page)).includes("samples 30"), "labels filter", await about(page));
  await page.fill(".filters input[name=tf]", "");
  await page.fill(".filters input[name=tagroot]", "region");
  await page.click(".filters button");
  await idle(page);
  await page.keyboard.press("Escape");
  check((await hover(page, 0.05, 1)).startsWith("ap"), "label values as frames", await hover(page, 0.05, 1));
  await page.click(".chip .remove");
  await idle(page);
  await popover(page, "View");
  await page.selectOption(".panel .choice select", "lines");
  await idle(page);
  await page.keyboard.press("Escape");
  check(/^main src\/main.c:\d+/.test(await hover(page, 0.5, 1)), "lines as frames", await hover(page, 0.5, 1));
  await close(page, "options");
}
{
  // Exports.
  const page = await open("plain", "/ui/flamegraph?f=handle");
  const download = async (label) => {
    await popover(page, "Export");
    const [got] = await Promise.all([page.waitForEvent("download"), page.click(`.panel :text("${label}")`)]);
    const path = resolve(dir, "got-" + got.suggestedFilename());
    await got.saveAs(path);
    return { name: got.suggestedFilename(), path, data: readFileSync(path) };
  };
  const png = await download("PNG");
  check(png.name === "before.png" && png.data.subarray(1, 4).toString() === "PNG" && png.data.length > 2000, "export PNG", png.name);
  const svg = await download("SVG");
  check(svg.data.toString().startsWith("<svg") && svg.data.toString().includes("<title>handle</title>"), "export SVG");
  const html = await download("HTML");
  check(html.data.toString().startsWith("<!doctype html>") && html.data.length > 20000, "export HTML");
  const pprof = await download("pprof");
  check(pprof.name === "profile.pb.gz" && pprof.data[0] === 0x1f && pprof.data[1] === 0x8b, "export pprof", pprof.name);
  await popover(page, "Export");
  await page.click(".panel button:has-text('Copy link')");
  equal(await page.evaluate(() => navigator.clipboard.readText()), page.url(), "copy link");
  await page.goto("file://" + html.path);
  await frames(page);
  check((await page.textContent("#about")).includes("500ms"), "the exported page shows the same", await page.textContent("#about"));
  await page.context().close();

  // Settings, in the file that pprof uses.
  const saved = await open("plain", "/ui/flamegraph?f=json&h=serve");
  await popover(saved, "Saved");
  await saved.fill(".panel input[name=config]", "only json");
  await saved.click(".panel form button");
  await saved.waitForSelector(".panel .saved .link");
  const file = JSON.parse(readFileSync(resolve(dir, ".config/pprof/settings.json"), "utf8"));
  check(file.configs[0].name === "only json" && file.configs[0].focus === "json" && file.configs[0].hide === "serve" && file.configs[0].trim === true, "settings are saved as pprof does", JSON.stringify(file));
  await saved.goto(`http://localhost:${ports.plain}/ui/flamegraph`);
  await idle(saved);
  await popover(saved, "Saved");
  await saved.click(".panel .link:has-text('only json')");
  await idle(saved);
  check(param(saved, "f") === "json" && param(saved, "h") === "serve", "and used", saved.url());
  await saved.click(".panel .remove");
  await saved.waitForSelector(".panel .saved .link", { state: "detached" });
  equal(JSON.parse(readFileSync(resolve(dir, ".config/pprof/settings.json"), "utf8")).configs.length, 0, "and deleted");
  await close(saved, "settings");
}
{
  // "other" is a door.
  const page = await open("large", "/ui/flamegraph?nodes=12");
  const frames = () => page.evaluate(() => document.querySelector(".legend .note")?.textContent ?? "");
  const before = await frames();
  check(before.includes("merged into"), "small branches are merged", before);
  const canvas = await page.locator(".flame canvas").boundingBox();
  let found = null;
  for (let row = 1; row < 14 && !found; row++) {
    for (let x = 0.98; x > 0 && !found; x -= 0.06) {
      if ((await hover(page, x, row)).startsWith("other")) found = [x, row];
    }
  }
  check(found, "an other is in sight");
  if (found) {
    await page.mouse.click(canvas.x + found[0] * canvas.width, canvas.y + found[1] * 20 + 10);
    await idle(page);
    const tip = await hover(page, ...found);
    check(!tip.startsWith("other") || (await frames()) !== before, "a click opens it", tip);
  }
  await close(page, "other");
}

// Table.
{
  const page = await open("plain", "/ui/top");
  let list = await rows(page);
  check(list[0][0] === "malloc" && list[0][1] === "400ms" && list[0][2] === "40.0%", "table: by self", JSON.stringify(list[0]));
  await page.click("th.total button");
  await idle(page);
  list = await rows(page);
  check(list[0].join(" ") === "main 0ns 0% 1s 100%", "table: by total", JSON.stringify(list[0]));
  equal(param(page, "o"), "-total", "the order is in the URL");
  await page.reload();
  await idle(page);
  equal((await rows(page))[0][0], "main", "and survives a reload");
  equal(await page.getAttribute("th.total", "aria-sort"), "descending", "and is told");
  await page.fill(".find input", "json");
  await frames(page);
  await page.waitForFunction(() => document.querySelectorAll(".rows tbody tr").length === 2, null, { timeout: 4000 }).catch(() => {});
  equal((await rows(page)).map((r) => r[0]).join(), "json_encode,json_escape (inline)", "table: filter");
  await page.fill(".find input", "");
  await option(page, "All sample types");
  check((await page.locator(".rows th").count()) === 9 && (await page.textContent(".rows thead")).includes("Total samples"), "table: all sample types", await page.textContent(".rows thead"));
  await shot(page, "web-table-all");
  await page.focus(".rows tbody tr[tabindex='0']");
  await page.keyboard.press("ArrowDown");
  check((await page.evaluate(() => document.activeElement.textContent)).startsWith("serve"), "table: arrows walk", await page.evaluate(() => document.activeElement.textContent));
  await page.keyboard.press("Enter");
  await idle(page);
  equal(param(page, "q"), "^serve$", "table: Enter picks");
  await close(page, "table");
}
{
  const page = await open("large", "/ui/top");
  const seen = await page.evaluate(() => ({ rows: document.querySelectorAll(".rows tbody tr").length, all: Number(document.querySelector(".rows table").getAttribute("aria-rowcount")) }));
  check(seen.all > 400 && seen.rows < 100, "table: only rows in sight are in the document", JSON.stringify(seen));
  await page.evaluate(() => (document.querySelector(".rows").scrollTop = 1e9));
  await frames(page);
  const last = await page.evaluate(() => Number([...document.querySelectorAll(".rows tbody tr:not(.gap)")].pop().getAttribute("aria-rowindex")));
  equal(last, seen.all, "table: the last row can be reached");
  // A hair's breadth of scrolling under a pressed button: other rows come into the document.
  const roll = (top) => page.evaluate((t) => (document.querySelector(".rows").scrollTop = t), top);
  await roll(27 * 40 - 2);
  await frames(page);
  const box = await page.locator(".rows tbody tr[aria-rowindex='48']").boundingBox();
  await page.mouse.move(box.x + 200, box.y + box.height / 2);
  await page.mouse.down();
  await roll(27 * 40 + 2);
  await frames(page);
  await page.mouse.up();
  await idle(page);
  check(param(page, "q"), "table: a click while it scrolls is not lost");
  await close(page, "large table");
}
{
  const page = await open("plain", "/ui/both");
  await shot(page, "web-both");
  await page.click(".rows tbody tr:has-text('db_query')");
  await idle(page);
  await becomes(page, ".matched", "Matched: 20.0%", "both: a row highlights");
  check((await rows(page)).length > 5, "both: and leaves the table as it is");
  await page.click(".rows tbody tr:has-text('db_query')");
  await page.dblclick(".rows tbody tr:has-text('json_encode')");
  await idle(page);
  equal(param(page, "p"), "^json_encode$", "both: a double click pivots");
  equal(await page.locator(".flame").count(), 2, "both: and shows it");
  await close(page, "both");
}

// Graph.
for (const own of ["", "?own=1"]) {
  const page = await open("plain", "/ui/graph" + own);
  const graph = await page.evaluate(() => {
    const boxes = [...document.querySelectorAll(".node")].map((n) => {
      const { x, y, width, height } = n.querySelector("rect").getBoundingClientRect();
      return { name: n.querySelector(".name").textContent, x, y, width, height };
    });
    const apart = (a, b) => a.x + a.width <= b.x + 0.5 || b.x + b.width <= a.x + 0.5 || a.y + a.height <= b.y + 0.5 || b.y + b.height <= a.y + 0.5;
    return {
      names: boxes.map((b) => b.name).sort().join(), edges: document.querySelectorAll(".edge").length,
      overlaps: boxes.filter((a, i) => boxes.some((b, k) => k > i && !apart(a, b))).length,
      main: boxes.find((b) => b.name === "main").y, malloc: boxes.find((b) => b.name === "malloc").y,
      inside: boxes.every((b) => b.x >= 0 && b.x + b.width <= innerWidth && b.y + b.height <= innerHeight),
    };
  });
  const how = own ? "graph, our layout" : "graph";
  equal(graph.names, "db_query,handle,idle,json_encode,json_escape,leaf,main,malloc,serve,walk", how + ": its functions");
  equal(graph.edges, 10, how + ": its calls");
  equal(graph.overlaps, 0, how + ": no box on another");
  check(graph.main < graph.malloc && graph.inside, how + ": callers above, all in sight", JSON.stringify(graph));
  await shot(page, own ? "web-graph-own" : "web-graph");
  await page.fill(".find input", "json");
  await frames(page);
  await page.waitForSelector(".node.hit", { timeout: 4000 }).catch(() => {});
  equal(await page.locator(".node.hit").count(), 2, how + ": search");
  await page.click(".node:has-text('db_query')");
  await page.click(".menu button:has-text('Focus')");
  await idle(page);
  equal(await page.locator(".node").count(), 5, how + ": the menu of a box focuses");
  await page.click(".corner button:has-text('+')");
  await page.click(".corner button:has-text('Fit')");
  await close(page, how);
}
{
  const page = await open("large", "/ui/graph?own=1");
  check((await page.locator(".node").count()) === 80, "graph: a large one");
  await shot(page, "web-graph-large-own");
  await close(page, "large graph");
}

// Peek, source, machine code.
{
  const page = await open("plain", "/ui/peek?f=json_encode");
  const text = (await page.innerText(".peek article:has(h2 .name:text('json_encode src/json_enc.c:8'))")).replace(/\s+/g, " ");
  check(/200ms 100% handle .*json_encode .*total 200ms 20\.0%.*200ms 100% json_escape .*\(inline\)/.test(text), "peek: callers, sums, callees", text);
  await shot(page, "web-peek");
  await page.click(".peek .link:has-text('handle')");
  await idle(page);
  equal(param(page, "f"), "^handle$", "peek: a name leads on");
  await close(page, "peek");
}
if (ports.live) {
  const page = await open("live", "/ui/source");
  check(await page.isVisible(".notice:has-text('which function')"), "source: asks which function");
  await page.click(".rows tbody tr:has-text('hash_orders')");
  await idle(page);
  const text = await page.innerText(".listing");
  check(text.includes("hash_orders") && text.includes("sum = mix(sum + (uint64_t)i);"), "source: its lines", text);
  check((await page.locator(".listing .warm").count()) > 0 && await page.evaluate(() => parseFloat(document.querySelector(".listing .warm").style.backgroundSize) > 1), "source: with bars");
  const before = await page.locator(".listing details[open]").count();
  await page.click(".listing button");
  check((await page.locator(".listing details[open]").count()) > before, "source: lines open to machine code");
  await shot(page, "web-source");
  await page.click(".tabs a:has-text('Disassembly')");
  await idle(page);
  const code = await page.innerText(".listing");
  check(/hash_orders/.test(code) && /\n +[\d.]+m?s +[\d.]+m?s +[0-9a-f]+:/.test(code), "disassembly", code);
  await shot(page, "web-disasm");
  await close(page, "source");
}

// Diff.
{
  const page = await open("diff", "/ui/both");
  check((await about(page)).includes("1s → 1.16s (+16.0%)"), "diff: both totals", await about(page));
  await page.fill(".find input", "json_escape");
  let tip = "";
  for (let x = 0.1; x < 0.95 && !tip.startsWith("json_escape"); x += 0.05) tip = await hover(page, x, 5);
  check(tip.includes("Left 200ms 20.0% Right 600ms 51.7% Change +400ms +200%") && tip.includes("beyond noise"), "diff: tooltip", tip);
  await page.fill(".find input", "");
  await page.waitForFunction(() => document.querySelectorAll(".rows tbody tr").length > 5);
  const list = await rows(page);
  check(list[0].join(" ").startsWith("handle 500ms 920ms +420ms"), "diff: table", JSON.stringify(list[0]));
  const kinds = await page.evaluate(() => Object.fromEntries([...document.querySelectorAll(".rows tbody tr")].map((r) => [r.cells[0].textContent, r.cells[3].className])));
  check(kinds.json_encode?.includes("more") && kinds.idle?.includes("less") && kinds.walk?.includes("pale"), "diff: more, less, and noise is pale", JSON.stringify(kinds));
  await shot(page, "web-diff");
  await option(page, "Normalized");
  check(param(page, "norm") === "t" && (await page.textContent(".legend")).includes("change of the share"), "diff: normalized");
  await option(page, "Blue instead of green");
  equal(param(page, "cb"), "1", "diff: for colour-blind eyes");
  await shot(page, "web-diff-blue");
  await close(page, "diff");
}

// Hostile names.
for (const view of ["flamegraph", "top", "graph", "peek?f=.", "both"]) {
  const page = await open("hostile", "/ui/" + view);
  await frames(page);
  if (view === "flamegraph") {
    const tips = [];
    for (let x = 0.01; x < 1; x += 0.035) tips.push(await hover(page, x, 1));
    for (const part of ["<img src=x", "<script>", "xxxxxxxxxx", "esrever", "🔥 burn", "&lt;b&gt;"]) {
      check(tips.some((tip) => tip.includes(part)), "a name with " + part + " is shown", tips.length);
    }
    await click(page, 0.3, 1);
    await menu(page, 0.5, 2, "Focus");
    check((await page.locator(".notice").count()) === 0, "and can be focussed on", await page.locator(".notice").allTextContents());
  }
  if (view === "top") check((await rows(page)).some((row) => row[0].includes("<script>window.hacked=2</script>")), "names are text in the table");
  equal(await page.evaluate(() => window.hacked), undefined, view + ": names do no harm");
  check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), view + ": nor do they widen the page");
  await shot(page, "web-hostile-" + view.replace(/\W.*/, ""));
  await close(page, "hostile " + view);
}

// Errors, and nothing left.
{
  const page = await open("plain", "/ui/flamegraph?f=((", { expectErrors: true });
  check((await page.textContent(".notice")).includes("missing closing"), "an error says what is wrong", await page.textContent("main"));
  await page.click(".notice button:has-text('Clear filters')");
  await idle(page);
  check(await page.isVisible(".flame canvas"), "and how to go on");
  await page.goto(`http://localhost:${ports.plain}/ui/flamegraph?f=nothing_like_it`);
  await idle(page);
  check((await page.textContent(".notice")).includes("Focus expression matched no samples"), "no samples: which filter", await page.textContent(".notice"));
  await close(page, "errors");
}

// Dark, phone, names for screen readers.
for (const view of ["flamegraph", "both", "top", "graph", "peek", "source", "disasm"]) {
  const page = await open("plain", "/ui/" + view, { width: 390, height: 780, hasTouch: true, isMobile: true });
  const seen = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth,
    nameless: [...document.querySelectorAll("button, input, select, a, canvas")].filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.title || e.labels?.length)).length,
    out: [...document.querySelectorAll(".bar button, .bar select, .bar input")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).length,
  }));
  check(seen.wide <= 390 && !seen.out, "phone, " + view + ": nothing sticks out", JSON.stringify(seen));
  equal(seen.nameless, 0, view + ": every control has a name");
  await shot(page, "web-phone-" + view);
  if (view === "flamegraph") {
    await page.tap(".popover > button:has-text('View')");
    const panel = await page.locator(".panel").boundingBox();
    check(panel.x >= 0 && panel.x + panel.width <= 390 && panel.y >= 0 && panel.y + panel.height <= 780, "phone: panels stay inside", JSON.stringify(panel));
  }
  await close(page, "phone " + view);
}
for (const view of ["flamegraph", "both", "graph", "peek"]) {
  const page = await open("plain", "/ui/" + view, { dark: true });
  equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(20, 23, 27)", "dark, " + view);
  await shot(page, "web-dark-" + view);
  if (view === "graph") {
    await page.keyboard.press("d");
    equal(await page.evaluate(() => document.documentElement.dataset.theme), "light", "light on request");
    await page.reload();
    equal(await page.evaluate(() => document.documentElement.dataset.theme), "light", "which is remembered");
  }
  await close(page, "dark " + view);
}

await browser.close();
finish();
