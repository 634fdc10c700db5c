// Drives the flame graphs in a real browser:
//     flame_driver DIR && node flame.mjs DIR [SCREENSHOTS]
// Prints TAP.
import { mkdirSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { frames, launch } from "./browser.mjs";
import { checks } from "./checks.mjs";

const [dir, shots] = process.argv.slice(2);
if (!dir) {
  console.error("usage: node flame.mjs DIR [SCREENSHOTS]");
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();

const { check, equal, finish } = checks();

async function open(file, { width = 1280, height = 720, dark = false, timeFrames = false, ...more } = {}) {
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: dark ? "dark" : "light",
    reducedMotion: "reduce",
    ...more,
  });
  const page = await context.newPage();
  if (timeFrames) {
    await page.addInitScript(() => {
      const request = window.requestAnimationFrame.bind(window);
      window.frameTimes = [];
      window.requestAnimationFrame = (draw) => request((now) => {
        const start = performance.now();
        draw(now);
        window.frameTimes.push(performance.now() - start);
      });
    });
  }
  page.problems = [];
  page.requests = [];
  page.on("pageerror", (e) => page.problems.push(e.message));
  page.on("console", (m) => m.type() === "error" && page.problems.push(m.text()));
  page.on("request", (r) => page.requests.push(r.url()));
  await page.goto(pathToFileURL(resolve(dir, file)).href);
  if (more.javaScriptEnabled !== false) await frames(page); // which a page without script cannot count
  return page;
}

async function shot(page, name) {
  if (shots) await page.screenshot({ path: resolve(shots, name + ".png") });
}

async function close(page, file) {
  equal(page.problems.join("; "), "", file + ": no errors");
  equal(page.requests.length, 1, file + ": asks for nothing but itself");
  await page.context().close();
}

// SVG

const rectOf = (page, text) => page.evaluate((wanted) => {
  for (const t of document.querySelectorAll("#body text")) {
    if (!t.textContent.includes(wanted)) continue;
    const r = t.previousElementSibling.getBoundingClientRect();
    return { x: r.x, y: r.y, width: r.width, height: r.height };
  }
  return null;
}, text);
async function pointAt(page, text) {
  const r = await rectOf(page, text);
  await page.mouse.move(r.x + 2, r.y + r.height / 2);
  return r;
}
const svgTip = (page) => page.evaluate(() => {
  const tip = document.getElementById("tip");
  return tip.style.display === "block" ? [...tip.querySelectorAll("text")].map((t) => t.textContent).join(" | ") : "";
});

