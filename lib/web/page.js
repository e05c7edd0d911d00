// What live pages have in common: elements, words, pictures, and the data that a page holds.
"use strict";

// What the page holds, compressed.
async function pageData() {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const byId = (id) => document.getElementById(id);
const words = (value) =>
  typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 4 }) : String(value);

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999"];

// Draws columns over the first one in a box, in place of what is there. names : of the lines, for the legend.
function picture(box, table, { x, y, names = null, logarithmic = false, hooks = {}, series = {}, xScale = {} }) {
  box.replaceChildren();
  return new uPlot(
    {
      width: box.clientWidth,
      height: Math.min(360, Math.max(220, box.clientWidth * 0.45)),
      scales: {
        x: { time: false, ...(logarithmic ? { distr: 3 } : {}), ...xScale },
        y: { range: (_, __, most) => [0, most > 0 ? most * 1.05 : 1] },
      },
      axes: [{ label: x }, { label: y, size: 60 }],
      legend: { show: names !== null, live: false },
      hooks,
      cursor: { drag: { x: true, y: false } },
      series: [
        {},
        ...table.slice(1).map((_, i) => ({
          stroke: COLOURS[i % COLOURS.length],
          width: 1,
          spanGaps: true,
          ...(names ? { label: names[i] } : {}),
          ...series,
        })),
      ],
    },
    table,
    box,
  );
}

let running = null;

// Runs an experiment in place of the one under way, and tells how it goes. make : returns its description. draw : shows
// the result.
async function runShown(make, draw) {
  running?.abort();
  const own = (running = new AbortController());
  const began = performance.now();
  const bar = byId("progress");
  bar.value = 0;
  byId("status").textContent = "running …";
  try {
    const result = await netreproWeb.run(make(), { signal: own.signal, progress: (share) => (bar.value = share) });
    if (own.signal.aborted) return;
    draw(result);
    const took = (performance.now() - began) / 1e3;
    byId("status").textContent = `${words(result.seconds)} simulated seconds in ${took.toFixed(2)} s`;
    document.body.dataset.ran = location.hash;
  } catch (error) {
    if (error.name !== "AbortError") byId("status").textContent = `not run: ${error.message}`;
  }
}

function saveAs(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
