// What drives the server's pages in a real browser: a proxy that can hold answers back and count
// questions, pages that tell their complaints, checks that print TAP.
import http from "node:http";
import { mkdirSync } from "node:fs";
import { resolve } from "node:path";
import { frames, launch } from "./browser.mjs";
import { checks } from "./checks.mjs";

export async function harness(name, server, shots) {
  if (shots) mkdirSync(shots, { recursive: true });
  // server: its port; asked: questions for stacks; late: how long to hold back the next answers to them; nodes: the most
  // nodes of whole trees.
  const proxy = { server, asked: 0, late: null, nodes: 0 };
  const origin = http.createServer(async (request, answer) => {
    const stacks = /v1\/flame/.test(request.url);
    if (stacks) proxy.asked++;
    const hold = (stacks && proxy.late?.shift()) || 0;
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    let body = Buffer.concat(chunks);
    const { "content-length": _, ...headers } = request.headers;
    if (stacks && proxy.nodes && body[0] === 0x7b) {
      const question = JSON.parse(body);
      if (!question.path.length) question.maxNodes = proxy.nodes;
      body = Buffer.from(JSON.stringify(question));
    }
    const onward = http.request({ port: proxy.server, host: "127.0.0.1", path: request.url, method: request.method,
      headers: { ...headers, host: "localhost:" + proxy.server, "content-length": body.length } }, (back) => {
      setTimeout(() => {
        answer.writeHead(back.statusCode, back.headers);
        back.pipe(answer);
      }, hold);
    });
    onward.on("error", () => answer.destroy());
    onward.end(body);
  }).listen(0, "127.0.0.1");
  await new Promise((done) => origin.on("listening", done));
  const base = "http://127.0.0.1:" + origin.address().port;

  const browser = await launch();
  const { check, finish } = checks(name);
  // Waits until what get() gives is good, and says what it gave; the machine may be busy.
  async function until(get, good, patience = 20000) {
    const end = Date.now() + patience;
    let got;
    for (;;) {
      got = await get().catch((error) => error.message);
      if (good(got) || Date.now() > end) return got;
      await new Promise((done) => setTimeout(done, 50));
    }
  }
  async function eventually(get, good, what) {
    const got = await until(get, good);
    check(good(got), what, got);
    return got;
  }
  async function open(path, { width = 1280, height = 760, dark = false } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: dark ? "dark" : "light", reducedMotion: "reduce" });
    const page = await context.newPage();
    page.setDefaultTimeout(60000);
    page.problems = [];
    page.foreign = [];
    page.on("pageerror", (e) => page.problems.push(e.message));
    page.on("console", (m) => m.type() === "error" && page.problems.push(m.text()));
    page.on("request", (r) => !r.url().startsWith(base) && !/^(data|blob):/.test(r.url()) && page.foreign.push(r.url()));
    await page.goto(base + path);
    await idle(page);
    return page;
  }
  async function idle(page) {
    await page.waitForFunction(() => document.querySelector("main") && document.querySelector(".flame canvas, .rows tbody tr, .graph .node, .peek article, .notice, .welcome, .enter, .changes li") && !document.querySelector(".progress.busy"));
    await frames(page);
  }
  async function close(page, what, expected = []) {
    const problems = page.problems.filter((p) => !expected.some((e) => p.includes(e)));
    check(problems.length === 0, what + ": no complaints", problems.join("; "));
    check(page.foreign.length === 0, what + ": nothing is asked of others", page.foreign.join("; "));
    await page.context().close();
  }
  // Text that is hard to read (less than 4.5 to 1), and controls without a name.
  const faults = (page) => page.evaluate(() => {
    const parse = (colour) => colour.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = (e) => {
      for (; e; e = e.parentElement) {
        const colour = parse(getComputedStyle(e).backgroundColor);
        if (colour[3] !== 0) return colour;
      }
      return [255, 255, 255];
    };
    const found = [];
    for (const e of document.querySelectorAll("#app *")) {
      const own = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.textContent.trim()).join("");
      const style = getComputedStyle(e);
      if (own && e.checkVisibility({ visibilityProperty: true }) && !e.closest("svg, :disabled, [aria-hidden=true]")) {
        const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${own.slice(0, 30)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
      }
      if (e.matches("button, a[href], input, select, canvas[tabindex]") && e.checkVisibility({ visibilityProperty: true })) {
        const name = e.getAttribute("aria-label") || e.textContent.trim() || e.title || e.closest("label")?.textContent.trim();
        if (!name) found.push("no name: " + e.outerHTML.slice(0, 80));
      }
    }
    return found.join("; ");
  });
  return {
    base, proxy, frames, faults, check, until, eventually, open, idle, close,
    shot: async (page, file) => shots && page.screenshot({ path: resolve(shots, file + ".png") }),
    param: (page, key) => new URL(page.url()).searchParams.get(key),
    path: (page) => new URL(page.url()).pathname,
    about: (page) => page.textContent(".head .about"),
    async finish() {
      await browser.close();
      origin.close();
      finish();
    },
  };
}
