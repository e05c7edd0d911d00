// Runs experiments in WebAssembly: in a worker where there are workers, else here. startCore() gives a function that
// loads the compiled core; it is put in front of this file when the package is made.

const EVENTS_AT_A_TIME = 1 << 16;

// Runs a description to its end, in pieces. Resolves to {name: Float64Array}, or to null where it was cancelled.
async function runIn(core, text, eventsAtATime, progress, isCancelled) {
  const bytes = core.lengthBytesUTF8(text) + 1;
  const place = core._malloc(bytes);
  core.stringToUTF8(text, place, bytes);
  const run = core._netrepro_open(place);
  core._free(place);
  const problem = () => new Error(core.UTF8ToString(core._netrepro_problem()));
  if (!run) throw problem();
  try {
    for (let state = 0; state !== 1; ) {
      state = core._netrepro_run(run, eventsAtATime);
      if (state < 0) throw problem();
      progress(core._netrepro_share(run));
      await new Promise((go) => setTimeout(go, 0)); // lets a message come in, or a page draw
      if (isCancelled()) return null;
    }
    const count = core._netrepro_columns(run);
    if (count < 0) throw problem();
    const columns = {};
    for (let i = 0; i < count; ++i) {
      const first = core._netrepro_values(run, i) / 8;
      const name = core.UTF8ToString(core._netrepro_name(run, i));
      columns[name] = core.HEAPF64.slice(first, first + core._netrepro_size(run, i));
    }
    return columns;
  } finally {
    core._netrepro_close(run);
  }
}

// All that a worker does; its text is the worker's script.
function beWorker(startCore, runIn) {
  const loaded = startCore()();
  let cancelled = -1;
  self.onmessage = async ({ data }) => {
    if (data.cancel !== undefined) {
      cancelled = Math.max(cancelled, data.cancel);
      return;
    }
    const { id, text, events } = data;
    let told = 0;
    const progress = (share) => {
      if (Date.now() - told < 40) return;
      told = Date.now();
      self.postMessage({ id, share });
    };
    try {
      const columns = await runIn(await loaded, text, events, progress, () => cancelled >= id);
      const buffers = columns ? Object.values(columns).map((column) => column.buffer) : [];
      self.postMessage({ id, columns }, buffers);
    } catch (error) {
      self.postMessage({ id, problem: error.message });
    }
  };
}

let worker = null;
let coreHere = null;
let runs = 0;
const waiting = new Map();

function theWorker() {
  if (worker) return worker;
  const script = `(${beWorker})(${startCore}, ${runIn})`;
  const address = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  worker = new Worker(address);
  worker.onmessage = ({ data }) => {
    const run = waiting.get(data.id);
    if (!run) return;
    if (data.share !== undefined) return run.progress(data.share);
    waiting.delete(data.id);
    if (data.problem) run.reject(new Error(data.problem));
    else run.resolve(data.columns);
  };
  return worker;
}

const cancelledError = () => new DOMException("the run was cancelled", "AbortError");

/** See netrepro-web.d.ts. */
async function run(description, { progress = () => {}, signal = null, inWorker = typeof Worker === "function" } = {}) {
  const text = typeof description === "string" ? description : JSON.stringify(description);
  const described = typeof description === "string" ? JSON.parse(description) : description;
  if (signal?.aborted) throw cancelledError();
  let columns;
  if (inWorker) {
    const id = runs++;
    signal?.addEventListener("abort", () => theWorker().postMessage({ cancel: id }), { once: true });
    columns = await new Promise((resolve, reject) => {
      waiting.set(id, { resolve, reject, progress });
      theWorker().postMessage({ id, text, events: EVENTS_AT_A_TIME });
    });
  } else {
    coreHere ??= startCore()();
    columns = await runIn(await coreHere, text, EVENTS_AT_A_TIME, progress, () => Boolean(signal?.aborted));
  }
  if (columns === null) throw cancelledError();
  progress(1);
  return new Result(described, columns);
}
