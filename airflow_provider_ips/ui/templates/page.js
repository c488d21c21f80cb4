(() => {
  "use strict";
  const root = document.documentElement;

  // Airflow shows this page in a frame of the same origin. Its colours, its switch between light and dark and its time
  // zone are followed from there; a page that is opened by itself follows what Airflow has stored.
  let host = null;
  try {
    if (window.parent !== window && window.parent.document.getElementById("root")) host = window.parent;
  } catch { /* the frame of another site */ }
  const stored = (key) => { try { return localStorage.getItem(key); } catch { return null; } };
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const COLOURS = { bg: "bg", soft: "bg-subtle", muted: "bg-muted", fg: "fg", dim: "fg-muted", line: "border", link: "fg-info",
    brand: "brand-solid", "brand-fg": "brand-contrast", success: "success-solid", failed: "failed-solid",
    running: "running-solid", none: "none-solid", "failed-fg": "failed-fg", "success-fg": "success-fg",
    "warning-fg": "warning-fg" };

  const isDark = () => {
    if (host) return host.document.documentElement.classList.contains("dark");
    const theme = (stored("theme") || "system").replaceAll('"', "");
    return theme === "dark" || (theme !== "light" && dark.matches);
  };
  const paint = () => {
    root.classList.toggle("dark", isDark());
    if (!host) return;
    const theirs = host.getComputedStyle(host.document.documentElement);
    for (const [ours, name] of Object.entries(COLOURS)) {
      const value = theirs.getPropertyValue(`--chakra-colors-${name}`).trim();
      if (value) root.style.setProperty(`--${ours}`, value);
    }
    const font = theirs.getPropertyValue("--chakra-fonts-body").trim();
    if (font) root.style.setProperty("--font", font);
  };

  const zone = () => {
    const value = stored("timezone");
    try { return value ? JSON.parse(value) : undefined; } catch { return value; }
  };
  const tell = (moment) => {
    const options = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit",
      second: "2-digit", hourCycle: "h23" };
    const format = (timeZone) => new Intl.DateTimeFormat("sv-SE", { ...options, timeZone }).format(moment);
    try { return format(zone()); } catch { return format("UTC"); }
  };
  const tellTimes = () => {
    for (const time of document.querySelectorAll("time[datetime]")) {
      time.title = `${time.getAttribute("datetime")}`;
      time.textContent = tell(new Date(time.getAttribute("datetime")));
    }
  };

  paint();
  dark.addEventListener("change", paint);
  if (host) new MutationObserver(paint).observe(host.document.documentElement, { attributes: true });
  window.addEventListener("storage", (event) => {
    if (event.key === "theme") paint();
    if (event.key === "timezone") tellTimes();
  });

  // The frame may not move the page around it. A link in that page may.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[target=_top]");
    if (!link || !host || event.defaultPrevented) return;
    event.preventDefault();
    const outside = host.document.createElement("a");
    outside.href = link.href;
    if (event.ctrlKey || event.metaKey || event.shiftKey) outside.target = "_blank";
    host.document.body.append(outside);
    outside.click();
    outside.remove();
  });

  const table = () => {
    const list = document.querySelector("table[data-list]");
    if (!list) return;
    const body = list.tBodies[0];
    const rows = [...body.rows];
    const search = document.querySelector("[data-search]");
    const chips = [...document.querySelectorAll("[data-state]:is(button)")];
    const heads = [...list.querySelectorAll("th[data-sort]")];
    const count = document.querySelector("[data-count]");
    const given = new URLSearchParams(location.search);
    let state = given.get("state") || "", sort = given.get("sort") || "";
    if (search) search.value = given.get("q") || "";

    const value = (row, column) => row.cells[column]?.dataset.value ?? row.cells[column]?.textContent.trim() ?? "";
    const show = () => {
      const words = (search?.value || "").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !!(state && !row.dataset.state.split("|").includes(state)) || !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.state === state)));
      if (count) count.textContent = shown === rows.length ? `${shown}` : `${shown} of ${rows.length}`;
      const keep = new URLSearchParams(location.search);
      for (const [key, kept] of [["q", search?.value], ["state", state], ["sort", sort]]) {
        if (kept) keep.set(key, kept); else keep.delete(key);
      }
      history.replaceState(null, "", `${location.pathname}${keep.size ? `?${keep}` : ""}`);
    };
    const order = () => {
      const column = heads.findIndex((head) => head.dataset.sort === sort.replace(/^-/, ""));
      heads.forEach((head, at) => head.setAttribute("aria-sort",
        at !== column ? "none" : sort.startsWith("-") ? "descending" : "ascending"));
      if (column < 0) { body.append(...rows); return; }
      const at = heads[column].cellIndex, sign = sort.startsWith("-") ? -1 : 1;
      const known = (row) => value(row, at) !== "";
      body.append(...[...rows].sort((one, other) => {
        if (known(one) !== known(other)) return known(one) ? -1 : 1;
        const [a, b] = [value(one, at), value(other, at)];
        const difference = a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a.localeCompare(b);
        return sign * difference;
      }));
    };
    heads.forEach((head) => head.querySelector("button").addEventListener("click", () => {
      const name = head.dataset.sort;
      sort = sort === name ? `-${name}` : sort === `-${name}` ? "" : name;
      order(); show();
    }));
    chips.forEach((chip) => chip.addEventListener("click", () => {
      state = state === chip.dataset.state ? "" : chip.dataset.state;
      show();
    }));
    search?.addEventListener("input", show);
    order(); show();
  };

  document.addEventListener("DOMContentLoaded", () => {
    paint(); tellTimes(); table();
    document.querySelector("[data-refresh]")?.addEventListener("click", () => location.reload());
  });
})();
