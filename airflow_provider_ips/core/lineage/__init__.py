"""The walk that proves a range, what remains known of expired snapshots, and what to do about a gap."""
