#!/usr/bin/env bash
#
# Installs Rally, in REAL_DIR, so that a test can let it and bench run the same task file and compare what they report:
#
#     eval "$(tests/real/rally.sh)"
#     cargo test --all-features --test it -- real_rally --nocapture
#
#     eval "$(tests/real/openstack.sh)"
#     tests/real/rally.sh openstack [TASK]   # the same in a real cloud, with a table of figures; see rally_openstack.py
#
# Nothing runs afterwards. Without `openstack`, standard output carries only `export BENCH_TEST_…=…`, on failure `false`.
#
# Settings (environment): REAL_DIR (default .real in the repository), REAL_PYTHON (a Python from 3.11 on that can make
# virtual environments), BENCH (default target/release/bench)

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
command=${1-up}
[[ $command == openstack && $# -le 2 || $command == up && $# -le 1 ]] || die "usage: $me [openstack [TASK]]"
[[ $command == openstack ]] || trap '[[ $? == 0 ]] || echo false' EXIT

open_dir
unset PYTHONPATH PYTHONHOME
export PYTHONDONTWRITEBYTECODE=1

venv=$REAL_DIR/venv-rally pins=$repo/tests/real/requirements-rally.txt
if [[ $command == openstack ]]; then
  venv+=-openstack pins=${pins%.txt}-openstack.txt
  : "${BENCH:=$repo/target/release/bench}"
  [[ -x $BENCH ]] || die "no program at $BENCH: build it, or name it in BENCH"
  [[ -n ${OS_AUTH_URL-} ]] || die 'OS_AUTH_URL names no cloud: eval "$(tests/real/openstack.sh)"'
fi
if ! cmp -s "$pins" "$venv/installed.txt" || ! "$venv/bin/rally" --version >/dev/null 2>&1; then
  if ! base=$(base_python); then
    [[ -n ${REAL_PYTHON-} ]] || install python3 python3-venv
    base=$(base_python) || die "no Python from 3.11 on with venv and ensurepip; name one in REAL_PYTHON"
  fi
  say "installing Rally for $("$base" --version) in $venv"
  rm -rf -- "$venv"
  "$base" -m venv "$venv" 9>&-
  timeout 600 "$venv/bin/python" -m pip --disable-pip-version-check --no-cache-dir --quiet \
    install -r "$pins" >"$log/pip-rally.log" 2>&1 </dev/null 9>&- ||
    { tail -n 10 "$log/pip-rally.log" >&2; die "pip failed, see $log/pip-rally.log"; }
  cp "$pins" "$venv/installed.txt"
fi
if [[ $command == up ]]; then
  printf 'export BENCH_TEST_RALLY=%q\n' "$venv/bin/rally"
  exit
fi
exec 9>&-
exec "$venv/bin/python" -I "$repo/tests/real/rally_openstack.py" "$venv/bin/rally" "$BENCH" "$REAL_DIR/rally-openstack" "${@:2}"
