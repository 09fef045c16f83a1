// Questions to the server that this page came from, and addresses of pages.

// Returns what the server says as data; throws with its explanation.
export async function ask(path, parameters = {}, options = {}) {
  const response = await fetch(address(`/api/${path}`, parameters), options);
  const isData = response.headers.get("content-type") === "application/json";
  if (!isData) throw new Error(`${response.status}: ${(await response.text()).trim()}`);
  const data = await response.json();
  if (!response.ok) throw new Error(data.error);
  return data;
}

// Has the server do something; returns what it says as data.
export function post(path, given, options = {}) {
  const headers = { "Content-Type": "application/json" };
  return ask(path, {}, { ...options, method: "POST", headers, body: JSON.stringify(given) });
}

// Yields what the server says line by line, each line as data; throws with its explanation.
export async function* readLines(path, parameters, options) {
  const response = await fetch(address(`/api/${path}`, parameters), options);
  if (!response.ok) {
    const isData = response.headers.get("content-type") === "application/json";
    throw new Error(isData ? (await response.json()).error : `${response.status}: ${await response.text()}`);
  }
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

export async function askText(path, parameters) {
  const response = await fetch(address(`/api/${path}`, parameters));
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

// Returns the address of a page; empty parameters are left out.
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== "" && value !== null && value !== undefined) query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}
