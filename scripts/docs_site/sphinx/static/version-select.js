// Offer the versions that are beside this one, and stay on the same page where the other version has it.
for (const select of document.querySelectorAll("#version-select")) {
  const { root, page, version } = select.dataset;
  for (const name of window.DOCS_VERSIONS ?? [version]) {
    select.add(new Option(name, name, name === version, name === version));
  }
  select.onchange = () => {
    const has = (window.DOCS_PAGES?.[select.value] ?? []).includes(page);
    location.href = `${root}../${select.value}/${has ? page : "index.html"}`;
  };
}
