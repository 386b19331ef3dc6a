#!/usr/bin/env python3
"""Says in its status where its storage is, which version of ops it runs on, and in which order its first hooks ran."""

import os
import pathlib

import ops.charm
import ops.main
import ops.model
import ops.version


class Stored(ops.charm.CharmBase):
    def __init__(self, *args):
        super().__init__(*args)
        observe = self.framework.observe
        observe(self.on.data_storage_attached, self.attached)
        observe(self.on.install, self.note)
        observe(self.on.start, self.started)
        self.order = pathlib.Path(self.charm_dir) / 'order'

    def note(self, event):
        with self.order.open('a') as order:
            order.write(os.environ['JUJU_DISPATCH_PATH'].removeprefix('hooks/') + ' ')

    def attached(self, event):
        (pathlib.Path(event.storage.location) / 'mark').write_text('written')
        self.note(event)

    def started(self, event):
        stores = self.model.storages['data']
        marks = [(store.location / 'mark').read_text() for store in stores]
        order = self.order.read_text().strip()
        text = f'ops {ops.version.version}: {order}: {" ".join(marks)}'
        self.unit.status = ops.model.ActiveStatus(text)


if __name__ == '__main__':
    ops.main.main(Stored)