{
  const page = await open("plain.svg", { width: 1240, height: 560 });
  equal(Math.round((await rectOf(page, "start_thread")).width), 1172, "svg: a frame has its share of the width");
  await pointAt(page, "find_nearest_driver");
  const tip = await svgTip(page);
  check(tip.includes("rideshare::matching::find_nearest_driver") && tip.includes("src/matching.rs:"), "svg: tooltip tells name and place", tip);
  check(tip.includes("2.91s | 44.7%") && tip.includes("180ms | 2.77%"), "svg: tooltip tells total and self", tip);
  await shot(page, "svg-tooltip-light");
  const before = await rectOf(page, "find_nearest_driver");
  await page.mouse.click(before.x + 4, before.y + 8);
  const after = await rectOf(page, "find_nearest_driver");
  check(after.width > 1175, "svg: a click zooms the frame to the full width", after.width);
  await pointAt(page, "haversine");
  check((await svgTip(page)).includes("Of zoomed | 79.7%"), "svg: tooltip tells the share of the zoomed frame", await svgTip(page));
  await page.mouse.move(5, 5);
  await shot(page, "svg-zoomed");
  await page.keyboard.press("Escape");
  equal(Math.round((await rectOf(page, "find_nearest_driver")).width), Math.round(before.width), "svg: Escape resets the zoom");

  await page.keyboard.press("/");
  await page.keyboard.type("haversine|::matching::");
  equal(await page.textContent("#matched"), "Matched: 45.7%", "svg: matched share counts a stack once");
  await shot(page, "svg-search");
  await page.keyboard.press("Escape");
  equal(await page.textContent("#matched"), "", "svg: Escape clears the search");
  await page.keyboard.press("Control+f");
  await page.keyboard.type("harness<t,s>::poll(");
  check((await page.textContent("#matched")) === "Matched: 0%", "svg: a broken expression is plain text");
  await page.keyboard.press("Escape");

  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
  check((await page.evaluate(() => document.activeElement.getAttribute("aria-label"))).startsWith("std::sys::thread"), "svg: arrows walk, and tell");
  await page.keyboard.press("ArrowLeft");
  check((await page.evaluate(() => document.activeElement.getAttribute("aria-label"))).startsWith("main;"), "svg: left goes to the neighbour");
  await page.keyboard.press("Enter");
  check((await rectOf(page, "rideshare::main")).width > 1175, "svg: Enter zooms");
  await page.keyboard.press("Home");
  const y = (await rectOf(page, "start_thread")).y;
  await page.keyboard.press("f");
  check((await rectOf(page, "start_thread")).y > y + 200, "svg: f turns it over");
  await page.keyboard.press("f");
  await page.keyboard.press("?");
  check(await page.evaluate(() => document.getElementById("help").style.display === "block"), "svg: ? lists the keys");
  await shot(page, "svg-help");
  await close(page, "plain.svg");
}
{
  const page = await open("plain.svg", { width: 1240, height: 560, dark: true });
  equal(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), "rgb(20, 23, 27)", "svg: dark look");
  await pointAt(page, "haversine");
  await shot(page, "svg-dark");
  await close(page, "plain.svg (dark)");
}
{
  // Without script: as an image, and drawn the same.
  const page = await open("plain.svg", { width: 1240, height: 560, javaScriptEnabled: false });
  equal(await page.locator("#body title").count(), 81, "svg: titles without script");
  await shot(page, "svg-noscript");
  await page.context().close();
  writeFileSync(resolve(dir, "image.html"), '<body style="margin:0"><img src="plain.svg">');
  const image = await open("image.html", { width: 1240, height: 560 });
  equal(await image.evaluate(() => document.images[0].naturalWidth), 1200, "svg: works as an image");
  await shot(image, "svg-img");
  await image.context().close();
}
{
  const page = await open("diff.svg", { width: 1240, height: 560 });
  await pointAt(page, "find_nearest_driver");
  const tip = await svgTip(page);
  check(/Left \| 1\.39s \| 25\.6% \| Right \| 2\.91s \| 44\.7% \| Change/.test(tip), "svg diff: tooltip tells both sides", tip);
  check(await page.evaluate(() => {
    const of = (name) => [...document.querySelectorAll("#body text")].find((t) => t.textContent === name).getAttribute("class");
    return of("sin").includes("d8") && of("start_thread").includes("d4");
  }), "svg diff: red is more, grey the same");
  await shot(page, "svg-diff");
  await close(page, "diff.svg");
}

// HTML

// The canvas is asked through what it shows: hovering a point tells the frame there.
const tipText = (page) => page.evaluate(() => {
  const tip = document.getElementById("tip");
  return tip.hidden ? "" : [...tip.children].map((e) => e.innerText.replace(/\s+/g, " ")).join(" | ");
});
async function hover(page, x, row) {
  const r = await page.locator("#canvas").boundingBox();
  await page.mouse.move(r.x + x * r.width, r.y + row * 20 + 10);
  await frames(page);
  return tipText(page);
}

