// Offer the versions that are beside this one, and stay on the same page where the other version has it. The list is in
// the head of the page and in the menu of a narrow window, so this runs twice.
for (const select of document.querySelectorAll(".version-select:empty")) {
  const { root, page, version } = select.dataset;
  for (const name of window.DOCS_VERSIONS ?? [version]) {
    select.add(new Option(name, name, name === version, name === version));
  }
  select.onchange = () => {
    const has = (window.DOCS_PAGES?.[select.value] ?? []).includes(page);
    location.href = `${root}../${select.value}/${has ? page : "index.html"}`;
  };
}
