-- What a line says happened to its request, and the salt of this store's hashes.
ALTER TABLE requests ADD COLUMN event VARCHAR;

CREATE TABLE store_facts (
    name VARCHAR,
    value VARCHAR
);
INSERT INTO store_facts SELECT 'salt', uuid()::VARCHAR;
