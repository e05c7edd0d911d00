// A network of the reader's own: choices, a run, pictures, and the same as a Python script. The page holds parts of
// descriptions, made by netrepro.workbench.own_network; node loads the first functions alone, to compare them with Python.
"use strict";

// The described experiment of the choices.
function ownExperiment(data, chosen) {
  const { described, roles } = data.shapes[chosen.topology].of[chosen.flows];
  const text = structuredClone(described);
  const rate = data.rates[data.values.rate_mbps.indexOf(chosen.rate_mbps)];
  const delayS = data.delays_s[data.values.delay_ms.indexOf(chosen.delay_ms)];
  const queue = data.queues[chosen.queue].of[chosen.packets];
  const calls = text.set_up.filter(([method]) => method === "add_link");
  const { cables } = text.experiment.topology;
  roles.forEach((role, port) => {
    const call = calls[port];
    const link = cables[port >> 1][port % 2 ? "backward" : "forward"];
    const isAccess = role === "access";
    call[1].rate = isAccess ? rate.access : rate.inner;
    link.rate_mbps = isAccess ? rate.access_mbps : chosen.rate_mbps;
    if (call[1].host_delay_s > 0) call[1].host_delay_s = rate.host_delay_s;
    if (isAccess) return;
    call[1].delay_s = delayS;
    link.delay_ms = chosen.delay_ms;
    if (role !== "inner") return;
    [call[2], call[3], call[1].room] = [queue.rule, queue.numbers, queue.room];
    link.queue = queue.described;
  });
  const [, simulator] = text.set_up[0];
  simulator.duration_s = text.experiment.duration_s = chosen.seconds;
  const [, flows] = text.set_up.find(([method]) => method === "add_flows");
  const bytes = chosen.flow_kb * 1000;
  const controls = text.experiment.traffic.map((_, i) => (i % 2 ? chosen.other_control : chosen.control));
  flows.controls = [...new Set(controls)];
  text.experiment.traffic.forEach((flow, i) => {
    const lastsS = chosen.seconds - flow.start_s;
    flow.congestion_control = text.flows.congestion_control[i] = controls[i];
    flows.control[i] = flows.controls.indexOf(controls[i]);
    flow.size_bytes = bytes || null;
    flow.duration_s = text.flows.duration_s[i] = bytes ? null : lastsS;
    flows.size_bytes[i] = bytes;
    flows.duration_s[i] = bytes ? 0 : lastsS;
  });
  return text;
}

