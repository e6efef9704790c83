// From weights to colours.

// From nothing to the most; lightness is monotone, so that the ramps also read in grey and for every kind of colour vision.
const RAMPS = {
  light: ["#ffffff", "#d3e5f3", "#93c1e0", "#4590c6", "#16589a", "#07244a"],
  dark: ["#14191f", "#153a5c", "#1f68a2", "#45a1d6", "#a6d7ef", "#fdfcec"],
};
const HIDDEN = {light: ["#eceff2", "#d5dbe1"], dark: ["#252d36", "#38424d"]};  // ground and hatching of what causality hides
const LEVELS = 256;

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
let printing = false;

function scheme() {
  return prefersDark.matches && !printing ? "dark" : "light";
}

function channels(colour) {
  return [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
}

// As ImageData keeps a pixel, on the little-endian processors that browsers run on.
function pixel([red, green, blue]) {
  return (255 << 24 | blue << 16 | green << 8 | red) >>> 0;
}

/** LEVELS pixels from nothing to the most, then ground and hatching of hidden cells. */
function palette() {
  const stops = RAMPS[scheme()].map(channels);
  const ramp = Array.from({length: LEVELS}, (_, level) => {
    const place = level / (LEVELS - 1) * (stops.length - 1);
    const left = Math.min(Math.floor(place), stops.length - 2);
    return pixel(stops[left].map((value, i) => Math.round(value + (place - left) * (stops[left + 1][i] - value))));
  });
  return {ramp: Uint32Array.from(ramp), hidden: HIDDEN[scheme()].map(colour => pixel(channels(colour)))};
}

/** How weights become levels. The most is the 99th percentile of the weights in the head's thumbnail; on the logarithmic scale,
 *  the least is a quarter of what a query gives each key when it looks at all alike. */
class Scale {
  constructor(thumbnail, logarithmic) {
    const counts = new Uint32Array(256);
    let total = 0;
    for (const code of thumbnail) {
      counts[code]++;
      if (code > 0) total++;
    }
    let code = 255;
    for (let above = 0; code > 1 && above + counts[code] <= total / 100; code--) above += counts[code];
    this.most = weightOfCode[code];
    this.logarithmic = logarithmic;
    this.least = logarithmic ? Math.min(0.25 / numbers.cells, this.most / 4) : 0;
  }

  /** 0..1. */
  place(weight) {
    if (!this.logarithmic) return Math.min(weight / this.most, 1);
    if (weight <= this.least) return 0;
    return Math.min(Math.log(weight / this.least) / Math.log(this.most / this.least), 1);
  }

  level(weight) {
    return Math.round(this.place(weight) * (LEVELS - 1));
  }
}

/** A share as prose: "12 %", "0.034 %". */
function percent(share) {
  if (share === 0) return "0 %";
  const value = 100 * share;
  return (value >= 99.5 ? "100" : value >= 0.001 ? String(Number(value.toPrecision(2))) : value.toExponential(0)) + " %";
}
