"use strict";

// What a run is after each of its steps. Position p stands for the moment after p steps; 0 is the start.
const [BEGIN, END, LOAD, ALLOC, STORE, INIT, COMPUTE] = [0, 1, 2, 3, 4, 5, 6];
const KEY_TENSORS = new Set(["K", "V"]);

const tensorOf = (name) => name.split("[")[0].split("_")[0].replace(/^d(?=[A-Z])/, "");

class Run {
  constructor(data) {
    Object.assign(this, data);
    this.cols = data.cols ?? Infinity;
    this.numbers = decoded(data.numbers, data.wide);
    this.length = data.steps.length;
    this.arrays = data.arrays.map(([name, kind, rows, cols, at]) => new HbmArray(this, name, kind, rows, cols, at));
    this.byName = new Map(this.arrays.map((array) => [array.name, array]));
    for (const [kind, , thing] of data.steps) if (kind === LOAD || kind === STORE || kind === INIT) this.cut(data.things[thing]);
    for (const array of this.arrays) array.settle();
    this.pairs = this.pairGrid();
    this.rows = Math.max(1, ...this.arrays.filter((array) => !array.keys).map((array) => array.rows));
    this.state = this.start();
    this.survey();
  }

  cut([name, top, bottom, left, right]) {
    const array = this.byName.get(name);
    array.downs.add(top).add(bottom);
    array.acrosses.add(left).add(right);
  }

  pairGrid() {
    const [queries, keys] = ["Q", "K"].map((name) => this.arrays.find((array) => array.name.split("[")[0] === name));
    if (!this.blocks || !queries || !keys) return null;
    const [height, width] = this.blocks;
    return { down: Math.ceil(queries.rows / height), across: Math.ceil(keys.rows / width), height, width };
  }

  start() {
    const traffic = new Map(this.arrays.map((array) => [array.name, { reads: 0, writes: 0, init: 0 }]));
    const contents = new Map(this.arrays.map((array) => [array.name, array.initial()]));
    const moves = new Map(this.arrays.map((array) => [array.name, { read: new Uint16Array(array.tiles), written: new Uint16Array(array.tiles) }]));
    const visits = new Uint16Array(this.pairs ? this.pairs.down * this.pairs.across : 0);
    return { position: 0, sram: 0, peak: 0, moved: 0, residents: [], marks: [], scopes: [], pending: null, traffic, contents, moves, visits };
  }

  // One pass over all steps: the words moved after each, the final counts, and states to scrub from.
  survey() {
    this.words = new Float64Array(this.length + 1);
    const held = this.arrays.reduce((sum, array) => sum + array.kept + array.tiles, this.state.visits.length);
    this.interval = Math.max(64, Math.ceil((this.length * held) / 4e6));
    this.frames = [copied(this.state)];
    for (let position = 1; position <= this.length; position++) {
      this.apply(this.state);
      this.words[position] = this.state.moved;
      if (position % this.interval === 0) this.frames.push(copied(this.state));
    }
    this.final = copied(this.state);
    this.seek(0);
  }

  seek(position) {
    const here = this.state.position;
    const frame = Math.floor(position / this.interval);
    if (position < here || frame * this.interval > here) this.state = copied(this.frames[frame]);
    while (this.state.position < position) this.apply(this.state);
    return this.state;
  }

  apply(state) {
    const [kind, line, thing, sram, at] = this.steps[state.position++];
    if (kind === BEGIN) this.begin(state, this.things[thing]);
    else if (kind === END) this.end(state);
    else if (kind === COMPUTE) state.residents[thing] = { ...state.residents[thing], at, since: state.position };
    else if (kind === LOAD || kind === ALLOC) state.residents.push(this.block(state, kind, this.things[thing], sram, at));
    if (kind === LOAD || kind === STORE || kind === INIT) this.move(state, kind, this.things[thing], at);
    if (state.pending && kind > LOAD) this.visit(state);
    state.sram = sram;
    state.peak = Math.max(state.peak, sram);
  }

  begin(state, [variable, start, stop]) {
    state.marks.push(state.residents.length);
    state.scopes.push({ variable, start, stop });
    if (variable === "i" || variable === "j") state.pending = this.pairOf(state);
  }

  end(state) {
    state.residents.length = state.marks.pop();
    const { variable } = state.scopes.pop();
    if (variable === "i" || variable === "j") state.pending = null;
  }

  // The first step of tiles i and j in which something is made, not only loaded, is their visit of these pairs.
  visit(state) {
    const { top, bottom, left, right } = state.pending;
    for (let row = top; row < bottom; row++) for (let col = left; col < right; col++) state.visits[row * this.pairs.across + col] += 1;
    state.pending = null;
  }

