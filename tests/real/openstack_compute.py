"""Starts nova-compute with the fake driver, except that snapshots have a content: the fake driver never uploads any, so
that their images wait for it for ever.

    openstack_compute.py --config-file FILE
"""

import io
import sys

from nova.cmd import compute  # before anything else: it chooses how threads work
from nova.compute import task_states
from nova.image import glance
from nova.virt import fake


def snapshot(_driver, context, _instance, image_id, update_task_state):
    # The two states that a real driver goes through.
    update_task_state(task_state=task_states.IMAGE_PENDING_UPLOAD)
    uploading = task_states.IMAGE_UPLOADING
    update_task_state(task_state=uploading, expected_state=task_states.IMAGE_PENDING_UPLOAD)
    images = glance.API()
    name = images.get(context, image_id)["name"]
    image = {"name": name, "disk_format": "raw", "container_format": "bare"}
    images.update(context, image_id, image, data=io.BytesIO(bytes(65536)))


fake.FakeDriver.snapshot = snapshot
sys.exit(compute.main())
