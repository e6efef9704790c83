// The text itself, each token shaded by its weight; and the lists of the strongest weights.

const LISTED = 8;
const CONTEXT = 8;  // characters around a token in a list

class TextView {
  /** point(token) and keep(token) hear of tokens, release() of Escape. */
  constructor(container, {point, keep, release}) {
    Object.assign(this, {container, point, keep, release, token: 0});
    this.shades = new Uint8Array(characters.length);  // per cent
    this.spans = characters.map((character, token) => this.makeSpan(character, token));
    container.append(...this.spans);
    // Not pointerover: that also comes when the text scrolls below a pointer at rest, and would take the choice away from
    // somebody who works with the keyboard.
    container.addEventListener("pointermove", event => this.onToken(event, this.point));
    container.addEventListener("click", event => this.onToken(event, this.keep));
    container.addEventListener("keydown", event => this.pressed(event));
  }

  makeSpan(character, token) {
    const {text, kind} = visible(character);
    const span = element("span", {id: `token-${token}`, className: `token ${kind}`, token});
    span.textContent = character === "\n" ? text + "\n" : text + between;
    span.setAttribute("role", "option");
    span.setAttribute("aria-selected", "false");
    return span;
  }

  onToken(event, tell) {
    const token = event.target.token;
    if (token !== undefined) tell(token);
  }

  /** shares: of each token, 0..1. */
  shade(shares) {
    this.spans.forEach((span, token) => {
      const shade = Math.round(100 * shares(token));
      if (shade === this.shades[token]) return;
      this.shades[token] = shade;
      span.style.setProperty("--weight", `${shade}%`);
    });
  }

  select(token, kept) {
    const before = this.spans[this.token], now = this.spans[token];
    before.setAttribute("aria-selected", "false");
    before.classList.remove("kept");
    now.setAttribute("aria-selected", "true");
    now.classList.toggle("kept", kept);
    this.container.setAttribute("aria-activedescendant", now.id);
    this.token = token;
  }

  /** Scrolls the text, and not the page, so that the selected token is in sight, with what it looks at around it. */
  reveal() {
    const span = this.spans[this.token].getBoundingClientRect(), box = this.container.getBoundingClientRect();
    if (span.top >= box.top && span.bottom <= box.bottom) return;
    this.container.scrollTop += span.top - box.top - box.height / 2;
  }

  pressed(event) {
    const last = this.spans.length - 1;
    const steps = {ArrowLeft: this.token - 1, ArrowRight: this.token + 1, Home: 0, End: last};
    if (event.key in steps) this.point(Math.min(Math.max(0, steps[event.key]), last), true);
    else if (event.key === "ArrowUp") this.point(this.onNextLine(-1), true);
    else if (event.key === "ArrowDown") this.point(this.onNextLine(1), true);
    else if (event.key === "Enter" || event.key === " ") this.keep(this.token);
    else if (event.key === "Escape") this.release();
    else return;
    event.preventDefault();
  }

  /** The token above (-1) or below (1) the selected one; itself where there is no such line. */
  onNextLine(direction) {
    const place = token => this.spans[token].getClientRects()[0];
    const here = place(this.token);
    let line = null, nearest = this.token, distance = Infinity;
    for (let token = this.token + direction; token >= 0 && token < this.spans.length; token += direction) {
      const box = place(token);
      if (direction * (box.top - here.top) < here.height / 2) continue;
      line ??= box.top;
      if (Math.abs(box.top - line) > here.height / 2) break;
      if (Math.abs(box.left - here.left) < distance) [nearest, distance] = [token, Math.abs(box.left - here.left)];
    }
    return nearest;
  }
}

/** The indices of the largest weights above 0, the largest first. */
function strongest(weights) {
  const order = [];
  weights.forEach((weight, index) => {
    if (weight === 0 || (order.length === LISTED && weight <= weights[order[LISTED - 1]])) return;
    const at = order.findIndex(other => weights[other] < weight);
    order.splice(at < 0 ? order.length : at, 0, index);
    order.length = Math.min(order.length, LISTED);
  });
  return order;
}

/** A cell of the text between its neighbours. */
function inContext(cell) {
  const [first, end] = tokensOf(cell);
  const part = (from, to) => characters.slice(Math.max(0, from), to).map(named).join(between);
  const marked = element("mark", {textContent: part(first, end)});
  return element("span", {className: "context"}, part(first - CONTEXT, first) + between, marked, between + part(end, end + CONTEXT));
}

/** Fills a list with the strongest weights; choosing an entry keeps its token. */
function listStrongest(list, weights, keep) {
  const entries = strongest(weights).map(cell => {
    const [token] = tokensOf(cell);
    const weight = element("span", {className: "weight", textContent: percent(weights[cell])});
    const button = element("button", {type: "button", className: "entry", onclick: () => keep(token)}, weight, inContext(cell));
    button.title = `token ${token}`;
    return element("li", {}, button);
  });
  list.replaceChildren(...(entries.length > 0 ? entries : [element("li", {className: "note", textContent: "nothing that is kept"})]));
}
