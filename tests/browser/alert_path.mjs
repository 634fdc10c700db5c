// Follows the links of an alert in a real browser and mutes its change:
//     node alert_path.mjs JSON [SCREENSHOTS]
// JSON has server, the port of kiln server; diff and changes, the URLs in the alert; function and type of the
// change. Prints TAP.
import { harness } from "./harness.mjs";

const given = JSON.parse(process.argv[2]);
const { check, faults, eventually, open, idle, close, shot, param, path, finish } = await harness("alert", given.server, process.argv[3]);
const RANGES = ["left_from", "left_until", "from", "until"];

// Through the proxy of the harness.
const local = (link) => new URL(link).pathname + new URL(link).search;
const rangesOf = (page) => RANGES.map((key) => param(page, key));
const plain = (text) => text.replace(/\n/g, ""); // names are cut in the middle by CSS
const linked = RANGES.map((key) => new URL(given.diff).searchParams.get(key));

const page = await open(local(given.diff));
await page.waitForSelector(".rows tbody tr");
await idle(page);
check(path(page) === "/diff" && linked.every((time) => /^\d{13}$/.test(time)) && rangesOf(page).join() === linked.join(), "the alert links to the diff, at fixed times", page.url());
check(param(page, "type") === given.type && param(page, "query") === '{service_name="shop"}', "of the service and the type", page.url());
// Its caller is marked in the total only.
const culprits = (await page.locator(".rows tbody tr:has(td.selfChange.more)").allInnerTexts()).map(plain);
check(culprits.length === 1 && culprits[0].startsWith(given.function), "where the function, and no other one, is marked as more expensive", culprits.join("; "));
check((await page.getAttribute(".timeline", "aria-label")).includes("marked: version=1.5"), "the timeline has the deploy", await page.getAttribute(".timeline", "aria-label"));
await shot(page, "alert-diff");

await page.goto(new URL(local(given.changes), page.url()).href);
await idle(page);
const entry = page.locator(".changes li");
const text = await entry.innerText();
check(await entry.count() === 1 && text.includes(given.function) && text.includes("deploy version=1.5") && text.includes("Regression"), "the page of changes has it", text);
await shot(page, "alert-changes");
await entry.locator("a:has-text('Show diff')").click();
await page.waitForSelector(".rows tbody tr");
await idle(page);
check(path(page) === "/diff" && rangesOf(page).join() === linked.join(), "it opens the same diff", page.url());
const picked = page.locator(".rows tbody tr[aria-selected]");
const name = param(page, "q");
check(plain(await picked.innerText()).startsWith(given.function) && await picked.locator("td.selfChange.more").count() === 1, "with the function selected", await picked.innerText());
await page.goBack();
await idle(page);

await entry.locator("button:has-text('Mute')").click();
await page.fill(".mark input[name=comment]", "we know");
await page.click(".mark button");
await eventually(() => page.textContent("[role=status]"), (said) => said.includes("is muted"), "muted on the page");
await eventually(() => page.textContent("main"), (said) => said.includes("No changes of shop are open"), "it is not open any more");
await shot(page, "alert-muted");
await close(page, "the alert's links");

// Deploys on all timelines, in all sizes.
const places = { diff: local(given.diff), explore: `/explore?${new URLSearchParams({ query: '{service_name="shop"}', from: linked[0], until: linked[3], q: name })}` };
for (const [where, address] of Object.entries(places)) {
  for (const dark of [false, true]) {
    for (const width of [390, 1280]) {
      const page = await open(address, { width, height: width === 390 ? 780 : 800, dark });
      const size = `${where}, ${dark ? "dark" : "light"}, ${width} px`;
      const labels = await page.locator(".timeline").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
      check(labels.length === (where === "diff" ? 1 : 2) && labels.every((label) => label.includes("marked: version=1.5")), `timelines with the deploy: ${size}`, labels.join("; "));
      check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing sticks out: ${size}`);
      const bad = await faults(page);
      check(bad === "", `all can be read and has a name: ${size}`, bad);
      await shot(page, `alert-${where}-${dark ? "dark" : "light"}-${width}`);
      await close(page, size);
    }
  }
}
await finish();