{
  const page = await open("plain.html");
  equal(await page.title(), "rideshare", "html: title");
  equal(await page.textContent("#about"), "cpu.pb.gz \u00b7 cpu 6.50s \u00b7 80 frames", "html: type, total and size");
  let tip = await hover(page, 0.5, 16);
  check(tip.startsWith("rideshare::matching::find_nearest_driver | src/matching.rs:") && tip.includes("Total 2.91s 44.7% Self 180ms 2.77% Of parent 79.7%"), "html: tooltip", tip);
  await shot(page, "html-tooltip-light");
  const r = await page.locator("#canvas").boundingBox();
  await page.mouse.click(r.x + r.width / 2, r.y + 16 * 20 + 10);
  await frames(page);
  tip = await hover(page, 0.01, 16);
  const right = await hover(page, 0.99, 16);
  check(tip.includes("find_nearest_driver") && right.includes("find_nearest_driver"), "html: a click zooms the frame to the full width", tip);
  tip = await hover(page, 0.5, 17);
  check(tip.includes("geo::haversine") && tip.includes("Of zoomed 79.7%"), "html: share of the zoomed frame", tip);
  check((await page.textContent("#crumbs")).endsWith("matching::find_nearest_driver"), "html: crumbs");
  await shot(page, "html-zoomed");
  await page.keyboard.press("Escape");
  tip = await hover(page, 0.99, 3);
  check(tip.includes("thread_start"), "html: Escape goes back", tip);
  equal(await page.textContent("#crumbs"), "", "html: no crumbs at the root");

  await page.keyboard.press("/");
  await page.keyboard.type("haversine|::matching::");
  equal(await page.textContent("#matched"), "Matched: 45.7%", "html: matched share counts a stack once");
  await shot(page, "html-search");
  await page.keyboard.press("t");
  check((await page.inputValue("#find")).endsWith("t"), "html: keys do not act inside of the search field");
  await page.keyboard.press("Escape");
  equal(await page.textContent("#matched"), "", "html: Escape clears the search");

  await page.keyboard.press("t");
  const first = await page.locator("#list tbody tr").first().innerText();
  equal(first.replace(/\s+/g, " "), "[kernel.kallsyms] 965ms 14.8% 965ms 14.8%", "html: table, by self");
  await page.click("#list th:nth-child(4) button");
  check((await page.locator("#list tbody tr").first().innerText()).includes("clone3"), "html: table sorts by total");
  await page.locator("#list tbody tr", { hasText: "sqlite3VdbeExec" }).click();
  equal(await page.textContent("#matched"), "Matched: 10.3%", "html: a row highlights its function");
  check((await page.locator("#list tbody tr").count()) > 20, "html: and leaves the table as it is");
  await shot(page, "html-table");
  await page.keyboard.press("t");

  await page.selectOption("#type", { label: "samples" });
  check((await page.textContent("#about")).includes("samples 671"), "html: other sample type", await page.textContent("#about"));
  await page.selectOption("#type", { index: 0 });
  await page.focus("#canvas");
  await page.keyboard.press("Home");
  for (const key of ["ArrowDown", "ArrowDown", "ArrowUp"]) await page.keyboard.press(key);
  check((await page.textContent("#live")).startsWith("clone3; total"), "html: arrows walk, and tell", await page.textContent("#live"));
  await page.keyboard.press("Enter");
  check((await page.textContent("#crumbs")).includes("clone3"), "html: Enter zooms");
  await page.keyboard.press("Home");
  await page.keyboard.press("f");
  const height = (await page.locator("#canvas").boundingBox()).height;
  tip = await hover(page, 0.5, height / 20 - 2);
  check(tip.startsWith("clone3"), "html: f turns it over", tip);
  await shot(page, "html-flipped");
  await page.keyboard.press("f");

  await page.mouse.move(r.x + r.width * 0.5, r.y + 16 * 20 + 10);
  await page.keyboard.down("Control");
  for (let i = 0; i < 4; i++) await page.mouse.wheel(0, -200);
  await page.keyboard.up("Control");
  await frames(page);
  tip = await hover(page, 0.5, 16);
  check(tip.includes("find_nearest_driver"), "html: ctrl+wheel keeps what is under the pointer", tip);
  check(await page.isEnabled("#reset"), "html: reset can be used after a wheel zoom");
  await page.click("#reset");

  await page.keyboard.press("?");
  check(await page.isVisible("#keys"), "html: ? lists the keys");
  await shot(page, "html-help");
  await page.keyboard.press("Escape");
  await page.click("#theme");
  equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(20, 23, 27)", "html: dark on request");
  await page.emulateMedia({ colorScheme: "dark" });
  await frames(page);
  await page.emulateMedia({ colorScheme: "light" });
  await frames(page);
  equal(await page.evaluate(() => document.documentElement.dataset.theme), "light", "html: follows the system");
  await page.setViewportSize({ width: 900, height: 500 });
  await frames(page);
  equal((await page.locator("#canvas").boundingBox()).width > 870, true, "html: fills the window after a resize");
  await close(page, "plain.html");
}
{
  const page = await open("plain.html", { dark: true, deviceScaleFactor: 2 });
  equal(await page.evaluate(() => document.getElementById("canvas").width > 2400), true, "html: respects the pixel ratio");
  await hover(page, 0.5, 16);
  await shot(page, "html-dark");
  await close(page, "plain.html (dark)");
}
{
  const page = await open("plain.html", { width: 390, height: 780, hasTouch: true, isMobile: true });
  equal(await page.evaluate(() => document.documentElement.scrollWidth <= 390), true, "html: no sideways scroll on a phone");
  await page.tap("#canvas", { position: { x: 200, y: 330 } });
  await frames(page);
  check((await page.textContent("#crumbs")).includes("find_nearest_driver"), "html: a tap zooms", await page.textContent("#crumbs"));
  const tip = await page.locator("#tip").boundingBox();
  check(tip && tip.x >= 0 && tip.x + tip.width <= 390 && tip.y + tip.height <= 780, "html: the tooltip stays inside", JSON.stringify(tip));
  const tapped = (await page.locator("#canvas").boundingBox()).y + 330;
  check(tip.y > tapped + 20 || tip.y + tip.height < tapped - 20, "html: the tooltip leaves the frame free on a phone", JSON.stringify(tip));
  await shot(page, "html-phone");
  await page.tap("#table");
  await shot(page, "html-phone-table");
  await close(page, "plain.html (phone)");
}
{
  const page = await open("diff.html");
  check((await page.textContent("#about")).includes("left 5.43s \u2192 right 6.50s (+19.8%)"), "html diff: both totals", await page.textContent("#about"));
  const tip = await hover(page, 0.5, 16);
  check(tip.includes("Left 1.39s 25.6% Right 2.91s 44.7% Change"), "html diff: tooltip tells both sides", tip);
  await shot(page, "html-diff");
  await page.keyboard.press("n");
  check((await page.textContent("#legend")).includes("change of the value"), "html diff: absolute");
  await page.keyboard.press("t");
  check((await page.locator("#list tbody tr").first().innerText()).includes("+"), "html diff: table of changes");
  await shot(page, "html-diff-table");
  await page.click("#blue");
  await shot(page, "html-diff-blue");
  await close(page, "diff.html");
}
for (const file of ["hostile.svg", "hostile.html"]) {
  const page = await open(file, { width: 1240, height: 400 });
  equal(await page.evaluate(() => window.hacked), undefined, file + ": names are only text");
  if (file.endsWith("html")) {
    await hover(page, 0.1, 2);
    await page.keyboard.press("t");
    equal(await page.evaluate(() => window.hacked), undefined, file + ": also in tooltip and table");
  } else {
    await pointAt(page, "main");
  }
  await shot(page, file.replace(".", "-"));
  await close(page, file);
}
{
  const page = await open("large.html", { timeFrames: true });
  const share = await page.evaluate(async () => {
    const canvas = document.getElementById("canvas");
    const at = canvas.getBoundingClientRect();
    // The machine may be busy: frames are measured by what 100,000 boxes with names cost meanwhile.
    const sheet = document.createElement("canvas").getContext("2d"), boxTimes = [];
    const drawBoxes = () => {
      const start = performance.now();
      for (let i = 0; i < 20000; i++) {
        sheet.fillStyle = i % 2 ? "#fca" : "#acf";
        sheet.fillRect(i % 300, i % 150, 30, 18);
        sheet.fillText("malloc", i % 300, i % 150);
      }
      boxTimes.push((performance.now() - start) * 5);
    };
    const middle = (list) => list.sort((x, y) => x - y)[list.length >> 1];
    const share = () => middle(window.frameTimes) / middle(boxTimes);
    window.frameTimes.length = 0;
    for (let i = 0; i < 40; i++) {
      canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + 20 + i * 30, clientY: at.top + 70, pointerType: "mouse" }));
      await new Promise((done) => setTimeout(done, 25));
      drawBoxes();
    }
    const hover = share();
    window.frameTimes.length = 0;
    for (let i = 0; i < 30; i++) {
      canvas.dispatchEvent(new WheelEvent("wheel", { clientX: at.left + 400, clientY: at.top + 70, deltaY: i < 15 ? -40 : 40, ctrlKey: true, cancelable: true }));
      await new Promise((done) => setTimeout(done, 25));
      drawBoxes();
    }
    return { hover, zoom: share() };
  });
  check(share.hover < 0.02 && share.zoom < 0.14, "html: smooth with 100,000 nodes", JSON.stringify(share));
  console.log("# large.html: of drawing all nodes, a frame costs " + share.hover.toFixed(4) + " when pointing, " + share.zoom.toFixed(2) + " when zooming");
  await shot(page, "html-large");
  await close(page, "large.html");
}
{
  const page = await open("reverse.html");
  const tip = await hover(page, 0.05, 1);
  check(!tip.includes("Self"), "html: callers have no self", tip);
  await shot(page, "html-reverse");
  await close(page, "reverse.html");
}

await browser.close();
finish();
