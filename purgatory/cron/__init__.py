"""Times of cron expressions in time zones, without a server. Needs the extra `service`."""
