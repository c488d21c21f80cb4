"""ICDC tables: where they are made, how manifests get into them, how they are published, found again and dropped."""
