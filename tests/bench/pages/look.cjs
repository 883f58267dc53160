// Opens pages in headless Chromium: their size, the time to draw them, what axe finds, texts that overlap or are small,
// and screenshots.
//
//   NODE_PATH=…/node_modules node tests/bench/pages/look.cjs CHROMIUM OUT PAGE.html…
//
// NODE_PATH has puppeteer-core and axe-core. A page must stay below 2 MB and 2 s, axe must find no contrast fault in light
// and dark, no two texts of a picture may overlap, and at 390 px no text may be smaller than 11 px and the page must not
// scroll sideways; otherwise the exit code is 1. OUT gets NAME.png (the first screen), NAME-dark.png, NAME-whole.png,
// NAME-open.png (all sections open), NAME-phone.png, NAME-phone-whole.png, NAME-print.png and NAME.pdf.
const fs = require("fs");
const path = require("path");
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [chromium, out, ...pages] = process.argv.slice(2);
const BYTES = 2e6;
const MILLISECONDS = 2000;
const SMALLEST = 11;

// What is drawn: the smallest letters, in CSS pixels as they are on the screen, and the texts of pictures that overlap.
function texts() {
  let smallest = [Infinity, ""];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const words = walker.currentNode.textContent.trim();
    const box = parent.getBoundingClientRect();
    if (!words || parent.closest("title") || box.width === 0 || !parent.checkVisibility()) continue;
    const svg = parent.closest("svg");
    const view = svg && svg.viewBox.baseVal;
    const scale = view && view.width ? svg.getBoundingClientRect().width / view.width : 1;
    const size = parseFloat(getComputedStyle(parent).fontSize) * scale;
    if (size < smallest[0]) smallest = [size, words];
  }
  const overlaps = [];
  for (const svg of document.querySelectorAll("svg")) {
    const boxes = [...svg.querySelectorAll("text")].map((text) => [text.getBoundingClientRect(), text.textContent]);
    const whole = svg.getBoundingClientRect();
    boxes.forEach(([a, name], at) => {
      if (a.width === 0) return;
      if (a.left < whole.left - 1 || a.right > whole.right + 1) overlaps.push(`cut off: ${name}`);
      for (const [b, other] of boxes.slice(at + 1)) {
        // The box of a line is taller than its letters.
        const [across, down] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
        if (across > 1 && down > 0.3 * Math.min(a.height, b.height)) overlaps.push(`${name} | ${other}`);
      }
    });
  }
  return { smallest, overlaps };
}

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
  await tab.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = true)));
  const desk = await tab.evaluate(texts);
  await tab.screenshot({ path: path.join(out, `${name}-open.png`), fullPage: true });
  await tab.reload();
  await tab.screenshot({ path: path.join(out, `${name}-whole.png`), fullPage: true });
  await tab.pdf({ path: path.join(out, `${name}.pdf`), format: "A4", printBackground: true });
  const printed = (fs.readFileSync(path.join(out, `${name}.pdf`), "latin1").match(/\/Type\s*\/Page[^s]/g) || []).length;
  await tab.emulateMediaType("print");
  await tab.setViewport({ width: 702, height: 1000 });
  await tab.screenshot({ path: path.join(out, `${name}-print.png`), fullPage: true });
  await tab.emulateMediaType("screen");
  await tab.setViewport({ width: 390, height: 844, isMobile: true, deviceScaleFactor: 2 });
  await tab.screenshot({ path: path.join(out, `${name}-phone.png`) });
  await tab.screenshot({ path: path.join(out, `${name}-phone-whole.png`), fullPage: true });
  await tab.evaluate(() => document.querySelectorAll("details").forEach((it) => (it.open = true)));
  const wide = await tab.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  const phone = await tab.evaluate(texts);
  await tab.close();
  console.log(`${name}: ${bytes} bytes, drawn in ${drawn.toFixed(0)} ms, ${printed} pages in print, ${wide} px too wide on a phone`);
  for (const [where, seen] of [["1280 px", desk], ["390 px", phone]]) {
    console.log(`  ${where}: least text ${seen.smallest[0].toFixed(1)} px (${seen.smallest[1].slice(0, 30)}), ${seen.overlaps.length} overlaps`);
    seen.overlaps.slice(0, 12).forEach((overlap) => console.log(`    ${overlap}`));
  }
  faults.forEach((fault) => console.log(`  axe, ${fault}`));
  const isReadable = wide <= 0 && phone.smallest[0] >= SMALLEST - 0.05 && !desk.overlaps.length && !phone.overlaps.length;
  return isReadable && bytes < BYTES && drawn < MILLISECONDS && !faults.some((fault) => fault.includes("color-contrast"));
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
