// Opens pages in headless Chromium: their size, the time to draw them, what axe finds, and screenshots.
//
//   NODE_PATH=…/node_modules node tests/bench/pages/look.cjs CHROMIUM OUT PAGE.html…
//
// NODE_PATH has puppeteer-core and axe-core. A page must stay below 2 MB and 2 s, and axe must find no contrast fault in light and
// dark; otherwise the exit code is 1. OUT gets NAME.png (the first screen), NAME-dark.png, NAME-phone.png and NAME.pdf.
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [chromium, out, ...pages] = process.argv.slice(2);
const BYTES = 2e6;
const MILLISECONDS = 2000;

async function look(browser, page) {
  const name = path.basename(path.dirname(path.resolve(page))) + "-" + path.basename(page, ".html");
  const tab = await browser.newPage();
  await tab.setViewport({ width: 1280, height: 900 });
  const begin = performance.now();
  await tab.goto("file://" + path.resolve(page), { waitUntil: "load" });
  // Two frames: the second begins when the first is on the screen.
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const drawn = performance.now() - begin;
  const bytes = fs.statSync(page).size;
  const faults = [];
  for (const scheme of ["light", "dark"]) {
    await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await tab.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = true)));
    await tab.evaluate(axe);
    const found = await tab.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    for (const one of found.violations) {
      faults.push(`${scheme}: ${one.id} (${one.impact}), ${one.nodes.length} times, first ${one.nodes[0].target.join(" ")}`);
    }
    await tab.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = false)));
    await tab.screenshot({ path: path.join(out, `${name}${scheme === "dark" ? "-dark" : ""}.png`) });
  }
  await tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await tab.screenshot({ path: path.join(out, `${name}-whole.png`), fullPage: true });
  await tab.pdf({ path: path.join(out, `${name}.pdf`), format: "A4", printBackground: true });
  const printed = (fs.readFileSync(path.join(out, `${name}.pdf`), "latin1").match(/\/Type\s*\/Page[^s]/g) || []).length;
  await tab.setViewport({ width: 390, height: 844, isMobile: true, deviceScaleFactor: 2 });
  await tab.screenshot({ path: path.join(out, `${name}-phone.png`) });
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  await tab.close();
  console.log(`${name}: ${bytes} bytes, drawn in ${drawn.toFixed(0)} ms, ${printed} pages in print, ${wide} px too wide on a phone`);
  faults.forEach((fault) => console.log(`  axe, ${fault}`));
  return bytes < BYTES && drawn < MILLISECONDS && !faults.some((fault) => fault.includes("color-contrast"));
}

(async () => {
  fs.mkdirSync(out, { recursive: true });
  const browser = await puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox"] });
  let good = true;
  for (const page of pages) {
    good = (await look(browser, page)) && good;
  }
  await browser.close();
  process.exit(good ? 0 : 1);
})();
