// Walks docs/tutorials/demo.md in a real browser:
//     node tutorial.mjs URL [SCREENSHOTS]
// URL is the one that tools/demo prints. Prints TAP.
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { frames, launch } from "./browser.mjs";
import { checks } from "./checks.mjs";

const [url, shots] = process.argv.slice(2);
if (shots) mkdirSync(shots, { recursive: true });

const browser = await launch();
const { check, finish } = checks("tutorial");

const context = await browser.newContext({ viewport: { width: 1280, height: 600 }, colorScheme: "light", reducedMotion: "reduce" });
context.setDefaultTimeout(180_000); // a machine that is busy with other things
const page = await context.newPage();
const problems = [];
page.on("pageerror", (e) => problems.push(e.message));
page.on("console", (m) => m.type() === "error" && problems.push(m.text()));

// Until what was asked for is there and drawn.
async function idle() {
  await frames(page);
  await page.waitForFunction(() => document.querySelector("main .flame canvas, main .rows, main .notice") && !document.querySelector(".progress.busy"));
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  await frames(page);
}
async function shot(name, height) {
  if (shots) await page.screenshot({ path: resolve(shots, `tutorial-${name}.png`), clip: { x: 0, y: 0, width: 1280, height } });
}
const about = () => page.textContent(".about");
const SECONDS = { ns: 1e-9, us: 1e-6, ms: 1e-3, s: 1, hrs: 3600 };
const seconds = (text) => {
  const found = /^([+\u2212]?)([\d.]+)(ns|us|ms|s|hrs)/.exec(text);
  return found ? Number(found[2]) * SECONDS[found[3]] * (found[1] === "\u2212" ? -1 : 1) : 0;
};
// The rows of the table: { Function: "main", Self: "0ns", ... }, with the first column as name and
// the cells' classes.
const rows = () => page.evaluate(() => {
  const head = [...document.querySelectorAll(".rows thead th")].map((h) => h.innerText.replace(/[^\w %\u0394]/g, "").trim());
  return [...document.querySelectorAll(".rows tbody tr:not(.gap)")].map((row) => ({
    name: row.cells[0].textContent, ...Object.fromEntries([...row.cells].map((c, i) => [head[i], c.textContent])),
    classes: Object.fromEntries([...row.cells].map((c, i) => [head[i], c.className])),
  }));
});
async function search(text) {
  await page.fill(".find input", text);
  await idle();
}

// 1. What burns the most?
await page.goto(url);
await idle();
check(await page.isVisible(".timeline canvas") && await page.isVisible(".flame canvas"), "Explore has a timeline and a flame graph");
await search("order_");
await shot("explore", 460);
{
  const list = (await rows()).sort((a, b) => seconds(b.Total) - seconds(a.Total));
  const total = (name) => seconds(list.find((row) => row.name === name)?.Total ?? "");
  check(list[0]?.name === "order_car" && total("order_car") > 2 * (total("order_bike") + total("order_scooter")), "order_car is the largest of the orders", JSON.stringify(list));
}
await search("");

// 2. Of which vehicle? The values of a label, the largest first.
const percent = (row) => Number(/([\d.]+)%/.exec(row?.Share ?? "0%")[1]);
const values = async (by) => {
  await page.click(`.pills button:has-text('${by}')`);
  await page.waitForFunction((name) => document.querySelector(".rows thead th")?.textContent.startsWith(name), by);
  await idle();
  return (await rows()).filter(({ name }) => name !== "(none)");
};
const row = (name) => page.locator(".rows tbody tr", { hasText: name });
await page.click(".tabs a:has-text('Labels')");
await idle();
{
  const list = await values("vehicle");
  check(list[0]?.name === "car" && percent(list[0]) > 60, "cars cost the most", JSON.stringify(list));
  check(list.length === 3, "beside bikes and scooters", JSON.stringify(list));
  await shot("vehicles", 440);
}
await row("car").locator("a:has-text('Filter')").click();
await page.waitForSelector(".selection .chip:has-text('car')");

// 3. Where? The same of the regions, for cars alone.
{
  const list = await values("region");
  const [first, second, third] = list;
  check(list.length === 3 && first.name === "eu-north" && percent(first) > 1.4 * percent(second), "and in eu-north", JSON.stringify(list));
  check(percent(second) < 1.6 * percent(third), "us-east and ap-south are alike", JSON.stringify(list));
}
await page.selectOption("label:has-text('diff with') select", "us-east");
await shot("regions", 420);

