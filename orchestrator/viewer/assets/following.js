// Pages that keep up with what they show.

// Calls `look` again and again until the page is left, with a pause between. A failed look is said
// and tried again: a server that was restarted is found again.
export async function follow(look, { signal, pause = 3000, tell }) {
  while (!signal.aborted) {
    await delay(pause, signal);
    if (signal.aborted) return;
    if (document.hidden) continue;
    try {
      await look();
      tell("");
    } catch (error) {
      if (!signal.aborted) tell(`not up to date: ${error.message}`);
    }
  }
}

export function delay(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
