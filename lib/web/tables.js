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
    const [, { size_bytes }] = this.description.set_up.find(([method]) => method === "add_flows");
    const flows = { ...given, start_s: starts, size_bytes: size_bytes.map((size) => (size > 0 ? size : NaN)) };
    for (const name of ["delivered_bytes", "retransmitted_packets", "timeouts", "connection_attempts"])
      flows[name] = measured[name];
    flows.completion_ms = measured.completion_s.map((completion, flow) => (completion - starts[flow]) * 1e3);
    // Where a flow is not complete, the time that it has had.
    flows.lasted_ms = measured.completion_s.map(
      (completion, flow) => ((Number.isNaN(completion) ? this.seconds : completion) - starts[flow]) * 1e3,
    );
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

  // How long a packet would wait at a port that came at a time, every so many milliseconds: time_s, wait_ms. The
  // packet that is being sent counts, and idle time too.
  pings(port, from_s, every_ms) {
    const { time_s, size_bytes, wait_ms } = this.packets(port);
    const links = this.description.set_up.filter(([method]) => method === "add_link");
    const bitsPerSecond = links[this.link(port)][1].rate;
    const pings = { time_s: [], wait_ms: [] };
    const count = Math.ceil(((time_s.at(-1) ?? from_s) - from_s) / (every_ms / 1e3));
    let left = -Infinity;
    for (let i = 0, packet = 0; i < count; ++i) {
      const now = from_s + (i * every_ms) / 1e3;
      const entered = (at) => time_s[at] - (size_bytes[at] * 8) / bitsPerSecond - wait_ms[at] / 1e3;
      for (; packet < time_s.length && entered(packet) < now; ++packet) left = Math.max(left, time_s[packet]);
      pings.time_s.push(now);
      pings.wait_ms.push(Math.max(0, left - now) * 1e3);
    }
    return pings;
  }

  get deliveries() {
    return this.#counted("deliveries");
  }

  get requests() {
    const requests = this.#counted("requests");
    requests.completion_ms = requests.answered_s.map((answered, row) => (answered - requests.asked_s[row]) * 1e3);
    return requests;
  }

  // The rows of a table that fit, as {name: array}; see Reading in netrepro-web.d.ts.
  rows({ table, port, label, label_end, control, from_s = 0, until_s = Infinity, since_start, where, every_ms }) {
    const own = { packets: () => this.packets(port), pings: () => this.pings(port, from_s, every_ms) };
    const all = own[table] ? own[table]() : this[table];
    if (!all) throw new Error(`no table ${table}`);
    const names = Object.keys(all).filter((name) => all[name] !== undefined);
    const count = names.length ? all[names[0]].length : 0;
    const { label: labels, congestion_control: controls, start_s: starts } = this.description.flows;
    const flowOf = (row) => (table === "flows" ? row : all.flow[row]);
    const ports = port && !own[table] ? (Array.isArray(port[0]) ? port : [port]).map((each) => this.link(each)) : null;
    const timed = all.time_s !== undefined;
    const fits = (row) =>
      (!ports || ports.includes(table === "links" ? row : all.link[row])) &&
      (label == null || labels[flowOf(row)] === label) &&
      (label_end == null || labels[flowOf(row)].endsWith(label_end)) &&
      (control == null || controls[flowOf(row)] === control) &&
      !(timed && (all.time_s[row] < from_s || all.time_s[row] > until_s)) &&
      (!since_start ||
        (all.time_s[row] >= starts[flowOf(row)] + since_start[0] &&
          all.time_s[row] <= starts[flowOf(row)] + since_start[1])) &&
      (!where || !(all[where.column][row] < where.least || all[where.column][row] > where.most));
    const kept = [];
    for (let row = 0; row < count; ++row) if (fits(row)) kept.push(row);
    return Object.fromEntries(names.map((name) => [name, kept.map((row) => all[name][row])]));
  }

  // One number; see Reading in netrepro-web.d.ts.
  read(reading) {
    const { column, by, each, reduce = "mean", of, a_second, less, over, times = 1 } = reading;
    const rows = this.rows(reading);
    const counted = rows[column].map((_, row) => row).filter((row) => !Number.isNaN(rows[column][row]));
    const groups = new Map();
    for (const row of by ? counted : []) {
      const group = groups.get(rows[by][row]) ?? [];
      groups.set(rows[by][row], [...group, rows[column][row]]);
    }
    const values = by ? [...groups.values()].map((group) => reduced(group, each)) : counted.map((row) => rows[column][row]);
    let number = reduced(values, reduce);
    if (less) number -= this.read(less);
    if (of) number /= [of].flat().reduce((sum, name) => sum + reduced(rows[name], "sum"), 0);
    if (over) number /= this.read(over);
    if (a_second) number /= this.seconds - Math.max(this.sinceS, reading.from_s ?? 0);
    return number * times;
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
