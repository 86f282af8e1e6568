// The picture: HBM above, SRAM below, tiles between them. Lengths are CSS pixels.
const HUES = { Q: "#56b4e9", K: "#e69f00", V: "#009e73", O: "#d55e00", S: "#cc79a7", P: "#cc79a7", l: "#f0e442", m: "#5b7fd6" };
const OTHER = "#9aa3ad";
const INK = "#111"; // on any of these hues, whatever the page's own ink
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const PAD = 12, GAP = 14, TITLE = 20, STRIP = 46, BUS = 34;
const MAP_TITLE = "tiles of query-key pairs";
const SHRINKS = [[[1, 1], [1, 0.86], [0.8, 0.86], [0.65, 0.86], [0.5, 0.86]], [[0.5, 0.7], [0.5, 0.55], [0.4, 0.5]]]; // of HBM, and of cells: in the first, numbers have room
const NUMBERED = 16 * 30 + 2 * PAD; // the width at which numbers have room in cells

const hueOf = (name) => HUES[tensorOf(name)] ?? OTHER;
const between = (a, b, t) => a + (b - a) * t;
const eased = (t) => (t < 0.5 ? 4 * t * t * t : 1 - (2 - 2 * t) ** 3 / 2);
const clamp = (low, value, high) => Math.min(high, Math.max(low, value));

