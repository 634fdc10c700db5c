// The browser of all page tests and measurements.
import { chromium } from "playwright-core";

// CHROMIUM names the browser, /usr/bin/chromium otherwise.
export const launch = () => chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic"],
});

// Waits until the page has handled what happened to it, and has drawn the result: some frames, and the tasks between them.
export const frames = (page, n = 3) => page.evaluate(async (left) => {
  for (; left > 0; left--) {
    await new Promise((done) => requestAnimationFrame(done));
    await new Promise((done) => setTimeout(done));
  }
}, n);
