// Excerpts under search results are fetched, which a browser refuses to a page that was opened as a file.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
