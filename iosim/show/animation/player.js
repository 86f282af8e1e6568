// Playing: one clock for one run or two, buttons, keys and the address of every step.
const SPEEDS = [1, 2, 4, 8, 16, 60, 240, 1000];
const TWEENED = 16; // steps a second up to which a tile is seen to travel
const WIDE = 960; // pixels from which a picture is fitted to the height of the window
const ZOOMS = [1.6, 1.4, 1.25, 1.1, 1]; // of the picture in the large layout
const MARGIN = 12;
const at = (id) => document.getElementById(id);

class Player {
  constructor(documents) {
    this.runs = documents.map((one) => new Run(one));
    this.order = inStep(this.runs);
    this.length = this.order.length;
    this.position = 0;
    this.playing = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)");
    this.build();
    this.listen();
    this.seek(0);
    this.resize();
  }

  build() {
    const home = at("runs"), most = mostWords(this.runs);
    home.className = this.runs.length > 1 ? "two" : "one";
    this.panels = this.runs.map((run) => {
      home.append(at("run").content.cloneNode(true));
      return new Panels(home.lastElementChild, run, most);
    });
    this.enlarge(this.runs.length > 1 && matchMedia("(max-width: 720px)").matches);
    this.stages = this.runs.map((run, place) => new Stage(home.children[place].querySelector("canvas"), run));
    at("scrub").max = this.length;
    at("speed").append(...SPEEDS.map((speed) => new Option(`${speed} step${speed > 1 ? "s" : ""}/s`, speed, false, speed === 4)));
  }

  get speed() { return Number(at("speed").value); }

  listen() {
    at("start").onclick = () => this.seek(0);
    at("end").onclick = () => this.seek(this.length);
    at("back").onclick = () => this.seek(this.position - 1);
    at("forward").onclick = () => this.advance();
    at("play").onclick = () => (this.playing ? this.pause() : this.play());
    at("large").onclick = () => this.enlarge(!this.large);
    at("scrub").oninput = () => this.seek(Number(at("scrub").value));
    for (const panel of this.panels) {
      panel.part("chosen").onchange = (event) => this.choose(Number(event.target.value));
      panel.part("follow").onchange = (event) => this.tick("follow", event.target.checked);
      panel.part("all").onchange = (event) => this.tick("all", event.target.checked);
    }
    document.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(at("runs"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      for (const stage of this.stages) stage.colours();
      this.draw(1);
    });
  }

  key(event) {
    const inside = event.target.tagName, { key } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || (inside === "INPUT" && event.target.type !== "range") || inside === "SELECT") return;
    if (key === " " && (inside === "BUTTON" || inside === "SUMMARY")) return;
    const deed = {
      " ": () => at("play").click(), ArrowLeft: () => at("back").click(), ArrowRight: () => at("forward").click(),
      Home: () => this.seek(0), End: () => this.seek(this.length), PageUp: () => this.seek(this.tile(-1)), PageDown: () => this.seek(this.tile(1)),
      "+": () => this.faster(1), "=": () => this.faster(1), "-": () => this.faster(-1),
      l: () => this.enlarge(!this.large), L: () => this.enlarge(!this.large),
      ArrowUp: () => this.choose(this.panels[0].row - this.runs[0].stride), ArrowDown: () => this.choose(this.panels[0].row + this.runs[0].stride),
    }[key];
    if (!deed) return;
    event.preventDefault();
    deed();
  }

  // The position at which the tile before or after this one begins.
  tile(way) {
    let to = this.position + way;
    while (to > 0 && to < this.length && this.stepAt(to)[0] !== BEGIN) to += way;
    return to;
  }

  stepAt(position) {
    const { run, after } = this.order.steps(position);
    return this.runs[run].steps[after - 1];
  }

  faster(by) {
    at("speed").selectedIndex = clamp(0, at("speed").selectedIndex + by, SPEEDS.length - 1);
  }

  choose(row) {
    for (const panel of this.panels) panel.choose(row);
  }

  // A tick that is set at one run is set at all.
  tick(name, checked) {
    for (const panel of this.panels) {
      panel.part(name).checked = checked;
      panel.show();
    }
  }

  seek(position) {
    this.moving = null;
    this.place(position);
    this.draw(1);
    if (this.playing && this.position === this.length) this.pause();
  }

  // One step on, seen to happen unless motion is unwanted.
  advance() {
    if (this.position === this.length) return;
    this.place(this.position + 1);
    this.moving = { run: this.order.steps(this.position).run, since: performance.now(), lasts: this.playing ? 900 / this.speed : 350 };
    if (this.still.matches || this.speed > TWEENED) this.moving = null;
    this.draw(this.moving ? 0 : 1);
    this.wake();
  }

  place(position) {
    this.position = clamp(0, position, this.length);
    this.order.places(this.position).forEach((place, run) => this.runs[run].seek(place));
    for (const panel of this.panels) panel.show();
    at("scrub").value = this.position;
    at("position").textContent = `${count(this.position)} / ${count(this.length)}`;
    at("scrub").setAttribute("aria-valuetext", `step ${this.position} of ${this.length}`);
  }

  draw(progress) {
    this.stages.forEach((stage, run) => stage.draw(this.moving && this.moving.run === run ? progress : 1));
  }

  // Large is for a projector: larger signs everywhere, and less beside the picture.
  enlarge(large) {
    this.large = large;
    document.documentElement.classList.toggle("large", large);
    at("large").setAttribute("aria-pressed", large);
    if (this.stages) this.resize();
  }

  resize() {
    const zooms = this.large && innerWidth >= WIDE ? ZOOMS : [1], room = Math.min(...this.stages.map((stage) => this.room(stage)));
    const fits = this.stages.map((stage) => [stage.canvas.clientWidth, room, zooms]);
    if (fits.join() === this.fits) return;
    this.fits = fits.join();
    this.stages.forEach((stage, place) => stage.resize(...fits[place]));
    for (const panel of this.panels) panel.reveal();
    this.draw(1);
  }

  // How high a picture may be for the words moved to be seen with it, where runs stand side by side, and all of it without scrolling.
  room(stage) {
    if (innerWidth < WIDE) return Infinity;
    const run = stage.canvas.closest(".run"), body = run.querySelector(".body"), below = run.querySelector(".numbers");
    const above = body.getBoundingClientRect().top - run.getBoundingClientRect().top;
    return Math.floor(at("runs").clientHeight - 2 * MARGIN - above - (this.runs.length > 1 ? below.offsetHeight + MARGIN : 0) - MARGIN);
  }

  play() {
    if (this.position === this.length) this.place(0);
    this.show(true);
    this.last = performance.now();
    this.owed = 0;
    this.wake();
  }

  pause() {
    this.show(false);
  }

  show(playing) {
    this.playing = playing;
    at("play").textContent = playing ? "⏸ pause" : "▶ play";
    at("play").setAttribute("aria-label", playing ? "Pause" : "Play");
    for (const status of document.querySelectorAll(".status")) status.setAttribute("aria-live", playing ? "off" : "polite");
  }

  wake() {
    this.waiting ??= requestAnimationFrame((now) => {
      this.waiting = null;
      this.frame(now);
    });
  }

  frame(now) {
    if (this.playing) this.owe(now);
    if (this.moving) {
      const progress = Math.min(1, Math.max(0, now - this.moving.since) / this.moving.lasts);
      if (progress === 1) this.moving = null;
      this.draw(progress);
    }
    if (this.playing || this.moving) this.wake();
  }

  owe(now) {
    this.owed += (Math.min(now - this.last, 250) / 1000) * this.speed;
    this.last = now;
    const steps = Math.floor(this.owed);
    this.owed -= steps;
    if (steps === 1) this.advance();
    else if (steps > 1) this.seek(this.position + steps);
    if (this.position === this.length && !this.moving) this.pause();
  }
}

