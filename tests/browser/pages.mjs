// Drives the other pages of the server, and what all of them share, in a real browser:
//     node pages.mjs JSON [SCREENSHOTS]
// JSON has the ports: server (with data, and two scrape targets), locked (that wants a token), empty;
// files: a folder with before.pb.gz and after.pb.gz; push: a command that pushes one more profile.
// Prints TAP.
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { harness } from "./harness.mjs";

const given = JSON.parse(process.argv[2]);
const { base, proxy, faults, check, until, eventually, open, idle, close, shot, param, path, about, finish } = await harness("pages", given.server, process.argv[3]);
const query = (region) => encodeURIComponent(region ? `{service_name="shop", region="${region}"}` : '{service_name="shop"}');
const rows = (page) => page.locator(".rows tbody tr");
const row = (page, text) => page.locator(".rows tbody tr", { hasText: text });

{
  const page = await open("/");
  const shop = await row(page, "shop").innerText();
  check(path(page) === "/" && /^shop\s/.test(shop), "services: the root lists them", shop);
  check(/cores?\tnew\t/.test(shop), "services: CPU and its change", shop);
  check(/\d+ (s|min) ago/.test(shop), "services: last seen", shop);
  check(await row(page, "shop").locator("svg.spark path").count() === 1, "services: a line");
  check((await row(page, "shop").locator("td.types").innerText()).includes("samples"), "services: profile types", await row(page, "shop").locator("td.types").innerText());
  await shot(page, "services");
  await page.keyboard.press("/");
  await page.keyboard.type("nothing");
  await eventually(() => page.textContent(".rows tbody"), (text) => text.includes("No service"), "services: search by keyboard");
  await page.reload();
  await idle(page);
  check((await page.inputValue(".find input")) === "nothing", "services: which survives a reload");
  await page.fill(".find input", "sho");
  await row(page, "shop").locator("td.types a:has-text('samples')").click();
  await idle(page);
  check(path(page) === "/explore" && (await about(page)).startsWith("samples"), "services: to a profile type", await about(page));
  await page.goBack();
  await idle(page);
  await row(page, "shop").focus();
  await page.keyboard.press("Enter");
  await eventually(() => about(page), (text) => text.startsWith("cpu "), "services: Enter explores one");
  check(param(page, "query") === '{service_name="shop"}', "services: by its name", page.url());
  await close(page, "services");
}
{
  const page = await open(`/compare?left_query=${query("us")}&query=${query("eu")}`);
  const said = (side) => page.textContent(`.half[aria-label='${side}'] > .about`);
  await eventually(() => said("Left"), (text) => text.includes("cpu 1.50s"), "compare: one side");
  await eventually(() => said("Right"), (text) => text.includes("cpu 2.10s"), "compare: the other");
  check(await page.locator(".half .timeline canvas").count() === 2 && await page.locator(".half .flame canvas").count() === 2, "compare: a timeline and a flame graph each");
  await shot(page, "compare");
  // A frame that both have is zoomed in both.
  const canvas = page.locator(".half .flame canvas");
  const box = await canvas.first().boundingBox();
  await page.mouse.click(box.x + 5, box.y + 70);
  await eventually(() => page.locator(".crumbs button[aria-current]").allTextContents(), (names) => names.length === 2 && names[0] === names[1], "compare: they are zoomed together");
  await page.reload();
  await idle(page);
  await eventually(() => page.locator(".crumbs button[aria-current]").count(), (n) => n === 2, "compare: which survives a reload");
  await page.selectOption(".half[aria-label='Left'] select[aria-label='Range']", "5m");
  await eventually(() => said("Left"), (text) => text.includes("cpu 1s"), "compare: each has its own range");
  check((await said("Right")).includes("cpu 2.10s"), "compare: the other keeps its own", await said("Right"));
  await page.click(".tabs a:has-text('Diff')");
  await eventually(() => about(page), (text) => text.includes("1s \u2192 2.10s"), "compare: the same as a diff");
  await close(page, "compare");
}
{
  // Without a left side it is the time before.
  const page = await open(`/diff?query=${query()}&from=now-5m`);
  await eventually(() => about(page), (text) => text.includes("2.40s"), "diff: the right side");
  check(await page.locator("[aria-label='Left'] select[aria-label='Range']").inputValue() === "before", "diff: the left one is the time before");
  await close(page, "diff before");
}
{
  // eu and us have the same shares but for rounding: nothing is more than noise, whatever the load.
  const page = await open(`/diff?left_query=${query("us")}&query=${query("eu")}`);
  await eventually(() => page.textContent(".legend"), (text) => text.includes("gray: within noise"), "noise: said in the legend");
  const marks = () => page.locator(".rows td.change").evaluateAll((cells) => cells.map((c) => c.className));
  check((await marks()).every((m) => !/more|less/.test(m)) && (await marks()).some((m) => /pale/.test(m)), "noise: what it explains is pale", (await marks()).join(", "));
  await page.click(".check:has-text('Compare shares')");
  await idle(page);
  check((await marks()).every((m) => !/more|less/.test(m)), "noise: twice the load marks nothing", (await marks()).join(", "));
  check((await page.textContent(".legend")).includes("most functions changed by a factor of"), "noise: the load is said", await page.textContent(".legend"));
  await close(page, "noise");
}
{
  proxy.nodes = 4;
  const page = await open(`/explore?query=${query()}&view=flame`);
  const note = () => page.evaluate(() => document.querySelector(".legend .note")?.textContent ?? "");
  check((await note()).includes("merged"), "other: small branches are merged", await note());
  const canvas = await page.locator(".flame canvas").boundingBox();
  const tip = () => page.evaluate(() => (document.querySelector(".tip").hidden ? "" : document.querySelector(".tip").textContent));
  let found = false;
  for (let level = 1; level < 6 && !found; level++) {
    for (let x = 0.02; x < 1 && !found; x += 0.08) {
      await page.mouse.move(canvas.x + x * canvas.width, canvas.y + level * 20 + 10);
      found = (await tip()).startsWith("other");
    }
  }
  check(found, "other: it is in sight");
  await page.mouse.down();
  await page.mouse.up();
  await eventually(note, (text) => text === "", "other: a click opens it");
  proxy.nodes = 0;
  await close(page, "other");
}
{
  const page = await open("/targets");
  await eventually(() => row(page, "cache").innerText().then(async (text) => (await page.click("button:has-text('Refresh')"), text)), (text) => text.includes("up"), "targets: one that answers");
  await eventually(() => row(page, "127.0.0.1:1/").first().innerText().then(async (text) => (await page.click("button:has-text('Refresh')"), text)), (text) => /down.*connect/s.test(text), "targets: one that does not, and why");
  await page.click("button:has-text('Down')");
  await idle(page);
  check(param(page, "state") === "down" && await row(page, "cache").count() === 0, "targets: only those that are down");
  await rows(page).first().focus();
  await page.keyboard.press("Enter");
  await eventually(() => page.textContent(".details .problem"), (text) => /connect/i.test(text), "targets: the whole error of one");
  await shot(page, "targets");
  await page.reload();
  await idle(page);
  check((await page.textContent(".details")).includes("job = shop"), "targets: with its labels, after a reload", await page.textContent(".details"));
  await close(page, "targets");
}
{
  const page = await open("/files");
  check((await page.textContent("main")).includes("keeps neither"), "files: says what to do");
  await page.setInputFiles("input[aria-label='Profile']", resolve(given.files, "after.pb.gz"));
  await eventually(() => about(page), (text) => text.includes("cpu 1.16s"), "files: one");
  await page.click(".popover > button:has-text('View')");
  await page.click(".panel .check:has-text('All sample types')");
  await page.keyboard.press("Escape");
  await idle(page);
  check(await page.locator(".rows th").count() === 9 && (await page.textContent(".rows thead")).includes("Total samples"), "files: sample types side by side", await page.textContent(".rows thead"));
  await page.click(".popover > button:has-text('Export')");
  check((await page.textContent(".options code")) === "kiln top after.pb.gz", "files: the line for a terminal", await page.textContent(".options code"));
  await page.keyboard.press("Escape");
  await page.setInputFiles("input[aria-label='Compare with']", resolve(given.files, "before.pb.gz"));
  await eventually(() => about(page), (text) => text.includes("1s \u2192 1.16s (+16.0%)"), "files: two");
  await eventually(() => page.textContent(".legend"), (text) => text.includes("gray: within noise"), "files: with what noise explains");
  await page.selectOption("select[aria-label='Sample type']", "samples");
  await eventually(() => about(page), (text) => text.startsWith("samples 100 \u2192 116"), "files: another sample type");
  await shot(page, "files");
  await page.reload();
  await eventually(() => about(page), (text) => text.startsWith("samples 100 \u2192 116"), "files: a reload shows them again");
  await page.click("button[aria-label='Remove before.pb.gz']");
  await eventually(() => about(page), (text) => text.startsWith("samples 116"), "files: one is removed");
  await page.setInputFiles("input[aria-label='Profile']", { name: "letter.txt", mimeType: "text/plain", buffer: Buffer.from("Dear profiler,\n") });
  await eventually(() => page.textContent("main"), (text) => text.includes("the profile: unrecognized"), "files: one that is none: the server's sentence");
  await close(page, "files", ["400"]);
}
{
  // Newer data replace older ones: nothing is taken away meanwhile, and what was zoomed stays so.
  const page = await open(`/explore?query=${query()}&refresh=1&view=flame`);
  const box = await page.locator(".flame canvas").boundingBox();
  await page.mouse.click(box.x + 5, box.y + 50);
  await page.evaluate(() => {
    window.first = document.querySelector(".flame canvas");
    window.plot = document.querySelector(".timeline canvas");
    window.gone = [];
    new MutationObserver((list) => list.forEach((m) => m.removedNodes.forEach((n) => n.nodeType === 1 && !n.closest(".crumbs, .legend") && !m.target.closest?.(".crumbs, .legend, .about") && window.gone.push(n.className || n.tagName)))).observe(document.querySelector("#app"), { childList: true, subtree: true });
  });
  const zoom = await until(() => page.textContent(".crumbs button[aria-current]"), Boolean);
  const before = await about(page);
  execFileSync(given.push[0], given.push.slice(1));
  await eventually(() => about(page), (text) => text.includes("cpu 4.10s"), "live: newer profiles appear, before: " + before);
  const state = await page.evaluate(() => ({ same: window.first === document.querySelector(".flame canvas") && window.plot === document.querySelector(".timeline canvas"), gone: window.gone.join() }));
  check(state.same && state.gone === "", "live: without flicker", JSON.stringify(state));
  check(zoom && (await page.textContent(".crumbs button[aria-current]")) === zoom, "live: what was zoomed stays so", zoom);
  await close(page, "live");
}
for (const [name, where] of [["services", "/"], ["explore", `/explore?query=${query()}`], ["labels", `/tags?query=${query()}`], ["compare", `/compare?query=${query()}`], ["diff", `/diff?query=${query()}`], ["changes", "/changes"], ["targets", "/targets"], ["files", "/files"]]) {
  for (const dark of [false, true]) {
    const page = await open(where, { width: 390, height: 780, dark });
    check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), name + ": nothing sticks out on a phone");
    await shot(page, name + "-phone" + (dark ? "-dark" : ""));
    await page.setViewportSize({ width: 1280, height: 760 });
    const bad = await faults(page);
    check(bad === "", name + `: ${dark ? "dark" : "light"}, all can be read and has a name`, bad);
    await close(page, name + " on a phone");
  }
}
{
  const page = await open("/");
  for (const [at, key] of ["/explore", "/tags", "/compare", "/diff", "/changes", "/targets", "/files"].map((p, i) => [p, String(i + 2)])) {
    await page.keyboard.press(key);
    await until(async () => path(page), (p) => p === at);
    check(path(page) === at, "key " + key, page.url());
  }
  await close(page, "keys");
}
{
  proxy.server = given.locked;
  const page = await open(`/explore?query=${query()}`);
  check(await page.isVisible("input[name=token]") && !(await page.isVisible(".head")), "token: asked for");
  await shot(page, "token");
  await page.fill("input[name=token]", "wrong");
  await page.keyboard.press("Enter");
  await eventually(() => page.textContent("[role=alert]"), (text) => text.includes("credentials"), "token: a wrong one is refused");
  await page.fill("input[name=token]", "open-sesame");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".head");
  await idle(page);
  check((await page.textContent("main")).includes("No profile"), "token: the right one opens the page that was asked for", await page.textContent("main"));
  check(param(page, "query") === '{service_name="shop"}', "token: with its address", page.url());
  await page.reload();
  await idle(page);
  check(!(await page.isVisible("input[name=token]")), "token: entered once");
  await page.click("button:has-text('Leave')");
  await page.waitForSelector("input[name=token]");
  check(true, "token: forgotten when asked to");
  await close(page, "token", ["401"]);
}
{
  proxy.server = given.empty;
  const page = await open("/");
  check((await page.textContent(".welcome")).includes(`kiln push --server ${base} `), "first start: says how to send", await page.textContent(".welcome"));
  await shot(page, "welcome");
  await page.keyboard.press("7");
  await eventually(() => page.textContent("main"), (text) => text.includes("Nothing is scraped"), "first start: no targets");
  await close(page, "first start");
}
await finish();
