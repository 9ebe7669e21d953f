//! Connection strings of collectors: every option and file that takes one refuses an invalid one before anything else
//! happens, without showing its value.

use crate::support::Bench;

const NOT_A_PORT: &str = "the port of a host is a number from 0 to 65535";

/// Every scheme with what it cannot hold: `?` is to be a fault, `!` what the help says.
const WRONG: [(&str, &str); 36] = [
    ("foo://h", "known schemes: elasticsearch://, "),
    ("rediss//h", "known schemes: "),
    ("redi://h:1", "did you mean `redis://`?"),
    ("Redis://h:1", "did you mean `redis://`?"),
    ("http://h:1", ""),
    ("nothing at all", "known schemes: "),
    ("redis://h:abc/0", NOT_A_PORT),
    ("redis://:pw@h:99999/0", NOT_A_PORT),
    ("redis://h/x", "the database must be a number, as in redis://host:6379/0"),
    ("redis://h?db=x", "the database must be a number"),
    ("redis://h?ssl_cert_reqs=none", "TLS options need rediss://"),
    ("rediss://h:1:2", NOT_A_PORT),
    ("rediss://h?ssl_ca_certs=/no/such/file", "name readable PEM files"),
    ("redissentinel://a:1,b:x/m", NOT_A_PORT),
    ("redissentinel://h/m?db=x", "the database must be a number"),
    ("mysql://u:p@h:99999/d", NOT_A_PORT),
    ("mysql+pymysql://u:p@h:x/d", NOT_A_PORT),
    ("mysql://u:p@h", "write it as mysql://user:password@host[:port]/database"),
    ("mariadb://u:p@h:-1/d", NOT_A_PORT),
    ("postgresql://u:p@h:70000/d", NOT_A_PORT),
    ("postgres://u:p@h:x/d", NOT_A_PORT),
    ("postgresql+psycopg2://h", "write it as postgresql://"),
    ("postgresql://u@h/d?sslmode=some", "sslmode must be disable, allow"),
    ("sqlite://", "write it as sqlite://PATH"),
    ("sqlite://:memory:", "name a file"),
    ("file://", "write it as file://PATH"),
    ("elasticsearch://h:x", NOT_A_PORT),
    ("elasticsearch+https://h:99999", NOT_A_PORT),
    ("elasticsearch://h/?index=A,b", ""),
    ("jaeger://h:x", NOT_A_PORT),
    ("jaeger+https://[::1]:99999", NOT_A_PORT),
    ("tempo://h:x", NOT_A_PORT),
    ("tempo+https://", "write it as scheme://"),
    ("otlp://h:x", NOT_A_PORT),
    ("otlps://h:99999", NOT_A_PORT),
    ("otlp://h:1?ssl_ca_certs=/x", "ssl_ca_certs needs TLS"),
];

#[cfg(feature = "mongodb")]
const MONGODB: [(&str, &str); 3] = [
    ("mongodb://h:x", NOT_A_PORT),
    ("mongodb://a:1,b:99999/", NOT_A_PORT),
    ("mongodb+srv://h", "name the hosts: mongodb://host1,host2/?tls=true"),
];
#[cfg(not(feature = "mongodb"))]
const MONGODB: [(&str, &str); 0] = [];

#[cfg(feature = "messaging")]
const MESSAGING: [(&str, &str); 2] =
    [("messaging://u:p@h:x/v", NOT_A_PORT), ("messaging+amqps://u:p@h:99999", NOT_A_PORT)];
#[cfg(not(feature = "messaging"))]
const MESSAGING: [(&str, &str); 0] = [];

/// As they are written by people, and right.
const RIGHT: [&str; 16] = [
    "redis://h",
    "redis://:p%40w@[::1]:6379/3?filter_error_trace=true",
    "rediss://u:p@h:1/0",
    "redissentinel://:p@a:1,b:2/m?db=5",
    "mysql://u:p@h/d",
    "mysql+mysqldb://u:p@h:3306/d?charset=utf8",
    "postgresql://u:p@h:5432/d?sslmode=require",
    "postgresql+psycopg2://u@/d?host=/run/pg",
    "sqlite:///tmp/x.db",
    "sqlite+pysqlite:///x.db",
    "file:///tmp/x.log",
    "elasticsearch://u:p@h:9200",
    "jaeger://h:16686",
    "tempo://h?tenant=t",
    "otlp://h:4318",
    "otlps://u:p@h",
];

#[test]
fn what_cannot_be_read_is_refused_with_its_place_before_anything_is_done() {
    for (connection, help) in WRONG.iter().chain(&MONGODB).chain(&MESSAGING) {
        let bench = Bench::new();
        let profiler = format!("profiler: {{ hmac_key: k, connection_string: \"{connection}\" }}");
        bench.load(
            "http://127.0.0.1:1",
            &profiler,
            "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]",
        );
        for command in
            [&["validate", "deployment.yaml"][..], &["validate", "scenario.yaml"], &["run", "scenario.yaml"]]
        {
            let ended = bench.run(command).expect_code(65);
            let place = "deployment.yaml:2:45";
            let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(said.contains(place) && said.contains(help), "{connection}: {help}\n{}", ended.stderr);
            assert!(!bench.path().join("runs").exists());
        }
    }
}

/// Text from the environment or from another file is not shown, whatever is wrong with it.
#[test]
fn what_is_referred_to_is_refused_without_its_value() {
    let mut rows: Vec<&str> =
        WRONG.iter().chain(&MONGODB).chain(&MESSAGING).map(|(connection, _)| *connection).collect();
    rows.push("hunter2-as-the-whole");
    for connection in rows {
        let bench = Bench::new();
        bench.write("c.txt", connection);
        for reference in ["{ env: C }", "{ file: c.txt }"] {
            let text = format!(
                "targets: {{ default: http://h }}\nprofiler: {{ hmac_key: k, connection_string: {reference} }}\n"
            );
            bench.write("d.yaml", text);
            let ended =
                Bench::end(bench.command(&["validate", "d.yaml"]).env("C", connection)).expect_code(65);
            // A scheme alone is in the help as well.
            assert!(connection.ends_with("://") || !ended.stderr.contains(connection), "{}", ended.stderr);
            assert!(ended.stderr.contains("d.yaml:2:"), "{}", ended.stderr);
        }
    }
}

#[test]
fn what_can_be_read_is_valid_although_nothing_answers_there() {
    for connection in RIGHT {
        let bench = Bench::new();
        let profiler = format!("profiler: {{ hmac_key: k, connection_string: \"{connection}\" }}");
        bench.load("http://127.0.0.1:1", &profiler, "");
        bench.run(&["validate", "deployment.yaml"]).expect_code(0);
    }
}

/// A scheme that this build leaves out is known all the same: it says which feature has it.
#[test]
fn a_scheme_that_needs_a_feature_says_so() {
    for (connection, feature, built) in [
        ("mongodb://h", "mongodb", cfg!(feature = "mongodb")),
        ("messaging://u:p@h", "messaging", cfg!(feature = "messaging")),
    ] {
        let bench = Bench::new();
        let profiler = format!("profiler: {{ hmac_key: k, connection_string: \"{connection}\" }}");
        bench.load("http://127.0.0.1:1", &profiler, "");
        let ended = bench.run(&["validate", "deployment.yaml"]).expect_code(0);
        let says = ended.stderr.contains(&format!("cargo build --release --features {feature}"));
        assert_eq!(says, !built, "{}", ended.stderr);
    }
}