// The same experiment as a Python script.
function ownScript(data, chosen) {
  const shape = data.shapes[chosen.topology];
  const { described, pairs, ports, roles } = shape.of[chosen.flows];
  const fill = (text) =>
    text.replaceAll("{flows}", chosen.flows).replaceAll("{hosts}", chosen.flows + 1).replaceAll("{packets}", chosen.packets);
  const flows = pairs.map(([source, destination], i) => {
    const startS = described.flows.start_s[i];
    const lasts = chosen.flow_kb ? `size_bytes=${chosen.flow_kb * 1000}` : `duration_s=${chosen.seconds - startS}`;
    const control = i % 2 ? chosen.other_control : chosen.control;
    return `    Flow("${source}", "${destination}", ${lasts}, start_s=${startS}, congestion_control="${control}"),`;
  });
  const { measure, seed, host_delay_packets } = described.experiment;
  const access = described.experiment.topology.cables[roles.indexOf("access") >> 1]?.forward;
  const rate = data.rates[data.values.rate_mbps.indexOf(chosen.rate_mbps)];
  const body = `link = Link(${chosen.rate_mbps}, ${chosen.delay_ms}, ${fill(data.queues[chosen.queue].written)})
${roles.includes("access") ? `access = Link(${rate.access_mbps}, ${access.delay_ms})\n` : ""}${fill(shape.written)}
flows = [
${flows.join("\n")}
]
measure = Measure(
    queues=[${ports.map(([from, to]) => `("${from}", "${to}")`).join(", ")}],
    queue_interval_ms=${measure.queue_interval_ms},
    windows_interval_ms=${measure.windows_interval_ms},
    deliveries=range(${chosen.flows}),
)
experiment = Experiment(
    network, flows, ${chosen.seconds}, seed=${seed}, measure=measure, host_delay_packets=${host_delay_packets}
)
run = simulate(experiment)
print(run.flows[["source", "destination", "congestion_control", "goodput_mbps", "completion_ms"]])
`;
  const names = new Set(body.match(/\b[A-Za-z_]+(?=\()/g));
  const known = "Cable CoDel DropTail Experiment Flow FqCoDel Link Measure Pie Red Topology dumbbell fat_tree host_cable star";
  const used = known.split(" ").filter((name) => names.has(name));
  return `from netrepro.networks import ${used.join(", ")}\nfrom netrepro.simulation import simulate\n\n${body}`;
}

if (typeof module === "object" && module.exports) module.exports = { ownExperiment, ownScript };

function build(data) {
  const labels = {
    topology: "topology",
    flows: "flows",
    rate_mbps: "links' rate (Mb/s)",
    delay_ms: "links' delay (ms)",
    queue: "queue",
    packets: "its size (packets)",
    control: "congestion control",
    other_control: "of every second flow",
    flow_kb: "size of a flow (kB)",
    seconds: "time (s)",
  };
  const fields = Object.fromEntries(
    Object.entries(data.values).map(([name, values]) => {
      const options = values.map((value, place) =>
        element("option", { value: place, textContent: name === "flow_kb" && value === 0 ? "endless" : value }),
      );
      const field = element("select", { id: `choose-${name}` }, ...options);
      byId("choices").append(element("label", {}, element("span", { textContent: labels[name] }), field));
      return [name, field];
    }),
  );
  const choose = (chosen) => {
    for (const [name, field] of Object.entries(fields)) {
      const place = data.values[name].findIndex((value) => String(value) === String(chosen[name]));
      field.value = place >= 0 ? place : data.values[name].indexOf(data.first[name]);
    }
  };
  const choice = () =>
    Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, data.values[name][Number(field.value)]]));
  const readLink = () => choose(Object.fromEntries(new URLSearchParams(location.hash.slice(1))));

  function draw({ chosen, result }) {
    const { pairs, ports } = data.shapes[chosen.topology].of[chosen.flows];
    const flowNames = pairs.map(([from, to]) => `${from} to ${to}`);
    // Delivered bytes in fifty equal times.
    const width = chosen.seconds / 50;
    const times = Array.from({ length: 50 }, (_, i) => (i + 1) * width);
    const rates = pairs.map(() => times.map(() => 0));
    const { flow, time_s, delivered_bytes } = result.deliveries;
    const before = pairs.map(() => 0);
    flow.forEach((of, row) => {
      const bin = Math.min(49, Math.floor(time_s[row] / width));
      rates[of][bin] += ((delivered_bytes[row] - before[of]) * 8e-6) / width;
      before[of] = delivered_bytes[row];
    });
    picture(byId("throughput"), [times, ...rates], { x: "time (s)", y: "throughput (Mb/s)", names: flowNames });
    const queues = ports.map((port) => result.rows({ table: "queues", port }));
    picture(byId("queue"), [queues[0].time_s, ...queues.map((rows) => rows.queue_packets)], {
      x: "time (s)",
      y: "queue (packets)",
      names: ports.map(([from, to]) => `${from} to ${to}`),
    });
    byId("endless").textContent = chosen.flow_kb ? "" : "These flows last to the end. Choose a size to see when they complete.";
    byId("completion").hidden = !chosen.flow_kb;
    const numbers = pairs.map((_, i) => i + 1);
    const completed = Array.from(result.flows.completion_ms, (each) => (Number.isNaN(each) ? null : each));
    if (chosen.flow_kb)
      picture(byId("completion"), [numbers, completed], {
        x: "flow",
        y: "completion (ms)",
        xScale: { range: [0.5, numbers.length + 0.5] },
        series: { paths: uPlot.paths.bars({ size: [0.5, 60] }), fill: COLOURS[0] },
      });
    const columns = ["congestion_control", "goodput_mbps", "completion_ms", "retransmitted_packets"];
    const head = ["flow", "control", "goodput (Mb/s)", "completion (ms)", "sent again (packets)"];
    const shown = (value) => (Number.isNaN(value) ? "–" : words(value));
    byId("results").replaceChildren(
      element("tr", {}, ...head.map((text) => element("th", { textContent: text }))),
      ...flowNames.map((name, i) => {
        const cells = columns.map((column) => {
          const cell = element("td", { textContent: shown(result.flows[column][i]) });
          cell.dataset.value = result.flows[column][i];
          return cell;
        });
        return element("tr", {}, element("td", { textContent: name }), ...cells);
      }),
    );
  }

  let last = null;
  function run() {
    const chosen = choice();
    history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
    byId("python").textContent = ownScript(data, chosen);
    runShown(
      () => ownExperiment(data, chosen),
      (result) => draw((last = { chosen, result })),
    );
  }

  byId("run").onclick = run;
  byId("download").onclick = () => saveAs("network.py", "text/x-python", ownScript(data, choice()));
  addEventListener("resize", () => last && draw(last));
  addEventListener("hashchange", () => {
    readLink();
    run();
  });
  readLink();
  run();
}

if (typeof document === "object") pageData().then(build);
