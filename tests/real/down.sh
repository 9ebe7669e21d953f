#!/usr/bin/env bash
#
# Stops what up.sh, broker.sh, drivers.sh, stores.sh, otel.sh, slurm.sh and openstack.sh started in the same REAL_DIR (default: .real
# in the repository).
# The installed software, databases and keys stay, so the next start is quick; to forget
# them too, delete the directory. Running this twice, or with nothing started, is fine.

# shellcheck source=tests/real/lib.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

[[ -d $REAL_DIR ]] || exit 0
for cloud in "$REAL_DIR"/clouds/*/ "$REAL_DIR"/openstack/; do
  [[ ! -d $cloud ]] || REAL_DIR=$cloud "${BASH_SOURCE[0]}"
done
open_dir
for name in mistral cinder-api cinder-volume cinder-scheduler nova-compute nova-api nova-scheduler nova-conductor neutron \
  glance placement keystone rabbitmq epmd mariadb redis mongodb; do   # collectors last: traced services fail without
  stop "$name"
done
for name in slurmd-n1 slurmd-n2 slurmd-n3 slurmctld munged; do
  stop "$name"
done
for name in stores-sentinel stores-redis stores-mariadb stores-postgres; do
  stop "$name"
done
forget_data stores
for name in otel-shop-grpc otel-shop-http otel-delivery otel-parcels otel-redis otel-postgres; do
  stop "$name"
done
forget_data otel
