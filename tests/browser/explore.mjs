// Drives Explore, Labels and Diff in a real browser over a real server:
//     node explore.mjs SERVER [SCREENSHOTS]
// SERVER is the port of a `kiln server`. Prints TAP.
import { harness } from "./harness.mjs";

const { base, proxy, check, eventually, frames, until, open, idle, close, shot, param, about, finish } = await harness("explore", Number(process.argv[2]), process.argv[3]);

{
  const page = await open("/explore");
  check((await about(page)).includes("cpu 3.60s"), "opens on a service, its CPU time, without a click", await about(page));
  check(await page.isVisible(".timeline canvas"), "with a timeline");
  check((await page.locator(".rows tbody tr").first().innerText()).startsWith("malloc"), "and a table", await page.locator(".rows tbody tr").first().innerText());
  await shot(page, "explore");
  await page.click(".popover > button:has-text('Label')");
  await page.fill(".labels input", "region");
  await page.click(".labels .link:has-text('eu')");
  await idle(page);
  check(param(page, "query") === '{service_name="shop", region="eu"}', "a label becomes part of the selector", param(page, "query"));
  check((await about(page)).includes("cpu 2.10s"), "and filters", await about(page));
  await page.reload();
  await idle(page);
  check((await about(page)).includes("cpu 2.10s"), "which survives a reload", await about(page));
  await page.click(".selection .chip .remove");
  await idle(page);
  check((await about(page)).includes("cpu 3.60s"), "its chip removes it", await about(page));
  await page.click(".popover > button:has-text('Label')");
  await page.locator("#label-names option[value='x.zone']").waitFor({ state: "attached", timeout: 10000 })
    .then(() => check(true, "a name with a dot is suggested"), () => check(false, "a name with a dot is suggested"));
  await page.fill(".labels input", "x.zone");
  await page.click(".labels .link:has-text('1')");
  await idle(page);
  check(param(page, "query") === '{service_name="shop", "x.zone"="1"}' && (await about(page)).includes("cpu 3.60s"), "a name with a dot is quoted", param(page, "query"));
  await page.reload();
  await idle(page);
  await page.click(".selection .chip .remove");
  await idle(page);
  check(!param(page, "query").includes("x.zone"), "and its chip removes it", param(page, "query"));
  await page.fill(".selector", '{service_name="shop", region!="eu"}');
  await page.keyboard.press("Enter");
  await idle(page);
  check((await about(page)).includes("cpu 1.50s"), "a selector can be typed", await about(page));
  await page.fill(".find input", "malloc");
  await frames(page);
  check((await page.textContent(".matched")).startsWith("Matched: "), "search", await page.textContent(".matched"));
  await page.fill(".find input", "");

  // Dragging over the first half of the timeline leaves the older profiles.
  await page.fill(".selector", '{service_name="shop"}');
  await page.keyboard.press("Enter");
  await idle(page);
  const plot = await page.locator(".timeline .u-over").boundingBox();
  await page.mouse.move(plot.x + 4, plot.y + 30);
  await page.mouse.down();
  await page.mouse.move(plot.x + plot.width / 2, plot.y + 30, { steps: 4 });
  await page.mouse.up();
  await idle(page);
  check(/^\d+$/.test(param(page, "from")) && /^\d+$/.test(param(page, "until")), "dragging chooses a range", page.url());
  check((await about(page)).includes("cpu 1.20s"), "and what lies in it", await about(page));
  await page.goBack();
  await idle(page);
  check((await about(page)).includes("cpu 3.60s"), "back goes back", await about(page));

  const before = proxy.asked;
  await page.selectOption("select[aria-label='Refresh']", "10");
  await page.click("button:has-text('Refresh')");
  await idle(page);
  check(proxy.asked > before, "refresh asks again");
  await close(page, "one service");
}
{
  // The function of a zoomed frame over time, below the flame graph.
  for (const [theme, width, height] of [["light", 1280, 760], ["dark", 1280, 760], ["light", 480, 860], ["dark", 1800, 1000]]) {
    const page = await open("/explore?view=flame&query=" + encodeURIComponent('{service_name="shop"}'), { width, height, dark: theme === "dark" });
    check(await page.locator(".over-time").count() === 0, "no function is selected at first");
    await page.focus(".flame canvas");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".over-time .timeline canvas");
    await idle(page);
    const about = await page.innerText(".over-time p");
    check(param(page, "z") && /^main\b/.test(about) && /total [\d.]+m? cores/.test(about.replace(/\s+/g, " ")), `a zoomed frame over time, ${theme}, ${width} px`, about);
    const chart = await page.locator(".over-time").boundingBox();
    const flame = await page.locator("section.flame").boundingBox();
    check(chart.y >= flame.y + flame.height - 1 && chart.y + chart.height <= height + 1 && flame.height > 150, "below the flame graph, in the window", JSON.stringify([chart, flame]));
    await shot(page, `function-${theme}-${width}`);
    await page.keyboard.press("Escape");
    await page.waitForSelector(".over-time", { state: "detached" });
    await close(page, "a function over time");
  }
  const page = await open("/explore?view=both&query=" + encodeURIComponent('{service_name="shop"}'));
  await page.locator(".rows tbody tr").first().click();
  await page.waitForSelector(".over-time .timeline canvas");
  check((await page.innerText(".over-time p")).startsWith("malloc"), "a function that is picked in the table", await page.innerText(".over-time p"));
  await page.goto(page.url() + "&g=files");
  await idle(page);
  check(await page.locator(".over-time").count() === 0, "files have no function");
  await close(page, "a picked function over time");
}
{
  const page = await open("/explore?from=now-10d&until=now-9d");
  check((await page.textContent("main")).includes("No"), "nothing in the range: says so", await page.textContent("main"));
  await close(page, "empty");
}
{
  // The first answer comes last: it must not be what stays.
  const page = await open("/explore?query=" + encodeURIComponent('{service_name="shop"}'));
  const before = proxy.asked;
  let answered = 0;
  page.on("response", (response) => (answered += /v1\/flame/.test(response.url())));
  proxy.late = [1500, 0];
  await page.fill(".selector", '{service_name="shop", region="eu"}');
  await page.keyboard.press("Enter");
  await until(async () => proxy.asked, (asked) => asked > before);
  await page.fill(".selector", '{service_name="shop", region="us"}');
  await page.keyboard.press("Enter");
  const waiting = () => proxy.asked - before - answered;
  check(await until(async () => waiting(), (n) => n === 0 && answered >= 2) === 0, "both are answered", [proxy.asked - before, answered]);
  await idle(page);
  check((await about(page)).includes("cpu 1.50s"), "an old answer never overwrites a newer one", await about(page));
  proxy.late = null;
  await close(page, "order of answers");
}
{
  const query = (region) => encodeURIComponent(`{service_name="shop", region="${region}"}`);
  const page = await open(`/diff?left_query=${query("us")}&query=${query("eu")}`);
  check((await about(page)).includes("1.50s → 2.10s (+40.0%)"), "diff: both sides", await about(page));
  const text = () => page.locator(".rows tbody tr", { hasText: "serve" }).innerText();
  const shares = (await text()).split("\t");
  check((await page.textContent(".legend")).includes("change of the share"), "diff: shares are compared", await page.textContent(".legend"));
  await page.click(".check:has-text('Compare shares')");
  await idle(page);
  const values = (await text()).split("\t");
  check(param(page, "abs") === "1" && values[1] !== shares[1] && values[2] === shares[2], "diff: or values", shares + " / " + values);
  await shot(page, "diff");
  await page.click(".tabs a:has-text('Explore')");
  await idle(page);
  check(new URL(page.url()).pathname === "/explore" && (await about(page)).includes("cpu 2.10s"), "diff: its right side can be explored", await about(page));
  await close(page, "diff");
}
{
  const page = await open("/tags?query=" + encodeURIComponent('{service_name="shop"}'));
  const row = (name) => page.locator(".rows tbody tr", { hasText: name });
  check((await about(page)).startsWith("cpu by region"), "labels: begins with one that tells something apart", await about(page));
  check(/^eu\s+58\.3%\t/.test(await row("eu").innerText()), "labels: the share of each value", await row("eu").innerText());
  check(/%\t.* cores?\t.* cores?\t/.test(await row("us").innerText()), "labels: mean and largest", await row("us").innerText());
  check(await page.locator(".timeline canvas").isVisible(), "labels: a line for each");
  await shot(page, "labels");
  await row("eu").locator("td").first().click();
  await idle(page);
  check(param(page, "only") === "eu" && await row("eu").getAttribute("aria-selected") === "true", "labels: a click leaves one line", page.url());
  await page.reload();
  await idle(page);
  check(await row("eu").getAttribute("aria-selected") === "true", "labels: which survives a reload");
  await row("us").locator("a:has-text('Filter')").click();
  await idle(page);
  check(param(page, "query") === '{service_name="shop", region="us"}' && await row("eu").count() === 0, "labels: filter", page.url());
  await page.goBack();
  await idle(page);
  await row("eu").locator("a:has-text('Diff')").focus();
  await page.keyboard.press("Enter");
  await idle(page);
  check(new URL(page.url()).pathname === "/diff" && (await about(page)).includes("1.50s \u2192 2.10s"), "labels: diff with the others, by keyboard", await about(page));
  await page.goBack();
  await idle(page);
  await page.selectOption("label:has-text('Compare and diff with') select", "us");
  await row("eu").locator("a[href*='base=us']:has-text('Diff')").waitFor();
  check(new URL(await row("eu").locator("a:has-text('Diff')").getAttribute("href"), base).searchParams.get("left_query").includes('region="us"'), "labels: diff with one of them",
    await row("eu").locator("a:has-text('Diff')").getAttribute("href"));
  await row("eu").locator("a:has-text('Explore')").click();
  await idle(page);
  check(new URL(page.url()).pathname === "/explore" && (await about(page)).includes("cpu 2.10s"), "labels: explore a value", await about(page));
  await close(page, "labels");
}
{
  const page = await open("/explore", { width: 390, height: 780, dark: true });
  check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), "nothing sticks out on a phone");
  await shot(page, "explore-phone-dark");
  await close(page, "phone");
}
{
  // A selector that the page cannot read: the server says why, at its position.
  for (const path of ["explore", "tags", "diff", "compare"]) {
    const page = await open(`/${path}?query=` + encodeURIComponent('{region=~"eu\\d"}'));
    check((await page.innerText("main")).includes("byte 14"), `${path}: an invalid selector is explained`, await page.innerText("#app"));
    check(await page.isVisible(".selector[aria-invalid=true]") && await page.inputValue(".selector[aria-invalid=true]") === '{region=~"eu\\d"}', `${path}: and can be corrected`);
    await close(page, "an invalid selector", ["400"]);
  }
  const page = await open("/explore?query=" + encodeURIComponent('{service_name="shop"}'));
  await page.fill(".selector", '{service_name="shop", region=eu}');
  await page.keyboard.press("Enter");
  await eventually(() => page.innerText("main"), (text) => text.includes("expected a quoted value at byte 30"), "typed: explained as well");
  check(await page.locator(".flame canvas").count() === 0, "without the data of another selector");
  await page.fill(".selector", "{service_name='shop', region=`eu`}");
  await page.keyboard.press("Enter");
  await idle(page);
  check((await about(page)).includes("cpu 2.10s") && await page.locator(".selection .chip").count() === 1, "all quotes of PromQL are read", await about(page));
  await close(page, "selectors", ["400"]);
}
{
  // A copied link shows others the same.
  const page = await open("/explore?from=now-15m");
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.click(".popover > button:has-text('Export')");
  await page.click(".panel button:has-text('Copy link')");
  check(await page.innerText(".panel output") === "Link copied.", "a copied link is confirmed", await page.innerText(".panel"));
  const link = new URL(await page.evaluate(() => navigator.clipboard.readText())).searchParams;
  check(/^\d+$/.test(link.get("from")) && Number(link.get("until")) - Number(link.get("from")) === 900000 && link.get("query") === '{service_name="shop"}', "it has fixed times and the service", String(link));
  await page.click(".panel button:has-text('Copy live link')");
  check(await page.evaluate(() => navigator.clipboard.readText()) === page.url(), "a live one moves with the clock");
  await page.keyboard.press("Escape");
  await page.fill(".find input", "malloc");
  await page.click(".head .tabs a:has-text('Diff')");
  await idle(page);
  check(param(page, "q") === null && await page.inputValue(".find input") === "", "the search stays on its page", page.url());
  check((await page.innerText("main")).includes("Left has no samples in its range"), "a diff with an empty side says so", await page.innerText("main"));
  await close(page, "a link");
}
{
  // A server that goes away: the data stays, below a banner, until it is back.
  const page = await open("/explore");
  const server = proxy.server;
  proxy.server = 1;
  await page.click("button:has-text('Refresh')");
  await page.waitForSelector(".away");
  check(/^Can't reach the server\. Showing data from \d\d:\d\d\./.test(await page.innerText(".away")), "a server that went away", await page.innerText(".away"));
  check((await about(page)).includes("cpu 3.60s") && await page.isVisible(".flame canvas") && await page.isVisible(".timeline canvas"), "its data stays", await page.innerText("#app"));
  await shot(page, "away");
  proxy.server = server;
  await page.waitForSelector(".away", { state: "detached" });
  await idle(page);
  check((await about(page)).includes("cpu 3.60s"), "the page goes on by itself when it is back", await about(page));
  await close(page, "a server that went away", ["ERR_EMPTY_RESPONSE"]);
}
await finish();
