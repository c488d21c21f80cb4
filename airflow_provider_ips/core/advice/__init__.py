"""Problems found before a run meets them: expiring snapshots, broken lineage, lost files, targets nothing wrote to."""
