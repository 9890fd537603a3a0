"""What alerts watch: conditions in the database and failovers, compared with the open alerts."""
