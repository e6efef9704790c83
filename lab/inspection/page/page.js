// What is chosen, and who must hear of it.

const byId = id => document.getElementById(id);

const chosen = {
  index: 0,                       // of numbers.maps
  token: characters.length - 1,   // the query looked at
  key: null,                      // the key's cell, where the map is pointed at
  kept: false,                    // the token stays whatever is pointed at
  shading: "keys",
  logarithmic: true,
  withoutFirst: false,
  markMask: true,
};
let map = null;    // of the chosen head, once it is unpacked
let scale = null;
let toReveal = true;  // whether the text scrolls to the token; not below a pointer that points at it

const grid = new HeadGrid(byId("heads"), index => chooseHead(index, true));
const table = new StatisticsTable(byId("statistics"), index => chooseHead(index, true));
const mapView = new MapView(
  {canvas: byId("map"), frame: byId("frame"), guideQuery: byId("guide-query"), guideKey: byId("guide-key"), range: byId("map-range")},
  {
    point: ({query, key}, moved) => pointAt(chosen.kept && !moved ? null : tokensOf(query)[0], key),
    keep: ({query, key}) => keep(tokensOf(query)[0], key),
    release,
  });
const textView = new TextView(byId("text"), {
  point: (token, moved) => { if (!chosen.kept || moved) pointAt(token, null, moved); },
  keep: token => keep(token, null),
  release,
});

function pointAt(token, key, reveal = true) {
  if (token !== null) chosen.token = token;
  chosen.key = key;
  toReveal = reveal;
  schedule();
}

function keep(token, key) {
  chosen.kept = !(chosen.kept && chosen.token === token);
  pointAt(token, key);
}

function release() {
  chosen.kept = false;
  schedule();
}

// Pointers move more often than a screen is drawn.
let scheduled = false;
function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    showToken();
  });
}

function showToken() {
  if (map === null) return;
  const cell = cellOf(chosen.token);
  const row = map.row(cell, chosen.withoutFirst), column = map.column(cell, chosen.withoutFirst);
  const weights = chosen.shading === "keys" ? row : column;
  const most = weights.reduce((a, b) => Math.max(a, b), 0);
  const least = Math.min(0.25 / numbers.cells, most / 4);
  const share = weight => weight === 0 ? 0
    : chosen.logarithmic ? Math.max(0, Math.log(weight / least) / Math.log(most / least)) : weight / most;
  const shares = weights.map(share);
  textView.shade(token => shares[cellOf(token)]);
  textView.select(chosen.token, chosen.kept);
  if (toReveal) textView.reveal();
  listStrongest(byId("keys"), row, token => keep(token, null));
  listStrongest(byId("queries"), column, token => keep(token, null));
  mapView.mark({query: cell, key: chosen.key});
  byId("readout").textContent = inWords(cell, row);
}

// Isolated (U+2068, U+2069): text that runs from right to left must not turn the words around it.
function nameOf(cell) {
  const [first, end] = tokensOf(cell);
  const place = end - first > 1 ? `${first}–${end - 1}` : String(first);
  return `${place} “\u2068${characters.slice(first, end).map(named).join(between)}\u2069”`;
}

function inWords(cell, row) {
  const key = chosen.key ?? strongest(row)[0];
  const hidden = key !== undefined && numbers.causal && key > cell;
  const looks = key === undefined ? "looks at nothing that is kept"
    : hidden ? `does not see key ${nameOf(key)}`
      : `${chosen.key === null ? "looks most at" : "gives"} key ${nameOf(key)}${chosen.key === null ? ":" : ""} ${percent(row[key])}`;
  return `Query ${nameOf(cell)} ${looks}${chosen.withoutFirst ? ", the first token left out" : ""}.${chosen.kept ? " Kept." : ""}`;
}

function drawScale() {
  const colours = Array.from({length: 9}, (_, i) => palette().ramp[Math.round(i / 8 * (LEVELS - 1))]);
  const css = colours.map(value => `rgb(${value & 255} ${value >> 8 & 255} ${value >> 16 & 255})`);
  byId("ramp").style.background = `linear-gradient(to right, ${css.join(", ")})`;
  byId("scale-low").textContent = chosen.logarithmic ? `≤ ${percent(scale.least)}` : "0 %";
  byId("scale-high").textContent = `≥ ${percent(scale.most)}`;
}

