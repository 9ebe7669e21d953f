-- The shop's database. One partition is large and lacks the index that the others have.
CREATE TABLE orders (id integer PRIMARY KEY);
INSERT INTO orders SELECT generate_series(1, 200);
INSERT INTO orders VALUES (1000);

CREATE TABLE movement (product_id integer NOT NULL, quantity integer NOT NULL);
INSERT INTO movement SELECT product, change FROM generate_series(1, 200) product, generate_series(1, 6000) change;
CREATE INDEX ON movement (product_id);
CREATE VIEW product AS SELECT product_id AS id, sum(quantity)::integer % 1000 AS stock FROM movement GROUP BY product_id;

CREATE TABLE line (id integer PRIMARY KEY, order_id integer NOT NULL REFERENCES orders, product_id integer NOT NULL);
INSERT INTO line SELECT id * 2, id, id FROM generate_series(1, 200) id;
INSERT INTO line SELECT 10000 + id, 1000, id FROM generate_series(1, 90) id;
CREATE INDEX ON line (order_id);

CREATE TABLE invoices (tenant integer PRIMARY KEY, next_number integer NOT NULL);
INSERT INTO invoices SELECT tenant, 1 FROM generate_series(0, 9) tenant;

CREATE TABLE customer (tenant integer NOT NULL, email text NOT NULL) PARTITION BY LIST (tenant);
CREATE TABLE customer_large PARTITION OF customer FOR VALUES IN (3);
CREATE TABLE customer_small PARTITION OF customer DEFAULT;
INSERT INTO customer SELECT 3, 'c' || id || '@shop.example' FROM generate_series(1, 2500000) id;
INSERT INTO customer SELECT tenant, 'c' || id || '@shop.example'
  FROM generate_series(0, 9) tenant, generate_series(1, 1000) id WHERE tenant <> 3;
CREATE INDEX ON customer_small (tenant, email);
VACUUM ANALYZE;
