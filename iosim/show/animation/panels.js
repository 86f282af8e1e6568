// What is told beside the picture: the step, the line that runs, words per array, and one query row in numbers.
const SIGNS = ["[", "]", "▼", "+", "▲", "▲", "ƒ"];
const FIRST = ["m", "l", "O", "LSE"];
const LEFT_OUT = new Set(["S", "P", "Q", "mask", "R", "one"]);
const FEW = 8; // numbers of a row that are shown where all of them are not asked for
const count = (number) => number.toLocaleString("en");
const make = (tag, text = "", className = "") => Object.assign(document.createElement(tag), { textContent: text, className });

class Panels {
  // ``most``: the words that the longest bar stands for, of this run and the one beside it.
  constructor(root, run, most) {
    Object.assign(this, { root, run, most, row: Math.min(run.rows - 1, 0) });
    this.part("name").textContent = run.name;
    this.part("told").textContent = `${run.told}; M = ${count(run.capacity)} ${run.unit}`;
    this.part("unit").textContent = run.unit;
    this.part("capacity").textContent = count(run.capacity);
    this.buildListing();
    this.buildCounters();
    this.buildRow();
  }

  part(name) { return this.root.querySelector(`.${name}`); }

  buildListing() {
    const list = this.part("listing").querySelector("ol");
    this.lines = this.run.lines.map((line) => list.appendChild(make("li", line)));
    this.part("listing").hidden = !this.lines.length;
  }

  buildCounters() {
    const table = this.part("counters"), body = table.querySelector("tbody");
    this.cells = this.run.arrays.map((array) => this.counterRow(body, array.name));
    this.total = this.counterRow(table.querySelector("tfoot"), "all");
  }

  counterRow(home, name) {
    const row = home.appendChild(make("tr"));
    row.append(make("th", name), make("td", "", "reads"), make("td", "", "writes"), make("td"));
    row.firstChild.scope = "row";
    const scale = row.lastChild.appendChild(make("div", "", "scale"));
    const bars = ["read", "written"].map((way) => scale.appendChild(make("i", "", `bar ${way}`)));
    for (const bar of bars) bar.append(make("b"));
    return { reads: row.children[1], writes: row.children[2], bars };
  }

  // The quantities of a query row, in an order that stays; m, l and O first.
  buildRow() {
    const { run } = this, found = new Map();
    const quantity = (name) => (name.split("[")[1] ? name : name.replace(/_(i|acc|iy|ix)$/, ""));
    const leftOut = (name) => LEFT_OUT.has(tensorOf(name)) && !name.startsWith("dQ");
    const put = (name) => found.set(quantity(name), found.get(quantity(name)) ?? { blocks: new Set(), arrays: [] }).get(quantity(name));
    for (const array of run.arrays) if (!array.keys && !leftOut(array.name)) put(array.name).arrays.push(array);
    for (const [kind, , thing] of run.steps) {
      const name = run.things[thing]?.[0];
      if ((kind === LOAD || kind === ALLOC) && !leftOut(name) && !/_j/.test(name) && !run.byName.get(name)?.keys) put(name).blocks.add(name);
    }
    const place = (name) => (FIRST.indexOf(name) + 1 || FIRST.length + 1);
    const body = this.part("row").querySelector("tbody");
    this.quantities = [...found].sort(([a], [b]) => place(a) - place(b)).map(([name, parts]) => this.quantityRow(body, name, parts));
    const chosen = this.part("chosen");
    Object.assign(chosen, { max: run.rows - 1, step: run.stride, value: this.row });
    this.part("rowview").hidden = !run.numbers.length;
    this.part("wide").hidden = !this.quantities.some(({ arrays }) => arrays.some((array) => array.width > FEW));
    const rows = run.stride > 1 ? `every ${run.stride} rows one` : "all rows", columns = run.cols < Infinity ? `the first ${run.cols} columns` : "all columns";
    this.part("kept").textContent = run.stride > 1 || run.cols < Infinity ? `; kept of a run this large: ${rows}, ${columns}` : "";
  }

  quantityRow(body, name, { blocks, arrays }) {
    const row = body.appendChild(make("tr"));
    row.append(make("th", name), make("td", "", "chip"), make("td", "", "memory"));
    row.firstChild.scope = "row";
    return { row, blocks, arrays, chip: row.children[1], memory: row.children[2] };
  }

  choose(row) {
    const { run } = this, last = Math.floor((run.rows - 1) / run.stride) * run.stride;
    this.row = clamp(0, Math.round(row / run.stride) * run.stride || 0, last);
    this.part("chosen").value = this.row;
    this.showRow(this.run.state);
  }

  show() {
    const { run } = this, state = run.state, step = state.position ? run.steps[state.position - 1] : null;
    this.follow(state);
    this.part("sign").textContent = step ? SIGNS[step[0]] : "";
    this.part("event").textContent = this.told(step, state);
    this.showLine(step ? step[1] : -1);
    this.showCounters(state);
    this.showRow(state);
    const over = Math.max(0, state.peak - run.capacity);
    this.part("used").textContent = count(state.sram);
    this.part("peak").textContent = count(state.peak);
    this.part("overflow").textContent = over ? `${count(over)} too many` : "0";
    this.part("overflow").classList.toggle("over", over > 0);
    this.root.querySelector("canvas").setAttribute("aria-label", `${this.part("event").textContent}. SRAM holds ${holds(state)}.`);
  }

