#!/usr/bin/env bash
#
# Installs, from Debian's or Ubuntu's packages, the servers that `cargo test` runs bench against when
# they are there, valgrind and shellcheck. None of them is started here: each test starts its own, on a free port.

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
open_dir

declare -A packages=(
  [nginx]=nginx-light [apache2]=apache2-bin [gunicorn]=gunicorn [node]=nodejs [prometheus]=prometheus
  [redis-server]=redis-server [openssl]=openssl [python3]=python3 [dot]=graphviz
  [chromium]=chromium [chromedriver]=chromium-driver [valgrind]=valgrind [shellcheck]=shellcheck
)
PATH=$PATH:/usr/sbin:/sbin
missing=()
for program in "${!packages[@]}"; do
  command -v "$program" >/dev/null || missing+=("${packages[$program]}")
done
if ((${#missing[@]})); then install "${missing[@]}"; fi