class Stage {
  constructor(canvas, run) {
    Object.assign(this, { canvas, run, context: canvas.getContext("2d") });
    this.colours();
    this.least = this.widthOfCell();
    this.resize(canvas.clientWidth, Infinity, [1]);
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["paper", "ground", "ink", "soft", "line", "tint", "over"]) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.hatches = new Map();
  }

  // As wide as the page has room, and no higher than ``room`` if any zoom and shapes make it so, the largest first.
  resize(width, room, zooms) {
    const able = zooms.filter((zoom) => zoom === 1 || width / zoom >= NUMBERED);
    const sizes = SHRINKS.flatMap((shrinks) => able.flatMap((zoom) => shrinks.map((shrink) => [zoom, shrink])));
    const [zoom] = sizes.find((size) => this.fits(width, room, ...size)) ?? [1];
    this.ratio = zoom * (window.devicePixelRatio || 1);
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.canvas.style.height = `${this.height * zoom}px`;
    [this.history, this.crosses] = [null, null];
  }

  // Lay it out; says whether that is low enough. All lengths are ``zoom`` times as long on the page.
  fits(width, room, zoom, shrink) {
    this.width = Math.max(260, width / zoom);
    this.layOut(shrink);
    return this.height * zoom <= room;
  }

  // HBM and the map of pairs side by side where there is room, SRAM below both, the map last on a narrow screen.
  layOut([shrink, shrinkCells]) {
    const { pairs } = this.run, beside = pairs && this.width >= 420;
    const side = beside ? (this.width < 560 ? 180 : 190) : 0;
    const pairsEnd = beside ? this.layOutPairs(this.width - side + GAP, 0, side - GAP, (1 + shrink) / 2) : 0;
    const end = Math.max(this.layOutHbm(PAD + TITLE, this.width - side, shrink) + 4, pairsEnd);
    this.hbm = { x: 0, y: 0, w: this.width - side, h: end };
    this.layOutBus();
    this.height = this.layOutSram(end + BUS, this.width, shrinkCells);
    if (pairs && !beside) this.height = this.layOutPairs(0, this.height + GAP, this.width, 1);
    this.strip = { x: 0, y: this.height + GAP, w: this.width, h: STRIP };
    this.height += GAP + STRIP + 2;
  }

  // Arrays in as few lines as can be, and then as large as can be.
  layOutHbm(top, width, shrink) {
    const sizes = [1, 0.85, 0.7, 0.55, 0.4].map((factor) => this.arrayBoxes(top, width, factor * shrink));
    const fewest = Math.min(...sizes.map((size) => size.lines));
    const { boxes, end } = sizes.find((size) => size.lines === fewest);
    this.run.arrays.forEach((array, place) => (array.box = boxes[place]));
    return end;
  }

  arrayBoxes(top, width, factor) {
    const tallest = Math.max(...this.run.arrays.map((array) => array.rows));
    const down = factor * Math.min(12, (this.width < 480 ? 132 : 176) / tallest);
    let x = PAD, y = top, high = 0, lines = 1;
    const boxes = this.run.arrays.map((array) => {
      const w = clamp(12, array.cols * clamp(6 * factor, down, 12), Math.min(width - 2 * PAD, 190 * factor)), h = Math.max(4, array.rows * down);
      const slot = Math.max(w, 8.5 * array.name.length);
      if (x > PAD && x + slot > width - PAD) [x, y, high, lines] = [PAD, y + high + 8, 0, lines + 1];
      const box = { x: x + (slot - w) / 2, y: y + 16, w, h };
      x += slot + GAP;
      high = Math.max(high, h + 20);
      return box;
    });
    return { boxes, lines, end: y + high };
  }

  layOutSram(top, width, shrink) {
    const { capacity, final } = this.run;
    const all = Math.max(capacity, final.peak);
    this.each = this.least * Math.ceil(all / 1024 / this.least);
    const cells = Math.ceil(all / this.each), across = cells <= 256 ? 16 : cells <= 512 ? 32 : 64;
    const size = Math.min(38, (width - 2 * PAD) / across), tall = cells <= 256 ? Math.min(size, 28 * shrink) : 13 * shrink;
    const down = Math.ceil(cells / across);
    this.grid = { x: (width - across * size) / 2, y: top + TITLE + PAD, across, down, cells, w: size, h: tall };
    this.sram = { x: 0, y: top, w: width, h: TITLE + PAD * 2 + down * tall };
    return top + this.sram.h;
  }

  // How many words, or bytes, a cell holds at least: an element of four bytes, where all tiles end between such.
  widthOfCell() {
    const even = (size) => this.run.steps.every((step) => step[3] % size === 0);
    return this.run.unit === "words" ? 1 : [4, 2, 1].find(even);
  }

  layOutPairs(x, y, width, shrink) {
    const { down, across } = this.run.pairs;
    const side = Math.min(26 * shrink, (140 * shrink) / down, Math.min(150, width - 20) / across);
    this.map = { x: x + 18, y: y + TITLE + 20, side, titleX: x, titleY: y };
    return Math.max(this.map.y + down * side, this.map.y + 60) + 6; // "queries" is as long as 60
  }

  // Draw the run after its step; progress in [0, 1] says how far that step has got.
  draw(progress = 1) {
    const { context: c, run } = this, state = run.state;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.textBaseline = "alphabetic";
    this.step = state.position ? run.steps[state.position - 1] : null;
    const t = eased(progress);
    this.zone(this.hbm, "HBM: slow, unbounded", this.ground);
    this.zone(this.sram, this.sramTitle(state), this.tint);
    this.drawBus(state);
    for (const array of run.arrays) this.drawArray(array, state);
    this.drawSram(state, t);
    if (run.pairs) this.drawPairs(state);
    this.drawStrip(state);
    this.drawFlight(state, t);
  }

  // What has crossed between the two, in the gap between them.
  drawBus(state) {
    const y = this.hbm.h + BUS / 2 + 5, [read, written] = crossed(state), { x, size } = this.bus;
    this.text(read, PAD, y, size, this.ink, "600");
    this.text(written, x, y, size, this.ink, "600");
  }

  // Room for both at their longest, at the end of the run.
  layOutBus() {
    const c = this.context, room = this.width - 2 * PAD - GAP;
    c.font = `600 12.5px ${FONT}`;
    const [read, written] = crossed(this.run.final).map((words) => c.measureText(words).width), shrink = Math.min(1, room / (read + written));
    this.bus = { size: 12.5 * shrink, x: Math.max(Math.min(this.hbm.w / 2, this.width - PAD - written * shrink), PAD + read * shrink + GAP) };
  }

  sramTitle(state) {
    const { capacity, unit } = this.run;
    const each = this.each > 1 ? `, a cell is ${this.each} ${unit}` : "";
    const beyond = state.sram > capacity ? `, ${count(state.sram - capacity)} too many` : "";
    return `SRAM: ${count(state.sram)} of ${count(capacity)} ${unit}${beyond}${each}`;
  }

  zone(box, title, ground) {
    const c = this.context;
    c.fillStyle = ground;
    c.strokeStyle = this.line;
    c.lineWidth = 1;
    c.beginPath();
    c.roundRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1, 8);
    c.fill();
    c.stroke();
    this.text(title, box.x + PAD, box.y + 17, Math.min(12, (box.w - 2 * PAD) / (0.58 * title.length)), this.ink, "600");
  }

  text(words, x, y, size, colour, weight = "400", align = "left") {
    const c = this.context;
    c.font = `${weight} ${size}px ${FONT}`;
    c.fillStyle = colour;
    c.textAlign = align;
    c.fillText(words, x, y);
  }

  region(array, top, bottom, left, right) {
    const { x, y, w, h } = array.box;
    return { x: x + (left / array.cols) * w, y: y + (top / array.rows) * h, w: ((right - left) / array.cols) * w, h: ((bottom - top) / array.rows) * h };
  }

  drawArray(array, state) {
    const { context: c, run } = this, { box } = array, moves = state.moves.get(array.name), hue = hueOf(array.name);
    this.text(array.name, box.x + box.w / 2, box.y - 5, 12, this.ink, "700", "center");
    const wide = array.acrosses.length - 1, fresh = array.kind === "input";
    c.globalAlpha = 0.33;
    for (let row = 0; row + 1 < array.downs.length; row++)
      for (let col = 0; col < wide; col++) {
        const part = this.region(array, array.downs[row], array.downs[row + 1], array.acrosses[col], array.acrosses[col + 1]);
        c.fillStyle = fresh || moves.written[row * wide + col] ? hue : this.hatch();
        c.fillRect(part.x, part.y, part.w, part.h);
      }
    c.globalAlpha = 1;
    c.fillStyle = hue;
    for (const block of state.residents) if (block.loaded && block.name === array.name) this.fill(this.region(array, block.top, block.bottom, block.left, block.right));
    this.drawEdges(array, moves, wide, state);
    c.strokeStyle = this.ink;
    c.lineWidth = 1;
    c.strokeRect(box.x, box.y, box.w, box.h);
  }

  fill({ x, y, w, h }) { this.context.fillRect(x, y, w, h); }

  drawEdges(array, moves, wide, state) {
    const c = this.context;
    c.strokeStyle = this.soft;
    c.lineWidth = 0.6;
    c.beginPath();
    for (const edge of array.downs) { const y = array.box.y + (edge / array.rows) * array.box.h; c.moveTo(array.box.x, y); c.lineTo(array.box.x + array.box.w, y); }
    for (const edge of array.acrosses) { const x = array.box.x + (edge / array.cols) * array.box.w; c.moveTo(x, array.box.y); c.lineTo(x, array.box.y + array.box.h); }
    if (array.tiles <= 512) c.stroke();
    if (array.box.h / (array.downs.length - 1) < 12 || array.box.w / wide < 11) return;
    const here = state.residents.filter((block) => block.loaded && block.name === array.name);
    for (let tile = 0; tile < array.tiles; tile++) {
      const times = moves.read[tile] + moves.written[tile], row = Math.floor(tile / wide), col = tile % wide;
      if (!times) continue;
      const [top, left] = [array.downs[row], array.acrosses[col]], part = this.region(array, top, array.downs[row + 1], left, array.acrosses[col + 1]);
      const solid = here.some((block) => block.top <= top && top < block.bottom && block.left <= left && left < block.right);
      this.text(String(times), part.x + part.w / 2, part.y + part.h / 2 + 4, times > 9 && part.w < 16 ? 9 : 11, solid ? INK : this.ink, "600", "center");
    }
  }

  hatch() {
    if (!this.hatches.has("line")) {
      const tile = document.createElement("canvas");
      tile.width = tile.height = 6;
      const c = tile.getContext("2d");
      c.strokeStyle = this.soft;
      c.lineWidth = 1.2;
      c.beginPath();
      for (const shift of [-6, 0, 6]) { c.moveTo(shift, 6); c.lineTo(shift + 6, 0); }
      c.stroke();
      this.hatches.set("line", this.context.createPattern(tile, "repeat"));
    }
    return this.hatches.get("line");
  }

  cell(place) {
    const { x, y, across, w, h } = this.grid;
    return { x: x + (place % across) * w, y: y + Math.floor(place / across) * h, w, h };
  }

  drawSram(state, t) {
    const { context: c, grid, run } = this, inside = Math.floor(run.capacity / this.each);
    for (let place = 0; place < grid.cells; place++) {
      const { x, y, w, h } = this.cell(place);
      c.fillStyle = place < inside ? this.paper : this.hatch();
      c.fillRect(x, y, w, h);
    }
    c.strokeStyle = this.line;
    c.lineWidth = 0.7;
    c.beginPath();
    for (let place = 0; place < grid.cells; place++) { const { x, y, w, h } = this.cell(place); c.rect(x, y, w, h); }
    c.stroke();
    state.residents.forEach((block, place) => this.drawBlock(block, place, state, t));
    if (run.final.peak > run.capacity) this.drawCapacity(inside);
  }

  span(block) { return [Math.floor(block.start / this.each), Math.max(Math.floor(block.start / this.each) + 1, Math.ceil((block.start + block.cost) / this.each))]; }

  drawBlock(block, place, state, t) {
    const c = this.context, [first, stop] = this.span(block), hue = hueOf(block.name);
    const arriving = block.since === state.position && this.step && (this.step[0] === LOAD || this.step[0] === ALLOC);
    c.globalAlpha = arriving ? (this.step[0] === LOAD ? clamp(0, (t - 0.75) * 4, 1) : t) : 1;
    c.fillStyle = hue;
    for (let at = first; at < stop; at++) this.fill(this.cell(at));
    const touched = block.since === state.position && state.position > 0;
    this.outline(first, stop, touched ? 3 : 1.2);
    this.drawContents(block, first, stop);
    c.globalAlpha = 1;
  }

  outline(first, stop, thickness) {
    const c = this.context, { across } = this.grid;
    c.strokeStyle = this.ink;
    c.lineWidth = thickness;
    c.beginPath();
    for (let at = first; at < stop; at++) {
      const { x, y, w, h } = this.cell(at);
      if (at === first || at % across === 0) { c.moveTo(x, y); c.lineTo(x, y + h); }
      if (at === stop - 1 || at % across === across - 1) { c.moveTo(x + w, y); c.lineTo(x + w, y + h); }
      if (at - across < first) { c.moveTo(x, y); c.lineTo(x + w, y); }
      if (at + across >= stop) { c.moveTo(x, y + h); c.lineTo(x + w, y + h); }
    }
    c.stroke();
  }

  drawContents(block, first, stop) {
    const { w, h } = this.cell(first), { run } = this;
    const shown = block.cost === this.each * block.words && run.stride === 1 && run.cols === Infinity && block.at >= 0 && w >= 30 && h >= 24;
    if (shown)
      for (let at = first; at < stop; at++) {
        const cell = this.cell(at);
        this.text(brief(run.numbers[block.at + at - first]), cell.x + w / 2, cell.y + h - 5, 9.5, INK, "400", "center");
      }
    const { x, y } = this.cell(first);
    const room = Math.min(stop - first, this.grid.across - (first % this.grid.across)) * w;
    const tight = h < 26, size = shown ? (tight ? 8.5 : 9.5) : Math.min(12, h - 3);
    if (size >= 7) this.text(label(block.name, room, size), x + 3, y + (shown ? (tight ? 8 : 10) : h / 2 + size * 0.36), size, INK, "700");
  }

  drawCapacity(inside) {
    const { x, y, w, h } = this.cell(inside - 1), c = this.context, { grid } = this;
    c.strokeStyle = this.over;
    c.lineWidth = 3;
    c.beginPath();
    c.moveTo(grid.x, y + h); c.lineTo(x + w, y + h); c.lineTo(x + w, y);
    if (x + w < grid.x + grid.across * grid.w - 1) c.lineTo(grid.x + grid.across * grid.w, y);
    c.stroke();
    this.text("beyond M", grid.x + grid.across * grid.w, this.sram.y + 17, 11, this.over, "700", "right");
  }

  drawPairs(state) {
    const { context: c, map, run } = this, { down, across } = run.pairs;
    this.text(MAP_TITLE, map.titleX, map.titleY + 15, 12, this.ink, "600");
    this.text("keys →", map.x, map.y - 5, 10.5, this.soft);
    c.save();
    c.translate(map.x - 13, map.y);
    c.rotate(Math.PI / 2);
    this.text("queries →", 0, 0, 10.5, this.soft);
    c.restore();
    const here = run.pairOf(state), gap = map.side > 6 ? 1 : 0;
    for (let row = 0; row < down; row++)
      for (let col = 0; col < across; col++) {
        const place = row * across + col;
        c.fillStyle = state.visits[place] ? HUES.S : run.final.visits[place] ? this.hatch() : this.ground;
        c.fillRect(map.x + col * map.side, map.y + row * map.side, map.side - gap, map.side - gap);
      }
    this.drawSkipped(down, across, gap);
    if (map.side >= 14) this.drawVisits(state, down, across);
    if (!here) return;
    c.strokeStyle = this.ink;
    c.lineWidth = Math.min(3, 1 + map.side / 6);
    const [wide, high] = [here.right - here.left, here.bottom - here.top].map((tiles) => tiles * map.side - gap);
    c.strokeRect(map.x + here.left * map.side, map.y + here.top * map.side, wide, high);
  }

  // A cross on every tile that the run never visits, which is known from its start.
  drawSkipped(down, across, gap) {
    const { context: c, map } = this;
    if (map.side < 3) return;
    this.crosses ??= this.crossesOf(down, across, gap);
    c.strokeStyle = this.soft;
    c.lineWidth = 1;
    c.stroke(this.crosses);
  }

  crossesOf(down, across, gap) {
    const { map, run } = this, path = new Path2D(), near = map.side * 0.32, far = map.side - gap - near;
    for (let place = 0; place < down * across; place++) {
      if (run.final.visits[place]) continue;
      const x = map.x + (place % across) * map.side, y = map.y + Math.floor(place / across) * map.side;
      path.moveTo(x + near, y + near); path.lineTo(x + far, y + far);
      path.moveTo(x + near, y + far); path.lineTo(x + far, y + near);
    }
    return path;
  }

  drawVisits(state, down, across) {
    const { map } = this;
    for (let place = 0; place < down * across; place++) {
      const x = map.x + (place % across) * map.side, y = map.y + Math.floor(place / across) * map.side;
      if (state.visits[place]) this.text(String(state.visits[place]), x + map.side / 2, y + map.side / 2 + 4, 11, INK, "600", "center");
    }
  }

  // What is occupied over all steps, drawn once; then where we are.
  drawStrip(state) {
    const { context: c, run, strip } = this, top = Math.max(run.capacity, run.final.peak) * 1.08;
    const y = (words) => strip.y + strip.h - 1 - (words / top) * (strip.h - 14);
    this.history ??= this.historyOf(y);
    this.text("SRAM over the run", strip.x, strip.y + 9, 10.5, this.soft);
    c.fillStyle = this.soft;
    c.globalAlpha = 0.45;
    c.fill(this.history);
    c.globalAlpha = 1;
    c.strokeStyle = this.over;
    c.lineWidth = 1.2;
    c.setLineDash([5, 4]);
    c.beginPath();
    c.moveTo(strip.x, y(run.capacity));
    c.lineTo(strip.x + strip.w, y(run.capacity));
    c.stroke();
    c.setLineDash([]);
    this.text("M", strip.x + strip.w - 2, y(run.capacity) - 3, 10.5, this.over, "700", "right");
    const x = strip.x + (state.position / run.length) * strip.w;
    c.fillStyle = this.ink;
    c.fillRect(clamp(strip.x, x - 1, strip.x + strip.w - 2), strip.y + 12, 2, strip.h - 12);
  }

  historyOf(y) {
    const { run, strip } = this, path = new Path2D(), columns = Math.min(run.length, Math.ceil(strip.w));
    path.moveTo(strip.x, y(0));
    for (let column = 0; column < columns; column++) {
      const [from, to] = [column, column + 1].map((edge) => Math.floor((edge * run.length) / columns));
      let most = 0;
      for (let at = from; at < to; at++) most = Math.max(most, run.steps[at][3]);
      path.lineTo(strip.x + (column / columns) * strip.w, y(most));
      path.lineTo(strip.x + ((column + 1) / columns) * strip.w, y(most));
    }
    path.lineTo(strip.x + strip.w, y(0));
    path.closePath();
    return path;
  }

  // The tile that crosses between HBM and SRAM, and where it comes from or goes to.
  drawFlight(state, t) {
    if (!this.step || ![LOAD, STORE, INIT].includes(this.step[0])) return;
    const [name, top, bottom, left, right] = this.run.things[this.step[2]], c = this.context;
    const there = this.region(this.run.byName.get(name), top, bottom, left, right), here = this.landing(state, there);
    c.strokeStyle = this.ink;
    c.lineWidth = 2.5;
    c.strokeRect(there.x, there.y, there.w, there.h);
    const [from, to] = this.step[0] === LOAD ? [there, here] : [here, there];
    if (t >= 1) return;
    const box = Object.fromEntries(["x", "y", "w", "h"].map((side) => [side, between(from[side], to[side], t)]));
    c.globalAlpha = 0.92;
    c.fillStyle = hueOf(name);
    this.fill(box);
    c.globalAlpha = 1;
    c.strokeRect(box.x, box.y, box.w, box.h);
    const sign = `${this.step[0] === LOAD ? "▼" : "▲"} ${name}`, inside = box.w > 12 * sign.length;
    const [x, ink, align] = inside ? [box.x + box.w / 2, INK, "center"] : [box.x + box.w + 4, this.ink, "left"];
    this.text(sign, x, box.y + box.h / 2 + 4, 12, ink, "700", align);
  }

  landing(state, there) {
    const { grid, sram } = this;
    if (this.step[0] !== LOAD) return { x: sram.x + sram.w / 2 - there.w / 2, y: grid.y + (grid.down * grid.h) / 2, w: there.w, h: there.h };
    const [first, stop] = this.span(state.residents[state.residents.length - 1]);
    const { x, y, w, h } = this.cell(first);
    return { x, y, w: w * Math.min(stop - first, grid.across - (first % grid.across)), h };
  }
}

// What has been read and written so far, of all arrays.
function crossed(state) {
  const all = [...state.traffic.values()], [reads, writes] = ["reads", "writes"].map((way) => count(all.reduce((sum, one) => sum + one[way], 0)));
  return [`▼ ${reads} words read`, `▲ ${writes} words written`];
}

// A number in at most five characters.
function brief(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  const text = size >= 1000 || (size > 0 && size < 0.005) ? value.toExponential(0).replace("e+", "e") : value.toFixed(size < 10 ? 2 : size < 100 ? 1 : 0);
  return text.replaceAll("-", "−");
}

// A name as far as it has room.
function label(name, room, size) {
  const fits = Math.floor((room - 4) / (size * 0.6));
  return name.length <= fits ? name : name.slice(0, Math.max(1, fits));
}
