// Time of a page that passes only when it is told to: timers, dates and frames of a document.
// A step advances it; between steps nothing happens, however long an agent thinks.
(start => {
  const real = {
    Date, setTimeout, frame: window.requestAnimationFrame.bind(window),
    fetch: window.fetch && window.fetch.bind(window),
  };
  const FRAME = 1000 / 60, MOST = 2000;
  let now = 0, last = 0, requests = 0, leaving = false, idle = [];
  const due = new Map();

  const turn = () => new Promise(done => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); done(); };
    channel.port2.postMessage(0);
  });
  const quiet = () => requests ? new Promise(done => idle.push(done)) : undefined;
  const ended = () => {
    if (--requests === 0) { idle.forEach(done => done()); idle = []; }
  };
  const add = (at, run, every) => {
    due.set(++last, { at, run, every, order: last });
    return last;
  };
  const callback = (handler, args) => () =>
    typeof handler === 'function' ? handler.apply(window, args) : (0, eval)(String(handler));

  window.setTimeout = (handler, delay, ...args) =>
    add(now + Math.max(1, +delay || 0), callback(handler, args), 0);
  window.setInterval = (handler, delay, ...args) => {
    const every = Math.max(4, +delay || 0);
    return add(now + every, callback(handler, args), every);
  };
  window.clearTimeout = window.clearInterval = id => { due.delete(id); };
  window.requestAnimationFrame = handler =>
    add((Math.floor(now / FRAME) + 1) * FRAME, () => handler(now), 0);
  window.cancelAnimationFrame = id => { due.delete(id); };
  window.requestIdleCallback = handler =>
    add(now + 1, () => handler({ didTimeout: false, timeRemaining: () => 50 }), 0);
  window.cancelIdleCallback = id => { due.delete(id); };
  performance.now = () => now;
  window.Date = class Date extends real.Date {
    constructor(...args) { args.length ? super(...args) : super(Math.floor(start + now)); }
    static now() { return Math.floor(start + now); }
  };
  if (real.fetch) {
    window.fetch = (...args) => {
      requests++;
      const answer = real.fetch(...args);
      answer.then(ended, ended);
      return answer;
    };
  }
  const send = XMLHttpRequest.prototype.send;
  XMLHttpRequest.prototype.send = function (...args) {
    requests++;
    this.addEventListener('loadend', ended, { once: true });
    try { return send.apply(this, args); } catch (error) { ended(); throw error; }
  };
  window.addEventListener('beforeunload', () => { leaving = true; });

  const next = end => {
    let found;
    for (const [id, timer] of due)
      if (timer.at <= end && (!found || timer.at < found[1].at)) found = [id, timer];
    return found;
  };
  const run = (id, timer) => {
    now = Math.max(now, timer.at);
    if (timer.every) timer.at = now + timer.every; else due.delete(id);
    try { timer.run(); } catch (error) { reportError(error); }
  };
  // Returns how much of the time passed: less where the page began to leave.
  const advance = async time => {
    const begun = now, end = now + time;
    leaving = false;
    await turn();
    for (let count = 0; count < MOST && !leaving; count++) {
      await quiet();
      const found = next(end);
      if (!found) { now = end; break; }
      run(...found);
      await turn();
    }
    if (!leaving) now = end;
    return now - begun;
  };
  // Animations that end have ended; those that do not are left alone.
  const still = async () => {
    for (const animation of document.getAnimations()) {
      const timing = animation.effect && animation.effect.getComputedTiming();
      if (timing && isFinite(timing.endTime) && timing.endTime <= 5000) animation.finish();
    }
    for (let count = 0; count < 2; count++) {
      await new Promise(done => { real.frame(done); real.setTimeout.call(window, done, 100); });
    }
  };
  Object.defineProperty(window, 'pageClock', {
    value: async time => { const passed = await advance(time); await still(); return passed; },
  });
})(START);