  follow(state) {
    const tile = this.part("follow").checked && state.scopes.findLast((scope) => scope.variable === "i");
    if (!tile || (tile.start <= this.row && this.row < tile.stop)) return;
    this.row = Math.min(Math.ceil(tile.start / this.run.stride) * this.run.stride, Math.floor((this.run.rows - 1) / this.run.stride) * this.run.stride);
    this.part("chosen").value = this.row;
  }

  told(step, state) {
    const { run } = this;
    if (!step) return "before the first step: all inputs lie in HBM, SRAM is empty";
    const [kind, , thing] = step, [name, top, bottom, left, right, words] = run.things[thing] ?? [];
    const place = `${name}[${top}:${bottom}, ${left}:${right}]`;
    if (kind === COMPUTE) return `computed on chip: ${state.residents[thing].name} is overwritten, no word moves`;
    if (kind === BEGIN) return `a tile begins: ${name || "rows"} = rows ${top} to ${bottom - 1}`;
    if (kind === END) return `the tile ${name ? `${name} ` : ""}ends: what was made in it is released, ${count(state.sram)} ${run.unit} stay`;
    if (kind === ALLOC) return `${name} gets room: ${count(words)} words, none moves`;
    if (kind === LOAD) return `load ${place}: ${count(words)} words, HBM to SRAM`;
    return `store ${place}: ${count(words)} words, SRAM to HBM${kind === INIT ? ", to initialise" : ""}`;
  }

  showLine(place) {
    const line = this.lines[place];
    if (line === this.line) return;
    this.line?.classList.remove("now");
    this.line?.removeAttribute("aria-current");
    this.line = line;
    if (!line) return;
    line.classList.add("now");
    line.setAttribute("aria-current", "step");
    this.reveal();
  }

  // Scroll the listing to the line that runs, where that is not well inside.
  reveal() {
    const { line } = this, box = this.part("listing");
    if (!line) return;
    const { offsetTop: top, offsetHeight: high } = line;
    if (top < box.scrollTop + high || top > box.scrollTop + box.clientHeight - 2.2 * high) box.scrollTop = top - box.clientHeight / 2;
  }

  showCounters(state) {
    const all = { reads: 0, writes: 0 }, last = { reads: 0, writes: 0 };
    this.run.arrays.forEach((array, place) => {
      const now = state.traffic.get(array.name), end = this.run.final.traffic.get(array.name), cells = this.cells[place];
      for (const way of ["reads", "writes"]) [all[way], last[way]] = [all[way] + now[way], last[way] + end[way]];
      this.showCounter(cells, now, end);
    });
    this.showCounter(this.total, all, last);
  }

  showCounter(cells, now, end) {
    ["reads", "writes"].forEach((way, place) => {
      cells[way].textContent = count(now[way]);
      cells[way].title = `of ${count(end[way])}${way === "writes" && now.init ? `; ${count(now.init)} to initialise` : ""}`;
      cells.bars[place].hidden = !end[way];
      cells.bars[place].style.width = `${(100 * end[way]) / this.most}%`;
      cells.bars[place].firstChild.style.width = `${end[way] ? (100 * now[way]) / end[way] : 0}%`;
    });
  }

  showRow(state) {
    if (!this.run.numbers.length) return;
    const most = this.part("all").checked ? Infinity : FEW;
    const covers = state.residents.filter((block) => !block.keys && block.top <= this.row && this.row < block.bottom);
    for (const { row, blocks, arrays, chip, memory } of this.quantities) {
      const block = covers.findLast((one) => blocks.has(one.name));
      fillCell(chip, block ? this.run.rowOf(block, this.row, most) : null, block?.right - block?.left);
      const array = arrays.findLast((one) => this.run.state.traffic.get(one.name).writes || one.kind === "input") ?? arrays[0];
      fillCell(memory, array ? this.run.rowOfArray(state, array, this.row, most) : null, array?.cols);
      row.classList.toggle("now", block !== undefined && block.since === state.position);
    }
    this.part("where").textContent = covers.length ? "is on chip" : "is not on chip";
  }
}

const holds = (state) => state.residents.map((block) => block.name).join(", ") || "nothing";

// Numbers of a row, and of how many they are the first; a pointer that rests on them sees all their digits.
function fillCell(cell, values, all) {
  const written = values !== null && !values.every(Number.isNaN), cut = values !== null && values.length < all;
  const shown = () => `${[...values].map(four).join("  ")}${cut ? ` …\u00a0${values.length}\u00a0of\u00a0${all}` : ""}`;
  cell.textContent = values === null ? "–" : written ? shown() : "not written yet";
  cell.title = written ? [...values].join("  ") : "";
}

function four(value) {
  if (!Number.isFinite(value)) return brief(value);
  const size = Math.abs(value);
  return (size >= 1e4 || (size > 0 && size < 1e-3) ? value.toExponential(2) : value.toFixed(size < 10 ? 3 : 1)).replaceAll("-", "−");
}
