-- made: when the answer was kept, in milliseconds since 1970. It has no index,
-- which every change would pay for; it is read once an hour.
ALTER TABLE idempotency ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
UPDATE idempotency SET made = CAST(strftime('%s', 'now') AS INTEGER) * 1000;
