"""The Airflow plugin, by which the API server gets our page and links."""