// The most words that all arrays of a run together are read, or written.
function mostWords(runs) {
  const all = (run, way) => [...run.final.traffic.values()].reduce((sum, one) => sum + one[way], 0);
  return Math.max(1, ...runs.flatMap((run) => [all(run, "reads"), all(run, "writes")]));
}

// The order in which the steps of all runs are shown: runs move words at the same pace.
function inStep(runs) {
  const length = runs.reduce((sum, run) => sum + run.length, 0);
  const which = new Uint8Array(length + 1), afters = new Int32Array(length + 1), places = runs.map(() => 0);
  for (let position = 1; position <= length; position++) {
    const next = (run) => (places[run] < runs[run].length ? runs[run].words[places[run] + 1] : Infinity);
    const run = runs.length > 1 && next(1) < next(0) ? 1 : 0;
    which[position] = run;
    afters[position] = ++places[run];
  }
  return {
    length,
    steps: (position) => ({ run: which[position], after: afters[position] }),
    places: (position) => placesAt(position, runs, which, afters),
  };
}

function placesAt(position, runs, which, afters) {
  if (runs.length === 1) return [position];
  const first = position === 0 ? 0 : which[position] === 0 ? afters[position] : position - afters[position];
  return [first, position - first];
}

window.iosim = new Player(JSON.parse(at("data").textContent));
