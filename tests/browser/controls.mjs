// Drives the controls of the flame graph on the server's pages, and what leaves them, in a real browser:
//     node controls.mjs SERVER [SCREENSHOTS]
// SERVER is the port of a `kiln server`; REFRESHES in the environment, how often the last part asks anew. Prints TAP.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { promisify } from "node:util";
import { harness } from "./harness.mjs";

const { check, eventually, faults, frames, open, idle, close, shot, param, about, finish } = await harness("controls", Number(process.argv[2]), process.argv[3]);
const query = (region) => encodeURIComponent(region ? `{service_name="shop", region="${region}"}` : '{service_name="shop"}');
// Not the kind that waits: the proxy that commands ask is here.
const run = async (...words) => (await promisify(execFile)(words[0], words.slice(1))).stdout;
const row = (page, text) => page.locator(".rows tbody tr", { hasText: text });
const panel = (page, name) => page.click(`.popover > button:has-text('${name}')`);

// What the tooltip says at a level of the flame graph, and a share of its width.
async function tip(page, level, x, which = 0) {
  const box = await page.locator(".flame canvas").nth(which).boundingBox();
  await page.mouse.move(box.x + x * box.width, box.y + level * 20 + 12);
  await frames(page);
  return page.evaluate(() => document.querySelector(".tip:not([hidden])")?.innerText ?? "");
}
async function option(page, label) {
  await panel(page, "View");
  await page.click(`.panel .check:has-text('${label}')`);
  await page.keyboard.press("Escape");
  await idle(page);
}

