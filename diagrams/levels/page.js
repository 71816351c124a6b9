"use strict";
(() => {
  const { releases, run } = JSON.parse(document.getElementById("data").textContent);
  const all = (where, what) => [...where.querySelectorAll(what)];
  const slider = document.getElementById("release");
  const tabs = all(document, "[role=tab]");
  const side = document.getElementById("side");
  const pictures = new Map(all(document, ".picture").map((each) => [each.dataset.machine, each]));
  const lists = new Map(all(document, ".pairs").map((each) => [each.dataset.machine, each]));
  let at = -1;  // the step of the run
  let here = {};  // where its instances are
  let machine = pictures.keys().next().value;
  let from = null;  // what was opened in the picture, to go back to

  // Releases ------------------------------------------------------------------------------------
  function release(at) {
    slider.value = at;
    const text = at ? releases[at - 1] : "all releases";
    document.getElementById("at").textContent = text;
    slider.setAttribute("aria-valuetext", text);
    for (const part of all(document, "[data-when]"))
      part.classList.toggle("gone", at > 0 && part.dataset.when[at - 1] === "0");
  }
  // The address keeps the machine and the release, for a link.
  function keep() {
    const of = releases[Number(slider.value) - 1];
    history.replaceState(null, "", `#${encodeURIComponent(machine)}${of ? `&release=${encodeURIComponent(of)}` : ""}`);
  }
  const gone = (part) => Number(slider.value) > 0 && part.dataset.when?.[slider.value - 1] === "0";

  // Machines ------------------------------------------------------------------------------------
  function show(name) {
    machine = name;
    for (const [each, part] of [...pictures, ...lists]) part.hidden = each !== name;
    for (const tab of tabs) {
      const chosen = tab.id === `tab-${name}`;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    middle(pictures.get(name).firstElementChild);
    if (run && at >= 0) marks();
  }

  // Scrolls a picture that is wider than its place, to have a part of it in the middle.
  const scroller = document.querySelector(".pictures");
  function middle(part) {
    const box = part.getBoundingClientRect(), place = scroller.getBoundingClientRect();
    scroller.scrollLeft += (box.left + box.right - place.left - place.right) / 2;
  }

  // Edges and rows ------------------------------------------------------------------------------
  function choose(part) {
    const list = lists.get(machine);
    const { pair, state } = part ? part.dataset : {};
    for (const each of all(pictures.get(machine), ".open")) each.classList.remove("open");
    const shown = all(list, ".pair").filter((each) => {
      const ends = JSON.parse(each.dataset.ends);
      each.hidden = !!part && (pair ? each.dataset.pair !== pair : !ends.includes(state));
      return !each.hidden;
    });
    const said = list.querySelector(".chosen");
    said.firstElementChild.textContent = !part ? "" : part.matches(".part") ? "What writes it." : pair ? "One edge." : `What leads to ${state} and from it.`;
    said.lastElementChild.hidden = !part;
    from = part || from;
    if (!part) return;
    part.classList.add("open");
    if (pair) shown[0].open = true;
    side.scrollTop = list.offsetTop;
    (shown[0]?.querySelector("summary") || side).focus({ preventScroll: true });
  }

  function tell(row) {  // a row's own part is made when it is opened first
    if (row.open && row.children.length === 1) {
      row.append(document.getElementById(`row-${row.dataset.row}`).content.cloneNode(true));
      for (const part of all(row, "[data-when]")) part.classList.toggle("gone", gone(part));
    }
  }
  document.addEventListener("toggle", (event) => {
    if (event.target.matches("details.a-row")) tell(event.target);
  }, true);

  // A run ---------------------------------------------------------------------------------------
  const steps = document.getElementById("steps");
  const items = steps ? all(steps, "li.step") : [];
  const last = items.length - 1;

  const made = (name, values, parent) => {
    const part = parent.appendChild(document.createElementNS(parent.namespaceURI, name));
    for (const [key, value] of Object.entries(values)) part.setAttribute(key, value);
    return part;
  };
  const edgeOf = (move) => {
    const ends = JSON.stringify([move.source, move.target]);
    const pair = all(lists.get(move.machine), ".pair").find((each) => JSON.stringify(JSON.parse(each.dataset.ends)) === ends);
    return pair && pictures.get(move.machine).querySelector(`.edge[data-pair="${pair.dataset.pair}"]`);
  };
  const nodeOf = (name, state) =>
    all(pictures.get(name), ".node[data-state]").find((each) => each.dataset.state === state);

  // The instances stand at the upper border of their states; a machine without instances marks it.
  function tokens() {
    for (const [name, instances] of Object.entries(here)) {
      const told = Object.keys(instances).length === 1 ? Object.values(instances)[0] : Object.entries(instances).map((each) => each.join(" ")).join(", ");
      document.querySelector(`#tab-${CSS.escape(name)} .places`).textContent = told;
      if (name !== machine) continue;  // what is hidden has no size
      const picture = pictures.get(name);
      for (const old of all(picture, ".token")) old.remove();
      for (const node of all(picture, ".node")) node.classList.remove("here");
      const count = {};
      const names = Object.keys(instances);
      for (const instance of names) {
        const node = nodeOf(name, instances[instance]);
        if (!node) continue;
        node.classList.add("here");
        if (names.length === 1) continue;
        const place = (count[instances[instance]] = (count[instances[instance]] || 0) + 1) - 1;
        const box = node.querySelector("path").getBBox();
        const width = 7.2 * instance.length + 8;
        const token = made("g", { class: "token" }, node);
        const x = place % 2 ? box.x + box.width - 16 : box.x - width + 16;
        const y = box.y - 10 - 16 * (place >> 1);
        made("rect", { x, y, width, height: 15, rx: 7 }, token);
        made("text", { x: x + width / 2, y: y + 11.5, "text-anchor": "middle" }, token).textContent = instance;
      }
    }
  }

  const places = (width) => [0, -width / 2 - 4, width / 2 + 4].flatMap((aside) =>
    [.5, .35, .65, .2, .8, .1, .9].map((part) => [part, aside]));

  // Numbers of the steps that have taken an edge, where there is room beside it.
  function chips() {
    for (const old of all(document, ".chip")) old.remove();
    const picture = pictures.get(machine);
    const taken = new Map();
    run.steps.slice(0, Math.max(at, 0)).forEach((moves, n) => moves.forEach((move) => {
      const edge = move.machine === machine && edgeOf(move);
      if (edge) taken.set(edge, [...(taken.get(edge) || []), n + 1]);
    }));
    const whole = picture.querySelector("g.graph");
    if (!whole) return;  // a machine's fields
    const full = all(whole, "text, .node > path").map((each) => each.getBBox());
    for (const [edge, numbers] of taken) {
      const told = numbers.length > 3 ? `${numbers[0]}…${numbers[numbers.length - 1]}` : numbers.join(", ");
      const width = 7 * told.length + 8;
      const path = edge.querySelector("path");
      const long = path.getTotalLength();
      for (const [part, aside] of places(width)) {
        const point = path.getPointAtLength(part * long);
        const x = point.x + aside, y = point.y;
        const box = { x: x - width / 2, y: y - 8, width, height: 16 };
        if (full.some((each) => box.x < each.x + each.width && each.x < box.x + width && box.y < each.y + each.height && each.y < box.y + 16)) continue;
        full.push(box);
        const chip = made("g", { class: "chip" }, whole);
        made("rect", { x: box.x, y: box.y, width, height: 16, rx: 4 }, chip);
        made("text", { x, y: y + 4, "text-anchor": "middle" }, chip).textContent = told;
        break;
      }
    }
  }

  // A sequence has a box for each of its places.
  function values() {
    const texts = run.values.slice();
    const changed = new Set();
    run.changes.slice(0, at).forEach((changes, n) => changes.forEach(([cell, text]) => {
      texts[cell] = text;
      if (n === at - 1) changed.add(cell);
    }));
    for (const value of all(document, "[data-cell]")) {
      const cell = Number(value.dataset.cell), places = Number(value.dataset.places);
      value.classList.toggle("changed", changed.has(cell));
      if (!places) {
        value.textContent = texts[cell];
        continue;
      }
      const held = ["<>", "[]"].includes(texts[cell]) ? [] : texts[cell].split("\n");
      value.replaceChildren(...Array.from({ length: Math.max(places, held.length) }, (_, n) => {
        const place = document.createElement("span");
        place.className = "place";
        place.textContent = held[n] ?? "";
        return place;
      }));
    }
    for (const part of all(document, ".part")) part.classList.toggle("now", !!part.querySelector(".changed"));
  }

  function marks() {
    tokens();
    chips();
  }

  function go(step) {
    step = Math.max(0, Math.min(last, step));
    if (at >= 0) items[at].removeAttribute("aria-current");
    at = step;
    items[at].setAttribute("aria-current", "step");
    const top = items[at].offsetTop - steps.querySelector(".heads").offsetHeight - 8;
    const bottom = items[at].offsetTop + items[at].offsetHeight + 8;
    if (top < steps.scrollTop) steps.scrollTop = top;
    else if (bottom > steps.scrollTop + steps.clientHeight) steps.scrollTop = bottom - steps.clientHeight;
    here = JSON.parse(JSON.stringify(run.first));
    for (const part of all(document, ".taken, .now")) part.classList.remove("taken", "now");
    run.steps.slice(0, at).forEach((moves, n) => {
      for (const move of moves) {
        here[move.machine][move.name] = move.target;
        edgeOf(move)?.classList.add(n === at - 1 ? "now" : "taken");
        if (n === at - 1) nodeOf(move.machine, move.target)?.classList.add("now");
      }
    });
    values();
    const moves = at ? run.steps[at - 1] : [];
    if (moves.length && !moves.some((move) => move.machine === machine)) show(moves[0].machine);
    else marks();
    const arrived = moves.filter((move) => move.machine === machine).map((move) => nodeOf(machine, move.target)).find((node) => node);
    if (arrived) middle(arrived);
    document.getElementById("where").textContent = at ? `Step ${at} of ${last}` : `First state, ${last} to come`;
    const detail = items[at].querySelector(".detail");
    const box = document.getElementById("detail");
    box.replaceChildren(...(detail ? [detail.firstElementChild.cloneNode(true)] : []));
    if (moves.length) {
      const line = document.createElement("p");
      line.className = "moves";
      line.textContent = moves.map((move) => `${move.name}: ${move.source} → ${move.source === move.target ? "again" : move.target}`).join("; ");
      box.prepend(line);
    }
    for (const button of all(document, "[data-go]"))
      button.disabled = ["first", "back"].includes(button.dataset.go) ? !at : at === last;
    side.scrollTop = 0;
  }
  const goes = { first: () => go(0), back: () => go(at - 1), next: () => go(at + 1), last: () => go(last) };

  // Keys and clicks -----------------------------------------------------------------------------
  const keys = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const part = event.target.closest?.(".picture [role=button]");
    const tab = event.target.closest?.("[role=tab]");
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (part && (event.key === "Enter" || event.key === " ")) choose(part);
    else if (event.key === "Escape") {
      choose(null);
      from?.focus();
    } else if (event.key === "[" || event.key === "]")
      release(Math.max(0, Math.min(releases.length, Number(slider.value) + (event.key === "]" ? 1 : -1)))), keep();
    else if (tab && sideways) {
      const next = tabs[(tabs.indexOf(tab) + sideways + tabs.length) % tabs.length];
      show(next.id.slice(4));
      keep();
      next.focus();
    } else if (run && keys[event.key] && event.target !== slider) goes[keys[event.key]]();
    else return;
    event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    const find = (what) => event.target.closest(what);
    const part = find(".picture [role=button]");
    if (part) choose(part);
    else if (find("[role=tab]")) show(find("[role=tab]").id.slice(4)), keep();
    else if (find("[data-all]")) choose(null);
    else if (find("[data-go]")) goes[find("[data-go]").dataset.go]();
    else if (find("[data-to]")) {
      event.preventDefault();
      go(Number(find("[data-to]").dataset.to));
    } else if (find("li.step")) go(items.indexOf(find("li.step")));
  });
  slider.addEventListener("input", () => { release(Number(slider.value)); keep(); });

  let closed = [];
  window.addEventListener("beforeprint", () => {
    choose(null);
    closed = all(document, ".pair:not([open])");
    for (const each of closed) each.open = true;
  });
  window.addEventListener("afterprint", () => closed.forEach((each) => { each.open = false; }));

  function decoded(text) {
    try { return decodeURIComponent(text); } catch { return ""; }  // a link that is cut off
  }
  const [named, wanted] = location.hash.slice(1).split("&release=").map(decoded);
  show(pictures.has(named) ? named : machine);
  release(releases.indexOf(wanted) + 1 || Number(document.body.dataset.shown));
  if (run) go(0);
})();
