"""How Sphinx builds the documentation's site from the pages that ``scripts.docs_site.pages`` writes."""

import tomllib
from pathlib import Path
from typing import Any

import airflow_provider_ips

_URLS = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["urls"]

project = "airflow-provider-ips"
copyright = "The authors of airflow-provider-ips. Apache License 2.0"  # noqa: A001 - Sphinx's own name for it
release = airflow_provider_ips.__version__
language = "en"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]

# Headings are addressed as on GitHub, so that a link is right in both places. A wrong one fails the build.
myst_heading_anchors = 6
suppress_warnings = [
    "myst.header",  # some pages begin a step below their title
    "misc.highlighting_failure",  # SQL with dbt's braces; whether code is right is said by tests/docs/test_blocks.py
]

# Docstrings are Sphinx's already, as everywhere in Airflow.
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = "airflow-provider-ips"
html_favicon = "static/favicon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["from-folder.js"]
templates_path = ["templates"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["sidebar-nav-bs"], "index": [], "search": []}
html_theme_options = {
    "logo": {"text": "airflow-provider-ips", "image_light": "static/favicon.svg", "image_dark": "static/favicon.svg"},
    "navbar_align": "left",
    "navbar_center": ["navbar-nav"],
    "navbar_end": ["version-select", "theme-switcher", "navbar-icon-links"],
    "navbar_persistent": ["search-button"],
    "icon_links": [{"name": "Source", "url": _URLS["Source"], "icon": "fa-brands fa-github"}],
    "primary_sidebar_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
    "navigation_depth": 3,
    "collapse_navigation": True,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "search_bar_text": "Search all pages",
    "back_to_top_button": False,
}
pygments_style = "default"

_CONNECTION = "https://airflow.apache.org/docs/apache-airflow-providers-apache-iceberg/stable/connections/iceberg.html"


def _connection_page(app: Any, env: Any, node: Any, contnode: Any) -> Any:  # noqa: ANN401, ARG001 - Sphinx calls it
    """Docstrings refer to Airflow's own pages by the labels that Airflow's docs have."""
    from docutils.nodes import reference

    if node.get("reftarget") == "howto/connection:iceberg":
        return reference("", "", contnode, refuri=_CONNECTION, internal=False)
    return None


def setup(app: Any) -> None:  # noqa: ANN401 - Sphinx calls it
    """Register what is above."""
    app.connect("missing-reference", _connection_page)
