// What a run has measured, as tables of columns with the names that Python's `Measurements` have.

class Result {
  constructor(description, columns) {
    this.description = description;
    this.columns = columns;
    const [[, simulator]] = description.set_up;
    this.seconds = simulator.duration_s;
    this.sinceS = description.set_up.find(([method]) => method === "count_since")?.[1] ?? 0;
  }

  // The number of the link that leaves a node towards its neighbour.
  link(port) {
    const link = this.description.ports.findIndex(([from, to]) => from === port[0] && to === port[1]);
    if (link < 0) throw new Error(`no link from ${port[0]} to ${port[1]}`);
    return link;
  }

  // A core's table, without what was counted before the run counts.
  #counted(table) {
    const counted = {};
    for (const [name, column] of Object.entries(this.columns)) {
      if (!name.startsWith(`${table}.`)) continue;
      const short = name.slice(table.length + 1);
      const before = short === "completion_s" || short === "connected_s" ? undefined : this.columns[`before.${name}`];
      counted[short] = before ? column.map((value, row) => value - before[row]) : column;
    }
    return counted;
  }

  // A core's table of samples, from when the run counts on.
  #sampled(table) {
    const sampled = this.#counted(table);
    if (!(this.sinceS > 0)) return sampled;
    const counts = (_, row) => sampled.time_s[row] >= this.sinceS;
    return Object.fromEntries(Object.entries(sampled).map(([name, column]) => [name, column.filter(counts)]));
  }

  get flows() {
    const measured = this.#counted("flows");
    const given = this.description.flows;
    const startAfter = new Map(this.description.start_after);
    const starts = given.start_s.map((start, flow) =>
      startAfter.has(flow) ? measured.completion_s[startAfter.get(flow)] : start,
    );
    const flows = { ...given, start_s: starts };
    for (const name of ["delivered_bytes", "retransmitted_packets", "timeouts", "connection_attempts"])
      flows[name] = measured[name];
    flows.completion_ms = measured.completion_s.map((completion, flow) => (completion - starts[flow]) * 1e3);
    flows.connected_ms = measured.connected_s.map((connected, flow) => (connected - starts[flow]) * 1e3);
    flows.goodput_mbps = measured.completion_s.map((completion, flow) => {
      const datagrams = given.transport[flow] === "datagrams";
      const stop = datagrams ? Math.min(starts[flow] + given.duration_s[flow], this.seconds) : this.seconds;
      const lasted = (Number.isNaN(completion) ? stop : completion) - Math.max(starts[flow], this.sinceS);
      const bytes = (datagrams ? measured.bytes_within_duration : measured.delivered_bytes)[flow];
      return lasted > 0 ? (bytes * 8) / 1e6 / lasted : NaN;
    });
    return flows;
  }

  get links() {
    const links = this.#counted("links");
    links.source = this.description.ports.map(([source]) => source);
    links.destination = this.description.ports.map(([, destination]) => destination);
    links.utilisation = links.busy_s.map((busy) => busy / (this.seconds - this.sinceS));
    return links;
  }

  get queues() {
    return this.#sampled("queues");
  }

  get windows() {
    const windows = this.#sampled("windows");
    const [, given] = this.description.set_up.find(([method]) => method === "add_flows");
    const segment = (flow) => given.tcps[given.tcp[flow] ?? 0].segment_bytes;
    windows.window_bytes = windows.window_segments.map((segments, row) => segments * segment(windows.flow[row]));
    windows.in_flight_bytes = windows.in_flight_segments.map(
      (segments, row) => segments * segment(windows.flow[row]),
    );
    windows.round_trip_ms = windows.round_trip_s.map((seconds) => (seconds > 0 ? seconds * 1e3 : NaN));
    return windows;
  }

  // The packets that left a port whose packets are recorded.
  packets(port) {
    const table = `departures.${this.link(port)}`;
    if (!this.columns[`${table}.time_s`]) throw new Error(`the packets of ${port.join(" to ")} are not recorded`);
    const packets = this.#sampled(table);
    packets.wait_ms = packets.wait_s.map((seconds) => seconds * 1e3);
    return packets;
  }

  get deliveries() {
    return this.#counted("deliveries");
  }

  get requests() {
    const requests = this.#counted("requests");
    requests.completion_ms = requests.answered_s.map((answered, row) => (answered - requests.asked_s[row]) * 1e3);
    return requests;
  }

  // The rows of a table that fit, as {name: array}: those of a port, of flows with a label or a congestion control, and
  // from a time on.
  rows({ table, port = null, label = null, control = null, from_s = 0 }) {
    const all = table === "packets" ? this.packets(port) : this[table];
    if (!all) throw new Error(`no table ${table}`);
    const names = Object.keys(all).filter((name) => all[name] !== undefined);
    const count = names.length ? all[names[0]].length : 0;
    const { label: labels, congestion_control: controls } = this.description.flows;
    const flowOf = (row) => (table === "flows" ? row : all.flow[row]);
    const link = port && table !== "packets" ? this.link(port) : null;
    const fits = (row) =>
      (link === null || (table === "links" ? row : all.link[row]) === link) &&
      (label === null || labels[flowOf(row)] === label) &&
      (control === null || controls[flowOf(row)] === control) &&
      !(from_s > 0 && all.time_s[row] < from_s);
    const kept = [];
    for (let row = 0; row < count; ++row) if (fits(row)) kept.push(row);
    return Object.fromEntries(names.map((name) => [name, kept.map((row) => all[name][row])]));
  }

  // One number: a column of the rows that fit, reduced and multiplied by `times`; a share where `of` names what it is a
  // share of (a column, or several that add up).
  read(reading) {
    const rows = this.rows(reading);
    const values = rows[reading.column].filter((value) => !Number.isNaN(value));
    let number = reduced(values, reading.reduce ?? "mean");
    if (reading.of) number /= [reading.of].flat().reduce((sum, name) => sum + reduced(rows[name], "sum"), 0);
    if (reading.a_second) number /= this.seconds - Math.max(this.sinceS, reading.from_s ?? 0);
    return number * (reading.times ?? 1);
  }
}

// Percentiles are linear between two values, as NumPy's are.
function reduced(values, how) {
  const sum = (numbers) => numbers.reduce((all, each) => all + each, 0);
  const mean = (numbers) => sum(numbers) / numbers.length;
  if (how === "sum") return sum(values);
  if (how === "count") return values.length;
  if (values.length === 0) return NaN;
  if (how === "mean") return mean(values);
  if (how === "least") return values.reduce((a, b) => Math.min(a, b));
  if (how === "most") return values.reduce((a, b) => Math.max(a, b));
  if (how === "deviation") {
    const middle = mean(values);
    return Math.sqrt(mean(values.map((value) => (value - middle) ** 2)));
  }
  if (how === "jain") return sum(values) ** 2 / (values.length * sum(values.map((value) => value ** 2)));
  const share = /^p(\d+)$/.exec(how);
  if (!share) throw new Error(`no reduction ${how}`);
  const sorted = Float64Array.from(values).sort();
  const place = (Number(share[1]) / 100) * (sorted.length - 1);
  const low = Math.floor(place);
  return sorted[low] + (place - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}
