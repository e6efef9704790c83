// One head's map, large: a square window onto the matrix, with guides at the query and the key pointed at.

const LEAST_SPAN = 16;  // cells across the window, at the closest

class MapView {
  /** point({query, key}) and keep({query, key}) hear of cells, release() of Escape. */
  constructor({canvas, frame, guideQuery, guideKey, range}, {point, keep, release}) {
    Object.assign(this, {canvas, frame, guideQuery, guideKey, range, point, keep, release});
    this.map = null;
    this.window = {row: 0, column: 0, span: numbers.cells};
    this.at = {query: numbers.cells - 1, key: null};
    canvas.addEventListener("pointermove", event => this.point(this.cellUnder(event)));
    canvas.addEventListener("click", event => this.keep(this.cellUnder(event)));
    canvas.addEventListener("keydown", event => this.pressed(event));
    new ResizeObserver(() => this.draw()).observe(frame);
  }

  show(map, scale, options) {
    Object.assign(this, {map, scale, options});
    this.draw();
  }

  draw() {
    if (this.map === null) return;
    const side = Math.max(1, Math.round(this.canvas.clientWidth * Math.min(devicePixelRatio, 2)));
    const {row, column, span} = this.window;
    const edges = Int32Array.from({length: side + 1}, (_, i) => Math.floor(i * span / side));
    const end = i => Math.max(edges[i + 1], edges[i] + 1);  // a pixel shows one cell at least
    const {markMask} = this.options;
    paint(this.canvas, side, (x, y) => {
      const left = column + edges[x], bottom = row + end(y);
      if (markMask && numbers.causal && left >= bottom) return -1;
      return this.scale.level(this.largest(row + edges[y], bottom, left, column + end(x)));
    });
    this.place();
  }

  /** The largest weight of rows [top, bottom) and columns [left, right). */
  largest(top, bottom, left, right) {
    const {codes, rescale} = this.map;
    const {withoutFirst} = this.options;
    let largest = 0;
    for (let row = top; row < bottom; row++) {
      const start = this.map.start(row);
      const last = start + Math.min(right, this.map.length(row));
      let code = 0;
      for (let at = start + (withoutFirst ? Math.max(left, 1) : left); at < last; at++) if (codes[at] > code) code = codes[at];
      const weight = weightOfCode[code] * (withoutFirst ? rescale[row] : 1);
      if (weight > largest) largest = weight;
    }
    return largest;
  }

  mark(at) {
    this.at = at;
    this.place();
  }

  /** Puts the guides where the query and the key are, and says what the window shows. */
  place() {
    const {row, column, span} = this.window;
    const set = (guide, cell, first, side) => {
      const share = (cell - first + 0.5) / span;
      guide.style.display = cell !== null && share > 0 && share < 1 ? "block" : "none";
      guide.style[side] = `${100 * share}%`;
    };
    set(this.guideQuery, this.at.query, row, "top");
    set(this.guideKey, this.at.key, column, "left");
    const ends = first => `${tokensOf(first)[0]}–${tokensOf(first + span - 1)[1] - 1}`;
    this.range.textContent = `queries ${ends(row)}, keys ${ends(column)}`;
  }

  /** Zooms by a factor around the query and the key; Infinity shows all. */
  zoom(factor) {
    const {cells} = numbers;
    const span = Math.min(cells, Math.max(Math.min(LEAST_SPAN, cells), Math.round(this.window.span * factor)));
    const start = centre => Math.min(Math.max(0, Math.round(centre - span / 2)), cells - span);
    this.window = {row: start(this.at.query), column: start(this.at.key ?? this.at.query), span};
    this.draw();
  }

  cellUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const {row, column, span} = this.window;
    const within = share => Math.min(Math.max(0, Math.floor(share * span)), span - 1);
    return {query: row + within((event.clientY - box.top) / box.height), key: column + within((event.clientX - box.left) / box.width)};
  }

  pressed(event) {
    const step = event.shiftKey ? 10 : 1;
    const moves = {ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step]};
    const here = {query: this.at.query, key: this.at.key ?? this.at.query};
    if (event.key in moves) this.move(here, moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Enter") this.keep(here);
    else if (event.key === "Escape") this.release();
    else return;
    event.preventDefault();
  }

  move({query, key}, [down, right]) {
    const within = cell => Math.min(Math.max(0, cell), numbers.cells - 1);
    const to = {query: within(query + down), key: within(key + right)};
    const {row, column, span} = this.window;
    const follow = (cell, first) => Math.min(Math.max(first, cell - span + 1), cell);
    const window = {row: follow(to.query, row), column: follow(to.key, column), span};
    const moved = window.row !== row || window.column !== column;
    this.window = window;
    this.at = to;
    if (moved) this.draw();
    this.point(to, true);
  }
}
