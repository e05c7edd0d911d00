// A paper's live page: tabs, sliders, a picture and gauges. The page holds a description of its data in #data; node
// loads the first functions alone, to compare what they give with Python.
"use strict";

// The described experiment of a case with each slider at a place, and how its gauges read it.
function asked(one, [first, ...places]) {
  const { base, alone, more } = one.at[first];
  const text = structuredClone(base);
  const put = (patch) => {
    for (const [path, value] of patch) {
      let at = text;
      for (const step of path.slice(0, -1)) at = at[step];
      at[path.at(-1)] = structuredClone(value);
    }
  };
  places.forEach((place, knob) => put(alone[knob][place]));
  put(more[places.join(",")] ?? []);
  return text;
}

function numbersOf(gauges, result) {
  return Object.fromEntries(Object.entries(gauges).map(([name, reading]) => [name, result.read(reading)]));
}

if (typeof module === "object" && module.exports) module.exports = { asked, numbersOf };

function play(data) {
  const state = { tab: data.tabs[0], broken: false, places: data.knobs.map((knob) => knob.first) };
  const theCase = () => (state.broken && data.broken[state.tab]) || state.tab;
  const values = () => data.knobs.map((knob, i) => [knob.name, knob.values[state.places[i]]]);

  // The link of a page holds its settings.
  function readLink() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (data.tabs.includes(given.get("case"))) state.tab = given.get("case");
    state.broken = given.get("broken") === "1" && state.tab in data.broken;
    data.knobs.forEach((knob, i) => {
      const place = knob.values.findIndex((value) => String(value) === given.get(knob.name));
      if (place >= 0) state.places[i] = place;
    });
  }
  // In a notebook's page: a frame without an address, as high as what it shows.
  const isInside = location.protocol === "about:";
  if (isInside)
    new ResizeObserver(() => (frameElement.style.height = `${document.body.offsetHeight + 48}px`)).observe(document.body);
  function writeLink() {
    if (isInside) return;
    const told = new URLSearchParams({ case: state.tab, ...(state.broken ? { broken: 1 } : {}) });
    for (const [name, value] of values()) told.set(name, value);
    history.replaceState(null, "", `#${told}`);
  }

  const tabs = data.tabs.map((name) => {
    const tab = element("button", { type: "button", role: "tab", textContent: name });
    tab.onclick = () => {
      state.tab = name;
      state.broken = false;
      changed();
    };
    return tab;
  });
  byId("tabs").append(...tabs);
  const control = element("input", { type: "checkbox", id: "broken" });
  control.onchange = () => {
    state.broken = control.checked;
    changed();
  };
  const controlName = element("span");
  const controlLabel = element("label", {}, control, " break it: ", controlName);
  byId("control").append(controlLabel);

  const sliders = data.knobs.map((knob, i) => {
    const input = element("input", { type: "range", min: 0, max: knob.values.length - 1, step: 1, id: knob.name });
    const shown = element("output", { htmlFor: knob.name });
    input.oninput = () => {
      state.places[i] = Number(input.value);
      changed();
    };
    byId("knobs").append(element("label", {}, element("span", { textContent: knob.label }), input, shown));
    return { input, shown, knob };
  });

  function showState() {
    tabs.forEach((tab) => tab.setAttribute("aria-selected", String(tab.textContent === state.tab)));
    const broken = data.broken[state.tab];
    controlLabel.hidden = !broken;
    controlName.textContent = broken ?? "";
    control.checked = state.broken;
    const one = data.cases[theCase()];
    sliders.forEach(({ input, shown, knob }, i) => {
      const value = knob.values[state.places[i]];
      input.value = state.places[i];
      input.disabled = !one.moves[i]; // the case does not depend on it
      shown.textContent = `${words(value)} ${knob.unit}`.trim();
      input.setAttribute("aria-valuetext", shown.textContent);
    });
    const all = [...Object.entries(data.changes), ...values()].filter(([name]) => one.takes.includes(name));
    const named = all.map(([name, value]) => `, ${name}=${python(value)}`);
    byId("python").textContent =
      `from netrepro.papers import ${data.slug}\n` +
      `from netrepro.study import run_once\n\n` +
      `run = run_once(${data.slug}.STUDY, ${JSON.stringify(theCase())}, ${data.seconds}${named.join("")})`;
  }
  const python = (value) =>
    typeof value === "boolean" ? (value ? "True" : "False") : typeof value === "string" ? JSON.stringify(value) : value;

  // A gauge: its value, what is published in grey, and the accepted band of the claims about it.
  function drawGauges(numbers) {
    const of = (gauge) => data.claims.filter((claim) => claim.gauge === gauge.name && claim.case === state.tab);
    byId("gauges").replaceChildren(
      ...data.gauges.map((gauge) => {
        const value = numbers[gauge.name];
        const box = element("div", { className: "gauge" });
        const share = gauge.unit === "share";
        const told = share ? `${words(100 * value)} %` : `${words(value)} ${gauge.unit}`;
        box.append(
          element("div", { className: "name", textContent: gauge.label }),
          element("div", { className: "value", id: `gauge-${gauge.name}`, textContent: Number.isNaN(value) ? "none" : told }),
        );
        box.dataset.value = value;
        for (const claim of of(gauge)) box.append(...claimLines(claim, value));
        return box;
      }),
    );
  }
  function claimLines(claim, value) {
    const [low, high] = claim.band;
    const most = 1.15 * Math.max(...[value, claim.published, low, high, claim.decided].filter(Number.isFinite));
    const at = (number) => `${Math.max(0, Math.min(100, (100 * number) / most))}%`;
    const bar = element("div", { className: "bar" });
    const band = element("i", { className: "band", title: "accepted" });
    band.style.left = at(low ?? 0);
    band.style.right = `${100 - parseFloat(at(high ?? most))}%`;
    const marks = [["published", claim.published], ["now", value]].map(([name, number]) => {
      const mark = element("i", { className: name, title: `${name}: ${words(number)}` });
      mark.style.left = at(number);
      return mark;
    });
    bar.append(band, ...marks);
    const decided = claim.decided === null ? "" : `, which found ${words(claim.decided)}`;
    return [
      bar,
      element("small", {
        textContent: `published, in grey: ${words(claim.published)} (${claim.where}); accepted ${words(low ?? 0)} to ${high === null ? "any" : words(high)}. ` +
          `Verdict: ${claim.verdict}, by the run on tier ${claim.by}${decided}. This page is a play.`,
      }),
    ];
  }

  // What is published about the column that is drawn, as a grey line.
  function drawPublished(plot) {
    const { course } = data.cases[theCase()];
    const { gauges } = last.asked;
    const told = data.claims.filter(({ gauge, case: of }) => {
      const { table, column, reduce = "mean" } = gauges[gauge];
      return of === state.tab && table === course.table && column === course.column && /^mean$|^p/.test(reduce);
    });
    const { left, width } = plot.bbox;
    plot.ctx.save();
    plot.ctx.lineWidth = 3 * devicePixelRatio;
    plot.ctx.strokeStyle = "#bbb";
    for (const { published } of course.distribution ? [] : told) {
      const height = plot.valToPos(published, "y", true);
      plot.ctx.beginPath();
      plot.ctx.moveTo(left, height);
      plot.ctx.lineTo(left + width, height);
      plot.ctx.stroke();
    }
    plot.ctx.restore();
  }

  function drawCourse(result) {
    const one = data.cases[theCase()];
    const rows = result.rows(one.course);
    const times = one.course.times ?? 1;
    const { distribution } = one.course;
    const flows = rows.flow && one.course.table === "windows" ? [...new Set(rows.flow)].slice(0, 5) : [null];
    const lines = (distribution ? [] : flows).map((flow) => {
      const chosen = rows.time_s.map((_, row) => row).filter((row) => flow === null || rows.flow[row] === flow);
      return [chosen.map((row) => rows.time_s[row]), chosen.map((row) => rows[one.course.column][row] * times)];
    });
    const values = distribution ? rows[one.course.column].filter((value) => value > 0).sort((a, b) => a - b) : [];
    const shares = values.map((_, place) => (place + 1) / values.length);
    const table = distribution ? [values, shares] : lines.length > 1 ? uPlot.join(lines) : lines[0];
    picture(byId("course"), table, {
      x: distribution ? data.axis : "time (s)",
      y: distribution ? "share up to this value" : data.axis,
      logarithmic: distribution,
      hooks: { drawClear: [drawPublished] },
    });
  }

  let last = null;
  function changed() {
    showState();
    writeLink();
    let one;
    runShown(
      () => (one = asked(data.cases[theCase()], state.places)).described,
      (result) => {
        last = { asked: one, result };
        drawCourse(result);
        drawGauges(numbersOf(one.gauges, result));
      },
    );
  }

  byId("copy").onclick = () => navigator.clipboard.writeText(byId("python").textContent);
  byId("save").onclick = () => {
    if (!last) return;
    saveAs(`${data.slug}.json`, "application/json", JSON.stringify(last.asked.described));
  };
  addEventListener("resize", () => last && drawCourse(last.result));
  addEventListener("hashchange", () => {
    readLink();
    changed();
  });
  readLink();
  changed();
}

if (typeof document === "object") pageData().then(play);
