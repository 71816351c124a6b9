"use strict";
// Each counterexample has a theatre of its own; keys are for the one that was used last.
const theatres = [...document.querySelectorAll(".theatre")];
let used = theatres[0];

theatres.forEach((theatre) => {
  const suffix = theatre.id.slice("theatre".length);
  const part = (name) => document.getElementById(name + suffix);
  const { first, changes } = JSON.parse(part("run").textContent);
  const steps = part("steps");
  const items = [...steps.querySelectorAll("li.step")];
  const cells = [];
  for (const cell of theatre.querySelectorAll("[data-cell]")) cells[cell.dataset.cell] = cell;
  const search = part("search");
  const hits = part("hits");
  const last = items.length - 1;
  const texts = items.map((item) => item.textContent.replace(/\s+/g, " ").toLowerCase());
  let at = -1;
  let found = [];

  // The last step may reach no state, where it leaves a range: the state before it stays.
  function state(step) {
    const values = first.slice();
    for (const changed of changes.slice(0, step)) for (const [cell, text] of changed) values[cell] = text;
    const now = new Set(step && step <= changes.length ? changes[step - 1].map(([cell]) => cell) : []);
    const before = state.shown || [];
    cells.forEach((cell, number) => {
      if (before[number] !== values[number]) cell.textContent = values[number];
      cell.classList.toggle("changed", now.has(number));
    });
    state.shown = values;
  }

  function into(box, item) {
    const head = steps.querySelector(".heads").offsetHeight;
    const top = item.offsetTop - head - 8;
    const bottom = item.offsetTop + item.offsetHeight + 8;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }

  function go(step, { note = true } = {}) {
    step = Math.max(0, Math.min(last, step));
    if (step === at) return;
    if (at >= 0) items[at].removeAttribute("aria-current");
    at = step;
    items[at].setAttribute("aria-current", "step");
    into(steps, items[at]);
    state(at);
    part("where").textContent = at ? `Step ${at} of ${last}` : `First state, ${last} steps to come`;
    part("after").textContent =
      !at ? "The first state" : at > changes.length ? "The state before the last step" : `The state after step ${at}`;
    const detail = items[at].querySelector(".detail");
    part("detail").replaceChildren(...(detail ? [detail.firstElementChild.cloneNode(true)] : []));
    for (const button of theatre.querySelectorAll("[data-go]"))
      button.disabled = ["first", "back"].includes(button.dataset.go) ? !at : at === last;
    tell();
    if (note) try { history.replaceState(null, "", `#step${suffix}-${at}`); } catch { /* where a page has no address */ }
  }

  function tell() {
    const place = found.indexOf(at);
    hits.textContent = !search.value ? "" : !found.length ? "none" : place < 0 ? `${found.length}` : `${place + 1} of ${found.length}`;
  }

  function look() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = words.length ? items.map((_, n) => n).filter((n) => words.every((w) => texts[n].includes(w))) : [];
    items.forEach((item, n) => item.classList.toggle("hit", found.includes(n)));
    if (found.length && !found.includes(at)) go(found.find((n) => n > at) ?? found[0]);
    tell();
  }

  const moves = { first: () => go(0), back: () => go(at - 1), next: () => go(at + 1), last: () => go(last) };
  const keys = { ArrowLeft: "back", ArrowRight: "next", Home: "first", End: "last" };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (used !== theatre) return;
    const inside = theatre.contains(event.target);
    if (event.target === search) {
      if (event.key === "Enter" && found.length) {
        event.preventDefault();
        const later = event.shiftKey ? found.filter((n) => n < at).pop() : found.find((n) => n > at);
        go(later ?? (event.shiftKey ? found[found.length - 1] : found[0]));
      } else if (event.key === "Escape") {
        search.value = "";
        look();
        steps.focus();
      }
      return;
    }
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
      search.select();
      return;
    }
    const vertical = document.activeElement === steps && { ArrowUp: "back", ArrowDown: "next" }[event.key];
    const sideways = event.key.startsWith("Arrow") || inside ? keys[event.key] : undefined;
    const move = sideways || vertical;
    if (!move || event.shiftKey) return;
    event.preventDefault();
    if (!inside) theatre.scrollIntoView({ block: "nearest" });
    moves[move]();
  });

  theatre.addEventListener("click", (event) => {
    const to = event.target.closest("[data-to]");
    const button = event.target.closest("button");
    const item = event.target.closest("li.step");
    if (to) {
      event.preventDefault();
      go(Number(to.dataset.to));
    } else if (button && button.dataset.go) {
      moves[button.dataset.go]();
    } else if (button) {
      const still = button.closest("tbody").nextElementSibling;
      still.hidden = !still.hidden;
      button.setAttribute("aria-expanded", String(!still.hidden));
    } else if (item) {
      go(items.indexOf(item));
    }
  });
  search.addEventListener("input", look);

  theatre.addEventListener("focusin", () => { used = theatre; });
  theatre.addEventListener("pointerdown", () => { used = theatre; });

  const address = new RegExp(`^#step${suffix}-(\\d+)$`);
  const linked = address.exec(location.hash);
  go(linked ? Number(linked[1]) : 0, { note: false });
  if (linked) {
    used = theatre;
    theatre.scrollIntoView();
  }
  window.addEventListener("hashchange", () => {
    const to = address.exec(location.hash);
    if (to) go(Number(to[1]));
  });
  window.addEventListener("beforeprint", () => go(last, { note: false }));
});
