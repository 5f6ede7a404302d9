// Questions to the server; the words are those of the Python interface. An aborted question is given up there, too.

export async function listRuns() {
  return read(await reach("/api/runs"));
}

export async function ask(question, body, signal) {
  return read(await reach(`/api/${question}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal,
  }));
}

export function isAbort(error) {
  return error.name === "AbortError";
}

async function reach(address, options) {
  try {
    return await fetch(address, options);
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Error("the server does not answer; is simplepcfg serve still running?");
  }
}

async function read(answer) {
  let content;
  try {
    content = await answer.json();
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Error(`the server answered ${answer.status} without JSON`);
  }
  if (!answer.ok) throw new Error(content.error ?? `the server answered ${answer.status}`);
  return content;
}
