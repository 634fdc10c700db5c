// Drives the page of changes in a real browser:
//     node changes.mjs JSON [SCREENSHOTS]
// JSON has the ports: server (that looks for changes, with the tokens token-of-boss and token-of-reader, and services shop and cache whose
// functions changed), quiet (that found none), off (that does not look); function: the one of shop; noted: when
// an annotation of shop is, in ms. Prints TAP.
import { harness } from "./harness.mjs";

const given = JSON.parse(process.argv[2]);
const { proxy, faults, check, until, eventually, open, idle, close, shot, param, path, about, finish } = await harness("changes", given.server, process.argv[3]);
const TOKENS = ["401"];
const TEN = 6e5; // minutes, in ms

async function enter(where, token, options) {
  const page = await open(where, options);
  await page.fill("input[name=token]", "token-of-" + token);
  await page.keyboard.press("Enter");
  await page.waitForSelector(".head");
  await idle(page);
  return page;
}
const entry = (page, service) => page.locator(".changes li", { hasText: service });
const said = (page, service) => entry(page, service).innerText();
const services = (page) => page.locator(".changes .what b").allTextContents().then((all) => all.join());
const pill = (page, label) => page.click(`.pills button:has-text('${label}')`);

{
  const page = await enter("/changes", "reader");
  await until(async () => (await page.click("button:has-text('Refresh')"), await idle(page), services(page)), (text) => text.length > "shop,".length, 120000);
  const [shop, cache] = [await said(page, "shop"), await said(page, "cache")];
  check(await page.locator(".changes li").count() === 2 && (await about(page)) === "2 changes", "what the server found", await about(page));
  check(shop.includes(given.function) && /\+\d\.\d+ cores\s+▲ Regression/.test(shop), "a regression, its function and cost", shop);
  check(/6\.\d+% → 1[12]\.\d+% of CPU time/.test(shop), "shares of CPU time", shop);
  check(/since \d\d-\d\d \d\d:\d\d, \d+ min ago/.test(shop) && shop.includes("deploy version=1.5"), "since when and which deploy", shop);
  check(/at most 1 in [\d,]+ is a false alarm/.test(shop), "how certain it is", shop);
  check((await entry(page, "shop").locator(".when p").first().getAttribute("title")).includes("95 % interval"), "the interval of its time");
  check(cache.includes("decode") && /−\d\.\d+ cores\s+▼ Improvement/.test(cache) && cache.includes("no deploy"), "an improvement without a deploy", cache);
  await shot(page, "changes");
  await entry(page, "shop").locator("button:has-text('Acknowledge')").click();
  await page.click(".mark button");
  await eventually(() => page.textContent(".mark [role=alert]"), (text) => text.includes("needs the admin scope"), "without permission: says so");
  await shot(page, "changes-refused");
  await page.keyboard.press("Escape");
  await page.click("button:has-text('Leave')");
  await page.waitForSelector("input[name=token]");
  await close(page, "a reader", [...TOKENS, "403"]);
}
{
  const page = await enter("/changes", "boss");
  const known = await page.evaluate(async () => (await (await fetch("api/v1/changes?service_name=shop", { headers: { Authorization: "Bearer token-of-boss" } })).json()).changes[0]);
  await entry(page, "shop").locator("a:has-text('Show diff')").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".rows tbody tr");
  await idle(page);
  check(path(page) === "/diff" && param(page, "left_from") === String(known.baseline.from) && param(page, "left_until") === String(known.baseline.until)
    && param(page, "from") === String(known.comparison.from) && param(page, "until") === String(known.comparison.until), "the diff of both sides, at fixed times, by keyboard", page.url());
  check(param(page, "query") === '{service_name="shop"}' && param(page, "left_query") === param(page, "query") && param(page, "type") === known.profileTypeID, "of its service and type", page.url());
  const picked = page.locator(".rows tbody tr[aria-selected]");
  check((await picked.innerText()).replace(/\n/g, "").startsWith(given.function) && await picked.locator("td.change.more").count() === 1, "with the function, which is more than noise", await picked.innerText());
  await shot(page, "changes-diff");
  await page.goBack();
  await idle(page);
  check(path(page) === "/changes" && await page.locator(".changes li").count() === 2, "back to the list");

  await entry(page, "shop").locator("button:has-text('Acknowledge')").focus();
  await page.keyboard.press("Enter");
  await page.waitForSelector(".mark input:focus");
  await page.keyboard.type("known: <b>hot keys</b>");
  await shot(page, "changes-mark");
  await page.keyboard.press("Enter");
  await eventually(() => services(page), (text) => text === "cache", "acknowledged by keyboard: not open any more");
  check((await page.textContent("[role=status]")).includes("is acknowledged") && await page.evaluate(() => document.activeElement.matches(".marked")), "which is said");
  await pill(page, "Acknowledged");
  await eventually(() => services(page), (text) => text === "shop", "it is among the acknowledged");
  await page.reload();
  await idle(page);
  check(param(page, "state") === "acknowledged" && /Acknowledged \d+ s ago: known: <b>hot keys<\/b>/.test(await said(page, "shop")), "after a reload, with its comment", await said(page, "shop"));
  await entry(page, "shop").locator("button:has-text('Mute')").click();
  await page.selectOption("select[aria-label='How long']", { label: "for a week" });
  await page.click(".mark button");
  await eventually(() => page.textContent("main"), (text) => text.includes("No changes are acknowledged"), "muted");
  await pill(page, "Muted");
  await eventually(() => said(page, "shop"), (text) => /Muted \d+ s ago, until \d\d-\d\d/.test(text), "until a time");
  await page.reload();
  await idle(page);
  check(/Muted .* until/.test(await said(page, "shop")), "which survives a reload");
  await pill(page, "Any");
  await eventually(() => page.locator(".changes li").count(), (n) => n === 2, "any state");
  await shot(page, "changes-any");
  await entry(page, "shop").locator("button:has-text('Reopen')").click();
  await eventually(() => said(page, "shop"), (text) => !text.includes("Muted"), "reopened");
  await pill(page, "Open");
  await eventually(() => page.locator(".changes li").count(), (n) => n === 2, "and listed again");
  check(!param(page, "state"), "open is the state without one in the address", page.url());
  await entry(page, "cache").locator("button:has-text('Acknowledge')").click();
  await page.click(".mark button");
  await eventually(() => services(page), (text) => text === "shop", "acknowledged without a comment");
  await page.click("button:has-text('Undo')");
  await eventually(() => page.locator(".changes li").count(), (n) => n === 2, "and taken back");

  await page.selectOption(".selection select[aria-label='Service']", "cache");
  await eventually(() => services(page), (text) => text === "cache", "of one service");
  await page.reload();
  await idle(page);
  check(param(page, "service") === "cache" && (await services(page)) === "cache", "which survives a reload", page.url());
  await pill(page, "Gone");
  await eventually(() => page.textContent(".notice"), (text) => text.includes("No changes of cache are gone") && text.includes("windows of 1 min"), "none: says what is watched");
  await page.click(".notice button:has-text('Any state')");
  await eventually(() => services(page), (text) => text === "cache", "and leads on");

  await page.route(/api\/v1\/changes\?/, (route) => route.continue({ url: route.request().url().replace("limit=50", "limit=1") }));
  await page.selectOption(".selection select[aria-label='Service']", "");
  await eventually(() => about(page), (text) => text === "1+ changes", "the first page");
  await page.click("button:has-text('Load more')");
  await eventually(() => about(page), (text) => text === "2 changes", "and the next one");
  check(await page.locator("button:has-text('Load more')").count() === 0, "which is the last one");
  await page.unroute(/api\/v1\/changes\?/);

  await page.route(/api\/v1\/changes\?/, async (route) => {
    const answer = await route.fetch();
    const found = await answer.json();
    for (const change of found.changes) Object.assign(change, { profileTypeID: "wall:wall:nanoseconds:wall:nanoseconds", cost: 3.1e8, costUnit: "nanoseconds/s" });
    await route.fulfill({ response: answer, json: found });
  });
  await page.click("button:has-text('Refresh')");
  await eventually(() => said(page, "shop"), (text) => text.includes("+310ms/s") && text.includes("of wall time"), "only CPU time is measured in cores");
  await page.unroute(/api\/v1\/changes\?/);

  await page.route(/api\/v1\/changes\?/, (route) => route.fulfill({ status: 503, json: { code: "unavailable", message: "the disk is on fire" } }));
  await page.click("button:has-text('Refresh')");
  await eventually(() => page.textContent("main"), (text) => text.includes("the disk is on fire"), "an error: the server’s sentence");
  await shot(page, "changes-error");
  await page.unroute(/api\/v1\/changes\?/);
  await page.click("button:has-text('Try again')");
  await eventually(() => page.locator(".changes li").count(), (n) => n === 2, "and another try");
  await close(page, "changes", [...TOKENS, "503"]);
}
{
  // Two versions that ran at the same time: the server's answer with versions of the whole history.
  const page = await enter("/changes?service=shop", "boss");
  let side;
  await page.route(/api\/v1\/changes\?/, async (route) => {
    const answer = await (await route.fetch()).json();
    for (const change of answer.changes) {
      side = { from: change.baseline.from, until: change.comparison.until };
      change.versions = { label: "version", before: "1.4", after: "1.5", part: 0.125 };
      change.baseline = { ...side, labelSelector: '{service_name="shop", version="1.4"}' };
      change.comparison = { ...side, labelSelector: '{service_name="shop", version="1.5"}' };
    }
    await route.fulfill({ json: answer });
  });
  await page.click("button:has-text('Refresh')");
  await eventually(() => said(page, "shop"), (text) => text.includes("1.5 compared with 1.4 at the same time (12.5% of the profiles were of 1.5)"), "versions: which, and how much of the service");
  check((await entry(page, "shop").locator(".when p").first().getAttribute("title")).startsWith("Both versions ran from"), "when both ran");
  await shot(page, "changes-versions");
  await page.click("a:has-text('Show diff')");
  await page.waitForSelector(".rows tbody tr");
  await idle(page);
  check(param(page, "left_query") === '{service_name="shop", version="1.4"}' && param(page, "query") === '{service_name="shop", version="1.5"}', "the diff has a selector for each side", page.url());
  check([["left_from", side.from], ["from", side.from], ["left_until", side.until], ["until", side.until]].every(([name, time]) => param(page, name) === String(time)), "and the same time on both", page.url());
  check((await page.locator(".rows tbody tr[aria-selected]").innerText()).replace(/\n/g, "").startsWith(given.function), "and shows the function");
  await page.unroute(/api\/v1\/changes\?/);
  await close(page, "versions", TOKENS);
}
{
  // Deploys of a service are on its timeline: one that a label tells, and what somebody noted.
  const page = await enter(`/explore?query=${encodeURIComponent('{service_name="shop"}')}&from=${given.noted - 5 * TEN}&until=${given.noted + TEN}`, "boss");
  await page.waitForSelector(".timeline .marker", { state: "attached" });
  const label = await page.getAttribute(".timeline", "aria-label");
  check(await page.locator(".marker").count() === 2 && /marked: note for shop \(\d\d:\d\d\), version=1\.5 \(\d\d:\d\d\)$/.test(label), "markers on the timeline", label);
  const [line, deploy, plot] = [await page.locator(".marker").first().boundingBox(), await page.locator(".marker").last().boundingBox(), await page.locator(".timeline .u-over").boundingBox()];
  check(Math.abs(deploy.x - plot.x - plot.width / 2) < plot.width / 6, "the deploy half an hour ago", JSON.stringify([deploy, plot]));
  check(Math.abs(line.x + line.width / 2 - plot.x - (plot.width * 5) / 6) < plot.width / 20, "where it belongs", JSON.stringify([line, plot]));
  await page.mouse.move(line.x + line.width / 2, line.y + 20);
  await eventually(() => page.textContent(".timeline output"), (text) => /^note for shop \(\d\d:\d\d\)/.test(text), "the pointer shows its text");
  await shot(page, "changes-marker");
  await page.mouse.move(deploy.x + deploy.width / 2, deploy.y + 20);
  await eventually(() => page.textContent(".timeline output"), (text) => /^version=1\.5 \(\d\d:\d\d\)/.test(text), "and that of the label");
  await page.mouse.move(line.x + line.width / 2, line.y + 20);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width - 4, line.y + 20, { steps: 4 });
  await page.mouse.up();
  await idle(page);
  check(Math.abs(Number(param(page, "from")) - given.noted) < TEN / 10, "a range can begin on it", page.url());
  await close(page, "markers", TOKENS);
}
for (const dark of [false, true]) {
  for (const width of [390, 1280, ...(process.argv[3] ? [1440, 1920] : [])]) {
    const page = await enter("/changes", "boss", { width, height: width === 390 ? 780 : 800, dark });
    const size = `${dark ? "dark" : "light"}, ${width} px`;
    check(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `nothing sticks out: ${size}`);
    const bad = await faults(page);
    check(bad === "", `all can be read and has a name: ${size}`, bad);
    await shot(page, `changes-${dark ? "dark" : "light"}-${width}`);
    if (width === 390) {
      await entry(page, "cache").locator("button:has-text('Mute')").click();
      const box = await page.locator(".popover .panel").boundingBox();
      check(box.x >= 0 && box.x + box.width <= width && box.y + box.height <= 780, `the form is in the window: ${size}`, JSON.stringify(box));
      await shot(page, `changes-mute-${dark ? "dark" : "light"}`);
    }
    await close(page, size, TOKENS);
  }
}
for (const [name, words] of [["off", ["does not look for changes", "changes: {enabled: true}", "SIGHUP"]], ["quiet", ["No changes are open", "windows of 1 h", "lasted 6 h", "4 h if it began at a deploy", "four days of history"]]]) {
  proxy.server = given[name];
  const page = await open("/changes");
  const text = await page.textContent("main");
  check(words.every((word) => text.includes(word)), `a server that is ${name}: says so`, text);
  await shot(page, "changes-" + name);
  await page.setViewportSize({ width: 390, height: 780 });
  check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), `${name}: nothing sticks out on a phone`);
  await shot(page, `changes-${name}-390`);
  await close(page, name);
}
await finish();
