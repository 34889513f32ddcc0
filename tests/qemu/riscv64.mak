# SPDX-License-Identifier: GPL-2.0
# Devices of the emulated machine: `virt` with what the tests use, nothing else.
CONFIG_RISCV_VIRT=y
CONFIG_VIRTIO_MMIO=y
CONFIG_VIRTIO_NET=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_BLK=y
