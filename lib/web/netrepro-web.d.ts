/** An experiment as text or as an object: what `json.dumps(netrepro.simulation.described.describe(experiment))` wrote. */
export type Described = string | object;

export interface RunOptions {
  /** Called with the share of simulated time that has passed, 0 to 1. */
  progress?: (share: number) => void;
  /** Ends the run: `run` then rejects with an AbortError. */
  signal?: AbortSignal | null;
  /** Run in a Web Worker, which is the default where there are any. */
  inWorker?: boolean;
}

/** Columns of one length; numbers are typed arrays, names are lists of strings. */
export type Table = Record<string, ArrayLike<number> | ArrayLike<string>>;

/** Which rows of a table are read, which column of them, and what is made of it, in this order. */
export interface Reading {
  /** "pings" are made of a port's recorded packets: how long a packet would wait that came every `every_ms`. */
  table: "flows" | "links" | "queues" | "windows" | "packets" | "pings" | "deliveries" | "requests";
  column: string;
  every_ms?: number;
  /** Rows of a port, (from, to), or of several: of links, queues and packets. */
  port?: [string, string] | [string, string][] | null;
  /** Rows of flows with this label, a label with this end, or this congestion control. */
  label?: string | null;
  label_end?: string | null;
  control?: string | null;
  /** Rows from this time on, and until this time. */
  from_s?: number;
  until_s?: number;
  /** Rows between two times after their flow's start (s). */
  since_start?: [number, number];
  /** Rows in whose column the value is in this range, its ends included. */
  where?: { column: string; least?: number; most?: number };
  /** Make one number (as `reduce` does) of the rows with the same value in the column `by`. */
  by?: string;
  each?: string;
  /** "mean" (the default), "sum", "count", "deviation", "least", "most", "jain", or a percentile: "p50". */
  reduce?: string;
  /** Subtract another reading. */
  less?: Reading;
  /** Divide by the sum of these columns. */
  of?: string | string[];
  /** Divide by another reading. */
  over?: Reading;
  /** Divide by the seconds that count. */
  a_second?: boolean;
  times?: number;
}

/** What a run has measured; tables have the columns of Python's `Measurements`. */
export declare class Result {
  readonly description: object;
  /** The core's own columns, by name: "queues.time_s", "flows.completion_s", ... */
  readonly columns: Record<string, Float64Array>;
  readonly seconds: number;
  readonly flows: Table;
  readonly links: Table;
  readonly queues: Table;
  readonly windows: Table;
  readonly deliveries: Table;
  readonly requests: Table;
  packets(port: [string, string]): Table;
  /** The number of the link that leaves a node towards its neighbour. Throws where there is none. */
  link(port: [string, string]): number;
  rows(which: Omit<Reading, "column">): Table;
  read(reading: Reading): number;
}

/** Runs an experiment. The same description gives the same bytes as in Python. Rejects with what is wrong in it. */
export declare function run(description: Described, options?: RunOptions): Promise<Result>;
