#!/usr/bin/env bash
#
# Installs what takes the metrics that bench pushes: Prometheus, InfluxDB and VictoriaMetrics from Debian's or Ubuntu's
# packages, and in REAL_DIR statsd from npm. Nothing is started: each test starts its own, on free ports.
#
#     eval "$(tests/real/metrics.sh)"
#     cargo test -- real_metrics
#
# Standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository)

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset NODE_OPTIONS NODE_PATH
PATH=$PATH:/usr/sbin:/sbin
declare -A packages=([prometheus]=prometheus [influxd]=influxdb [victoria-metrics]=victoria-metrics)
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]})); then install "${missing[@]}" >&2; fi
for program in "${!packages[@]}"; do
  name=${program//-/_}
  printf 'export BENCH_TEST_METRICS_%s=%q\n' "${name^^}" "$(command -v "$program")"
done
node=$(install_node_modules metrics)
printf 'export BENCH_TEST_METRICS_STATSD=%q\n' "$node/statsd/stats.js"
