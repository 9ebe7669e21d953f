#!/usr/bin/env bash
#
# Installs, in REAL_DIR, a program that checks manifests by the schemas of many releases of Kubernetes:
#
#     eval "$(tests/real/kubernetes.sh)"
#     cargo test --test it -- real_kubernetes
#
# Nothing runs afterwards. Standard output carries only `export BENCH_TEST_KUBERNETES_VALIDATE=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON (a Python from 3.11 on that can make
# virtual environments)

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE=1
venv=$REAL_DIR/venv-kubernetes
install_pins "$venv" "$repo/tests/real/requirements-kubernetes.txt"
printf 'export BENCH_TEST_KUBERNETES_VALIDATE=%q\n' "$venv/bin/kubernetes-validate"
