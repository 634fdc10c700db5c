// Measures pages in a real browser, for bench/web:
//     node measure.mjs load URL SELECTOR      from the navigation to the first picture, and bytes
//     node measure.mjs frames URL             script time a frame while zooming, panning, pointing
// Prints JSON.
import { frames as drawn, launch } from "./browser.mjs";

const [what, url, selector] = process.argv.slice(2);
const browser = await launch();
const context = await browser.newContext({ viewport: { width: 1280, height: 760 }, reducedMotion: "reduce" });
const page = await context.newPage();
const patience = 1000 * Number(process.env.PATIENCE || 60);
page.setDefaultTimeout(patience);

async function load() {
  const session = await context.newCDPSession(page);
  let bytes = 0;
  await session.send("Network.enable");
  session.on("Network.loadingFinished", (event) => (bytes += event.encodedDataLength));
  const start = performance.now();
  await page.goto(url, { waitUntil: "commit", timeout: patience });
  await page.waitForSelector(selector, { state: "attached" });
  // Whatever is attached is drawn two frames later.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const paint = await page.evaluate(() => performance.getEntriesByName("first-paint")[0]?.startTime ?? 0);
  return { ms: performance.now() - start, bytes, paint };
}

async function frames() {
  await page.addInitScript(() => {
    const request = window.requestAnimationFrame.bind(window);
    window.frameTimes = [];
    window.requestAnimationFrame = (draw) => request((now) => {
      const start = performance.now();
      draw(now);
      window.frameTimes.push(performance.now() - start);
    });
  });
  await page.goto(url);
  await page.waitForSelector(".flame canvas");
  await drawn(page, 30);
  return page.evaluate(async () => {
    const canvas = document.querySelector(".flame canvas");
    const at = canvas.getBoundingClientRect();
    const pause = () => new Promise((done) => setTimeout(done, 20));
    const median = (list) => list.sort((a, b) => a - b)[list.length >> 1];
    const measure = async (n, act) => {
      window.frameTimes.length = 0;
      for (let i = 0; i < n; i++) {
        act(i);
        await pause();
      }
      const times = [...window.frameTimes];
      return { median: median(times), most: Math.max(...times), frames: times.length };
    };
    const wheel = (deltaX, deltaY, ctrlKey) => canvas.dispatchEvent(new WheelEvent("wheel", { clientX: at.left + 500, clientY: at.top + 90, deltaX, deltaY, ctrlKey, cancelable: true }));
    const zoom = await measure(40, (i) => wheel(0, i < 20 ? -60 : 60, true));
    for (let i = 0; i < 6; i++) wheel(0, -60, true);
    await pause();
    const pan = await measure(40, (i) => wheel(i < 20 ? 40 : -40, 0, false));
    const point = await measure(40, (i) => canvas.dispatchEvent(new PointerEvent("pointermove", { clientX: at.left + 20 + i * 30, clientY: at.top + 90, pointerType: "mouse" })));
    return { zoom, pan, point };
  });
}

console.log(JSON.stringify(what === "load" ? await load() : await frames()));
await browser.close();