// 4. What is different from us-east?
await row("eu-north").locator("a:has-text('Diff')").click();
await page.waitForFunction(() => document.querySelector(".rows tbody tr:not(.gap)")?.cells[0].textContent === "mutex_lock", null, { timeout: 60_000 }).catch(() => {});
await idle();
{
  const list = await rows();
  check(list[0]?.name === "mutex_lock" && list[0].classes.Change.includes("more"), "diff: the lock is the largest change", JSON.stringify(list.slice(0, 3)));
  const [lock, car] = ["mutex_lock", "order_car"].map((name) => list.find((one) => one.name === name));
  check(lock && car && seconds(lock.Right) > 0.3 * seconds(car.Right), "diff: a good part of order_car", JSON.stringify(list));
  check(lock && car && seconds(lock.Left) < 0.1 * seconds(car.Left), "diff: and next to nothing in us-east", JSON.stringify(list));
  check(list.every(({ name }) => !["order_bike", "order_scooter"].includes(name)), "diff: of cars only", JSON.stringify(list));
}
// The colour of its frame, and what its tooltip says.
{
  const canvas = await page.locator(".flame canvas").boundingBox();
  const path = [];
  let found = null;
  for (let y = 10; y < canvas.height && !found; y += 20) {
    for (let x = 0.02; x < 1 && !found; x += 0.04) {
      await page.mouse.move(canvas.x + x * canvas.width, canvas.y + y);
      await frames(page);
      const tip = await page.evaluate(() => [...document.querySelectorAll(".tip:not([hidden])")].map((t) => t.innerText).join(" "));
      path.push(tip.split("\n")[0]);
      if (/^mutex_lock\b/.test(tip)) found = { tip, x: x * canvas.width, y };
    }
  }
  check(found && /Change\s*\+/.test(found.tip), "diff: its frame is in the flame graph", found?.tip ?? [...new Set(path)].join(", "));
  check(path.includes("order_car") && path.includes("check_driver_availability"), "diff: below order_car and check_driver_availability", [...new Set(path)].join(", "));
  await page.mouse.move(2, 2); // the tooltip has the path that the service was built in
  await shot("diff", 600);
  const colour = found && await page.evaluate(({ x, y }) => {
    const at = document.querySelector(".flame canvas");
    const scale = at.width / at.clientWidth;
    // Above the letters.
    return [...at.getContext("2d").getImageData(Math.round(x * scale), Math.round((y - 7) * scale), 1, 1).data.slice(0, 3)];
  }, found);
  check(colour && colour[0] > colour[1] + 20 && colour[0] > colour[2] + 20, "diff: and red", colour);
}

// 5. Who calls it?
await page.dblclick(".rows tbody tr:not(.gap) >> nth=0");
await page.waitForSelector(".sandwich .flame canvas");
await idle();
{
  const canvas = await page.locator(".sandwich .flame canvas").first().boundingBox();
  const names = new Set();
  for (let y = 10; y < canvas.height; y += 20) {
    for (const x of [0.1, 0.5, 0.9]) {
      await page.mouse.move(canvas.x + x * canvas.width, canvas.y + canvas.height - y);
      await frames(page);
      names.add(await page.evaluate(() => document.querySelector(".tip:not([hidden]) strong")?.textContent ?? ""));
    }
  }
  check(["order_car", "check_driver_availability", "mutex_lock"].every((name) => names.has(name)) && !names.has("find_nearest_vehicle"),
    "its callers are shown", [...names].join(", "));
  await page.mouse.move(2, 2);
}
await shot("lock", 680);

// 6. What did the server find?
await page.click(".head .tabs a:has-text('Changes')");
const entry = page.locator(".changes li", { hasText: "find_price" });
await entry.waitFor();
{
  const text = await entry.innerText();
  check(await page.locator(".changes li").count() === 1, "Changes lists one change", await page.textContent(".changes"));
  check(/\+0\.\d+ cores/.test(text) && /\d% \u2192 \d+(\.\d+)?%/.test(text) && text.includes("version 1.4.2"), "with its cost and deploy", text);
  await shot("changes", 240);
}
await entry.locator("a:has-text('Show diff')").click();
await page.waitForSelector(".rows tbody tr:not(.gap)");
await idle();
{
  const list = await rows();
  const price = list.find(({ name }) => name === "find_price");
  check(price?.classes.Change.includes("more"), "Show diff: find_price is red", JSON.stringify(list));
}
check(problems.length === 0, "no complaints", problems.join("; "));
await browser.close();
finish();
