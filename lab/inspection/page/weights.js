// Maps: from packed codes to weights.

const weightOfCode = Float64Array.from({length: 256},
  (_, code) => code === 0 ? 0 : 2 ** ((code - 255) / numbers.stepsPerOctave));

// Cell 0 is the first token alone, every other numbers.bin tokens.
function cellOf(token) {
  return token === 0 ? 0 : 1 + Math.floor((token - 1) / numbers.bin);
}

/** The tokens [first, end) of a cell. */
function tokensOf(cell) {
  if (cell === 0) return [0, 1];
  const first = 1 + (cell - 1) * numbers.bin;
  return [first, Math.min(first + numbers.bin, characters.length)];
}

/** The bytes that an element's text stands for: base64 of a zlib stream. */
async function unpack(element) {
  const text = atob(element.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** One head's weights between cells; with causality only columns 0..row of a row are kept, the others are 0. */
class WeightMap {
  constructor(codes) {
    this.codes = codes;
    this.cells = numbers.cells;
    // By row, 1 / (1 - weight of the first key): what rescales a row without that key. 0 where nothing else is looked at.
    this.rescale = new Float64Array(this.cells);
    for (let row = 0; row < this.cells; row++) {
      let rest = 0;
      for (let at = this.start(row) + 1, end = this.start(row) + this.length(row); at < end; at++) rest += weightOfCode[codes[at]];
      this.rescale[row] = rest > 0 ? 1 / rest : 0;
    }
  }

  /** Where a row begins in the codes. */
  start(row) {
    return numbers.causal ? row * (row + 1) / 2 : row * this.cells;
  }

  length(row) {
    return numbers.causal ? row + 1 : this.cells;
  }

  weight(row, column, withoutFirst) {
    if (column >= this.length(row) || (withoutFirst && column === 0)) return 0;
    return weightOfCode[this.codes[this.start(row) + column]] * (withoutFirst ? this.rescale[row] : 1);
  }

  row(row, withoutFirst) {
    return Float64Array.from({length: this.cells}, (_, column) => this.weight(row, column, withoutFirst));
  }

  column(column, withoutFirst) {
    return Float64Array.from({length: this.cells}, (_, row) => this.weight(row, column, withoutFirst));
  }

  /** All weights as the bytes of an NPY file (version 1.0): float32, shape (cells, cells). */
  npy(withoutFirst) {
    const prefix = 10, alignment = 64;
    let header = `{'descr': '<f4', 'fortran_order': False, 'shape': (${this.cells}, ${this.cells}), }`;
    header = header.padEnd(Math.ceil((prefix + header.length + 1) / alignment) * alignment - prefix - 1) + "\n";
    const file = new ArrayBuffer(prefix + header.length + 4 * this.cells * this.cells);
    const view = new DataView(file);
    [0x93, ...Array.from("NUMPY", letter => letter.charCodeAt(0)), 1, 0].forEach((byte, i) => view.setUint8(i, byte));
    view.setUint16(8, header.length, true);
    for (let i = 0; i < header.length; i++) view.setUint8(prefix + i, header.charCodeAt(i));
    let at = prefix + header.length;
    for (let row = 0; row < this.cells; row++) {
      for (let column = 0; column < this.cells; column++, at += 4) view.setFloat32(at, this.weight(row, column, withoutFirst), true);
    }
    return file;
  }
}

// The maps stand behind this script in the page.
const wholePage = new Promise(resolve => document.addEventListener("DOMContentLoaded", resolve, {once: true}));
const unpacked = new Map();

/** The map of numbers.maps[index], unpacked when it is first asked for. */
function weightMap(index) {
  if (!unpacked.has(index)) {
    const {layer, head} = numbers.maps[index];
    const read = async () => new WeightMap(await unpack(document.getElementById(`map-${layer}-${head}`)));
    unpacked.set(index, wholePage.then(read));
  }
  return unpacked.get(index);
}
