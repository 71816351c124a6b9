// Python in a worker: its files come in the first message, and requests in all others.
let python, answered, playground, cancelled = false;
let queue = Promise.resolve();

async function bytes(text) {
  const raw = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (raw[0] !== 0x1f) return raw;
  const unpacked = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(unpacked).arrayBuffer());
}

const script = (text) => import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));

async function start({ files, runs }) {
  const names = Object.keys(files);
  const all = Object.fromEntries(await Promise.all(names.map(async (name) => [name, await bytes(files[name])])));
  // Pyodide asks for its files by fetch: each is here, and there is nothing else to fetch.
  self.fetch = async (address) => {
    const found = all[String(address.url ?? address).split("/").pop()];
    if (!found) throw new Error(`there is no ${address}`);
    return new Response(found, { headers: { "Content-Type": "application/wasm" } });
  };
  const [{ loadPyodide }, { default: createPyodideModule }] =
    await Promise.all([script(all["pyodide.mjs"]), script(all["pyodide.asm.mjs"])]);
  python = await loadPyodide({
    indexURL: "https://python.invalid/", createPyodideModule, stdout: () => {}, stderr: () => {},
    lockFileContents: JSON.parse(new TextDecoder().decode(all["lock.json"])),
  });
  python.unpackArchive(all["epochfence.zip"], "zip", { extractDir: "/epochfence" });
  python.runPython("import sys; sys.path.insert(0, '/epochfence')");
  const module = python.pyimport("epochfence.diagrams.playground.browser");
  playground = module.playground(JSON.stringify(runs));
  answered = module.answered;
}

const ask = (name, values) => answered(playground, name, values);

async function answer({ id, name, values }) {
  let text = ask(name, values);
  if (name === "until" && text === "{}") {
    cancelled = false;
    for (;;) {
      text = ask("more", "{}");
      const { seen } = JSON.parse(text);
      if (!seen) break;
      if (cancelled) { text = JSON.stringify({ path: null, why: `cancelled: ${seen} searched` }); break; }
      postMessage({ seen });
      await new Promise((go) => setTimeout(go));
    }
  }
  postMessage({ id, text });
}

onmessage = ({ data }) => {
  if (data.files) queue = start(data).catch((error) => postMessage({ failed: String(error.message ?? error).split("\n").at(-1) }));
  else if (data.name === "cancel") { cancelled = true; postMessage({ id: data.id, text: "{}" }); }
  else queue = queue.then(() => answer(data)).catch((error) => {
    const line = String(error.message ?? error).trim().split("\n").at(-1);
    postMessage({ id: data.id, text: JSON.stringify({ error: `internal error, please report it: ${line}` }) });
  });
};