{
  const page = await open(`/explore?query=${query()}&view=flame`);
  check(/shop\n/.test(await tip(page, 1, 0.3)) && /src\/main\.c/.test(await tip(page, 1, 0.3)), "a frame tells its file and module", await tip(page, 1, 0.3));
  check((await page.textContent(".legend")).includes("inlined"), "inlined calls are marked", await page.textContent(".legend"));

  // The menu of a frame: callers and callees.
  await tip(page, 2, 0.9);
  const serve = (await tip(page, 2, 0.9)).split("\n")[0];
  check(serve === "serve", "a frame to pivot on", serve);
  await page.mouse.down({ button: "right" });
  await page.mouse.up({ button: "right" });
  const labels = await page.locator(".menu:not([hidden]) button").allTextContents();
  check(["Zoom", "Pivot", "Focus", "Ignore", "Hide", "Highlight", "Copy name", "Find in table", "Peek", "Collapse"].every((w) => labels.some((l) => l.startsWith(w))), "its menu", labels.join(", "));
  await page.click(".menu:not([hidden]) button:has-text('Pivot')");
  await idle(page);
  check(param(page, "p") === "^serve$" && await page.locator(".sandwich .flame canvas").count() === 2, "pivot: callers and callees", page.url());
  await page.reload();
  await idle(page);
  check((await tip(page, 0, 0.5, 1)).startsWith("serve"), "pivot: survives a reload", await tip(page, 0, 0.5, 1));
  await page.click(".chip .remove");
  await idle(page);
  check(await page.locator(".sandwich").count() === 0, "pivot: its chip leaves it");

  // Filters, exact: the server applies them to all stacks.
  await page.fill(".find input", "walk");
  await page.click(".apply button:has-text('Focus')");
  await eventually(() => about(page), (text) => text.includes("cpu 540ms"), "focus");
  check((await page.locator(".chip").allTextContents()).join() === "Focus walk×", "focus: a chip", (await page.locator(".chip").allTextContents()).join());
  await page.reload();
  await idle(page);
  check((await about(page)).includes("cpu 540ms"), "focus: survives a reload", await about(page));
  await panel(page, "Filters");
  await page.fill(".filters input[name=f]", "");
  await page.fill(".filters input[name=i]", "walk");
  await page.fill(".filters input[name=h]", "^serve$");
  await page.keyboard.press("Enter");
  await eventually(() => about(page), (text) => text.includes("cpu 3.06s"), "ignore");
  await page.keyboard.press("Escape");
  check((await tip(page, 2, 0.5)).startsWith("handle"), "hide", await tip(page, 2, 0.5));
  await page.fill(".find input", "nowhere");
  await page.click(".apply button:has-text('Focus')");
  await eventually(() => page.textContent("main"), (text) => text.includes("No samples are left") && text.includes("Focus matched no samples"), "nothing left: says why");
  await page.click("button:has-text('Clear filters')");
  await eventually(() => about(page), (text) => text.includes("cpu 3.60s"), "and clears filters");

  // How it is drawn.
  await option(page, "Inverted");
  check(param(page, "rev") === "1" && /^(json_escape|leaf|malloc|serve)/.test(await tip(page, 1, 0.5)), "inverted", await tip(page, 1, 0.5));
  await page.locator(".flame canvas").focus();
  await page.keyboard.press("r");
  await idle(page);
  check(param(page, "rev") === null && (await tip(page, 1, 0.5)).startsWith("main"), "inverted: by a key", page.url());
  await option(page, "Group by module");
  check((await tip(page, 1, 0.5)).startsWith("shop"), "modules as frames", await tip(page, 1, 0.5));
  await option(page, "Group by module");
  await option(page, "Colors by module");
  check(param(page, "col") === "1", "colours by module", page.url());
  await option(page, "Collapse recursion");
  await page.reload();
  await idle(page);
  const levels = () => page.evaluate(() => Math.round(document.querySelector(".flame .space").offsetHeight / 20));
  check(param(page, "rec") === "1" && await levels() === 6, "recursion collapsed, after a reload", await levels());
  await panel(page, "View");
  await page.selectOption(".panel .choice select", "lines");
  await idle(page);
  await page.keyboard.press("Escape");
  check(/^main src\/main\.c:\d+/.test(await tip(page, 1, 0.5)), "lines as frames", await tip(page, 1, 0.5));
  check(await faults(page) === "", "all can be read and has a name", await faults(page));
  await close(page, "flame graph");
}
{
  // Graph and Peek, and from there to the table.
  const page = await open(`/explore?query=${query()}&view=graph`);
  const node = page.locator(".graph .node[aria-label^='serve:']");
  check((await node.getAttribute("aria-label")) === "serve: self 390ms, 10.8%; total 2.70s, 75.0%", "graph: what a function has", await node.getAttribute("aria-label"));
  check(await page.locator(".graph .edge").count() > 5, "graph: with its calls");
  await shot(page, "explore-graph");
  await node.focus();
  await page.keyboard.press("Enter");
  await page.click(".menu [role=menuitem]:has-text('Find in table')");
  await idle(page);
  check(param(page, "view") === "table" && (await page.locator(".rows tbody tr").count()) === 1, "find in table, by keyboard", page.url());
  await row(page, "serve").click({ button: "right" });
  await page.click(".menu [role=menuitem]:has-text('Peek')");
  await idle(page);
  const peeked = await page.locator(".peek article").innerText();
  check(/main/.test(peeked) && /handle/.test(peeked) && param(page, "f") === "^serve$", "peek: callers and callees", peeked);
  await page.goto(page.url().replace("view=peek", "view=both").replace(/&f=[^&]*/, ""));
  await idle(page);
  await row(page, "malloc").dblclick();
  await page.waitForSelector(".sandwich");
  check(param(page, "p") === "^malloc$", "a double click in the table pivots", page.url());
  await close(page, "graph");
}
{
  // The order of one table means nothing to another.
  const page = await open(`/explore?query=${query()}&o=-total`);
  check(await page.getAttribute("th.total", "aria-sort") === "descending", "order: in the address");
  await page.click(".tabs a:has-text('Labels')");
  await idle(page);
  check(param(page, "o") === null && await page.getAttribute("th.share", "aria-sort") === "descending", "order: not carried to another table", page.url());
  check(/[+\u2212\u00b1]\d|new/.test(await row(page, "eu").locator("td.trend").innerText()) && await row(page, "eu").locator("td.trend svg").count() === 1, "labels: trend", await row(page, "eu").locator("td.trend").innerText());
  await page.goto(page.url().replace("/tags", "/diff") + "&o=-self");
  await idle(page);
  check(await page.getAttribute("th.change", "aria-sort") === "descending", "order: one that a table does not have", page.url());
  await close(page, "order");
}
{
  // What leaves the page: the same answer in a terminal, and files.
  const page = await open(`/explore?query=${query("eu")}&view=table&h=handle`);
  const cells = (text) => text.split(/\s+/).filter(Boolean);
  const shown = cells(await row(page, "malloc").innerText());
  await panel(page, "Export");
  const line = await page.textContent(".options code");
  const answer = await run("sh", "-c", line);
  const told = cells(answer.split("\n").find((l) => / malloc$/.test(l)) ?? "");
  const ms = (text) => parseFloat(text) * (text.endsWith("ms") ? 1 : 1000);
  check(line.includes("--hide=handle") && Math.abs(ms(told[0]) - ms(shown[1])) < 10 && Math.abs(ms(told[3]) - ms(shown[3])) < 10 && !/ handle$/m.test(answer), "the line for a terminal gives the same", [line, shown, answer].join("\n"));
  await page.goto(page.url().replace("view=table", "view=flame"));
  await idle(page);
  const download = async (label) => {
    await panel(page, "Export");
    const [got] = await Promise.all([page.waitForEvent("download"), page.click(`.panel :text("${label}")`)]);
    return { name: got.suggestedFilename(), path: await got.path(), data: readFileSync(await got.path()) };
  };
  const png = await download("PNG");
  check(png.name === "shop_eu_cpu.png" && png.data.subarray(1, 4).toString() === "PNG", "export PNG", png.name);
  const svg = (await download("SVG")).data.toString();
  check(svg.startsWith("<svg") && svg.includes("<title>serve</title>") && !svg.includes("<title>handle</title>"), "export SVG");
  const html = (await download("HTML")).data.toString();
  check(html.startsWith("<!doctype html>") && html.includes("json_escape") && !html.includes('"handle"'), "export HTML, filtered", html.slice(0, 200));
  const pprof = await download("pprof");
  const top = await run("kiln", "top", pprof.path);
  check(pprof.name === "shop_eu_cpu.pb.gz" && /malloc/.test(top) && !/ handle$/m.test(top), "export pprof, filtered", top);
  await panel(page, "Export");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.click(".panel button:has-text('Copy command')");
  check((await page.evaluate(() => navigator.clipboard.readText())).startsWith("kiln query flame "), "the line is copied");
  await page.goto(page.url().replace("/explore", "/diff") + `&left_query=${query("us")}`);
  await idle(page);
  await panel(page, "Export");
  const both = await run("sh", "-c", await page.textContent(".options code"));
  check(/cpu: .* before, .* after/.test(both), "diff: the line for a terminal", both);
  await page.keyboard.press("Escape");
  const change = await run("kiln", "top", (await download("pprof")).path);
  check(/malloc/.test(change), "diff: export pprof", change);
  await close(page, "export");
}
{
  // One timeline for both sides.
  const page = await open(`/compare?left_query=${query("us")}&query=${query("eu")}`);
  const brush = (side) => page.locator(`header .brush[aria-label^='${side}']`);
  check(await page.locator("header .brush").count() === 2, "compare: two brushes on one timeline");
  const box = await brush("Left").boundingBox();
  await page.mouse.move(box.x + 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, { steps: 3 });
  await page.mouse.up();
  await eventually(() => page.textContent(".half[aria-label='Left'] > .about"), (text) => text.includes("cpu 1s"), "compare: a brush is stretched");
  check(/^\d+$/.test(param(page, "left_from")) && param(page, "from") === null, "compare: of its side only", page.url());
  const was = Number(param(page, "left_from"));
  await brush("Left").focus();
  await page.keyboard.press("ArrowLeft");
  await idle(page);
  check(Number(param(page, "left_from")) < was, "compare: or moved by keys", page.url());
  check(await page.locator(".half .timeline canvas").count() === 2, "compare: each has its own timeline, too");
  await page.locator(".half .flame canvas").first().focus();
  // An answer that is still to come takes the chosen frame away.
  await eventually(async () => {
    for (const key of ["Home", "ArrowDown", "ArrowDown", "Enter"]) await page.keyboard.press(key);
    return page.locator(".crumbs button[aria-current]").allTextContents();
  }, (names) => names.length === 2 && names[0] === names[1], "compare: zoomed together, by keyboard");
  await shot(page, "compare-brushes");
  await close(page, "brushes");
}
{
  const page = await open(`/explore?query=${query()}`);
  await page.locator("select[aria-label='Range'] option[value=deploy]").waitFor({ state: "attached" });
  await page.selectOption("select[aria-label='Range']", "deploy");
  await eventually(() => about(page), (text) => text.includes("cpu 2.40s"), "since deploy: the newer version");
  check(/^\d+$/.test(param(page, "from")) && (await page.locator("select[aria-label='Range'] option:checked").textContent()).startsWith("since "), "since deploy: as a time in the address", page.url());
  await close(page, "since deploy");
}
{
  // Memory after many refreshes: what is kept stays as it is.
  const page = await open(`/explore?query=${query()}`);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable");
  // Objects that are alive; the heap's size has the code that the browser compiles meanwhile, and its own records.
  const alive = async () => {
    const { result } = await session.send("Runtime.evaluate", { expression: "Object.prototype", objectGroup: "count" });
    const { objects } = await session.send("Runtime.queryObjects", { prototypeObjectId: result.objectId, objectGroup: "count" });
    const { result: count } = await session.send("Runtime.callFunctionOn", { objectId: objects.objectId, functionDeclaration: "function () { return this.length; }", returnByValue: true });
    await session.send("Runtime.releaseObjectGroup", { objectGroup: "count" });
    return count.value;
  };
  const measure = async () => {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name) => metrics.find((m) => m.name === name).value;
    return { objects: await alive(), heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners") };
  };
  const refresh = async (times) => {
    for (let i = 0; i < times; i++) {
      const asked = page.waitForResponse(/v1\/flame/);
      await page.click("button:has-text('Refresh')");
      await asked;
      await page.waitForFunction(() => !document.querySelector(".progress.busy"));
    }
    await frames(page);
  };
  const times = Number(process.env.REFRESHES) || 10;
  await refresh(6);
  const before = await measure();
  await refresh(times);
  const after = await measure();
  const said = `${JSON.stringify(before)} -> ${JSON.stringify(after)} after ${times}`;
  check(after.objects < before.objects * 1.02 + 100, "memory: flat", said);
  check(after.nodes <= before.nodes + 40 && after.listeners <= before.listeners + 10, "memory: no elements or listeners are left behind", said);
  console.log("# " + said);
  await close(page, "memory");
}
await finish();
