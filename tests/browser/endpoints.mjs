// Drives the index page of a live program in a real browser:
//     node endpoints.mjs FILE [SCREENSHOTS]
// FILE holds the line in which the program told its address. Prints TAP.
import { mkdirSync, readFileSync } from "node:fs";
import { launch } from "./browser.mjs";
import { checks } from "./checks.mjs";

const [file, shots] = process.argv.slice(2);
if (!file) {
  console.error("usage: node endpoints.mjs FILE [SCREENSHOTS]");
  process.exit(2);
}
if (shots) mkdirSync(shots, { recursive: true });

async function address() {
  for (let i = 0; i < 100; i++) {
    const found = readFileSync(file, "utf8").match(/http:\/\/\S+/);
    if (found) return found[0];
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error("the program did not tell its address");
}
const url = await address();
const browser = await launch();

const { check, finish } = checks();

async function open({ width, dark }) {
  const context = await browser.newContext({
    viewport: { width, height: 800 },
    colorScheme: dark ? "dark" : "light",
  });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(e.message));
  page.on("console", (m) => m.type() === "error" && page.problems.push(m.text()));
  page.on("request", (r) => r.url().startsWith(url) || page.problems.push(r.url()));
  await page.goto(url + "/debug/pprof/");
  return page;
}

for (const [name, width, dark] of [["light", 1100, false], ["dark", 1100, true], ["phone", 360, false]]) {
  const page = await open({ width, dark });
  const seen = await page.evaluate(() => ({
    wide: document.documentElement.scrollWidth - innerWidth,
    background: getComputedStyle(document.body).backgroundColor,
    text: document.body.innerText,
  }));
  check(seen.wide <= 0, name + ": nothing sticks out", seen.wide);
  check((seen.background === "rgb(255, 255, 255)") === !dark, name + ": its colours", seen.background);
  check(seen.text.includes("running") && seen.text.includes("/debug/pprof/profile"), name + ": its text");
  if (shots) await page.screenshot({ path: `${shots}/endpoints-${name}.png`, fullPage: true });
  check(page.problems.length === 0, name + ": no complaints, no requests elsewhere", page.problems.join("; "));
  await page.close();
}
{
  const page = await open({ width: 1100, dark: false });
  await page.fill("input[name=seconds]", "1");
  await Promise.all([page.waitForURL(/format=html/), page.click("button")]);
  await page.waitForSelector("canvas");
  check((await page.title()).includes("CPU time"), "the form leads to a flame graph", await page.title());
  // The flame graph's own page has its policy twice, in a header and in itself.
  check(page.problems.filter((p) => !p.includes("frame-ancestors")).length === 0, "and that works under its policy",
    page.problems.join("; "));
  await page.close();
}
await browser.close();
finish();