  block(state, kind, [name, top, bottom, left, right, words], sram, at) {
    const keys = kind === LOAD ? this.byName.get(name).keys : /_j/.test(name);
    const cost = sram - state.sram;
    return { name, top, bottom, left, right, words, at, cost, keys, start: state.sram, loaded: kind === LOAD, since: state.position };
  }

  move(state, kind, [name, top, bottom, left, right, words], at) {
    const array = this.byName.get(name), traffic = state.traffic.get(name), moves = state.moves.get(name);
    if (kind === LOAD) traffic.reads += words;
    else traffic.writes += words;
    if (kind === INIT) traffic.init += words;
    state.moved += words;
    const counted = kind === LOAD ? moves.read : moves.written;
    for (const tile of array.tilesIn(top, bottom, left, right)) counted[tile] += 1;
    if (kind !== LOAD && at >= 0) array.write(state.contents.get(name), at, top, bottom, left, right);
  }

  // The tiles of pairs that the open tiles i and j stand for; null unless both are open.
  pairOf(state) {
    const open = (name) => state.scopes.findLast((scope) => scope.variable === name);
    const [i, j] = [open("i"), open("j")];
    if (!i || !j || !this.pairs) return null;
    const { height, width } = this.pairs;
    return {
      top: Math.floor(i.start / height), bottom: Math.ceil(i.stop / height), left: Math.floor(j.start / width), right: Math.ceil(j.stop / width),
    };
  }

  // The first elements of a row of a block on chip, as many as are kept, at most ``most``; null where none are.
  rowOf(block, row, most) {
    if (block.at < 0 || block.top < 0 || row % this.stride) return null;
    const width = Math.min(this.cols, block.right - block.left);
    const first = Math.ceil(block.top / this.stride);
    const from = block.at + (row / this.stride - first) * width;
    return this.numbers.subarray(from, from + Math.min(most, width));
  }

  rowOfArray(state, array, row, most) {
    if (row % this.stride || row >= array.rows || !state.contents.get(array.name).length) return null;
    const from = (row / this.stride) * array.width;
    return state.contents.get(array.name).subarray(from, from + Math.min(most, array.width));
  }
}

class HbmArray {
  constructor(run, name, kind, rows, cols, at) {
    Object.assign(this, { run, name, kind, rows, cols, at });
    this.keys = KEY_TENSORS.has(tensorOf(name));
    this.width = Math.min(run.cols, cols);
    this.kept = run.numbers.length ? Math.ceil(rows / run.stride) * this.width : 0;
    this.downs = new Set([0, rows]);
    this.acrosses = new Set([0, cols]);
  }

  // The edges of its tiles, once all are known.
  settle() {
    const sorted = (edges) => [...edges].sort((a, b) => a - b);
    [this.downs, this.acrosses] = [sorted(this.downs), sorted(this.acrosses)];
    this.tiles = (this.downs.length - 1) * (this.acrosses.length - 1);
    this.placeDown = new Map(this.downs.map((edge, place) => [edge, place]));
    this.placeAcross = new Map(this.acrosses.map((edge, place) => [edge, place]));
  }

  initial() {
    if (this.at >= 0) return this.run.numbers.slice(this.at, this.at + this.kept);
    return new this.run.numbers.constructor(this.kept).fill(NaN);
  }

  *tilesIn(top, bottom, left, right) {
    const wide = this.acrosses.length - 1;
    for (let row = this.placeDown.get(top); row < this.placeDown.get(bottom); row++)
      for (let col = this.placeAcross.get(left); col < this.placeAcross.get(right); col++) yield row * wide + col;
  }

  write(contents, at, top, bottom, left, right) {
    const { stride, numbers } = this.run;
    const width = Math.min(this.width, right) - left;
    if (width <= 0) return;
    for (let row = Math.ceil(top / stride); row * stride < bottom; row++, at += width)
      contents.set(numbers.subarray(at, at + width), row * this.width + left);
  }
}

function copied(state) {
  const values = (map, copy) => new Map([...map].map(([name, value]) => [name, copy(value)]));
  return {
    ...state,
    residents: [...state.residents],
    marks: [...state.marks],
    scopes: [...state.scopes],
    traffic: values(state.traffic, (one) => ({ ...one })),
    contents: values(state.contents, (one) => one.slice()),
    moves: values(state.moves, (one) => ({ read: one.read.slice(), written: one.written.slice() })),
    visits: state.visits.slice(),
  };
}

function decoded(text, wide) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return wide ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
}
