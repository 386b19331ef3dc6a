#!/usr/bin/env python3
"""A charm in Python: each event of the unit's life is a method."""

import logging

import ops

logger = logging.getLogger(__name__)


class OpsHello(ops.CharmBase):
    def __init__(self, framework: ops.Framework):
        super().__init__(framework)
        framework.observe(self.on.start, self._on_start)
        framework.observe(self.on.config_changed, self._on_config_changed)
        framework.observe(self.on["greet"].action, self._on_greet)

    def _on_start(self, _: ops.StartEvent):
        logger.info("start")
        self._show()

    def _on_config_changed(self, _: ops.ConfigChangedEvent):
        logger.info("config-changed: greeting is %s", self.config["greeting"])
        self._show()

    def _on_greet(self, event: ops.ActionEvent):
        event.set_results({"message": f"{self.config['greeting']}, {event.params['name']}!"})

    def _show(self):
        self.unit.status = ops.ActiveStatus(str(self.config["greeting"]))


if __name__ == "__main__":
    ops.main(OpsHello)