/** Everything that depends on the options, the head and the colours. */
function drawMap() {
  if (map === null) return;
  scale = new Scale(grid.thumbnail(chosen.index, chosen.withoutFirst), chosen.logarithmic);
  mapView.show(map, scale, chosen);
  drawScale();
  showToken();
}

async function chooseHead(index, moveThere) {
  chosen.index = index;
  const {layer, head, entropy, maxWeight, meanDistance, firstToken} = numbers.maps[index];
  grid.choose(index);
  table.choose(index);
  byId("map-title").textContent = `Layer ${layer}, head ${head}`;
  byId("map").setAttribute("aria-label", `Attention of layer ${layer}, head ${head}: queries downwards, keys to the right`);
  byId("map-statistics").textContent = `Means over queries: entropy ${entropy.toFixed(2)} nats, largest weight ` +
    `${percent(maxWeight)}, distance ${meanDistance.toFixed(1)} tokens, on the first token ${percent(firstToken)}.`;
  byId("frame").classList.add("busy");
  if (moveThere) {
    byId("map-title").focus({preventScroll: true});
    byId("map-title").scrollIntoView({block: "start"});
  }
  const loaded = await weightMap(index);
  if (chosen.index !== index) return;  // another was chosen meanwhile
  map = loaded;
  byId("frame").classList.remove("busy");
  drawMap();
  performance.mark("map-drawn");
}

function drawAll() {
  grid.draw(chosen);
  drawMap();
}

function connectOptions() {
  const connect = (id, name) => byId(id).addEventListener("change", event => {
    chosen[name] = event.target.checked;
    drawAll();
  });
  connect("logarithmic", "logarithmic");
  connect("without-first", "withoutFirst");
  connect("mark-mask", "markMask");
  if (!numbers.causal) byId("mark-mask").parentElement.remove();
  for (const choice of document.querySelectorAll("input[name=shading]")) {
    choice.addEventListener("change", () => {
      chosen.shading = choice.value;
      showToken();
    });
  }
  byId("zoom-in").onclick = () => mapView.zoom(0.5);
  byId("zoom-out").onclick = () => mapView.zoom(2);
  byId("zoom-whole").onclick = () => mapView.zoom(Infinity);
  byId("save").onclick = save;
}

/** Boxes for layers or heads; those unchecked leave the grid and the table. */
function connectFilters() {
  const boxes = (fieldset, name, values) => {
    byId(fieldset).hidden = values.length < 2;
    return values.map(value => {
      const box = element("input", {type: "checkbox", checked: true, value});
      byId(fieldset).append(element("label", {}, box, `${name} ${value}`));
      box.addEventListener("change", filter);
      return box;
    });
  };
  const layers = boxes("layer-filter", "layer", numbers.layers);
  const heads = boxes("head-filter", "head", numbers.heads);
  function filter() {
    const shown = list => new Set(list.filter(box => box.checked).map(box => Number(box.value)));
    const shownLayers = shown(layers), shownHeads = shown(heads);
    const isShown = ({layer, head}) => shownLayers.has(layer) && shownHeads.has(head);
    grid.filter(isShown);
    table.filter(isShown);
  }
}

function save() {
  if (map === null) return;
  const {layer, head} = numbers.maps[chosen.index];
  const url = URL.createObjectURL(new Blob([map.npy(chosen.withoutFirst)], {type: "application/octet-stream"}));
  const name = `attention-layer${layer}-head${head}${chosen.withoutFirst ? "-without-first" : ""}.npy`;
  element("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function connectColours() {
  prefersDark.addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { printing = true; drawAll(); });
  addEventListener("afterprint", () => { printing = false; drawAll(); });
}

async function start() {
  if (typeof DecompressionStream === "undefined") throw new Error("it lacks DecompressionStream");
  connectOptions();
  connectFilters();
  await grid.load();
  connectColours();
  grid.draw(chosen);
  performance.mark("heads-drawn");
  await chooseHead(0, false);
}

start().catch(error => {
  byId("alert").textContent = `This browser cannot show the maps: ${error.message}.`;
  byId("alert").hidden = false;
});
