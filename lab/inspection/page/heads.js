// All heads at a glance: a thumbnail each, and the table of their statistics.

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** Fills a canvas of side x side pixels; levelAt(x, y) is a level of the palette, or -1 for a cell that causality hides. */
function paint(canvas, side, levelAt) {
  if (canvas.width !== side) canvas.width = canvas.height = side;
  const {ramp, hidden} = palette();
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const pixels = new Uint32Array(image.data.buffer);
  for (let y = 0, at = 0; y < side; y++) {
    for (let x = 0; x < side; x++, at++) {
      const level = levelAt(x, y);
      pixels[at] = level >= 0 ? ramp[level] : hidden[(x + y) % 8 < 2 ? 1 : 0];
    }
  }
  context.putImageData(image, 0, 0);
}

class HeadGrid {
  constructor(container, choose) {
    this.side = numbers.thumbnailSide;
    this.codes = null;
    this.buttons = numbers.maps.map((map, index) => this.makeButton(map, () => choose(index)));
    for (const layer of numbers.layers) {
      const heads = element("div", {className: "layer-heads"}, ...this.buttons.filter(button => button.map.layer === layer));
      const row = element("div", {className: "layer"}, element("h3", {textContent: `Layer ${layer}`}), heads);
      row.layer = layer;
      container.append(row);
    }
    this.rows = [...container.children];
  }

  makeButton(map, choose) {
    const canvas = element("canvas");
    canvas.setAttribute("aria-hidden", "true");
    const button = element("button", {type: "button", className: "head", onclick: choose}, canvas, `Head ${map.head}`,
      element("small", {textContent: `entropy ${map.entropy.toFixed(2)}`}),
      element("small", {textContent: `first token ${percent(map.firstToken)}`}));
    button.setAttribute("aria-label", `Layer ${map.layer}, head ${map.head}: entropy ${map.entropy.toFixed(2)} nats, ` +
      `${percent(map.firstToken)} on the first token`);
    button.setAttribute("aria-pressed", "false");
    return Object.assign(button, {map, canvas});
  }

  async load() {
    this.codes = await unpack(document.getElementById("thumbnails"));
  }

  /** The codes of one thumbnail. */
  thumbnail(index, withoutFirst) {
    const size = this.side * this.side;
    const at = (2 * index + (withoutFirst ? 1 : 0)) * size;
    return this.codes.subarray(at, at + size);
  }

  draw({logarithmic, withoutFirst, markMask}) {
    this.buttons.forEach((button, index) => {
      const codes = this.thumbnail(index, withoutFirst);
      const scale = new Scale(codes, logarithmic);
      const levels = Int16Array.from(weightOfCode, weight => scale.level(weight));
      paint(button.canvas, this.side, (x, y) => markMask && numbers.causal && x > y ? -1 : levels[codes[y * this.side + x]]);
    });
  }

  choose(index) {
    this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === index)));
  }

  filter(isShown) {
    for (const button of this.buttons) button.hidden = !isShown(button.map);
    for (const row of this.rows) row.hidden = !this.buttons.some(button => button.map.layer === row.layer && !button.hidden);
  }
}

class StatisticsTable {
  constructor(table, choose) {
    this.body = table.tBodies[0];
    this.rows = numbers.maps.map((map, index) => this.makeRow(map, () => choose(index)));
    this.headings = [...table.querySelectorAll("th button")];
    for (const heading of this.headings) heading.onclick = () => this.sort(heading);
    this.body.append(...this.rows);
  }

  makeRow(map, choose) {
    const cells = [map.entropy.toFixed(3), map.maxWeight.toFixed(3), map.meanDistance.toFixed(1), percent(map.firstToken)];
    const name = element("button", {type: "button", textContent: `Layer ${map.layer}, head ${map.head}`, onclick: choose});
    return Object.assign(element("tr", {}, element("td", {}, name), ...cells.map(textContent => element("td", {textContent}))), {map});
  }

  /** Places in order first; other columns begin with the largest. */
  sort(heading) {
    const by = heading.dataset.by;
    const now = heading.parentElement.getAttribute("aria-sort");
    const descending = now === null ? by !== "place" : now === "ascending";
    const value = row => by === "place" ? numbers.maps.indexOf(row.map) : row.map[by];
    const sign = descending ? -1 : 1;
    this.body.append(...[...this.rows].sort((a, b) => sign * (value(a) - value(b))));
    for (const other of this.headings) other.parentElement.removeAttribute("aria-sort");
    heading.parentElement.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  choose(index) {
    this.rows.forEach((row, i) => row.classList.toggle("chosen", i === index));
  }

  filter(isShown) {
    for (const row of this.rows) row.hidden = !isShown(row.map);
  }
}
