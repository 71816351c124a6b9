// A path is the whole of what is seen: it stands behind # in the address, so that a link is enough.
const at = (id) => document.getElementById(id);
const theatre = at("theatre"), message = at("message"), beside = at("beside"), find = at("find");
const own = document.body.dataset;
let path = ["0"];       // what is shown
let ended = ["0"];      // where forward leads
let asked = 0;          // answers that come late are left aside

function say(text, wrong = false) {
  message.textContent = text;
  message.classList.toggle("wrong", wrong);
}

async function ask(address, options) {
  const answer = await fetch(address, options);
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error);
  return data;
}

const query = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value));

function address() {
  const values = { path: path.join("."), beside: beside.value, declaration: own.declaration };
  return `#${query(values)}`;
}

async function show({ keep = true } = {}) {
  const mine = ++asked;
  theatre.setAttribute("aria-busy", "true");
  const values = query({ path: path.join("."), beside: beside.value, find: find.value });
  try {
    const view = await ask(`/api/view?${values}`);
    if (mine !== asked) return;
    theatre.style.setProperty("--lanes", Math.max(1, view.lanes));
    at("steps").innerHTML = view.chart;
    at("state").innerHTML = view.state;
    for (const button of at("state").querySelectorAll("[data-more]"))
      if (opened.has(button.dataset.more)) unfold(button, true);
    at("told").innerHTML = view.told;
    at("offers").innerHTML = view.steps;
    const last = at("steps").querySelector("li.step:last-of-type");
    last.setAttribute("aria-current", "step");
    at("steps").scrollTop = last.offsetTop + last.offsetHeight - at("steps").clientHeight;
    at("where").textContent = view.length ? `Step ${view.length}` : "First state";
    at("first").disabled = at("back").disabled = !view.length;
    at("forth").disabled = at("last").disabled = ended.length <= path.length;
    if (at("begin")) at("begin").value = path[0];
    if (keep) history.replaceState(null, "", address());
    const blocked = await ask(`/api/blocked?${query({ path: path.join(".") })}`);
    if (mine === asked) at("blocked").innerHTML = blocked.blocked;
    return true;
  } catch (error) {
    if (mine === asked) say(error.message, true);
    return false;
  } finally {
    if (mine === asked) theatre.setAttribute("aria-busy", "false");
  }
}

function go(wanted, { forget = false } = {}) {
  path = wanted;
  if (forget || !path.every((number, place) => ended[place] === number)) ended = path;
  say("");
  find.value = "";
  return show();
}

const take = (number) => go([...path, String(number)]);
const back = () => path.length > 1 && go(path.slice(0, -1));
const forth = () => path.length < ended.length && go(ended.slice(0, path.length + 1));

async function run(goal) {
  say(`Looking for the shortest run to: ${goal} …`);
  try {
    const found = await ask(`/api/until?${query({ path: path.join("."), goal })}`);
    if (found.path) await go(found.path.split("."), { forget: true });
    say(`${goal}: ${found.why}`);
  } catch (error) {
    say(error.message, true);
  }
}

async function load(file) {
  try {
    const found = await ask("/api/trace", { method: "POST", body: file });
    await go(found.path.split("."), { forget: true });
    say(`${file.name}: ${found.told}`);
  } catch (error) {
    say(`${file.name}: ${error.message}`, true);
  }
}

function read() {
  const values = new URLSearchParams(location.hash.slice(1));
  const of = values.get("declaration");
  if (of && of !== own.declaration) {
    say("The link is of another declaration, release or constants: its path isn't taken.", true);
    return show({ keep: false });
  }
  beside.value = values.get("beside") ?? "";
  if (beside.selectedIndex < 0) beside.value = "";
  path = (values.get("path") || "0").split(".");
  ended = path;
  return show();
}

const opened = new Set();   // the machines whose fields are all shown

function unfold(button, open) {
  button.setAttribute("aria-expanded", open);
  button.closest("tbody").nextElementSibling.hidden = !open;
}

theatre.addEventListener("click", (event) => {
  const more = event.target.closest("[data-more]");
  if (more) {
    const open = !opened.delete(more.dataset.more);
    if (open) opened.add(more.dataset.more);
    return void unfold(more, open);
  }
  const offer = event.target.closest("[data-take]");
  if (offer) return void take(offer.dataset.take);
  const link = event.target.closest("a[data-to]");
  if (link) event.preventDefault();
  const step = link ? link.dataset.to : event.target.closest("li[data-step]")?.dataset.step;
  if (step !== undefined && step !== String(path.length - 1)) go(path.slice(0, Number(step) + 1));
});
at("first").addEventListener("click", () => go(path.slice(0, 1)));
at("back").addEventListener("click", back);
at("forth").addEventListener("click", forth);
at("last").addEventListener("click", () => go(ended));
at("begin")?.addEventListener("change", (event) => go([event.target.value], { forget: true }));
beside.addEventListener("change", async () => {
  beside.blur();
  if (beside.value) say(`Making ${beside.value} ready …`);
  if (await show()) say("");
});
find.addEventListener("input", () => show());
at("until").addEventListener("submit", (event) => { event.preventDefault(); at("goal").blur(); run(at("goal").value); });
at("trace").addEventListener("change", (event) => { const [file] = event.target.files; if (file) load(file); event.target.value = ""; });
at("share").addEventListener("click", async () => {
  try { await navigator.clipboard.writeText(location.href); say("The link is copied."); } catch { say(location.href); }
});
addEventListener("hashchange", read);

function choose(way) {
  const offers = [...document.querySelectorAll("#offers [data-take]:not(:disabled)")];
  if (!offers.length) return;
  const now = offers.indexOf(document.activeElement);
  offers[Math.max(0, Math.min(offers.length - 1, now < 0 ? (way > 0 ? 0 : offers.length - 1) : now + way))].focus();
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const keys = {
    ArrowLeft: back, Backspace: back, ArrowRight: forth, Home: () => go(path.slice(0, 1)), End: () => go(ended),
    ArrowDown: () => choose(1), ArrowUp: () => choose(-1), "/": () => find.focus(), u: () => at("goal").focus(),
  };
  if (/^[1-9]$/.test(event.key)) {
    const offer = document.querySelectorAll("#offers [data-take]")[Number(event.key) - 1];
    if (offer && !offer.disabled) take(offer.dataset.take);
  } else if (keys[event.key]) keys[event.key]();
  else return;
  event.preventDefault();
});

read();
