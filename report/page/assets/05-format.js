// Formatting of numbers.

const whole = new Intl.NumberFormat("en");
const number = (value) => whole.format(value);
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many || `${one}s`}`;
const signed = (value) => (value > 0 ? `+${number(value)}` : number(value));
const pods = (count) => plural(count, "pod");

// A number in units, as report/documents writes it: two decimals below 10, one below 100, none above, half away from zero.
function rounded(value, unit) {
  const size = Math.abs(Math.round(value));
  const scale = 10 ** (size < 10 * unit ? 2 : size < 100 * unit ? 1 : 0);
  const parts = (2n * BigInt(size) * BigInt(scale) + BigInt(unit)) / (2n * BigInt(unit));
  return `${value < 0 ? "-" : ""}${number(Number(parts) / scale)}`;
}

// Millicores: below one core as Kubernetes writes them, otherwise in cores.
const cpu = (milli) => (milli !== 0 && Math.abs(milli) < 1000 ? `${milli}m` : rounded(milli, 1000));

// like: an amount whose unit is too coarse, so the next smaller unit is used
function bytes(value, like) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  let size = value;
  const most = like === undefined ? units.length - 1 : Math.max(0, Math.floor(Math.log2(Math.max(1, like)) / 10) - 1);
  while ((like === undefined ? Math.abs(size) >= 1024 : true) && unit < most) {
    size /= 1024;
    unit += 1;
  }
  return `${rounded(value, 1024 ** unit)} ${units[unit]}`;
}

// A part of a whole, with a finer unit if both would look equal but differ.
function partOf(write, part, of) {
  const [a, b] = [write(part), write(of)];
  if (a !== b || part === of) return `${a} of ${b}`;
  if (write === cpu) return `${part}m of ${of}m`;
  return `${bytes(part, of)} of ${bytes(of, of)}`;
}

const amount = (measure, value) => (measure === "cpu" ? cpu(value) : bytes(value));

// Never rounded to 100, so that full and overcommitted are exact.
function percent(part, of) {
  if (of <= 0) return part > 0 ? 101 : 0;
  const rounded = Math.round((100 * part) / of);
  if (part < of) return Math.min(99, rounded);
  return part > of ? Math.max(101, rounded) : 100;
}

const seconds = (value) => `${value < 10 ? value.toFixed(value < 1 ? 2 : 1) : Math.round(value)} s`;

// A quantity of a NUMA zone ("8", "7500m", "16Gi") in base units; only proportions are drawn from it.
function quantity(text) {
  const match = /^([\d.]+)(.*)$/.exec(String(text)) || [0, 0, ""];
  const scale = { m: 1e-3, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 }[match[2]] || 1;
  return Number(match[1]) * scale;
}

// Cut the middle, because node names differ at their ends.
function shorten(text, most) {
  if (text.length <= most) return text;
  const tail = Math.ceil((most - 1) * 0.55);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(-tail)}`;
}
