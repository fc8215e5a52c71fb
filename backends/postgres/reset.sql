-- What updates have changed, as it was seeded.
UPDATE world SET randomnumber = 1 + (id * 7919) % 10000
WHERE randomnumber <> 1 + (id * 7919) % 10000;
VACUUM ANALYZE world;
